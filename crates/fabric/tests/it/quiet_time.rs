// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fabric skips time in which links only refresh credits. The results are the same as in a run with a tap that sees
//! each refresh, because there every refresh is an event.

use crate::common;
use crate::common::system::System;
use device::Ready;
use endpoint::{CreditReturn, TlpPort};
use link::{Counters, Frame, PortConfig, VcArbitration};
use proptest::prelude::*;
use riser_fabric::{
    AddressMap, Direction, Fabric, FaultAction, FrameKind, Limits, LinkChange, LinkConfig, LinkEvent, LinkId,
    PortId, RunTotals, Side, SlotConfig, Stop, Tap, TapRecord,
};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use tlp::*;

/// Sends requests at their times, in order, and is ready only when one is due.
struct Script {
    requests: VecDeque<(Time, Tlp)>,
    credits: VecDeque<CreditReturn>,
    now: Time,
}

impl TlpPort for Script {
    fn handle_tlp(&mut self, now: Time, tlp: &Tlp) {
        self.now = now;
        self.credits.push_back(CreditReturn::of(tlp));
    }
    fn poll_tlp(&mut self, now: Time, class: Class, room: TcSet) -> Option<Tlp> {
        self.now = now;
        let (at, tlp) = self.requests.front()?;
        let goes = *at <= now && tlp.class() == class && room.contains(tlp.repr.tc);
        if goes { self.requests.pop_front().map(|(_, tlp)| tlp) } else { None }
    }
    fn ready(&self) -> Ready {
        let taken = if self.credits.is_empty() { Ready::NONE } else { Ready::TAKEN };
        let due = self.requests.front().filter(|(at, _)| *at <= self.now);
        due.map_or(taken, |(_, tlp)| taken.or(Ready::output(tlp.class())))
    }
    fn poll_credits(&mut self) -> Option<CreditReturn> {
        self.credits.pop_front()
    }
    fn poll_timeout(&self) -> Option<Time> {
        self.requests.front().map(|(at, _)| *at).filter(|at| *at > self.now)
    }
    fn handle_timeout(&mut self, now: Time) {
        self.now = now;
    }
}

/// A TLP on a wire: when, on which link, at which end and which way, its number and tag.
type Seen = (Time, u32, Side, Direction, u16, u16, bool);

/// Stores TLPs. A field selects whether it sees refreshes.
#[derive(Clone)]
struct Watch {
    seen: Rc<RefCell<Vec<Seen>>>,
    sees_refreshes: bool,
}

impl Tap for Watch {
    fn frame(&mut self, r: &TapRecord<'_>) {
        if let Frame::Tlp { sequence, tlp } = r.frame {
            let tag = tlp.repr.transaction().1.bits();
            let lost = r.damaged || r.dropped;
            self.seen.borrow_mut().push((r.time, r.link.0, r.at, r.direction, sequence, tag, lost));
        }
    }
    fn sees_refreshes(&self) -> bool {
        self.sees_refreshes
    }
}

/// The random properties of a link.
#[derive(Clone, Debug)]
struct LinkPlan {
    rate: Rate,
    width: Width,
    channels: u8,
    scaled: bool,
    skp_interval: Option<u32>,
    propagation_ps: u64,
    /// Gap before each request in nanoseconds, whether it is a read, and its Traffic Class.
    requests: Vec<(u64, bool, u8)>,
}

impl LinkPlan {
    fn config(&self) -> LinkConfig {
        let mut port = PortConfig::new(self.rate, self.width, Mps::new(256).unwrap());
        port.scaled_flow_control = self.scaled;
        port.tc_vc = [TcVcMap::default(), two_channels(), TcVcMap::one_to_one()][usize::from(self.channels)];
        port.arbitration = VcArbitration::round_robin();
        port.skp_interval = self.skp_interval.filter(|_| self.rate.is_8b10b()).unwrap_or(port.skp_interval);
        assert_eq!(port.validate(), Ok(()));
        let propagation = Duration::from_ps(self.propagation_ps);
        LinkConfig { root: port.clone(), device: port, propagation, rcb: None, bit_error_rate: 0 }
    }

    fn device(&self, slot: usize) -> Script {
        let mut at = Time::ZERO + Duration::from_us(10);
        let request = |(n, &(gap_ns, read, tc)): (usize, &(u64, bool, u8))| {
            at += Duration::from_ns(gap_ns);
            (at, request(slot, n as u16, read, tc % [1, 2, 8][usize::from(self.channels)]))
        };
        let requests = self.requests.iter().enumerate().map(request).collect();
        Script { requests, credits: VecDeque::new(), now: Time::ZERO }
    }
}

fn two_channels() -> TcVcMap {
    let mut classes = [TcSet::NONE; Vc::COUNT];
    (classes[0], classes[1]) = (TcSet::from_bits(0b01), TcSet::from_bits(0b10));
    TcVcMap::new(classes).unwrap()
}

fn request(slot: usize, n: u16, read: bool, tc: u8) -> Tlp {
    let span = Span::covering(0x1_0000_0000 + u64::from(n) * 4096, 128).unwrap();
    let requester = Bdf::new(AddressMap.bus(slot), 0, 0).unwrap();
    let op = if read { MemoryOp::Read } else { MemoryOp::Write };
    let tag = Tag::from_bits(n % 256);
    let repr = Repr {
        tc: TrafficClass::from_bits(tc),
        ..Repr::new(Body::Memory(MemoryRequest { op, requester, tag, span }))
    };
    Tlp::new(repr, if read { Data::NONE } else { Data::Counted(128) })
}

/// A whole run.
#[derive(Clone, Debug)]
struct Plan {
    links: Vec<LinkPlan>,
    /// Time between two checks of the run, in nanoseconds.
    looks_ns: Vec<u64>,
    /// Time in nanoseconds at which link 0 changes, and the change. A cut link is restored after the same time again.
    change: Option<(u64, LinkChange)>,
    /// Each third TLP upwards on link 0 is dropped.
    fault: bool,
    bit_errors: bool,
}

/// All visible results of a run.
#[derive(PartialEq, Debug)]
struct Outcome {
    seen: Vec<Seen>,
    /// At each check: the reason of the stop, the time, events and TLP-hops, and the counters of each port.
    looks: Vec<(Stop, Time, u64, u64, Vec<Counters>)>,
}

impl Plan {
    fn fabric(&self) -> Fabric {
        let mut system = System::new();
        for (n, plan) in self.links.iter().enumerate() {
            let mut link = plan.config();
            link.bit_error_rate = if self.bit_errors && n == 0 { u64::MAX >> 14 } else { 0 };
            system.slots.push(SlotConfig::on_root_port(link, Box::new(plan.device(n))));
        }
        if self.fault {
            system = system.fault(Direction::Upstream, FrameKind::Tlp, 1, 3, FaultAction::Drop);
        }
        let mut fabric = system.without_program();
        let at = |ns| Time::ZERO + Duration::from_ns(ns);
        if let Some((ns, change)) = self.change {
            fabric.schedule(LinkEvent { at: at(ns), link: LinkId(0), change });
            fabric.schedule(LinkEvent { at: at(2 * ns), link: LinkId(0), change: LinkChange::Restore });
        }
        fabric
    }

    /// The run, and how many of its events were passed over.
    fn run(&self, sees_refreshes: bool) -> (Outcome, u64) {
        let mut fabric = self.fabric();
        let seen = Rc::new(RefCell::new(Vec::new()));
        fabric.set_tap(Box::new(Watch { seen: seen.clone(), sees_refreshes }));
        let (mut looks, mut until) = (Vec::new(), Time::ZERO);
        let mut look = |fabric: &mut Fabric, limits: Limits| {
            let stop = fabric.run(limits);
            let ports =
                (0..self.links.len() as u32).flat_map(|n| [Side::Root, Side::Device].map(|side| (n, side)));
            let counters =
                ports.map(|(n, side)| *fabric.port_counters(PortId::new(LinkId(n), side))).collect();
            let RunTotals { events, tlp_hops, .. } = fabric.totals();
            looks.push((stop, fabric.now(), events, tlp_hops, counters));
        };
        for ns in &self.looks_ns {
            until += Duration::from_ns(*ns);
            look(&mut fabric, Limits { until, open_ended: true, ..Limits::default() });
        }
        // To the end, or until the run stalls.
        look(&mut fabric, Limits::default());
        (Outcome { seen: seen.take(), looks }, fabric.totals().passed_over)
    }
}

/// Times between two actions: shorter than a refresh interval, some intervals, and the time after which SKPs and
/// refreshes coincide again.
fn gap_ns() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0..1_000u64, 0..100_000u64, 0..1_000_000u64, 0..80_000_000u64, Just(30_000 * 40)]
}

fn rate() -> impl Strategy<Value = Rate> {
    (1..=5u8).prop_map(|generation| Rate::from_generation(generation).unwrap())
}

fn width() -> impl Strategy<Value = Width> {
    prop::sample::select(vec![1, 2, 4, 8, 12, 16]).prop_map(|lanes| Width::new(lanes).unwrap())
}

fn link_plan() -> impl Strategy<Value = LinkPlan> {
    let kind = (rate(), width(), 0..3u8, any::<bool>(), any::<bool>());
    let requests = prop::collection::vec((gap_ns(), any::<bool>(), 0..8u8), 0..12);
    (kind, 0..5_000u64, requests).prop_map(
        |((rate, width, channels, scaled, short), propagation_ps, requests)| {
            let skp_interval = short.then_some(if rate.is_8b10b() { 1200 } else { 370 });
            LinkPlan { rate, width, channels, scaled, skp_interval, propagation_ps, requests }
        },
    )
}

fn change() -> impl Strategy<Value = LinkChange> {
    prop_oneof![
        Just(LinkChange::Cut),
        (rate(), width()).prop_map(|(rate, width)| LinkChange::Speed { rate, width }),
    ]
}

fn plan() -> impl Strategy<Value = Plan> {
    let changes = prop::option::weighted(0.3, (1_000..3_000_000u64, change()));
    let rare = || prop::bool::weighted(0.15);
    let looks = prop::collection::vec(gap_ns(), 0..4);
    (prop::collection::vec(link_plan(), 1..4), looks, changes, rare(), rare()).prop_map(
        |(links, looks_ns, change, fault, bit_errors)| Plan { links, looks_ns, change, fault, bit_errors },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn skipping_idle_time_changes_nothing(plan in plan()) {
        let ((all, none), (short, passed)) = (plan.run(true), plan.run(false));
        prop_assert_eq!(none, 0);
        prop_assert_eq!(all, short);
        prop_assert!(passed == 0 || !(plan.fault || plan.bit_errors));
    }
}

/// Rows: generation, lanes, and the share of the events of ten seconds that is left, in parts per million.
#[test]
fn idle_link_costs_next_to_nothing() {
    for (generation, lanes, most) in [(1, 1, 20_000), (2, 4, 20_000), (3, 8, 500), (4, 1, 500), (5, 16, 500)]
    {
        let link = common::link(Rate::from_generation(generation).unwrap(), lanes, 256);
        let script = Script { requests: VecDeque::new(), credits: VecDeque::new(), now: Time::ZERO };
        let mut system = System::new();
        system.slots.push(SlotConfig::on_root_port(link, Box::new(script)));
        let mut fabric = system.without_program();
        let until = Time::ZERO + Duration::from_ms(10_000);
        assert_eq!(fabric.run(Limits { until, open_ended: true, ..Limits::default() }), Stop::TimeLimit);
        let RunTotals { events, passed_over, .. } = fabric.totals();
        // Two kinds of finite credits at each end, each with two events every 30 us.
        assert!(events.abs_diff(8 * 333_333) < 100, "{events} events");
        let run = (events - passed_over) * 1_000_000 / events;
        assert!(run < most, "Gen{generation} x{lanes}: {run} of a million events");
    }
}
