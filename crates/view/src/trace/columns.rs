// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records as columns: what the page keeps of each, packed.
//!
//! A chunk holds up to [`CHUNK_ROWS`] rows and stands for itself. Unpacked, it is the length in bytes of each of
//! [`COLUMNS`] as a little-endian u32, then the columns one behind the other:
//!
//! | column | bytes a row | holds |
//! |---|---|---|
//! | `kind` | 1 | bits 1:0 [`TLP`], [`DLLP`], [`OTHER`] or [`BAD`]; bit 2 host-issued; bit 3 damaged, bit 4 dropped on the way; bit 5 has an ECRC that could be checked, bit 6 and it is bad; bit 7 has prefixes |
//! | `first` | 1 | first byte of the header of a TLP (Fmt and Type) or DLLP; 0 where there is none |
//! | `number` | varint, signed | frame number, less that of the row before |
//! | `time` | varint, signed | ps since the capture's first frame, less that of the row before |
//! | `interface`, `path`, `text` | varint | place in the table of that name, from 1 on; 0 is none |
//! | `dw0` to `dw3` | varint, signed | header of a TLP or DLLP, less that of the last row with the same first byte; `dw3` only where the header has it |
//! | `length` | varint, signed | bytes on the wire, less those of that row |
//! | `cut` | varint | of them, bytes not captured |
//! | `held` | varint | data bytes of a TLP that were captured |
//! | `sequence`, `stamp` | varint, signed | NetTLP header, less that of the last row of the interface |
//! | `place` | varint, signed | 1 more than the place of a TLP in its lane ([`Mark`](capture::Mark)), 0 for none, less that of the last row of the interface |
//! | `outcome` | varint | bit 0 seen before, bit 1 taken, bit 2 ends a bus probe, from bit 3 on what is wrong ([`Outcome`](capture::Outcome)) |
//! | `back` | varint | frame number, less that of the request that a completion answers; 0 is none |
//! | `forwards` | varint | of a forwarded request: frame number, less that of its first record on another link; else 0 |
//! | `response` | varint | 1 more than the response time in ps where a transaction is completed here, else 0 |
//! | `waited` | varint | of it, 1 more than the ps from the first data on; 0 where no data came |
//! | `means` | varint, text | length in bytes and UTF-8 of what a TLP means ([`Meaning`](capture::Meaning)); 0 for none |
//!
//! Varints are LEB128; signed ones zigzag. All differences wrap in 32 bits but those of `number`, `time` and `place`, which
//! stay within 64 bits. Never panics; never holds more than a chunk.

use flate2::{Compression, write::ZlibEncoder};
use std::io::Write;

/// Rows of a chunk.
pub const CHUNK_ROWS: usize = 65_536;

/// Names of the columns, in their order.
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

/// Where `dw0` stands in [`COLUMNS`].
const HEADER_AT: usize = 7;

/// A TLP.
pub const TLP: u8 = 0;
/// A DLLP.
pub const DLLP: u8 = 1;
/// Neither, but sound.
pub const OTHER: u8 = 2;
/// Not to be read.
pub const BAD: u8 = 3;
/// In `kind`: the host issued the transaction.
pub const HOST: u8 = 1 << 2;
/// In `kind`: bits of it were flipped on the way.
pub const DAMAGED: u8 = 1 << 3;
/// In `kind`: it vanished on the way.
pub const DROPPED: u8 = 1 << 4;
/// In `kind`: it has an ECRC that could be checked.
pub const ECRC: u8 = 1 << 5;
/// In `kind`: that ECRC is not its own.
pub const BAD_ECRC: u8 = 1 << 6;
/// In `kind`: it has prefixes.
pub const PREFIXED: u8 = 1 << 7;

/// Interfaces whose last NetTLP header is remembered; as many as the table of interfaces has rows.
const LANES: usize = super::tables::MAX_INTERFACES + 1;
/// Headers remembered: by first byte, TLPs and DLLPs apart, and one for what has no header.
const CONTEXTS: usize = 513;

/// What the page keeps of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Row {
    /// Place among the frames of the file, from 1 on; 0 for a fault of the file.
    pub number: u64,
    /// Picoseconds since the first frame; negative where frames are out of order.
    pub time_ps: i64,
    /// [`TLP`], [`DLLP`], [`OTHER`] or [`BAD`], with [`HOST`], [`DAMAGED`], [`DROPPED`], [`ECRC`], [`BAD_ECRC`],
    /// [`PREFIXED`].
    pub kind: u8,
    /// Place in the table of interfaces; 0 is none.
    pub interface: u32,
    /// Place in the table of paths; 0 is none.
    pub path: u32,
    /// Place in the table of texts; 0 is none.
    pub text: u32,
    /// The header, DW by DW; of a DLLP its first four bytes, then its CRC.
    pub header: [u32; 4],
    /// Bytes captured.
    pub captured: u32,
    /// Bytes on the wire.
    pub original: u32,
    /// Data bytes of a TLP that were captured.
    pub held: u32,
    /// NetTLP sequence number.
    pub sequence: u16,
    /// NetTLP timestamp.
    pub stamp: u32,
    /// Place among the TLPs of its lane, from 1 on; 0 is unknown.
    pub place: u64,
    /// What it means for the transactions, as in the column.
    pub outcome: u16,
    /// Frame number, less that of the request that it answers; 0 is none.
    pub back: u64,
    /// For a forwarded request: frame number, less that of its first record on another link; else 0.
    pub forwards: u64,
    /// Response time of the transaction that it completes, ps.
    pub response_ps: Option<u64>,
    /// Of that transaction, from the request to the first data, ps.
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

    // DWs of header: the lowest bit of Fmt says three or four (`PCIe 5.0 Table 2-2`).
    const fn header_dw(&self) -> usize {
        match self.kind & 3 {
            TLP => 3 + (self.header[0] >> 29 & 1) as usize,
            DLLP => 2,
            _ => 0,
        }
    }
}

/// The rows of the chunk that is being filled.
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
    /// An empty chunk.
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

    /// Rows so far.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Adds a row; `means` is what it means, or nothing.
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
        // Whole bytes, not varints.
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

    /// The chunk, packed; the next one begins empty.
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
    fn zigzag_keeps_small_numbers_small() {
        let rows = [(0, 0), (-1, 1), (1, 2), (-2, 3), (i64::MAX, u64::MAX - 1), (i64::MIN, u64::MAX)];
        for (value, coded) in rows {
            assert_eq!(zigzag(value), coded, "{value}");
        }
    }

    #[test]
    fn differences_wrap() {
        assert_eq!(difference(0, u32::MAX), 2);
        assert_eq!(difference(u32::MAX, 0), 1);
    }
}
