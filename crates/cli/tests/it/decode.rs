// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser decode`, and the formats that `riser trace` writes, on the samples of `riser-capture`. Never calls the library.

use crate::common::{command, riser, riser_ok};
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

fn case(name: &str) -> String {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../capture/tests/cases");
    cases.join(name).to_str().unwrap().to_owned()
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Runs `riser decode` with this text on standard input.
fn decode_text(text: &[u8], args: &[&str]) -> (i32, String, String) {
    let mut child = command(&[&["decode"], args].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn explains_a_tlp_given_as_arguments() {
    for args in [
        &["4a004010", "00000040", "01000000"][..],
        &["0x4a004010 0x40 0x1000000"],
        &["4a00401000000040", "01000000"],
    ] {
        let text = riser_ok(&[&["decode"], args].concat());
        for line in [
            "Fmt              010b 3 DW header, with data",
            "EP               1 the data is poisoned",
            "Length           16 DW, 64 bytes",
            "Completer ID     00:00.0",
            "Status           000b SC",
            "Byte Count       64 bytes remain",
            "Requester ID     01:00.0",
            "means            poisoned data: the receiver must not use it",
        ] {
            assert!(text.contains(&format!("  {line}\n")), "{line}\n{text}");
        }
        assert!(!text.contains("breaks"), "{text}");
    }
}

/// Each line of `headers.txt` has this in its explanation: the meaning in the comment of the line.
#[test]
fn explains_the_headers_of_public_reports() {
    let rows: [&[&str]; 8] = [
        &["LTR", "70:00.0 tolerates a snoop latency of 71680 ns, a no-snoop latency of 71680 ns"],
        &["4 DW header, with data", "01:00.0", "0xffffffe000 64-bit"],
        &[
            "CfgRd0",
            "0x22",
            "01:00.7",
            "Register         0x000",
            "0x9eece789, fourth dword of the log, not part of the header",
        ],
        &["CplD", "poisoned", "00:00.0", "SC", "64 bytes", "01:00.0", "Lower Address    0x00"],
        &["TD               1", "31:00.0", "0xfee00db8", "on x86: an interrupt (MSI or MSI-X) to APIC 0x00"],
        &["no snoop"],
        &["4 DW header", "breaks", "§2.2.4.1"],
        &["32 DW", "Last DW BE       0000b", "breaks", "§2.2.5"],
    ];
    let outcome = riser(&["decode", &case("headers.txt")]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("headers.txt: read as hexadecimal TLPs (Fmt and Type first"),
        "{}",
        outcome.stderr
    );
    let tlps: Vec<&str> = outcome.stdout.trim_end().split("\n\n").collect();
    assert_eq!(tlps.len(), rows.len(), "{}", outcome.stdout);
    for (tlp, parts) in tlps.iter().zip(rows) {
        parts.iter().for_each(|part| assert!(tlp.contains(part), "no {part} in:\n{tlp}"));
    }
    let broken: Vec<bool> = tlps.iter().map(|tlp| tlp.contains("  breaks ")).collect();
    assert_eq!(broken, [false, false, false, false, false, false, true, true]);
}

#[test]
fn explains_logs_from_standard_input() {
    let log = std::fs::read(case("kernel-new.log")).unwrap();
    let (code, out, said) = decode_text(&log, &[]);
    assert_eq!(
        (code, said.as_str()),
        (0, "riser: <stdin>: read as a log with TLP headers: 1 of the kernel\n")
    );
    assert!(
        out.contains("PTM_Request")
            && out.contains("logged with      Uncorrectable (Non-Fatal): ACSViol (First)"),
        "{out}"
    );

    let (code, out, _) = decode_text(&log, &["--json"]);
    let object: Value = serde_json::from_str(out.trim_end()).unwrap();
    assert_eq!(
        (code, &object["interface"], &object["line"]),
        (0, &Value::from("0000:80:1b.4"), &Value::from(8))
    );
    assert_eq!(object["dwords"], serde_json::json!(["34000000", "00000052", "00000000", "00000000"]));
    for command in ["trace", "decode"] {
        let undefined = riser(&[command, "--json", &case("lspci.txt")]).stdout;
        assert_eq!(undefined.matches(r#""undefined":"00000000""#).count(), 1, "{undefined}");
    }
    assert_eq!(
        object["fields"][0],
        serde_json::json!({"name": "Fmt", "value": 1, "text": "001b 4 DW header, no data"})
    );

    let line = riser(&["trace", &case("kernel-new.log")]).stdout;
    assert!(line.ends_with("; logged with Uncorrectable (Non-Fatal): ACSViol (First)\n"), "{line}");

    let (code, out, said) =
        decode_text(b"[    0.000000] Linux version 6.12\n[    0.000000] x86: fine\n", &[]);
    assert_eq!((code, out.as_str()), (0, ""));
    assert_eq!(said, "riser: <stdin>: read as a log without TLP headers\n");
}

#[test]
fn names_broken_rules_in_json() {
    let out = riser_ok(&["decode", "--json", "20000001", "0100010f", "00000000", "00001000"]);
    let object: Value = serde_json::from_str(out.trim_end()).unwrap();
    let broken = &object["broken"][0];
    assert_eq!((&broken["section"], &broken["side"]), (&Value::from("§2.2.4.1"), &Value::from("sender")));
    assert!(broken["rule"].is_string() && broken["text"].as_str().unwrap().contains("expected"), "{broken}");
}

#[test]
fn explains_known_fields_of_flit_mode() {
    let text = riser_ok(&["decode", "--flit", "20210001", "01008005", "000000ff", "00001001", "0000000f"]);
    for line in [
        "Type             0x20 MRd",
        "TC               1",
        "OHC              00001b",
        "Length           1 DW",
        "Requester ID     01:00.0",
        "EP               1 the data is poisoned",
        "Tag              0x0005",
        "Address          0xff00001000",
        "AT               01b",
        "DW not decoded   0x0000000f",
    ] {
        assert!(text.contains(&format!("  {line}\n")), "{line}\n{text}");
    }
}

#[test]
fn reports_argument_that_is_not_a_dword() {
    for word in ["0100000g", "0100000"] {
        let outcome = riser(&["decode", "4a004010", "00000040", word]);
        let error = format!("riser: argument 3 `{word}`: expected 8 hexadecimal digits\n");
        assert_eq!((outcome.code, outcome.stderr), (1, error));
    }
}

#[test]
fn fails_for_unreadable_tlp() {
    let outcome = riser(&["decode", "ffffffff", "00000000", "00000000"]);
    assert_eq!(outcome.code, 1, "{}", outcome.stdout);
    assert!(outcome.stderr.ends_with("1 TLP or line could not be read\n"), "{}", outcome.stderr);
    let (code, out, said) = decode_text(b"4a004010 00000040 01000000\nzz\n", &["--read-as", "hex"]);
    assert_eq!(code, 1, "{said}");
    assert!(
        out.contains("line 2: `zz`: expected a hexadecimal number") && said.contains("1 TLP"),
        "{out}{said}"
    );
    let (code, out, said) = decode_text(b"hello\n", &[]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(
        said.contains("it starts with 68 65 6c 6c; riser reads:") && said.contains("TLP Header: 0x34000000"),
        "{said}"
    );
}

/// `riser trace` prints the same TLPs for each file that it wrote.
#[test]
fn reads_back_written_traces() {
    let text = case("completions.txt");
    let lines = |file: &str| {
        let outcome = riser(&["trace", file]);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let tlp = |line: &str| line.split_once("TLP: ").map(|(_, tlp)| tlp.to_owned());
        outcome.stdout.lines().map(|line| tlp(line).unwrap()).collect::<Vec<_>>()
    };
    let expected = lines(&text);
    assert_eq!(expected.len(), 14);
    for (name, args) in [
        ("written-125.pcapng", &["--write"][..]),
        ("written-nettlp.pcapng", &["--linktype", "nettlp", "--write"]),
        ("written.txt", &["--write-hex"]),
    ] {
        let out = scratch(name);
        let out = out.to_str().unwrap();
        let outcome = riser(&[&["trace", "--force", &text], args, &[out]].concat());
        assert_eq!((outcome.code, outcome.stdout.as_str()), (0, ""), "{}", outcome.stderr);
        assert_eq!(lines(out), expected, "{name}");
    }
    assert_eq!(riser(&["trace", "--write", "x.pcapng", &text, &text]).code, 2);
}

/// Returns the output of a command. A note on standard error names the format of a text.
fn stdout_of(args: &[&str]) -> String {
    let outcome = riser(args);
    assert_eq!(outcome.code, 0, "{args:?}: {}", outcome.stderr);
    outcome.stdout
}

const UNTIMED: &str = "up 00000001 0100040f 00001000\ndown 4a000001 00000004 01000400 00000000\n";

#[test]
fn trace_omits_times_missing_in_the_input() {
    let file = scratch("untimed.txt");
    std::fs::write(&file, UNTIMED).unwrap();
    let file = file.to_str().unwrap();
    let stats = stdout_of(&["trace", "--stats", file]);
    assert!(stats.starts_with("2 frames, 28 bytes captured, no times\n"), "{stats}");
    let stats: Value = serde_json::from_str(&stdout_of(&["trace", "--stats", "--json", file])).unwrap();
    assert_eq!(stats.get("duration_ps"), None, "{stats}");
    let shown = stdout_of(&["trace", "--transactions", file]);
    assert_eq!(
        shown.lines().next(),
        Some(
            "line 1 MRd link0:upstream requester 01:00.0, tag 0x04, Addr 0x00001000, 4 bytes: 1 completion, success"
        )
    );
    assert!(!shown.contains("in ns") && !shown.contains("0.000"), "{shown}");
    let lines = stdout_of(&["trace", "--transactions", "--json", file]);
    let read: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    for field in ["timestamp_ps", "latency_ps", "first_data_ps", "throughput_mbps"] {
        assert_eq!(read.get(field), None, "{read}");
    }
    assert_eq!((&read["line"], &read["data_bytes"]), (&1.into(), &4.into()), "{read}");
    assert_eq!(stdout_of(&["trace", "--filter", "time>0ns or timestamp>=0s", file]), "");
    for args in
        [&["--stats", "--interval", "1us"][..], &["--perfetto", scratch("untimed.json").to_str().unwrap()]]
    {
        let outcome = riser(&[&["trace", file], args].concat());
        assert_eq!(outcome.code, 1, "{}", outcome.stderr);
        assert!(outcome.stderr.contains("needs times; line 1 has none"), "{}", outcome.stderr);
    }
}

#[test]
fn trace_warns_if_the_input_has_no_times() {
    let [text, out] = ["untimed-write.txt", "untimed.pcapng"].map(scratch);
    std::fs::write(&text, UNTIMED).unwrap();
    let [text, out] = [&text, &out].map(|path| path.to_str().unwrap());
    let outcome = riser(&["trace", "--force", text, "--write", out]);
    assert!(outcome.stderr.contains("the input has no time for 2 TLPs"), "{}", outcome.stderr);
    let shown = stdout_of(&["trace", out]);
    assert!(
        shown.starts_with("#1 upstream TLP: MRd") && shown.contains("\n#2 downstream TLP: CplD"),
        "{shown}"
    );
    let record: Value =
        serde_json::from_str(stdout_of(&["trace", "--json", out]).lines().next().unwrap()).unwrap();
    assert_eq!(record.get("timestamp_ps"), None, "{record}");
    assert!(stdout_of(&["trace", "--stats", out]).contains("captured, no times\n"));
    assert_eq!(
        stdout_of(&["trace", "--write-hex", "-", out]).lines().nth(1),
        UNTIMED.lines().next().map(|line| line.replacen("up", "upstream", 1)).as_deref()
    );
}

#[test]
fn prints_logged_errors_that_have_no_header() {
    let log = b"[1.1] pcieport 0000:00:1c.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Data Link Layer\n\
                [1.2] pcieport 0000:00:1c.0:    [ 4] DLP                    (First)\n\
                4a004010 00000040 01000000\n";
    let (code, out, said) = decode_text(log, &[]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(
        out,
        "1.100000 0000:00:1c.0 error without a TLP header\n  logged with      Uncorrectable (Fatal): Data Link \
         Protocol Error (bit 4 DLP, first)\n\n"
    );
    let note = "read as a log without TLP headers; 1 error without a header; skipped: 1 line of hexadecimal TLPs (3)";
    assert!(said.contains(note), "{said}");
    let (_, out, _) = decode_text(log, &["--json"]);
    let error: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&error["type"], &error["what"]), (&"other".into(), &"error without a TLP header".into()));
    let file = scratch("headerless.log");
    std::fs::write(&file, log).unwrap();
    let shown = stdout_of(&["trace", file.to_str().unwrap()]);
    assert!(
        shown.contains("error without a TLP header; logged with Uncorrectable (Fatal): Data Link"),
        "{shown}"
    );
}

#[test]
fn trace_shows_the_fields_of_malformed_headers() {
    let file = case("rasdaemon-errors.txt");
    let fields = "MRd; Length 32 DW, 128 bytes; Requester ID 01:00.0; Tag 0x02; Last DW BE 0000b; First DW BE 1111b; \
                  Address 0x00000fc0 32-bit";
    let shown = stdout_of(&["trace", &file]);
    assert!(
        shown.contains(&format!("rule byte-enables); {fields}; logged with Uncorrected (Fatal)")),
        "{shown}"
    );
    let last = stdout_of(&["trace", "--json", &file]);
    let last: Value = serde_json::from_str(last.lines().last().unwrap()).unwrap();
    assert_eq!(last["header"], fields, "{last}");
}
