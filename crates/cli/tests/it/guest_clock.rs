// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs below a real kernel measure by the clock function what the same devices do on the simulated host: the `dd` of gem5's study and a
//! test of pcie-bench.

use crate::common::{command, riser_ok};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A figure of the lab's first device.
fn figure(report: &Value, name: &str) -> f64 {
    report["devices"][0]["counters"][name].as_f64().unwrap()
}

/// Runs a program of `examples/guest` below a kernel: what it says in Gb/s by the clock function, and the device's own figure.
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

/// The device does the same, to what its first access meets; the program sees that, and its own two reads of the clock around it.
#[test]
#[ignore = "of .ci/long guest"]
fn programs_in_a_guest_measure_what_the_simulated_host_does() {
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
        // Where the machine is busy, the guest may be late to look.
        assert!((0.5..1.001).contains(&(by_clock / simulated)), "{by_clock} for {simulated}");
    }
}
