// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts descriptors of the design, RQ and CC, to TLPs on the wire (PG023, PG156, PG213: "Requester Request Descriptor Formats",
//! "Completer Completion Descriptor Format"). Independent of beats and of the link. The parser checks whether a TLP is legal.

use super::pack::{COMPLETION_DW, REQUEST_DW, request_type};
use crate::findings::Rule;

/// A received packet of the design.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came<'a> {
    pub(super) words: &'a [u32],
    /// first_be and last_be.
    pub(super) enables: [u8; 2],
    /// Number of words between descriptor and data, which align the data.
    pub(super) gap: usize,
}

/// Fields of an RQ descriptor that are not part of its TLP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RequestFields {
    /// The function's number in the block.
    pub(super) function: u8,
    pub(super) tag: u8,
    pub(super) is_posted: bool,
}

/// Builds the first header word from the fields that both kinds of descriptors have in their last word.
fn first_word(format_and_type: u32, length: u32, at: u32, is_poisoned: bool, last: u32) -> u32 {
    let (tc, attr) = (last >> 25 & 7, last >> 28 & 7);
    format_and_type << 24
        | tc << 20
        | (attr >> 2) << 18
        | u32::from(is_poisoned) << 14
        | (attr & 3) << 12
        | at << 10
        | length & 0x3ff
}

/// Checks that the number of data words is the one in the descriptor.
fn check_data(stream: &'static str, sent: usize, said: u32) -> Result<(), Rule> {
    if sent == said as usize { Ok(()) } else { Err(Rule::Dwords { stream, sent, said }) }
}

/// Appends the TLP of an RQ packet to `bytes`, with a Requester ID of zero.
pub(super) fn request(came: Came<'_>, bytes: &mut Vec<u8>) -> Result<RequestFields, Rule> {
    let Some((&[lower, upper, third, fourth], rest)) = came.words.split_first_chunk::<REQUEST_DW>() else {
        return Err(Rule::Dwords { stream: "s_axis_rq", sent: came.words.len(), said: REQUEST_DW as u32 });
    };
    use request_type::*;
    let kind = third >> 11 & 0xf;
    // Type bits, and whether the request has data; the header size is set below.
    let (type_bits, has_data) = match kind {
        MEMORY_READ => (0b0_0000, false),
        MEMORY_WRITE => (0b0_0000, true),
        IO_READ => (0b0_0010, false),
        IO_WRITE => (0b0_0010, true),
        FETCH_ADD => (0b0_1100, true),
        SWAP => (0b0_1101, true),
        COMPARE_SWAP => (0b0_1110, true),
        READ_LOCKED => (0b0_0001, false),
        _ => return Err(Rule::RequestType(kind)),
    };
    let length = third & 0x7ff;
    if !(1..=1024).contains(&length) {
        return Err(Rule::DwordCount(length));
    }
    let data = rest.get(came.gap.min(rest.len())..).unwrap_or_default();
    check_data("s_axis_rq", data.len(), if has_data { length } else { 0 })?;
    let is_io = matches!(kind, IO_READ | IO_WRITE);
    let is_long = upper != 0 && !is_io;
    let format = u32::from(has_data) << 1 | u32::from(is_long);
    let [first_be, last_be] = match kind {
        FETCH_ADD | SWAP | COMPARE_SWAP => [0, 0],
        _ => came.enables.map(u32::from),
    };
    let tag = fourth & 0xff;
    let header = [
        first_word(format << 5 | type_bits, length, lower & 3, third >> 15 & 1 == 1, fourth),
        tag << 8 | last_be << 4 | first_be,
    ];
    bytes.extend(header.iter().flat_map(|word| word.to_be_bytes()));
    if is_long {
        bytes.extend(upper.to_be_bytes());
    }
    bytes.extend((lower & !3).to_be_bytes());
    bytes.extend(data.iter().flat_map(|word| word.to_le_bytes()));
    Ok(RequestFields { function: (third >> 16) as u8, tag: tag as u8, is_posted: kind == MEMORY_WRITE })
}

/// Double-words after the descriptor of an unsuccessful completion: fields of its request.
const REFUSED_DW: usize = 5;

/// Appends the TLP of a CC packet to `bytes`, and returns the completer's number.
pub(super) fn completion(came: Came<'_>, bytes: &mut Vec<u8>) -> Result<u8, Rule> {
    let Some((&[first, second, third], rest)) = came.words.split_first_chunk::<COMPLETION_DW>() else {
        return Err(Rule::Dwords { stream: "s_axis_cc", sent: came.words.len(), said: COMPLETION_DW as u32 });
    };
    let status = second >> 11 & 7;
    let mut length = second & 0x7ff;
    let mut data = rest.get(came.gap.min(rest.len())..).unwrap_or_default();
    if status != 0 && [0, REFUSED_DW].contains(&rest.len()) {
        (length, data) = (0, &[]);
    }
    if length > 1024 {
        return Err(Rule::DwordCount(length));
    }
    check_data("s_axis_cc", data.len(), length)?;
    let is_locked = first >> 29 & 1;
    let format = if length > 0 { 0b010 } else { 0b000 };
    let header = [
        first_word(format << 5 | 0b0_1010 | is_locked, length, first >> 8 & 3, second >> 14 & 1 == 1, third),
        (third >> 8) << 16 | status << 13 | first >> 16 & 0xfff,
        second >> 16 << 16 | (third & 0xff) << 8 | first & 0x7f,
    ];
    bytes.extend(header.iter().flat_map(|word| word.to_be_bytes()));
    bytes.extend(data.iter().flat_map(|word| word.to_le_bytes()));
    Ok((third >> 8) as u8)
}
