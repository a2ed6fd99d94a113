// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Text formats: the records of the samples in `cases`, and the errors of invalid lines.

use crate::common::hex;
use riser_capture::reader::MAX_LINE;
use riser_capture::{
    ByteOrder, Direction, Explanation, FileFormat, Kind, Origin, ReadOptions, Reader, hex_text, render,
};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use testkit::cases;

/// The text of a file in `cases`.
fn file(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name)).unwrap()
}

/// The description of the format, and one line per record: line number, interface, TLP, note.
fn read_with(text: &[u8], options: &ReadOptions) -> (String, Vec<String>) {
    let mut reader = Reader::with_options(text, "input", options).unwrap();
    let mut lines = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        let mut line = String::new();
        render::line(&record, &mut line);
        if let Some(text) = record.text {
            let undefined = text.undefined.map(|dw| format!(" undefined {dw:08x}")).unwrap_or_default();
            let _ = write!(line, " |{}{undefined}", text.note);
        }
        lines.push(line);
    }
    (reader.taken_for(), lines)
}

fn read(text: &str) -> (String, Vec<String>) {
    read_with(text.as_bytes(), &ReadOptions::default())
}

#[test]
fn reads_each_sample() {
    for case in cases(include_str!("../cases/samples.txt")) {
        let (input, expected) = (case.input(), case.expected());
        let text = file(input.trim_end());
        let (format, got) = (Reader::new(text.as_bytes()).unwrap().format(), read(&text));
        let got = [vec![format.name().to_owned(), got.0], got.1].concat();
        assert_eq!(got.len(), expected.len(), "{got:#?}");
        for (got, expected) in got.iter().zip(expected) {
            assert!(got.starts_with(expected), "{got}\n{expected}");
        }
    }
}

/// Each read in the trace becomes a request and its completion. Each write becomes a request.
#[test]
fn reads_trace_of_real_kernel() {
    let text = &file("mmiotrace-nvme.txt");
    let count = |kind: &str| text.lines().filter(|line| line.starts_with(kind)).count();
    let (_, lines) = read(text);
    assert_eq!(lines.len(), 2 * count("R 4") + count("W 4"));
    assert!(count("R 4") > 20 && count("W 4") > 50, "{text}");
    let first = [
        "8.519995 downstream TLP: MRd, len 1, requester 00:00.0, tag 0x00, last 0x0, first 0xf, Addr 0xc010001c |",
        "8.519995 upstream TLP: CplD, len 1, completer 00:00.0, success, bc 4, requester 00:00.0, tag 0x00, lowaddr 0x1c |",
    ];
    assert_eq!(lines[..2], first);
}

/// Output of the kernel's `pcie_print_tlp_log` (drivers/pci/pcie/tlp.c of 6.15), of the trace event `aer_event`, of
/// `ras-mc-ctl --errors` (0.6.8), and of records from the firmware (drivers/firmware/efi/cper.c).
#[test]
fn reads_each_form_of_a_logged_header() {
    for case in cases(include_str!("../cases/logged-headers.txt")) {
        let (input, expected) = (case.input(), case.expected());
        assert_eq!(read(&input).1, expected, "{input}");
    }
}

/// Lines of Linux 5.4 (`AER:` before each line), 6.x (`DPC:`, RP PIO), `cper.c` (firmware) and lspci 3.13 (two
/// lines of errors).
#[test]
fn notes_have_errors_of_their_function_only() {
    for case in cases(include_str!("../cases/notes.txt")) {
        let (input, expected) = (case.input(), case.expected());
        let mut reader = Reader::new(input.as_bytes()).unwrap();
        let mut notes = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            let interface = record.interface.map_or("", |interface| &interface.name);
            let note = format!("{interface} {}", record.text.map_or("", |text| text.note));
            notes.push(note.trim().to_owned());
        }
        assert_eq!(notes, expected, "{input}");
    }
}

#[test]
fn header_log_of_zeros_is_empty() {
    let text = "pcieport 0000:00:1c.0: AER:   TLP Header: 00000000 00000000 00000000 00000000\n";
    assert_eq!(read(text), ("a log with TLP headers: 1 empty".to_owned(), Vec::new()));
}

/// Errors whose header was not logged: from Linux 6.1 (correctable; link layer), the trace event, `lspci` and the
/// firmware, and with missing lines.
#[test]
fn shows_logged_errors_without_a_header() {
    for case in cases(include_str!("../cases/errors-without-header.txt")) {
        let (input, expected) = (case.input(), case.expected());
        let (taken_for, lines) = read(&input);
        assert_eq!(lines, expected, "{input}");
        let count = match expected.len() {
            0 => String::new(),
            1 => "; 1 error without a header".to_owned(),
            many => format!("; {many} errors without a header"),
        };
        assert!(taken_for.ends_with(&count), "{taken_for}");
    }
}

#[test]
fn reports_hexadecimal_tlps_skipped_in_logs() {
    let log = "[1.0] pcieport 0000:00:1c.0: TLP Header: 34000000 70000010 00000000 88468846\n[1.1] usb 1-1: new\n\
               [1.2] usb 1-1: gone\n[1.3] usb 1-1: new\n";
    let (taken_for, lines) =
        read(&format!("{log}4a004010 00000040 01000000\n[2.0] 4a004010 00000040 01000000\n"));
    assert_eq!(lines.len(), 1);
    assert_eq!(
        taken_for,
        "a log with TLP headers: 1 of the kernel; skipped: 2 lines of hexadecimal TLPs (5, 6); --read-as hex \
         reads them"
    );
    let (taken_for, _) = read(&format!("{log}{log}{log}{log}{}", "4a004010 00000040 01000000\n".repeat(9)));
    assert!(
        taken_for.contains("9 lines of hexadecimal TLPs (17, 18, 19, 20, 21, 22, 23, 24, ...)"),
        "{taken_for}"
    );
}

/// One TLP, then lines that are meant as TLPs. Rows: text, and whether it is read as hexadecimal text.
#[test]
fn reports_bad_lines_among_hexadecimal_tlps() {
    let good = "up 00000001 0100040f 00001000\n";
    let rows = [
        (format!("{good}up 00000001 0100040f 0000100\nup 00000001 0100040g 00001000\n"), true),
        (format!("{good}11223344\n55667788\n99aabbcc\n"), true),
        (format!("{good}zz\n"), true),
        (format!("{good}The TLP above is\na read of 00001000\nby the function\n"), false),
        ("up 00000001 0100040f 0000100\n".to_owned(), false),
    ];
    for (text, is_hex) in rows {
        let reader = Reader::new(text.as_bytes());
        assert_eq!(reader.is_ok_and(|reader| reader.format() == FileFormat::Hex), is_hex, "{text}");
    }
    let (_, lines) = read(&format!("{good}up 00000001 0100040f 0000100\nup 00000001 0100040g 00001000\n"));
    assert_eq!(
        lines[1..],
        [
            "error in line 2: `0000100` has 7 digits, expected 8, or 4 or 2 in all numbers of the line",
            "error in line 3: `0100040g`: expected a hexadecimal number, direction or time",
        ]
    );
    // Lines of a log are not meant as hexadecimal text.
    let log = "pcieport 0000:00:1c.0: TLP Header: 34000000 70000010 00000000 88468846\n".repeat(3);
    assert_eq!(Reader::new(format!("{good}{log}").as_bytes()).unwrap().format(), FileFormat::Log);
}

/// The escape sequences are those of `dmesg --color=always`. The zeros are those in the log of a crashed kernel.
#[test]
fn reads_logs_with_colors_zeros_and_byte_order_marks() {
    let header = "TLP Header: 34000000 70000010 00000000 88468846";
    let rows = [
        format!(
            "\u{1b}[32m[    1.000000] \u{1b}[0m\u{1b}[33mpcieport 0000:00:1c.0: \u{1b}[0m{header}\u{1b}[0m\n"
        ),
        format!("[    1.000000] pcieport 0000:00:1c.0: {header}\n{}", "\0".repeat(4096)),
        format!("\u{feff}[    1.000000] pcieport 0000:00:1c.0: {header}\n"),
    ];
    for text in rows {
        let (_, lines) = read(&text);
        assert_eq!(lines.len(), 1, "{text}: {lines:?}");
        assert!(lines[0].starts_with("1.000000 0000:00:1c.0 TLP: Msg"), "{lines:?}");
    }
    let (_, lines) = read("\u{feff}4a004010 00000040 01000000\n");
    assert!(lines[0].starts_with("line 1 TLP: CplD"), "{lines:?}");
}

#[test]
fn reports_overlong_line_once() {
    let good = "4a004010 00000040 01000000";
    let long = format!("# {} {good}", "x".repeat(MAX_LINE));
    for text in [format!("{good}\n{long}\n{good}\n"), format!("{good}\n{long}{long}\n{good}")] {
        let (_, lines) = read(&text);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert_eq!(lines[1], "error in line 2: line of more than 65536 bytes");
        assert!(lines[2].starts_with("line 3 TLP: CplD"), "{lines:?}");
    }
    assert_eq!(read(&format!("{good}\n{long}")).1.len(), 2);
}

#[test]
fn counts_lines_that_do_not_belong_to_format() {
    let head = "TX: MRd32:  Len: 020 ReqID: 0600 BE_FL: ff Tag: 99 Addr: 00001c80\n";
    let text = format!("PCILeech\n{head}{head}0000    00 00 00 zz 06 00\n0010    00 00\nRX: Cpl\n{head}");
    let (taken_for, lines) = read(&text);
    assert_eq!(taken_for, "TLPs printed by PCILeech, TX upstream: 0 TLPs, 1 other line");
    let expected = [
        "error in line 3: no bytes after the head in line 2",
        "error in line 4: expected an offset and up to 16 bytes of two digits",
        "error in line 5: bytes without a line with `TX:` or `RX:`, a type and `Len:` before them",
        "error in line 6: `RX: Cpl`: expected `TX:` or `RX:`, a type and `Len:`",
        "error in line 7: no bytes after the head in line 7",
    ];
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    lines.iter().zip(expected).for_each(|(line, start)| assert!(line.starts_with(start), "{line}\n{start}"));
    for format in [FileFormat::Pcileech, FileFormat::Mmiotrace] {
        let options = ReadOptions { format: Some(format), ..ReadOptions::default() };
        let (taken_for, _) = read_with(b"MARK 1\nnothing of this\n", &options);
        assert!(taken_for.ends_with(if format == FileFormat::Pcileech {
            ", 2 other lines"
        } else {
            ", 1 other line"
        }));
    }
}

#[test]
fn reads_each_spelling_of_a_hexadecimal_tlp() {
    let read_64 = "4a004010 00000040 01000000";
    let rows = [
        (read_64, None, Origin::Device),
        ("0x4a004010, 0x00000040, 0x01000000", None, Origin::Device),
        ("4a004010:00000040:01000000", None, Origin::Device),
        ("4a0040100000004001000000", None, Origin::Device),
        ("4a 00 40 10 00 00 00 40 01 00 00 00", None, Origin::Device),
        ("0x4A 0x0 0x40 0x10 0x0 0x0 0x0 0x40 0x1 0x0 0x0 0x0", None, Origin::Device),
        ("4a00 4010 0000 0040 0100 0000", None, Origin::Device),
        ("0x4a004010 0x40 0x1000000", None, Origin::Device),
        ("1.5us down 4a004010 00000040 01000000 # answer", Some(Direction::Downstream), Origin::Device),
        ("[12.5] rx: 4a004010|00000040|01000000", Some(Direction::Downstream), Origin::Device),
        ("@10ns <- 4a004010 00000040 01000000", Some(Direction::Upstream), Origin::Host),
        ("link0:UP 4a004010 00000040 01000000", Some(Direction::Upstream), Origin::Host),
    ];
    for (text, direction, origin) in rows {
        let mut reader = Reader::new(text.as_bytes()).unwrap();
        let record = reader.next_record().unwrap().unwrap();
        assert_eq!(record.tlp_bytes, hex(read_64), "{text}");
        assert_eq!(record.direction, direction, "{text}");
        let Kind::Tlp(tlp) = &record.kind else { panic!("{text}: {:?}", record.kind) };
        assert_eq!((tlp.origin, tlp.wire_len, tlp.data), (origin, 76, &[][..]), "{text}");
    }
}

#[test]
fn detects_byte_order_from_whole_text() {
    let reversed = "01000020 ff040001 00200000\n0100004a 04000080 00040001 efbeadde\n";
    let (taken_for, lines) = read(reversed);
    assert!(taken_for.contains("the bytes of each dword reversed, detected: more headers"), "{taken_for}");
    assert!(lines[1].contains("CplD, len 1"), "{lines:?}");
    let big = ReadOptions { byte_order: Some(ByteOrder::Big), ..ReadOptions::default() };
    let (taken_for, lines) = read_with(reversed.as_bytes(), &big);
    assert_eq!(taken_for, "hexadecimal TLPs (Fmt and Type first): 2 TLPs, 1 with an undefined fourth dword");
    assert!(lines[0].contains("error in TLP"), "{lines:?}");
}

#[test]
fn reports_unreadable_line_by_number() {
    let good = "4a004010 00000040 01000000\n";
    let rows = [
        ("4a004010 zz", "line 3: `zz`: expected a hexadecimal number, direction or time"),
        ("4a004010 0040", "line 3: `0040` has 4 digits, expected 8, or 4 or 2 in all numbers of the line"),
        ("5", "line 3: `5` has 1 digit, expected an even number"),
        (
            "4a004010000000400100000000000",
            "line 3: `4a004010000000400100…` has 29 digits, expected an even number",
        ),
        ("0.1 0.2 4a004010", "line 3: `0.2`: expected one time per line, zero or more"),
        ("-5ns 4a004010", "line 3: `-5ns`: expected one time per line, zero or more"),
        ("up down 4a004010", "line 3: `down`: expected one direction per line"),
        (
            "00000000: 00000001 0100070f 00001000",
            "line 3: `00000000:`: offsets of hexadecimal dumps are not supported",
        ),
        ("up", "line 3: line without a TLP"),
        ("len=99999999 4a004010", "line 3: `len=99999999`: expected 4 to 262144 bytes"),
    ];
    for (line, error) in rows {
        let (_, lines) = read(&format!("{good}# comment\n{line}\n\n{good}"));
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert_eq!(lines[1], format!("error in {error}"));
    }
    let text = "TX: MRd32:  Len: 001 ReqID: 0600\n0010    00 00\n";
    assert_eq!(read(text).1, ["error in line 2: bytes at offset 0x0010: expected 0x0000"]);
    let text = "VERSION 20070824\nR 3 1.0 1 0x0 0x0 0x0 0\nW 8 1.0 1 0xffc 0x0 0x0 0\n";
    let (_, lines) = read(text);
    assert_eq!(lines[0], "error in line 2: access of 3 bytes: expected 1, 2, 4 or 8");
    assert!(lines[1].starts_with("error in line 3: access of 8 bytes at 0xffc: "), "{lines:?}");
}

#[test]
fn rejects_unknown_text_with_list_of_formats() {
    for text in ["hello, world: this is no capture", "#!/bin/sh\n", "add face\n", "\u{1}\u{2}\u{3}\u{4}"] {
        let error = Reader::new(text.as_bytes()).err().map(|error| error.to_string()).unwrap();
        assert!(error.starts_with("input: not a capture: it starts with "), "{error}");
        FileFormat::all().for_each(|format| assert!(error.contains(format.example()), "{format}: {error}"));
    }
    let asked = ReadOptions { format: Some(FileFormat::Pcapng), ..ReadOptions::default() };
    let error = Reader::with_options(&b"4a004010"[..], "input", &asked).err().unwrap().to_string();
    assert_eq!(error, "input: not a capture: it starts with 34 61 30 30; pcapng has first bytes 0a 0d 0d 0a");
}

#[test]
fn reads_requested_format() {
    for format in FileFormat::all().filter(|format| format.is_text() && *format != FileFormat::Csv) {
        assert_eq!(FileFormat::named(format.name()), Some(format));
        let options = ReadOptions { format: Some(format), ..ReadOptions::default() };
        let reader = Reader::with_options(&b"nothing of this\n"[..], "input", &options).unwrap();
        assert_eq!(reader.format(), format);
        // The example of each format is detected. The example of PCILeech also needs the bytes below it.
        assert_eq!(Reader::new(format.example().as_bytes()).unwrap().format(), format);
    }
}

/// The first line of a case has the columns.
#[test]
fn reads_mapped_csv_columns() {
    for case in cases(include_str!("../cases/columns.txt")) {
        let (input, expected) = (case.input(), case.expected());
        let (columns, text) = input.split_once('\n').unwrap();
        let options = ReadOptions { columns: Some(columns.parse().unwrap()), ..ReadOptions::default() };
        let (taken_for, lines) = read_with(text.as_bytes(), &options);
        assert_eq!([vec![taken_for], lines].concat(), expected, "{input}");
    }
}

#[test]
fn rejects_options_for_other_formats() {
    let columns = |text: &str| ReadOptions { columns: Some(text.parse().unwrap()), ..ReadOptions::default() };
    let little = ReadOptions { byte_order: Some(ByteOrder::Little), ..ReadOptions::default() };
    let flit = ReadOptions { flit: true, ..ReadOptions::default() };
    let log = file("kernel-old.log");
    let rows = [
        ("h,x\n4a004010,1\n", columns("tlp=TLP"), "no column `TLP`: expected h, x"),
        ("\"a \"\"b\"\"\",x\n4a004010,1\n", columns("tlp=TLP"), "no column `TLP`: expected a \"b\", x"),
        ("h,x\n4a004010,1\n", columns("tlp=99"), "column 99: expected 1 to 2"),
        (
            "h;x\n4a004010;1\n",
            columns("tlp=h"),
            "no column `h`: expected h;x; expected commas between columns",
        ),
        (
            "a[31:0],b\nRadix - SIGNED,HEX\n",
            columns("tdata=a,tlast=b"),
            "column 1 has radix SIGNED, expected HEX",
        ),
        (
            "a/x_tdata[31:0],b/x_tdata[31:0],x_tlast\n00000001,00000001,0\n",
            columns("tdata=x_tdata,tlast=x_tlast"),
            "`x_tdata` is column 1 `a/x_tdata[31:0]` and column 2 `b/x_tdata[31:0]`: expected a whole name or a number",
        ),
        (
            "a\u{1b}[31m\u{7},data\n1,00000001 0100040f\n",
            columns("tlp=c"),
            "no column `c`: expected a\u{fffd}, data",
        ),
        ("", columns("tlp=c"), "empty file, expected CSV"),
        ("a,\0\0\0\0\n", columns("tlp=c"), "binary data, expected CSV"),
        (
            "4a004010 00000040 01000000\n",
            ReadOptions { format: Some(FileFormat::Hex), ..columns("tlp=1") },
            "columns are only for csv; the file is read as hex",
        ),
        (log.as_str(), little, "a byte order is only for hex and csv; the file is read as log"),
        (log.as_str(), flit, "flit mode is only for hex; the file is read as log"),
    ];
    for (text, options, error) in rows {
        let got = Reader::with_options(text.as_bytes(), "input", &options).err().unwrap().to_string();
        assert_eq!(got, format!("input: {error}"));
    }
}

#[test]
fn csv_needs_text_in_utf_8() {
    let options = ReadOptions { columns: Some("tlp=1".parse().unwrap()), ..ReadOptions::default() };
    // Half of the bytes are not valid UTF-8.
    let bytes: Vec<u8> = (0..=255).collect();
    let rows: [(&[u8], &str); 2] =
        [(b"\xff\xfea\0,\0b\0", "this is UTF-16, expected UTF-8"), (&bytes, "binary data, expected CSV")];
    for (bytes, error) in rows {
        let got = Reader::with_options(bytes, "input", &options).err().unwrap().to_string();
        assert_eq!(got, format!("input: {error}"));
    }
}

#[test]
fn note_lists_unread_signals_of_stream() {
    let text = "t/x_tdata[31:0],t/x_tkeep[3:0],t/x_tlast,t/x_tvalid,t/x_tready,t/y_tready,t/x_tvalid_q\n";
    let rows = [
        ("tdata=x_tdata,tlast=x_tlast", " (not in --columns: t/x_tkeep[3:0], t/x_tvalid, t/x_tready)"),
        ("tdata=1,tlast=3,tvalid=4,tkeep=2", " (not in --columns: t/x_tready)"),
        ("tdata=1,tlast=3,tvalid=4,tkeep=2,tready=5", ""),
    ];
    for (columns, note) in rows {
        let options = ReadOptions { columns: Some(columns.parse().unwrap()), ..ReadOptions::default() };
        let taken_for = format!("CSV with an AXI4-Stream of TLPs{note}: 0 TLPs");
        assert_eq!(read_with(text.as_bytes(), &options).0, taken_for, "{columns}");
    }
}

#[test]
fn reads_csv_with_reversed_dwords() {
    let mrd = "TLP: MRd, len 1, requester 01:00.0, tag 0x04, last 0x0, first 0xf, Addr 0x00001000 |";
    let detected = " with a TLP per row (the bytes of each dword reversed, detected: more headers are valid in this order)";
    let given = " with an AXI4-Stream of TLPs (the bytes of each dword reversed)";
    let rows = [
        ("01000000 0f040001 00100000\n", "tlp=1", None, detected),
        ("01000000,0\n0f040001,0\n00100000,1\n", "tdata=1,tlast=2", Some(ByteOrder::Little), given),
        ("00000001 0100040f 00001000\n", "tlp=1", None, " with a TLP per row"),
    ];
    for (text, columns, byte_order, taken_for) in rows {
        let options =
            ReadOptions { byte_order, columns: Some(columns.parse().unwrap()), ..ReadOptions::default() };
        let (got, lines) = read_with(text.as_bytes(), &options);
        assert_eq!(got, format!("CSV{taken_for}: 1 TLP"), "{text}");
        assert!(lines.len() == 1 && lines[0].ends_with(mrd), "{text}: {lines:?}");
    }
    let options = ReadOptions { columns: Some("tlp=1".parse().unwrap()), ..ReadOptions::default() };
    let reversed = Reader::with_options(rows[0].0.as_bytes(), "input", &options).unwrap();
    assert!(reversed.has_guessed_byte_order());
}

#[test]
fn note_reports_assumed_byte_order() {
    let both = "00000000 00000000 00000000";
    let (taken_for, _) =
        read_with(both.as_bytes(), &ReadOptions { format: Some(FileFormat::Hex), ..ReadOptions::default() });
    assert!(taken_for.contains("assumed: neither order has more valid headers"), "{taken_for}");
    let options = ReadOptions { flit: true, ..ReadOptions::default() };
    let (taken_for, _) = read_with(b"01000103 05000001 00100000 ff000000\n", &options);
    assert!(taken_for.contains("assumed: riser does not detect the order in flit mode"), "{taken_for}");
    let (taken_for, _) = read("40000010 010000ff 00001000 aabbccdd\n");
    assert!(taken_for.ends_with(": 1 TLP, 1 with an undefined fourth dword"), "{taken_for}");
}

/// The examples in `riser rules` without a complete header, without a defined type, or with another length.
#[test]
fn explanation_has_broken_rule_of_each_tlp() {
    let rows = [
        ("00000001 0100070f 00001000 00000000 00000000", "length"),
        ("1b000001 0100070f 00001000", "reserved-type"),
        ("91000001", "prefixed-header"),
    ];
    for (text, rule) in rows {
        let mut reader = Reader::with_options(text.as_bytes(), "input", &hex_options()).unwrap();
        let record = reader.next_record().unwrap().unwrap();
        let explanation = Explanation::of(&record, None).unwrap();
        let names: Vec<&str> = explanation.broken.iter().map(|violation| violation.rule().name).collect();
        assert_eq!(names, [rule], "{text}");
    }
}

#[test]
fn writes_header_log_with_undefined_dword() {
    let text = "40000010 010000ff 00001000 aabbccdd\n";
    let mut reader = Reader::with_options(text.as_bytes(), "input", &hex_options()).unwrap();
    let mut written = String::new();
    assert!(hex_text::append_line(&reader.next_record().unwrap().unwrap(), &mut written));
    assert_eq!(written, text);
}

fn hex_options() -> ReadOptions {
    ReadOptions { format: Some(FileFormat::Hex), ..ReadOptions::default() }
}

#[test]
fn error_suggests_likely_format() {
    let rows: [(&[u8], &str); 3] = [
        (
            b"Sample in Buffer,x_tdata[31:0],x_tlast\n0,00000001,0\n",
            "; looks like CSV with columns Sample in Buffer, x_tdata[31:0], x_tlast; use --columns; riser reads",
        ),
        (
            b"00000001 0100070f 00001000 garbage\n",
            "; as hexadecimal text (--read-as hex), line 1: `garbage`: expected a hexadecimal number, direction or time; riser reads",
        ),
        (b"\xff\xfe4\0a\0", "; this is UTF-16, expected UTF-8; riser reads"),
    ];
    for (bytes, part) in rows {
        let error = Reader::new(bytes).err().unwrap().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn reports_invalid_dword_in_header_log() {
    let rows = [
        (
            "3400000g 70000010 00000000 88468846",
            "`3400000g 70000010 00000000 88468846`: `3400000g` is not a dword",
        ),
        ("34000000 70000010 0000", "`34000000 70000010 0000`: `0000` is not a dword"),
        ("34000000 70000010", "`34000000 70000010` has 2 dwords, expected 4"),
    ];
    for (log, error) in rows {
        let (_, lines) = read(&format!("[1.0] a 0000:00:01.0: AER:   TLP Header: {log}\n"));
        assert!(lines[0].starts_with(&format!("error in line 1: header log {error}")), "{lines:?}");
    }
}

/// The second file is the start of an ELF file.
#[test]
fn rejects_binary_data_as_text_format() {
    let rows: [(&[u8], &str); 3] = [
        (b"\xff\xfe[\x001\x00", "UTF-16 text, expected UTF-8"),
        (b"\x7fELF\x02\x01\x01\x00", "binary data, expected UTF-8"),
        (b"", "empty file, expected UTF-8"),
    ];
    for (bytes, error) in rows {
        let options = ReadOptions { format: Some(FileFormat::Log), ..ReadOptions::default() };
        let got = Reader::with_options(bytes, "input", &options).err().unwrap().to_string();
        assert_eq!(got, format!("input: {error}"));
    }
}

#[test]
fn rejects_invalid_columns() {
    let rows = [
        ("tlp", "`tlp`: expected NAME=COLUMN"),
        ("tlp=0", "`tlp=0`: columns count from 1"),
        ("tlp=", "`tlp=`: no column"),
        ("tlp=1,header=2", "`tlp` and `header` exclude each other"),
        ("tlp=1,tlp=2", "`tlp` is given twice"),
        ("when=1", "`when`: expected one of time_ps, time_ns, "),
        ("tdata=1", "expected tlp, or header and data, or tdata and tlast "),
    ];
    for (columns, error) in rows {
        let got = columns.parse::<riser_capture::Columns>().unwrap_err().to_string();
        assert!(got.starts_with(error), "{columns}: {got}");
    }
    let asked = ReadOptions { format: Some(FileFormat::Csv), ..ReadOptions::default() };
    let error = Reader::with_options(&b"4a004010"[..], "input", &asked).err().unwrap().to_string();
    assert_eq!(error, "input: not a capture: csv needs its columns, such as time_ns=1,dir=2,tlp=3");
}

/// Beats of cocotbext-pcie 0.2.16 (crates/rtl/tests/us_beats.py), as an ILA exports them. Packets start at bit 0 of
/// a beat.
#[test]
fn reads_streams_with_descriptors() {
    let beats = include_str!("../../../rtl/tests/us_beats.txt");
    let (mut counts, mut case): (BTreeMap<String, usize>, Vec<&str>) = (BTreeMap::new(), Vec::new());
    let mut compare = |case: &[&str]| {
        let Some((head, lines)) = case.split_first() else { return };
        let words: Vec<&str> = head.split(' ').collect();
        let [_, stream, width, "1"] = words[..] else { return };
        let digits = width.parse::<usize>().unwrap() / 4;
        let fields = |kind: &str| {
            let of_kind = lines.iter().map(|line| line.split(' ').collect::<Vec<_>>());
            of_kind.filter(|words| words[0] == kind).collect::<Vec<_>>()
        };
        let rows = fields("B")
            .iter()
            .map(|b| format!("{:0>digits$},{},{},{}\n", b[1], b[2], b[3], b[4]))
            .collect::<String>();
        let tuser = if matches!(stream, "rq" | "cq") { ",tuser=4" } else { "" };
        let columns = format!("{stream}=1,tkeep=2,tlast=3{tuser}").parse().unwrap();
        let options = ReadOptions { columns: Some(columns), ..ReadOptions::default() };
        let mut reader = Reader::with_options(rows.as_bytes(), "input", &options).unwrap();
        let due = fields("T");
        for tlp in &due {
            let record = reader.next_record().unwrap().unwrap();
            let shown: String = record.tlp_bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(shown, tlp[1], "{head}");
            let is_up = matches!(stream, "rq" | "cc");
            assert_eq!(record.direction == Some(Direction::Upstream), is_up);
        }
        assert!(reader.next_record().unwrap().is_none(), "{head}");
        *counts.entry(stream.to_owned()).or_default() += due.len();
    };
    for line in beats.lines().filter(|line| !line.starts_with('#')) {
        if line.starts_with('S') {
            compare(&std::mem::take(&mut case));
        }
        case.push(line);
    }
    compare(&case);
    assert!(counts.len() == 4 && counts.values().all(|count| *count >= 64), "{counts:?}");
}

#[test]
fn rejects_columns_that_lack_tuser_or_exclude_each_other() {
    for columns in ["rq=1,tlast=2", "rc=1,tlast=2,tuser=3", "tdata=1,rq=2,tlast=3"] {
        assert!(columns.parse::<riser_capture::Columns>().is_err(), "{columns}");
    }
}
