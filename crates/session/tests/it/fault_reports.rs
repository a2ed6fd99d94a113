// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports of runs with faults: the affected frames, and the errors that receivers found.

use fabric::Limits;
use lab::{LabFile, parse};
use riser_session::{Session, SessionReport};
use serde_json::{Value, json};
use std::path::Path;

/// The host reads and writes the memory of the device.
const MEMORY: &str = "device = \"memory\"\n";
/// The device reads 256 bytes of host memory at a time.
const READS: &str =
    "device = \"pcie-bench\"\n[slot.pcie-bench]\ntest = \"LAT_RD\"\nsize_bytes = 256\ntransfers = 10\n";

fn run(device: &str, faults: &[&str]) -> (SessionReport, Value) {
    let faults: String = faults.iter().map(|keys| format!("[[fault]]\nslot = \"a\"\n{keys}\n")).collect();
    let text = format!("version = 1\n[link]\nmps_bytes = 256\n[[slot]]\nname = \"a\"\n{device}{faults}");
    let lab = parse(&devices::models(), Path::new("a.toml"), &text).unwrap_or_else(|e| panic!("{e}"));
    let mut session = Session::new(&LabFile { lab, base: "".into() }).unwrap();
    let stop = session.fabric.run(Limits::default());
    let report = session.report("a.toml", &stop, 0.0);
    let value = serde_json::to_value(&report).unwrap();
    (report, value)
}

fn texts<'a>(of: &'a Value, keys: &[&str]) -> Vec<&'a str> {
    keys.iter().map(|key| of[key].as_str().unwrap_or_default()).collect()
}

/// Rows: the device, the fault of a completion with data, and the Byte Count found and expected.
#[test]
fn wrong_byte_count_fails_read_at_once() {
    // The third completion with data of the device answers a configuration read, the 30th the first half of a read.
    for (device, direction, nth, byte_count, expected) in [
        (MEMORY, "upstream", 3, 2, "4 bytes"),
        (MEMORY, "upstream", 30, 2, "512 bytes"),
        (MEMORY, "upstream", 30, 600, "512 bytes"),
        (READS, "downstream", 3, 255, "256 bytes"),
        (READS, "downstream", 3, 300, "256 bytes"),
    ] {
        let fault = format!(
            "direction = \"{direction}\"\nframes = \"completion\"\ntlp_type = \"completion-with-data\"\nnth = {nth}\naction = \"set-byte-count\"\nbyte_count = {byte_count}"
        );
        let (report, value) = run(device, &[&fault]);
        let refusal = &value["refusals"][0];
        assert_eq!(
            texts(refusal, &["rule", "found", "expected"]),
            ["byte-count", &format!("{byte_count} bytes"), expected],
            "{report}"
        );
        assert!(report.simulated_ns < 1e6, "{report}");
    }
}

#[test]
fn reports_frames_of_each_fault() {
    let drop =
        "direction = \"upstream\"\nframes = \"completion\"\nnth = 2\nevery = 5\naction = \"drop\"\ncount = 2";
    let acks = "direction = \"downstream\"\nframes = \"ack\"\nnth = 1\naction = \"double\"";
    let (report, value) = run(MEMORY, &[drop, acks]);
    assert_eq!(value["outcome"], "finished", "{report}");
    let acks_sent = value["links"][0]["directions"][0]["acks"].as_u64().unwrap();
    // The first fault ends with its second frame, the seventh completion.
    let expected = json!([
        { "fault": 0, "slot": "a", "direction": "upstream", "frames_matched": 7, "frames_affected": 2 },
        { "fault": 1, "slot": "a", "direction": "downstream", "frames_matched": acks_sent, "frames_affected": 1 },
    ]);
    assert_eq!(value["faults"], expected);
    let lines = format!(
        "\n\nfault.0 on a, upstream: 7 frames matched, 2 affected\nfault.1 on a, downstream: {acks_sent} frames matched, 1 affected\n"
    );
    assert!(report.to_string().contains(&lines), "{report}");
    assert_eq!(report.fault_warnings(), [""; 0]);
    assert_eq!(run(MEMORY, &[]).1.get("faults"), None);
}

/// Rows: a fault, and the reason in the warning that it affected no frame.
/// Only a frame with the field counts towards `count`: the first upstream frames are no completions.
#[test]
fn count_limits_affected_frames() {
    let keys = "frames = \"any\"\nnth = 1\nevery = 1\ncount = 1\naction = \"set-status\"\nstatus = \"completer-abort\"";
    let (report, value) = run(MEMORY, &[&format!("direction = \"upstream\"\n{keys}")]);
    assert_eq!(value["faults"][0]["frames_affected"], json!(1), "{report}");
    assert!(value["faults"][0]["frames_matched"].as_u64() > Some(1), "{report}");
}

#[test]
fn warns_of_fault_without_effect() {
    for (keys, why) in [
        ("frames = \"tlp\"\ntag = 1000\nnth = 1\naction = \"drop\"", "no frame matched"),
        ("frames = \"nak\"\nnth = 1\naction = \"drop\"", "no frame matched"),
        (
            "frames = \"completion\"\nnth = 100000\naction = \"drop\"",
            "matched, expected nth = 100000 of them",
        ),
        (
            "frames = \"tlp\"\nnth = 1\nevery = 1\naction = \"wrong-ecrc\"",
            "the frames that matched have no ECRC, expected `ecrc` in [host] that adds one",
        ),
        (
            "frames = \"any\"\nnth = 1\naction = \"set-status\"\nstatus = \"completer-abort\"",
            "the frames that matched do not have the field that the action changes, or have its value already",
        ),
        (
            "frames = \"tlp\"\nnth = 1\nevery = 1\nprobability = 0\naction = \"drop\"",
            "probability spared all frames",
        ),
    ] {
        let (report, value) = run(MEMORY, &[&format!("direction = \"upstream\"\n{keys}")]);
        assert_eq!(
            (&value["outcome"], &value["faults"][0]["frames_affected"]),
            (&json!("finished"), &json!(0))
        );
        let [warning] = &report.fault_warnings()[..] else { panic!("{keys}: {report}") };
        assert!(warning.starts_with("fault.0 on a, upstream, affected no frame: "), "{warning}");
        assert!(warning.ends_with(why), "{warning}");
    }
}

/// Rows: a fault of the host's frames to the device; the port that finds the error, the rule, the value found, the legal
/// values and the start of the frame.
#[test]
fn explains_errors_of_data_link_layer() {
    for (keys, [rule, section, expected, frame]) in [
        (
            "frames = \"ack\"\nnth = 2\naction = \"shift-sequence\"\nsequence_ahead = 1000",
            ["acknowledged-sequence", "§3.6.2.2", "at most ", "Ack, seq 10"],
        ),
        (
            "frames = \"update-fc\"\nnth = 1\naction = \"shift-credits\"\nheader_credits = 100",
            ["unused-credits", "§2.6.1", "at most 127", "UpdateFC-"],
        ),
        (
            "frames = \"completion\"\nnth = 3\naction = \"uncorrectable-internal\"",
            ["buffer-error", "§6.2.9", "0", "CplD, "],
        ),
    ] {
        let (report, value) = run(READS, &[&format!("direction = \"downstream\"\n{keys}")]);
        let refusals = value["refusals"].as_array().unwrap();
        let refusal =
            refusals.iter().find(|refusal| refusal["rule"] == rule).unwrap_or_else(|| panic!("{report}"));
        assert_eq!(
            texts(refusal, &["section", "place"]),
            [section, "link of slot `a` (device side)"],
            "{refusal}"
        );
        let [legal, tlp] = texts(refusal, &["expected", "tlp"])[..] else { unreachable!() };
        assert!(legal.starts_with(expected) && tlp.starts_with(frame), "{refusal}");
        assert_eq!((&refusal["count"], &refusal["routine"]), (&json!(1), &json!(false)));
        assert!(report.to_string().contains(&format!(", rule {rule}); first at ")), "{report}");
    }
}
