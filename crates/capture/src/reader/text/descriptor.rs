// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts packets with descriptors to TLPs. AMD's blocks use descriptors in place of headers on their streams RQ,
//! RC, CQ and CC (PG156, PG213: "Requester Request Descriptor Formats" and the three others). Data must directly
//! follow the descriptor (dword-aligned mode).
//!
//! The block may itself choose the Requester ID and tag of an RQ packet, and the completer ID of a CC packet. The
//! TLP here has the values in the descriptor.

use super::error::PacketError;
use crate::reader::Direction;

/// A stream with descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::reader) enum Stream {
    /// Requester requests.
    Rq,
    /// Requester completions.
    Rc,
    /// Completer requests.
    Cq,
    /// Completer completions.
    Cc,
}

impl Stream {
    pub(in crate::reader) const ALL: [(&str, Stream); 4] =
        [("rq", Stream::Rq), ("rc", Stream::Rc), ("cq", Stream::Cq), ("cc", Stream::Cc)];

    pub(in crate::reader) const fn name(self) -> &'static str {
        match self {
            Stream::Rq => "RQ",
            Stream::Rc => "RC",
            Stream::Cq => "CQ",
            Stream::Cc => "CC",
        }
    }

    /// Returns the direction of the packets. The design is the device, so its requests and completions go upstream.
    pub(super) const fn direction(self) -> Direction {
        match self {
            Stream::Rq | Stream::Cc => Direction::Upstream,
            Stream::Rc | Stream::Cq => Direction::Downstream,
        }
    }

    /// Returns true if tuser has the byte enables.
    pub(in crate::reader) const fn has_enables(self) -> bool {
        matches!(self, Stream::Rq | Stream::Cq)
    }

    /// Converts a packet to a TLP. `enables` are first_be and last_be.
    pub(super) fn tlp(self, words: &[u32], enables: [u8; 2]) -> Result<Vec<u8>, PacketError> {
        match self {
            Stream::Rq | Stream::Cq => request(self, words, enables),
            Stream::Rc | Stream::Cc => completion(self, words),
        }
    }
}

/// Returns first_be and last_be from tuser: bits 3:0 and 7:4, or bits 3:0 and 11:8 in a stream of 512 bits.
pub(super) const fn enables_of(tuser: u32, is_512: bool) -> [u8; 2] {
    [tuser as u8 & 0xf, (tuser >> if is_512 { 8 } else { 4 }) as u8 & 0xf]
}

/// Request types of descriptors: Type of the header, and whether the request has data.
const REQUESTS: [(u32, bool); 8] = [
    (0b0_0000, false),
    (0b0_0000, true),
    (0b0_0010, false),
    (0b0_0010, true),
    (0b0_1100, true),
    (0b0_1101, true),
    (0b0_1110, true),
    (0b0_0001, false),
];
const IO: std::ops::RangeInclusive<u32> = 2..=3;
const ATOMIC: std::ops::RangeInclusive<u32> = 4..=6;

/// Compares the amount of data with the descriptor.
fn check_data(stream: Stream, data: &[u32], length: u32) -> Result<(), PacketError> {
    match data.len() {
        have if have == length as usize => Ok(()),
        have => Err(PacketError::Data(stream.name(), have, length)),
    }
}

/// Returns the first DW of a header. `last` is the last DW of the descriptor.
fn first_dword(fmt_and_type: u32, length: u32, at: u32, is_poisoned: bool, last: u32) -> u32 {
    let (tc, attr) = (last >> 25 & 7, last >> 28 & 7);
    let ep = u32::from(is_poisoned);
    fmt_and_type << 24
        | tc << 20
        | (attr >> 2) << 18
        | ep << 14
        | (attr & 3) << 12
        | at << 10
        | length & 0x3ff
}

fn bytes_of(header: &[u32], data: &[u32]) -> Vec<u8> {
    let header = header.iter().flat_map(|dw| dw.to_be_bytes());
    header.chain(data.iter().flat_map(|dw| dw.to_le_bytes())).collect()
}

fn request(stream: Stream, words: &[u32], enables: [u8; 2]) -> Result<Vec<u8>, PacketError> {
    let Some((&[lower, upper, third, fourth], data)) = words.split_first_chunk() else {
        return Err(PacketError::TooShort(stream.name(), words.len(), 4));
    };
    let kind = third >> 11 & 0xf;
    let Some((type_bits, has_data)) = REQUESTS.get(kind as usize).copied() else {
        return Err(PacketError::RequestType(stream.name(), kind));
    };
    let length = third & 0x7ff;
    if !(1..=1024).contains(&length) {
        return Err(PacketError::DwordCount(stream.name(), length, 1));
    }
    check_data(stream, data, if has_data { length } else { 0 })?;
    let is_long = upper != 0 && !IO.contains(&kind);
    let fmt = u32::from(has_data) << 1 | u32::from(is_long);
    let [first_be, last_be] = if ATOMIC.contains(&kind) { [0; 2] } else { enables.map(u32::from) };
    // Bit 15 is reserved in CQ.
    let is_poisoned = stream == Stream::Rq && third >> 15 & 1 == 1;
    let mut header = vec![
        first_dword(fmt << 5 | type_bits, length, lower & 3, is_poisoned, fourth),
        third >> 16 << 16 | (fourth & 0xff) << 8 | last_be << 4 | first_be,
    ];
    header.extend(is_long.then_some(upper));
    header.push(lower & !3);
    Ok(bytes_of(&header, data))
}

/// Number of DWs that may follow the descriptor of an unsuccessful completion. They describe its request.
const REFUSED_DW: usize = 5;

fn completion(stream: Stream, words: &[u32]) -> Result<Vec<u8>, PacketError> {
    let Some((&[first, second, third], mut data)) = words.split_first_chunk() else {
        return Err(PacketError::TooShort(stream.name(), words.len(), 3));
    };
    let error = first >> 12 & 0xf;
    // Only the codes for normal, poisoned and bad status belong to a completion. The other codes report wrong data,
    // or a request that ended without a completion.
    if stream == Stream::Rc && error > 0b0010 {
        return Err(PacketError::ErrorCode(stream.name(), error));
    }
    let status = second >> 11 & 7;
    let mut length = second & 0x7ff;
    if status != 0 && (data.is_empty() || stream == Stream::Cc && data.len() == REFUSED_DW) {
        (length, data) = (0, &[]);
    }
    if length > 1024 {
        return Err(PacketError::DwordCount(stream.name(), length, 0));
    }
    check_data(stream, data, length)?;
    let at = if stream == Stream::Cc { first >> 8 & 3 } else { 0 };
    let fmt_and_type = u32::from(length > 0) << 6 | 0b0_1010 | first >> 29 & 1;
    let header = [
        first_dword(fmt_and_type, length, at, second >> 14 & 1 == 1, third),
        (third >> 8 & 0xffff) << 16 | status << 13 | first >> 16 & 0xfff,
        second >> 16 << 16 | (third & 0xff) << 8 | first & 0x7f,
    ];
    Ok(bytes_of(&header, data))
}
