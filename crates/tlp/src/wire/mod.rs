// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLPs as bytes (`PCIe 5.0 §2.2`): prefixes, header of three or four DW, data, digest where TD is set. All big endian, as the
//! specification draws them and as NetTLP carries them; framing, sequence number and LCRC are not part of it.
//!
//! - [`Header`] is a view: the fields of [`field`], over the bytes themselves.
//! - [`Repr::parse`](crate::Repr::parse) makes a plain value of them, and [`Repr::emit`](crate::Repr::emit) writes it back.
//!
//! A view holds a complete header of a known format, so no accessor fails. Nothing here panics on foreign bytes, and
//! nothing copies data.

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

/// A field of a header: bits `high` to `low` of one DW, numbered as in the specification (31 is the first on the
/// wire).
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

    /// The mask of the field, moved down to bit 0.
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

    /// The bits that `value` sets in the field's DW; a value too large for the field loses its high bits.
    #[must_use]
    pub const fn place(self, value: u32) -> u32 {
        (value & self.mask()) << self.low
    }
}

fn dw(header: &[u8], index: usize) -> u32 {
    let b = &header[index * 4..index * 4 + 4];
    u32::from_be_bytes([b[0], b[1], b[2], b[3]])
}

/// A complete header of a known format, in place, with the prefixes before it.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    prefixes: &'a [u8],
    bytes: &'a [u8],
    format: &'static Format,
}

impl<'a> Header<'a> {
    /// The header at the start of `bytes`, behind its prefixes; what follows it is not looked at. Its fields may hold
    /// anything: rules are checked by [`Repr::parse_header`](crate::Repr::parse_header).
    ///
    /// # Errors
    /// [`ParseError::UnknownType`] where [`FORMATS`](crate::format::FORMATS) has no such row,
    /// [`ParseError::Malformed`] for a reserved Fmt or too many prefixes, [`ParseError::Truncated`] where the header
    /// is not complete.
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

    /// Its row in the table of formats.
    pub fn format(&self) -> &'static Format {
        self.format
    }

    /// The bytes of the header: 12 or 16.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The bytes of the prefixes before it.
    pub fn prefix_bytes(&self) -> &'a [u8] {
        self.prefixes
    }

    /// The prefixes before it, in their order.
    pub fn prefixes(&self) -> impl Iterator<Item = Prefix> + 'a {
        let prefixes = self.prefixes;
        (0..prefixes.len() / 4).map(move |n| Prefix(dw(prefixes, n)))
    }

    /// The value of any field of the header.
    pub fn get(&self, field: Field) -> u32 {
        field.get(self.bytes)
    }

    /// Traffic Class.
    pub fn tc(&self) -> TrafficClass {
        TrafficClass::from_bits(self.get(field::TC) as u8)
    }

    /// Attributes, bit 2 joined to bits 1:0.
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

    /// Length in DW, 1 to 1024; without meaning in a completion or message without data.
    pub fn length_dw(&self) -> u32 {
        body::length_dw(dw(self.bytes, 0))
    }

    /// DWs of data after the header: Length, or 0 where the format has no data.
    pub fn data_dw(&self) -> u32 {
        if self.format.has_data { self.length_dw() } else { 0 }
    }

    /// Bytes of the whole TLP: prefixes, header, data and digest.
    pub fn tlp_len(&self) -> usize {
        self.prefixes.len() + self.bytes.len() + self.data_dw() as usize * 4 + if self.td() { 4 } else { 0 }
    }

    /// The address of a memory, I/O or AtomicOp request, as it stands: in the last DW, and in the one before it where
    /// there are four. Without meaning in others.
    pub fn address(&self) -> u64 {
        let low = u64::from(dw(self.bytes, self.format.header_dw as usize - 1)) & !3;
        match self.format.header_dw {
            3 => low,
            _ => u64::from(dw(self.bytes, 2)) << 32 | low,
        }
    }

    /// The bytes that a memory request names; without meaning in others.
    ///
    /// # Errors
    /// If the specification forbids the combination.
    pub fn span(&self) -> Result<Span, SpanError> {
        body::span(self)
    }

    /// First and Last DW BE of a memory request, as its data follows them; without meaning in others.
    pub(crate) fn byte_enables(&self) -> (u8, u8) {
        body::byte_enables(self)
    }

    /// A tag of ten bits, of which `low` holds the low eight: [`field::TAG`], in a completion [`field::ANSWERED_TAG`].
    pub fn tag(&self, low: Field) -> Tag {
        body::tag(dw(self.bytes, 0), self.get(low))
    }

    /// True for a header of this family.
    pub(crate) fn is(&self, family: Family) -> bool {
        self.format.family == family
    }

    /// The fields of a completion; `None` in others.
    pub fn completion(&self) -> Option<Completion> {
        let dws = || core::array::from_fn(|n| dw(self.bytes, n));
        self.is(Family::Completion).then(|| body::completion(dws(), self.format.has_data))
    }

    /// Bytes 8 to 15 of a message's header.
    pub(crate) fn message_header(&self) -> [u8; 8] {
        self.bytes.last_chunk().copied().unwrap_or_default()
    }
}

/// Bytes of the prefixes at the start of `bytes`, up to the number that riser accepts: Fmt 100b (`PCIe 5.0 §2.2.10`).
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

// The error where `rest` begins with a prefix: an incomplete one, or one more than riser accepts.
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

/// DWs of the header that begins with this DW, no prefix: Fmt\[0\] (`PCIe 5.0 Table 2-2`).
const fn header_dw(first_dw: u32) -> usize {
    3 + (field::FMT.of(first_dw) & 1) as usize
}
