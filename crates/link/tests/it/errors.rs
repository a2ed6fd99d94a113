// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The effect of a lost or damaged frame, one cause at a time.

use crate::common::{Fate, Joined, World, assert_counters_add_up, id_of, write};
use riser_link::{CreditLimit, Frame, Port, PortConfig};
use tlp::{
    Account, Attributes, Class, Dllp, Duration, FlowControl, FlowControlKind, Mps, Rate, Time, Tlp, Vc, Width,
};

/// `count` writes of 64 B from side 0, and a rule for frames: side, number of the frame on its side, frame.
struct Script<F> {
    next: u16,
    count: u16,
    arrived: Vec<(Time, u16)>,
    fate: F,
}

fn script<F: FnMut(usize, u64, &Frame) -> Fate>(count: u16, fate: F) -> Script<F> {
    Script { next: 0, count, arrived: Vec::new(), fate }
}

impl<F: FnMut(usize, u64, &Frame) -> Fate> World for Script<F> {
    fn next(&mut self, side: usize, class: Class) -> Option<Tlp> {
        if side != 0 || class != Class::Posted || self.next == self.count {
            return None;
        }
        self.next += 1;
        Some(write(self.next - 1, 0x100, 64, Attributes::empty()))
    }

    fn delivered(&mut self, _side: usize, now: Time, tlp: Tlp) {
        self.arrived.push((now, id_of(&tlp)));
    }

    fn fate(&mut self, side: usize, nth: u64, frame: &Frame) -> Fate {
        (self.fate)(side, nth, frame)
    }
}

fn config() -> PortConfig {
    PortConfig::new(Rate::Gt8, Width::new(8).unwrap(), Mps::new(256).unwrap())
}

fn at(us: u64) -> Time {
    Time::ZERO + Duration::from_us(us)
}

fn run<F: FnMut(usize, u64, &Frame) -> Fate>(
    config: PortConfig,
    script: &mut Script<F>,
    until: Time,
) -> Joined {
    let mut link = Joined::new([config.clone(), config.clone()], Duration::from_ns(20));
    assert!(link.run(script, until, 1_000_000), "{}", link.states());
    for side in 0..2 {
        link.port_mut(side).finish(until);
        assert_counters_add_up(link.port(side), &config);
    }
    let ids: Vec<u16> = script.arrived.iter().map(|a| a.1).collect();
    assert_eq!(ids, (0..script.count).collect::<Vec<_>>(), "each once, in order; {}", link.states());
    link
}

fn one_flip() -> Fate {
    Fate::Damaged([77].into_iter().collect())
}

fn is_tlp(frame: &Frame, number: u16) -> bool {
    matches!(frame, Frame::Tlp { sequence, .. } if *sequence == number)
}

/// `PCIe 5.0 §3.6.3.1`: one Nak; all unacknowledged TLPs are replayed.
#[test]
fn a_damaged_tlp_is_replayed_after_a_nak() {
    let mut hit = false;
    let mut world = script(8, |_, _, frame: &Frame| {
        if is_tlp(frame, 2) && !std::mem::replace(&mut hit, true) { one_flip() } else { Fate::Intact }
    });
    let link = run(config(), &mut world, at(50));
    let (tx, rx) = (link.port(0).counters(), link.port(1).counters());
    assert_eq!((rx.bad_lcrc, rx.dllps.nak, tx.nak_received), (1, 1, 1));
    assert_eq!((tx.tlps, tx.replayed_tlps, tx.replay_timeouts), (8, rx.out_of_sequence + 1, 0));
    assert_eq!(tx.replay_bytes, tx.replayed_tlps * 88);
    assert!(rx.out_of_sequence > 0 && rx.duplicate_tlps == 0);
}

/// The second Nak of a gap is not sent, so a replay that fails again waits for REPLAY_TIMER.
#[test]
fn a_replay_that_is_damaged_again_waits_for_the_timer() {
    let mut hits = 0;
    let mut world = script(1, |_, _, frame: &Frame| {
        hits += u32::from(is_tlp(frame, 0));
        if is_tlp(frame, 0) && hits <= 2 { one_flip() } else { Fate::Intact }
    });
    let link = run(config(), &mut world, at(50));
    let (tx, rx) = (link.port(0).counters(), link.port(1).counters());
    assert_eq!((rx.bad_lcrc, rx.dllps.nak, tx.replay_timeouts, tx.replayed_tlps), (2, 1, 1, 2));
}

/// A lost Ack: REPLAY_TIMER (24,000 symbol times from the end of the TLP), a duplicate, and its Ack.
#[test]
fn lost_ack_causes_a_duplicate() {
    let mut lost = false;
    let mut world = script(1, |_, _, frame: &Frame| {
        let ack = matches!(frame, Frame::Dllp(Dllp::Ack { .. }));
        if ack && !std::mem::replace(&mut lost, true) { Fate::Lost } else { Fate::Intact }
    });
    let link = run(config(), &mut world, at(40));
    let (tx, rx) = (link.port(0).counters(), link.port(1).counters());
    assert_eq!((tx.replay_timeouts, tx.replayed_tlps, rx.duplicate_tlps, rx.dllps.ack), (1, 1, 1, 2));
    assert_eq!(link.port(0).state_line(), "idle");
}

/// REPLAY_TIMER is exact to the symbol.
#[test]
fn the_replay_timer_takes_24000_symbol_times() {
    let mut sent_first = Vec::new();
    let mut world = script(1, |_, _, frame: &Frame| {
        sent_first.push(is_tlp(frame, 0));
        if is_tlp(frame, 0) && sent_first.iter().filter(|s| **s).count() == 1 {
            Fate::Lost
        } else {
            Fate::Intact
        }
    });
    let mut link = Joined::new([config(), config()], Duration::ZERO);
    while link.port(0).counters().tlps == 0 {
        assert!(link.step(&mut world, at(100)));
    }
    // Time of the transmission; the frame of 88 B ends 88 byte times (8125/64 ps) later.
    let end = link.now.as_ps() + 88 * 8125 / 64;
    while link.port(0).counters().replay_timeouts == 0 {
        assert!(link.step(&mut world, at(100)));
    }
    // Exact to the picosecond. `now` has the start of the frame, rounded down.
    assert!(link.now.as_ps().abs_diff(end + 24_000 * 16_250 / 16) <= 1);
}

/// Four replays without progress: REPLAY_NUM rolls over, the link retrains, and the TLP arrives after all.
#[test]
fn replay_num_rolls_over_into_retraining() {
    let mut seen = 0;
    let mut world = script(3, |_, _, frame: &Frame| {
        seen += u32::from(is_tlp(frame, 0));
        if matches!(frame, Frame::Tlp { .. }) && seen <= 4 { Fate::Lost } else { Fate::Intact }
    });
    let link = run(config(), &mut world, at(200));
    let tx = link.port(0).counters();
    assert_eq!((tx.replay_timeouts, tx.replay_num_rollovers, tx.replayed_tlps), (4, 1, 12));
    let four_timers = 4 * 24_000 * 16_250 / 16;
    let first = world.arrived[0].0.as_ps();
    assert!(first > four_timers + 4_000_000, "the timers and 4 us of retraining: {first}");
}

/// Progress resets REPLAY_NUM, so six TLPs that each need a replay do not make the link retrain.
#[test]
fn progress_resets_replay_num() {
    let mut config = config();
    config.replay_buffer_tlps = 1;
    let mut last = u16::MAX;
    let mut world = script(6, |_, _, frame: &Frame| match frame {
        Frame::Tlp { sequence, .. } if std::mem::replace(&mut last, *sequence) != *sequence => Fate::Lost,
        _ => Fate::Intact,
    });
    let link = run(config, &mut world, at(400));
    let tx = link.port(0).counters();
    assert_eq!((tx.replay_timeouts, tx.replayed_tlps, tx.replay_num_rollovers), (6, 6, 0));
}

/// There is one header credit, and its first UpdateFC is lost. The refresh of `PCIe 5.0 §2.6.1.2` returns the credit
/// within 30 us.
#[test]
fn periodic_refresh_replaces_a_lost_update_fc() {
    let mut lost = false;
    let mut world = script(2, |side, _, frame: &Frame| {
        let update =
            matches!(frame, Frame::Dllp(Dllp::FlowControl(fc)) if fc.kind == FlowControlKind::UpdateFc);
        if side == 1 && update && !std::mem::replace(&mut lost, true) { Fate::Lost } else { Fate::Intact }
    });
    let mut config = config();
    config.rx_buffer[0] = CreditLimit::finite(1, 16);
    let mut link = Joined::new([config.clone(), config], Duration::from_ns(20));
    assert!(link.run(&mut world, at(10), 10_000));
    assert_eq!(link.port(0).state_line(), "no posted header credits");
    assert!(link.run(&mut world, at(32), 10_000));
    let gap = world.arrived[1].0.since(world.arrived[0].0);
    assert!(gap > Duration::from_us(28) && gap < Duration::from_us(31), "{gap}");
    let tx = link.port(0).counters();
    assert_eq!(tx.credit_stalls, [1, 0, 0]);
    assert!(tx.credit_stall_ps[0].abs_diff(gap.as_ps()) < 200_000, "{} ps", tx.credit_stall_ps[0]);
}

/// Both ends come up although any one InitFC is lost.
#[test]
fn initialization_survives_lost_dllps() {
    for side in 0..2 {
        for first in 0..8 {
            for count in [1, 3, 6] {
                let mut world = script(3, |s, nth, _: &Frame| {
                    if s == side && (first..first + count).contains(&nth) { Fate::Lost } else { Fate::Intact }
                });
                let link = run(config(), &mut world, at(100));
                assert!(link.port(0).is_active() && link.port(1).is_active());
            }
        }
    }
}

#[test]
fn error_free_initialization_takes_two_triples() {
    let link = run(config(), &mut script(0, |_, _, _: &Frame| Fate::Intact), at(20));
    for side in 0..2 {
        let c = link.port(side).counters();
        assert_eq!((c.dllps.init_fc, c.dllps.total(), c.dllp_bytes), (6, 6, 48));
    }
}

/// An idle link: one UpdateFC of each finite class every 30 us, SKPs by the clock, and a state line that reports idle.
#[test]
fn idle_link_sends_only_the_refresh() {
    let link = run(config(), &mut script(0, |_, _, _: &Frame| Fate::Intact), at(1000));
    let c = link.port(0).counters();
    assert_eq!((c.dllps.update_fc, c.dllps.ack), (2 * 33, 0));
    assert_eq!(c.skp_sets, 1_000_000_000 / (6000 * 16_250 / 16));
    assert_eq!(link.port(0).state_line(), "idle");
}

/// Sequence numbers wrap twice while a frame in 37 is damaged or lost, on a fast link with many frames in flight.
#[test]
fn sequence_numbers_wrap_under_errors() {
    let mut world = script(10_000, |_, nth, _: &Frame| match nth % 37 {
        11 => one_flip(),
        29 if nth % 4 == 0 => Fate::Lost,
        _ => Fate::Intact,
    });
    let config = PortConfig::new(Rate::Gt32, Width::new(16).unwrap(), Mps::new(128).unwrap());
    let link = run(config, &mut world, at(20_000));
    let (tx, rx) = (link.port(0).counters(), link.port(1).counters());
    assert!(tx.replayed_tlps > 100 && rx.dllps.nak > 100 && tx.replay_timeouts > 0);
    assert_eq!((tx.tlps, tx.data_link_protocol_errors, rx.receiver_overflows), (10_000, 0, 0));
}

/// A replay buffer of one TLP: each TLP waits for the Ack of the previous one.
#[test]
fn a_full_replay_buffer_stops_the_sender() {
    let mut world = script(10, |_, _, _: &Frame| Fate::Intact);
    let link = run(PortConfig { replay_buffer_tlps: 1, ..config() }, &mut world, at(20));
    let tx = link.port(0).counters();
    assert_eq!((tx.replay_buffer_stalls, tx.credit_stalls, tx.replayed_tlps), (9, [0; 3], 0));
    // Ack latency 203 symbol times, 20 ns of flight each way, TLP and Ack.
    let turn = 203 * 16_250 / 16 + 40_000 + (88 + 8) * 8125 / 64;
    let spacing = world.arrived[9].0.since(world.arrived[8].0).as_ps();
    assert!(spacing.abs_diff(turn) < 5, "{spacing} ps, {turn} by sum");
}

/// Brings a port to DL_Active by hand, with one credit of each class for its sender.
fn active_port(config: PortConfig) -> Port {
    let mut port = Port::new(config);
    port.start(Time::ZERO);
    for kind in [FlowControlKind::InitFc1, FlowControlKind::InitFc2] {
        while let Some(t) = port.transmit_ready_at() {
            let _ = port.poll_transmit(t);
        }
        for class in Class::ALL {
            let fc = FlowControl::new(kind, class, Vc::VC0, 1, 16);
            let frame = Frame::Dllp(Dllp::FlowControl(fc));
            assert!(!port.handle_frame(Time::from_ps(1), frame));
        }
    }
    while let Some(t) = port.transmit_ready_at() {
        let _ = port.poll_transmit(t);
    }
    assert!(port.is_active());
    port
}

/// In FC_INIT2 a TLP arrives before this end's InitFC2s are sent, and leaves the buffer at once. The InitFC2s repeat
/// the values of InitFC1, since the other end ignores them. An UpdateFC reports the returned credits as soon as it is
/// permitted, not 30 us later.
#[test]
fn credits_returned_before_dl_active_are_reported() {
    let mut port = Port::new(config());
    port.start(Time::ZERO);
    let mut said = Vec::new();
    let mut drain = |port: &mut Port, most: usize| {
        for _ in 0..most {
            let Some(at) = port.transmit_ready_at() else { return };
            if let Some(Frame::Dllp(Dllp::FlowControl(fc))) = port.poll_transmit(at).map(|t| t.frame) {
                said.push((fc.kind, fc.class, fc.header_credits(), fc.data_credits()));
            }
        }
    };
    drain(&mut port, 3);
    for class in Class::ALL {
        let fc = FlowControl::new(FlowControlKind::InitFc1, class, Vc::VC0, 1, 16);
        assert!(!port.handle_frame(Time::from_ps(1), Frame::Dllp(Dllp::FlowControl(fc))));
    }
    assert!(!port.is_active());
    assert!(port.handle_frame(Time::from_ps(2), frame(0).as_ref()));
    port.return_credits(Time::from_ps(2), tlp::TrafficClass::default(), Class::Posted, 16);
    drain(&mut port, 20);
    assert!(port.is_active());
    use FlowControlKind::{InitFc1, InitFc2, UpdateFc};
    let triple = |kind| {
        [
            (kind, Class::Posted, 127, 2047),
            (kind, Class::NonPosted, 127, 2047),
            (kind, Class::Completion, 0, 0),
        ]
    };
    let mut expected = [triple(InitFc1), triple(InitFc2)].concat();
    expected.push((UpdateFc, Class::Posted, 128, 2063));
    assert_eq!(said, expected);
}

fn frame(sequence: u16) -> Frame {
    Frame::Tlp { sequence, tlp: write(sequence, 0x100, 256, Attributes::empty()) }
}

/// Receiver Overflow (`PCIe 5.0 §2.6.1.2`): counted, discarded, and no other harm.
#[test]
fn a_sender_beyond_its_credits_is_counted() {
    let mut config = config();
    config.rx_buffer[0] = CreditLimit::finite(2, 32);
    let mut port = active_port(config);
    let now = at(1);
    assert!(port.handle_frame(now, frame(0).as_ref()));
    assert!(port.handle_frame(now, frame(1).as_ref()));
    assert!(!port.handle_frame(now, frame(2).as_ref()));
    assert_eq!(port.counters().receiver_overflows, 1);
    assert_eq!((port.poll_refused(), port.poll_refused()), (true, false), "once");
    port.return_credits(now, tlp::TrafficClass::default(), Class::Posted, 16);
    assert!(port.handle_frame(now, frame(3).as_ref()));
    // A duplicate is no loss, and a TLP that arrives too early will be replayed.
    for sequence in [3, 9] {
        assert!(!port.handle_frame(now, frame(sequence).as_ref()));
        assert!(!port.poll_refused());
    }
}

/// An Ack of a TLP that was never sent (`PCIe 5.0 §3.6.2.2`), and credits of channels that do not exist.
#[test]
fn unknown_dllps_are_ignored() {
    let mut port = active_port(config());
    for dllp in [
        Dllp::Ack { sequence: 5 },
        Dllp::Nak { sequence: 2000 },
        Dllp::Ack { sequence: 0xffff },
        Dllp::FlowControl(FlowControl::new(FlowControlKind::UpdateFc, Class::Posted, Vc::from_bits(3), 0, 0)),
    ] {
        assert!(!port.handle_frame(at(1), Frame::Dllp(dllp)));
    }
    assert_eq!(port.counters().data_link_protocol_errors, 2);
    assert_eq!(port.counters().replay_num_rollovers, 0);
    port.enqueue(at(1), write(0, 0x100, 256, Attributes::empty()), Account::NONE);
    port.enqueue(at(1), write(1, 0x100, 256, Attributes::empty()), Account::NONE);
    assert!(port.poll_transmit(at(2)).is_some());
    assert!(port.poll_transmit(at(3)).is_none());
    assert_eq!(port.state_line(), "no posted header credits; 1 TLPs unacknowledged");
}

#[test]
fn state_lines_name_missing_dllps_and_credits() {
    let mut port = Port::new(config());
    assert_eq!(port.state_line(), "link not started");
    port.start(Time::ZERO);
    assert_eq!(port.state_line(), "flow-control initialization: waits for InitFC1");
    let mut port = active_port(config());
    let update = FlowControl::new(FlowControlKind::UpdateFc, Class::Posted, Vc::VC0, 9, 3);
    let _ = port.handle_frame(at(1), Frame::Dllp(Dllp::FlowControl(update)));
    assert!(port.has_room(Class::Posted));
    port.enqueue(at(1), write(0, 0x100, 256, Attributes::empty()), Account::NONE);
    assert_eq!(port.state_line(), "no posted data credits: needs 16, has 3");
    assert_eq!(port.transmit_ready_at(), None);
}
