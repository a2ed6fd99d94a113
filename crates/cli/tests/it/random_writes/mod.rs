// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A guest that writes random values to every configuration register and BAR neither crashes nor hangs riser. The guest's kernel may
//! crash.

use crate::common::command;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const LAB: &str = "version = 1\n[[switch]]\nname = 'a'\n[[slot]]\nname = 'memory'\ndevice = 'memory'\nparent = 'a'\n\
    [[slot]]\nname = 'dma'\ndevice = 'dma-engine'\nparent = 'a'\n[slot.dma-engine]\nvfs = 4\n[[slot]]\nname = 'clock'\ndevice = 'clock'\n\
    [[slot]]\nname = 'nic'\ndevice = 'simple-nic'\nparent = 'a'\nhot_plug = true\n[[slot]]\nname = 'disk'\ndevice = 'disk'\n";

#[test]
#[ignore = "ten minutes; RISER_SECONDS says otherwise, RISER_SEED what comes"]
fn random_guest_writes_do_not_crash_riser() {
    let of = |name, default: u64| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (seconds, seed) = (of("RISER_SECONDS", 600), of("RISER_SEED", 1));
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/random_writes/scribble.c");
    let compiled =
        Command::new("cc").args(["-static", "-O1", "-o"]).arg(path("scribble")).arg(source).status().unwrap();
    assert!(compiled.success());
    fs::write(path("lab.toml"), LAB).unwrap();
    let script = format!("/share/scribble {seconds} {seed}");
    let (begun, most) = (Instant::now(), Duration::from_secs(seconds + 120));
    let mut riser = command(&["guest", "run", "--json", "--time-limit", &most.as_secs().to_string()]);
    riser.arg(path("lab.toml")).arg("--share").arg(folder.path()).args(["--", "sh", "-c", &script]);
    let output = riser.output().unwrap();
    let (said, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{told}");
    // 0: the program finished; 1: the kernel did not survive.
    assert!(matches!(output.status.code(), Some(0 | 1)) && !told.contains("panicked"), "{said}{told}");
    assert!(begun.elapsed() < most, "the guest hung");
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    let [reads, writes] = ["reads", "writes"].map(|name| report["guest"][name].as_u64().unwrap());
    println!("{reads} reads, {writes} writes, status {}", report["status"]);
    assert!(reads > 1000 * seconds && writes > 1000 * seconds);
}
