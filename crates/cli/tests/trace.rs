// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser trace` on captures written here byte by byte, and on real ones where they are at hand. Never calls the
//! library.

mod common;

use common::{riser, riser_ok, riser_whose_reader_leaves};
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

/// Its answer, cut to 8 B: CplD of 2 DW from 00:00.0, SC, Byte Count 256, Lower Address 0.
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

/// A capture with these frames, a microsecond apart.
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
fn a_line_a_tlp() {
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
fn bad_frames_are_named_and_counted_and_the_rest_is_read() {
    let file = capture("bad.pcap", &[MRD, SHORT_MRD, CPLD]);
    let outcome = riser(&["trace", "--json", file.to_str().unwrap()]);
    let types: Vec<Value> =
        json_lines(&outcome.stdout).into_iter().map(|line| line["type"].clone()).collect();
    assert_eq!(types, ["MRd", "error", "CplD"]);
    assert_eq!(outcome.code, 0);
    assert!(
        outcome.stderr.starts_with("riser: ") && outcome.stderr.contains(": 1 of the records"),
        "{}",
        outcome.stderr
    );

    let mut cut = fs::read(&file).unwrap();
    cut.truncate(cut.len() - 3);
    let file = write("cut.pcap", &cut);
    let stats: Value =
        serde_json::from_str(&riser_ok(&["trace", "--stats", "--json", file.to_str().unwrap()])).unwrap();
    assert_eq!((&stats["tlps"], &stats["error_total"]), (&Value::from(1), &Value::from(2)), "{stats}");
}

#[test]
fn stats_of_one_and_of_several_files() {
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
fn several_files_are_told_apart() {
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
fn files_that_are_no_captures() {
    let text = write("no-capture.txt", b"hello, world: this is no capture");
    for (file, says) in [(text.to_str().unwrap(), "pcap"), ("/nonexistent/x.pcap", "/nonexistent/x.pcap")] {
        let outcome = riser(&["trace", file]);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (1, ""), "{file}");
        assert!(outcome.stderr.starts_with("riser: ") && outcome.stderr.contains(says), "{}", outcome.stderr);
    }
    assert_eq!(riser(&["trace"]).code, 2);
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let file = capture("pipe.pcap", &[MRD; 5000]);
    for args in [&["trace"][..], &["trace", "--json"]] {
        let (code, stderr) = riser_whose_reader_leaves(&[args, &[file.to_str().unwrap()]].concat());
        assert_eq!((code, stderr.as_str()), (0, ""));
    }
}

/// All real captures decode completely: no errors in any of them.
#[test]
fn real_captures() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/nettlp-captures");
    let Ok(hosts) = fs::read_dir(&folder) else {
        eprintln!("skipped: {} is absent", folder.display());
        return;
    };
    let mut files: Vec<PathBuf> = hosts
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
