// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes TLPs as hexadecimal text, one per line, which [`FileFormat::Hex`](crate::FileFormat::Hex) reads back.

use crate::decode::Record;
use crate::reader::{Direction, TextLine};
use crate::render::append_hex;
use std::fmt::Write;
use tlp::Header;

/// Appends the line of a record with a line end. Returns false if the record is not a TLP.
pub fn append_line(record: &Record<'_>, out: &mut String) -> bool {
    let bytes = record.tlp_bytes;
    if bytes.is_empty() || record.text.is_some_and(|text| text.is_flit) {
        return false;
    }
    if record.has_time {
        record.timestamp.append_seconds(out);
        out.push(' ');
    }
    append_direction(record, out);
    append_bytes(bytes, out);
    let by_header = Header::new(bytes).map_or(0, |header| header.tlp_len()).max(bytes.len());
    let undefined = record.text.and_then(|text| text.undefined);
    if let Some(dw) = undefined.filter(|_| bytes.len() == 12 && by_header != 16) {
        // The reader recognizes a header log by its fourth dword.
        out.push(' ');
        append_hex(dw.into(), 8, out);
    } else if by_header != record.tlp_wire_len() || bytes.len() == 16 {
        // Writing to a string cannot fail.
        let _ = write!(out, " len={}", record.tlp_wire_len());
    }
    if let Some(TextLine { note, .. }) = record.text.filter(|text| !text.note.is_empty()) {
        let _ = write!(out, " # {note}");
    }
    out.push('\n');
    true
}

/// Appends the interface if it has a direction and its name is one word. Otherwise appends the direction.
fn append_direction(record: &Record<'_>, out: &mut String) {
    let Some(direction) = record.direction else { return };
    let is_word = |name: &str| {
        name.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'#' | b',' | b';' | b'|' | b'['))
    };
    match record.interface {
        Some(interface) if interface.direction.is_some() && is_word(&interface.name) => {
            out.push_str(&interface.name)
        }
        _ => out.push_str(Direction::name(direction)),
    }
    out.push(' ');
}

/// Appends the bytes as DWs with blanks between them, or as one number if the length is not a multiple of a DW.
fn append_bytes(bytes: &[u8], out: &mut String) {
    let width = if bytes.len().is_multiple_of(4) { 4 } else { bytes.len() };
    for (n, group) in bytes.chunks(width).enumerate() {
        if n > 0 {
            out.push(' ');
        }
        group.iter().for_each(|byte| append_hex(u64::from(*byte), 2, out));
    }
}
