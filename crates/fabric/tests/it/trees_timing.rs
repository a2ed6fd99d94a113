// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One TLP through one, two and three switches, compared to the picosecond with arithmetic from symbol times and
//! latencies alone. Covers both ways of forwarding, and links of different rates and widths.

use crate::common::tree;
use crate::common::tree::watch::Watch;
use crate::common::tree::{LinkPlan, RunPlan, TreePlan};
use endpoint::{RawDevice, TlpPort};
use riser_fabric::{Above, Direction, Forwarding, HostId, Limits, Stop};
use tlp::*;

/// Time at which it is sent: all links are up, and no SKP ordered set is in its way. With 375 blocks of 16 symbols
/// between them (`PCIe 5.0 §4.2.7`), they come at 1.52 and 3.05 us with 32 GT/s, at 3.05 us with 16 GT/s, and later at
/// other rates.
const SENT_NS: u64 = 1600;
const PROPAGATION_PS: u64 = 1700;
/// STP, sequence number, LCRC and END of a TLP: `PCIe 5.0 §4.2.1.2`, §3.6.2; the first four bytes come before the header.
const FRAMING: u64 = 8;
/// A write with an address of 64 bits.
const HEADER: u64 = 16;

/// Rate and lanes of a link, by generation.
type Link = (u8, u8);

/// Time of `bytes` on a link; a whole number of picoseconds in all rows here. Symbol times: 4, 2 and 1 ns
/// (`PCIe 5.0 §4.2.1`, 8b/10b) and 130/128 of 8, 16, 32 GT/s (§4.2.2).
fn on_the_wire(bytes: u64, (generation, lanes): Link) -> u64 {
    let (num, den) = match generation {
        1 => (4000, 1),
        2 => (2000, 1),
        3 => (8125, 8),
        4 => (8125, 16),
        _ => (8125, 32),
    };
    let all = bytes * num;
    assert_eq!(all % (den * u64::from(lanes)), 0, "row is not in whole picoseconds");
    all / (den * u64::from(lanes))
}

/// Returns when a write with `data` bytes arrives at the end of each link, beginning with the leaf's link.
fn expected(data: u64, links: &[Link], latency_ps: u64, cuts_through: bool) -> Vec<u64> {
    let bytes = HEADER + data + FRAMING;
    let mut start = SENT_NS * 1000;
    let mut arrivals = Vec::new();
    for (n, link) in links.iter().enumerate() {
        let wire = on_the_wire(bytes, *link);
        let arrival = start + wire + PROPAGATION_PS;
        arrivals.push(arrival);
        let Some(next) = links.get(n + 1) else { break };
        start = if cuts_through {
            // Rounded down, as all times of the wire.
            let head = start + PROPAGATION_PS + wire * (HEADER + 4) / bytes;
            // Each symbol must have arrived before it is due.
            (head + latency_ps).max(arrival - on_the_wire(bytes, *next))
        } else {
            arrival + latency_ps
        };
    }
    arrivals
}

fn measured(data: u32, links: &[Link], latency_ps: u64, mode: Forwarding) -> Vec<u64> {
    let mut plan = TreePlan { slots: false, ..TreePlan::new() };
    let link = |&(generation, lanes): &Link| LinkPlan {
        propagation_ps: PROPAGATION_PS,
        ..LinkPlan::new(Rate::from_generation(generation).unwrap(), lanes)
    };
    let (leaf, above) = links.split_first().unwrap();
    let mut place = Above::RootPort(HostId::FIRST);
    for links in above.iter().rev() {
        let switch = plan.switch(place, link(links), mode, latency_ps);
        place = plan.port(switch);
    }
    plan.leaf(place, link(leaf));
    let mut device = RawDevice::new(1);
    let span = Span::covering(tree::HIGH, data).unwrap();
    let (requester, tag) = (plan.places()[0].id, Tag::default());
    let body = MemoryRequest { op: MemoryOp::Write, requester, tag, span };
    let tlp = Tlp::new(Repr::new(Body::Memory(body)), Data::Counted(data));
    device.send(Time::ZERO + Duration::from_ns(SENT_NS), tlp);
    let mut fabric = plan.build(vec![Box::new(device) as Box<dyn TlpPort>], RunPlan::quiet());
    let watch = Watch::keeping();
    fabric.set_tap(Box::new(watch.clone()));
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
    let up = watch.arrivals().into_iter().filter(|(_, way, _)| *way == Direction::Upstream);
    up.map(|(_, _, at)| at.as_ps()).collect()
}

/// Rows: the links from the leaf upwards. 40, 104 and 232 bytes of data make 64, 128 and 256 on the wire.
#[test]
fn tlp_latency_matches_arithmetic() {
    let rows: [&[Link]; 12] = [
        &[(1, 1)],
        &[(1, 1), (1, 1)],
        &[(1, 4), (1, 1)],
        &[(1, 1), (1, 16)],
        &[(3, 8), (3, 8)],
        &[(3, 8), (3, 1), (3, 4)],
        &[(2, 2), (1, 8), (3, 4)],
        &[(3, 1), (4, 1), (5, 1)],
        &[(5, 1), (4, 1), (3, 1)],
        &[(1, 1), (2, 16), (3, 2), (5, 2)],
        &[(3, 8), (3, 8), (3, 8), (3, 8)],
        &[(5, 2), (2, 4), (4, 4), (1, 1)],
    ];
    for links in rows {
        for (mode, cuts) in [(Forwarding::StoreAndForward, false), (Forwarding::CutThrough, true)] {
            for (data, latency) in [(40, 100_000), (104, 0), (232, 53_750), (232, 1)] {
                assert_eq!(
                    measured(data, links, latency, mode),
                    expected(u64::from(data), links, latency, cuts),
                    "{data} bytes, latency {latency} ps, {mode:?}, {links:?}"
                );
            }
        }
    }
}
