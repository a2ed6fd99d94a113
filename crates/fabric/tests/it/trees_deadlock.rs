// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The classic deadlocks, with the minimum of credits (`PCIe 5.0 §2.4.1`, implementation notes on deadlock). Peers read
//! each other; peers write to each other with all buffers full; completions wait for posted requests; there is load in
//! all directions. Every run ends with every request answered.

use crate::common::tree::node::{Kind, Node, NodePlan, Op, SharedBook};
use crate::common::tree::watch::Watch;
use crate::common::tree::{LinkPlan, RunPlan, TreePlan};
use endpoint::TlpPort;
use riser_fabric::{Above, Forwarding, HostId, Limits, Stop};
use std::rc::Rc;
use tlp::{Duration, PayloadPool, Rate, Time};

/// One header, one payload, one place everywhere.
fn least() -> LinkPlan {
    LinkPlan { headers: 1, payloads: 1, queue: 1, replay: 1, ..LinkPlan::new(Rate::Gt8, 1) }
}

/// `leaves` on one switch, or on as many switches in a chain below each other.
fn trees(leaves: usize) -> [TreePlan; 2] {
    let mut flat = TreePlan::new();
    let top = flat.switch(Above::RootPort(HostId::FIRST), least(), Forwarding::StoreAndForward, 50_000);
    let mut chain = TreePlan::new();
    let mut at = Above::RootPort(HostId::FIRST);
    for _ in 0..leaves {
        let port = flat.port(top);
        flat.leaf(port, least());
        let switch = chain.switch(at, least(), Forwarding::CutThrough, 50_000);
        let port = chain.port(switch);
        chain.leaf(port, least());
        at = chain.port(switch);
    }
    [flat, chain]
}

fn run(tree: &TreePlan, ops: impl Fn(usize) -> Vec<(Kind, u32)>, holds: bool) -> u64 {
    let book = SharedBook::default();
    let places = Rc::new(tree.places());
    let device = |n: usize| -> Box<dyn TlpPort> {
        let at = Time::ZERO + Duration::from_us(20);
        let ops = ops(n).into_iter().map(|(kind, size)| Op { at, kind, size, tc: 0 }).collect();
        let plan = NodePlan { ops, tags: 32, slow: Duration::from_ns(200), holds };
        Box::new(Node::new(n, tree.mps(), Rc::clone(&places), plan, PayloadPool::new(), Rc::clone(&book)))
    };
    let devices = (0..tree.leaves.len()).map(device).collect();
    let mut fabric = tree.build(devices, RunPlan::quiet());
    let watch = Watch::new(false);
    fabric.set_tap(Box::new(watch.clone()));
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
    let book = book.borrow();
    assert_eq!(book.wrong, Vec::<String>::new());
    assert_eq!(watch.missing_credits(|_| true), Vec::<String>::new());
    assert_eq!((book.answered, book.timed_out), (book.non_posted, 0));
    let root = fabric.root().counters();
    assert_eq!(book.posted, book.posted_received + root.memory_writes);
    book.posted + book.non_posted
}

fn other(n: usize) -> usize {
    n ^ 1
}

#[test]
fn two_devices_reading_each_other_finish() {
    for tree in trees(2) {
        for holds in [false, true] {
            assert_eq!(run(&tree, |n| vec![(Kind::ReadPeer(other(n)), 512); 100], holds), 200);
        }
    }
}

#[test]
fn two_devices_writing_to_full_buffers_finish() {
    for tree in trees(2) {
        assert_eq!(run(&tree, |n| vec![(Kind::WritePeer(other(n)), 256); 200], false), 400);
    }
}

/// Completions wait for posted requests to the same peer, which they may not pass.
#[test]
fn completions_blocked_by_posted_requests_arrive() {
    for tree in trees(2) {
        let mixed = |n: usize| {
            let pair = [(Kind::ReadPeer(other(n)), 512), (Kind::WritePeer(other(n)), 256)];
            pair.into_iter().cycle().take(200).collect()
        };
        for holds in [false, true] {
            assert_eq!(run(&tree, mixed, holds), 400);
        }
    }
}

/// All with all and with the host.
#[test]
fn traffic_between_all_devices_and_host_finishes() {
    for tree in trees(4) {
        let all = |n: usize| {
            let one = |k: usize| {
                let peer = (n + 1 + k % 3) % 4;
                let kinds = [
                    Kind::ReadHost,
                    Kind::WritePeer(peer),
                    Kind::ReadPeer(peer),
                    Kind::WriteHost,
                    Kind::AddHost,
                    Kind::MessagePeer(peer),
                ];
                (kinds[k % 6], 256)
            };
            (0..150).map(one).collect()
        };
        for holds in [false, true] {
            assert_eq!(run(&tree, all, holds), 600);
        }
    }
}
