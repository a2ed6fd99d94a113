// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the Wireshark dissector (`tools/wireshark`) in stock `tshark` with riser's decoder, renderer and
//! matcher: its tables, and the fields of every record. Without `tshark` or the captures, the tests are skipped and
//! report this.

use crate::common;
use crate::common::{DAMAGED, DROPPED, Link, read_and_answer};
use crate::dissect;
use crate::dissect::capture::FrameWriter;
use crate::dissect::compare::{compare, compare_tolerated};
use crate::dissect::joined::{compare_joined, file_of, frame_between};
use crate::dissect::random::{Random, mixture};
use crate::dissect::story::story;
use crate::dissect::tables::is_of_header;
use crate::dissect::tshark::{Tshark, Values};
use riser_capture::matcher::Errors;
use riser_capture::transactions::Tracker;
use riser_capture::{Direction, Mark, Reader};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tlp::rules::RULES;
use tlp::{Dllp, FORMATS};

#[test]
fn dissector_has_the_tables_of_tlp() {
    testkit::generated("tools/wireshark/riser/tables.lua", &dissect::tables::lua());
}

#[test]
fn dissects_some_nettlp_captures_like_riser() {
    captures_of_nettlp(4);
}

#[test]
#[ignore = "of .ci/long page"]
fn dissects_all_nettlp_captures_like_riser() {
    captures_of_nettlp(1);
}

/// Compares every `step`-th capture.
fn captures_of_nettlp(step: usize) {
    let (Some(tshark), Some(captures)) = (Tshark::find(), testkit::shared_data("nettlp-captures")) else {
        return;
    };
    let mut files: Vec<PathBuf> = Vec::new();
    for folder in std::fs::read_dir(captures).unwrap() {
        let entries = std::fs::read_dir(folder.unwrap().path()).unwrap();
        files.extend(entries.map(|entry| entry.unwrap().path()));
    }
    files.retain(|path| path.extension().is_some_and(|extension| extension == "pcap"));
    files.sort();
    assert!(!files.is_empty());
    let files: Vec<PathBuf> = files.into_iter().step_by(step).collect();
    // Reading these files is faster than starting tshark.
    let (left, right) = files.split_at(files.len() / 2);
    let run = |files: &[PathBuf]| files.iter().for_each(|file| drop(check(&tshark, file)));
    std::thread::scope(|scope| {
        scope.spawn(|| run(left));
        run(right);
    });
}

fn check(tshark: &Tshark, path: &Path) -> Vec<Values> {
    let rows = tshark.read(path);
    compare(&std::fs::read(path).unwrap(), &rows);
    rows
}

/// Counts the rows that have `field`.
fn count(rows: &[Values], field: &str) -> usize {
    rows.iter().filter(|row| row.has(field)).count()
}

/// The TLPs of lines such as `up 00000020 010004ff 00002000`, with a port of a device. Data that a line omits are
/// zero.
fn captured(lines: &str) -> Vec<u8> {
    let mut file = FrameWriter::new();
    for line in lines.lines().filter(|line| !line.starts_with('#')) {
        let (way, header) = line.split_once(' ').unwrap();
        let mut bytes = common::hex(header);
        let has_data = bytes[0] & 0x40 != 0;
        bytes.resize(bytes.len() + if has_data { usize::from(bytes[3]) * 4 } else { 0 }, 0);
        let way = if way == "up" { Direction::Upstream } else { Direction::Downstream };
        file.write(way, 0x3000, &bytes, usize::MAX);
    }
    file.finish()
}

/// Hand-written requests and completions, of which four break a rule. tshark reports the same TLPs, with the text of
/// `riser trace --check`.
#[test]
fn reports_completions_that_break_rules() {
    let Some(tshark) = Tshark::find() else { return };
    let file = dissect::TempFile::new("completions", &captured(include_str!("../cases/completions.txt")));
    let rows = check(&tshark, &file.path);
    let broken: Vec<_> = rows.iter().filter_map(|row| row.get("tlp.completion_rule")).collect();
    let due = ["lower-address", "lower-address", "completion-boundary", "completion-boundary"];
    assert_eq!(broken, due);
}

/// A capture from riser's writer with every type of TLP, with DLLPs, and with two links that use the same tags.
#[test]
fn dissects_riser_capture_like_riser() {
    let Some(tshark) = Tshark::find() else { return };
    let file = dissect::TempFile::new("story", &story());
    let rows = check(&tshark, &file.path);
    // The capture has each kind of match, each link and each kind of DLLP.
    for field in [
        "tlp.request_in",
        "tlp.response_in",
        "tlp.response_time",
        "tlp.expert.repeat",
        "tlp.expert.tag_reuse",
        "tlp.expert.unexpected",
        "tlp.expert.unanswered",
        "tlp.expert.status",
        "tlp.expert.retry",
        "tlp.expert.completion",
        "tlp.expert.not_captured",
        "dllp.header_credits",
        "dllp.sequence",
        "dllp.features.scaled_fc",
    ] {
        assert!(count(&rows, field) > 0, "{field}");
    }
    let names: BTreeSet<&str> = rows.iter().filter_map(|row| row.get("tlp.type_name")).collect();
    assert!(FORMATS.iter().all(|row| names.contains(row.name)), "{names:?}");
    assert_eq!(rows.iter().filter_map(|row| row.get("dllp.name")).collect::<BTreeSet<_>>().len(), 12);
}

/// `PCIe 5.0 §3.6.2.1`, §3.6.3.1: TLPs that are damaged or dropped, TLPs that the receiver discards after them, and
/// replays.
fn with_faults() -> Vec<u8> {
    let sound = Mark::default();
    let (first, first_answer) = read_and_answer(1, 0x1000, 64);
    let (second, second_answer) = read_and_answer(2, 0x2000, 64);
    let (third, third_answer) = read_and_answer(3, 0x3000, 64);
    let mut link = Link::new();
    link.ack(true, 4095).ack(false, 4095);
    link.tlp(true, &first, DAMAGED).tlp(true, &second, sound);
    link.dllp(false, Dllp::Nak { sequence: 4095 }, sound);
    link.again(true, &first, 0, sound).again(true, &second, 1, sound);
    // Their Ack is lost, so both are retransmitted.
    link.dllp(false, Dllp::Ack { sequence: 1 }, DAMAGED);
    link.again(true, &first, 0, sound).again(true, &second, 1, sound).ack(false, 1);
    // Completions that are damaged and dropped, and one that is retransmitted although it arrived.
    link.tlp(false, &first_answer, DAMAGED).tlp(false, &second_answer, DROPPED);
    link.again(false, &first_answer, 0, sound).again(false, &second_answer, 1, sound);
    link.again(false, &second_answer, 1, sound).ack(true, 1);
    link.tlp(true, &third, sound).wait_ps(5_000).tlp(false, &third_answer, sound);
    // A completion without a request.
    link.tlp(false, &third_answer, sound);
    link.finish()
}

/// The dissector shows the same result for each TLP as riser's tracker, if Wireshark gives it the marks of frames.
#[test]
fn reports_lost_and_retransmitted_frames() {
    let Some(tshark) = Tshark::find() else { return };
    let bytes = with_faults();
    let file = dissect::TempFile::new("faults", &bytes);
    for passes in [&["-2", "-Y", "frame"][..], &[]] {
        compare_with_tracker(&bytes, &tshark.read_with(&file.path, passes));
    }
    // Without a filter, the dissector does not get the marks in the first of two passes. It still shows lost
    // frames. A retransmission counts as a repeated TLP, never as an unexpected completion.
    let rows = tshark.read_with(&file.path, &["-2"]);
    assert_eq!(count(&rows, "tlp.expert.lost"), 3);
    assert_eq!(count(&rows, "tlp.expert.repeat"), 8);
    let details = tshark.details(&file.path);
    assert!(details.contains("[Response time: 0.000000006 seconds (6 ns)]"), "{details}");
}

fn compare_with_tracker(bytes: &[u8], rows: &[Values]) {
    let mut reader = Reader::new(std::io::Cursor::new(bytes)).unwrap();
    let mut tracker = Tracker::new();
    let mut seen = [0; 6];
    while let Some(record) = reader.next_record().unwrap() {
        let outcome = tracker.see(&record, 0);
        let row = &rows[record.number as usize - 1];
        let Some(tlp) = record.tlp() else { continue };
        let lost = record.mark.is_lost();
        let is_out_of_order = !lost && !outcome.taken && !outcome.replay;
        let is_unexpected = outcome.errors.contains(Errors::UNEXPECTED_COMPLETION);
        let shown = ["lost", "out_of_order", "repeat", "unexpected"];
        let expected = [lost, is_out_of_order, outcome.replay, is_unexpected];
        for (n, (expert, expected)) in shown.iter().zip(expected).enumerate() {
            assert_eq!(row.has(&format!("tlp.expert.{expert}")), expected, "{expert}: {row:?}");
            seen[n] += usize::from(expected);
        }
        assert_eq!(row.number("tlp.request_in"), outcome.request, "{row:?}");
        let response_ns = outcome.response_ps.map(|ps| ps / 1000);
        assert_eq!(row.nanoseconds("tlp.response_time"), response_ns, "{row:?}");
        seen[4] += usize::from(response_ns.is_some());
        let how = if record.mark.dropped { "dropped on the way" } else { "damaged on the way" };
        assert_eq!(row.get("tlp.lost"), lost.then_some(how), "{row:?}");
        let remark = if lost { format!(" [{how}]") } else { String::new() };
        assert_eq!(row.get("_ws.col.Info"), Some(format!("{}{remark}", tlp.repr).as_str()));
        seen[5] += 1;
    }
    // Each result occurs.
    assert_eq!(seen, [3, 1, 3, 1, 3, 14]);
}

/// The rules of a header that no row breaks.
fn never_broken(rows: &[Values], field: &str, tolerated: bool) -> Vec<String> {
    let broken = rows.iter().filter_map(|row| row.get(field)).flat_map(|rules| rules.split(','));
    let broken: BTreeSet<&str> = broken.collect();
    let rules = RULES.iter().filter(is_of_header).filter(|rule| rule.is_tolerated() == tolerated);
    rules.map(|rule| rule.name.to_owned()).filter(|rule| !broken.contains(rule.as_str())).collect()
}

/// Thousands of random TLPs and DLLPs, most of which are nearly legal. Both decoders give the same result for each,
/// and the dissector never fails.
#[test]
fn dissects_random_bytes() {
    let Some(tshark) = Tshark::find() else { return };
    let mut random = Random::new(0x7157_0a2e);
    let bytes = mixture(&mut random, 4000);
    let file = dissect::TempFile::new("random", &bytes);
    let rows = check(&tshark, &file.path);
    compare_tolerated(&bytes, &rows);
    assert_eq!(never_broken(&rows, "tlp.tolerated_rule", true), [""; 0]);
    assert_eq!(never_broken(&rows, "tlp.malformed_rule", false), [""; 0]);
    for kind in
        ["malformed", "unknown_type", "truncated", "length", "ecrc", "poisoned", "tolerated", "no_digest"]
    {
        let field = format!("tlp.expert.{kind}");
        assert!(count(&rows, &field) > 10, "{field}: {}", count(&rows, &field));
    }
    for field in ["tlp.prefix", "tlp.st", "dllp.expert.crc", "dllp.expert.length", "tlp.request_in"] {
        assert!(count(&rows, field) > 10, "{field}: {}", count(&rows, field));
    }
}

/// After it is copied to a folder of plugins as in README.md, tshark loads the dissector by itself.
#[test]
#[cfg(target_os = "linux")]
fn dissector_loads_as_installed_plugin() {
    let (Some(tshark), Some(captures)) = (Tshark::find(), testkit::shared_data("nettlp-captures")) else {
        return;
    };
    let home = dissect::TempFile::folder("home");
    let plugins = home.path.join(".local/lib/wireshark/plugins");
    std::fs::create_dir_all(plugins.join("riser")).unwrap();
    for file in tshark.lua_files() {
        std::fs::copy(tshark.folder().join(&file), plugins.join(&file)).unwrap();
    }
    let line = tshark.read_installed(&home.path, &captures.join("x520/x520-64B-1pkt.pcap"));
    assert!(line.contains("TLP 64 MRd, len 16, requester 19:00.0, tag 0x02"), "{line}");
}

/// UDP port, bytes after the NetTLP header, and some of the expected fields with their values.
type Literal = (u16, &'static str, &'static [(&'static str, &'static str)]);

/// The ECRCs were computed with zlib's CRC-32 over the bytes with bit 0 of Type and EP set (`PCIe 5.0 §2.7.1`), and
/// the CRCs of DLLPs bit by bit as in §3.5.1. All other packets were built by hand from the section in the comment.
const LITERAL: &[Literal] = &[
    // §2.2.8.1: Assert_INTA, local.
    (
        0x3000,
        "34000000 01000020 00000000 00000000",
        &[("tlp.message_name", "Assert_INTA"), ("tlp.routing", "4"), ("tlp.requester", "01:00.0")],
    ),
    // §2.2.8.6: Vendor_Defined Type 1 by ID to 02:03.4, vendor 8086h.
    (
        0x3001,
        "32000000 0100017f 021c8086 deadbeef",
        &[
            ("tlp.message_name", "Vendor_Defined_Type_1"),
            ("tlp.message_target", "02:03.4"),
            ("tlp.vendor_id", "32902"),
        ],
    ),
    // §6.20: PASID 12345h with Execute Requested before an MRd; §2.2.6.2: tag 301h.
    (
        0x3301,
        "91112345 00880001 0100010f 00001000",
        &[
            ("tlp.prefix.pasid", "74565"),
            ("tlp.prefix.pasid.execute", "1"),
            ("tlp.prefix.pasid.privileged", "0"),
            ("tlp.prefix.name", "PASID"),
            ("tlp.tag", "769"),
        ],
    ),
    // §2.2.7.1: TH in an MRd: ST A5h in place of the Byte Enables; Extended TPH prefix with ST[15:8] 5Ah.
    (
        0x3002,
        "905a0000 00010002 010002a5 00001003",
        &[
            ("tlp.st", "165"),
            ("tlp.ph", "3"),
            ("tlp.first_be", "15"),
            ("tlp.last_be", "15"),
            ("tlp.prefix.st_high", "90"),
        ],
    ),
    // §2.2.7.1: TH in an MWr: ST 3Ch in place of the tag.
    (0x3000, "40010001 01003c0f 00001001 11223344", &[("tlp.st", "60"), ("tlp.ph", "1"), ("tlp.tag", "0")]),
    // §2.2.7: CAS of 64 bits at 1_0000_0008h.
    (
        0x3004,
        "6e000004 01000400 00000001 00000008 0000000000000001 0000000000000002",
        &[("tlp.type_name", "CAS"), ("tlp.operand_bytes", "8"), ("tlp.address", "4294967304")],
    ),
    // §2.7.1, ECRC of an MRd: good, then with one wrong bit.
    (0x3003, "00008004 1b0003ff 2f001000 cbe0911a", &[("tlp.ecrc_status", "good")]),
    (0x3003, "00008004 1b0003ff 2f001000 cbe0911b", &[("tlp.ecrc_status", "bad")]),
    // §2.7.1: ECRC covers all bits of an end-to-end prefix, and no bit of a local one.
    (0x3003, "80abcdef 90110000 00008004 1b0003ff 2f001000 3cfabcca", &[("tlp.ecrc_status", "good")]),
    // §3.5, Table 3-1: the DLLP types other than Ack, Nak and flow control. CRCs follow the algorithm of §3.5.1.
    (
        0x2ffe,
        "02800001 3156",
        &[("dllp.name", "Data_Link_Feature"), ("dllp.feature_ack", "1"), ("dllp.features.scaled_fc", "1")],
    ),
    (
        0x2ffe,
        "80c3f0ff 6968",
        &[("dllp.name", "UpdateFC"), ("dllp.hdr_scale", "3"), ("dllp.data_scale", "3")],
    ),
];

#[test]
fn dissects_literal_packets() {
    let Some(tshark) = Tshark::find() else { return };
    let mut file = FrameWriter::new();
    for (port, bytes, _) in LITERAL {
        file.write(Direction::Upstream, *port, &common::hex(bytes), usize::MAX);
    }
    let file = dissect::TempFile::new("literal", &file.finish());
    let shown = tshark.read(&file.path);
    for ((_, bytes, expected), shown) in LITERAL.iter().zip(&shown) {
        for (field, value) in *expected {
            assert_eq!(shown.number_or_text(field).as_deref(), Some(*value), "{field} of {bytes}");
        }
    }
}

/// Data without its last byte. Only upstream writes of one DW may be so short; the dissector rejects all other TLPs.
#[test]
fn accepts_missing_data_byte_only_in_writes_of_one_dw() {
    let Some(tshark) = Tshark::find() else { return };
    let mut file = FrameWriter::new();
    let tlps = [
        "40000001 1a000003 00001000 010203",
        "40000002 1a0000ff 00001000 01020304 050607",
        "4a642001 816c0b63 600c5033 df8877",
        "44000001 1a00000f 01000004 010203",
        "4c000001 1a000000 00001000 010203",
    ];
    for tlp in tlps {
        file.write(Direction::Upstream, 0x3000, &common::hex(tlp), usize::MAX);
    }
    let file = dissect::TempFile::new("missing", &file.finish());
    let rows = check(&tshark, &file.path);
    let is_bad: Vec<bool> = rows.iter().map(|row| row.has("tlp.expert.length")).collect();
    assert_eq!(is_bad, [false, true, true, true, true]);
}

/// Direction (true: to the adapter), number, payload, and fields with their values.
type OfSession = (bool, u64, &'static str, &'static [(&'static str, &'static str)]);

/// The table in `nettlp::stream::record`, byte by byte.
const SESSION: &[OfSession] = &[
    (
        true,
        1 << 47,
        "ff01 00000000000000a1 0001 0001 0200 1036 0003 010203 000000",
        &[
            ("nettlp.what", "session Hello"),
            ("nettlp.session.number", "0"),
            ("nettlp.session.id", "161"),
            ("nettlp.session.version", "1"),
            ("nettlp.session.features", "1"),
            ("nettlp.session.window", "512"),
            ("nettlp.session.longest", "4150"),
            ("nettlp.session.noise", "010203"),
        ],
    ),
    (
        false,
        1 << 47 | 7,
        "ff02 0000000000000009 00000000000000a1 0001 0000 0400 1036 0000",
        &[
            ("nettlp.what", "session HelloAck"),
            ("nettlp.session.number", "7"),
            ("nettlp.session.id", "9"),
            ("nettlp.session.nonce", "161"),
            ("nettlp.session.window", "1024"),
        ],
    ),
    (
        false,
        1 << 47 | 8,
        "ff04 0000000000000009 0000000000000102 0000000000000502 81",
        &[
            ("nettlp.what", "session Ack"),
            ("nettlp.session.kind", "4"),
            ("nettlp.session.next", "258"),
            ("nettlp.session.limit", "1282"),
            ("nettlp.session.bitmap", "81"),
        ],
    ),
    (
        false,
        1 << 47,
        "ff07 0000000000000000 00000000000000a1 0003",
        &[
            ("nettlp.what", "session Refused"),
            ("nettlp.session.nonce", "161"),
            ("nettlp.session.reason", "3"),
        ],
    ),
    (true, 1 << 47, "ff08 0000000000000009", &[("nettlp.what", "session Bye")]),
    (true, 1 << 47, "ff63", &[("nettlp.what", "session control, unknown"), ("nettlp.session.kind", "99")]),
    (
        true,
        1 << 47 | 5,
        "1234",
        &[("nettlp.what", "session control, sealed"), ("nettlp.session.number", "5")],
    ),
    (true, 5, "4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a", &[("nettlp.what", "session, sealed or no TLP")]),
    (
        true,
        0x7f12_3456_789a,
        "00000001 1b0003ff 00001000",
        &[("nettlp.what", "session, sealed or no TLP"), ("nettlp.session.number", "139716164221082")],
    ),
    (
        true,
        0x7f12_3456_789b,
        "00000001 1b00030f 00001000",
        &[
            ("nettlp.what", "TLP"),
            ("nettlp.origin", "device"),
            ("tlp.type_name", "MRd"),
            ("tlp.tag", "3"),
            ("nettlp.session.number", "139716164221083"),
        ],
    ),
    (
        false,
        1,
        "4a000001 00000004 1b000300 01020304",
        &[("nettlp.origin", "device"), ("tlp.type_name", "CplD"), ("tlp.request_in", "10")],
    ),
];

/// Sessions between two riser processes: control records by name and field, TLPs as TLPs, sealed datagrams as sealed.
#[test]
fn dissects_sessions() {
    let Some(tshark) = Tshark::find() else { return };
    let mut file = FrameWriter::new();
    for (to_adapter, number, rest, _) in SESSION {
        file.write_session(*to_adapter, *number, &common::hex(rest), usize::MAX);
    }
    let file = dissect::TempFile::new("session", &file.finish());
    let shown = check(&tshark, &file.path);
    for ((_, number, rest, expected), shown) in SESSION.iter().zip(&shown) {
        for (field, value) in *expected {
            let found = match *field {
                // These values are bytes that look like numbers.
                "nettlp.session.noise" | "nettlp.session.bitmap" => {
                    shown.get(field).map(|hex| hex.replace(':', ""))
                }
                _ => shown.number_or_text(field),
            };
            assert_eq!(found.as_deref(), Some(*value), "{field} of {number:#x} {rest}: {shown:?}");
        }
    }
}

/// Captures of other programs: messages and their answers, and a frame that was truncated on the wire.
#[test]
fn dissects_messages_and_truncated_frames() {
    let Some(tshark) = Tshark::find() else { return };
    let nettlp = [0; 6];
    let write = [&nettlp, &[0x40, 0, 0, 8, 0x1a, 0, 0, 0xff, 0, 0, 0x10, 0][..], &[7; 32]].concat();
    let frames = [
        frame_between(40_000, 0x2fff, &[2, 0, 0, 0], usize::MAX),
        frame_between(0x2fff, 40_000, &[0, 0x1b], usize::MAX),
        frame_between(0x5001, 40_000, &[0x3c, 0, 0, 0, 0, 0], usize::MAX),
        frame_between(0x3000, 0x3000, &write, 42 + 18 + 8),
    ];
    let file = file_of(&frames.clone().map(|frame| (frame, usize::MAX)));
    let shown = tshark.read(&dissect::TempFile::new("several", &file).path);
    let mut reader = riser_capture::Reader::new(&file[..]).unwrap();
    let mut names = vec![Vec::new(); frames.len()];
    while let Some(record) = reader.next_record().unwrap() {
        let of = |name: &str| name.to_owned();
        let name = match &record.kind {
            riser_capture::Kind::Tlp(tlp) => of(tlp.repr.name()),
            riser_capture::Kind::Other(other) => other.to_string(),
            riser_capture::Kind::Bad(bad) => panic!("{bad}"),
            riser_capture::Kind::Dllp(_) => unreachable!("there are none"),
        };
        names[record.number as usize - 1].push(name);
    }
    let expected = [
        "NetTLP messaging, which device is it?",
        "NetTLP messaging, which device it is",
        "NetTLP configuration",
        "MWr",
    ];
    for ((row, names), expected) in shown.iter().zip(&names).zip(expected) {
        assert_eq!(names.join(","), expected);
        let what = row.get("tlp.type_name").unwrap_or_else(|| row.get("_ws.col.Info").unwrap_or_default());
        assert_eq!(what, expected, "{row:?}");
        assert!(!row.has("tlp.malformed_rule"), "{row:?}");
    }
    assert_eq!(shown[3].get("tlp.captured_bytes"), Some("8"));
}

/// The dissector shows merged datagrams as separate TLPs, each with its place among the transactions.
#[test]
fn dissects_merged_datagrams() {
    let Some(tshark) = Tshark::find() else { return };
    let (bytes, expected) = dissect::joined::capture();
    let file = dissect::TempFile::new("joined", &bytes);
    for passes in [&["-2", "-Y", "frame"][..], &["-2"]] {
        let rows = tshark.read_with(&file.path, passes);
        assert_eq!(compare_joined(&bytes, &rows), expected);
    }
}

/// A merged frame that was truncated within a datagram is not split, neither by the dissector nor by riser.
#[test]
fn does_not_split_truncated_merged_datagrams() {
    let Some(tshark) = Tshark::find() else { return };
    let write = [&[0; 6], &[0x40, 0, 0, 8, 0x1a, 0, 0, 0xff, 0, 0, 0x10, 0][..], &[7; 32]].concat();
    let frame = frame_between(0x3000, 0x3000, &write.repeat(3), 42 + 2 * write.len() + 20);
    let bytes = file_of(&[(frame, usize::MAX)]);
    let rows = tshark.read(&dissect::TempFile::new("cut", &bytes).path);
    let mut reader = Reader::new(&bytes[..]).unwrap();
    assert!(reader.next_record().unwrap().unwrap().tlp().is_none());
    assert!(reader.next_record().unwrap().is_none());
    assert_eq!(rows[0].get("tlp.type_name"), Some("MWr"));
    assert!(rows[0].has("tlp.expert.length"), "{:?}", rows[0]);
}
