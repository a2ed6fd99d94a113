// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links above switches that go down and come back. Everything below is given up together. If the port above is
//! hot-plug capable, the host sets all functions below up again. Otherwise the run reports the lost slots.

use crate::hotplug_rig::{TRAFFIC, end, file, lines, run, steady};
use fabric::Stop;
use lab::{LabFile, parse};
use proptest::prelude::*;
use riser_session::{Session, enumerate};
use std::path::Path;

/// Two switches, one of which is below a hot-plug capable port. Below the lower switch are `card`, in a hot-plug
/// capable slot, and `fixed`, in another slot.
fn tree(upper: bool, lower: bool, card: &str, fixed: &str) -> String {
    tree_of([upper, lower, true], card, fixed)
}

/// The same, but the slot of `card` may also not be hot-plug capable.
fn tree_of([upper, lower, hot_card]: [bool; 3], card: &str, fixed: &str) -> String {
    let hot = |yes: bool| if yes { "hot_plug = true\n" } else { "" };
    format!(
        "[[slot]]\nname = \"card\"\nparent = \"lower\"\nhot_plug = {hot_card}\n{card}\n\
         [[slot]]\nname = \"fixed\"\nparent = \"lower\"\n{fixed}\n\
         [[switch]]\nname = \"upper\"\ndownstream_ports = 2\n{}[[switch]]\nname = \"lower\"\nparent = \"upper\"\n{}",
        hot(upper),
        hot(lower)
    )
}

const READS: &str = "device = \"mmio\"\n[slot.mmio]\nreads = 2000";
const BENCH: &str =
    "device = \"pcie-bench\"\n[slot.pcie-bench]\ntest = \"BW_RDWR\"\nsize_bytes = 128\ntransfers = 4000";
const LONG: &str =
    "device = \"pcie-bench\"\n[slot.pcie-bench]\ntest = \"BW_RD\"\nsize_bytes = 512\ntransfers = 6000";
const PINGS: &str = "device = \"simple-nic\"\n[slot.simple-nic]\npings = 3";
const ENGINE: &str = "device = \"dma-engine\"\n[slot.dma-engine]\nvfs = 0\ntransfers = 50";

fn raw() -> String {
    format!("device = \"traffic\"\n{TRAFFIC}")
}

fn outage(link: &str, kind: &str, at_us: u64, until_us: Option<u64>) -> String {
    let until = until_us.map_or(String::new(), |us| format!("until_us = {us}\n"));
    format!("[[outage]]\nslot = \"{link}\"\nkind = \"{kind}\"\nat_us = {at_us}\n{until}")
}

fn has(told: &[String], words: &str) -> bool {
    told.iter().any(|line| line.contains(words))
}

fn last<'a>(told: &'a [String], name: &str) -> &'a str {
    told.iter().rev().find(|l| l.starts_with(name)).map_or("", |l| l.as_str())
}

/// Rows: the switch whose link goes down, and the hot-plug capable ports: the port above the link, or also the next
/// port above. All devices below end, are enumerated again, and do all their work. The neighbouring slot is not
/// affected.
fn restarts_everything(devices: &[(&str, String)]) {
    for (card, fixed) in devices {
        for (link, upper, lower) in [("upper", true, false), ("upper", true, true), ("lower", false, true)] {
            let tree = tree(upper, lower, card, fixed);
            let calm = run(&file(&tree, ""));
            for kind in ["cut", "removal"] {
                let stormy = run(&file(&tree, &outage(link, kind, 300, Some(600))));
                let told = lines(&stormy);
                let context = format!("{card}, {link} {kind}, {upper} {lower}: {told:#?}");
                let first = if kind == "cut" { "its link is down" } else { "removed" };
                assert!(has(&told, &format!("{link}: {first}")), "{context}");
                assert!(has(&told, &format!("{link}: brought up: ")), "{context}");
                assert!(has(&told, "card: its port is gone"), "{context}");
                assert!(has(&told, "fixed: removed with a port above it"), "{context}");
                assert!(has(&told, "reports: Surprise Down Error"), "{context}");
                assert_eq!(last(&told, "card: "), "card: its driver has ended", "{context}");
                assert_eq!(steady(&calm), steady(&stormy), "{context}");
                assert!(did_all(&calm, &stormy), "{context}");
            }
        }
    }
}

#[test]
#[ignore = "of .ci/long trees"]
fn restarts_everything_below_switch_after_link_up() {
    restarts_everything(&[(LONG, raw())]);
}

#[test]
#[ignore = "of .ci/long trees"]
fn restarts_other_devices_below_switch_after_link_up() {
    restarts_everything(&[(READS, LONG.to_owned()), (LONG, READS.to_owned())]);
}

/// The restarted device of `fixed` has done as much as a device that was never stopped. Reads of a register continue to
/// be counted.
fn did_all(calm: &Session, stormy: &Session) -> bool {
    let of = |session: &Session| {
        let report = serde_json::to_value(session.report("", &Stop::Finished, 0.0)).unwrap();
        let device =
            report["devices"].as_array().unwrap().iter().find(|d| d["slot"] == "fixed").unwrap().clone();
        ["transfers", "reads", "w.requests", "r.requests"].map(|key| device["counters"][key].clone())
    };
    let number = |n: &serde_json::Value| n.as_u64().unwrap_or(0);
    let pairs = of(calm).into_iter().zip(of(stormy));
    let rows: Vec<(u64, u64)> = pairs.map(|(calm, stormy)| (number(&calm), number(&stormy))).collect();
    rows.iter().all(|(calm, stormy)| stormy >= calm) && rows.iter().any(|(calm, _)| *calm > 0)
}

/// The link stays down. The run still ends successfully, like after the removal of a card.
#[test]
fn lost_switch_ends_everything_below() {
    for (link, kind) in [("upper", "cut"), ("lower", "cut"), ("upper", "removal"), ("lower", "removal")] {
        let told = lines(&run(&file(&tree(true, true, LONG, READS), &outage(link, kind, 300, None))));
        assert!(has(&told, "card: its port is gone"), "{told:#?}");
        assert!(!has(&told, "brought up"), "{told:#?}");
    }
}

/// Pressed at 300 us and 7 ms: the drivers below are stopped in order, without an error, and start again.
#[test]
fn attention_button_of_switch_stops_everything_below() {
    let presses = outage("upper", "attention", 300, None) + &outage("upper", "attention", 7_000, None);
    let long = READS.replace("2000", "9000");
    let session = run(&file(&tree(true, false, BENCH, &long), &presses));
    let told = lines(&session);
    let upper: Vec<&str> = told.iter().filter_map(|l| l.strip_prefix("upper: ")).collect();
    let ways: Vec<&str> = upper.iter().map(|l| l.split(':').next().unwrap()).collect();
    assert_eq!(
        ways,
        [
            "attention button",
            "its driver is stopped",
            "powered off",
            "attention button",
            "brought up",
            "its driver has ended"
        ],
        "{told:#?}"
    );
    assert_eq!(upper[2].matches(',').count(), upper[4].matches(',').count(), "{told:#?}");
    assert_eq!(session.fabric.root().counters().completion_timeouts, 0);
    assert!(!has(&told, "Surprise Down"), "{told:#?}");
}

/// Neither port is hot-plug capable. Whether or not the link comes back, the run continues to the end of the others, then fails
/// and reports the lost slots with their link.
#[test]
fn reports_lost_slots_without_hot_plug() {
    let rows = [("upper", "00:02.0", true), ("lower", "03:00.0", true), ("upper", "00:02.0", false)];
    for (link, port, hot_card) in rows {
        for until in [None, Some(600)] {
            let tree = tree_of([false, false, hot_card], LONG, READS);
            let lab = file(&tree, &outage(link, "cut", 250, until));
            let (session, stop) = end(&lab);
            let Stop::Failed(why) = &stop else { panic!("{stop}: {:#?}", lines(&session)) };
            let words = format!(
                "the link below {port} went down, and {port} is not hot-plug capable: the operating system does not use what is below it again"
            );
            for slot in ["slot `card`: ", "slot `fixed`: "] {
                let line = why.lines().find(|line| line.starts_with(slot));
                assert!(line.is_some_and(|l| l.contains(&words)), "{slot}{words}: {why}");
            }
            assert_eq!(why.lines().count(), 2, "{why}");
            let report = serde_json::to_value(session.report("", &stop, 0.0)).unwrap();
            assert_eq!(report["devices"][0]["counters"]["transfers"], 3000);
        }
    }
}

/// A slot stays empty, in a lab with and without hot-plug. The others do all their work, and the run's end names the
/// slot.
#[test]
fn reports_function_that_never_answers() {
    for hot in [false, true] {
        let hot_slot = format!("[[slot]]\nname = \"other\"\nhot_plug = {hot}\n{READS}\n");
        let gone = format!("[[slot]]\nname = \"gone\"\n{READS}\n{hot_slot}");
        let (session, stop) = end(&file(&gone, &outage("gone", "cut", 0, None)));
        let Stop::Failed(why) = &stop else { panic!("{stop}") };
        assert_eq!(why, "slot `gone`: no function answers (the link below 00:02.0 is down)");
        let report = serde_json::to_value(session.report("", &stop, 0.0)).unwrap();
        let devices = report["devices"].as_array().unwrap();
        assert_eq!(devices[0]["counters"]["transfers"], 3000, "{devices:#?}");
        assert_eq!(devices[2]["counters"]["reads"], 2000, "{devices:#?}");
    }
}

/// A failed slot is reported even if the others never end, here because they have no credits.
#[test]
fn reports_failures_without_progress() {
    let waits = format!("[[slot]]\nname = \"waits\"\n{LONG}\n").replace("BW_RD", "BW_WR");
    let gone = format!("[[slot]]\nname = \"gone\"\n{READS}\n{waits}");
    let starved = "[[fault]]\nslot = \"waits\"\ndirection = \"downstream\"\nframes = \"update-fc\"\nnth = 1\nevery = 1\n\
                   action = \"drop\"\n";
    let (_, stop) = end(&file(&gone, &(outage("gone", "cut", 0, None) + starved)));
    assert!(matches!(stop, Stop::NoProgress(_)), "{stop}");
    assert!(stop.to_string().contains("has failed at slot `gone`: no function answers"), "{stop}");
}

/// Links that are briefly down while firmware scans below them, and up again before they are read: functions that were reset
/// are brought up again.
#[test]
#[ignore = "of .ci/long trees"]
fn detects_reset_during_enumeration() {
    let (raw, cut) = (raw(), |link: &str, at, until| outage(link, "cut", at, Some(until)));
    let cases = [
        (PINGS, raw.as_str(), cut("upper", 92, 93), "upper"),
        (READS, BENCH, cut("upper", 19, 20) + &cut("lower", 1, 8), "upper"),
        (ENGINE, READS, cut("card", 110, 125), "card"),
    ];
    for (card, fixed, outages, reset) in cases {
        let told = lines(&run(&file(&tree(true, true, card, fixed), &outages)));
        assert!(has(&told, &format!("{reset}: brought up: ")), "{told:#?}");
        assert_eq!(last(&told, "card: "), "card: its driver has ended", "{told:#?}");
    }
    // Before, between and after its settings.
    for at_us in (1..240).step_by(3) {
        let told = lines(&run(&file(&tree(true, true, ENGINE, READS), &cut("card", at_us, at_us + 2))));
        assert_eq!(last(&told, "card: "), "card: its driver has ended", "{at_us} us: {told:#?}");
    }
}

/// Times in microseconds; one of every two is while the host boots.
fn any_time() -> impl Strategy<Value = u64> {
    prop_oneof![1u64..250, 1u64..6_000]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// The run succeeds for any times at which links of two switches and a slot go down and come back, also while the host
    /// boots.
    #[test]
    fn run_succeeds_with_events_at_any_time(
        upper in proptest::collection::btree_set(any_time(), 0..5),
        lower in proptest::collection::btree_set(any_time(), 0..5),
        card in proptest::collection::btree_set(any_time(), 0..3),
        kinds in any::<[bool; 3]>(),
        devices in 0usize..5,
        pressed in proptest::option::of(1u64..6_000),
    ) {
        let raw = raw();
        let (card_device, fixed) =
            [(READS, BENCH), (BENCH, PINGS), (PINGS, raw.as_str()), (raw.as_str(), ENGINE), (ENGINE, READS)][devices];
        let of = |link: &str, times: std::collections::BTreeSet<u64>, removed: bool| -> String {
            let times: Vec<u64> = times.into_iter().collect();
            let kind = if removed { "removal" } else { "cut" };
            times.chunks_exact(2).map(|t| outage(link, kind, t[0], Some(t[1]))).collect()
        };
        let mut outages = of("upper", upper, kinds[0]) + &of("lower", lower, kinds[1]) + &of("card", card, kinds[2]);
        outages += &pressed.map_or(String::new(), |at| outage("lower", "attention", at, None));
        run(&file(&tree(true, true, card_device, fixed), &outages));
    }
}

/// A lab may have only switches: enumeration finds their ports, and the run ends after it.
#[test]
fn a_tree_of_switches_alone_is_enumerated() {
    let text = "version = 1\n[[switch]]\nname = \"a\"\ndownstream_ports = 3\n[[switch]]\nname = \"b\"\nparent = \"a\"\n";
    let lab = || LabFile {
        lab: parse(&devices::models(), Path::new("a.toml"), text).unwrap_or_else(|e| panic!("{e}")),
        base: ".".into(),
    };
    let found = enumerate(&lab()).unwrap_or_else(|e| panic!("{e}"));
    let ids: Vec<String> = found.functions.iter().map(|f| f.bdf.to_string()).collect();
    assert_eq!(ids, ["00:01.0", "01:00.0", "02:00.0", "02:01.0", "02:02.0", "03:00.0", "04:00.0"]);
    assert_eq!(end(&lab()).1, Stop::Finished);
}
