// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser nettlp device`: models of labs behind `riser nettlp adapter`, over sockets on the loopback, 127.64.x.y.

use crate::common::nets::{Running, count};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn riser(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_riser"));
    command.args(args).current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    command
}

fn scratch(name: &str, text: &str) -> String {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("nettlp-device");
    fs::create_dir_all(&dir).unwrap();
    let path = dir.join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Runs a lab whose host drives the model through the adapter. Returns the final reports of adapter and device.
fn drive(net: &str, lab: &[&str], model: &[&str], scheme: &str) -> (Value, Value) {
    let (there, here) = (format!("{net}.1"), format!("{net}.2"));
    let rule = format!("{here},all,rw");
    let own = ["nettlp", "adapter", "--listen", &there, "--allow", &rule, "--until-done", "--json"];
    let adapter = Running::start(riser(&[&own, lab].concat()), "Ctrl-C");
    let own = ["nettlp", "device", "--remote", &there, "--local", &here, "--scheme", scheme, "--json"];
    let device = Running::start(riser(&[&own, model].concat()), "Ctrl-C");
    let adapter = serde_json::from_str(&adapter.finish()).unwrap();
    (adapter, device.interrupt_json())
}

fn check(adapter: &Value, device: &Value, scheme: &str) {
    assert_eq!(adapter["lab"]["outcome"], "finished", "{adapter}");
    assert_eq!(device["session"], scheme == "session");
    for name in ["malformed", "unexpected_completions", "not_carried", "lost_interrupts"] {
        assert_eq!(count(device, name), 0, "{device}");
    }
}

#[test]
fn memory_is_written_and_read_back() {
    for (n, scheme) in ["session", "tagged"].into_iter().enumerate() {
        let lab = ["labs/nettlp/mmio.toml", "--set", "slot.adapter.nettlp-adapter.start_after_ms=1000"];
        let model = ["memory", "--set", "size_bytes=131072"];
        let (adapter, device) = drive(&format!("127.64.{n}"), &lab, &model, scheme);
        check(&adapter, &device, scheme);
        let counters = &adapter["lab"]["devices"][0]["counters"];
        assert!(count(counters, "host_writes") >= 65536 / 256 && count(counters, "host_reads") >= 128);
        assert_eq!(count(counters, "host_timeouts"), 0, "{counters}");
    }
}

/// The driver of the model runs on the adapter's host. Rings, doorbells, data and interrupts go over UDP.
#[test]
fn dma_engine_moves_data_both_ways() {
    let settings = scratch("dma.toml", "vfs = 0\nwindow = 8\n");
    for (n, scheme) in ["session", "tagged"].into_iter().enumerate() {
        let model = ["dma-engine", "--settings", &settings, "--set", "window=16"];
        let (adapter, device) = drive(&format!("127.64.1{n}"), &["labs/nettlp/dma.toml"], &model, scheme);
        check(&adapter, &device, scheme);
        assert!(
            count(&device, "interrupts") > 0 && count(&device, "sent_tlps") > 64 * 2048 / 256,
            "{device}"
        );
        let counters = &adapter["lab"]["devices"][0]["counters"];
        assert!(count(counters, "peer_reads") >= 64 * 2048 / 512, "{counters}");
        assert!(count(counters, "peer_writes") >= 64 * 2048 / 256, "{counters}");
    }
}

/// Each virtual function of the device moves its share through the adapter's virtual function of the same number.
#[test]
fn virtual_functions_move_data_both_ways() {
    let lab = ["labs/nettlp/functions.toml"];
    let (adapter, device) = drive("127.64.30", &lab, &["dma-engine", "--set", "vfs=2"], "session");
    check(&adapter, &device, "session");
    let counters = &adapter["lab"]["devices"][0]["counters"];
    assert!(count(counters, "peer_reads") >= 3 * 64 * 2048 / 512, "{counters}");
    assert!(count(counters, "peer_writes") >= 3 * 64 * 2048 / 256, "{counters}");
}

#[test]
fn names_virtual_function_that_adapter_lacks() {
    let (there, here) = ("127.64.31.1", "127.64.31.2");
    let rule = format!("{here},all,rw");
    let own = ["nettlp", "adapter", "labs/nettlp/host.toml", "--listen", there, "--allow", &rule];
    let adapter = Running::start(riser(&own), "Ctrl-C");
    let args = ["nettlp", "device", "dma-engine", "--set", "vfs=1", "--remote", there, "--local", here];
    let output = riser(&args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the adapter at 127.64.31.1 has no virtual function 1"), "{said}");
    drop(adapter);
}

/// A path with a larger Max_Payload_Size than adapters have by default.
#[test]
fn accepts_longer_payloads_with_larger_mps() {
    let lab = ["labs/nettlp/dma.toml", "--set", "link.mps_bytes=512"];
    let model = ["dma-engine", "--set", "vfs=0", "--mps", "512"];
    let (adapter, device) = drive("127.64.50", &lab, &model, "session");
    check(&adapter, &device, "session");
}

/// AtomicOps of the device reach the memory of the adapter's host.
#[test]
fn device_may_issue_atomic_ops() {
    let lab = scratch(
        "counter.toml",
        "version = 1\n[[slot]]\nname = \"adapter\"\ndevice = \"nettlp-adapter\"\ndriver = \"counter\"\n",
    );
    for (n, scheme) in ["session", "tagged"].into_iter().enumerate() {
        let (adapter, device) = drive(&format!("127.64.6{n}"), &[&lab], &["counter"], scheme);
        check(&adapter, &device, scheme);
    }
}

#[test]
fn settings_file_of_device_reports_its_place() {
    let bad = scratch("bad.toml", "vfs = 0\nwindow = \"wide\"\n");
    let remote = ["--remote", "127.64.20.1", "--local", "127.64.20.2"];
    let args = [&["nettlp", "device", "dma-engine", "--settings", &bad], &remote[..]].concat();
    let output = riser(&args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let why = "bad.toml:2:10: window is string \"wide\", expected 0 to 1024";
    assert!(output.status.code() == Some(1) && said.contains(why), "{said}");
}

/// A slot may have the driver of another model only if its device represents a device elsewhere.
#[test]
fn rejects_driver_without_its_device() {
    let slot = "version = 1\n[[slot]]\nname = \"a\"\n";
    for (keys, why) in [
        ("device = \"memory\"\ndriver = \"dma-engine\"\n", "the device has its own driver, expected"),
        (
            "device = \"nettlp-adapter\"\ndriver = \"nic\"\n",
            "unknown device `nic`, expected one of `clock`, `counter`",
        ),
        (
            "device = \"nettlp-adapter\"\ndriver = \"dma-engine\"\n[slot.dma-engine]\nvfs = \"x\"\n",
            "vfs is string \"x\", expected 0 to 256",
        ),
    ] {
        let lab = scratch("driver.toml", &format!("{slot}{keys}"));
        let output = riser(&["check", &lab]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{keys}: {said}");
    }
}

/// A run continues after its record has reached the size limit. The replay ends with the record, a record of another
/// lab is rejected, and a truncated record is an error.
#[test]
fn limits_size_of_records_and_checks_their_lab() {
    let (lab, record) = ("labs/nettlp/mmio.toml", scratch("limited.rec", ""));
    let set = [
        "slot.adapter.nettlp-adapter.start_after_ms=1000",
        "slot.adapter.nettlp-adapter.exercise_bytes=2000000",
    ];
    let set = ["--set", set[0], "--set", set[1]];
    let more = ["--record", &record, "--record-limit-mib", "1", "--force", "--timing", "lagging"];
    let model = ["memory", "--set", "size_bytes=2097152"];
    let (adapter, device) = drive("127.64.30", &[&[lab], &set[..], &more].concat(), &model, "session");
    check(&adapter, &device, "session");
    let bytes = count(&adapter["record"], "bytes");
    assert!(count(&adapter["record"], "left_out") > 100 && bytes <= 1 << 20, "{adapter}");
    assert_eq!(bytes, fs::metadata(&record).unwrap().len());
    assert!(adapter["lag"]["dropped_us"].is_number(), "{adapter}");

    let replay = |args: &[&str]| {
        let output = riser(&[&["nettlp", "replay"], args].concat()).output().unwrap();
        (output.status.code(), output.stdout, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, out, said) = replay(&[&[&record, "--json", "--lab", lab], &set[..]].concat());
    let report: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(
        (code, &report["full"], &report["complete"]),
        (Some(0), &true.into(), &false.into()),
        "{said}"
    );
    assert!(count(&report, "inputs") > 1000, "{report}");
    for (args, why) in [
        (
            &["--lab", "labs/nettlp/host.toml"][..],
            "made with another lab: its text differs from labs/nettlp/host.toml",
        ),
        (&["--lab", lab], "made with another lab: its --set differs from labs/nettlp/mmio.toml"),
    ] {
        let (code, _, said) = replay(&[&[&record[..]], args].concat());
        assert!(code == Some(1) && said.contains(why), "{said}");
    }
    let (code, _, said) = replay(&[&[&record[..]], &set[..]].concat());
    assert!(code == Some(2) && said.contains("--set needs --lab"), "{said}");
    let whole = fs::read(&record).unwrap();
    fs::write(&record, &whole[..whole.len() - 700]).unwrap();
    let (code, out, said) = replay(&[&record, "--json"]);
    assert!(
        code == Some(1) && said.contains(": the record is cut off after its last complete entry"),
        "{said}"
    );
    let report: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!((&report["full"], &report["complete"]), (&false.into(), &false.into()));
}

/// `riser check` draws a lab with an external host, but no command of this test can run it.
#[test]
fn rejects_lab_with_external_host_without_peer() {
    let text = "version = 1\n[[external_host]]\nname = \"guest\"\n[[slot]]\nname = \"a\"\ndevice = \"memory\"\nparent = \"guest\"\n";
    let lab = scratch("outside.toml", text);
    let output = riser(&["check", &lab]).output().unwrap();
    assert!(
        output.status.success() && String::from_utf8_lossy(&output.stdout).contains("host guest (external)")
    );
    let adapter = ["nettlp", "adapter", &lab, "--allow", "127.64.40.2,all,rw", "--listen", "127.64.40.1"];
    for args in [&["run", &lab][..], &["lspci", &lab], &adapter] {
        let output = riser(args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains("host `guest` is external, but no program is above it"), "{said}");
    }
}
