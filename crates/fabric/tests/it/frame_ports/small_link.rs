// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The example's data link layer against riser's: every byte arrives, whatever happens to frames, and neither end sees
//! the other break a rule.

use super::data_link::SmallLink;
use super::{LEN, at_us, copy, counters, joined, protocol_errors};
use crate::common::link;
use crate::common::sources::{Source, Sources};
use crate::common::system::{System, Told, bar, bytes, credits, text};
use link::{Counters, FlowControlMode, PortConfig};
use riser_fabric::{
    Alteration, Direction, Fabric, FaultAction, FrameKind, Limits, LinkChange, LinkConfig, LinkEvent, LinkId,
    Side, Stop, TopologyError, TransactionKind,
};
use tlp::{Class, Duration, Rate, TcVcMap, Width};

/// The copier below the small data link layer.
fn copier(link: LinkConfig) -> System {
    joined(super::copier(link), SmallLink::new)
}

/// The host lets the device copy `rounds` times, and compares every byte.
fn copies(system: System, rounds: u64) -> Fabric {
    system.with_program(move |cpu, found| copy(cpu, found, rounds))
}

/// Runs until all copies are right; returns the counters of the root's port and the slot's.
fn finish(fabric: &mut Fabric, what: &str) -> [Counters; 2] {
    assert_eq!(fabric.run(Limits::default()), Stop::Finished, "{what}");
    let counters = [Side::Root, Side::Device].map(|side| counters(fabric, side));
    assert_eq!(protocol_errors(&counters[0]), [0; 6], "{what}");
    let errors = fabric.slot_counts(0);
    assert!(!errors.iter().any(|(name, n)| *name == "unreadable_frames" && *n > 0), "{what}: {errors:?}");
    counters
}

#[test]
fn copies_arrive_at_every_speed() {
    for (rate, lanes) in [(Rate::Gt2_5, 1), (Rate::Gt5, 4), (Rate::Gt8, 8), (Rate::Gt32, 16)] {
        let mut fabric = copies(copier(link(rate, lanes, 256)), 20);
        let [root, device] = finish(&mut fabric, "copies");
        assert_eq!((root.replayed_tlps, device.replayed_tlps), (0, 0));
        assert!(root.bad_dllp_crc + root.bad_lcrc + root.duplicate_tlps + root.out_of_sequence == 0);
        // The transactions have their accounts, as with riser's own link.
        let totals = fabric.account_totals();
        assert!(totals.open == 0 && totals.dropped == 0 && totals.closed > 400, "{totals:?}");
        for kind in [TransactionKind::DmaRead, TransactionKind::DmaWrite, TransactionKind::HostWrite] {
            assert!(fabric.breakdown(0, kind).is_some_and(|b| b.count() >= 20), "{kind:?}");
        }
    }
}

/// Rows: a fault of every 7th frame, and what the root's port and the slot's count.
#[test]
fn frames_that_suffer_are_repaired() {
    use Direction::{Downstream, Upstream};
    use FaultAction::{Alter, BreakFraming, Corrupt, Delay, Double, Drop};
    use FrameKind::{Ack, Any, Dllp, Tlp, UpdateFc};
    type Seen = fn(&Counters, &Counters) -> bool;
    let rows: [(&str, Direction, FrameKind, FaultAction, Seen); 16] = [
        ("TLPs up are damaged", Upstream, Tlp, Corrupt, |r, d| r.bad_lcrc > 0 && d.replayed_tlps > 0),
        ("TLPs down are damaged", Downstream, Tlp, Corrupt, |r, d| d.dllps.nak > 0 && r.nak_received > 0),
        ("TLPs up are lost", Upstream, Tlp, Drop, |r, d| r.out_of_sequence > 0 && d.replayed_tlps > 0),
        ("TLPs down are lost", Downstream, Tlp, Drop, |r, _| r.replayed_tlps > 0),
        ("TLPs up are doubled", Upstream, Tlp, Double, |r, d| r.duplicate_tlps > 0 && d.replayed_tlps == 0),
        ("TLPs down are doubled", Downstream, Tlp, Double, |r, d| r.replayed_tlps + d.replayed_tlps == 0),
        ("DLLPs up are damaged", Upstream, Dllp, Corrupt, |r, _| r.bad_dllp_crc > 0),
        ("DLLPs down are damaged", Downstream, Dllp, Corrupt, |_, d| d.dllps.ack > 0),
        ("DLLPs up are lost", Upstream, Dllp, Drop, |_, d| d.dllps.ack > 0),
        ("DLLPs down are lost", Downstream, Dllp, Drop, |r, _| r.dllps.ack > 0),
        ("DLLPs up are doubled", Upstream, Dllp, Double, |r, _| r.data_link_protocol_errors == 0),
        ("DLLPs down are doubled", Downstream, Dllp, Double, |r, _| r.data_link_protocol_errors == 0),
        ("UpdateFCs down are lost", Downstream, UpdateFc, Drop, |r, _| r.dllps.update_fc > 0),
        ("framing up is broken", Upstream, Any, BreakFraming, |r, _| r.receiver_errors > 0),
        ("framing down is broken", Downstream, Any, BreakFraming, |r, _| r.nak_received > 0),
        ("frames up are late", Upstream, Any, Delay(Duration::from_ns(900)), |_, d| d.tlps > 0),
    ];
    for (what, way, kind, action, seen) in rows {
        let system = copier(link(Rate::Gt8, 4, 256)).fault(way, kind, 20, 7, action);
        let [root, device] = finish(&mut copies(system, 10), what);
        assert!(seen(&root, &device), "{what}:\n{root:#?}\n{device:#?}");
    }
    // An Ack of a TLP that the slot has never sent. Its buffer does not know it.
    let system =
        copier(link(Rate::Gt8, 4, 256)).fault(Downstream, Ack, 3, 4, Alter(Alteration::Sequence(2000)));
    finish(&mut copies(system, 10), "Acks of the future");
}

#[test]
fn bit_errors_are_repaired() {
    for seed in 1..6 {
        let mut lossy = link(Rate::Gt8, 8, 256);
        lossy.bit_error_rate = u64::MAX / 30_000;
        let mut system = copier(lossy);
        system.seed = seed;
        let [root, device] = finish(&mut copies(system, 30), "bit errors");
        assert!(
            root.bad_lcrc > 3 && device.dllps.nak > 3 && root.replayed_tlps > 3 && device.replayed_tlps > 3
        );
    }
}

/// Rows: posted headers and data that each end takes at a time.
#[test]
fn starved_credits_only_slow_down() {
    for (header, data) in [(1, 16), (2, 17), (127, 16), (5, 2047)] {
        let mut starved = link(Rate::Gt8, 8, 256);
        for at_root in [true, false] {
            credits(&mut starved, at_root, Class::Posted, header, data);
            credits(&mut starved, at_root, Class::NonPosted, 1, 1);
        }
        credits(&mut starved, false, Class::Completion, header, data);
        let [root, device] = finish(&mut copies(copier(starved), 20), "starved");
        assert!(root.dllps.update_fc > 20 && device.dllps.update_fc > 20);
    }
}

fn flood(tcs: u8, left: u64, change: impl Fn(&mut PortConfig)) -> System {
    let mut link = link(Rate::Gt8, 8, 256);
    change(&mut link.root);
    change(&mut link.device);
    let sources = (0..tcs).map(|tc| Source { left, ..Source::flood(tc, 128) }).collect();
    let mut system = System::new();
    system.slots.push(riser_fabric::SlotConfig::on_root_port(link, Box::new(Sources::new(sources))));
    joined(system, SmallLink::new)
}

fn run_until(fabric: &mut Fabric, us: u64) -> [Counters; 2] {
    let stop = fabric.run(Limits { until: at_us(us), ..Limits::default() });
    assert!(matches!(stop, Stop::TimeLimit | Stop::Finished), "{stop}");
    [Side::Root, Side::Device].map(|side| counters(fabric, side))
}

#[test]
fn eight_channels_share_the_link() {
    let mut fabric = flood(8, 500, |port| port.tc_vc = TcVcMap::one_to_one()).without_program();
    let [root, device] = run_until(&mut fabric, 1_000);
    assert_eq!(device.vcs.map(|vc| vc.tlps), [500; 8]);
    assert_eq!((fabric.root().counters().memory_writes, protocol_errors(&root)), (4_000, [0; 6]));
    // Three InitFC1 of each channel, and some InitFC2.
    assert!(
        root.dllps.init_fc > 24 && device.dllps.init_fc > 24,
        "{} {}",
        root.dllps.init_fc,
        device.dllps.init_fc
    );
}

/// Every TLP of one direction is lost for 300 us: REPLAY_NUM rolls over at either end, and the link retrains.
#[test]
fn replay_storms_end() {
    for (way, is_up) in [(Direction::Upstream, true), (Direction::Downstream, false)] {
        let system = copier(link(Rate::Gt8, 8, 256)).fault(way, FrameKind::Tlp, 30, 1, FaultAction::Drop);
        let mut fabric = copies(system, 10);
        let [root, device] = run_until(&mut fabric, 350);
        let replayed = if is_up { device.replayed_tlps } else { root.replayed_tlps };
        assert!(replayed > 8, "{replayed}");
        assert_eq!(root.replay_num_rollovers > 1, !is_up);
        fabric.clear_faults(LinkId(0));
        finish(&mut fabric, "storm");
    }
}

/// The wire is silent in both directions while a partner's request for Recovery is served.
#[test]
fn partner_that_retrains_silences_the_wire() {
    let mut system = flood(1, 1, |port| port.retrain = Duration::from_us(50));
    for nth in 1..=4 {
        system = system.fault(Direction::Upstream, FrameKind::Tlp, nth, 0, FaultAction::Drop);
    }
    let mut fabric = system.without_program();
    // Four timeouts of 24,500 symbol times, and a little.
    let [_, before] = run_until(&mut fabric, 4 * 25 + 10);
    assert_eq!((before.tlps, before.replayed_tlps, fabric.root().counters().memory_writes), (1, 3, 0));
    let [root, device] = run_until(&mut fabric, 4 * 25 + 45);
    assert_eq!(device.wire_bytes, before.wire_bytes);
    let [later, device] = run_until(&mut fabric, 4 * 25 + 80);
    assert_eq!((device.replayed_tlps, fabric.root().counters().memory_writes), (4, 1));
    assert!(later.wire_bytes > root.wire_bytes);
}

#[test]
fn link_that_goes_down_comes_up_again() {
    let mut fabric = flood(1, 20_000, |_| {}).without_program();
    for n in 0..10 {
        for (at, change) in [(20, LinkChange::Cut), (35, LinkChange::Restore)] {
            fabric.schedule(LinkEvent { at: at_us(at + 100 * n), link: LinkId(0), change });
        }
    }
    let [root, device] = run_until(&mut fabric, 2_000);
    assert_eq!((root.link_downs, device.link_downs, protocol_errors(&root)), (10, 10, [0; 6]));
    let writes = fabric.root().counters().memory_writes;
    // TLPs that wait or are on the wire when the link goes down are lost.
    assert!(writes < 20_000 && writes > 19_000 && device.tlps >= writes, "{writes} {}", device.tlps);
    let totals = fabric.account_totals();
    assert_eq!((totals.open, totals.closed), (0, writes));
}

/// The slot is emptied and filled in the middle of a run, and the device works again.
#[test]
fn removed_device_works_again() {
    let ready = Told::new();
    let told = ready.clone();
    let mut fabric = copier(link(Rate::Gt8, 8, 256)).with_program(move |cpu, found| async move {
        for round in 0..2 {
            cpu.memory().write(0x4000, &bytes(round, LEN.into())).map_err(text)?;
            if round == 1 {
                cpu.sleep(Duration::from_us(200)).await;
                let value = cpu.read_u32(bar(&found[0], 0)).await;
                told.set(value.is_ok());
            }
        }
        Ok(())
    });
    for (at, change) in [(60, LinkChange::Remove), (90, LinkChange::Insert)] {
        fabric.schedule(LinkEvent { at: at_us(at), link: LinkId(0), change });
    }
    fabric.run(Limits { until: at_us(600), ..Limits::default() });
    assert_eq!(counters(&fabric, Side::Device).link_downs, 1);
    assert!(ready.get().is_some());
}

#[test]
fn speed_changes_lose_nothing() {
    let mut fabric = copies(copier(link(Rate::Gt8, 8, 256)), 60);
    for n in 0..12u64 {
        let rate = [Rate::Gt2_5, Rate::Gt8, Rate::Gt16][n as usize % 3];
        let width = Width::new([1, 4, 8, 16][n as usize % 4]).unwrap();
        let change = LinkChange::Speed { rate, width };
        fabric.schedule(LinkEvent { at: at_us(20 + 9 * n), link: LinkId(0), change });
    }
    let [root, device] = finish(&mut fabric, "speeds");
    assert!(root.link_changes > 3 && device.link_changes == root.link_changes);
}

#[test]
fn two_runs_are_the_same() {
    let counters = || {
        let mut lossy = link(Rate::Gt8, 8, 256);
        lossy.bit_error_rate = u64::MAX / 30_000;
        let mut fabric = copies(copier(lossy), 20);
        let counters = finish(&mut fabric, "twice");
        (counters, fabric.now(), fabric.totals())
    };
    assert_eq!(counters(), counters());
}

#[test]
fn link_without_flow_control_is_refused() {
    let system = flood(1, 1, |port| port.flow_control = FlowControlMode::None { buffer_tlps: 4 });
    let error = Fabric::new(system.config(None)).err().unwrap();
    assert!(matches!(error, TopologyError::FramesWithoutCredits(_)));
    assert_eq!(
        error.to_string(),
        "the link of slot 0 has no flow control; expected credits, because its data link layer is not riser's"
    );
}
