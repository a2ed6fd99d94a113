// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pings in both directions between the kernel at a tap interface and the simulated host of a lab: `riser nettlp snic` and `riser
//! nettlp adapter` in separate network namespaces. Skipped, with a message, if namespaces or tap interfaces cannot be
//! created.

use crate::common::nets::{Nets, Running, count, riser_in};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const LAB: &str = r#"
version = 1
[host]
profile = "xeon-e5-2637v3"
[[slot]]
name = "adapter"
device = "nettlp-adapter"
[slot.nettlp-adapter]
driver = "station"
host_ip = "192.0.2.1"
peer_ip = "192.0.2.2"
pings = 1000
ping_bytes = 200
ping_interval_ms = 50
"#;

fn path(dir: &Path, name: &str) -> String {
    dir.join(name).display().to_string()
}

fn ping_both_ways(scheme: &str) {
    let Some(nets) = Nets::new(scheme) else { return };
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("snic-{scheme}"));
    fs::create_dir_all(&dir).unwrap();
    let (lab, record) = (path(&dir, "lab.toml"), path(&dir, "run.rec"));
    let (live, again) = (path(&dir, "live.pcapng"), path(&dir, "again.pcapng"));
    fs::write(&lab, LAB).unwrap();
    let args = [
        "nettlp",
        "adapter",
        &lab,
        "--listen",
        "10.0.0.1",
        "--allow",
        "10.0.0.2,all,rw",
        "--json",
        "--force",
    ];
    let args = [&args[..], &["--capture", &live, "--record", &record]].concat();
    let adapter = Running::start(riser_in(&nets.host, &args), "Ctrl-C");
    let args = ["nettlp", "snic", "--remote", "10.0.0.1", "--local", "10.0.0.2", "--tap", "tap0", "--json"];
    let args = [&args[..], &["--scheme", scheme]].concat();
    let nic = Running::start(riser_in(&nets.device, &args), "Ctrl-C");

    nets.ping_host(5, "0.05");

    let nic = nic.interrupt_json();
    let adapter = adapter.interrupt_json();
    assert_eq!(nic["session"], scheme == "session");
    assert!(
        count(&nic, "rx_frames") >= 6 && count(&nic, "tx_frames") >= 6 && count(&nic, "interrupts") >= 12
    );
    assert_eq!((count(&nic, "dma_errors"), count(&nic, "malformed")), (0, 0), "{nic}");
    let counters = &adapter["lab"]["devices"][0]["counters"];
    assert!(count(counters, "echo_answered") >= 5 && count(counters, "pings_answered") >= 1, "{counters}");

    let replay = Command::new(env!("CARGO_BIN_EXE_riser"))
        .args(["nettlp", "replay", &record, "--capture", &again, "--force", "--json"])
        .output()
        .unwrap();
    let replayed: Value = serde_json::from_slice(&replay.stdout).unwrap();
    assert_eq!(replayed["complete"], true);
    assert_eq!(count(&replayed["devices"][0]["counters"], "echo_answered"), count(counters, "echo_answered"));
    assert!(fs::read(&live).unwrap() == fs::read(&again).unwrap(), "the captures differ");
}

#[test]
fn pings_both_ways_over_session() {
    ping_both_ways("session");
}

#[test]
fn pings_both_ways_over_upstream_ports() {
    ping_both_ways("tagged");
}

/// The adapter is stopped and started twice. The NIC keeps running, and is set up again.
fn outlives_its_adapter(scheme: &str) {
    let Some(nets) = Nets::new(&format!("again-{scheme}")) else { return };
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("snic-again-{scheme}"));
    fs::create_dir_all(&dir).unwrap();
    let lab = path(&dir, "lab.toml");
    fs::write(&lab, LAB).unwrap();
    let args = ["nettlp", "adapter", &lab, "--listen", "10.0.0.1", "--allow", "10.0.0.2,all,rw", "--json"];
    let start = || Running::start(riser_in(&nets.host, &args), "Ctrl-C");
    let mut adapter = start();
    let args = ["nettlp", "snic", "--remote", "10.0.0.1", "--local", "10.0.0.2", "--tap", "tap0", "--json"];
    let nic = Running::start(riser_in(&nets.device, &[&args[..], &["--scheme", scheme]].concat()), "Ctrl-C");
    for _ in 0..2 {
        nets.ping_host(3, "0.05");
        adapter.kill();
        // With ports, only missing answers show that the adapter is gone. The pause leaves time to notice on a busy machine.
        std::thread::sleep(std::time::Duration::from_secs(3));
        adapter = start();
    }
    nets.ping_host(3, "0.05");
    let nic = nic.interrupt_json();
    assert_eq!((nic["session"].as_bool(), count(&nic, "came_back")), (Some(scheme == "session"), 2), "{nic}");
    assert!(count(&nic, "rx_frames") >= 9 && count(&nic, "tx_frames") >= 9, "{nic}");
}

#[test]
fn outlives_adapter_over_session() {
    outlives_its_adapter("session");
}

#[test]
fn outlives_adapter_over_upstream_ports() {
    outlives_its_adapter("tagged");
}
