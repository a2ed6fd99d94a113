// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pictures: `riser check --svg`, `riser trace --sequence` and `riser run --latency-svg`, compared with the same facts in other outputs.

use crate::common::{riser, riser_ok};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use testkit::root;

fn lab(name: &str) -> String {
    root().join("labs").join(name).display().to_string()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Returns the texts of an SVG document.
fn texts(svg: &str) -> Vec<String> {
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
    let all = svg.split("<text").skip(1).filter_map(|rest| rest.split_once('>')?.1.split("</text>").next());
    all.map(|text| text.trim().replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")).collect()
}

/// Writes a picture with `args`, and returns its texts.
fn picture(args: &[&str], path: &Path) -> Vec<String> {
    riser_ok(args);
    texts(&fs::read_to_string(path).unwrap())
}

#[test]
fn topology_shows_hosts_switches_slots_and_links() {
    let scratch = tempfile::tempdir().unwrap();
    let svg = scratch.path().join("tree.svg");
    let shown = picture(&["check", &lab("tree.toml"), "--svg", text(&svg)], &svg);
    for text in
        ["host ideal", "256 MiB low", "nic", "simple-nic", "bus 01", "switch upper", "150 ns", "switch lower"]
    {
        assert!(shown.iter().any(|t| t == text), "{text}: {shown:?}");
    }
    for (label, count) in [("root port 0: Gen3 x8", 1), ("port 3: Gen2 x4", 1), ("MPS 256 B", 6)] {
        assert_eq!(shown.iter().filter(|t| *t == label).count(), count, "{label}: {shown:?}");
    }
}

#[test]
fn topology_of_each_lab_has_all_its_slots() {
    let scratch = tempfile::tempdir().unwrap();
    let svg = scratch.path().join("lab.svg");
    for name in ["ping.toml", "vcs.toml", "faults.toml", "hotplug.toml", "sriov.toml", "guest/four-nics.toml"]
    {
        let shown = picture(&["check", &lab(name), "--svg", text(&svg), "--force"], &svg);
        let file: Value = toml::from_str(&fs::read_to_string(lab(name)).unwrap()).unwrap();
        for slot in file["slot"].as_array().unwrap() {
            assert!(shown.iter().any(|text| *text == slot["name"]), "{name}: {slot} in {shown:?}");
        }
        let events: usize = ["fault", "outage", "link_event"]
            .iter()
            .filter_map(|key| file[key].as_array())
            .map(Vec::len)
            .sum();
        let lines = shown.iter().filter(|text| {
            ["fault on", "outage", "link event", "removal", "attention"]
                .iter()
                .any(|word| text.starts_with(word))
        });
        assert_eq!(lines.count(), events, "{name}: {shown:?}");
    }
}

#[test]
fn check_refuses_bad_uses_of_svg() {
    let scratch = tempfile::tempdir().unwrap();
    let svg = scratch.path().join("a.svg");
    fs::write(&svg, "mine").unwrap();
    let (one, two) = (lab("ping.toml"), lab("tree.toml"));
    for (args, code, says) in [
        (&["check", &one, "--svg", text(&svg)][..], 1, "--force overwrites it"),
        (&["check", &one, &two, "--svg", text(&svg)], 2, "--svg draws one lab, given 2"),
        (&["check", &one, "--force"], 2, "--svg"),
    ] {
        let refused = riser(args);
        assert!(refused.code == code && refused.stderr.contains(says), "{args:?}: {}", refused.stderr);
    }
    assert_eq!(fs::read_to_string(&svg).unwrap(), "mine");
}

/// A capture of a lab.
fn capture(name: &str, folder: &Path) -> PathBuf {
    let path = folder.join("capture.pcapng");
    riser_ok(&["run", &lab(name), "--capture", text(&path)]);
    path
}

/// Returns time and label of each arrow of a printed diagram.
fn arrows(diagram: &str) -> Vec<(u64, String, String)> {
    let row = |line: &str| {
        let (when, rest) = line.trim_start().split_once(' ')?;
        let at = rest.rfind('|')?;
        let ps = when.replace('.', "").parse().ok()?;
        Some((ps, rest[..=at].trim().to_owned(), rest[at + 1..].trim().to_owned()))
    };
    diagram.lines().skip_while(|line| !line.trim_start().starts_with("ns ")).skip(1).filter_map(row).collect()
}

/// The same transaction as `--transactions --json` describes it: its TLPs, and the time of its request on each link.
#[test]
fn sequence_agrees_with_transactions() {
    let scratch = tempfile::tempdir().unwrap();
    let capture = capture("tree.toml", scratch.path());
    let listed = riser_ok(&[
        "trace",
        text(&capture),
        "--transactions",
        "--json",
        "--filter",
        "slot=disk and type=DMWr",
    ]);
    let transaction: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    let filter = format!("number={}", transaction["number"]);
    let svg = scratch.path().join("sequence.svg");
    let diagram =
        riser_ok(&["trace", text(&capture), "--sequence", "--filter", &filter, "--svg", text(&svg)]);
    let arrows = arrows(&diagram);
    assert_eq!(arrows.len() as u64, transaction["packets"].as_u64().unwrap(), "{diagram}");
    let names = diagram.lines().find(|line| line.trim_start().starts_with("ns ")).unwrap();
    assert_eq!(
        names.split_whitespace().collect::<Vec<_>>(),
        ["ns", "disk", "lower", "upper", "root", "complex"]
    );
    let hops: Vec<u64> = transaction["hops"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|hop| hop["since_start_ps"].as_u64())
        .collect();
    let requests: Vec<u64> =
        arrows.iter().filter(|(.., label)| label.starts_with("DMWr")).map(|(ps, ..)| *ps).collect();
    assert_eq!(requests, hops, "{diagram}");
    let last = arrows.last().unwrap();
    assert_eq!(Some(last.0), transaction["latency_ps"].as_u64(), "{diagram}");
    assert!(last.1.starts_with("|<-") && last.2.starts_with("Cpl"), "{diagram}");

    let shown = texts(&fs::read_to_string(&svg).unwrap());
    for (_, _, label) in &arrows {
        let count = |all: &mut dyn Iterator<Item = &String>| all.filter(|text| *text == label).count();
        assert_eq!(count(&mut shown.iter()), count(&mut arrows.iter().map(|(.., label)| label)), "{label}");
    }
    for name in ["disk", "lower", "upper", "root complex"] {
        assert!(shown.iter().any(|text| text == name), "{name}: {shown:?}");
    }
}

#[test]
fn sequence_numbers_several_transactions_and_says_what_it_leaves_out() {
    let scratch = tempfile::tempdir().unwrap();
    let capture = capture("ping.toml", scratch.path());
    let all = riser(&["trace", text(&capture), "--sequence"]);
    assert_eq!(all.code, 0, "{}", all.stderr);
    assert!(all.stderr.contains("more transactions match; --filter selects"), "{}", all.stderr);
    assert!(all.stdout.lines().any(|line| line.starts_with("20: ")), "{}", all.stdout);
    assert!(arrows(&all.stdout).iter().all(|(.., label)| label.split_once(": ").is_some()), "{}", all.stdout);
    let none = riser(&["trace", text(&capture), "--sequence", "--filter", "number=1000000"]);
    assert_eq!((none.code, none.stdout.as_str()), (0, ""));
    assert!(none.stderr.contains("no transaction to draw"), "{}", none.stderr);
}

/// The number at the end of each bar is the latency in the report.
#[test]
fn latency_picture_has_the_report_s_figures() {
    let scratch = tempfile::tempdir().unwrap();
    let svg = scratch.path().join("latency.svg");
    let report: Value =
        serde_json::from_str(&riser_ok(&["run", &lab("tree.toml"), "--json", "--latency-svg", text(&svg)]))
            .unwrap();
    let shown = texts(&fs::read_to_string(&svg).unwrap());
    let mut bars = 0;
    for link in report["links"].as_array().unwrap() {
        for kind in link["transactions"].as_array().unwrap() {
            let name = format!("{} {} mean", link["slot"].as_str().unwrap(), kind["kind"].as_str().unwrap());
            let total = format!("{:.2}", kind["latency_ns_mean"].as_f64().unwrap());
            let total = total.trim_end_matches('0').trim_end_matches('.');
            let at =
                shown.iter().position(|text| *text == name).unwrap_or_else(|| panic!("{name}: {shown:?}"));
            assert_eq!(shown[at + 1], total, "{name}");
            bars += 1;
        }
    }
    assert!(bars > 5, "{bars}");
    for part in ["queue", "serialization", "wire", "switch"] {
        assert!(shown.iter().any(|text| text == part), "{part}: {shown:?}");
    }
}
