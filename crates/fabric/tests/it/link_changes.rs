// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links that change while they run, links that retrain, links with scaled flow control and links without flow control:
//! the TLPs that arrive, the rate, and the cost.

use crate::common;
use crate::common::link;
use crate::common::sources::{Source, Sources};
use crate::common::system::{Arrivals, System, text};
use device::Io;
use device::io::Request;
use link::{Counters, CreditLimit, FlowControlMode, Frame, PortConfig, ReplayTimerRule};
use riser_fabric::{
    Direction, Fabric, FaultAction, FrameKind, Limits, LinkChange, LinkConfig, LinkEvent, LinkId, PortId,
    Side, Stop,
};
use tlp::{Dllp, Duration, Rate, Time, Width};

fn at_us(us: u64) -> Time {
    Time::ZERO + Duration::from_us(us)
}

fn each_port(link: &mut LinkConfig, change: impl Fn(&mut PortConfig)) {
    change(&mut link.root);
    change(&mut link.device);
    assert_eq!((link.root.validate(), link.device.validate()), (Ok(()), Ok(())));
}

fn system(link: LinkConfig, sources: Vec<Source>) -> System {
    let mut system = System::new();
    system.slots.push(riser_fabric::SlotConfig::on_root_port(link, Box::new(Sources::new(sources))));
    system
}

fn counters(fabric: &Fabric, side: Side) -> Counters {
    let counters = *fabric.port_counters(PortId::new(LinkId(0), side));
    assert_eq!(counters.classified_bytes(), counters.wire_bytes);
    assert_eq!((counters.receiver_overflows, counters.data_link_protocol_errors), (0, 0));
    counters
}

fn run_until(fabric: &mut Fabric, us: u64) -> Counters {
    // Without flow control a link without TLPs is silent.
    let stop = fabric.run(Limits { until: at_us(us), ..Limits::default() });
    assert!(matches!(stop, Stop::TimeLimit | Stop::Finished), "{stop}");
    counters(fabric, Side::Device)
}

/// Picoseconds of a byte on the wire, as a fraction.
fn byte_ps(rate: Rate, lanes: u8) -> f64 {
    let symbol = rate.symbol_time_ps();
    symbol.num as f64 / symbol.den as f64 / f64::from(lanes)
}

/// A saturated link changes its speed four times; before and after each change, its wire bytes match its speed, and no
/// TLP is lost or duplicated.
#[test]
fn bandwidth_follows_rate_and_width() {
    let steps = [
        (Rate::Gt8, 8),
        (Rate::Gt2_5, 8),
        (Rate::Gt2_5, 1),
        (Rate::Gt32, 4),
        (Rate::Gt5, 12),
        (Rate::Gt16, 16),
    ];
    let mut fabric = system(link(steps[0].0, steps[0].1, 256), vec![Source::flood(0, 256)]).without_program();
    for (n, (rate, lanes)) in (1..).zip(&steps[1..]) {
        let width = Width::new(*lanes).unwrap();
        fabric.schedule(LinkEvent {
            at: at_us(200 * n),
            link: LinkId(0),
            change: LinkChange::Speed { rate: *rate, width },
        });
    }
    for (n, (rate, lanes)) in (0..).zip(steps) {
        let before = run_until(&mut fabric, 200 * n + 20);
        let after = run_until(&mut fabric, 200 * n + 195);
        let bytes = (after.wire_bytes - before.wire_bytes) as f64;
        let wire = 175e6 / byte_ps(rate, lanes);
        // Frames that the ends of the span cut.
        assert!((bytes - wire).abs() < 600.0, "{rate} x{lanes}: {bytes} of {wire} bytes");
        assert_eq!(after.link_changes, n);
    }
    let (device, root) = (counters(&fabric, Side::Device), counters(&fabric, Side::Root));
    assert_eq!((device.replayed_tlps, root.duplicate_tlps, root.out_of_sequence), (0, 0, 0));
    assert!(fabric.root().counters().memory_writes + 300 > device.tlps, "all except those in flight");
}

/// The wire is silent for the time of a retrain, in both directions; frames already on it arrive.
#[test]
fn the_wire_is_silent_while_the_link_retrains() {
    let mut fabric = system(link(Rate::Gt8, 8, 256), vec![Source::flood(0, 256)]).without_program();
    let event = LinkEvent {
        at: at_us(50),
        link: LinkId(0),
        change: LinkChange::Speed { rate: Rate::Gt8, width: Width::new(4).unwrap() },
    };
    fabric.schedule(event);
    let leaves = Arrivals::new(|r| Some((r.time, r.direction, r.frame.wire_bytes())));
    fabric.set_tap(Box::new(leaves.clone()));
    run_until(&mut fabric, 60);
    // Arrivals: two nanoseconds after the last symbol.
    let [up, down] = [Direction::Upstream, Direction::Downstream].map(|direction| {
        let seen = leaves.seen.borrow();
        let times: Vec<_> = seen.iter().filter(|f| f.1 == direction).map(|f| (f.0, f.2)).collect();
        times
    });
    let retrain = Duration::from_us(4);
    for frames in [up, down] {
        let back = frames.iter().position(|f| f.0 > at_us(50) + retrain).unwrap();
        let (last, (first, bytes)) = (frames[back - 1].0, frames[back]);
        assert!(last <= at_us(50) + Duration::from_ns(2 + 37), "the frame in flight is still sent: {last}");
        let begins = first.as_ps() - (f64::from(bytes) * byte_ps(Rate::Gt8, 4)) as u64 - 2_000;
        assert!(begins + 1 >= at_us(50).as_ps() + retrain.as_ps(), "{begins}");
    }
}

/// REPLAY_NUM rolls over, and the link is silent for 900 us. In that time a running link would send 147 SKPs on each
/// lane (`PCIe 5.0 §4.2.7`: one in 375 blocks of 16.25 ns, 6.09 us). Neither end sends them later.
#[test]
fn silent_link_sends_no_missed_skps_later() {
    let mut link = link(Rate::Gt8, 1, 256);
    each_port(&mut link, |port| port.retrain = Duration::from_us(900));
    let source = Source { left: 1, from: at_us(10), ..Source::flood(0, 64) };
    let mut system = system(link, vec![source]);
    for nth in 1..=4 {
        system = system.fault(Direction::Upstream, FrameKind::Tlp, nth, 0, FaultAction::Drop);
    }
    let mut fabric = system.without_program();
    let last = run_until(&mut fabric, 1_020);
    assert_eq!((last.replay_num_rollovers, last.replayed_tlps), (1, 4));
    for side in [Side::Device, Side::Root] {
        // 1,020 us less the silence.
        let sets = counters(&fabric, side).skp_sets;
        assert!((17..=20).contains(&sets), "{side:?}: {sets}");
    }
}

/// A host program and a device go on across changes of their link, with errors on it: every byte is right.
#[test]
fn traffic_continues_across_link_changes_and_errors() {
    let mut flaky = link(Rate::Gt8, 8, 256);
    flaky.bit_error_rate = u64::MAX / 200_000;
    let mut fabric = System::new()
        .device(flaky, |io: Io| async move {
            while let Some(request) = io.next_request().await {
                if let Request::Write(_) = request {
                    let _ = io.dma_write(0x1000, common::system::bytes(5, 3000)).await;
                    let _ = io.interrupt(0).await;
                }
            }
        })
        .with_program(|cpu, found| async move {
            for _ in 0..200 {
                cpu.memory().write(0x1000, &[0; 3000]).map_err(text)?;
                cpu.write_u32(common::system::bar(&found[0], 0), 1).await.map_err(text)?;
                cpu.interrupt(found[0].vector(0)).await;
                let mut data = vec![0; 3000];
                cpu.memory().read(0x1000, &mut data).map_err(text)?;
                if data != common::system::bytes(5, 3000) {
                    return Err("other bytes".into());
                }
            }
            Ok(())
        });
    for n in 0..30u64 {
        let rate = [Rate::Gt2_5, Rate::Gt8, Rate::Gt16][n as usize % 3];
        let width = Width::new([1, 4, 8, 16][n as usize % 4]).unwrap();
        fabric.schedule(LinkEvent {
            at: at_us(20 + 9 * n),
            link: LinkId(0),
            change: LinkChange::Speed { rate, width },
        });
    }
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
    assert!(counters(&fabric, Side::Device).link_changes > 3);
    assert!(counters(&fabric, Side::Root).bad_lcrc > 0);
}

/// All TLPs of 200 us are lost: REPLAY_TIMER expires, REPLAY_NUM rolls over at each fourth, the link retrains, and
/// after the wire works again, every TLP arrives once (`PCIe 5.0 §3.6.2.1`).
#[test]
fn retraining_after_replay_num_rolls_over_recovers() {
    let lost: u64 = 40;
    let source = Source { left: 20, from: at_us(10), ..Source::flood(0, 256) };
    let mut fabric = system(link(Rate::Gt8, 8, 256), vec![source])
        .fault(Direction::Upstream, FrameKind::Tlp, 1, 0, FaultAction::Drop)
        .fault(Direction::Upstream, FrameKind::Tlp, 2, 0, FaultAction::Drop);
    for n in 3..=lost {
        fabric = fabric.fault(Direction::Upstream, FrameKind::Tlp, n, 0, FaultAction::Drop);
    }
    // Naks are lost as well, so that only the timer causes replays.
    let mut fabric = fabric.without_program();
    run_until(&mut fabric, 400);
    let device = counters(&fabric, Side::Device);
    assert_eq!(fabric.root().counters().memory_writes, 20);
    // 40 lost are two rounds of 20: the first transmission and one replay. The second replay arrives.
    assert_eq!((device.tlps, device.replayed_tlps, device.replay_timeouts), (20, 40, 2));
    assert_eq!(device.replay_num_rollovers, 0);
}

/// While every TLP is lost, the link retrains once for every four timeouts. No timeout comes early, and both directions
/// are silent during a retrain.
#[test]
fn dead_direction_retrains_at_the_pace_of_the_timer() {
    let source = Source { left: 1, from: at_us(10), ..Source::flood(0, 64) };
    let mut fabric = system(link(Rate::Gt8, 8, 256), vec![source])
        .fault(Direction::Upstream, FrameKind::Tlp, 1, 1, FaultAction::Drop)
        .without_program();
    let device = run_until(&mut fabric, 800);
    // 24,000 symbol times at 8 GT/s are 24.4 us; each fourth is followed by 4 us of silence.
    let period = 4.0 * 24.375 + 4.0;
    let rollovers = (790.0 / period) as u64;
    assert!(device.replay_num_rollovers.abs_diff(rollovers) <= 1, "{}", device.replay_num_rollovers);
    assert!(device.replay_timeouts.abs_diff(4 * rollovers) <= 4, "{}", device.replay_timeouts);
    assert_eq!(fabric.root().counters().memory_writes, 0);
}

/// The time at which a lost TLP is replayed (`PCIe 5.0 §3.6.2.1`), with REPLAY_TIMER by either rule. Revision 3 sets
/// three times the table's Ack latency, revision 4 sets 24,000 to 31,000 symbol times.
#[test]
fn replay_timer_follows_rev3_and_rev4_rules() {
    // Gen3 x8, MPS 256: (256 + 28) * 2.5 / 8 + 115 = 203 symbol times of 16.25 / 16 ns.
    let rows = [
        (ReplayTimerRule::Rev3, 3 * 203),
        (ReplayTimerRule::Rev4 { symbols: 24_000 }, 24_000),
        (ReplayTimerRule::Rev4 { symbols: 31_000 }, 31_000),
    ];
    for (replay_timer, symbols) in rows {
        let mut link = link(Rate::Gt8, 8, 256);
        each_port(&mut link, |port| port.replay_timer = replay_timer);
        let source = Source { left: 1, from: at_us(10), ..Source::flood(0, 64) };
        let mut fabric = system(link, vec![source])
            .fault(Direction::Upstream, FrameKind::Tlp, 1, 0, FaultAction::Drop)
            .without_program();
        let arrivals = Arrivals::new(|r| matches!(r.frame, Frame::Tlp { .. }).then_some(r.time));
        fabric.set_tap(Box::new(arrivals.clone()));
        run_until(&mut fabric, 60);
        let took = arrivals.seen.borrow()[0].since(at_us(10)).as_ps();
        // Twice the 88 B of the TLP, and 2 ns.
        let due = symbols * 16_250 / 16 + 2 * 88 * 16_250 / 128 + 2_000;
        // Two roundings.
        assert!(took + 2 >= due && took <= due + 17_000, "{replay_timer:?}: {took} ps, {due} due");
    }
}

/// A long link, 20 us there and back: unscaled, no more than 2047 data credits are in flight; scaled by 16, as many as
/// the wire holds (`PCIe 5.0 §3.4.2`). The exchange of features and the scales are on the wire.
#[test]
fn scaled_flow_control_fills_a_long_link() {
    let mut rates = Vec::new();
    for (at_root, at_device) in [(true, true), (false, true), (true, false), (false, false)] {
        let mut long = link(Rate::Gt8, 16, 256);
        long.propagation = Duration::from_us(10);
        let credits =
            |scaled| if scaled { CreditLimit::finite(2032, 32_752) } else { CreditLimit::finite(127, 2047) };
        for (port, scaled) in [(&mut long.root, at_root), (&mut long.device, at_device)] {
            port.scaled_flow_control = scaled;
            port.rx_buffer[0] = credits(scaled);
            port.replay_buffer_tlps = 2047;
            port.replay_buffer_bytes = 1 << 20;
            assert_eq!(port.validate(), Ok(()));
        }
        let mut fabric = system(long, vec![Source::flood(0, 256)]).without_program();
        let features = Arrivals::new(|r| match r.frame {
            Frame::Dllp(Dllp::Feature(feature)) => Some(feature.scaled_flow_control()),
            _ => None,
        });
        fabric.set_tap(Box::new(features.clone()));
        let before = run_until(&mut fabric, 200);
        let after = run_until(&mut fabric, 600);
        rates.push((after.payload_bytes - before.payload_bytes) as f64 * 8.0 / 400e3);
        assert_eq!(!features.seen.borrow().is_empty(), at_root || at_device);
    }
    // 127 TLPs of 256 B for each 20 us and a little; the wire carries 115 Gb/s.
    assert!(rates[0] > 110.0, "{rates:?}");
    for unscaled in &rates[1..] {
        assert!((*unscaled - 127.0 * 2048.0 / 20_150.0).abs() < 0.3, "{rates:?}");
    }
}

/// A link as in gem5 (IISWC'18, §IV): a receiver of `buffer_tlps`, and a memory that takes 100 ns per write.
fn uncredited(buffer_tlps: u16, replay_buffer_tlps: u16) -> (Fabric, u64) {
    let mut link = link(Rate::Gt5, 8, 128);
    each_port(&mut link, |port| {
        port.flow_control = FlowControlMode::None { buffer_tlps };
        port.replay_buffer_tlps = replay_buffer_tlps;
    });
    const WRITES: u64 = 1_000;
    let mut system = system(link, vec![Source { left: WRITES, ..Source::flood(0, 64) }]);
    system.host.write_request_service = Duration::from_ns(100);
    let mut fabric = system.without_program();
    run_until(&mut fabric, 2_000);
    (fabric, WRITES)
}

/// Every TLP arrives once, although the receiver drops some. A smaller receiver drops more TLPs, which the timer sends
/// again. A sender that keeps fewer TLPs unacknowledged overruns it less, as in Figures 9c and 9d of the paper.
#[test]
fn without_flow_control_a_full_receiver_drops_and_the_timer_replays() {
    let mut replays = Vec::new();
    for (buffer, replay_buffer) in [(1000, 4), (28, 4), (20, 4), (16, 4), (4, 4), (16, 2), (16, 1)] {
        let (fabric, writes) = uncredited(buffer, replay_buffer);
        let (device, root) = (counters(&fabric, Side::Device), counters(&fabric, Side::Root));
        assert_eq!(fabric.root().counters().memory_writes, writes, "{buffer}, {replay_buffer}");
        assert_eq!((device.tlps, root.duplicate_tlps), (writes, 0));
        assert_eq!(
            (device.dllps.init_fc, root.dllps.init_fc, root.dllps.update_fc, root.dllps.nak),
            (0, 0, 0, 0)
        );
        // Only the timer replays, and only TLPs that were dropped or came after a dropped one.
        assert_eq!(device.replayed_tlps, root.full_buffer_drops + root.out_of_sequence);
        assert_eq!(device.replay_timeouts > 0, device.replayed_tlps > 0);
        assert_eq!(device.replay_num_rollovers, 0);
        replays.push(device.replayed_tlps);
    }
    assert_eq!(replays[0], 0, "a buffer for all");
    assert!(replays[1..5].is_sorted() && replays[1] > 0 && replays[4] > 2 * replays[3], "{replays:?}");
    let [two, one] = [replays[5], replays[6]];
    assert!(two < replays[3] && one == 0, "a short replay buffer throttles the sender: {replays:?}");
}
