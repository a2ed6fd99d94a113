// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs that end while devices are working: their reports cover the time up to the end.

use fabric::{Limits, Stop};
use lab::{LabFile, parse, read};
use riser_session::Session;
use serde_json::{Map, Value};
use std::path::Path;
use tlp::Time;

/// The lab's devices after a run up to `ns`, by slot.
fn run_to(lab: &LabFile, ns: u64) -> Vec<(String, Map<String, Value>)> {
    let mut session: Session = Session::new(lab).unwrap();
    let stop = session.fabric.run(Limits { until: Time::from_ps(ns * 1000), ..Limits::default() });
    assert_eq!(stop, Stop::TimeLimit);
    let report = session.report("lab.toml", &stop, 0.0);
    report.devices.into_iter().map(|device| (device.slot, device.counters)).collect()
}

fn shipped(name: &str) -> LabFile {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs").join(name);
    read(&devices::models(), &path).unwrap_or_else(|e| panic!("{e}"))
}

fn own(text: &str) -> LabFile {
    let lab = parse(&devices::models(), Path::new("lab.toml"), text).unwrap_or_else(|e| panic!("{e}"));
    LabFile { lab, base: ".".into() }
}

fn figure(counters: &Map<String, Value>, name: &str) -> f64 {
    counters[name].as_f64().unwrap()
}

/// A Gen3 x8 link carries at most 64 Gb/s. The flows got most of this, computed over their own time.
#[test]
fn running_flows_have_rates_at_an_early_end() {
    let flow = |name: &str, kind: &str| {
        format!(
            "[[slot.traffic.flow]]\nname = \"{name}\"\nkind = \"{kind}\"\nsize_bytes = 256\ncount = 1000000000\noutstanding = 32\n"
        )
    };
    let text = format!(
        "version = 1\n[link]\ngen = 3\nlanes = 8\nmps_bytes = 256\n[[slot]]\nname = \"t\"\ndevice = \"traffic\"\n{}{}",
        flow("out", "write"),
        flow("in", "read")
    );
    let devices = run_to(&own(&text), 20_000);
    let counters = &devices[0].1;
    let out = figure(counters, "out.gbps");
    assert!((40.0..64.0).contains(&out), "{out}");
    assert!((20.0..64.0).contains(&figure(counters, "in.gbps")), "{counters:?}");
    // The link came up at the start, so the flows had the whole time.
    let sent = figure(counters, "out.requests") * 256.0 * 8.0 / 20_000.0;
    assert!((out / sent - 1.0).abs() < 0.01, "{out} of {sent}");
    assert_eq!(figure(counters, "out.shared_gbps"), out, "no flow has ended");
}

/// Rates of finished flows cover the time up to their own end, the other rates the time up to the end of the run.
#[test]
fn finished_flow_reports_time_of_its_end() {
    let devices = run_to(&shipped("vcs.toml"), 1_000_000);
    let of = |slot: &str| &devices.iter().find(|(name, _)| name == slot).unwrap().1;
    let (going, ended) = (of("weighted"), of("strict"));
    let sent = figure(going, "half.requests");
    let share = figure(going, "half.share");
    assert!(sent > 0.0 && (share - 0.5).abs() < 0.01, "{share}");
    assert!(figure(going, "half.gbps") > 1.0 && figure(going, "half.shared_gbps") > 1.0, "{going:?}");
    assert!((figure(ended, "flood.gbps") - 57.281).abs() < 0.001, "{ended:?}");
}

#[test]
fn running_functions_have_rates_and_shares() {
    let devices = run_to(&shipped("sriov.toml"), 100_500_000);
    let counters = &devices[0].1;
    let functions = figure(counters, "functions") as usize;
    let names: Vec<String> =
        (0..functions).map(|n| n.checked_sub(1).map_or("pf".into(), |vf| format!("vf{vf:03}"))).collect();
    let sum = |what: &str| names.iter().map(|name| figure(counters, &format!("{name}.{what}"))).sum::<f64>();
    assert!((sum("share") - 1.0).abs() < 1e-9, "{counters:?}");
    let both = sum("h2d_gbps") + sum("d2h_gbps");
    assert!(both > 1.0 && (figure(counters, "shared_gbps") / both - 1.0).abs() < 1e-9, "{counters:?}");
    let elapsed = figure(counters, "elapsed_ns");
    assert!((1.0..500_000.0).contains(&elapsed), "VF Enable takes 100 ms: {elapsed}");
}

#[test]
fn running_counters_have_times() {
    let devices = run_to(&shipped("atomics.toml"), 300_000);
    for (slot, counters) in &devices {
        let elapsed = figure(counters, "elapsed_ns");
        assert!((90_000.0..300_000.0).contains(&elapsed), "{slot}: {elapsed}");
    }
    let ended = devices.iter().filter(|(_, counters)| counters.contains_key("counter")).count();
    assert!(ended < devices.len());
}

/// A packet NIC that is still warming up reports the rate of the warm-up, and marks it as such.
#[test]
fn reports_rate_of_warm_up() {
    let lab = shipped("nic/dpdk.toml");
    let counters = run_to(&lab, 300_000).remove(0).1;
    for way in ["tx", "rx"] {
        let rate = figure(&counters, &format!("{way}_gbps"));
        assert!((40.0..64.0).contains(&rate), "{way}: {rate}");
        assert_eq!(counters[&format!("{way}_measured_frames")], 0);
    }
    let later = run_to(&lab, 450_000).remove(0).1;
    assert!(figure(&later, "tx_gbps") > 40.0 && !later.contains_key("tx_measured_frames"), "{later:?}");
}

/// A benchmark has no rate before its measurement starts.
#[test]
fn benchmark_has_no_rate_during_warm_up() {
    let text = "version = 1\n[[slot]]\nname = \"b\"\ndevice = \"pcie-bench\"\n[slot.pcie-bench]\ntest = \"BW_RD\"\nwarm_up = 1000000\n";
    let counters = run_to(&own(text), 100_000).remove(0).1;
    assert!(figure(&counters, "warm_up_transfers") > 100.0, "{counters:?}");
    assert!(!counters.contains_key("read_gbps"), "{counters:?}");
}
