// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab behind an adapter, without sockets: what peers and the host's programs send and receive, live and in a replayed record.

use lab::profile::HOSTS;
use lab::{Folder, LabFile, Overrides, parse, parse_with};
use nettlp::adapter::{Backend, Full, Outbox, PeerPath, Received};
use nettlp::carrier::SendError;
use nettlp::wire::messaging::{MsixEntry, Question, Reply, Request};
use proptest::prelude::*;
use riser_worlds::adapter::{LabBackend, MAX_PEER_READS, Timing};
use riser_worlds::models;
use session::external::{RecordedLab, Replay};
use session::{CaptureOptions, Session};
use std::collections::VecDeque;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use testkit::Bytes;
use tlp::{
    Bdf, Body, Completion, Data, Duration, MemoryOp, MemoryRequest, Message, MessageRouting, PayloadPool,
    Prefixes, Repr, Span, Status, Tag, Time, Tlp,
};

const PLAIN: &str =
    "version = 1\n[host]\nprofile = \"ideal\"\n[[slot]]\nname = \"adapter\"\ndevice = \"nettlp-adapter\"\n";
const MMIO: &str = "driver = \"mmio\"\nstart_after_ms = 0\nexercise_bytes = 1500\n";

fn lab(keys: &str) -> String {
    format!("{PLAIN}[slot.nettlp-adapter]\n{keys}")
}

fn backend(text: &str, timing: Timing) -> LabBackend {
    let path = Path::new("labs/nettlp/test.toml");
    let file = LabFile { lab: parse(&models(), path, text).unwrap(), base: "labs/nettlp".into() };
    LabBackend::new(Session::new(&file).unwrap(), timing).unwrap()
}

fn way(peer: u8) -> PeerPath {
    PeerPath { port: 0x3000, peer: SocketAddr::new(Ipv4Addr::new(127, 15, 0, peer).into(), 0x3000) }
}

/// Sent TLPs, in order.
struct Sent {
    out: VecDeque<(PeerPath, Tlp)>,
    device: Option<PeerPath>,
    /// Number of TLPs that each way still accepts.
    room: usize,
    pool: PayloadPool,
}

impl Sent {
    fn new() -> Sent {
        Sent { out: VecDeque::new(), device: None, room: usize::MAX, pool: PayloadPool::new() }
    }
}

impl Outbox for Sent {
    fn room(&self, _: PeerPath) -> usize {
        self.room
    }

    fn send(&mut self, way: PeerPath, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), SendError> {
        self.room = self.room.checked_sub(1).ok_or(SendError::NoRoom)?;
        let mut bytes = vec![0; len];
        fill(&mut bytes);
        self.out.push_back((way, Tlp::parse(&bytes, &self.pool).expect("sent TLPs are legal")));
        Ok(())
    }

    fn device(&self, _: Tag) -> Option<PeerPath> {
        self.device
    }
}

fn give(lab: &mut LabBackend, now: Time, way: PeerPath, tlp: &Tlp, out: &mut Sent) -> Result<(), Full> {
    let mut bytes = vec![0; tlp.wire_len()];
    tlp.emit(&mut bytes);
    let parsed = Repr::parse(&bytes).unwrap();
    let data = &bytes[parsed.data.clone()];
    lab.handle(
        now,
        &Received { way, repr: &parsed.repr, prefixes: &parsed.prefixes, data, behind_bytes: 0 },
        out,
    )
}

fn memory(op: MemoryOp, requester: u16, tag: u16, span: Span, data: Data) -> Tlp {
    let body = MemoryRequest { op, requester: Bdf::from_bits(requester), tag: Tag::from_bits(tag), span };
    Tlp::new(Repr::new(Body::Memory(body)), data)
}

fn read(requester: u16, tag: u16, address: u64, len: u32) -> Tlp {
    memory(MemoryOp::Read, requester, tag, Span::covering(address, len).unwrap(), Data::NONE)
}

fn write(pool: &PayloadPool, address: u64, bytes: &[u8]) -> Tlp {
    let span = Span::covering(address, bytes.len() as u32).unwrap();
    memory(MemoryOp::Write, 0, 0, span, Data::Carried(pool.copy(bytes)))
}

/// Advances the clock and the lab.
fn advance(lab: &mut LabBackend, now: &mut Time, by: Duration, out: &mut Sent) {
    *now += by;
    lab.advance(*now, out);
    assert_eq!(lab.failure(), None);
}

/// Lets the host enumerate.
fn booted(text: &str, timing: Timing) -> (LabBackend, Time) {
    let (mut lab, mut now) = (backend(text, timing), Time::ZERO);
    for _ in 0..20 {
        advance(&mut lab, &mut now, Duration::from_ms(1), &mut Sent::new());
    }
    assert!(lab.slot().is_enabled());
    (lab, now)
}

fn completion(tlp: &Tlp) -> Completion {
    match tlp.repr.body {
        Body::Completion(c) => c,
        _ => panic!("expected a completion, found {tlp}"),
    }
}

/// Joins the completions of one read, and checks each against the request (`PCIe 5.0 §2.3.1.1`).
fn together(request: &Tlp, parts: &[Tlp], mps: usize) -> Vec<u8> {
    let Body::Memory(m) = request.repr.body else { panic!() };
    let mut bytes = Vec::new();
    for part in parts {
        let c = completion(part);
        assert_eq!((c.requester, c.tag, c.status), (m.requester, m.tag, Status::Success));
        assert_eq!(u32::from(c.byte_count), m.span.byte_count() - bytes.len() as u32);
        assert_eq!(u64::from(c.lower_address), (m.span.first_byte() + bytes.len() as u64) & 0x7f);
        assert!(part.data.len() <= mps);
        bytes.extend_from_slice(part.data.bytes().unwrap());
    }
    assert_eq!(bytes.len(), m.span.byte_count() as usize);
    bytes
}

#[derive(Clone, Debug)]
enum Op {
    Write { peer: u8, address: u64, bytes: Vec<u8> },
    Read { peer: u8, address: u64, len: u32 },
}

fn op() -> impl Strategy<Value = Op> {
    // One page and a bit, so that accesses overlap; within 4 KiB, like TLPs.
    let place = (0..4096_u64, 1..=4096_u32).prop_map(|(at, len)| (at, len.min(4096 - at as u32)));
    let bytes = |len| proptest::collection::vec(any::<u8>(), len as usize);
    let small = (0..4096_u64, 1..=256_u32).prop_map(|(at, len)| (at, len.min(4096 - at as u32)));
    prop_oneof![
        (0..3_u8, small).prop_flat_map(move |(peer, (at, len))| bytes(len)
            .prop_map(move |bytes| Op::Write { peer, address: 0x10_0000 + at, bytes })),
        (0..3_u8, place).prop_map(|(peer, (at, len))| Op::Read { peer, address: 0x10_0000 + at, len }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Peers share tags and memory. Each read returns the bytes of earlier writes, with its own requester ID and tag. A later write may
    /// pass it (`PCIe 5.0 §2.4.1`).
    #[test]
    fn peers_read_what_was_written_before(ops in proptest::collection::vec(op(), 1..60), off in any::<bool>()) {
        let timing = if off { Timing::Off } else { Timing::On };
        let (mut lab, mut now) = booted(PLAIN, timing);
        let (mut out, mut memory) = (Sent::new(), vec![0; 4096]);
        let mut expected: Vec<(u8, Tlp, Vec<Vec<u8>>)> = Vec::new();
        for op in &ops {
            match op {
                Op::Write { peer, address, bytes } => {
                    let tlp = write(&out.pool, *address, bytes);
                    prop_assert!(give(&mut lab, now, way(*peer), &tlp, &mut out).is_ok());
                    memory[(address - 0x10_0000) as usize..][..bytes.len()].copy_from_slice(bytes);
                    for (_, earlier, values) in &mut expected {
                        let Body::Memory(m) = earlier.repr.body else { unreachable!() };
                        for (at, byte) in (*address..).zip(bytes) {
                            let place = at.checked_sub(m.span.first_byte()).map(|i| i as usize);
                            if let Some(values) = place.and_then(|i| values.get_mut(i)) {
                                values.push(*byte);
                            }
                        }
                    }
                }
                Op::Read { peer, address, len } => {
                    let tlp = read(u16::from(*peer) << 8, expected.len() as u16, *address, *len);
                    prop_assert!(give(&mut lab, now, way(*peer), &tlp, &mut out).is_ok());
                    let bytes = memory[(address - 0x10_0000) as usize..][..*len as usize].to_vec();
                    expected.push((*peer, tlp, bytes.into_iter().map(|byte| vec![byte]).collect()));
                }
            }
        }
        for _ in 0..100 {
            advance(&mut lab, &mut now, Duration::from_us(2), &mut out);
        }
        for (peer, request, values) in expected {
            let (_, tag) = request.repr.transaction();
            let mut parts = Vec::new();
            while parts.last().is_none_or(|last| !completion(last).is_last()) {
                let ours = |(to, tlp): &(PeerPath, Tlp)| *to == way(peer) && completion(tlp).tag == tag;
                let at = out.out.iter().position(ours);
                prop_assert!(at.is_some(), "{request} was not answered");
                parts.extend(at.and_then(|at| out.out.remove(at)).map(|(_, tlp)| tlp));
            }
            let bytes = together(&request, &parts, 256);
            let wrong = bytes.iter().zip(&values).position(|(byte, legal)| !legal.contains(byte));
            prop_assert_eq!(wrong, None, "{}", request);
        }
        prop_assert!(out.out.is_empty());
    }
}

/// Rows: address and expected status.
#[test]
fn unserved_requests_are_answered_with_their_status() {
    let (mut lab, mut now) = booted(PLAIN, Timing::Off);
    for (address, status) in [(0x1000, Status::Success), (0x7_0000_0000_0000, Status::UnsupportedRequest)] {
        let mut out = Sent::new();
        give(&mut lab, now, way(0), &read(0x100, 9, address, 4), &mut out).unwrap();
        advance(&mut lab, &mut now, Duration::from_us(5), &mut out);
        let (to, tlp) = out.out.pop_front().unwrap();
        let c = completion(&tlp);
        assert_eq!((to, c.status, c.tag.bits(), c.requester.bits()), (way(0), status, 9, 0x100));
    }
    assert_eq!(lab.slot().counters().failed, 1);
}

/// Peers get completions as devices get them from the root complex: cut at the lab's Read Completion Boundary (`PCIe 5.0 §2.3.1.1`),
/// without ID-based Ordering, which no register of the root complex enables.
#[test]
fn completions_to_peers_end_at_rcb_and_mps() {
    for (rcb, expected) in [(64, [256, 256]), (128, [192, 256])] {
        let text = lab("") + &format!("[link]\nmps_bytes = 256\nrcb_bytes = {rcb}\n");
        let ((mut lab, mut now), mut out) = (booted(&text, Timing::Off), Sent::new());
        let mut asked = read(0x100, 1, 0x10_0040, 512);
        asked.repr.attr = tlp::Attributes::all();
        give(&mut lab, now, way(0), &asked, &mut out).unwrap();
        advance(&mut lab, &mut now, Duration::from_ms(1), &mut out);
        let parts: Vec<usize> = out.out.iter().map(|(_, tlp)| tlp.data.len()).collect();
        assert_eq!(parts[..2], expected, "{rcb}");
        assert_eq!(parts.iter().sum::<usize>(), 512);
        assert!(out.out.iter().all(|(_, tlp)| tlp.repr.attr == tlp::Attributes::COMPLETED));
    }
}

/// LibTLP's reads cross 4 KiB boundaries, but no TLP of a fabric may (`PCIe 5.0 §2.2.7`).
#[test]
fn read_across_4_kib_is_answered_completely() {
    let (mut lab, mut now) = booted(PLAIN, Timing::Off);
    let mut out = Sent::new();
    let bytes: Vec<u8> = (1..=100).collect();
    for (at, part) in [(0x1fc0, &bytes[..64]), (0x2000, &bytes[64..])] {
        let write = write(&out.pool, at, part);
        give(&mut lab, now, way(0), &write, &mut out).unwrap();
    }
    let Tlp { repr, .. } = read(0x100, 9, 0x1fc3, 61);
    let asked = Received { way: way(0), repr: &repr, prefixes: &Prefixes::NONE, data: &[], behind_bytes: 30 };
    lab.handle(now, &asked, &mut out).unwrap();
    advance(&mut lab, &mut now, Duration::from_us(5), &mut out);
    let parts: Vec<Tlp> = out.out.drain(..).map(|(_, tlp)| tlp).collect();
    assert_eq!(completion(&parts[0]).byte_count, 91);
    let data = parts.iter().flat_map(|part| part.data.bytes().unwrap().to_vec());
    assert_eq!(data.collect::<Vec<u8>>(), bytes[3..94]);
}

#[test]
fn disabled_bytes_of_a_write_are_unchanged() {
    let (mut lab, mut now) = booted(PLAIN, Timing::Off);
    let mut out = Sent::new();
    let first = write(&out.pool, 0x2000, &[0xaa; 8]);
    // Byte enables 0101 and 1010 of two DWs (`PCIe 5.0 §2.2.5` allows them where the address is a multiple of 8).
    let span = Span::from_fields(0x2000, 2, 0b0101, 0b1010).unwrap();
    let second = memory(MemoryOp::Write, 0, 0, span, Data::Carried(out.pool.copy(&[1, 2, 3, 4, 5, 6, 7, 8])));
    for tlp in [first, second, read(0, 1, 0x2000, 8)] {
        give(&mut lab, now, way(0), &tlp, &mut out).unwrap();
    }
    advance(&mut lab, &mut now, Duration::from_us(5), &mut out);
    let (_, answer) = out.out.pop_front().unwrap();
    assert_eq!(answer.data.bytes().unwrap(), [1, 0xaa, 3, 0xaa, 0xaa, 6, 0xaa, 8]);
}

#[test]
fn peer_reads_are_bounded() {
    let (mut lab, mut now) = booted(PLAIN, Timing::On);
    let mut out = Sent::new();
    let taken =
        (0..4000).take_while(|n| give(&mut lab, now, way(0), &read(0, *n, 0, 4096), &mut out).is_ok());
    assert_eq!(taken.count(), MAX_PEER_READS);
    assert!(!lab.is_ready());
    // Answers that a peer does not take wait, and another peer is still served.
    out.room = 0;
    advance(&mut lab, &mut now, Duration::from_ms(30), &mut out);
    assert!(lab.is_ready() && out.out.is_empty());
    out.room = usize::MAX;
    advance(&mut lab, &mut now, Duration::from_us(1), &mut out);
    assert_eq!(out.out.len(), MAX_PEER_READS * 4096 / 256);
    // An answer that is not taken for a second is dropped.
    out.room = 0;
    give(&mut lab, now, way(0), &read(0, 1, 0, 64), &mut out).unwrap();
    for _ in 0..3 {
        advance(&mut lab, &mut now, Duration::from_ms(600), &mut out);
    }
    assert_eq!(lab.slot().counters().undeliverable, 1);
    let refusals = lab.session().refusals();
    let lost: Vec<_> = refusals.iter().filter(|refusal| refusal.rule == "link-up").collect();
    assert!(
        matches!(lost[..], [lost] if lost.count == 1 && lost.tlp.starts_with("CplD, len 16, ")),
        "{refusals:?}"
    );
}

/// A session announces device software by a Vendor_Defined message of Type 1, which a receiver drops silently; one of Type 0 is an
/// Unsupported Request (`PCIe 5.0 §2.2.8.6`).
#[test]
fn announcements_do_not_count_as_refusals() {
    let (mut lab, now) = booted(PLAIN, Timing::On);
    for (code, refused) in [(0x7f, 0), (0x7e, 1)] {
        let message = Message::new(MessageRouting::ToRootComplex, Bdf::from_bits(0x1b00), code);
        let tlp = Tlp::new(Repr::new(Body::Message(message)), Data::NONE);
        give(&mut lab, now, way(0), &tlp, &mut Sent::new()).unwrap();
        let refusals = lab.session().refusals();
        let rules: Vec<_> =
            refusals.iter().filter(|refusal| !refusal.routine).map(|refusal| refusal.rule).collect();
        assert_eq!(rules, vec!["message-supported"; refused], "{code:#x}");
    }
    assert_eq!(lab.slot().counters().dropped, 2);
}

/// Memory that answers like a pseudo memory device.
struct Psmem {
    base: u64,
    bytes: Vec<u8>,
}

impl Psmem {
    fn serve(&mut self, tlp: &Tlp, pool: &PayloadPool) -> Option<Tlp> {
        let Body::Memory(m) = tlp.repr.body else { panic!("expected a request, found {tlp}") };
        let at = (m.span.first_byte() - self.base) as usize;
        let len = m.span.byte_count() as usize;
        if m.op == MemoryOp::Write {
            self.bytes[at..at + len].copy_from_slice(tlp.data.bytes().unwrap());
            return None;
        }
        let body = Completion {
            byte_count: len as u16,
            lower_address: (m.span.first_byte() & 0x7f) as u8,
            length_dw: Some(m.span.length_dw() as u16),
            ..Completion::new(Bdf::from_bits(0x100), m.requester, m.tag)
        };
        Some(Tlp::new(Repr::new(Body::Completion(body)), Data::Carried(pool.copy(&self.bytes[at..at + len]))))
    }
}

/// Serves the host until its driver sends no more requests. Returns their number.
fn serve(
    lab: &mut LabBackend,
    now: &mut Time,
    out: &mut Sent,
    mut edit: impl FnMut(Tlp) -> Vec<Tlp>,
) -> usize {
    let mut psmem = Psmem { base: lab.slot().bar_address(0), bytes: vec![0; 1 << 20] };
    let mut requests = 0;
    for _ in 0..400 {
        advance(lab, now, Duration::from_us(20), out);
        while let Some((to, tlp)) = out.out.pop_front() {
            requests += 1;
            for answer in psmem.serve(&tlp, &out.pool).into_iter().flat_map(&mut edit) {
                give(lab, *now, to, &answer, out).unwrap();
            }
        }
    }
    requests
}

/// Lets the host enumerate. Its driver then continues, because device software is present.
fn mmio(timing: Timing) -> (LabBackend, Time, Sent) {
    let mut out = Sent::new();
    out.device = Some(way(7));
    let (mut lab, mut now) = (backend(&lab(MMIO), timing), Time::ZERO);
    while !lab.slot().is_enabled() {
        advance(&mut lab, &mut now, Duration::from_us(1), &mut out);
    }
    (lab, now, out)
}

#[test]
fn the_host_writes_and_reads_back_through_the_device_software() {
    for timing in [Timing::On, Timing::Off] {
        let (mut lab, mut now, mut out) = mmio(timing);
        serve(&mut lab, &mut now, &mut out, |tlp| vec![tlp]);
        let counters = lab.slot().counters();
        assert!(counters.host_writes >= 6 && counters.host_reads >= 1, "{counters:?}");
        assert_eq!((counters.strays, counters.host_timeouts, counters.nobody), (0, 0, 0));
    }
}

/// Each completion is duplicated, and one with another tag and requester precedes it. The data is still correct.
#[test]
fn duplicate_and_foreign_completions_are_only_counted() {
    let (mut lab, mut now, mut out) = mmio(Timing::On);
    let foreign = |tlp: &Tlp, change: &dyn Fn(&mut Completion)| {
        let mut tlp = tlp.clone();
        let Body::Completion(c) = &mut tlp.repr.body else { panic!() };
        change(c);
        tlp
    };
    serve(&mut lab, &mut now, &mut out, |tlp| {
        let requester = foreign(&tlp, &|c| c.requester = Bdf::from_bits(0x500));
        let tag = foreign(&tlp, &|c| c.tag = Tag::from_bits(c.tag.bits() ^ 0x80));
        let address = foreign(&tlp, &|c| c.lower_address ^= 0x40);
        vec![requester, tag, address, tlp.clone(), tlp]
    });
    let counters = lab.slot().counters();
    assert_eq!(counters.strays, counters.host_reads * 4);
    let refusals = lab.session().refusals();
    let kinds: Vec<_> = refusals.iter().map(|refusal| (refusal.rule, refusal.count)).collect();
    let reads = counters.host_reads;
    assert_eq!(kinds, [("unexpected-completion", reads * 3), ("lower-address", reads)]);
}

/// The report names both ports, because Requester ID and tag are those of a request.
#[test]
fn completion_on_other_ports_is_dropped_with_both_ports() {
    let (mut lab, mut now, mut out) = mmio(Timing::On);
    let wrong = PeerPath { peer: SocketAddr::new(way(7).peer.ip(), 0x7777), ..way(7) };
    let mut psmem = Psmem { base: lab.slot().bar_address(0), bytes: vec![0; 1 << 20] };
    let mut answers = Vec::new();
    while answers.is_empty() {
        advance(&mut lab, &mut now, Duration::from_us(20), &mut out);
        answers.extend(out.out.drain(..).filter_map(|(_, tlp)| psmem.serve(&tlp, &out.pool)));
    }
    give(&mut lab, now, wrong, &answers[0], &mut out).unwrap();
    assert_eq!((lab.slot().counters().strays, lab.session().refusals().len()), (1, 0));
    assert_eq!(lab.slot().open_host_reads(), answers.len() as u64);
    let drops: Vec<_> = lab.drops().iter().map(ToString::to_string).collect();
    let text = "1 dropped, wrong_port: the completion has other UDP ports than its request; first at ";
    let ports =
        "from 127.15.0.7:30583: UDP port 0x7777 to 0x3000, expected 0x3000 to 0x3000 of 127.15.0.7: CplD, ";
    assert!(drops.len() == 1 && drops[0].starts_with(text) && drops[0].contains(ports), "{drops:?}");
}

/// The run fails because no completion arrives in time. The report gives the reason: each has a wrong Lower Address (`PCIe 6.0
/// §2.2.9.1`).
#[test]
fn wrong_lower_address_is_explained() {
    let (mut lab, mut now, mut out) = mmio(Timing::On);
    let mut asked = Vec::new();
    serve(&mut lab, &mut now, &mut out, |mut tlp| {
        if let Body::Completion(c) = &mut tlp.repr.body {
            asked.push(c.lower_address);
            c.lower_address ^= 0x40;
        }
        vec![tlp]
    });
    for _ in 0..1000 {
        now += Duration::from_ms(1);
        lab.advance(now, &mut out);
    }
    assert!(lab.failure().unwrap().contains("no completion"));
    let strays = lab.slot().counters().strays;
    let refusals = lab.session().refusals();
    let refusal = refusals.iter().find(|refusal| refusal.rule == "lower-address").unwrap();
    let (found, expected) = (format!("{:#x}", asked[0] ^ 0x40), format!("{:#x}", asked[0]));
    assert_eq!((&refusal.found, &refusal.expected, refusal.count), (&found, &expected, strays));
    let text = refusal.to_string();
    let line = format!(
        "Lower Address {found}, expected {expected} (PCIe 6.0 §2.2.9.1, rule lower-address); first at "
    );
    assert!(text.starts_with("slot `adapter`: ") && text.contains(&line), "{text}");
    assert!(text.contains(" us: CplD, len "), "{text}");
    let timeouts = refusals.iter().filter(|refusal| refusal.rule == "completion-timeout");
    assert!(
        timeouts.clone().count() >= 1 && timeouts.clone().all(|t| t.tlp.starts_with("MRd, ")),
        "{refusals:?}"
    );
    let report = lab.session().report("lab", &fabric::Stop::Failed("no completion".into()), 0.0);
    assert!(report.to_string().contains(&text), "{report}");
}

#[test]
fn unanswered_reads_end_with_the_hosts_timeout() {
    let (mut lab, mut now, mut out) = mmio(Timing::On);
    for _ in 0..1000 {
        now += Duration::from_ms(1);
        lab.advance(now, &mut out);
    }
    // The test's driver fails on it, and reports the reason.
    let why = lab.failure().unwrap();
    assert!(why.contains("no completion"), "{why}");
}

#[test]
fn without_device_software_reads_are_refused_at_once() {
    let mut lab = backend(&lab(MMIO), Timing::On);
    let (mut now, mut out) = (Time::ZERO, Sent::new());
    for _ in 0..10 {
        now += Duration::from_ms(1);
        lab.advance(now, &mut out);
    }
    assert!(lab.failure().is_some() && lab.slot().counters().nobody > 0);
}

/// Device software may open its sockets late. Posted writes wait in the host until then, and none is lost.
#[test]
fn station_repeats_nic_setup_until_answered() {
    let (mut lab, mut now) = booted(&lab("driver = \"station\"\nstart_after_ms = 0\n"), Timing::On);
    let mut out = Sent::new();
    advance(&mut lab, &mut now, Duration::from_ms(1200), &mut out);
    assert_eq!(lab.slot().station().opened, 3, "at once, and every 500 ms");
    let MsixEntry { address, data } = lab.slot().msix_table(lab.slot().id())[1];
    give(&mut lab, now, way(0), &write(&PayloadPool::new(), address, &data.to_le_bytes()), &mut out).unwrap();
    advance(&mut lab, &mut now, Duration::from_ms(1200), &mut out);
    assert_eq!(lab.slot().station().opened, 3);
}

#[test]
fn writes_wait_for_credits() {
    let keys = "driver = \"mmio\"\nstart_after_ms = 0\nexercise_bytes = 200000\n";
    let (mut lab, mut now) = (backend(&lab(keys), Timing::On), Time::ZERO);
    let mut out = Sent::new();
    (out.device, out.room) = (Some(way(7)), 0);
    for _ in 0..20 {
        advance(&mut lab, &mut now, Duration::from_ms(1), &mut out);
    }
    // The driver has written as much as fits into egress queue and receive buffer.
    let before = lab.slot().counters().host_writes;
    assert!((65..200).contains(&before), "{before}");
    out.room = usize::MAX;
    serve(&mut lab, &mut now, &mut out, |tlp| vec![tlp]);
    let counters = lab.slot().counters();
    assert!(counters.host_writes >= 200_000 / 256 && counters.undeliverable == 0, "{counters:?}");
}

#[test]
fn messaging_reports_the_enumerated_function() {
    let mut early = backend(PLAIN, Timing::On);
    assert_eq!(
        early.message(Time::ZERO, Request::Bar4Start.of_physical()),
        None,
        "the host has not enumerated yet"
    );
    let (mut lab, now) = booted(PLAIN, Timing::On);
    let base = lab.slot().bar_address(0);
    assert!(base >= 0x8000_0000 && base.is_multiple_of(16 << 20), "{base:#x}");
    assert_eq!(lab.message(now, Request::Bar4Start.of_physical()), Some(Reply::Bar4Start(base)));
    assert_eq!(
        lab.message(now, Request::DeviceId.of_physical()),
        Some(Reply::DeviceId(Bdf::from_bits(0x100)))
    );
    let Some(Reply::MsixTable(table)) = lab.message(now, Request::MsixTable.of_physical()) else { panic!() };
    assert!(table.iter().all(|e| e.address == 0xfee0_0000));
    assert_eq!(table[1].data, table[0].data + 1);
    // Vendor and Device ID, and BAR 4.
    assert_eq!(lab.config_read(now, 0), 0x8022_3776);
    assert_eq!(u64::from(lab.config_read(now, 8)), base);
    assert_eq!((lab.register_read(0), lab.register_read(0x10)), (0x0123_4567, 0x100));
    // Command: clears Bus Master Enable, so that peers' reads fail.
    lab.config_write(now, 1, 0b0001, 0b010);
    let mut out = Sent::new();
    give(&mut lab, now, way(0), &read(0, 0, 0, 4), &mut out).unwrap();
    lab.advance(now + Duration::from_us(10), &mut out);
    assert_eq!(completion(&out.out[0].1).status, Status::UnsupportedRequest);
}

/// Lets the host enumerate an adapter with two virtual functions, which take 100 ms after VF Enable (`PCIe 5.0 §9.3.3.3.1`).
fn booted_with_virtual_functions() -> (LabBackend, Time) {
    let (mut lab, mut now) = booted(&lab("vfs = 2\nbar_bytes = 65536\n"), Timing::On);
    for _ in 0..10 {
        advance(&mut lab, &mut now, Duration::from_ms(20), &mut Sent::new());
    }
    (lab, now)
}

/// Function 0 is the adapter, functions 1 and 2 are its virtual functions.
#[test]
fn messaging_reports_each_virtual_function() {
    let (mut lab, now) = booted_with_virtual_functions();
    let mut ask = |request, function| lab.message(now, Question { request, function });
    let mut first = None;
    for (function, id) in [(1, 0x101), (2, 0x102)] {
        assert_eq!(ask(Request::DeviceId, function), Some(Reply::DeviceId(Bdf::from_bits(id))));
        let Some(Reply::Bar4Start(address)) = ask(Request::Bar4Start, function) else { panic!("{function}") };
        let first = *first.get_or_insert(address);
        assert_eq!(address, first + u64::from(function - 1) * 65536);
        let Some(Reply::MsixTable(table)) = ask(Request::MsixTable, function) else { panic!("{function}") };
        assert_eq!(table[0].address, 0xfee0_0000);
    }
    assert_eq!(ask(Request::DeviceId, 3), None);
}

/// A peer that names a virtual function as its requester sends requests of this function; any other requester means the
/// adapter's own function.
#[test]
fn requests_of_peers_have_the_id_of_their_virtual_function() {
    let (mut lab, mut now) = booted_with_virtual_functions();
    let capture = Bytes::default();
    let handle = lab.session_mut().capture(capture.clone(), CaptureOptions::default()).unwrap();
    let mut out = Sent::new();
    let requesters = [0x102, 0x1a00, 0x101];
    for (tag, requester) in (0..).zip(requesters) {
        give(&mut lab, now, way(1), &read(requester, tag, 0x1000, 64), &mut out).unwrap();
        advance(&mut lab, &mut now, Duration::from_ms(1), &mut out);
    }
    let answered: Vec<u16> = out.out.iter().map(|(_, tlp)| completion(tlp).requester.bits()).collect();
    assert_eq!(answered, requesters, "answers have the peer's own requester ID");
    lab.session_mut().fabric.take_tap();
    handle.finish().unwrap();
    let bytes = capture.0.take();
    let (mut reader, mut sent) = (capture::Reader::new(&bytes[..]).unwrap(), Vec::new());
    while let Some(record) = reader.next_record().unwrap() {
        if let capture::Kind::Tlp(tlp) = &record.kind
            && let Body::Memory(m) = tlp.repr.body
        {
            sent.push(m.requester.bits());
        }
    }
    assert_eq!(sent, [0x102, 0x100, 0x101]);
}

/// The replay of a record has the same capture and counters, even with odd wall times, refusals without room, and configuration writes.
#[test]
fn replay_repeats_the_capture() {
    for timing in [Timing::On, Timing::Off] {
        let text = lab("driver = \"mmio\"\nstart_after_ms = 1\nexercise_bytes = 3000\n")
            .replace("ideal", "xeon-e5-2637v3");
        let mut lab = backend(&text, timing);
        let (capture, record) = (Bytes::default(), Bytes::default());
        let path = "labs/nettlp/test.toml".to_owned();
        lab.record(
            Box::new(record.clone()),
            &RecordedLab { path, text, set: Vec::new(), seed: 0, files: None },
        );
        let handle = lab.session_mut().capture(capture.clone(), CaptureOptions::default()).unwrap();
        let (mut now, mut out) = (Time::ZERO, Sent::new());
        out.device = Some(way(7));
        let mut psmem = Psmem { base: 0, bytes: vec![0; 1 << 20] };
        for n in 0..3000_u64 {
            now += Duration::from_ps(1_234_567 + n * n % 777_777);
            out.room = (n % 5) as usize;
            lab.advance(now, &mut out);
            psmem.base = lab.slot().bar_address(0);
            if n % 3 == 0 {
                let request = if n % 2 == 0 {
                    read(0x100, n as u16 & 0xff, n * 4096 % 0x10_0000 + n, 700)
                } else {
                    write(&out.pool, n * 64, &n.to_le_bytes())
                };
                let _ = give(&mut lab, now, way(1), &request, &mut out);
            }
            while let Some((to, tlp)) = out.out.pop_front() {
                if to == way(7)
                    && let Some(answer) = psmem.serve(&tlp, &out.pool)
                {
                    let _ = give(&mut lab, now, to, &answer, &mut out);
                }
            }
        }
        assert_eq!(lab.failure(), None);
        let counters = lab.slot().counters();
        assert!(counters.host_reads > 0 && counters.peer_reads > 400, "{counters:?}");
        lab.finish(now).unwrap();
        lab.session_mut().fabric.take_tap();
        handle.finish().unwrap();

        let (again, record) = (Bytes::default(), record.0.take());
        let mut replay = Replay::new(&record, &models()).unwrap();
        let handle = replay.session_mut().capture(again.clone(), CaptureOptions::default()).unwrap();
        let mut replayed = replay.run().unwrap();
        replayed.session.fabric.take_tap();
        handle.finish().unwrap();
        assert!(replayed.complete && replayed.inputs > 1000);
        assert!(capture.0.borrow().len() > 100_000);
        assert!(*capture.0.borrow() == *again.0.borrow(), "the captures differ");
        assert_eq!(
            replayed.session.report_of::<riser_worlds::adapter::AdapterSlot>().unwrap().get().counters(),
            counters
        );
        assert_eq!(replayed.session.fabric.now(), lab.session().fabric.now());
    }
}

/// Runs reads of peers and requests of the recorded device, and returns the capture.
fn run_some(lab: &mut LabBackend) -> Vec<u8> {
    let capture = Bytes::default();
    let handle = lab.session_mut().capture(capture.clone(), CaptureOptions::default()).unwrap();
    let (mut now, mut out) = (Time::ZERO, Sent::new());
    for n in 0..200_u64 {
        now += Duration::from_us(3);
        lab.advance(now, &mut out);
        let _ = give(lab, now, way(1), &read(0x100, n as u16 & 0xff, n * 4096, 600), &mut out);
    }
    lab.finish(now).unwrap();
    lab.session_mut().fabric.take_tap();
    handle.finish().unwrap();
    assert!(lab.slot().counters().peer_reads > 100);
    capture.0.take()
}

fn replay(record: &[u8]) -> Vec<u8> {
    let again = Bytes::default();
    let mut replay = Replay::new(record, &models()).unwrap();
    let handle = replay.session_mut().capture(again.clone(), CaptureOptions::default()).unwrap();
    replay.run().unwrap().session.fabric.take_tap();
    handle.finish().unwrap();
    again.0.take()
}

/// Returns a capture of `count` reads for a `replay` device.
fn recorded_reads(count: u16) -> Vec<u8> {
    let mut writer = capture::Writer::new(Vec::new()).unwrap();
    let tap = writer.tap(0, capture::Direction::Upstream, "").unwrap();
    for n in 0..count {
        let time = Time::from_ps(u64::from(n) * 1_000_000);
        let tlp = read(0x100, n, u64::from(n) * 64, 64);
        writer.write_tlp(tap, time, &tlp, capture::Origin::Device).unwrap();
    }
    writer.finish().unwrap()
}

/// The record contains the host profile and the capture that its lab names. Its replay gives the same bytes after they have changed, and
/// after they are removed.
#[test]
fn record_holds_the_files_of_its_lab() {
    let folder = std::env::temp_dir().join(format!("riser-lab-record-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let [profile, capture, path] = ["host.toml", "reads.pcapng", "lab.toml"].map(|name| folder.join(name));
    let host = HOSTS.get("xeon-e5-2637v3").unwrap().text;
    fs::write(&profile, host).unwrap();
    fs::write(&capture, recorded_reads(20)).unwrap();
    let text = PLAIN.to_owned()
        + "[[slot]]\nname = \"player\"\ndevice = \"replay\"\n[slot.replay]\ncapture = \"reads.pcapng\"\n";
    // Overrides make the run differ from the file.
    let set = vec!["link.lanes=2".to_owned(), "host.profile=host.toml".to_owned()];
    let file =
        parse_with(&models(), &path, &text, Folder::of(&path).keeping(), &Overrides::new(&set)).unwrap();
    let mut lab = LabBackend::new(Session::new(&file).unwrap(), Timing::On).unwrap();
    let files = file.base.kept();
    assert_eq!(files.keys().collect::<Vec<_>>(), ["host.toml", "reads.pcapng"]);
    assert_eq!(files["host.toml"], host.as_bytes());
    let record = Bytes::default();
    let path = path.display().to_string();
    lab.record(Box::new(record.clone()), &RecordedLab { path, text, set, seed: 0, files: Some(files) });
    let (live, record) = (run_some(&mut lab), record.0.take());
    assert!(replay(&record) == live, "unchanged files");
    fs::write(&profile, HOSTS.get("ideal").unwrap().text).unwrap();
    fs::write(&capture, recorded_reads(3)).unwrap();
    assert!(replay(&record) == live, "changed files");
    fs::remove_dir_all(&folder).unwrap();
    assert!(replay(&record) == live, "no files");
    // A record of version 1 has no files, and the error names the missing one.
    let head = [&b"riser nettlp record 1\n"[..], &record[22..]].concat();
    let error = Replay::new(&head, &models()).err().unwrap().to_string();
    assert!(error.contains("reads.pcapng"), "{error}");
}

/// Sends peers' reads from time to time. Advances the backend at its own timeouts, or every `every`. Returns the capture, including
/// DLLPs, and the number of calls.
fn now_and_then(every: Option<Duration>) -> (Vec<u8>, u64) {
    let (mut lab, capture) = (backend(&lab(""), Timing::On), Bytes::default());
    let options = CaptureOptions { dllps: true, ..CaptureOptions::default() };
    let handle = lab.session_mut().capture(capture.clone(), options).unwrap();
    let (mut now, mut out, mut turns) = (Time::ZERO, Sent::new(), 0);
    for n in 1..20_u64 {
        let next = Time::ZERO + Duration::from_us(n * n * 700);
        while now < next {
            lab.advance(now, &mut out);
            let due = every.map_or_else(|| lab.poll_timeout().unwrap(), |every| now + every);
            // Like a wait that is rounded up to 50 us.
            now = due.max(now + Duration::from_us(50)).min(next);
            turns += 1;
        }
        give(&mut lab, now, way(1), &read(0x100, n as u16, n * 4096, 600), &mut out).unwrap();
    }
    lab.finish(now).unwrap();
    lab.session_mut().fabric.take_tap();
    handle.finish().unwrap();
    assert_eq!(lab.failure(), None);
    (capture.0.take(), turns)
}

/// An idle adapter needs no call for up to 20 ms, but not beyond the time at which its host acts. The run is the same as with frequent
/// calls.
#[test]
fn idle_sleeps_do_not_change_the_run() {
    let (attended, many) = now_and_then(Some(Duration::from_us(50)));
    let (napping, few) = now_and_then(None);
    assert!(attended == napping, "the captures differ");
    assert!(few * 10 < many, "{few} turns, {many} with frequent calls");
    // Enumeration has ended by then. The driver starts at 40 ms, which ends a nap.
    let (mut lab, mut now) = booted(&lab("driver = \"mmio\"\nstart_after_ms = 40\n"), Timing::On);
    let (mut out, driver) = (Sent::new(), Time::ZERO + Duration::from_ms(40));
    while now < driver {
        let due = lab.poll_timeout().unwrap();
        // The driver starts slightly after that time.
        assert!(due > now && due < driver + Duration::from_us(10), "at {now}: {due}");
        now = due;
        lab.advance(now, &mut out);
    }
    advance(&mut lab, &mut now, Duration::from_us(10), &mut out);
    assert!(lab.slot().counters().host_writes > 0, "the host writes as soon as it wakes");
}
