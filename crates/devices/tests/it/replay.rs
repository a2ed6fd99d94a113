// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Replays with a host that completes each read after a fixed time, in halves: order, tags, times, causes.

use capture::{Direction, Origin, Reader, Writer, open};
use endpoint::TlpPort;
use plug::Shared;
use riser_devices::replay::{Dependencies, Pace, Plan, PlanError, Replay, ReplayReport, ReplaySettings};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;
use std::path::PathBuf;
use tlp::{
    Bdf, Body, Class, Completion, Data, Duration, MemoryOp, MemoryRequest, PayloadPool, Repr, Span, Status,
    Tag, Time, Tlp,
};

const DEVICE: Bdf = Bdf::from_bits(0x1900);
const WINDOW: u64 = 1 << 20;

fn settings() -> ReplaySettings {
    ReplaySettings {
        id: Bdf::from_bits(0x0100),
        done_vector: None,
        requester: None,
        pace: Pace::Fabric,
        dependencies: Dependencies::Tags,
        window_base: 0,
        window_bytes: WINDOW,
    }
}

fn request(op: MemoryOp, tag: u16, address: u64, len: u32) -> Tlp {
    let (span, tag) = (Span::covering(address, len).unwrap(), Tag::from_bits(tag));
    let repr = Repr::new(Body::Memory(MemoryRequest { op, requester: DEVICE, tag, span }));
    Tlp::new(repr, Data::Counted(repr.data_lanes().len() as u32))
}

/// A completion with `len` of the remaining `left` bytes of `request`.
fn answer(request: &Tlp, left: u32, len: u32) -> Tlp {
    let Body::Memory(m) = request.repr.body else { panic!("{request}") };
    let at = m.span.first_byte() + u64::from(m.span.byte_count() - left);
    let lead = (at & 3) as u32;
    let body = Completion {
        byte_count: left as u16,
        lower_address: (at & 0x7f) as u8,
        length_dw: Some((lead + len).div_ceil(4) as u16),
        ..Completion::new(Bdf::default(), m.requester, m.tag)
    };
    Tlp::new(Repr::new(Body::Completion(body)), Data::Counted(len))
}

/// A host that takes everything, and completes each read in two parts, after `latency` and after 1.5 times that.
struct Host {
    replay: Replay,
    report: Shared<ReplayReport>,
    latency: Duration,
    coming: BTreeMap<(Time, u64), Tlp>,
    sent: Vec<(Time, Tlp)>,
    busy: BTreeSet<(Bdf, Tag)>,
}

impl Host {
    fn new(plan: Plan, settings: ReplaySettings, latency: Duration) -> Host {
        let report = Shared::default();
        let replay = Replay::new(plan, settings, &PayloadPool::new(), &report);
        Host { replay, report, latency, coming: BTreeMap::new(), sent: Vec::new(), busy: BTreeSet::new() }
    }

    fn run(mut self) -> (Vec<(Time, Tlp)>, Shared<ReplayReport>) {
        let mut now = Time::ZERO;
        for _ in 0..1_000_000 {
            self.take(now);
            let timer = self.replay.poll_timeout();
            let Some(next) = self.coming.keys().next().map(|key| key.0).into_iter().chain(timer).min() else {
                assert_eq!(self.replay.waits_for(), None);
                return (self.sent, self.report);
            };
            now = next;
            self.replay.handle_timeout(now);
            while let Some(entry) = self.coming.first_entry().filter(|entry| entry.key().0 <= now) {
                let completion = entry.remove();
                let Body::Completion(c) = completion.repr.body else { panic!("{completion}") };
                if u32::from(c.byte_count) == completion.data.len() as u32 {
                    assert!(self.busy.remove(&(c.requester, c.tag)));
                }
                self.replay.handle_tlp(now, &completion);
            }
        }
        panic!("does not end");
    }

    fn take(&mut self, now: Time) {
        for class in [Class::Posted, Class::NonPosted] {
            while let Some(tlp) = self.replay.poll_tlp(now, class, tlp::TcSet::ALL) {
                if class == Class::NonPosted {
                    assert!(self.busy.insert(tlp.repr.transaction()), "tag in use: {tlp}");
                    self.answer(now, &tlp);
                }
                self.sent.push((now, tlp));
            }
        }
    }

    fn answer(&mut self, now: Time, read: &Tlp) {
        let Body::Memory(m) = read.repr.body else { panic!("{read}") };
        let (whole, stamp) = (m.span.byte_count(), self.sent.len() as u64);
        let half = (whole / 2).max(1);
        let (first, second) =
            (now + self.latency, now + self.latency + Duration::from_ps(self.latency.as_ps() / 2));
        self.coming.insert((first, stamp), answer(read, whole, half.min(whole)));
        if whole > half {
            self.coming.insert((second, stamp), answer(read, whole - half, whole - half));
        }
    }
}

/// A capture of `tlps` in riser's own format.
fn capture_of(tlps: &[(u64, Direction, Tlp)]) -> Reader<Cursor<Vec<u8>>> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    let up = writer.tap(0, Direction::Upstream, "").unwrap();
    let down = writer.tap(0, Direction::Downstream, "").unwrap();
    for (ns, direction, tlp) in tlps {
        let interface = if *direction == Direction::Upstream { up } else { down };
        writer.write_tlp(interface, Time::ZERO + Duration::from_ns(*ns), tlp, Origin::Device).unwrap();
    }
    Reader::new(Cursor::new(writer.finish().unwrap())).unwrap()
}

/// A read of tag 1 at 0 and at 50 ns, one of tag 2 at 10 ns, a write at 20 ns; the first read ends at 40 ns.
fn small() -> Reader<Cursor<Vec<u8>>> {
    use Direction::{Downstream, Upstream};
    let first = request(MemoryOp::Read, 1, 0xf_0000_1000, 64);
    capture_of(&[
        (0, Upstream, first.clone()),
        (10, Upstream, request(MemoryOp::Read, 2, 0x2000, 64)),
        (20, Upstream, request(MemoryOp::Write, 0, 0x3000, 32)),
        (40, Downstream, answer(&first, 64, 64)),
        (50, Upstream, request(MemoryOp::Read, 1, 0x4000, 64)),
    ])
}

fn ns(time: Time) -> u64 {
    time.as_ps() / 1_000
}

/// Rows: pace, dependencies, and send times of writes and reads in ns, with a host of 100 and 150 ns.
#[test]
fn a_request_waits_for_its_dependencies() {
    let rows = [
        (Pace::Fabric, Dependencies::Tags, [0], [0, 0, 150]),
        (Pace::Recorded, Dependencies::Tags, [20], [0, 10, 150]),
        (Pace::Recorded, Dependencies::Completions, [20], [0, 10, 150]),
        (Pace::Fabric, Dependencies::Completions, [0], [0, 0, 150]),
    ];
    for (pace, dependencies, writes, reads) in rows {
        let settings = ReplaySettings { pace, dependencies, ..settings() };
        let plan = Plan::read(&mut small(), &settings, 256).unwrap();
        let (sent, report) = Host::new(plan, settings, Duration::from_ns(100)).run();
        let of = |class| sent.iter().filter(move |(_, t)| t.class() == class).map(|(at, _)| ns(*at));
        assert_eq!(of(Class::NonPosted).collect::<Vec<_>>(), reads, "{pace:?} {dependencies:?}");
        assert_eq!(of(Class::Posted).collect::<Vec<_>>(), writes, "{pace:?} {dependencies:?}");
        let report = report.get();
        assert_eq!((report.requests, report.sent, report.bytes_read, report.bytes_written), (4, 4, 192, 32));
        assert_eq!(report.recorded.latencies, [Duration::from_ns(40)]);
        assert_eq!(report.recorded.elapsed, Duration::from_ns(50));
        assert_eq!(report.replayed.latencies, [Duration::from_ns(150); 3]);
    }
}

/// A request that was recorded after the end of another transaction waits for it, also with another tag.
#[test]
fn request_waits_for_earlier_completions() {
    use Direction::{Downstream, Upstream};
    let first = request(MemoryOp::Read, 1, 0x1000, 64);
    let tlps = [
        (0, Upstream, first.clone()),
        (40, Downstream, answer(&first, 64, 64)),
        (50, Upstream, request(MemoryOp::Write, 0, 0x3000, 32)),
    ];
    for (dependencies, at) in [(Dependencies::Tags, 0), (Dependencies::Completions, 300)] {
        let settings = ReplaySettings { dependencies, ..settings() };
        let plan = Plan::read(&mut capture_of(&tlps), &settings, 256).unwrap();
        let (sent, _) = Host::new(plan, settings, Duration::from_ns(200)).run();
        let write = sent.iter().find(|(_, tlp)| tlp.class() == Class::Posted).unwrap();
        assert_eq!(ns(write.0), at, "{dependencies:?}");
    }
}

#[test]
fn folding_changes_only_addresses() {
    let plan = Plan::read(&mut small(), &settings(), 256).unwrap();
    let (sent, _) = Host::new(plan, settings(), Duration::from_ns(100)).run();
    let first = sent.iter().find(|(_, t)| t.class() == Class::NonPosted).unwrap();
    assert_eq!(first.1.repr, request(MemoryOp::Read, 1, 0x1000, 64).repr);
}

#[test]
fn unplayable_captures_are_refused() {
    let of = |requester| ReplaySettings { requester: Some(Bdf::from_bits(requester)), ..settings() };
    let error = Plan::read(&mut small(), &of(0x0100), 256).unwrap_err();
    assert_eq!(error.to_string(), "no request of a device 01:00.0; requesters in the capture: 19:00.0");
    let long = [(0, Direction::Upstream, request(MemoryOp::Write, 0, 0x3000, 256))];
    let error = Plan::read(&mut capture_of(&long), &settings(), 128).unwrap_err();
    assert_eq!(error, PlanError::MaxPayloadSize { number: 1, bytes: 256, mps: 128 });
    assert_eq!(
        error.to_string(),
        "frame 1: data of 256 bytes, expected at most the link's Max_Payload_Size of 128"
    );
    let error = Plan::read(&mut capture_of(&[]), &settings(), 128).unwrap_err();
    assert_eq!(error.to_string(), "no request of a device; requesters in the capture: none");
}

/// The host gets the end once, after the last answer.
#[test]
fn end_is_reported_once() {
    let settings = ReplaySettings { done_vector: Some(0x8001), ..settings() };
    let plan = Plan::read(&mut small(), &settings, 256).unwrap();
    let (sent, _) = Host::new(plan, settings, Duration::from_ns(100)).run();
    let (at, last) = sent.last().unwrap();
    assert_eq!((ns(*at), last.data.bytes()), (300, Some(&[0x01, 0x80, 0, 0][..])));
    assert_eq!(last.repr.transaction().0, settings.id);
    assert_eq!(sent.len(), 5);
}

/// A device without requests gets no completions.
#[test]
fn requests_of_the_host_are_refused() {
    let plan = Plan::read(&mut small(), &settings(), 256).unwrap();
    let report = Shared::default();
    let mut replay = Replay::new(plan, settings(), &PayloadPool::new(), &report);
    replay.handle_tlp(Time::ZERO, &request(MemoryOp::Read, 7, 0x9000_0000, 4));
    let refusal = replay.poll_tlp(Time::ZERO, Class::Completion, tlp::TcSet::ALL).unwrap();
    let Body::Completion(c) = refusal.repr.body else { panic!("{refusal}") };
    assert_eq!((c.status, c.tag, c.byte_count), (Status::UnsupportedRequest, Tag::from_bits(7), 4));
    replay.handle_tlp(Time::ZERO, &answer(&request(MemoryOp::Read, 99, 0, 4), 4, 4));
    assert_eq!(report.get().unexpected_completions, 1);
}

fn captures(folder: &str) -> Vec<PathBuf> {
    let Some(folder) = testkit::shared_data(&format!("nettlp-captures/{folder}")) else { return Vec::new() };
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

/// NetTLP's captures of real devices (NSDI'20, §6.1): all requests of the devices are replayed and answered.
#[test]
fn captures_of_real_devices_are_replayed() {
    for path in captures("x520").into_iter().chain(captures("p4600")) {
        let plan = Plan::read(&mut open(&path).unwrap(), &settings(), 256).unwrap();
        let requests = plan.len();
        let (sent, report) = Host::new(plan, settings(), Duration::from_ns(700)).run();
        let report = report.get();
        assert_eq!((sent.len(), report.sent), (requests, requests as u64), "{}", path.display());
        assert_eq!(report.bytes_read, report.bytes_asked, "{}", path.display());
        assert_eq!(report.replayed.latencies.len() as u64, report.non_posted);
        assert!(report.recorded.latencies.len() as u64 <= report.non_posted);
        let outside = |tlp: &Tlp| matches!(tlp.repr.body, Body::Memory(m) if m.span.address() >= WINDOW);
        assert!(!sent.iter().any(|(_, tlp)| outside(tlp)));
    }
}
