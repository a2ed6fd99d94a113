// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser trace` on captures written here byte by byte, and on real captures if available. Never calls the library.

use crate::common::{riser, riser_ok, riser_whose_reader_leaves};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// pcap of nanoseconds, little endian, Ethernet: magic a1b23c4d, version 2.4, snap length 65535, link type 1.
const PCAP_HEADER: &str = "4d3cb2a1 02000400 00000000 00000000 ffff0000 01000000";

/// 10.0.0.1 to 10.0.0.2, UDP 0x3005 both, NetTLP sequence 7: MRd of 64 DW at 0x1_0000_1000 by 1b:00.0, tag 5.
const MRD: &str = "
    020000000002 020000000001 0800
    4500 0032 0000 0000 4011 66b9 0a000001 0a000002
    3005 3005 001e 0000
    0007 00000000
    20000040 1b0005ff 00000001 00001000";

/// The completion of this read, cut to 8 B: CplD of 2 DW from 00:00.0, SC, Byte Count 256, Lower Address 0.
const CPLD: &str = "
    020000000001 020000000002 0800
    4500 0036 0000 0000 4011 66b5 0a000002 0a000001
    3005 3005 0022 0000
    0008 00000000
    4a000002 00000100 1b000500 0011223344556677";

/// A MRd of which the last 4 bytes are missing.
const SHORT_MRD: &str = "
    020000000002 020000000001 0800
    4500 002e 0000 0000 4011 66bd 0a000001 0a000002
    3005 3005 001a 0000
    0009 00000000
    20000040 1b0005ff 00000001";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// Writes a capture with these frames, a microsecond apart.
fn capture(name: &str, frames: &[&str]) -> PathBuf {
    let mut file = bytes(PCAP_HEADER);
    for (index, frame) in frames.iter().enumerate() {
        let frame = bytes(frame);
        for field in [1, index as u32 * 1000, frame.len() as u32, frame.len() as u32] {
            file.extend(field.to_le_bytes());
        }
        file.extend(frame);
    }
    write(name, &file)
}

fn write(name: &str, content: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, content).unwrap();
    path
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
}

#[test]
fn prints_one_line_per_tlp() {
    let file = capture("lines.pcap", &[MRD, CPLD]);
    let text = riser_ok(&["trace", file.to_str().unwrap()]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    for (line, parts) in [
        (lines[0], ["10.0.0.1.12293 > 10.0.0.2.12293", "MRd", "1b:00", "tag 0x05", "0x100001000"]),
        (lines[1], ["10.0.0.2.12293 > 10.0.0.1.12293", "CplD", "1b:00", "tag 0x05", "256"]),
    ] {
        for part in parts {
            assert!(line.contains(part), "{part} in {line}");
        }
    }
}

#[test]
fn json_has_the_fields_of_each_type() {
    let file = capture("json.pcap", &[MRD, CPLD]);
    let lines = json_lines(&riser_ok(&["trace", "--json", file.to_str().unwrap()]));
    let [mrd, cpld] = lines.as_slice() else { panic!("{lines:?}") };
    for (name, value) in [
        ("type", Value::from("MRd")),
        ("timestamp_ps", Value::from(1_000_000_000_000u64)),
        ("requester", Value::from("1b:00.0")),
        ("tag", Value::from(5)),
        ("address", Value::from(0x1_0000_1000u64)),
        ("length_dw", Value::from(64)),
    ] {
        assert_eq!(mrd[name], value, "{name} of {mrd}");
    }
    for (name, value) in [
        ("type", Value::from("CplD")),
        ("timestamp_ps", Value::from(1_000_001_000_000u64)),
        ("completer", Value::from("00:00.0")),
        ("requester", Value::from("1b:00.0")),
        ("status", Value::from("SC")),
        ("byte_count", Value::from(256)),
        ("payload_bytes", Value::from(8)),
    ] {
        assert_eq!(cpld[name], value, "{name} of {cpld}");
    }
    assert!(mrd["status"].is_null() && mrd["payload_bytes"].is_null(), "{mrd}");
}

#[test]
fn reports_bad_frames_and_reads_rest() {
    let file = capture("bad.pcap", &[MRD, SHORT_MRD, CPLD]);
    let outcome = riser(&["trace", "--json", file.to_str().unwrap()]);
    let types: Vec<Value> =
        json_lines(&outcome.stdout).into_iter().map(|line| line["type"].clone()).collect();
    assert_eq!(types, ["MRd", "error", "CplD"]);
    assert_eq!(outcome.code, 0);
    let reported = ": 1 record could not be read; first: 1.000001000 IP 10.0.0.1.12293 > 10.0.0.2.12293: \
        error in TLP: truncated TLP: 12 bytes, expected 16 up to the end of its header";
    // Every view reports it.
    for view in [&["--json"][..], &["--stats"], &["--stats", "--interval", "1us"], &["--transactions"]] {
        let outcome = riser(&[&["trace", file.to_str().unwrap()], view].concat());
        assert!(
            outcome.stderr.starts_with("riser: ") && outcome.stderr.contains(reported),
            "{}",
            outcome.stderr
        );
    }

    let mut cut = fs::read(&file).unwrap();
    cut.truncate(cut.len() - 3);
    let file = write("cut.pcap", &cut);
    let outcome = riser(&["trace", "--stats", "--json", file.to_str().unwrap()]);
    let stats: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!((&stats["tlps"], &stats["error_total"]), (&Value::from(1), &Value::from(2)), "{stats}");
    assert!(outcome.stderr.contains(": 2 records could not be read; first: "), "{}", outcome.stderr);
}

#[test]
fn prints_statistics_of_each_file() {
    let a = capture("stats-a.pcap", &[MRD, CPLD]);
    let b = capture("stats-b.pcap", &[MRD]);
    let (a, b) = (a.to_str().unwrap(), b.to_str().unwrap());
    assert!(riser_ok(&["trace", "--stats", a]).contains("2 TLPs"));
    let one: Value = serde_json::from_str(&riser_ok(&["trace", "--stats", "--json", a])).unwrap();
    assert_eq!((&one["types"]["MRd"], &one["types"]["CplD"]), (&Value::from(1), &Value::from(1)));
    let both: Value = serde_json::from_str(&riser_ok(&["trace", "--stats", "--json", a, b])).unwrap();
    assert_eq!(both["files"][0]["file"], a);
    assert_eq!((&both["files"][1]["file"], &both["files"][1]["tlps"]), (&Value::from(b), &Value::from(1)));
}

#[test]
fn output_names_file_of_each_record() {
    let a = capture("several-a.pcap", &[MRD]);
    let b = capture("several-b.pcap", &[CPLD]);
    let (a, b) = (a.to_str().unwrap(), b.to_str().unwrap());
    let text = riser_ok(&["trace", a, b]);
    assert!(
        text.starts_with(&format!("==> {a} <==\n")) && text.contains(&format!("==> {b} <==\n")),
        "{text}"
    );
    let lines = json_lines(&riser_ok(&["trace", "--json", a, b]));
    let files: Vec<&Value> = lines.iter().map(|line| &line["file"]).collect();
    assert_eq!(files, [a, b]);
    assert_eq!(lines[1]["type"], "CplD");
}

#[test]
fn rejects_files_that_are_not_captures() {
    let text = write("no-capture.txt", b"hello, world: this is no capture");
    for (file, says) in [(text.to_str().unwrap(), "pcap"), ("/nonexistent/x.pcap", "/nonexistent/x.pcap")] {
        let outcome = riser(&["trace", file]);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (1, ""), "{file}");
        assert!(outcome.stderr.starts_with("riser: ") && outcome.stderr.contains(says), "{}", outcome.stderr);
    }
}

/// Runs a shipped lab, and returns the path of its capture with DLLPs.
fn lab_capture(lab: &str, name: &str) -> String {
    let labs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name).display().to_string();
    let lab = labs.join(lab).display().to_string();
    riser_ok(&["run", &lab, "--capture", &out, "--dllps", "--force"]);
    out
}

#[test]
fn prints_one_line_per_transaction() {
    let file = capture("transactions.pcap", &[MRD, CPLD, CPLD]);
    let file = file.to_str().unwrap();
    let text = riser_ok(&["trace", "--transactions", file]);
    let line = "00:00:01.000000000 MRd requester 1b:00.0, tag 0x05, Addr 0x100001000, 256 bytes: 1 completion, success, \
                first data 1000.000 ns, response 1000.000 ns, 0.064 Gb/s, 1 retry; error: incomplete";
    let starts: Vec<&str> = text.lines().take(3).collect();
    assert_eq!(starts[0].trim_start_matches("00:00:0"), line.trim_start_matches("00:00:0"), "{text}");
    assert_eq!(starts[1..], ["", "1 transaction, 1 with errors"]);

    let lines = json_lines(&riser_ok(&["trace", "--transactions", "--json", file, file]));
    assert_eq!(lines.len(), 4);
    for line in &lines {
        assert_eq!(line["file"], file);
    }
    assert_eq!((&lines[0]["type"], &lines[0]["latency_ps"]), (&"MRd".into(), &1_000_000.into()));
    assert_eq!(lines[0]["errors"], serde_json::json!(["incomplete"]));
    assert_eq!(lines[1]["summary"]["errors"]["incomplete"], 1);
}

/// The replays that the links count equal the retries that the transactions count.
#[test]
fn number_of_retries_equals_replays_of_links() {
    let file = lab_capture("errors.toml", "trace-errors.pcapng");
    let labs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/errors.toml").display().to_string();
    let report: Value = serde_json::from_str(&riser_ok(&["run", &labs, "--json"])).unwrap();
    let links = report["links"].as_array().unwrap().iter();
    let directions = links.flat_map(|link| link["directions"].as_array().unwrap());
    let replays: u64 = directions.map(|d| d["replays"].as_u64().unwrap()).sum();
    let lines = json_lines(&riser_ok(&["trace", "--transactions", "--json", &file]));
    let (summary, transactions) = lines.split_last().unwrap();
    let retries: u64 = transactions.iter().map(|t| t["retries"].as_u64().unwrap()).sum();
    assert!(replays > 50 && retries == replays, "{retries} retries, {replays} replays");
    assert_eq!(summary["summary"]["with_errors"], 0, "{summary}");
    // Every request was acknowledged after it was sent, except requests in flight at the end.
    let acked = transactions.iter().filter(|t| t["ack_ps"].as_u64().is_some_and(|ps| ps > 0)).count();
    assert!(acked + 20 > transactions.len(), "{acked} of {}", transactions.len());
    // A lost frame is shown, and not counted twice.
    let lost = riser_ok(&["trace", "--filter", "lost", &file]);
    assert!(lost.lines().count() > 20 && lost.lines().all(|line| line.ends_with(" on the way]")), "{lost}");
}

/// The requests of the lab's enumeration and driver have names: in the list, in JSON, and for transactions.
#[test]
fn shows_meaning_of_tlps() {
    let file = lab_capture("ping.toml", "trace-means.pcapng");
    let text = riser_ok(&["trace", &file]);
    let transactions = riser_ok(&["trace", "--transactions", &file]);
    for (meaning, count) in [
        ("BAR 4: sizing", 1),
        ("BAR 4 = 0x80000000", 1),
        ("Command: Memory Space Enable, Bus Master Enable, SERR# Enable", 1),
        ("MSI Message Control: MSI Enable, Multiple Message Enable 1", 1),
        ("01:00.0 BAR 4 TX ring = 0x1000", 1),
        ("01:00.0 BAR 4 TX index (doorbell) = 0x2", 1),
        ("MSI of 01:00.0, vector 0", 2),
        ("MSI of 01:00.0, vector 1", 2),
    ] {
        let line = format!("; {meaning}");
        assert_eq!(text.lines().filter(|shown| shown.ends_with(&line)).count(), count, "{meaning}");
        assert_eq!(transactions.lines().filter(|shown| shown.ends_with(&line)).count(), count, "{meaning}");
    }
    let lines = json_lines(&riser_ok(&["trace", "--json", &file]));
    let interrupts: Vec<&Value> = lines.iter().filter(|line| line["interrupt"] == "MSI").collect();
    assert_eq!(interrupts.len(), 4);
    assert_eq!((&interrupts[0]["function"], &interrupts[0]["vector"]), (&"01:00.0".into(), &0.into()));
    let of_transactions = json_lines(&riser_ok(&["trace", "--transactions", "--json", &file]));
    let means = |line: &&Value| line["means"] == "MSI of 01:00.0, vector 1";
    assert_eq!(of_transactions.iter().filter(means).count(), 2);
    assert_eq!(lines.iter().filter(means).count(), 2);
}

#[test]
fn shows_data_in_hexadecimal_and_as_text() {
    let file = capture("data.pcap", &[MRD, CPLD]);
    let file = file.to_str().unwrap();
    let text = riser_ok(&["trace", "-x", file]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert_eq!(lines[2], "\t0x0000:  0011 2233 4455 6677                      ..\"3DUfw");
    assert_eq!(riser_ok(&["trace", file]).lines().count(), 2);
    let of = |args: &[&str]| json_lines(&riser_ok(args)).pop().unwrap();
    assert_eq!(of(&["trace", "--json", "-x", file])["data"], "0011223344556677");
    assert_eq!(of(&["trace", "--json", "-x", file, file])["data"], "0011223344556677");
    assert_eq!(of(&["trace", "--json", file]).get("data"), None);
    assert_eq!(riser(&["trace", "-x", "--stats", file]).code, 2);
}

#[test]
fn filters_apply_to_every_view() {
    let file = lab_capture("ping.toml", "trace-filter.pcapng");
    let count = |args: &[&str]| riser_ok(&[&["trace", &file], args].concat()).lines().count();
    let all = count(&[]);
    let (up, down) = (count(&["--filter", "dir=up"]), count(&["--filter", "not dir=up"]));
    assert!(up > 10 && down > 10 && up + down == all, "{up} + {down} of {all}");
    let stats = riser_ok(&["trace", &file, "--stats", "--json", "--filter", "type=MWr"]);
    let stats: Value = serde_json::from_str(&stats).unwrap();
    assert_eq!(stats["types"].as_object().unwrap().len(), 1, "{stats}");
    let lines = json_lines(&riser_ok(&["trace", &file, "--transactions", "--json", "--filter", "type=CplD"]));
    assert!(lines.len() > 10 && lines[..lines.len() - 1].iter().all(|t| t["data_bytes"].as_u64() > Some(0)));
    assert_eq!(count(&["--filter", "tag=1023"]), 0);

    let wrong = riser(&["trace", &file, "--filter", "tga=5"]);
    assert_eq!((wrong.code, wrong.stdout.as_str()), (2, ""));
    assert!(
        wrong.stderr.contains("column 1: unknown field \"tga\": expected type, tag,"),
        "{}",
        wrong.stderr
    );
    assert!(wrong.stderr.trim_end().ends_with("tga=5\n  ^"), "{}", wrong.stderr);
}

/// The series adds up to the link's counters, without SKP ordered sets and frames in flight at the end.
#[test]
fn series_adds_up_to_the_counters() {
    let file = lab_capture("credits.toml", "trace-series.pcapng");
    let labs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/credits.toml").display().to_string();
    let report: Value = serde_json::from_str(&riser_ok(&["run", &labs, "--json"])).unwrap();
    for interval in ["auto", "10us"] {
        let text = riser_ok(&["trace", &file, "--stats", "--interval", interval, "--json"]);
        let series: Value = serde_json::from_str(&text).unwrap();
        let rows = series["rows"].as_array().unwrap().iter();
        let ways: Vec<&Value> = rows.flat_map(|row| row["links"].as_array().unwrap()).collect();
        for (n, link) in report["links"].as_array().unwrap().iter().enumerate() {
            for direction in link["directions"].as_array().unwrap() {
                let own = ways.iter().filter(|w| w["link"] == n && w["direction"] == direction["direction"]);
                let sum = |fields: &[&str]| -> u64 {
                    own.clone().flat_map(|w| fields.iter().map(|f| w[*f].as_u64().unwrap())).sum()
                };
                let bytes = sum(&["posted_bytes", "non_posted_bytes", "completion_bytes", "dllp_bytes"]);
                let wire = direction["wire_bytes"].as_u64().unwrap();
                let skp = direction["skp_bytes"].as_u64().unwrap();
                assert!((wire - skp).abs_diff(bytes) <= 2 * 284, "{n} {direction}: {bytes}");
            }
        }
        assert!(ways.iter().all(|w| w["utilization"].as_f64().is_some_and(|u| (0.0..1.001).contains(&u))));
    }
    let csv = riser_ok(&["trace", &file, "--stats", "--interval", "auto", "--format", "csv"]);
    assert!(csv.starts_with("start_ps,interval_ps,link,direction,of,measure,value\n"), "{csv}");
    assert!(csv.lines().all(|line| line.split(',').count() == 7));
}

#[test]
fn credits_never_fall_below_zero() {
    let file = lab_capture("credits.toml", "trace-credits.pcapng");
    let lines = json_lines(&riser_ok(&["trace", &file, "--credits", "--json"]));
    let mut least = i64::MAX;
    for line in &lines {
        let credits = &line["credits"];
        for kind in ["header", "data"] {
            let [before, after] = ["before", "after"].map(|when| credits[format!("{kind}_{when}")].as_i64());
            if let (Some(before), Some(after)) = (before, after) {
                assert!(before >= after && after >= 0, "{line}");
                least = least.min(after);
            }
        }
    }
    // The narrow link of this lab waits for credits.
    assert_eq!(least, 0);
    assert!(lines.len() > 8000);
    assert!(riser_ok(&["trace", &file, "--credits"]).lines().all(|line| line.contains("; credits ")));
}

#[test]
fn perfetto_output_is_not_overwritten_without_force() {
    let file = lab_capture("ping.toml", "trace-perfetto.pcapng");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("trace-perfetto.json");
    let _ = fs::remove_file(&out);
    let out = out.to_str().unwrap();
    assert_eq!(riser_ok(&["trace", &file, "--perfetto", out]), "");
    let trace: Value = serde_json::from_str(&fs::read_to_string(out).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |phase: &str| events.iter().filter(|e| e["ph"] == phase).count();
    let lines = riser_ok(&["trace", &file]).lines().count();
    assert_eq!((of("X"), of("b"), of("M")), (lines, of("e"), 4));
    let again = riser(&["trace", &file, "--perfetto", out]);
    assert!(again.code == 1 && again.stderr.contains("--force"), "{}", again.stderr);
    assert_eq!(riser(&["trace", &file, "--perfetto", &file, "--force"]).code, 2);
}

#[test]
fn rejects_empty_filter() {
    let file = capture("filter.pcap", &[MRD]);
    assert_eq!(riser(&["trace", file.to_str().unwrap(), "--filter", ""]).code, 2);
}

#[test]
fn intervals_of_given_link_show_its_utilization() {
    let file = capture("intervals.pcap", &[MRD]);
    let file = file.to_str().unwrap();
    let known = ["trace", file, "--stats", "--interval", "auto", "--gen", "3", "--lanes", "8"];
    assert!(riser_ok(&known).contains("busy %"));
}

#[test]
fn succeeds_if_reader_closes_the_output_early() {
    let file = capture("pipe.pcap", &[MRD; 5000]);
    for args in [&["trace"][..], &["trace", "--json"], &["trace", "--transactions"], &["trace", "--credits"]]
    {
        let (code, stderr) = riser_whose_reader_leaves(&[args, &[file.to_str().unwrap()]].concat());
        assert_eq!((code, stderr.as_str()), (0, ""));
    }
}

/// All real captures decode completely: no errors in any of them.
#[test]
fn reads_real_captures_without_errors() {
    let Some(folder) = testkit::shared_data("nettlp-captures") else { return };
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .flat_map(|host| fs::read_dir(host.unwrap().path()).unwrap())
        .map(|file| file.unwrap().path())
        .filter(|file| file.extension().is_some_and(|e| e == "pcap"))
        .collect();
    files.sort();
    let mut args = vec!["trace", "--stats", "--json"];
    args.extend(files.iter().map(|file| file.to_str().unwrap()));
    assert!(args.len() > 4, "{args:?}");
    let stats: Value = serde_json::from_str(&riser_ok(&args)).unwrap();
    for file in stats["files"].as_array().unwrap() {
        assert_eq!(file["error_total"], 0, "{}: {}", file["file"], file["errors"]);
        assert!(file["tlps"].as_u64().unwrap() > 0, "{}", file["file"]);
    }
}

/// Names in a capture are untrusted: sequences that a terminal would execute are removed.
#[test]
fn removes_terminal_commands_from_names() {
    let lab = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/ping.toml");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("command.pcapng");
    let named = path.to_str().unwrap();
    riser_ok(&["run", lab, "--capture", named, "--force", "--json"]);
    let mut capture = fs::read(&path).unwrap();
    let at: Vec<usize> = (0..capture.len() - 3).filter(|&at| &capture[at..at + 4] == b"nic,").collect();
    assert!(!at.is_empty());
    at.into_iter().for_each(|at| capture[at + 1] = 0x1b);
    fs::write(&path, capture).unwrap();
    let shown = riser(&["trace", named]).stdout;
    assert!(shown.contains("n\u{fffd}c:") && !shown.contains('\u{1b}'));
}

/// A healthy tree: probes of buses are no errors in any view, and a transaction through switches counts once.
#[test]
fn tree_shows_no_errors_and_each_transaction_once() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let lab = root.join("labs/tree.toml").display().to_string();
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tree.pcapng").display().to_string();
    riser_ok(&["run", &lab, "--capture", &file, "--force"]);
    assert_eq!(riser_ok(&["trace", &file, "--filter", "error"]), "");
    let failed = riser_ok(&["trace", &file, "--transactions", "--filter", "error"]);
    assert!(failed.trim_start().starts_with("0 transactions, 0 with errors"), "{failed}");
    let stats: Value = serde_json::from_str(&riser_ok(&["trace", &file, "--stats", "--json"])).unwrap();
    let counts = &stats["transactions"];
    assert_eq!((&stats["error_records"], &counts["failed"]), (&Value::from(0), &Value::from(0)));

    let lines = json_lines(&riser_ok(&["trace", &file, "--transactions", "--json", "--filter", "probe"]));
    let (summary, probes) = lines.split_last().unwrap();
    assert_eq!(summary["summary"]["probes"], counts["probes"]);
    assert_eq!((probes.len() as u64, summary["summary"]["transactions"].as_u64()), (60, Some(60)));
    // The disk's 6,400 deferrable writes pass two switches.
    let lines = json_lines(&riser_ok(&[
        "trace",
        &file,
        "--transactions",
        "--json",
        "--filter",
        "slot=disk and type=DMWr",
    ]));
    let (summary, writes) = lines.split_last().unwrap();
    assert_eq!(summary["summary"]["transactions"], 6400);
    for write in writes {
        let hops = write["hops"].as_array().unwrap();
        assert!(
            hops.iter().map(|hop| hop["slot"].as_str().unwrap()).eq(["disk", "lower", "upper"]),
            "{write}"
        );
        let sum: u64 = hops.iter().map(|hop| hop["latency_ps"].as_u64().unwrap()).sum();
        assert_eq!(write["latency_ps"], sum, "{write}");
    }
    // A filter with a name that the capture does not have selects no records, and a note reports this.
    for (term, names) in [("slot=nope", "adder, "), ("link=zz", "adder, "), ("link=99", "0, 1, ")] {
        let outcome = riser(&["trace", &file, "--filter", term]);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (0, ""), "{term}");
        let (field, value) = term.split_once('=').unwrap();
        let expected =
            format!("riser: {file}: --filter: {field}=\"{value}\": not in the capture, which has {names}");
        assert!(outcome.stderr.starts_with(&expected), "{}", outcome.stderr);
    }
    assert_eq!(riser(&["trace", &file, "--stats", "--filter", "slot=disk"]).stderr, "");
    assert!(
        riser_ok(&["trace", &file, "--filter", "link=adder"]).lines().all(|line| line.contains(" adder:"))
    );
}

#[test]
fn check_prints_violations_and_fails() {
    let wrong = CPLD.replace("00000100 1b000500", "00000100 1b000540");
    let path = capture("check.pcap", &[MRD, &wrong]);
    let path = path.to_str().unwrap();
    let output = riser(&["trace", "--check", path]);
    let text = &output.stdout;
    assert_eq!(output.code, 1, "{text}");
    let first = text.lines().next().unwrap();
    assert!(
        first
            .contains(" #2 Lower Address 0x40, expected 0x0 (PCIe 6.0 §2.2.9.1, rule lower-address): CplD, "),
        "{text}"
    );
    assert!(first.ends_with("; answers #1"), "{text}");
    assert!(text.contains("2 TLPs, 2 violations"), "{text}");

    let output = riser(&["trace", "--check", "--json", path]);
    let objects: Vec<Value> = output.stdout.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(
        (&objects[0]["rule"], &objects[0]["expected"]),
        (&Value::from("lower-address"), &Value::from(0))
    );
    assert_eq!(objects.last().unwrap()["summary"]["violations"], 2);

    // The second violation is the break after 8 bytes.
    let output =
        riser(&["trace", "--check", "--ignore", "lower-address", "--ignore", "completion-boundary", path]);
    assert_eq!(output.code, 0, "{}", output.stdout);
}

#[test]
fn check_fails_if_the_file_is_cut_or_has_no_tlp() {
    let path = capture("check-cut.pcap", &[MRD, CPLD]);
    let whole = std::fs::read(&path).unwrap();
    for (bytes, text) in [(&whole[..whole.len() - 4], "cut or damaged"), (&whole[..24], "no TLP was judged")]
    {
        std::fs::write(&path, bytes).unwrap();
        let output = riser(&["trace", "--check", path.to_str().unwrap()]);
        assert!(output.code == 1 && output.stderr.contains(text), "{}", output.stderr);
        assert!(output.stdout.contains(" 0 violations"), "{}", output.stdout);
    }
}
