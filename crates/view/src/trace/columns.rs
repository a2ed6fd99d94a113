// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The data of each record in the page, packed as columns.
//!
//! A chunk has up to [`CHUNK_ROWS`] rows and can be unpacked by itself. An unpacked chunk begins with the length of
//! each of [`COLUMNS`] in bytes as a little-endian u32. Then follow the columns:
//!
//! | column | bytes per row | content |
//! |---|---|---|
//! | `kind` | 1 | bits 1:0 [`TLP`], [`DLLP`], [`OTHER`] or [`BAD`]; bit 2 issued by the host; bit 3 damaged, bit 4 dropped on the link; bit 5 ECRC checked, bit 6 ECRC bad; bit 7 has prefixes |
//! | `first` | 1 | first byte of the header of a TLP (Fmt and Type) or DLLP; 0 without a header |
//! | `number` | varint, signed | frame number minus the previous row's |
//! | `time` | varint, signed | ps since the capture's first frame minus the previous row's |
//! | `interface`, `path`, `text` | varint | index in the table of that name, from 1; 0 for none |
//! | `dw0` to `dw3` | varint, signed | DW of a TLP or DLLP header minus the same DW of the last row with the same first byte; `dw3` only if the header has it |
//! | `length` | varint, signed | bytes on the wire minus the same value of that row |
//! | `cut` | varint | number of these bytes that were not captured |
//! | `held` | varint | captured data bytes of a TLP |
//! | `sequence`, `stamp` | varint, signed | field of the NetTLP header minus the same field of the interface's last row |
//! | `place` | varint, signed | place of a TLP in its lane plus 1 ([`Mark`](capture::Mark)), or 0 without a place; minus the same value of the interface's last row |
//! | `outcome` | varint | bit 0 seen before; bit 1 taken; bit 2 ends a bus probe; from bit 3 on, errors ([`Outcome`](capture::Outcome)) |
//! | `back` | varint | for a completion, its frame number minus its request's; 0 for none |
//! | `forwards` | varint | for a forwarded request, its frame number minus the number of its first record on another link; otherwise 0 |
//! | `response` | varint | response time in ps plus 1 if a transaction completes here; otherwise 0 |
//! | `waited` | varint | part of the response time after the first data in ps plus 1; 0 without data |
//! | `means` | varint, text | length in bytes and UTF-8 text of a TLP's meaning ([`Meaning`](capture::Meaning)); 0 for none |
//!
//! Varints are LEB128, and signed varints use zigzag. Differences have 32 bits and wrap; those of `number`, `time` and
//! `place` have 64 bits. The code never panics, and holds at most one chunk.

use flate2::{Compression, write::ZlibEncoder};
use std::io::Write;

/// Rows in a chunk.
pub const CHUNK_ROWS: usize = 65_536;

/// Names of the columns, in order.
pub const COLUMNS: [&str; 23] = [
    "kind",
    "first",
    "number",
    "time",
    "interface",
    "path",
    "text",
    "dw0",
    "dw1",
    "dw2",
    "dw3",
    "length",
    "cut",
    "held",
    "sequence",
    "stamp",
    "place",
    "outcome",
    "back",
    "forwards",
    "response",
    "waited",
    "means",
];

/// Index of `dw0` in [`COLUMNS`].
const HEADER_AT: usize = 7;

/// A TLP.
pub const TLP: u8 = 0;
/// A DLLP.
pub const DLLP: u8 = 1;
/// A valid record that is neither a TLP nor a DLLP.
pub const OTHER: u8 = 2;
/// An unreadable record.
pub const BAD: u8 = 3;
/// In `kind`: the host issued the transaction.
pub const HOST: u8 = 1 << 2;
/// In `kind`: bits were flipped on the link.
pub const DAMAGED: u8 = 1 << 3;
/// In `kind`: the record was lost on the link.
pub const DROPPED: u8 = 1 << 4;
/// In `kind`: the ECRC was checked.
pub const ECRC: u8 = 1 << 5;
/// In `kind`: the ECRC is bad.
pub const BAD_ECRC: u8 = 1 << 6;
/// In `kind`: the TLP has prefixes.
pub const PREFIXED: u8 = 1 << 7;

/// Maximum number of interfaces.
pub const MAX_INTERFACES: usize = 256;
/// Number of interfaces whose last NetTLP header is kept: the size of the table of interfaces.
const LANES: usize = MAX_INTERFACES + 1;
/// Number of kept headers: one per first byte of TLPs and of DLLPs, and one for rows without a header.
const CONTEXTS: usize = 513;

/// The data of one record in the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Row {
    /// Number of the frame in the file, from 1; 0 for a fault of the file.
    pub number: u64,
    /// Picoseconds since the first frame; negative if frames are out of order.
    pub time_ps: i64,
    /// [`TLP`], [`DLLP`], [`OTHER`] or [`BAD`], with [`HOST`], [`DAMAGED`], [`DROPPED`], [`ECRC`], [`BAD_ECRC`],
    /// [`PREFIXED`].
    pub kind: u8,
    /// Index in the table of interfaces, from 1; 0 for none.
    pub interface: u32,
    /// Index in the table of paths, from 1; 0 for none.
    pub path: u32,
    /// Index in the table of texts, from 1; 0 for none.
    pub text: u32,
    /// The header in DWs. For a DLLP: its first four bytes, then its CRC.
    pub header: [u32; 4],
    /// Number of captured bytes.
    pub captured: u32,
    /// Number of bytes on the wire.
    pub original: u32,
    /// Number of captured data bytes of a TLP.
    pub held: u32,
    /// NetTLP sequence number.
    pub sequence: u16,
    /// NetTLP timestamp.
    pub stamp: u32,
    /// Place among the TLPs of its lane, from 1; 0 if unknown.
    pub place: u64,
    /// Effect on the transactions, as in the column `outcome`.
    pub outcome: u16,
    /// For a completion, its frame number minus its request's; 0 for none.
    pub back: u64,
    /// For a forwarded request, its frame number minus the number of its first record on another link; otherwise 0.
    pub forwards: u64,
    /// Response time of the transaction that completes here, in ps.
    pub response_ps: Option<u64>,
    /// Time of that transaction from the request to the first data, in ps.
    pub first_data_ps: Option<u64>,
}

impl Row {
    fn waited(&self) -> u64 {
        let ps = self.response_ps.zip(self.first_data_ps).map(|(all, first)| all.saturating_sub(first));
        ps.map_or(0, |ps| ps.saturating_add(1))
    }

    const fn first(&self) -> u8 {
        (self.header[0] >> 24) as u8
    }

    fn context(&self) -> usize {
        match self.kind & 3 {
            TLP => self.first().into(),
            DLLP => 256 + usize::from(self.first()),
            _ => CONTEXTS - 1,
        }
    }

    // Number of DWs in the header. The lowest bit of Fmt selects three or four (`PCIe 5.0 Table 2-2`).
    const fn header_dw(&self) -> usize {
        match self.kind & 3 {
            TLP => 3 + (self.header[0] >> 29 & 1) as usize,
            DLLP => 2,
            _ => 0,
        }
    }
}

/// The rows of the current chunk.
pub struct Columns {
    columns: [Vec<u8>; COLUMNS.len()],
    rows: usize,
    number: u64,
    time_ps: i64,
    headers: Vec<([u32; 4], u32)>,
    lanes: Vec<(u16, u32, u64)>,
}

impl Default for Columns {
    fn default() -> Columns {
        Columns::new()
    }
}

impl Columns {
    /// Returns an empty chunk.
    pub fn new() -> Columns {
        Columns {
            columns: Default::default(),
            rows: 0,
            number: 0,
            time_ps: 0,
            headers: vec![Default::default(); CONTEXTS],
            lanes: vec![Default::default(); LANES],
        }
    }

    /// Returns the number of rows so far.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Adds a row with its meaning, which may be empty.
    pub fn push(&mut self, row: &Row, means: &str) {
        let (header, length) = self.headers[row.context()];
        let lane = (row.interface as usize).min(LANES - 1);
        let (sequence, stamp, place) = self.lanes[lane];
        let before_header = [
            zigzag(row.number.wrapping_sub(self.number) as i64),
            zigzag(row.time_ps.wrapping_sub(self.time_ps)),
            row.interface.into(),
            row.path.into(),
            row.text.into(),
        ];
        let behind_header = [
            difference(row.original, length),
            row.original.saturating_sub(row.captured).into(),
            row.held.into(),
            difference(row.sequence.into(), sequence.into()),
            difference(row.stamp, stamp),
            zigzag(row.place.wrapping_sub(place) as i64),
            row.outcome.into(),
            row.back,
            row.forwards,
            row.response_ps.map_or(0, |ps| ps.saturating_add(1)),
            row.waited(),
            means.len() as u64,
        ];
        // The first two columns are bytes, not varints.
        self.columns[0].push(row.kind);
        self.columns[1].push(row.first());
        self.push_all(2, &before_header);
        self.push_header(row, &header);
        self.push_all(HEADER_AT + header.len(), &behind_header);
        self.columns[COLUMNS.len() - 1].extend(means.as_bytes());
        self.headers[row.context()] = (row.header, row.original);
        self.lanes[lane] = (row.sequence, row.stamp, row.place);
        (self.number, self.time_ps) = (row.number, row.time_ps);
        self.rows += 1;
    }

    fn push_all(&mut self, first: usize, values: &[u64]) {
        for (column, value) in self.columns[first..].iter_mut().zip(values) {
            varint(column, *value);
        }
    }

    fn push_header(&mut self, row: &Row, last: &[u32; 4]) {
        let columns = &mut self.columns[HEADER_AT..];
        for ((column, dw), last) in columns.iter_mut().zip(row.header).zip(last).take(row.header_dw()) {
            varint(column, difference(dw, *last));
        }
    }

    /// Returns the packed chunk, and starts an empty one.
    pub fn take_packed(&mut self) -> Vec<u8> {
        let full = std::mem::take(self);
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(6));
        let lengths = full.columns.iter().flat_map(|column| (column.len() as u32).to_le_bytes());
        let lengths: Vec<u8> = lengths.collect();
        let parts = std::iter::once(&lengths).chain(&full.columns);
        // Writing to memory cannot fail.
        for part in parts {
            let _ = encoder.write_all(part);
        }
        encoder.finish().unwrap_or_default()
    }
}

const fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

const fn difference(value: u32, last: u32) -> u64 {
    zigzag(value.wrapping_sub(last) as i32 as i64)
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_leb128() {
        // Rows of the LEB128 description in DWARF 5, section 7.6, Table 7.7 (unsigned).
        let rows: [(u64, &[u8]); 5] =
            [(2, &[2]), (127, &[127]), (128, &[0x80, 1]), (129, &[0x81, 1]), (12857, &[57 + 0x80, 100])];
        for (value, bytes) in rows {
            let mut out = Vec::new();
            varint(&mut out, value);
            assert_eq!(out, bytes, "{value}");
        }
    }

    #[test]
    fn zigzag_maps_small_numbers_to_small_numbers() {
        let rows = [(0, 0), (-1, 1), (1, 2), (-2, 3), (i64::MAX, u64::MAX - 1), (i64::MIN, u64::MAX)];
        for (value, coded) in rows {
            assert_eq!(zigzag(value), coded, "{value}");
        }
    }

    #[test]
    fn differences_wrap_in_32_bits() {
        assert_eq!(difference(0, u32::MAX), 2);
        assert_eq!(difference(u32::MAX, 0), 1);
    }
}
