// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Order and time of the TLPs that a switch sends: latencies to the picosecond, the ordering table, arbitration, credits, no
//! deadlock.

use crate::switch_rig::*;
use link::{Notice, Passing, may_pass};
use proptest::prelude::*;
use riser_fabric::switch::{Forwarding, PortArbitration, Switch};
use riser_fabric::{BridgeOwner as _, Effect, Note};
use std::collections::{BTreeMap, VecDeque};
use tlp::*;

const A: (u8, u8, u8) = (3, 0, 0);

fn function(bus: u8) -> Bdf {
    bdf(bus, 0, 0)
}

/// The time at which the only TLP in `rig` may leave.
fn leaves_at(rig: &Rig) -> u64 {
    rig.switch.poll_timeout().expect("something is on its way").as_ps()
}

/// Store and forward: after the last symbol. Cut through: after the header, but not so early that the egress port needs
/// the last symbol before it has arrived.
#[test]
fn tlp_leaves_after_latency_of_its_mode() {
    use Forwarding::{CutThrough, StoreAndForward};
    let short = || read(function(3), 0x8000_0000, 64);
    let long = || write(function(3), 0x8000_0000, 256);
    // A symbol takes 16250/16 ps at 8 GT/s; 12 B header, 256 B, and 8 B of framing, sequence number and LCRC are 276 B.
    let at_x16 = 276 * 16_250 / (16 * 16);
    assert_eq!(at_x16, 17_519);
    let rows = [
        ("store and forward", StoreAndForward, long(), 40_000, 40_000 + 100_000),
        ("cut through, a late tail", CutThrough, long(), 140_000, 140_000 - at_x16),
        ("cut through, a tail in time", CutThrough, long(), 40_000, 100_000),
        ("cut through, no data", CutThrough, short(), 2_000, 100_000),
    ];
    for (what, mode, tlp, tail, expected) in rows {
        let mut rig = Rig::with(mode, PortArbitration::RoundRobin);
        for port in [0, 1] {
            // Max_Payload_Size of 256 B.
            let at = rig.switch.space(usize::from(port)).pcie_capability().unwrap() + 2;
            rig.set(port, at, 0x1, 1 << 5);
        }
        let start = rig.now.as_ps();
        let tail_at = Time::from_ps(start + tail);
        // Store and forward gets the TLP when all has arrived, cut through with the header.
        let now = if mode == StoreAndForward { tail_at } else { rig.now };
        rig.switch.handle_tlp(1, now, tail_at, &tlp);
        assert_eq!(leaves_at(&rig) - start, expected, "{what}");
        let at = Time::from_ps(start + expected);
        let before = Time::from_ps(start + expected - 1);
        rig.switch.handle_timeout(before);
        assert!(rig.switch.poll_tlp(0, before, tlp.class(), TcSet::ALL).is_none(), "{what}: no sooner");
        rig.switch.handle_timeout(at);
        assert_eq!(rig.switch.poll_touched(), Some(0), "{what}: the egress port is returned");
        assert_eq!(rig.switch.poll_tlp(0, at, tlp.class(), TcSet::ALL).as_ref(), Some(&tlp), "{what}");
    }
}

/// Every cell of `PCIe 5.0 Table 2-40`: `later` after `earlier`, for which its egress port has no room.
#[test]
fn switch_follows_every_cell_of_the_ordering_table() {
    const RO: Attributes = Attributes::RELAXED_ORDERING;
    const IDO: Attributes = Attributes::ID_BASED_ORDERING;
    let of = |id: Bdf| {
        let message = message(MessageRouting::ToRootComplex, id, 0x18);
        let atomic = fetch_add(id, 0x8000_0000);
        [
            write(id, 0x8000_0000, 64),
            message,
            read(id, 0x8000_0000, 64),
            atomic,
            io_read(id, 0x8000),
            completion(id, function(0), 64),
        ]
    };
    let (mut must, mut must_not) = (0, 0);
    for earlier in of(function(3)) {
        for later in [bdf(3, 0, 0), bdf(3, 0, 1)].into_iter().flat_map(of) {
            for attr in [Attributes::empty(), RO, IDO] {
                let later = with_attributes(later.clone(), attr);
                let mut rig = Rig::new();
                rig.put(1, &earlier);
                rig.put(1, &later);
                rig.now += LATENCY;
                rig.switch.handle_timeout(rig.now);
                let passed = rig
                    .switch
                    .poll_tlp(0, rig.now, later.class(), TcSet::ALL)
                    .is_some_and(|t| t == later && t != earlier);
                match may_pass(&later, &earlier) {
                    Passing::Must => assert!(passed, "{later} must pass {earlier}"),
                    Passing::MustNot => {
                        assert!(!passed || later == earlier, "{later} must not pass {earlier}")
                    }
                    Passing::May if earlier.class() == Class::Posted && later.class() != Class::Posted => {
                        assert!(passed, "{later} is let pass {earlier}");
                    }
                    Passing::May => {}
                }
                must += u32::from(may_pass(&later, &earlier) == Passing::Must);
                must_not += u32::from(may_pass(&later, &earlier) == Passing::MustNot);
            }
        }
    }
    assert!(must >= 50 && must_not >= 20, "the rows cover the table: {must}, {must_not}");
}

/// Ordering applies to TLPs for the same egress port. The head of a queue blocks the TLPs after it.
#[test]
fn head_of_queue_blocks_only_its_own_egress_port() {
    let mut rig = Rig::new();
    rig.put(1, &write(function(3), 0x8000_0000, 64)); // up
    rig.put(1, &read(function(3), 0x2000_0000, 64)); // to port 2: no posted TLP of its pair is before it
    rig.put(1, &write(function(3), 0x2000_0000, 64)); // to port 2: after the first write
    rig.put(2, &write(function(4), 0x1000_0000, 64)); // of another input
    rig.now += LATENCY;
    rig.switch.handle_timeout(rig.now);
    let now = rig.now;
    let mut poll = |port, class| rig.switch.poll_tlp(port, now, class, TcSet::ALL).is_some();
    assert!(poll(2, Class::NonPosted), "a read to another port passes");
    assert!(!poll(2, Class::Posted), "a write after one that waits does not");
    assert!(poll(1, Class::Posted), "another input goes its way");
    assert!(poll(0, Class::Posted) && poll(2, Class::Posted), "those after the head go with it");
}

/// `PCIe 5.0 §2.5`: a Traffic Class whose channel has no room does not block others.
#[test]
fn traffic_classes_pass_each_other() {
    let mut rig = Rig::new();
    for tc in [0, 3] {
        let tlp = write(function(3), 0x8000_0000, 64);
        rig.put(1, &Tlp { repr: Repr { tc: TrafficClass::from_bits(tc), ..tlp.repr }, ..tlp });
    }
    rig.now += LATENCY;
    rig.switch.handle_timeout(rig.now);
    let now = rig.now;
    let mut tc = |room| {
        let tlp = rig.switch.poll_tlp(0, now, Class::Posted, TcSet::from_bits(room));
        tlp.map(|t| t.repr.tc.bits())
    };
    assert_eq!([tc(0x02), tc(0x08), tc(0x08), tc(0xff)], [None, Some(3), None, Some(0)]);
}

/// Ten thousand writes of three ports through one: each port always has one to send.
fn shares(arbitration: PortArbitration) -> [u32; 4] {
    let mut rig = Rig::with(Forwarding::StoreAndForward, arbitration);
    let mut sent = [0; 4];
    let feed = |rig: &mut Rig, bus: u8| {
        let port = [0, 0, 0, 1, 2, 0, 3][usize::from(bus)];
        rig.put(port, &write(function(bus), 0x8000_0000, 64));
    };
    for bus in [3, 4, 6].repeat(2) {
        feed(&mut rig, bus);
    }
    for _ in 0..10_000 {
        rig.now += LATENCY;
        rig.switch.handle_timeout(rig.now);
        let tlp = rig.switch.poll_tlp(0, rig.now, Class::Posted, TcSet::ALL).expect("one of the ports sends");
        let bus = tlp.repr.transaction().0.bus();
        sent[[0, 0, 0, 1, 2, 0, 3][usize::from(bus)]] += 1;
        feed(&mut rig, bus);
    }
    sent
}

#[test]
fn ports_get_their_configured_shares() {
    assert_eq!(shares(PortArbitration::RoundRobin), [0, 3334, 3333, 3333]);
    // Rounds of ten TLPs, of which ports 1 to 3 send 5, 3 and 2.
    assert_eq!(shares(PortArbitration::Weighted(vec![1, 5, 3, 2])), [0, 5000, 3000, 2000]);
    assert_eq!(shares(PortArbitration::Weighted(vec![1, 1, 1, 98])), [0, 100, 100, 9800]);
}

/// TLPs that a port may send, by function of the port: some with a destination, and some that no port takes.
fn any_tlp(port: usize) -> impl Strategy<Value = Tlp> {
    let own = [0, 3, 4, 6][port];
    let address = prop_oneof![
        Just(0x1000_0000u64),
        Just(0x2000_0000),
        Just(0x3000_0000),
        Just(0x3800_0000),
        Just(0x8000_0000)
    ];
    let requester = prop_oneof![Just(0u8), Just(3), Just(4), Just(6), Just(9)];
    let attr = prop_oneof![Just(0u8), Just(2), Just(4)];
    (0..6, address, requester, attr, 0u8..2).prop_map(move |(kind, address, to, attr, tc)| {
        let id = function(own);
        let tlp = match kind {
            0 => write(id, address, 64),
            1 => read(id, address, 64),
            2 => completion(id, function(to), 64),
            3 => message(MessageRouting::ToRootComplex, id, 0x18),
            4 => message(MessageRouting::Local, id, 0x20 + (address >> 28) as u8 % 8),
            _ => config_read(ConfigKind::Type1, bdf(2, to % 4, 0)),
        };
        let is_message = matches!(tlp.repr.body, Body::Message(_) | Body::Config(_));
        let tlp = with_attributes(
            tlp,
            if is_message { Attributes::empty() } else { Attributes::from_bits_truncate(attr) },
        );
        let tc = TrafficClass::from_bits(if is_message { 0 } else { tc });
        Tlp { repr: Repr { tc, ..tlp.repr }, ..tlp }
    })
}

#[derive(Clone, Debug)]
enum Step {
    Arrive(usize, Tlp),
    /// Ask one port for a class, of these Traffic Classes.
    Send(usize, Class, u8),
    /// Ticks of 10 ns.
    Wait(u8),
}

fn any_step() -> impl Strategy<Value = Step> {
    let class = prop_oneof![Just(Class::Posted), Just(Class::NonPosted), Just(Class::Completion)];
    prop_oneof![
        4 => (0usize..4).prop_flat_map(|port| any_tlp(port).prop_map(move |tlp| Step::Arrive(port, tlp))),
        4 => (0usize..4, class, 1u8..4).prop_map(|(port, class, room)| Step::Send(port, class, room)),
        1 => (1u8..20).prop_map(Step::Wait),
    ]
}

/// Checks of a switch under random traffic.
struct Ledger {
    /// Credits that ports owe, by port and class.
    owed: BTreeMap<(usize, usize), i64>,
    /// Tags of the posted writes that have entered, by input, egress port and Traffic Class.
    order: BTreeMap<(u8, usize, u8), VecDeque<u16>>,
    next_tag: u16,
}

impl Ledger {
    fn arrive(&mut self, port: usize, mut tlp: Tlp, switch: &mut Switch, now: Time) {
        let key = (port, tlp.class().index());
        if self.owed.get(&key).copied().unwrap_or(0) >= 64 {
            return; // no credits
        }
        if let Body::Memory(m) = &mut tlp.repr.body
            && m.op == MemoryOp::Write
        {
            self.next_tag = (self.next_tag + 1) % 1024;
            m.tag = Tag::from_bits(self.next_tag);
            let to = match m.span.address() >> 28 {
                1 => 1,
                2 => 2,
                3 if m.span.address() < 0x3800_0000 => 3,
                3 => 9,
                _ => 0,
            };
            let lost = to == port || to == 9 || port == 0 && to == 0;
            if !lost {
                let lane = (m.requester.bus(), to, tlp.repr.tc.bits());
                self.order.entry(lane).or_default().push_back(self.next_tag);
            }
        }
        *self.owed.entry(key).or_default() += 1;
        switch.handle_tlp(port, now, now, &tlp);
    }

    fn sent(&mut self, port: usize, tlp: &Tlp) {
        if let Body::Memory(m) = tlp.repr.body
            && m.op == MemoryOp::Write
        {
            let lane = (m.requester.bus(), port, tlp.repr.tc.bits());
            let first = self.order.get_mut(&lane).and_then(VecDeque::pop_front);
            assert_eq!(first, Some(m.tag.bits()), "writes of one way stay in order");
        }
    }

    fn collect(&mut self, switch: &mut Switch) {
        for port in 0..switch.ports() {
            while let Some(credit) = switch.poll_credits(port) {
                let owed = self.owed.entry((port, credit.class.index())).or_default();
                *owed -= 1;
                assert!(*owed >= 0, "port {port} returns no more than it has taken");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// For any TLPs and any room: writes keep their order, all TLPs leave once there is room, and every credit returns
    /// once.
    #[test]
    fn random_traffic_loses_and_blocks_no_tlp(steps in prop::collection::vec(any_step(), 1..300)) {
        let mut rig = Rig::new();
        for port in 0..4 {
            rig.credits(port);
        }
        let mut ledger = Ledger { owed: BTreeMap::new(), order: BTreeMap::new(), next_tag: 0 };
        for step in steps {
            match step {
                Step::Arrive(port, tlp) => ledger.arrive(port, tlp, &mut rig.switch, rig.now),
                Step::Wait(ticks) => {
                    rig.now += Duration::from_ns(10 * u64::from(ticks));
                    rig.switch.handle_timeout(rig.now);
                }
                Step::Send(port, class, room) => {
                    if let Some(tlp) = rig.switch.poll_tlp(port, rig.now, class, TcSet::from_bits(room)) {
                        prop_assert!(room >> tlp.repr.tc.bits() & 1 == 1);
                        ledger.sent(port, &tlp);
                    }
                }
            }
            ledger.collect(&mut rig.switch);
        }
        for (port, tlp) in rig.drain() {
            ledger.sent(port, &tlp);
        }
        ledger.collect(&mut rig.switch);
        prop_assert!(rig.switch.is_empty(), "nothing is stuck: {:?}", rig.switch.waits_for());
        prop_assert!(ledger.owed.values().all(|owed| *owed == 0), "every credit is back: {:?}", ledger.owed);
        prop_assert!(ledger.order.values().all(VecDeque::is_empty), "every write has left");
        prop_assert_eq!(rig.switch.counters().overflows, 0);
    }
}

/// A TLP, a link that goes down, one that comes up, or time that passes.
#[derive(Clone, Debug)]
enum Event {
    Arrive(usize, Tlp),
    Down(usize),
    Up(usize),
    Drain,
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => (0usize..4).prop_flat_map(|port| any_tlp(port).prop_map(move |tlp| Event::Arrive(port, tlp))),
        1 => (1usize..4).prop_map(Event::Down),
        1 => (1usize..4).prop_map(Event::Up),
        1 => Just(Event::Drain),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Links go down and come up while TLPs wait: each TLP is sent, answered or reported as dropped, exactly once. The
    /// switch's own messages have no account.
    #[test]
    fn every_tlp_is_accounted_for(events in prop::collection::vec(any_event(), 1..200)) {
        let mut rig = Rig::new();
        let (mut up, mut arrived, mut left) = ([true; 4], 0, 0);
        for event in events {
            match event {
                // Wires are joined: how many of their messages leave is another matter.
                Event::Arrive(_, tlp) if matches!(tlp.repr.body, Body::Message(m) if m.routing == MessageRouting::Local) => {}
                Event::Arrive(port, tlp) if up[port] => {
                    arrived += 1;
                    rig.put(port, &Tlp { account: Account(1), ..tlp });
                }
                Event::Arrive(..) => {}
                Event::Down(port) if up[port] => {
                    up[port] = false;
                    rig.switch.handle_notice(port, rig.now, Notice::Down { surprise: true });
                }
                Event::Up(port) if !up[port] => {
                    up[port] = true;
                    rig.switch.handle_notice(port, rig.now, Notice::Up { rate: RATE, width: width(8) });
                }
                Event::Down(_) | Event::Up(_) => {}
                Event::Drain => left += rig.drain().iter().filter(|(_, tlp)| tlp.account == Account(1)).count(),
            }
        }
        left += rig.drain().iter().filter(|(_, tlp)| tlp.account == Account(1)).count();
        let is_drop = |effect: &Effect| matches!(effect, Effect::Note(Note::Drop { account: Account(1) }));
        let dropped = rig.switch.effects().iter().filter(|effect| is_drop(effect)).count();
        prop_assert!(rig.switch.is_empty(), "nothing is stuck: {:?}", rig.switch.waits_for());
        prop_assert_eq!(arrived, left + dropped);
    }
}

/// If every port that the switch returns is polled, no port that can send is forgotten.
#[test]
fn every_port_able_to_send_is_polled() {
    let mut rig = Rig::new();
    while rig.switch.poll_touched().is_some() {}
    let tlps = [
        (1, write(function(3), 0x8000_0000, 64)),
        (1, write(function(3), 0x2000_0000, 64)),
        (1, read(function(3), 0x3000_0000, 64)),
        (2, completion(function(4), bdf(A.0, A.1, A.2), 64)),
    ];
    for (port, tlp) in &tlps {
        rig.put(*port, tlp);
    }
    rig.now += LATENCY;
    rig.switch.handle_timeout(rig.now);
    let mut sent = 0;
    while let Some(port) = rig.switch.poll_touched() {
        for class in Class::ALL {
            while rig.switch.poll_tlp(port, rig.now, class, TcSet::ALL).is_some() {
                sent += 1;
            }
        }
    }
    assert_eq!(sent, tlps.len());
}
