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
use testkit::cases;
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

#[test]
fn dissects_literal_packets() {
    let Some(tshark) = Tshark::find() else { return };
    let mut file = FrameWriter::new();
    let all = || cases(include_str!("../cases/dissected.txt"));
    for case in all() {
        let input = case.input();
        let (port, bytes) = input.trim_end().split_once(' ').unwrap();
        let port = u16::from_str_radix(port, 16).unwrap();
        file.write(Direction::Upstream, port, &common::hex(bytes), usize::MAX);
    }
    let file = dissect::TempFile::new("literal", &file.finish());
    let shown = tshark.read(&file.path);
    for (case, shown) in all().zip(&shown) {
        for (field, value) in case.expected().iter().map(|expected| expected.split_once(' ').unwrap()) {
            assert_eq!(shown.number_or_text(field).as_deref(), Some(value), "{field} of {}", case.text);
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

/// Sessions between two riser processes: control records by name and field, TLPs as TLPs, sealed datagrams as sealed.
#[test]
fn dissects_sessions() {
    let Some(tshark) = Tshark::find() else { return };
    let mut file = FrameWriter::new();
    let all = || cases(include_str!("../cases/dissected-session.txt"));
    for case in all() {
        let input = case.input();
        let [way, number, bytes] = input.trim_end().splitn(3, ' ').collect::<Vec<_>>()[..] else {
            panic!("{input}")
        };
        let number = u64::from_str_radix(number, 16).unwrap();
        file.write_session(way == "to", number, &common::hex(bytes), usize::MAX);
    }
    let file = dissect::TempFile::new("session", &file.finish());
    let shown = check(&tshark, &file.path);
    for (case, shown) in all().zip(&shown) {
        for (field, value) in case.expected().iter().map(|expected| expected.split_once(' ').unwrap()) {
            let found = match field {
                // These values are bytes that look like numbers.
                "nettlp.session.noise" | "nettlp.session.bitmap" => {
                    shown.get(field).map(|hex| hex.replace(':', ""))
                }
                _ => shown.number_or_text(field),
            };
            assert_eq!(found.as_deref(), Some(value), "{field} of {}: {shown:?}", case.text);
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
