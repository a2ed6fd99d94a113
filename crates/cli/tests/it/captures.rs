// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Captures of `riser run --capture`: `riser trace` and stock tshark (if installed) read the same records. Never calls
//! the library.

use crate::common::riser_ok;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// NetTLP ports: 0x3000 plus the tag for requests of the device, 0x4000 plus the low four bits of the tag for requests of the host.
const DEVICE_PORTS: u64 = 0x3000;
const HOST_PORTS: u64 = 0x4000;

/// Runs `labs/ping.toml` for a test. Returns the path of its capture, and its report.
fn capture(test: &str, more: &[&str]) -> (String, Value) {
    let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/ping.toml");
    let name = format!("captures-{test}{}.pcapng", more.join(""));
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name).display().to_string();
    let lab = lab.display().to_string();
    let report = riser_ok(&[&["run", "--json", "--force", "--capture", &out, &lab], more].concat());
    (out, serde_json::from_str(&report).unwrap())
}

fn trace(path: &str) -> Vec<Value> {
    riser_ok(&["trace", "--json", path]).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn sum(report: &Value, key: &str) -> u64 {
    let links = report["links"].as_array().unwrap().iter();
    links.flat_map(|l| l["directions"].as_array().unwrap()).map(|d| d[key].as_u64().unwrap()).sum()
}

/// Without faults, a capture contains each TLP and DLLP once, at either tap, from the first InitFC.
#[test]
fn capture_agrees_with_counters() {
    for more in [&["--dllps"][..], &["--dllps", "--capture-at", "root"], &[]] {
        let (path, report) = capture("counters", more);
        let records = trace(&path);
        let dllps = records.iter().filter(|r| r["type"] == "dllp").count() as u64;
        let tlps = records.len() as u64 - dllps;
        // Packets in flight at the end of the run are counted as sent, but have not arrived.
        let sent = [sum(&report, "tlps"), if more.is_empty() { 0 } else { sum(&report, "dllps") }];
        for (sent, seen) in sent.into_iter().zip([tlps, dllps]) {
            assert!((sent.saturating_sub(2)..=sent).contains(&seen), "{more:?}: {seen} of {sent}");
        }
        let stats: Value = serde_json::from_str(&riser_ok(&["trace", "--stats", "--json", &path])).unwrap();
        assert_eq!((&stats["error_total"], &stats["tlps"]), (&0.into(), &tlps.into()));
        let times: Vec<u64> = records.iter().map(|r| r["timestamp_ps"].as_u64().unwrap()).collect();
        assert!(times.is_sorted(), "{more:?}");
        if !more.is_empty() {
            // 8 B on 8 lanes at 8 GT/s.
            let first = &records[0];
            assert_eq!((&first["dllp"], &first["timestamp_ps"]), (&"InitFC1".into(), &1015.into()));
        }
    }
}

#[test]
fn capture_uses_nettlp_ports() {
    let (path, _) = capture("ports", &[]);
    let records = trace(&path);
    let mut seen = [0; 2];
    for record in &records {
        let port = record["destination_port"].as_u64().unwrap();
        assert_eq!(record["source_port"], port);
        // Writes in NetTLP have tags too.
        let tag = record["tag"].as_u64().unwrap();
        match record["origin"].as_str() {
            Some("device") => assert_eq!((port, seen[0] += 1), (DEVICE_PORTS + tag, ()), "{record}"),
            _ => assert_eq!((port, seen[1] += 1), (HOST_PORTS + (tag & 0xf), ()), "{record}"),
        }
    }
    assert!(seen.iter().all(|n| *n > 20), "{seen:?}");
}

/// With bit errors and lost frames, the capture contains replays, omits damaged arrivals, and is readable throughout.
#[test]
fn captures_of_labs_with_faults_are_readable() {
    for lab in ["faults.toml", "errors.toml", "seven.toml"] {
        let (path, report) = capture(lab, &["--dllps"]);
        let stats: Value = serde_json::from_str(&riser_ok(&["trace", "--stats", "--json", &path])).unwrap();
        assert_eq!(stats["error_total"], 0, "{lab}: {stats}");
        assert!(stats["tlps"].as_u64() >= report["tlp_hops"].as_u64(), "{lab}: {stats}");
    }
}

/// Rows of tshark: time, both UDP ports, interface, and bytes.
fn tshark(path: &str) -> Option<Vec<[String; 5]>> {
    let fields = ["frame.time_epoch", "udp.srcport", "udp.dstport", "frame.interface_name", "frame.len"];
    let mut command = Command::new("tshark");
    command.args(["-n", "-r", path, "-T", "fields"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let row = |line: &str| -> [String; 5] {
        let cells: Vec<String> = line.split('\t').map(str::to_owned).collect();
        cells.try_into().unwrap_or_else(|cells| panic!("{cells:?}"))
    };
    Some(text.lines().map(row).collect())
}

#[test]
fn stock_tshark_reads_same_records() {
    for lab in ["ping.toml", "faults.toml"] {
        let (path, _) = capture(lab, &["--dllps", "--capture-at", "device"]);
        let Some(rows) = tshark(&path) else {
            eprintln!("skipped: tshark is not installed");
            return;
        };
        let records = trace(&path);
        assert_eq!(rows.len(), records.len());
        for (row, record) in rows.iter().zip(&records) {
            let ps = record["timestamp_ps"].as_u64().unwrap();
            let (whole, fraction) = row[0].split_once('.').unwrap();
            let ns = whole.parse::<u64>().unwrap() * 1_000_000_000
                + format!("{fraction:0<9}")[..9].parse::<u64>().unwrap();
            assert_eq!(ns, ps / 1_000, "{record}");
            let text = |key: &str| record[key].to_string().trim_matches('"').to_owned();
            assert_eq!(
                [&row[1], &row[2], &row[3]],
                [&text("source_port"), &text("destination_port"), &text("interface")]
            );
        }
        // The file is at least as long as its packets.
        let bytes: u64 = rows.iter().map(|row| row[4].parse::<u64>().unwrap()).sum();
        assert!(fs::metadata(&path).unwrap().len() > bytes);
    }
}
