// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLPs as bytes (`PCIe 5.0 §2.2`): prefixes, a header of three or four DW, data, and a digest if TD is set. All
//! are big endian, as in the figures of the specification and in NetTLP. Framing, sequence number and LCRC are not
//! included.
//!
//! - [`Header`] is a view of bytes: it reads the fields of [`field`] in place.
//! - [`Repr::parse`](crate::Repr::parse) reads a plain value from bytes. [`Repr::emit`](crate::Repr::emit) writes
//!   it.
//!
//! A view always holds a complete header of a known format, so its accessors cannot fail. This module never panics
//! on bytes from outside, and copies no data.

mod body;
mod error;
pub mod field;
mod parse;
mod plain;

pub(crate) use body::atomic_op;
pub use error::{ParseError, Part};
pub use parse::Parsed;
pub(crate) use parse::may_have_ln;

use crate::format::{Family, Format};
use crate::rules::{RuleId, Violation};
use crate::{AddressType, Attributes, Completion, Prefix, Prefixes, Span, SpanError, Tag, TrafficClass};

/// A field of a header: bits `high` to `low` of one DW, numbered as in the specification. Bit 31 is the first on
/// the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// Number of the DW, 0 to 3.
    pub dw: usize,
    /// Highest bit, 0 to 31.
    pub high: u32,
    /// Lowest bit, 0 to `high`.
    pub low: u32,
}

impl Field {
    /// Bits `high` to `low` of DW `dw`.
    pub const fn new(dw: usize, high: u32, low: u32) -> Field {
        assert!(dw < 4 && high < 32 && low <= high);
        Field { dw, high, low }
    }

    /// The mask of the field, shifted down to bit 0.
    #[must_use]
    pub const fn mask(self) -> u32 {
        u32::MAX >> (31 - (self.high - self.low))
    }

    /// The value of the field in a header.
    ///
    /// # Panics
    /// If `header` ends before the field.
    #[must_use]
    pub fn get(self, header: &[u8]) -> u32 {
        self.of(dw(header, self.dw))
    }

    /// The value of the field in its DW.
    #[must_use]
    pub const fn of(self, dw: u32) -> u32 {
        dw >> self.low & self.mask()
    }

    /// `value` shifted to the field's position in its DW. A value that is too large for the field loses its high
    /// bits.
    #[must_use]
    pub const fn place(self, value: u32) -> u32 {
        (value & self.mask()) << self.low
    }
}

fn dw(header: &[u8], index: usize) -> u32 {
    let b = &header[index * 4..index * 4 + 4];
    u32::from_be_bytes([b[0], b[1], b[2], b[3]])
}

/// A view of a complete header of a known format, and of the prefixes before it.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    prefixes: &'a [u8],
    bytes: &'a [u8],
    format: &'static Format,
}

impl<'a> Header<'a> {
    /// The header at the start of `bytes`, with the prefixes before it. Bytes after the header are ignored. The
    /// fields may have any values; [`Repr::parse_header`](crate::Repr::parse_header) checks the rules.
    ///
    /// # Errors
    /// - [`ParseError::UnknownType`] if [`FORMATS`](crate::format::FORMATS) has no row for its Fmt and Type.
    /// - [`ParseError::Malformed`] if Fmt is reserved or there are too many prefixes.
    /// - [`ParseError::Truncated`] if the header is incomplete.
    pub fn new(bytes: &'a [u8]) -> Result<Header<'a>, ParseError> {
        let (prefixes, rest) = bytes.split_at(prefixes_len(bytes));
        let truncated = |needed| {
            let (part, needed) = (Part::Header, prefixes.len() + needed);
            ParseError::Truncated { part, needed, have: bytes.len() }
        };
        let Some(&first) = rest.first() else { return Err(nothing_behind(prefixes.len(), bytes.len())) };
        crate::rules::check_first_byte(first)?;
        if first >> 5 == PREFIX_FMT {
            return Err(no_more_prefixes(prefixes, rest));
        }
        let unknown = ParseError::UnknownType { fmt: first >> 5, ty: first & 0x1f };
        let format = Format::of_first_byte(first).ok_or(unknown)?;
        let bytes = rest.get(..format.header_len()).ok_or(truncated(format.header_len()))?;
        Ok(Header { prefixes, bytes, format })
    }

    /// The row of the header in the table of formats.
    pub fn format(&self) -> &'static Format {
        self.format
    }

    /// The bytes of the header, 12 or 16.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The bytes of the prefixes before the header.
    pub fn prefix_bytes(&self) -> &'a [u8] {
        self.prefixes
    }

    /// The prefixes before the header, in their order on the wire.
    pub fn prefixes(&self) -> impl Iterator<Item = Prefix> + 'a {
        let prefixes = self.prefixes;
        (0..prefixes.len() / 4).map(move |n| Prefix(dw(prefixes, n)))
    }

    /// The value of a field.
    pub fn get(&self, field: Field) -> u32 {
        field.get(self.bytes)
    }

    /// Traffic Class.
    pub fn tc(&self) -> TrafficClass {
        TrafficClass::from_bits(self.get(field::TC) as u8)
    }

    /// Attributes: bit 2 joined with bits 1:0.
    pub fn attr(&self) -> Attributes {
        let bits = self.get(field::ATTR_2) << 2 | self.get(field::ATTR_1_0);
        Attributes::from_bits_truncate(bits as u8)
    }

    /// Address Type; reserved except in memory requests.
    pub fn at(&self) -> AddressType {
        AddressType::from_bits(self.get(field::AT) as u8)
    }

    /// LN: lightweight notification; reserved except in MRd, MWr, Cpl and CplD.
    pub fn ln(&self) -> bool {
        self.get(field::LN) != 0
    }

    /// TH: processing hints present; reserved except in memory requests.
    pub fn th(&self) -> bool {
        self.get(field::TH) != 0
    }

    /// TD: a digest follows the data.
    pub fn td(&self) -> bool {
        self.get(field::TD) != 0
    }

    /// EP: the data is poisoned.
    pub fn ep(&self) -> bool {
        self.get(field::EP) != 0
    }

    /// Length in DW, 1 to 1024; not used in completions and messages without data.
    pub fn length_dw(&self) -> u32 {
        body::length_dw(dw(self.bytes, 0))
    }

    /// Number of DWs of data after the header: Length, or 0 if the format has no data.
    pub fn data_dw(&self) -> u32 {
        if self.format.has_data { self.length_dw() } else { 0 }
    }

    /// Length of the TLP in bytes: prefixes, header, data and digest.
    pub fn tlp_len(&self) -> usize {
        self.prefixes.len() + self.bytes.len() + self.data_dw() as usize * 4 + if self.td() { 4 } else { 0 }
    }

    /// The address of a memory, I/O or AtomicOp request. Its low 32 bits are in the last DW of the header, and its
    /// high 32 bits are in the DW before that if the header has 4 DW. The result has no meaning for other TLPs.
    pub fn address(&self) -> u64 {
        let low = u64::from(dw(self.bytes, self.format.header_dw as usize - 1)) & !3;
        match self.format.header_dw {
            3 => low,
            _ => u64::from(dw(self.bytes, 2)) << 32 | low,
        }
    }

    /// The bytes that a memory request accesses. The result has no meaning for other TLPs.
    ///
    /// # Errors
    /// If the specification forbids the combination.
    pub fn span(&self) -> Result<Span, SpanError> {
        body::span(self)
    }

    /// First and Last DW BE that apply to a memory request. The result has no meaning for other TLPs.
    pub(crate) fn byte_enables(&self) -> (u8, u8) {
        body::byte_enables(self)
    }

    /// The 10-bit tag. `low` is the field with its low eight bits: [`field::TAG`], or [`field::ANSWERED_TAG`] in a
    /// completion.
    pub fn tag(&self, low: Field) -> Tag {
        body::tag(dw(self.bytes, 0), self.get(low))
    }

    /// Returns true for a header of this family.
    pub(crate) fn is(&self, family: Family) -> bool {
        self.format.family == family
    }

    /// The fields of a completion; `None` for other TLPs.
    pub fn completion(&self) -> Option<Completion> {
        let dws = || core::array::from_fn(|n| dw(self.bytes, n));
        self.is(Family::Completion).then(|| body::completion(dws(), self.format.has_data))
    }

    /// Bytes 8 to 15 of a message's header.
    pub(crate) fn message_header(&self) -> [u8; 8] {
        self.bytes.last_chunk().copied().unwrap_or_default()
    }
}

/// Length of the prefixes at the start of `bytes`, at most [`Prefixes::MAX`] of them. Prefixes have Fmt 100b
/// (`PCIe 5.0 §2.2.10`).
fn prefixes_len(bytes: &[u8]) -> usize {
    let is_prefix = |dw: &&[u8]| dw[0] >> 5 == PREFIX_FMT;
    bytes.chunks_exact(4).take(Prefixes::MAX).take_while(is_prefix).count() * 4
}

const PREFIX_FMT: u8 = 0b100;

#[cold]
fn nothing_behind(prefixes_len: usize, have: usize) -> ParseError {
    let part = if prefixes_len == 0 { Part::Header } else { Part::PrefixedHeader };
    ParseError::Truncated { part, needed: prefixes_len + 12, have }
}

// The error if `rest` begins with a prefix that is incomplete, or that is one more than riser accepts.
#[cold]
fn no_more_prefixes(prefixes: &[u8], rest: &[u8]) -> ParseError {
    if rest.len() < 4 {
        return nothing_behind(prefixes.len() + 4, prefixes.len() + rest.len());
    }
    let all = prefixes.chunks_exact(4).chain(rest.chunks_exact(4)).take_while(|dw| dw[0] >> 5 == PREFIX_FMT);
    let end_to_end = all.clone().filter(|dw| dw[0] >> 4 & 1 == 1).count();
    let (rule, found) = match end_to_end > Prefixes::MAX_END_TO_END {
        true => (RuleId::EndToEndCount, end_to_end),
        false => (RuleId::PrefixCount, all.count()),
    };
    ParseError::Malformed(Violation::new(rule, found as u64))
}

/// Length in DW of the header that begins with this DW, which is not a prefix: Fmt\[0\] (`PCIe 5.0 Table 2-2`).
const fn header_dw(first_dw: u32) -> usize {
    3 + (field::FMT.of(first_dw) & 1) as usize
}
