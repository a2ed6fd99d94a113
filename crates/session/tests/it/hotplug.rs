// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cards that are removed and inserted while they work: outstanding requests end with the right errors, inserted cards work,
//! and other slots are not affected.

use crate::hotplug_rig::{TRAFFIC, at_us, file, lines, run, steady};
use lab::draw;
use proptest::prelude::*;
use std::path::Path;

/// The slot with the events: on a root port, or below a switch with a second switch above it.
fn slot(place: &str, device: &str, keys: &str) -> String {
    let parent = if place == "root" { "" } else { "parent = \"lower\"\n" };
    let switches = match place {
        "root" => "",
        _ => "[[switch]]\nname = \"upper\"\n[[switch]]\nname = \"lower\"\nparent = \"upper\"\n",
    };
    // A read of the host takes long.
    let link = if device == "mmio" { "link = { gen = 1, lanes = 1 }\n" } else { "" };
    format!(
        "[[slot]]\nname = \"card\"\ndevice = \"{device}\"\nhot_plug = true\n{parent}{link}[slot.{device}]\n{keys}\n{switches}"
    )
}

fn removal(at_us: u64, until_us: Option<u64>) -> String {
    let until = until_us.map_or(String::new(), |us| format!("until_us = {us}\n"));
    format!("[[outage]]\nslot = \"card\"\nkind = \"removal\"\nat_us = {at_us}\n{until}")
}

fn press(at_us: u64) -> String {
    format!("[[outage]]\nslot = \"card\"\nkind = \"attention\"\nat_us = {at_us}\n")
}

/// Reads of the host for some 10 ms; through two switches each takes longer.
fn reads(place: &str) -> &'static str {
    if place == "root" { "reads = 50000" } else { "reads = 15000" }
}

/// Rows: device, its keys. Each card is tested in a slot of a root port and below two switches. It is removed at 300 us
/// under load, and inserted at 600 us. The old driver ends, the inserted card does all its work, and the neighbouring
/// slot has the same results to the picosecond as without the events.
#[test]
fn reinserted_card_starts_again() {
    let rows = [
        ("pcie-bench", "test = \"BW_RD\"\nsize_bytes = 512\ntransfers = 8000"),
        ("pcie-bench", "test = \"BW_WR\"\nsize_bytes = 256\ntransfers = 10000"),
        ("mmio", "reads = 20000"),
        ("dma-engine", "vfs = 0\ntransfers = 300"),
        ("traffic", TRAFFIC),
    ];
    for (device, keys) in rows {
        for place in ["root", "switch"] {
            let slot = slot(place, device, keys);
            let calm = run(&file(&slot, ""));
            let stormy = run(&file(&slot, &removal(300, Some(600))));
            let told = lines(&stormy);
            let context = format!("{device} below {place}: {told:#?}");
            assert_eq!(lines(&calm), ["card: its driver has ended"], "{context}");
            for words in ["card: removed", "card: inserted", "card: brought up", "card: its driver has ended"]
            {
                assert!(told.iter().any(|l| l.contains(words)), "{words}: {context}");
            }
            assert!((300..310).contains(&at_us(&stormy, "removed")), "{context}");
            assert_eq!(steady(&calm), steady(&stormy), "{context}");
            assert!(told.iter().any(|l| l.contains("Surprise Down Error")), "{context}");
        }
    }
}

/// The host reads a register of the card when it is removed, at twelve times. A read that was sent ends by Completion
/// Timeout, 10 ms later (the `ideal` host). The port above immediately rejects an unsent read (`PCIe 5.0 §2.9.1`).
#[test]
fn outstanding_read_ends_with_correct_error() {
    for place in ["root", "switch"] {
        let slot = slot(place, "mmio", reads(place));
        let (mut timeouts, mut refusals) = (0, 0);
        for at in 200..212 {
            let told = run(&file(&slot, &removal(at, None)));
            let lines = lines(&told);
            let failed = lines.iter().find(|l| l.starts_with("card: its driver failed: "));
            let failed = failed.unwrap_or_else(|| panic!("{lines:#?}"));
            let after = at_us(&told, "its driver failed") - at;
            let counted = told.fabric.root().counters().completion_timeouts;
            if failed.ends_with("no completion came in time") {
                timeouts += 1;
                assert!((9_999..10_001).contains(&after) && counted == 1, "{place}: {after} us, {lines:#?}");
                assert!(lines.iter().any(|l| l.contains("reports: Completion Timeout")), "{lines:#?}");
            } else {
                refusals += 1;
                assert!(failed.ends_with("the device does not support the request"), "{failed}");
                assert!(after < 30 && counted == 0, "{place}: {after} us, {lines:#?}");
            }
            assert!(lines.iter().any(|l| l.contains("card: gone: 0")), "{place}: {lines:#?}");
        }
        assert!(timeouts > 0 && (place == "root" || refusals > 0), "{place}: {timeouts}, {refusals}");
    }
}

/// The slot is empty when the host boots. The card is inserted at 400 us, and does all its work.
#[test]
fn brings_up_card_inserted_after_boot() {
    for place in ["root", "switch"] {
        for (device, keys) in [("mmio", "reads = 10"), ("traffic", TRAFFIC), ("simple-nic", "pings = 2")] {
            let late = run(&file(&slot(place, device, keys), &removal(0, Some(400))));
            let told = lines(&late);
            assert_eq!(told[0], "card: the slot is empty", "{told:#?}");
            let ways: Vec<&str> = told[1..].iter().map(|l| l.split(": ").nth(1).unwrap()).collect();
            assert_eq!(
                ways,
                ["inserted", "brought up", "its driver has ended"],
                "{device}, {place}: {told:#?}"
            );
            assert!((410..600).contains(&at_us(&late, "brought up")), "{told:#?}");
        }
    }
}

/// The button: 5 ms after a press the driver is stopped and power is switched off, without errors. A second press in between
/// cancels it; a later press brings the card up again (`PCIe 5.0 §6.7.1.5`).
#[test]
fn attention_button_removes_and_adds_a_card() {
    for place in ["root", "switch"] {
        let slot = slot(place, "mmio", reads(place));
        let presses = [400, 500, 600, 9_000].map(press).concat();
        let told = run(&file(&slot, &presses));
        let ways: Vec<String> = lines(&told).iter().map(|l| l.replace("card: ", "")).collect();
        let id = if place == "root" { "02:00.0" } else { "" };
        assert_eq!(ways[0], "attention button: to be powered off");
        assert_eq!(ways[1], "attention button again: stays on");
        assert_eq!(ways[2], "attention button: to be powered off");
        assert_eq!(ways[3], "its driver is stopped", "{place}: {:#?}", told.hot_plug_events());
        assert!(ways[4].starts_with("powered off: ") && ways[4].contains(id), "{ways:#?}");
        assert_eq!(ways[5], "attention button: to be powered on");
        assert!(ways[6].starts_with("brought up: "), "{ways:#?}");
        assert_eq!(ways[7..], ["its driver has ended".to_owned()], "{ways:#?}");
        assert!((5_600..5_605).contains(&at_us(&told, "is stopped")), "{ways:#?}");
        assert_eq!(at_us(&told, "brought up") / 100, 140, "{ways:#?}");
        assert_eq!(told.fabric.root().counters().completion_timeouts, 0, "{place}");
    }
}

/// For the host, a cut link looks like a removed card. When the link is restored, the card starts again.
#[test]
fn brings_up_cut_link_after_restore() {
    for place in ["root", "switch"] {
        let slot = slot(place, "pcie-bench", "test = \"BW_RD\"\nsize_bytes = 512\ntransfers = 4000");
        let cut = "[[outage]]\nslot = \"card\"\nat_us = 250\nuntil_us = 30000\n";
        let told = run(&file(&slot, cut));
        let lines = lines(&told);
        for words in ["its link is down", "does not come up", "its link is up", "brought up", "has ended"] {
            assert!(lines.iter().any(|l| l.contains(words)), "{words}: {lines:#?}");
        }
    }
}

/// Twenty removals and insertions under load. After the last insertion the card does all its work, with the same
/// functions as at the start.
#[test]
fn twenty_hot_plug_cycles_leak_nothing() {
    for place in ["root", "switch"] {
        let slot = slot(place, "pcie-bench", "test = \"BW_RDWR\"\nsize_bytes = 256\ntransfers = 40000");
        // Completion Timeout, plus a quarter of a millisecond to work.
        let cycles: String = (0..20).map(|n| removal(300 + n * 10_300, Some(600 + n * 10_300))).collect();
        let stormy = run(&file(&slot, &cycles));
        let told = lines(&stormy);
        let came: Vec<&String> = told.iter().filter(|l| l.contains("brought up")).collect();
        assert_eq!(came.len(), 20, "{place}: {told:#?}");
        assert_eq!(
            told.iter().filter(|l| l.contains("its driver is stopped")).count(),
            20,
            "{place}: {told:#?}"
        );
        assert!(came.windows(2).all(|pair| pair[0] == pair[1]), "{came:#?}");
        assert_eq!(told.last().unwrap(), "card: its driver has ended", "{place}");
        assert_eq!(steady(&run(&file(&slot, ""))), steady(&stormy), "{place}");
    }
}

/// Found by a random test: removed while the host enumerates, and inserted a microsecond later.
#[test]
fn brings_up_card_reinserted_during_enumeration() {
    let slot = slot("switch", "pcie-bench", "test = \"BW_RDWR\"\nsize_bytes = 300\ntransfers = 1000");
    run(&file(&slot, &removal(60, Some(61))));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// With events at any times, also while the host boots, the run succeeds, and no driver fails.
    #[test]
    fn run_succeeds_with_events_at_any_time(
        times in proptest::collection::btree_set(1u64..6_000, 2..7),
        device in 0usize..5,
        below in any::<bool>(),
        pressed in proptest::option::of(1u64..6_000),
    ) {
        let (device, keys) = [
            ("pcie-bench", "test = \"BW_RDWR\"\nsize_bytes = 300\ntransfers = 1000"),
            ("mmio", "reads = 500"),
            ("dma-engine", "vfs = 0\ntransfers = 50"),
            ("simple-nic", "pings = 3"),
            ("traffic", TRAFFIC),
        ][device];
        let times: Vec<u64> = times.into_iter().collect();
        let mut outages: String = times.chunks_exact(2).map(|t| removal(t[0], Some(t[1]))).collect();
        outages += &pressed.map_or(String::new(), press);
        run(&file(&slot(if below { "switch" } else { "root" }, device, keys), &outages));
    }
}

/// The output of `riser check` for a button.
#[test]
fn draws_buttons() {
    let lab = file(&slot("root", "mmio", ""), &press(7));
    assert!(draw(&lab.lab).contains("attention button of card at 7 us"), "{}", draw(&lab.lab));
}

/// The shipped lab to its end: its head comment matches its report.
#[test]
fn shipped_lab_matches_its_description() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/hotplug.toml");
    let told = run(&lab::read(&devices::models(), Path::new(path)).unwrap_or_else(|e| panic!("{e}")));
    let lines = lines(&told);
    let ways = |slot: &str| -> Vec<String> {
        let own = lines.iter().filter_map(|l| l.strip_prefix(slot)?.strip_prefix(": "));
        own.filter(|l| !l.contains("reports")).map(|l| l.split(':').next().unwrap_or(l).to_owned()).collect()
    };
    let rows = [
        (
            "card",
            vec![
                "removed",
                "its driver is stopped",
                "gone",
                "inserted",
                "brought up",
                "its driver has ended",
            ],
        ),
        (
            "late",
            vec![
                "the slot is empty",
                "inserted",
                "brought up",
                "its driver has ended",
                "its driver has ended",
            ],
        ),
        (
            "ram",
            vec![
                "attention button",
                "its driver is stopped",
                "powered off",
                "attention button",
                "brought up",
                "its port is gone",
                "its driver failed",
                "its driver has ended",
            ],
        ),
        ("switch", vec!["its link is down", "gone", "brought up", "its driver has ended"]),
    ];
    for (slot, expected) in rows {
        assert_eq!(ways(slot), expected, "{slot}: {lines:#?}");
    }
    assert!(lines.iter().any(|l| l.starts_with("card: ") && l.contains("Surprise Down Error")), "{lines:#?}");
}
