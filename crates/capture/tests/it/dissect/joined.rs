// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames with several datagrams, as other programs capture them on a loopback with segmentation offload. Compares
//! every TLP of such a frame with riser's record.

use super::compare::{NUMBERS, TEXTS, compare_bad};
use super::tshark::{Values, parse_nanoseconds};
use crate::common;
use riser_capture::matcher::{Match, Matcher};
use riser_capture::sequence::way;
use riser_capture::{Kind, Reader, Record, render};
use serde_json::Value;
use std::collections::BTreeMap;

/// A frame from `source` to `destination` over the loopback. It is truncated on the wire to `wire_len` bytes if it
/// is longer.
pub(crate) fn frame_between(source: u16, destination: u16, payload: &[u8], wire_len: usize) -> Vec<u8> {
    let total = (payload.len() as u16 + 28).to_be_bytes();
    let udp = (payload.len() as u16 + 8).to_be_bytes();
    let ip = [0x45, 0, total[0], total[1], 0, 0, 0x40, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 2];
    let ports = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    let mut frame = [&[0; 12], &[8, 0][..], &ip, &ports, &udp, &[0, 0], payload].concat();
    frame.truncate(wire_len);
    frame
}

/// A pcap file of these frames, a millisecond apart. Each frame has its maximum number of captured bytes.
pub(crate) fn file_of(frames: &[(Vec<u8>, usize)]) -> Vec<u8> {
    let mut file: Vec<u8> = [0xa1b2_3c4d_u32, 4 << 16 | 2, 0, 0, 65535, 1].map(u32::to_le_bytes).concat();
    for (at, (frame, captured)) in frames.iter().enumerate() {
        let kept = &frame[..frame.len().min(*captured)];
        let head = [0, at as u32 * 1000, kept.len() as u32, frame.len() as u32];
        file.extend(head.map(u32::to_le_bytes).concat());
        file.extend(kept);
    }
    file
}

/// Adjacent datagrams, each with its own NetTLP header.
fn run(tlps: &[&str]) -> Vec<u8> {
    let datagram = |(at, tlp): (usize, &&str)| {
        let at = at as u8;
        [&[0, at, 0, 0, at, 7][..], &common::hex(tlp)].concat()
    };
    tlps.iter().enumerate().flat_map(datagram).collect()
}

const DATA: &str = "00010203 04050607 08090a0b 0c0d0e0f";
const ALL: usize = usize::MAX;

/// Reads of 16, 16 and 8 B with tags 1 to 3, their completions, and writes. The last write has one DW or is
/// malformed.
fn tlp(name: &str) -> String {
    match name {
        "read 1" => "00000004 1a0001ff 00001000".into(),
        "read 2" => "00000004 1a0002ff 00002000".into(),
        "read 3" => "00000002 1a0003ff 00003000".into(),
        "answer 1" => format!("4a000004 00000010 1a000100 {DATA}"),
        "answer 2" => format!("4a000004 00000010 1a000200 {DATA}"),
        "answer 3" => "4a000002 00000008 1a000300 a0a1a2a3 a4a5a6a7".into(),
        "write" => format!("40000004 1a0000ff 00004000 {DATA}"),
        "short write" => "40000001 1a00000f 00005000 deadbeef".into(),
        // Its Last DW BE is 0000b.
        "wrong write" => format!("40000004 1a00000f 00004000 {DATA}"),
        "prefixed write" => format!("91012345 40000004 1a0000ff 00006000 {DATA}"),
        "write with a digest" => format!("40008004 1a0000ff 00004000 {DATA} 00000000"),
        "sealed" => "4a4a4a4a 4a4a4a4a 4a4a4a4a 4a4a4a4a".into(),
        _ => panic!("{name}"),
    }
}

/// Destination port, TLPs, captured bytes after the UDP header, and the expected records.
type Row = (u16, &'static [&'static str], usize, &'static str);

/// Offsets of the second and the third of three datagrams with 16 B of data.
const SECOND: usize = 6 + 12 + 16;
const THIRD: usize = 2 * SECOND;

const FRAMES: &[Row] = &[
    (0x3000, &["read 1", "read 2", "read 3"], ALL, "MRd MRd MRd"),
    (0x3000, &["answer 1", "answer 2", "answer 3"], ALL, "CplD CplD CplD"),
    // The same tags in two frames, then the completions of both in one frame.
    (0x3000, &["read 1", "read 2"], ALL, "MRd MRd"),
    (0x3000, &["read 3"], ALL, "MRd"),
    (0x3000, &["answer 2", "answer 1", "answer 3"], ALL, "CplD CplD CplD"),
    (0x400f, &["write", "write", "write", "short write"], ALL, "MWr MWr MWr MWr"),
    (0x3000, &["prefixed write", "prefixed write"], ALL, "MWr MWr"),
    (0x3000, &["write with a digest", "write with a digest"], ALL, "MWr MWr"),
    (0x2ffd, &["read 1", "read 2", "read 3"], ALL, "MRd MRd MRd"),
    (0x2ffd, &["sealed", "sealed"], ALL, "other"),
    // A malformed first TLP prevents splitting; a malformed later one does not.
    (0x3000, &["write", "wrong write", "write"], ALL, "MWr bad MWr"),
    (0x3000, &["wrong write", "write", "write"], ALL, "bad"),
    (0x3000, &["short write", "write"], ALL, "bad"),
    // Captures that end in the data of the second TLP, in the header of the third, in the data of the first, or at
    // an end.
    (0x3000, &["write", "write", "write"], SECOND + 6 + 12 + 5, "MWr MWr"),
    (0x3000, &["write", "write", "write"], THIRD + 6 + 7, "MWr MWr bad"),
    (0x3000, &["write", "write", "write"], THIRD + 3, "MWr MWr bad"),
    (0x3000, &["write", "write", "write"], 6 + 12 + 9, "MWr"),
    (0x3000, &["write", "write", "write"], SECOND, "MWr"),
    (0x2ffd, &["write", "write"], SECOND + 6 + 12, "MWr MWr"),
];

/// A capture with such frames, and the expected records of each.
pub(crate) fn capture() -> (Vec<u8>, Vec<&'static str>) {
    let frame = |&(port, names, captured, _): &Row| {
        let tlps: Vec<String> = names.iter().map(|name| tlp(name)).collect();
        let payload = run(&tlps.iter().map(String::as_str).collect::<Vec<_>>());
        (frame_between(port, port, &payload, ALL), captured.saturating_add(42))
    };
    (file_of(&FRAMES.iter().map(frame).collect::<Vec<_>>()), FRAMES.iter().map(|row| row.3).collect())
}

/// The expected contents of a frame.
#[derive(Default)]
struct Expected {
    /// One word per datagram: the type of a TLP, "bad" or "other".
    words: Vec<String>,
    /// Values by the dissector's field.
    numbers: BTreeMap<&'static str, Vec<u64>>,
    texts: BTreeMap<&'static str, Vec<String>>,
    data: Vec<String>,
    lines: Vec<String>,
    request_in: Vec<u64>,
    response_ns: Vec<u128>,
    unmatched: usize,
}

impl Expected {
    fn add(&mut self, record: &Record<'_>, row: &Values) {
        match &record.kind {
            Kind::Tlp(tlp) => {
                let mut text = String::new();
                render::json(record, &mut text);
                self.add_fields(&serde_json::from_str(&text).unwrap());
                let data: String = tlp.data.iter().map(|byte| format!("{byte:02x}")).collect();
                self.data.extend(Some(data).filter(|data| !data.is_empty()));
                self.lines.push(tlp.repr.to_string());
                self.words.push(tlp.repr.name().to_owned());
            }
            Kind::Bad(bad) => {
                compare_bad(bad, row);
                self.words.push("bad".to_owned());
            }
            Kind::Other(_) | Kind::Dllp(_) => self.words.push("other".to_owned()),
        }
    }

    fn add_fields(&mut self, json: &Value) {
        for (field, key) in NUMBERS {
            let value =
                json.get(*key).map(|value| value.as_u64().or(value.as_bool().map(u64::from)).unwrap());
            self.numbers.entry(field).or_default().extend(value);
        }
        for (field, key) in TEXTS {
            let value = json.get(*key).map(|value| value.as_str().unwrap().replace(':', ""));
            self.texts.entry(field).or_default().extend(value);
        }
    }

    fn add_match(
        &mut self,
        record: &Record<'_>,
        matcher: &mut Matcher,
        responses: &mut BTreeMap<u64, Vec<u64>>,
    ) {
        let Some(tlp) = record.tlp() else { return };
        match matcher.see(record.number, record.timestamp, way(record), &tlp.repr) {
            Match::Complete(transaction) => {
                responses.entry(transaction.request_number).or_default().push(record.number);
                self.request_in.push(transaction.request_number);
                self.response_ns.push((transaction.end.as_ps() - transaction.start.as_ps()) / 1000);
            }
            Match::Unmatched => self.unmatched += 1,
            Match::Posted | Match::Request | Match::Repeat => {}
            other => panic!("{other:?}"),
        }
    }

    /// Compares every TLP of a frame.
    fn compare(&self, row: &Values) {
        assert_eq!(row.all("tlp.expert.unexpected").count(), self.unmatched, "{row:?}");
        assert_eq!(row.numbers("tlp.request_in"), self.request_in, "{row:?}");
        let response_ns: Vec<u128> = row.all("tlp.response_time").map(parse_nanoseconds).collect();
        assert_eq!(response_ns, self.response_ns, "{row:?}");
        // Only the dissector shows fields of malformed TLPs.
        if self.words.iter().any(|word| word == "bad" || word == "other") {
            return;
        }
        let words: Vec<&str> = row.all("tlp.type_name").collect();
        assert_eq!(words, self.words, "{row:?}");
        for (field, expected) in self.numbers.iter().filter(|(_, expected)| !expected.is_empty()) {
            assert_eq!(&row.numbers(field), expected, "{field} of {row:?}");
        }
        for (field, expected) in self.texts.iter().filter(|(_, expected)| !expected.is_empty()) {
            let shown: Vec<String> = row.all(field).map(|text| text.replace(':', "")).collect();
            assert_eq!(&shown, expected, "{field} of {row:?}");
        }
        let data: Vec<String> = row.all("tlp.data").map(|text| text.replace(':', "")).collect();
        assert_eq!(data, self.data, "{row:?}");
        assert_eq!(row.get("_ws.col.Info"), Some(self.lines.join("; ").as_str()));
        for field in ["tlp.expert.malformed", "tlp.expert.length", "tlp.expert.truncated"] {
            assert!(!row.has(field), "{field} of {row:?}");
        }
    }
}

/// Compares every TLP of `file` with its position in its frame's row. Returns one word per datagram.
pub(crate) fn compare_joined(file: &[u8], rows: &[Values]) -> Vec<String> {
    let mut reader = Reader::new(std::io::Cursor::new(file)).unwrap();
    let (mut matcher, mut responses) = (Matcher::new(), BTreeMap::new());
    let mut frames: Vec<Expected> = rows.iter().map(|_| Expected::default()).collect();
    while let Some(record) = reader.next_record().unwrap() {
        let at = record.number as usize - 1;
        frames[at].add(&record, &rows[at]);
        frames[at].add_match(&record, &mut matcher, &mut responses);
    }
    for ((number, row), expected) in (1..).zip(rows).zip(&frames) {
        expected.compare(row);
        assert_eq!(row.numbers("tlp.response_in"), responses.remove(&number).unwrap_or_default(), "{row:?}");
    }
    frames.iter().map(|expected| expected.words.join(" ")).collect()
}
