// SPDX-License-Identifier: Apache-2.0 OR MIT
//! pcap: a file header of 24 bytes, then records of 16 bytes of header and the captured bytes.
//!
//! ```text
//! file:    magic u32, major u16, minor u16, reserved 8 B, snaplen u32, link type u32
//! record:  seconds u32, fraction u32, captured length u32, original length u32
//! ```

use super::source::{Order, Source, cut_short, resync};
use super::{Defect, Found, Interface, MAX_FRAME_LEN, Mark, Step, Unreadable};
use crate::time::{Resolution, Timestamp};
use std::io::{self, Read};

pub(super) const FILE_HEADER_LEN: usize = 24;
const RECORD_HEADER_LEN: usize = 16;
const SECONDS_PER_DAY: u32 = 86_400;
/// Minimum frame length during the search for the next valid record: an Ethernet header.
const MIN_FRAME_LEN: u32 = 14;

pub(super) struct Pcap {
    order: Order,
    resolution: Resolution,
    last_second: Option<u32>,
}

#[derive(Clone, Copy)]
struct RecordHeader {
    second: u32,
    fraction: u32,
    captured: u32,
    original: u32,
}

/// Returns true if a file with these first four bytes is a pcap.
pub(super) const fn is_magic(bytes: u32) -> bool {
    matches!(bytes, 0xa1b2_c3d4 | 0xa1b2_3c4d | 0xd4c3_b2a1 | 0x4d3c_b2a1)
}

impl Pcap {
    /// Reads the file header, whose magic number the caller has checked.
    pub(super) fn parse(window: &[u8]) -> Result<(Pcap, Interface), Unreadable> {
        if window.len() < FILE_HEADER_LEN {
            let have = window.len();
            let what = format!("it holds {have} bytes, a pcap header needs {FILE_HEADER_LEN}");
            return Err(Unreadable::Unknown(what));
        }
        let (order, resolution) = match Order::Big.u32(window, 0) {
            0xa1b2_c3d4 => (Order::Big, Resolution::MICROSECONDS),
            0xa1b2_3c4d => (Order::Big, Resolution::NANOSECONDS),
            0xd4c3_b2a1 => (Order::Little, Resolution::MICROSECONDS),
            _ => (Order::Little, Resolution::NANOSECONDS),
        };
        let version = order.u16(window, 4);
        if version != 2 {
            return Err(Unreadable::Unknown(format!("pcap of version {version}: expected 2")));
        }
        // The upper half of this field describes a frame check sequence.
        let link_type = order.u32(window, 20) as u16;
        let interface = Interface::new(link_type, resolution, order.u32(window, 16));
        Ok((Pcap { order, resolution, last_second: None }, interface))
    }

    /// Reads the next record, and stores the position of its frame in `found`.
    pub(super) fn step<R: Read>(&mut self, source: &mut Source<R>, found: &mut Found) -> io::Result<Step> {
        if !source.need(RECORD_HEADER_LEN)? {
            return Ok(cut_short(source, RECORD_HEADER_LEN));
        }
        let header = self.header(source.window());
        if let Some(what) = self.defect(header) {
            return self.resync(source, what);
        }
        let record_len = RECORD_HEADER_LEN + header.captured as usize;
        if !source.need(record_len)? {
            return self.last_record(source, header, record_len);
        }
        self.last_second = Some(header.second);
        let units = u64::from(header.second) * self.units_per_second() + u64::from(header.fraction);
        *found = Found {
            timestamp: Timestamp::from_units(units, self.resolution, 0),
            interface_id: 0,
            original_len: header.original as usize,
            bytes: RECORD_HEADER_LEN..record_len,
            record_len,
            mark: Mark::default(),
            direction: None,
            is_untimed: false,
        };
        Ok(Step::Frame)
    }

    fn units_per_second(&self) -> u64 {
        if self.resolution == Resolution::NANOSECONDS { 1_000_000_000 } else { 1_000_000 }
    }

    fn header(&self, window: &[u8]) -> RecordHeader {
        let field = |at| self.order.u32(window, at);
        RecordHeader { second: field(0), fraction: field(4), captured: field(8), original: field(12) }
    }

    fn defect(&self, header: RecordHeader) -> Option<Defect> {
        let RecordHeader { fraction, captured, original, .. } = header;
        if captured as usize > MAX_FRAME_LEN || captured > original {
            return Some(Defect::RecordLength { captured, original });
        }
        (u64::from(fraction) >= self.units_per_second()).then_some(Defect::Fraction(fraction))
    }

    // The file ends within this record. Either the record is truncated, or its length is wrong and valid records
    // follow within it.
    fn last_record<R: Read>(
        &mut self,
        source: &mut Source<R>,
        header: RecordHeader,
        record_len: usize,
    ) -> io::Result<Step> {
        let have = source.window().len();
        if (1..have).any(|at| self.sound_at(&source.window()[at..])) {
            let RecordHeader { captured, original, .. } = header;
            return self.resync(source, Defect::RecordLength { captured, original });
        }
        Ok(cut_short(source, record_len))
    }

    fn resync<R: Read>(&mut self, source: &mut Source<R>, what: Defect) -> io::Result<Step> {
        // Enough bytes for the longest record and the header after it.
        resync(source, what, MAX_FRAME_LEN + 2 * RECORD_HEADER_LEN, |window| self.sound_at(window))
    }

    /// Returns true if a valid record starts here, and another one or the end of the file follows it.
    fn sound_at(&self, window: &[u8]) -> bool {
        let Some(first) = self.believable(window, self.last_second) else { return false };
        let next = &window[(RECORD_HEADER_LEN + first.captured as usize).min(window.len())..];
        let whole = window.len() >= RECORD_HEADER_LEN + first.captured as usize;
        whole && (next.is_empty() || self.believable(next, Some(first.second)).is_some())
    }

    fn believable(&self, window: &[u8], near: Option<u32>) -> Option<RecordHeader> {
        if window.len() < RECORD_HEADER_LEN {
            return None;
        }
        let header = self.header(window);
        let fits = near.is_none_or(|second| header.second.abs_diff(second) <= SECONDS_PER_DAY)
            && header.captured >= MIN_FRAME_LEN
            && header.original as usize <= MAX_FRAME_LEN
            && self.defect(header).is_none();
        fits.then_some(header)
    }
}
