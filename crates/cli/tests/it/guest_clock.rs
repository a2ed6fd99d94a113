// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs on a real kernel read the clock function, and measure the same as the same devices on the simulated host.
//! The programs are the `dd` of gem5's study, and a test of pcie-bench. `dd` itself reads an NVMe controller.

use crate::common::{command, riser_ok};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns a counter of the lab's first device.
fn figure(report: &Value, name: &str) -> f64 {
    report["devices"][0]["counters"][name].as_f64().unwrap()
}

/// Runs a program of `examples/guest` on a kernel. Returns its result in Gb/s by the clock function, and the device's own figure.
fn in_a_guest(lab: &str, program: &str, arguments: &[&str], name: &str) -> (f64, f64) {
    let folder = tempfile::tempdir().unwrap();
    let source = top().join(format!("examples/guest/{program}.c"));
    let mut cc = Command::new("cc");
    cc.args(["-static", "-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(folder.path().join(program))
        .arg(source);
    assert!(cc.status().unwrap().success());
    let mut riser = command(&["guest", "run", "--json", "--time-limit", "120", lab, "--share"]);
    riser.arg(folder.path()).arg("--").arg(format!("/share/{program}")).args(arguments);
    let output = riser.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let gbps = said.lines().find_map(|line| line.strip_suffix(" Gb/s")?.rsplit(' ').next()?.parse().ok());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    println!("{said}");
    (gbps.unwrap_or_else(|| panic!("{said}")), figure(&report["lab"], name))
}

/// The device behaves the same, except for its first access. The program measures this time, plus its own two reads of
/// the clock.
#[test]
#[ignore = "of .ci/long guest"]
fn guest_programs_measure_same_as_simulated_host() {
    let lab = |name: &str| top().join("labs/guest").join(name).display().to_string();
    for (file, program, arguments, name) in [
        ("disk.toml", "dd", &["5000"][..], "disk_gbps"),
        ("bench.toml", "pcie_bench", &["50100", "256"], "read_gbps"),
    ] {
        let lab = lab(file);
        let simulated = figure(&serde_json::from_str(&riser_ok(&["run", "--json", &lab])).unwrap(), name);
        let (by_clock, by_device) = in_a_guest(&lab, program, arguments, name);
        println!("{program}: simulated {simulated}, in a guest {by_device}, by its clock {by_clock}");
        assert!((by_device / simulated - 1.0).abs() < 2e-3, "{by_device} for {simulated}");
        // On a busy machine, the guest may notice the end late.
        assert!((0.5..1.001).contains(&(by_clock / simulated)), "{by_clock} for {simulated}");
    }
}

/// Figure 9(a) of IISWC'18 by `dd`: the link limits the device, and the operating system takes time in addition.
#[test]
#[ignore = "of .ci/long nvme"]
fn paper_dd_states_share_of_operating_system() {
    let output = command(&["paper", "gem5-dd", "--json"]).current_dir(top()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    println!("{report:#}");
    let experiment = &report["experiments"][0];
    let rows = experiment["tables"][0]["rows"].as_array().unwrap();
    let sizes = rows.iter().map(|row| row["block_mib"].as_u64().unwrap());
    assert!(sizes.eq([64, 128, 256, 512].repeat(3)));
    for row in rows {
        let at = |key: &str| row[key].as_f64().unwrap();
        // In TLPs with 128 B of data and 20 to 24 B around them, a lane of Gen2 carries 3.37 to 3.46 Gb/s.
        assert!((3.1..3.46).contains(&at("device_gbps")), "{row}");
        assert!(at("dd_gbps") < at("device_gbps") && at("system_percent") > 1.0, "{row}");
    }
    assert_ne!(experiment["verdict"]["outcome"], "not-run");
}
