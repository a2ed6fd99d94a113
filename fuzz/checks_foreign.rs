// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of the text readers. The fuzz target and the tests of `riser-capture` call them on every seed. A failed
//! check panics.

use riser_capture::{
    ByteOrder, Direction, Explanation, FileFormat, ReadOptions, Reader, Timestamp, Writer, hex_text, render,
};

/// Properties that are the same in a copy of a TLP.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Copied {
    bytes: Vec<u8>,
    wire_len: usize,
    direction: Option<Direction>,
    timestamp: Timestamp,
}

/// Options for reading a text, given by its first byte: format, byte order, flit mode.
fn options(choice: u8) -> ReadOptions {
    let columns = match choice & 7 {
        4 => "time_us=1,dir=2,tlp=3,data=4".parse().ok(),
        5 => "tdata=1,tkeep=2,tlast=3".parse().ok(),
        _ => None,
    };
    let formats: Vec<FileFormat> = FileFormat::all().filter(|format| format.is_text()).collect();
    ReadOptions {
        format: formats.get(usize::from(choice & 7)).copied(),
        byte_order: [None, Some(ByteOrder::Big), Some(ByteOrder::Little), None][usize::from(choice >> 3 & 3)],
        flit: choice >> 5 & 1 == 1,
        columns,
        ..ReadOptions::default()
    }
}

/// Reads bytes as the format that the first byte selects, shows and explains each record, and compares copies as text and pcapng.
/// Returns the number of TLPs and of bad lines, or `None` if the format is unknown.
pub(crate) fn foreign(bytes: &[u8]) -> Option<(usize, usize)> {
    let (choice, text) = bytes.split_first()?;
    let mut reader = Reader::with_options(text, "input", &options(*choice)).ok()?;
    let (mut tlps, mut faults, mut shown) = (Vec::new(), 0, String::new());
    let mut hex = riser_capture::reader::HEX_HEADING.to_owned();
    let mut writer = Writer::of_tlps(Vec::new()).expect("memory");
    let lines =
        text.iter().filter(|byte| **byte == b'\n').count() + 1 + text.len() / riser_capture::reader::MAX_LINE;
    while let Some(record) = reader.next_record().expect("memory") {
        shown.clear();
        render::line(&record, &mut shown);
        render::json(&record, &mut shown);
        let Some(about) = record.text else {
            faults += 1;
            continue;
        };
        assert!((1..=lines as u64).contains(&about.line), "line {} of {lines}", about.line);
        // A logged error may have no header.
        assert_eq!(Explanation::of(&record, None).is_some(), !record.tlp_bytes.is_empty());
        if hex_text::append_line(&record, &mut hex) {
            // A text's time may be later than pcapng can store.
            if writer.copy(record.interface.expect("a text"), &record).is_ok() {
                tlps.push(Copied {
                    bytes: record.tlp_bytes.to_vec(),
                    wire_len: record.tlp_wire_len(),
                    direction: record.direction,
                    timestamp: record.timestamp,
                });
            }
        }
    }
    assert!(!reader.taken_for().is_empty());
    assert!(faults <= lines);
    let written = writer.finish().expect("memory");
    assert_eq!(copied(&written), tlps);
    let read_back = copied(hex.as_bytes());
    assert!(tlps.iter().all(|tlp| read_back.contains(tlp)), "{hex}");
    Some((tlps.len(), faults))
}

fn copied(file: &[u8]) -> Vec<Copied> {
    let mut reader = Reader::new(file).expect("a file that riser wrote");
    let mut all = Vec::new();
    while let Some(record) = reader.next_record().expect("memory") {
        all.push(Copied {
            bytes: record.tlp_bytes.to_vec(),
            wire_len: record.tlp_wire_len(),
            direction: record.direction,
            timestamp: record.timestamp,
        });
    }
    all
}
