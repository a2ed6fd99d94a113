// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser run`, `riser check` and `riser profiles`, on shipped labs and on invalid labs. Never calls the library.

use crate::common::{riser, riser_ok};
use serde_json::Value;
use std::fs;
use std::path::Path;
use testkit::root;

fn lab(name: &str) -> String {
    root().join("labs").join(name).display().to_string()
}

/// Returns the path of a file for one test. A file from an earlier run is removed.
fn own(name: &str) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_file(&path);
    path.display().to_string()
}

fn write(name: &str, text: &str) -> String {
    let path = own(name);
    fs::write(&path, text).unwrap();
    path
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&riser_ok(args)).expect("one JSON object")
}

/// `--set` works in all commands that read a lab, and appears in the report.
#[test]
fn set_replaces_keys_of_lab() {
    let ping = lab("ping.toml");
    let set = ["--set", "slot.nic.link.gen=4", "--set", "link.lanes=16"];
    let report = json(&[&["run", "--json", &ping][..], &set].concat());
    assert_eq!((&report["links"][0]["gen"], &report["links"][0]["lanes"]), (&4.into(), &16.into()));
    assert_eq!(report["set"], serde_json::json!(["slot.nic.link.gen=4", "link.lanes=16"]));
    assert!(json(&["run", "--json", &ping]).get("set").is_none());
    let text = riser_ok(&[&["run", &ping][..], &set].concat());
    assert!(text.contains("ping.toml --set slot.nic.link.gen=4 --set link.lanes=16: finished"), "{text}");
    assert!(riser_ok(&[&["check", &ping][..], &set].concat()).contains("Gen4 x16"));
    let listed = riser_ok(&[&["lspci", &ping, "-v"][..], &set].concat());
    assert!(listed.contains("16GT/s") && listed.contains("x16"), "{listed}");
    let refused = riser(&["check", &ping, "--set", "slot.nic.link.gen=9", "--set", "seed=x"]);
    assert_eq!(refused.code, 2);
    for line in
        ["--set slot.nic.link.gen=9: generation 9, expected 1, 2, 3, 4, 5", "--set seed=x: seed is string"]
    {
        assert!(refused.stderr.contains(line), "{}", refused.stderr);
    }
}

/// Returns all shipped labs.
fn labs() -> Vec<String> {
    fn walk(folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension() {
                _ if path.is_dir() => walk(&path, found),
                Some(e) if e == "toml" => found.push(path.display().to_string()),
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join("labs"), &mut found);
    // Sweep files are in the same folders as the labs that they name.
    found.retain(|path| !fs::read_to_string(path).unwrap().contains("\nlab = "));
    found.sort();
    assert!(found.len() >= 7, "{found:?}");
    found
}

#[test]
fn reports_run_as_text_and_json() {
    let text = riser_ok(&["run", &lab("ping.toml")]);
    for part in ["ping.toml: finished after ", " TLP-hops", "Gen3 x8", "upstream", "pings_answered 1"] {
        assert!(text.contains(part), "`{part}` in:\n{text}");
    }
    let report = json(&["run", "--json", &lab("ping.toml")]);
    assert_eq!((&report["outcome"], &report["seed"]), (&"finished".into(), &0.into()));
    assert!(report.get("reasons").is_none());
    for key in ["simulated_ns", "events", "tlp_hops", "cpu_seconds"] {
        assert!(report[key].as_f64().is_some_and(|n| n > 0.0), "{key}: {report}");
    }
    let link = &report["links"][0];
    assert_eq!(
        (&link["slot"], &link["gen"], &link["lanes"], &link["mps_bytes"]),
        (&"nic".into(), &3.into(), &8.into(), &256.into())
    );
    let mut hops = 0;
    for (n, name) in ["downstream", "upstream"].into_iter().enumerate() {
        let direction = &link["directions"][n];
        let count = |key: &str| direction[key].as_u64().unwrap_or_else(|| panic!("{key} of {direction}"));
        assert_eq!(direction["direction"], name);
        for key in ["tlps", "dllps", "payload_bytes", "wire_bytes"] {
            assert!(count(key) > 0, "{key} of {direction}");
        }
        assert_eq!((count("replays"), count("credit_stalls")), (0, 0));
        let kinds = ["payload", "header", "digest", "framing", "replay", "dllp", "skp"];
        assert_eq!(
            kinds.map(|kind| count(&format!("{kind}_bytes"))).iter().sum::<u64>(),
            count("wire_bytes")
        );
        assert!(direction["utilization"].as_f64().is_some_and(|u| u > 0.0 && u < 1.0));
        hops += count("tlps");
    }
    // The driver's last write may be in flight when the driver ends.
    assert!(report["tlp_hops"].as_u64().is_some_and(|n| n == hops || n + 1 == hops), "{hops}: {report}");
    assert_eq!(report["devices"][0]["counters"]["pings_answered"], 1);
    assert!(report["root_complex"]["interrupts"].as_u64() > Some(0));
}

#[test]
fn option_no_latencies_omits_latencies() {
    let without = ["run", "--json", "--no-latencies", &lab("ping.toml")];
    let (with, without) = (json(&["run", "--json", &lab("ping.toml")]), json(&without));
    assert!(with["links"][0]["transactions"].as_array().is_some_and(|kinds| !kinds.is_empty()));
    assert_eq!(without["links"][0]["transactions"], Value::Array(Vec::new()));
    for key in ["simulated_ns", "events", "tlp_hops", "devices"] {
        assert_eq!(with[key], without[key], "{key}");
    }
    let text = riser_ok(&["run", "--no-latencies", &lab("ping.toml")]);
    assert!(!text.contains("Latencies of transactions"), "{text}");
}

/// An Ack for a TLP that was never sent is counted, and appears in the error line of its link. A run without errors has no such line.
#[test]
fn report_has_line_for_each_error_counter() {
    let good = "version = 1\n[[slot]]\nname = \"card\"\ndevice = \"traffic\"\n\
                [[slot.traffic.flow]]\nname = \"w\"\nkind = \"write\"\ncount = 10\n";
    let fault = "[[fault]]\nslot = \"card\"\ndirection = \"downstream\"\nframes = \"ack\"\nnth = 1\n\
                 action = \"shift-sequence\"\nsequence_ahead = 100\n";
    let path = write("strange-ack.toml", &format!("{good}{fault}"));
    let shown = riser_ok(&["run", &path]);
    let lines: Vec<&str> = shown.lines().filter(|l| l.starts_with("errors, ")).collect();
    assert_eq!(lines, ["errors, card: downstream data_link_protocol_errors 1"]);
    let down = &json(&["run", "--json", &path])["links"][0]["directions"][0];
    assert_eq!(down["data_link_protocol_errors"], 1, "{down}");
    for key in ["receiver_overflows", "unmapped_tcs", "undetected_errors"] {
        assert_eq!(down[key], 0, "{key} of {down}");
    }
    assert!(!riser_ok(&["run", &write("plain.toml", good)]).contains("errors"));
}

/// One link has credits for two writes, the other for all: bandwidth is limited by the round trip.
#[test]
fn credits_lab_shows_starvation() {
    let report = json(&["run", "--json", &lab("credits.toml")]);
    let of = |n: usize, key: &str| report["links"][n]["directions"][1][key].as_u64().unwrap();
    let gbps = |n: usize| report["devices"][n]["counters"]["write_gbps"].as_f64().unwrap();
    assert_eq!(of(0, "credit_stalls"), 0);
    assert!(of(1, "credit_stalls") > 1000, "{report}");
    // Gen3 x8, MPS 256: SIGCOMM'18 gives 57.88 Gb/s for the wire.
    assert!(gbps(0) > 57.0 && gbps(1) < 57.0 / 3.0, "{} and {} Gb/s", gbps(0), gbps(1));
    // The active rates of the links equal the rates that the devices measured. Over the whole run both links have the same rate.
    let rate = |n: usize, key: &str| report["links"][n]["directions"][1][key].as_f64().unwrap();
    for n in [0, 1] {
        let (active, measured) = (rate(n, "active_gbps"), gbps(n));
        assert!((active / measured - 1.0).abs() < 0.01, "{active} and {measured} Gb/s");
        assert!(rate(n, "active_ns") < report["simulated_ns"].as_f64().unwrap());
    }
    assert!((rate(0, "payload_gbps") - rate(1, "payload_gbps")).abs() < 0.1);
    let text = riser_ok(&["run", &lab("credits.toml")]);
    let head = text.lines().find(|line| line.contains("direction")).unwrap();
    assert!(head.contains("run Gb/s") && head.contains("active Gb/s"), "{head}");
}

/// Every latency has the basis of its figures.
#[test]
fn reports_name_their_basis() {
    let of = |profile: &str| {
        let profile = format!("host.profile={profile}");
        json(&["run", "--json", "--set", &profile, &lab("credits.toml")])
    };
    let fitted = of("xeon-e5-2637v3");
    let basis = |kind: &str| {
        let kinds = fitted["links"][0]["transactions"].as_array().unwrap();
        kinds.iter().find(|t| t["kind"] == kind).unwrap()["basis"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        (basis("dma_write"), basis("host_config"), basis("interrupt")),
        ("fitted".into(), "fitted".into(), "assumed".into())
    );
    assert_eq!((&fitted["basis"], &of("ideal")["basis"]), (&"fitted".into(), &"assumed".into()));
    let text = riser_ok(&["run", "--set", "host.profile=xeon-e5-2637v3", &lab("credits.toml")]);
    let line = text.lines().find(|line| line.starts_with("Latencies of transactions")).unwrap();
    assert!(
        line.ends_with(
            "basis: fitted (dma_write, host_write, host_read, host_config, host_message), assumed (interrupt)"
        ),
        "{line}"
    );
}

#[test]
fn faults_lab_recovers() {
    let report = json(&["run", "--json", &lab("faults.toml")]);
    assert_eq!(report["devices"][0]["counters"]["pings_answered"], 5);
    for direction in report["links"][0]["directions"].as_array().unwrap() {
        assert!(direction["replays"].as_u64() > Some(0), "{direction}");
    }
    assert!(report["links"][0]["directions"][0]["damaged_frames"].as_u64() > Some(0), "{report}");
}

#[test]
fn seven_devices_lab_finishes() {
    let report = json(&["run", "--json", &lab("seven.toml")]);
    assert_eq!(report["outcome"], "finished");
    let links = report["links"].as_array().unwrap();
    assert_eq!(links.len(), 7);
    assert!(links.iter().all(|l| l["directions"][1]["tlps"].as_u64() > Some(20)));
    assert_eq!(report["devices"][6]["counters"]["transfers"], 200);
}

#[test]
fn capture_bytes_depend_only_on_seed() {
    let capture = |name: &str, seed: &[&str]| {
        let out = own(name);
        let report =
            json(&[&["run", "--json", "--dllps", "--capture", &out, &lab("errors.toml")], seed].concat());
        assert_eq!(report["outcome"], "finished");
        (fs::read(&out).unwrap(), report["seed"].as_u64())
    };
    let (first, seed) = capture("seed-a.pcapng", &[]);
    assert!(first.len() > 100_000 && seed == Some(7));
    assert!(capture("seed-b.pcapng", &[]).0 == first, "the same seed");
    assert!(capture("seed-c.pcapng", &["--seed", "7"]).0 == first, "the same seed, said");
    let (other, seed) = capture("seed-d.pcapng", &["--seed", "8"]);
    assert!(other != first && seed == Some(8));
}

#[test]
fn keeps_existing_file_without_force() {
    let out = write("kept.pcapng", "mine");
    let outcome = riser(&["run", &lab("ping.toml"), "--capture", &out]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (1, ""));
    assert!(outcome.stderr.contains("kept.pcapng exists: --force overwrites it"), "{}", outcome.stderr);
    assert_eq!(fs::read(&out).unwrap(), b"mine");
    riser_ok(&["run", &lab("ping.toml"), "--capture", &out, "--force"]);
    assert!(fs::read(&out).unwrap().starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]), "pcapng");
}

/// The UpdateFCs of the root port never arrive, so the card uses its 127 header credits and then waits forever.
const STARVED: &str = "
version = 1
[[slot]]
name = \"card\"
device = \"pcie-bench\"
[slot.pcie-bench]
test = \"BW_WR\"
[[fault]]
slot = \"card\"
direction = \"downstream\"
frames = \"update-fc\"
nth = 1
every = 1
action = \"drop\"
";

#[test]
fn lab_without_progress_ends_with_list_of_waiters() {
    let path = write("starved.toml", STARVED);
    let outcome = riser(&["run", "--json", &path]);
    assert_eq!(outcome.code, 1);
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(report["outcome"], "no-progress");
    let reasons: Vec<&str> =
        report["reasons"].as_array().unwrap().iter().map(|r| r.as_str().unwrap()).collect();
    for part in [
        "host program: ",
        "waiting for interrupts of vector 33",
        "slot `card`: 2 tasks",
        "generated posted requests not accepted",
        "link of slot `card` (device side): no posted header credits",
    ] {
        assert!(reasons.iter().any(|reason| reason.contains(part)), "`{part}` in {reasons:#?}");
        assert!(outcome.stderr.contains(part), "`{part}` in {}", outcome.stderr);
    }
    assert!(outcome.stderr.starts_with("riser: no progress is possible"), "{}", outcome.stderr);
    // 127 writes, and the completions with data for configuration reads, with 4 B each.
    let upstream = report["links"][0]["directions"][1]["payload_bytes"].as_u64().unwrap();
    assert!((127 * 64..127 * 64 + 128).contains(&upstream), "{upstream}");
}

/// If configuration requests get no answer, the host's completion timeout ends the run.
#[test]
fn lab_without_completions_fails() {
    let path = write("failing.toml", &STARVED.replace("update-fc", "config"));
    let outcome = riser(&["run", "--json", &path]);
    assert_eq!(outcome.code, 1);
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(
        (&report["outcome"], &report["root_complex"]["completion_timeouts"]),
        // The request itself, and the probe whether the function exists.
        (&"failed".into(), &2.into())
    );
    assert!(outcome.stderr.contains("no function answers"), "{}", outcome.stderr);
}

#[test]
fn time_limit_is_not_a_failure() {
    let path =
        write("limit.toml", "version = 1\nlimit_us = 5\n[[slot]]\nname = \"nic\"\ndevice = \"simple-nic\"\n");
    let report = json(&["run", "--json", &path]);
    assert_eq!((&report["outcome"], &report["simulated_ns"]), (&"time-limit".into(), &5_000.0.into()));
}

#[test]
fn rejects_invalid_lab_before_run() {
    let path =
        write("lanes.toml", "version = 1\n[link]\nlanes = 3\n[[slot]]\nname = \"a\"\ndevice = \"memory\"\n");
    let out = own("never.pcapng");
    for args in [&["run", &path, "--capture", &out][..], &["check", &path]] {
        let outcome = riser(args);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (1, ""), "{args:?}");
        for part in ["lanes.toml:3:9: 3 lanes, expected 1, 2, 4, 8, 12, 16, 32", "3 | lanes = 3"] {
            assert!(outcome.stderr.contains(part), "`{part}` in {}", outcome.stderr);
        }
    }
    assert!(!Path::new(&out).exists());
    let outcome = riser(&["check", "/nonexistent/lab.toml"]);
    assert_eq!(outcome.code, 1);
    assert!(outcome.stderr.starts_with("riser: /nonexistent/lab.toml: "), "{}", outcome.stderr);
    for args in [
        &["run"][..],
        &["check"],
        &["run", &path, "--dllps"],
        &["run", &path, "--capture-at", "root"],
        &["run", &path, "--seed", "x"],
    ] {
        assert_eq!(riser(args).code, 2, "{args:?}");
    }
}

#[test]
fn check_draws_every_shipped_lab() {
    for path in labs() {
        let text = riser_ok(&["check", &path]);
        let lab = fs::read_to_string(&path).unwrap();
        let links = lab.matches("\n[[slot]]").count() + lab.matches("\n[[switch]]").count();
        assert_eq!(text.matches(", MPS ").count(), links, "{path}:\n{text}");
        assert!(text.starts_with(&path) && text.contains("root port 0 ══ "), "{text}");
    }
    let all = labs();
    let args: Vec<&str> = std::iter::once("check").chain(all.iter().map(String::as_str)).collect();
    assert_eq!(riser_ok(&args).matches("host ").count(), all.len());
}

#[test]
fn check_draws_channels_and_faults() {
    let text = riser_ok(&["check", &lab("vcs.toml"), &lab("faults.toml")]);
    for part in [
        "VC0 TC0+3-7 16 phases, VC1 TC1 8 phases, VC2 TC2 8 phases; weighted\n",
        "VC0 TC0+2-7, VC1 TC1; strict\n",
        "fault on nic, downstream: config dropped, the 3rd\n",
        "fault on nic, downstream: completion corrupted, the 2nd, then every 10th\n",
    ] {
        assert!(text.contains(part), "`{part}` in:\n{text}");
    }
}

#[test]
fn rules_are_listed_and_explained() {
    let list = riser_ok(&["rules"]);
    let report = json(&["rules", "--json"]);
    assert_eq!(list.lines().count(), report["rules"].as_array().unwrap().len());
    let shown = riser_ok(&["rules", "lower-address", "io-tc"]);
    for part in [
        "lower-address (PCIe 6.0 §2.2.9.1)",
        "field:    Lower Address",
        "io-tc (PCIe 5.0 §2.2.7)",
        "02200001",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn lists_profiles_and_prints_their_files() {
    let list = riser_ok(&["profiles"]);
    let report = json(&["profiles", "--json"]);
    let entries = report["profiles"].as_array().unwrap();
    assert_eq!(list.lines().filter(|l| !l.contains("not predicted: ")).count(), entries.len());
    for entry in entries {
        let [name, kind, description] =
            ["name", "kind", "description"].map(|key| entry[key].as_str().unwrap());
        assert!(
            list.lines().any(|l| l.starts_with(kind) && l.contains(name) && l.ends_with(description)),
            "{list}"
        );
        let text = riser_ok(&["profiles", "show", name, "--kind", kind]);
        let folder = root()
            .join(if kind == "host" { "crates/lab/profiles/hosts" } else { "crates/devices/profiles" })
            .join(format!("{name}.toml"));
        assert_eq!(text.trim_end(), fs::read_to_string(folder).unwrap().trim_end(), "{name}");
        for line in text.lines().filter(|l| l.contains("value = ")) {
            assert!(line.contains("source = \""), "{name}: {line}");
        }
    }
    let limited: Vec<&str> = entries
        .iter()
        .filter(|e| e["not_predicted"].is_string())
        .filter_map(|e| e["name"].as_str())
        .collect();
    assert_eq!(limited, ["xeon-e3-1226v3"]);
    assert!(list.contains("not predicted: bandwidths of writes"));
}
