// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Virtual channels through the whole fabric: the shares of a link, the waiting between channels, and the effect of a
//! Traffic Class without a channel.

use crate::common;
use crate::common::link;
use crate::common::sources::{Source, Sources, write};
use crate::common::system::{Arrivals, Raw, System, credits};
use link::{Counters, CreditLimit, Frame, PhaseTable, PortConfig, VcArbitration, VcScheme};
use riser_fabric::{Fabric, Limits, LinkConfig, LinkId, PortId, Side, Stop};
use std::collections::BTreeMap;
use tlp::{Class, Duration, Rate, TcSet, TcVcMap, Time, Vc};

fn each_port(link: &mut LinkConfig, change: impl Fn(&mut PortConfig)) {
    change(&mut link.root);
    change(&mut link.device);
    assert_eq!((link.root.validate(), link.device.validate()), (Ok(()), Ok(())));
}

/// Eight channels on a link of Gen3 x8.
fn eight_channels(arbitration: &VcArbitration) -> LinkConfig {
    let mut link = link(Rate::Gt8, 8, 256);
    each_port(&mut link, |port| {
        port.tc_vc = TcVcMap::one_to_one();
        port.arbitration = arbitration.clone();
    });
    link
}

fn fabric(link: LinkConfig, sources: Vec<Source>) -> Fabric {
    let mut system = System::new();
    system.slots.push(riser_fabric::SlotConfig::on_root_port(link, Box::new(Sources::new(sources))));
    system.without_program()
}

fn run_until(fabric: &mut Fabric, us: u64) -> Counters {
    let until = Time::ZERO + Duration::from_us(us);
    assert_eq!(fabric.run(Limits { until, ..Limits::default() }), Stop::TimeLimit);
    let counters = *fabric.port_counters(PortId::new(LinkId(0), Side::Device));
    assert_eq!(counters.classified_bytes(), counters.wire_bytes);
    assert_eq!(counters.vcs.iter().map(|vc| vc.tlps).sum::<u64>(), counters.tlps);
    assert_eq!(counters.vcs.iter().map(|vc| vc.payload_bytes).sum::<u64>(), counters.payload_bytes);
    counters
}

/// Shares of the payload by channel, in the second half of a run in which all channels flood the link.
fn shares(arbitration: &VcArbitration) -> [f64; 8] {
    let sources = (0..8).map(|tc| Source::flood(tc, 256)).collect();
    let mut fabric = fabric(eight_channels(arbitration), sources);
    let (a, b) = (run_until(&mut fabric, 50), run_until(&mut fabric, 450));
    let root = fabric.port_counters(PortId::new(LinkId(0), Side::Root));
    assert_eq!((root.receiver_overflows, root.unmapped_tcs), (0, 0));
    let all = (b.payload_bytes - a.payload_bytes) as f64;
    std::array::from_fn(|vc| (b.vcs[vc].payload_bytes - a.vcs[vc].payload_bytes) as f64 / all)
}

/// Rows: phases of each channel. The shares of a link match them within 1 %.
#[test]
fn bandwidth_follows_phase_weights() {
    let rows: [[u8; 8]; 4] = [
        [4, 4, 4, 4, 4, 4, 4, 4],
        [1, 2, 3, 4, 5, 5, 6, 6],
        [32, 16, 8, 4, 1, 1, 1, 1],
        [2, 2, 4, 8, 8, 16, 32, 56],
    ];
    for phases in rows {
        let table = PhaseTable::spread(phases).unwrap();
        let total = table.phases().len() as f64;
        let shares = shares(&VcArbitration::weighted(table));
        for (share, phases) in shares.into_iter().zip(phases) {
            let due = f64::from(phases) / total;
            assert!((share / due - 1.0).abs() < 0.01, "{share} for {phases} of {total} phases");
        }
    }
}

#[test]
fn round_robin_shares_equally_and_strict_priority_does_not() {
    for share in shares(&VcArbitration::round_robin()) {
        assert!((share * 8.0 - 1.0).abs() < 0.01, "{share}");
    }
    assert_eq!(shares(&VcArbitration::default()), [0., 0., 0., 0., 0., 0., 0., 1.]);
    // VC4 to VC7 leave no bandwidth to VC0 to VC3.
    let group = VcArbitration { low_priority: Vc::from_bits(3), scheme: VcScheme::RoundRobin };
    assert_eq!(shares(&group)[7], 1.0);
}

/// The group shares the bandwidth that strict channels leave.
#[test]
fn low_priority_group_shares_remaining_bandwidth() {
    let arbitration = VcArbitration { low_priority: Vc::from_bits(1), scheme: VcScheme::RoundRobin };
    let mut sources: Vec<Source> = [0, 1].map(|tc| Source::flood(tc, 256)).into();
    // A write each 100 ns.
    sources.push(Source { every: Duration::from_ns(100), ..Source::flood(2, 128) });
    let mut fabric = fabric(eight_channels(&arbitration), sources);
    let sent = run_until(&mut fabric, 400);
    // The first at time zero, before the link is up.
    assert!(sent.vcs[2].tlps.abs_diff(4_000) <= 8, "{}", sent.vcs[2].tlps);
    assert!(sent.vcs[0].tlps.abs_diff(sent.vcs[1].tlps) <= 1);
    assert!(sent.vcs[0].tlps > 2_000);
}

/// Time in flight of each write of TC7, one every 1,013 ns, with floods of the other Traffic Classes.
fn latencies(floods: &[u8]) -> Vec<Duration> {
    let every = Duration::from_ps(1_013_000);
    let from = Time::ZERO + Duration::from_us(20);
    let mut sources = vec![Source { tc: 7, size: 64, left: 400, from, every }];
    sources.extend(floods.iter().map(|tc| Source::flood(*tc, 256)));
    let mut fabric = fabric(eight_channels(&VcArbitration::default()), sources);
    let arrivals = Arrivals::new(|r| match r.frame {
        Frame::Tlp { tlp, .. } if tlp.repr.tc.bits() == 7 => Some(r.time),
        _ => None,
    });
    fabric.set_tap(Box::new(arrivals.clone()));
    run_until(&mut fabric, 20 + 420);
    let mut due = from;
    let took = |at: &Time| {
        let took = at.since(due);
        due += every;
        took
    };
    let took: Vec<Duration> = arrivals.seen.borrow().iter().map(took).collect();
    assert_eq!(took.len(), 400);
    took
}

/// A write of strict priority waits only for the TLP on the wire. An SKP ordered set, 16 symbol times, may hold up any,
/// load or not.
#[test]
fn strict_priority_waits_for_one_tlp_at_most() {
    let alone = latencies(&[]);
    let loaded = latencies(&[0, 1, 2, 3, 4, 5, 6]);
    let skp = Duration::from_ps(16 * 16_250 / 16);
    // 16 B header, 256 B, 8 B framing: 280 B in eight lanes at 8 GT/s.
    let largest = Duration::from_ps(280 / 8 * 16_250 / 16);
    let least = alone.iter().copied().min().unwrap();
    // 88 B and 2 ns of flight.
    assert_eq!(least, Duration::from_ps(88 / 8 * 16_250 / 16 + 2_000));
    for (all, more) in [(alone, Duration::ZERO), (loaded, largest), (latencies(&[6]), largest)] {
        let worst = all.iter().copied().max().unwrap();
        assert!(worst <= least + skp + more, "{worst}, {least} at least, {largest} the largest TLP");
        let without_skp = all.iter().filter(|took| **took <= least + more).count();
        assert!(without_skp >= 390, "{without_skp} of 400 without an SKP");
        assert!(
            more == Duration::ZERO || worst.as_ps() > least.as_ps() + more.as_ps() / 2,
            "no load is felt"
        );
    }
}

/// VC1 has one header credit, which returns after two microseconds. VC1 waits, VC0 and VC2 do not.
#[test]
fn each_channel_has_its_own_credits() {
    let mut slow = eight_channels(&VcArbitration::round_robin());
    slow.propagation = Duration::from_us(1);
    let scarce = [CreditLimit::finite(1, 16), CreditLimit::finite(1, 8), CreditLimit::INFINITE];
    each_port(&mut slow, |port| port.vc_buffers = BTreeMap::from([(Vc::from_bits(1), scarce)]));
    let sources = [0, 1, 2].map(|tc| Source::flood(tc, 256)).into();
    let mut fabric = fabric(slow, sources);
    let sent = run_until(&mut fabric, 200);
    let stalled = sent.vcs.map(|vc| vc.credit_stalls > 0);
    assert!(stalled[1] && !stalled[3], "{stalled:?}");
    // A TLP for each round trip of 2 us and a little.
    assert!((80..=97).contains(&sent.vcs[1].tlps), "{}", sent.vcs[1].tlps);
    assert!(sent.vcs[0].tlps > 1_500 && sent.vcs[0].tlps.abs_diff(sent.vcs[2].tlps) < 200);
    assert_eq!(
        sent.vcs.iter().map(|vc| vc.credit_stall_ps).sum::<u64>(),
        sent.credit_stall_ps.iter().sum::<u64>()
    );
}

fn map(classes: [u8; 8]) -> TcVcMap {
    TcVcMap::new(classes.map(TcSet::from_bits)).unwrap()
}

/// Ordering is within a channel (`PCIe 5.0 §2.4.1`): on another one a read passes a write that waits.
#[test]
fn channels_do_not_wait_for_each_other() {
    for (vc, passes) in [(0, false), (1, true)] {
        let mut slow = link(Rate::Gt8, 8, 256);
        slow.propagation = Duration::from_us(1);
        each_port(&mut slow, |port| {
            port.tc_vc = if vc == 0 { TcVcMap::default() } else { map([0x01, 0xfe, 0, 0, 0, 0, 0, 0]) };
        });
        credits(&mut slow, true, Class::Posted, 1, 16);
        let raw = Raw::new();
        raw.send(20_000, write(0, 64));
        raw.send(20_010, write(0, 128));
        let mut read = common::system::read(0x1_0000_0000, 4);
        read.repr.tc = tlp::TrafficClass::from_bits(3);
        raw.send(20_020, read);
        let mut fabric = System::new().raw(slow, &raw).without_program();
        let arrivals = Arrivals::new(|r| match r.frame {
            Frame::Tlp { tlp, .. } if tlp.class() != Class::Completion => Some(tlp.class()),
            _ => None,
        });
        fabric.set_tap(Box::new(arrivals.clone()));
        run_until(&mut fabric, 60);
        let order = if passes {
            [Class::Posted, Class::NonPosted, Class::Posted]
        } else {
            [Class::Posted, Class::Posted, Class::NonPosted]
        };
        assert_eq!(*arrivals.seen.borrow(), order);
    }
}

/// TC4 to TC7 are not mapped (`PCIe 5.0 §2.5.2`): the receiver discards such TLPs as malformed and counts them, the
/// credits return, and the others arrive.
#[test]
fn an_unmapped_traffic_class_is_malformed() {
    let mut link = link(Rate::Gt8, 8, 256);
    each_port(&mut link, |port| port.tc_vc = map([0x03, 0x0c, 0, 0, 0, 0, 0, 0]));
    credits(&mut link, true, Class::Posted, 2, 32);
    let raw = Raw::new();
    let tcs = [0, 5, 1, 7, 2, 4, 3, 6, 0];
    for (n, tc) in (0..).zip(tcs.iter().cycle().take(90)) {
        raw.send(20_000 + n, write(*tc, 256));
    }
    let mut fabric = System::new().raw(link, &raw).without_program();
    let arrivals = Arrivals::new(|r| match r.frame {
        Frame::Tlp { tlp, .. } => Some(tlp.repr.tc.bits()),
        _ => None,
    });
    fabric.set_tap(Box::new(arrivals.clone()));
    let sent = run_until(&mut fabric, 100);
    assert_eq!(sent.tlps, 90);
    assert_eq!(fabric.port_counters(PortId::new(LinkId(0), Side::Root)).unmapped_tcs, 40);
    assert_eq!(fabric.root().counters().memory_writes, 50);
    let accounts = fabric.account_totals();
    assert_eq!((accounts.closed, accounts.dropped, accounts.open), (50, 40, 0));
}
