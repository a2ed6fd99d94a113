// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bytes of the page: required and forbidden content. Needs no browser.

use crate::common::{generate, page};
use base64::Engine;
use proptest::prelude::*;
use riser_view::trace::columns::{self, COLUMNS, Columns, Row};
use std::io::Read;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Returns the text of the elements that begin with `open`.
fn elements<'a>(page: &'a str, open: &str) -> Vec<&'a str> {
    page.split(open).skip(1).map(|rest| rest.split_once("</script>").unwrap().0).collect()
}

fn chunks(page: &str) -> Vec<Vec<u8>> {
    let packed = elements(page, "<script type=\"text/plain\" class=\"chunk\">");
    packed
        .iter()
        .map(|text| unpack(&base64::engine::general_purpose::STANDARD.decode(text).unwrap()))
        .collect()
}

fn unpack(packed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    flate2::read::ZlibDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    bytes
}

fn meta(page: &str) -> serde_json::Value {
    let [json] = elements(page, "<script type=\"application/json\" id=\"meta\">")[..] else {
        panic!("one meta")
    };
    serde_json::from_str(json).unwrap()
}

#[test]
fn equal_captures_give_equal_bytes() {
    let capture = generate::generated(300);
    assert_eq!(page("a", &capture), page("a", &capture));
}

/// A read of 4 bytes at 0x1004, and a completion whose Lower Address is 0.
#[test]
fn page_has_broken_rules() {
    let bytes = page("a", &generate::wrong_lower_address());
    let violations = &meta(text(&bytes))["violations"];
    assert_eq!(violations["count"], 1);
    assert_eq!(violations["list"][0]["number"], 2);
    let due = "Lower Address 0x0, expected 0x4 (PCIe 6.0 §2.2.9.1, rule lower-address)";
    assert_eq!(violations["list"][0]["text"], due);
}

#[test]
fn untrusted_text_stays_text() {
    let title = "</script><script>alert('1 & 2')</script>.pcap";
    let bytes = page(title, &generate::generated(3));
    let page = text(&bytes);
    assert!(!page.contains("<script>alert"), "the title is markup");
    // The page shows the last part of the title, which it treats as a path.
    assert!(page.contains("<title>script&gt;.pcap - riser trace</title>"));
    assert_eq!(meta(page)["title"], title);
}

#[test]
fn page_makes_no_network_requests() {
    let bytes = page("a", &generate::generated(3));
    let page = text(&bytes);
    assert!(page.contains("http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';"));
    for asks in ["http://", "https://", " src=", "<link", "@import", "url("] {
        assert!(!page.contains(asks), "the page has {asks}");
    }
}

#[test]
fn empty_capture_gives_an_empty_page() {
    let bytes = page("empty", &generate::generated(0)[..]);
    let page = text(&bytes);
    // The three InitFC1 DLLPs of the generator.
    assert_eq!(meta(page)["rows"], 3);
    let page = riser_view::TracePage::new("empty");
    let mut out = Vec::new();
    page.write(&mut out).unwrap();
    assert_eq!(meta(text(&out))["rows"], 0);
    assert!(chunks(text(&out)).is_empty());
}

#[test]
fn splits_rows_into_chunks() {
    let capture = generate::generated(columns::CHUNK_ROWS as u64 + 1000);
    let bytes = page("two", &capture);
    let chunks = chunks(text(&bytes));
    let rows: Vec<usize> = chunks.iter().map(|chunk| decode(chunk).len()).collect();
    let all = meta(text(&bytes))["rows"].as_u64().unwrap() as usize;
    assert_eq!(rows, [columns::CHUNK_ROWS, all - columns::CHUNK_ROWS]);
    // A record takes about 10 bytes of the page, without its payload.
    let packed: usize = elements(text(&bytes), "class=\"chunk\">").iter().map(|text| text.len()).sum();
    assert!(packed < all * 12, "{packed} bytes for {all} rows");
}

/// Reads columns by the table in columns.rs.
struct Reading<'a> {
    bytes: &'a [u8],
}

impl Reading<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.bytes.split_first().unwrap();
        self.bytes = rest;
        *first
    }

    fn varint(&mut self) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.byte();
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    }

    fn signed(&mut self) -> i64 {
        let coded = self.varint();
        (coded >> 1) as i64 ^ -((coded & 1) as i64)
    }
}

fn decode(chunk: &[u8]) -> Vec<(Row, String)> {
    let (lengths, mut rest) = chunk.split_at(COLUMNS.len() * 4);
    let mut columns = std::collections::BTreeMap::new();
    for (name, length) in COLUMNS.iter().zip(lengths.chunks_exact(4)) {
        let (bytes, behind) = rest.split_at(u32::from_le_bytes(length.try_into().unwrap()) as usize);
        columns.insert(*name, Reading { bytes });
        rest = behind;
    }
    assert!(rest.is_empty());
    let count = columns["kind"].bytes.len();
    let mut column = |name: &str| columns.remove(name).unwrap();
    let (mut kind, mut first, mut number, mut time) =
        (column("kind"), column("first"), column("number"), column("time"));
    let (mut interface, mut path, mut text) = (column("interface"), column("path"), column("text"));
    let mut dws = [column("dw0"), column("dw1"), column("dw2"), column("dw3")];
    let (mut length, mut cut, mut held) = (column("length"), column("cut"), column("held"));
    let (mut sequence, mut stamp, mut place) = (column("sequence"), column("stamp"), column("place"));
    let (mut outcome, mut back, mut forwards, mut response, mut waited) =
        (column("outcome"), column("back"), column("forwards"), column("response"), column("waited"));
    let mut means = column("means");
    let mut headers = std::collections::BTreeMap::<(u8, u8), ([u32; 4], u32)>::new();
    let mut lanes = std::collections::BTreeMap::<u32, (u16, u32, u64)>::new();
    let mut last = (0u64, 0i64);
    let mut rows = Vec::new();
    for _ in 0..count {
        let (kind, first) = (kind.byte(), first.byte());
        last.0 = last.0.wrapping_add(number.signed() as u64);
        last.1 = last.1.wrapping_add(time.signed());
        let dw_count = match kind & 3 {
            columns::TLP => 3 + usize::from(first >> 5 & 1),
            columns::DLLP => 2,
            _ => 0,
        };
        let context = headers.entry(if dw_count == 0 { (9, 0) } else { (kind & 3, first) }).or_default();
        let mut header = [0; 4];
        for (i, dw) in header.iter_mut().enumerate().take(dw_count) {
            *dw = context.0[i].wrapping_add(dws[i].signed() as u32);
        }
        let original = context.1.wrapping_add(length.signed() as u32);
        *context = (header, original);
        let interface = interface.varint() as u32;
        let lane = lanes.entry(interface).or_default();
        lane.0 = lane.0.wrapping_add(sequence.signed() as u16);
        lane.1 = lane.1.wrapping_add(stamp.signed() as u32);
        lane.2 = lane.2.wrapping_add(place.signed() as u64);
        let response_ps = response.varint().checked_sub(1);
        let first_data_ps = waited.varint().checked_sub(1).zip(response_ps).map(|(waited, all)| all - waited);
        let length = means.varint() as usize;
        let (meaning, rest) = means.bytes.split_at(length);
        means.bytes = rest;
        let meaning = String::from_utf8(meaning.to_vec()).unwrap();
        let row = Row {
            number: last.0,
            time_ps: last.1,
            kind,
            interface,
            path: path.varint() as u32,
            text: text.varint() as u32,
            header,
            captured: original - cut.varint() as u32,
            original,
            held: held.varint() as u32,
            sequence: lane.0,
            stamp: lane.1,
            place: lane.2,
            outcome: outcome.varint() as u16,
            back: back.varint(),
            forwards: forwards.varint(),
            response_ps,
            first_data_ps,
        };
        rows.push((row, meaning));
    }
    rows
}

prop_compose! {
    fn any_row()(
        kind: u8, number: u64, time_ps: i64, interface in 0u32..=256, path: u32, text: u32,
        header: [u32; 4], sizes in (0u32..70_000, 0u32..70_000), held: u32, sequence: u16, stamp: u32, place: u64,
        outcome: u16, (back, forwards) in (any::<u64>(), any::<u64>()), times in prop::option::of((0u64..1 << 62, prop::option::of(0u64..1 << 61))),
    ) -> Row {
        let mut header = header;
        let dws = match kind & 3 {
            columns::TLP => 3 + (header[0] >> 29 & 1) as usize,
            columns::DLLP => 2,
            _ => 0,
        };
        header[dws..].fill(0);
        let response_ps = times.map(|(response, _)| response);
        let first_data_ps = times.and_then(|(response, first)| first.map(|first| first.min(response)));
        Row {
            number, time_ps, kind, interface, path, text, header, captured: sizes.0.min(sizes.1), original: sizes.0,
            held, sequence, stamp, place, outcome, back, forwards, response_ps, first_data_ps,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn reads_back_packed_rows(rows in prop::collection::vec((any_row(), "\\PC{0,9}"), 0..40)) {
        let mut columns = Columns::new();
        for (row, means) in &rows {
            columns.push(row, means);
        }
        prop_assert_eq!(columns.rows(), rows.len());
        prop_assert_eq!(decode(&unpack(&columns.take_packed())), rows);
        prop_assert_eq!(columns.rows(), 0);
    }

    #[test]
    fn damaged_captures_cause_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), cut in 0usize..3000) {
        // A truncated capture, followed by random bytes.
        let mut capture = generate::generated(40);
        capture.truncate(cut.max(40).min(capture.len()));
        capture.extend(bytes);
        if capture::Reader::new(std::io::Cursor::new(&capture)).is_ok() {
            let page = page("cut", &capture);
            prop_assert!(page.ends_with(b"</html>\n"));
        }
    }
}
