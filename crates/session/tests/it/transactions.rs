// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file of transactions and the report of the same run agree to the picosecond.

use fabric::{Limits, Stop};
use lab::{LabFile, parse};
use riser_session::Session;
use riser_session::transactions::{TransactionReport, transactions};
use serde_json::Value;
use std::path::Path;

const LAB: &str = "
version = 1
[host]
profile = \"xeon-e5-2637v3\"
[link]
bit_error_rate = 1e-6
[[slot]]
name = \"copies\"
device = \"pcie-bench\"
[slot.pcie-bench]
test = \"BW_RDWR\"
size_bytes = 1500
transfers = 300
[[slot]]
name = \"slow\"
device = \"pcie-bench\"
link = { gen = 1, lanes = 1 }
[slot.pcie-bench]
test = \"LAT_WRRD\"
transfers = 50
";

/// Stages in the order of a line.
const PARTS: [&str; 9] = [
    "queue_ps",
    "credit_wait_ps",
    "serialization_ps",
    "wire_ps",
    "replay_ps",
    "root_complex_ps",
    "memory_ps",
    "switch_ps",
    "completer_ps",
];

/// The lines of a run, and the report of each slot.
fn run() -> (String, Vec<Vec<TransactionReport>>) {
    let lab =
        parse(&devices::models(), Path::new("transactions.toml"), LAB).unwrap_or_else(|e| panic!("{e}"));
    let mut session = Session::new(&LabFile { lab, base: "".into() }).unwrap();
    let handle = session.log_transactions(Vec::new());
    assert_eq!(session.fabric.run(Limits::default()), Stop::Finished);
    let reports = (0..2).map(|n| transactions(&session.fabric, n, session.host_basis())).collect();
    (String::from_utf8(handle.finish().unwrap().unwrap()).unwrap(), reports)
}

fn ps(line: &Value, key: &str) -> u64 {
    line[key].as_u64().unwrap_or_else(|| panic!("{key} of {line}"))
}

#[test]
fn parts_of_a_line_add_up_and_lines_match_the_report() {
    let (text, reports) = run();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for line in &lines {
        let parts: u64 = PARTS.iter().map(|part| ps(line, part)).sum();
        assert_eq!(parts, ps(line, "latency_ps"), "{line}");
        assert_eq!(parts, ps(line, "end_ps") - ps(line, "start_ps"), "{line}");
    }
    let mut reported = 0;
    for (slot, report) in ["copies", "slow"].iter().zip(&reports) {
        let kinds: Vec<&str> = report.iter().map(|r| r.kind).collect();
        assert!(kinds.contains(&"dma_read") && kinds.contains(&"dma_write"), "{kinds:?}");
        for r in report {
            let mine: Vec<&Value> =
                lines.iter().filter(|l| l["slot"] == *slot && l["kind"] == r.kind).collect();
            assert_eq!(r.requests, mine.len() as u64, "{slot} {}", r.kind);
            reported += r.requests;
            let mean =
                |key| mine.iter().map(|l| ps(l, key)).sum::<u64>() as f64 / 1_000.0 / mine.len() as f64;
            assert_eq!(r.latency_ns_mean, mean("latency_ps"), "{slot} {}", r.kind);
            for ((name, ns), key) in r.mean.columns().iter().zip(PARTS) {
                assert_eq!(*ns, mean(key), "{slot} {} {name}", r.kind);
            }
            let mut latencies: Vec<u64> = mine.iter().map(|l| ps(l, "latency_ps")).collect();
            latencies.sort_unstable();
            let ns = |index: usize| latencies[index] as f64 / 1_000.0;
            assert_eq!((r.latency_ns_min, r.latency_ns_max), (ns(0), ns(latencies.len() - 1)));
            let median = ns(latencies.len().div_ceil(2) - 1);
            assert!((r.latency_ns_median - median).abs() <= median / 512.0, "{slot} {}", r.kind);
        }
    }
    assert_eq!(reported, lines.len() as u64);
}

#[test]
fn same_seed_gives_same_lines() {
    assert_eq!(run().0, run().0);
}
