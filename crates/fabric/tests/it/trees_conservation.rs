// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random trees of switches, random traffic and random faults. Every lost or duplicated TLP is accounted for, order
//! holds, every credit returns, and every run ends. `RISER_TREES=n` runs n cases of each kind instead of a few.

use crate::common::tree::checks::{Case, Trouble, run};
use crate::common::tree::node::{Kind, NodePlan, Op};
use crate::common::tree::{LinkPlan, TreePlan};
use proptest::prelude::*;
use riser_fabric::{
    Above, Direction, FaultAction, FaultRule, Forwarding, FrameKind, HostId, LinkChange, LinkEvent, LinkId,
};
use tlp::{Duration, Rate, Time};

fn cases(few: u32) -> ProptestConfig {
    let wanted = std::env::var("RISER_TREES").ok().and_then(|n| n.parse().ok());
    ProptestConfig { cases: wanted.unwrap_or(few), failure_persistence: None, ..ProptestConfig::default() }
}

fn check(trouble: Trouble, bytes: &[u8]) -> Result<(), TestCaseError> {
    let case = Case::new(trouble, bytes);
    run(&case).map(drop).map_err(|wrong| TestCaseError::fail(format!("{wrong}\n{}", hex(bytes))))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 20..500)
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn clean_tree_loses_no_tlp(bytes in bytes()) {
        check(Trouble::Nothing, &bytes)?;
    }

    #[test]
    fn lost_and_damaged_frames_lose_no_tlp(bytes in bytes()) {
        check(Trouble::Frames, &bytes)?;
    }

    #[test]
    fn link_outages_keep_tlps_accounted_for(bytes in bytes()) {
        check(Trouble::Links, &bytes)?;
    }

    #[test]
    fn altered_frames_keep_tlps_accounted_for(bytes in bytes()) {
        check(Trouble::Altered, &bytes)?;
    }
}

proptest! {
    #![proptest_config(cases(10))]

    #[test]
    fn same_case_gives_same_run(bytes in bytes(), trouble in prop::sample::select(&Trouble::ALL[..])) {
        let case = Case::new(trouble, &bytes);
        prop_assert_eq!(run(&case), run(&case));
    }
}

/// Every seed of the fuzz target meets the conditions.
#[test]
fn seeds_pass_the_checks() {
    let seeds = testkit::seeds("tree_run");
    for (name, input) in &seeds {
        assert!(run(&Case::from_input(input)).is_ok(), "{name}");
    }
    assert!(seeds.len() >= 8, "{} seeds are few", seeds.len());
}

/// Two leaves below a switch that cuts through, all links eight lanes of 8 GT/s.
fn pair() -> TreePlan {
    let mut tree = TreePlan::new();
    let link = || LinkPlan::new(Rate::Gt8, 8);
    let switch = tree.switch(Above::RootPort(HostId::FIRST), link(), Forwarding::CutThrough, 100_000);
    for _ in 0..2 {
        let port = tree.port(switch);
        tree.leaf(port, link());
    }
    tree
}

fn at(us: u64) -> Time {
    Time::ZERO + Duration::from_us(us)
}

/// Leaf 0 sends `count` of these from 20 us on, leaf 1 nothing.
fn leaf_0(kinds: &[Kind], count: usize) -> Vec<NodePlan> {
    let op = |kind: &Kind| Op { at: at(20), kind: *kind, size: 256, tc: 0 };
    let node = |ops| NodePlan { ops, tags: 32, slow: Duration::ZERO, holds: false };
    vec![node(kinds.iter().cycle().take(count).map(op).collect()), node(Vec::new())]
}

/// Frames that a delayed frame has blocked arrive together, with their headers. Each passes a switch only once.
#[test]
fn delayed_burst_is_forwarded_once() {
    for nth in [1, 5, 30] {
        let delay = FaultAction::Delay(Duration::from_us(1));
        let fault = FaultRule::new(LinkId(0), Direction::Upstream, FrameKind::Tlp, nth, delay);
        let nodes = leaf_0(&[Kind::WritePeer(1), Kind::ReadPeer(1), Kind::WriteHost], 90);
        let case = Case::by_hand(pair(), nodes, vec![fault], Vec::new(), Trouble::Frames);
        let outcome = run(&case).unwrap();
        assert_eq!((outcome.answered, outcome.posted_received, outcome.lost), (30, 30, 0));
    }
}

/// A restarted link has all its credits, even if its switch held TLPs when the link went down. TLPs that had arrived
/// there without an Ack are forwarded. Rows: leaf's own link, and the link above the switch.
#[test]
fn restored_link_has_all_its_credits() {
    for link in [0, 2].map(LinkId) {
        for after_ns in (0..2000).step_by(97) {
            let down = at(20) + Duration::from_ns(after_ns);
            let event = |at, change| LinkEvent { at, link, change };
            let events =
                vec![event(down, LinkChange::Cut), event(down + Duration::from_us(5), LinkChange::Restore)];
            let nodes =
                leaf_0(&[Kind::WriteHost, Kind::ReadHost, Kind::WritePeer(1), Kind::ReadPeer(1)], 120);
            let case = Case::by_hand(pair(), nodes, Vec::new(), events, Trouble::Links);
            run(&case).unwrap();
        }
    }
}
