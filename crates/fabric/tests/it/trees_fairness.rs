// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shares of the leaves of a tree in the link above it, when all send or request as fast as possible. Every switch uses
//! round robin or weighted round robin of its ports (`PCIe 5.0 §6.3.3.2`). A small separate function computes the share
//! of each, from capacities and weights only.

use crate::common::tree;
use crate::common::tree::watch::Watch;
use crate::common::tree::{LinkPlan, RunPlan, TreePlan};
use device::Ready;
use endpoint::{CreditReturn, TlpPort};
use riser_fabric::{Above, Forwarding, HostId, Limits, Stop};
use std::collections::VecDeque;
use tlp::*;

/// Start of the count of TLPs, when all queues are full.
const FROM: Time = Time::from_ps(60_000_000);
/// until here.
const UNTIL: Time = Time::from_ps(460_000_000);
/// Data of a write, or data requested by a read.
const BYTES: u32 = 128;

/// Writes to host memory, or reads of it, as fast as its link takes them.
struct Flood {
    id: Bdf,
    op: MemoryOp,
    tags: VecDeque<u16>,
    credits: VecDeque<CreditReturn>,
}

impl Flood {
    fn new(id: Bdf, op: MemoryOp) -> Flood {
        Flood { id, op, tags: (0..256).collect(), credits: VecDeque::new() }
    }
}

impl TlpPort for Flood {
    fn handle_tlp(&mut self, _now: Time, tlp: &Tlp) {
        self.credits.push_back(CreditReturn::of(tlp));
        if let Body::Completion(c) = tlp.repr.body {
            self.tags.push_back(c.tag.bits());
        }
    }

    fn poll_tlp(&mut self, _now: Time, class: Class, _room: TcSet) -> Option<Tlp> {
        let wanted = if self.op.is_read() { Class::NonPosted } else { Class::Posted };
        if class != wanted {
            return None;
        }
        let tag = if self.op.is_read() { self.tags.pop_front()? } else { 0 };
        let span = Span::covering(tree::HIGH, BYTES).unwrap();
        let body = MemoryRequest { op: self.op, requester: self.id, tag: Tag::from_bits(tag), span };
        let data = if self.op.is_read() { Data::NONE } else { Data::Counted(BYTES) };
        Some(Tlp::new(Repr::new(Body::Memory(body)), data))
    }

    fn ready(&self) -> Ready {
        Ready::ALL
    }

    fn poll_credits(&mut self) -> Option<CreditReturn> {
        self.credits.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn handle_timeout(&mut self, _now: Time) {}
}

/// Returns the number of TLPs of each leaf that have crossed the link on the root port.
fn shares(plan: &TreePlan, op: MemoryOp) -> Vec<u64> {
    let places = plan.places();
    let devices = places.iter().map(|place| Box::new(Flood::new(place.id, op)) as Box<dyn TlpPort>);
    let mut fabric = plan.build(devices.collect(), RunPlan::quiet());
    let watch = Watch::counting(FROM, UNTIL);
    fabric.set_tap(Box::new(watch.clone()));
    assert_eq!(fabric.run(Limits { until: UNTIL, ..Limits::default() }), Stop::TimeLimit);
    let top = (0..plan.links()).find(|&link| plan.above(link) == Above::RootPort(HostId::FIRST)).unwrap();
    places.iter().map(|place| watch.share(top, place.id.bits())).collect()
}

/// Computes the shares of the leaves below `link` in `offered` units. Every switch gives its ports units in proportion
/// to their weights, until each port has all that it can use or the link above is full. `can` is what a leaf can send.
fn fill(plan: &TreePlan, link: usize, offered: u64, due: &mut [u64]) {
    let Some(switch) = link.checked_sub(plan.leaves.len()) else {
        due[link] = offered;
        return;
    };
    let ports = 1..=plan.switches[switch].ports;
    let below = |port| (0..plan.links()).find(|&l| plan.above(l) == Above::Switch { switch, port });
    // For each port: link, weight, the units that it can use, and the units that it has.
    let weight = |port: usize| plan.switches[switch].weights.get(port).map_or(1, |w| u64::from(*w));
    let mut open: Vec<(usize, u64, u64)> =
        ports.filter_map(|port| below(port).map(|link| (link, weight(port), can_send(plan, link)))).collect();
    let mut left = offered;
    while !open.is_empty() {
        let weights: u64 = open.iter().map(|(_, weight, _)| weight).sum();
        let full: Vec<usize> = (0..open.len()).filter(|&n| open[n].2 * weights <= left * open[n].1).collect();
        if full.is_empty() {
            for (link, weight, _) in open.drain(..) {
                fill(plan, link, left * weight / weights, due);
            }
            return;
        }
        for n in full.into_iter().rev() {
            let (link, _, can) = open.remove(n);
            fill(plan, link, can, due);
            left -= can;
        }
    }
}

/// A million units for each lane at 8 GT/s, and no more than arrives from below.
fn can_send(plan: &TreePlan, link: usize) -> u64 {
    let own = |link: &LinkPlan| u64::from(link.lanes) * 1_000_000;
    let Some(switch) = link.checked_sub(plan.leaves.len()) else { return own(&plan.leaves[link].link) };
    let ports = 1..=plan.switches[switch].ports;
    let below = |port| (0..plan.links()).find(|&l| plan.above(l) == Above::Switch { switch, port });
    let sum = ports.filter_map(below).map(|link| can_send(plan, link)).sum();
    own(&plan.switches[switch].link).min(sum)
}

/// Each leaf has within 2 % of its due.
fn assert_shares(name: &str, plan: &TreePlan, op: MemoryOp) {
    let mut due = vec![0; plan.leaves.len()];
    let top = (0..plan.links()).find(|&link| plan.above(link) == Above::RootPort(HostId::FIRST)).unwrap();
    fill(plan, top, can_send(plan, top), &mut due);
    let got = shares(plan, op);
    let (all_due, all): (u64, u64) = (due.iter().sum(), got.iter().sum());
    assert!(all > 2000, "{name}: {all} TLPs are few");
    for (leaf, (due, got)) in due.iter().zip(&got).enumerate() {
        // got / all against due / all_due.
        let (left, right) = (u128::from(*got) * u128::from(all_due), u128::from(*due) * u128::from(all));
        assert!(
            left.abs_diff(right) * 50 <= right,
            "{name}: leaf {leaf} has {got} of {all}, is due {due} of {all_due}"
        );
    }
}

fn gen3(lanes: u8) -> LinkPlan {
    LinkPlan::new(Rate::Gt8, lanes)
}

fn switch(plan: &mut TreePlan, above: Above, lanes: u8) -> usize {
    plan.switch(above, gen3(lanes), Forwarding::StoreAndForward, 100_000)
}

/// Leaves with links of these widths on further ports of `at`.
fn leaves(plan: &mut TreePlan, at: usize, lanes: &[u8]) {
    for lanes in lanes {
        let port = plan.port(at);
        plan.leaf(port, gen3(*lanes));
    }
}

/// Eight leaves on a switch, and four times four below another.
fn symmetric() -> [TreePlan; 2] {
    let mut flat = TreePlan::new();
    let top = switch(&mut flat, Above::RootPort(HostId::FIRST), 4);
    leaves(&mut flat, top, &[4; 8]);
    let mut deep = TreePlan::new();
    let top = switch(&mut deep, Above::RootPort(HostId::FIRST), 4);
    for _ in 0..4 {
        let port = deep.port(top);
        let below = switch(&mut deep, port, 4);
        leaves(&mut deep, below, &[2; 4]);
    }
    [flat, deep]
}

#[test]
fn equal_demand_on_a_symmetric_tree_gives_equal_shares() {
    for plan in symmetric() {
        for op in [MemoryOp::Write, MemoryOp::Read] {
            assert_shares("symmetric", &plan, op);
        }
    }
}

/// Cut-through changes the time at which a TLP is sent, not the order of arbitration.
#[test]
fn cut_through_gives_equal_shares_too() {
    let [_, mut plan] = symmetric();
    plan.switches.iter_mut().for_each(|switch| switch.mode = Forwarding::CutThrough);
    assert_shares("cut-through", &plan, MemoryOp::Write);
}

/// Two leaves, a switch of three and a switch of one on one switch: round robin applies to the ports, not to the
/// leaves.
#[test]
fn asymmetric_tree_shares_bandwidth_by_ports() {
    let mut plan = TreePlan::new();
    let top = switch(&mut plan, Above::RootPort(HostId::FIRST), 4);
    leaves(&mut plan, top, &[4, 4]);
    let port = plan.port(top);
    let three = switch(&mut plan, port, 4);
    leaves(&mut plan, three, &[4, 4, 4]);
    let port = plan.port(top);
    let one = switch(&mut plan, port, 4);
    leaves(&mut plan, one, &[4]);
    let mut due = vec![0; 6];
    fill(&plan, 6, 3_600_000, &mut due);
    assert_eq!(due, [900_000, 900_000, 300_000, 300_000, 300_000, 900_000], "a quarter for each port");
    assert_shares("asymmetric", &plan, MemoryOp::Write);
}

/// Capacity that a narrow link cannot use goes to the others.
#[test]
fn capacity_a_port_cannot_use_is_shared_by_the_others() {
    let mut plan = TreePlan::new();
    let top = switch(&mut plan, Above::RootPort(HostId::FIRST), 8);
    leaves(&mut plan, top, &[1, 8, 8]);
    let port = plan.port(top);
    let narrow = switch(&mut plan, port, 2);
    leaves(&mut plan, narrow, &[1, 4, 4]);
    assert_shares("narrow", &plan, MemoryOp::Write);
}

/// Rows: weights of the ports, the upstream port first.
#[test]
fn shares_follow_the_weights() {
    for weights in [[1, 1, 1, 1], [1, 3, 1, 2], [7, 1, 1, 14]] {
        let mut plan = TreePlan::new();
        let top = switch(&mut plan, Above::RootPort(HostId::FIRST), 4);
        leaves(&mut plan, top, &[4; 3]);
        plan.switches[top].weights = weights.to_vec();
        assert_shares(&format!("{weights:?}"), &plan, MemoryOp::Write);
    }
    let mut plan = TreePlan::new();
    let top = switch(&mut plan, Above::RootPort(HostId::FIRST), 8);
    leaves(&mut plan, top, &[8, 1]);
    let port = plan.port(top);
    let below = switch(&mut plan, port, 8);
    leaves(&mut plan, below, &[8; 4]);
    plan.switches[top].weights = vec![1, 1, 2, 3];
    plan.switches[below].weights = vec![1, 4, 1, 1, 2];
    assert_shares("two levels of weights", &plan, MemoryOp::Write);
}
