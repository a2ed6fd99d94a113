// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Riser's own port on the other side of the bytes: captures and counters are those of an ordinary link, to the
//! picosecond.

use super::byte_link::ByteLink;
use super::{at_us, copier, copy, joined};
use crate::common::link;
use crate::common::sources::{Source, Sources};
use crate::common::system::{System, credits};
use link::{Counters, PortConfig};
use riser_fabric::{
    AccountTotals, Alteration, Direction, Fabric, FaultAction, FrameKind, Limits, LinkChange, LinkEvent,
    LinkId, PortId, Side, Stop, Tap, TapRecord,
};
use std::cell::RefCell;
use std::rc::Rc;
use tlp::{Class, Duration, Rate, TcVcMap, Tlp, Width};

/// Everything that a tap sees, one line per frame, by end and direction: frames at one time may be in any order between
/// these.
#[derive(Clone, Default)]
struct Lines(Rc<RefCell<[Vec<String>; 4]>>);

impl Tap for Lines {
    fn frame(&mut self, r: &TapRecord<'_>) {
        let frame = match r.frame {
            link::Frame::Tlp { sequence, tlp } => format!("{sequence} {tlp} data {:x}", sum(tlp)),
            link::Frame::Dllp(dllp) => dllp.to_string(),
        };
        let line = format!("{} {frame} {} {}", r.time, r.damaged, r.dropped);
        let stream = usize::from(r.at == Side::Root) * 2 + usize::from(r.direction == Direction::Upstream);
        self.0.borrow_mut()[stream].push(line);
    }
}

/// A checksum of the data. Counted data is zeros.
fn sum(tlp: &Tlp) -> u64 {
    let bytes = tlp.data.bytes().map_or_else(|| vec![0; tlp.data.len()], <[u8]>::to_vec);
    bytes.iter().fold(0, |sum: u64, byte| sum.wrapping_mul(257).wrapping_add(u64::from(*byte) + 1))
}

/// What is left of a run.
struct Run {
    stop: Stop,
    lines: [Vec<String>; 4],
    counters: [Counters; 2],
    totals: AccountTotals,
    hops: u64,
}

fn run(mut fabric: Fabric, until_us: u64, events: &[LinkEvent]) -> Run {
    let lines = Lines::default();
    fabric.set_tap(Box::new(lines.clone()));
    events.iter().for_each(|event| fabric.schedule(*event));
    let stop = fabric.run(Limits { until: at_us(until_us), ..Limits::default() });
    let counters = [Side::Root, Side::Device].map(|side| *fabric.port_counters(PortId::new(LinkId(0), side)));
    let lines = lines.0.borrow().clone();
    Run { stop, lines, counters, totals: fabric.account_totals(), hops: fabric.totals().tlp_hops }
}

/// The counters of what a port has sent.
fn sent(counters: &Counters) -> impl PartialEq + std::fmt::Debug + use<> {
    let Counters { tlps, replayed_tlps, dllps, payload_bytes, header_bytes, digest_bytes, .. } = *counters;
    let Counters { framing_bytes, replay_bytes, dllp_bytes, skp_sets, wire_bytes, busy_ps, .. } = *counters;
    let parts = [tlps, replayed_tlps, payload_bytes, header_bytes, digest_bytes, framing_bytes, replay_bytes];
    let by_vc = counters.vcs.map(|vc| (vc.tlps, vc.payload_bytes));
    (parts, dllps, [dllp_bytes, skp_sets, wire_bytes, busy_ps], by_vc)
}

/// Runs a system with an ordinary link and with bytes, and compares.
fn compare(what: &str, system: impl Fn() -> System, run_it: impl Fn(System) -> Run) -> [Counters; 2] {
    let plain = run_it(system());
    let foreign = run_it(joined(system(), ByteLink::new));
    for (plain, foreign) in plain.lines.iter().zip(&foreign.lines) {
        if let Some(at) = plain.iter().zip(foreign).position(|(a, b)| a != b) {
            let near = at.saturating_sub(4)..(at + 3).min(plain.len().min(foreign.len()));
            panic!("{what}: line {at}:\n{:#?}\n{:#?}", &plain[near.clone()], &foreign[near]);
        }
        assert_eq!(plain.len(), foreign.len(), "{what}");
        assert!(!plain.is_empty(), "{what}");
    }
    assert_eq!(plain.stop.to_string(), foreign.stop.to_string(), "{what}");
    assert_eq!(plain.counters[0], foreign.counters[0], "{what}: the root's port");
    assert_eq!(sent(&plain.counters[1]), sent(&foreign.counters[1]), "{what}: the slot's port");
    assert_eq!((plain.totals, plain.hops), (foreign.totals, foreign.hops), "{what}");
    plain.counters
}

/// The host triggers it and compares.
fn copies(system: System, rounds: u64) -> Fabric {
    system.with_program(move |cpu, found| copy(cpu, found, rounds))
}

#[test]
fn copies_give_the_same_capture() {
    for (rate, lanes) in [(Rate::Gt2_5, 1), (Rate::Gt8, 8), (Rate::Gt32, 16)] {
        let system = || copier(link(rate, lanes, 256));
        let [root, device] = compare("copies", system, |system| run(copies(system, 20), 10_000, &[]));
        assert!(root.tlps > 20 && device.tlps > 100);
    }
}

#[test]
fn faults_give_the_same_capture() {
    use Direction::{Downstream, Upstream};
    let rows = [
        ("bit errors", None),
        ("damaged TLPs", Some((Upstream, FrameKind::Tlp, FaultAction::Corrupt))),
        ("damaged TLPs down", Some((Downstream, FrameKind::Tlp, FaultAction::Corrupt))),
        ("lost TLPs", Some((Upstream, FrameKind::Tlp, FaultAction::Drop))),
        ("lost TLPs down", Some((Downstream, FrameKind::Tlp, FaultAction::Drop))),
        ("doubled TLPs", Some((Downstream, FrameKind::Tlp, FaultAction::Double))),
        ("doubled TLPs up", Some((Upstream, FrameKind::Tlp, FaultAction::Double))),
        ("lost DLLPs", Some((Downstream, FrameKind::Dllp, FaultAction::Drop))),
        ("lost DLLPs up", Some((Upstream, FrameKind::Dllp, FaultAction::Drop))),
        ("doubled DLLPs", Some((Downstream, FrameKind::Dllp, FaultAction::Double))),
        ("doubled DLLPs up", Some((Upstream, FrameKind::Dllp, FaultAction::Double))),
        ("broken framing", Some((Downstream, FrameKind::Any, FaultAction::BreakFraming))),
        ("broken framing up", Some((Upstream, FrameKind::Any, FaultAction::BreakFraming))),
        ("delays", Some((Upstream, FrameKind::Any, FaultAction::Delay(Duration::from_ns(700))))),
        ("acks", Some((Downstream, FrameKind::Ack, FaultAction::Alter(Alteration::Sequence(1000))))),
    ];
    for (what, rule) in rows {
        let system = || {
            let mut lossy = link(Rate::Gt8, 4, 256);
            lossy.bit_error_rate = if rule.is_none() { u64::MAX / 50_000 } else { 0 };
            let system = copier(lossy);
            rule.into_iter().fold(system, |system, (way, kind, action)| system.fault(way, kind, 8, 9, action))
        };
        let [root, device] = compare(what, system, |system| run(copies(system, 8), 4_000, &[]));
        let errors = root.bad_lcrc + root.bad_dllp_crc + root.out_of_sequence + root.duplicate_tlps;
        let errors = errors + device.bad_lcrc + device.bad_dllp_crc + device.out_of_sequence;
        let errors = errors + device.duplicate_tlps + root.receiver_errors + device.receiver_errors;
        let errors = errors + device.data_link_protocol_errors;
        let is_harmless = what.contains("DLLPs") || what == "delays";
        assert!(errors > 0 || is_harmless, "{what}");
    }
}

#[test]
fn starved_credits_give_the_same_capture() {
    for (header, data) in [(1, 16), (2, 17), (5, 40)] {
        let system = || {
            let mut link = link(Rate::Gt8, 8, 256);
            credits(&mut link, true, Class::Posted, header, data);
            credits(&mut link, false, Class::Posted, header, data);
            credits(&mut link, true, Class::NonPosted, 1, 1);
            copier(link)
        };
        compare("few credits", system, |system| run(copies(system, 8), 4_000, &[]));
    }
}

fn flood(change: fn(&mut PortConfig), tcs: u8) -> System {
    let mut link = link(Rate::Gt8, 8, 256);
    change(&mut link.root);
    change(&mut link.device);
    let sources = (0..tcs).map(|tc| Source { left: 300, ..Source::flood(tc, 128) }).collect();
    let mut system = System::new();
    system.slots.push(riser_fabric::SlotConfig::on_root_port(link, Box::new(Sources::new(sources))));
    system
}

#[test]
fn channels_and_scaled_credits_give_the_same_capture() {
    let channels: fn(&mut PortConfig) = |port| port.tc_vc = TcVcMap::one_to_one();
    let scaled: fn(&mut PortConfig) = |port| port.scaled_flow_control = true;
    for (what, change, tcs) in [("eight channels", channels, 8), ("scaled", scaled, 1)] {
        let run = |system: System| run(system.without_program(), 300, &[]);
        let [_, device] = compare(what, || flood(change, tcs), run);
        assert_eq!(device.tlps, 300 * u64::from(tcs), "{what}");
    }
}

/// Every TLP is lost for a while: REPLAY_NUM rolls over at either end.
#[test]
fn replay_storms_give_the_same_capture() {
    for way in [Direction::Upstream, Direction::Downstream] {
        let system = || copier(link(Rate::Gt8, 8, 256)).fault(way, FrameKind::Tlp, 30, 1, FaultAction::Drop);
        let counters = compare("storm", system, |system| run(copies(system, 8), 900, &[]));
        assert!(counters.iter().any(|end| end.replay_num_rollovers > 4));
    }
}

#[test]
fn links_that_change_give_the_same_capture() {
    let event = |us, change| LinkEvent { at: at_us(us), link: LinkId(0), change };
    let speed = |rate, lanes| LinkChange::Speed { rate, width: Width::new(lanes).unwrap() };
    let slower = [event(30, speed(Rate::Gt2_5, 1)), event(60, speed(Rate::Gt16, 8))];
    let down = [event(20, LinkChange::Cut), event(40, LinkChange::Restore)];
    for events in [slower, down] {
        let run = |system: System| run(system.without_program(), 200, &events);
        let [root, _] = compare("changes", || flood(|_| {}, 1), run);
        assert!(root.link_changes + root.link_downs > 0);
    }
}
