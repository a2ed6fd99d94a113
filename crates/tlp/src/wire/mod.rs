// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLPs as bytes (`PCIe 5.0 §2.2`): prefixes, header of three or four DW, data, digest where TD is set. All big endian, as the
//! specification draws them and as NetTLP carries them; framing, sequence number and LCRC are not part of it.
//!
//! - [`Header`] and the header of each family are views: an accessor for every field, over the bytes themselves.
//! - [`Repr::parse`] makes a plain value of them, and [`Repr::emit`] writes it back.
//!
//! Views hold a complete header of a known format, so no accessor fails. Nothing here panics on foreign bytes, and
//! nothing copies data.
//!
//! The first DW of every header:
//!
//! ```text
//!  31 29 28   24 23 22 20 19 18 17 16 15 14 13  12 11 10 9           0
//! +-----+-------+--+-----+--+--+--+--+--+--+------+-----+-------------+
//! | Fmt | Type  |T9| TC  |T8|A2|LN|TH|TD|EP| Attr | AT  |   Length    |
//! +-----+-------+--+-----+--+--+--+--+--+--+------+-----+-------------+
//! ```

pub mod atomic;
pub mod completion;
pub mod config;
mod error;
pub mod io;
pub mod memory;
pub mod message;
mod parse;
mod plain;

pub use atomic::AtomicHeader;
pub use completion::CompletionHeader;
pub use config::ConfigHeader;
pub use error::{ParseError, Part};
pub use io::IoHeader;
pub use memory::MemoryHeader;
pub use message::MessageHeader;
pub use parse::Parsed;
pub(crate) use parse::may_have_ln;

use crate::format::{Family, Format};
use crate::rules::{Malformed, RuleId};
use crate::{AddressType, Attributes, Prefix, Prefixes, ProcessingHint, Repr, Tag, TrafficClass};

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
    #[must_use]
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
    /// Where `header` ends before the field.
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

/// The fields of the first DW, which every header has (`PCIe 5.0 §2.2.1`), with the tag bits 9 and 8.
pub mod field {
    use super::Field;

    /// Fmt: header length and whether data follows.
    pub const FMT: Field = Field::new(0, 31, 29);
    /// Type.
    pub const TYPE: Field = Field::new(0, 28, 24);
    /// Fmt and Type together: the first byte.
    pub const FMT_TYPE: Field = Field::new(0, 31, 24);
    /// T9: bit 9 of a 10-bit tag.
    pub const T9: Field = Field::new(0, 23, 23);
    /// Traffic Class.
    pub const TC: Field = Field::new(0, 22, 20);
    /// T8: bit 8 of a 10-bit tag.
    pub const T8: Field = Field::new(0, 19, 19);
    /// Attr\[2\]: ID-based Ordering.
    pub const ATTR_2: Field = Field::new(0, 18, 18);
    /// LN: lightweight notification.
    pub const LN: Field = Field::new(0, 17, 17);
    /// TH: processing hints present.
    pub const TH: Field = Field::new(0, 16, 16);
    /// TD: digest present.
    pub const TD: Field = Field::new(0, 15, 15);
    /// EP: poisoned.
    pub const EP: Field = Field::new(0, 14, 14);
    /// Attr\[1:0\]: Relaxed Ordering and No Snoop.
    pub const ATTR_1_0: Field = Field::new(0, 13, 12);
    /// Address Type.
    pub const AT: Field = Field::new(0, 11, 10);
    /// Length in DW; 0 is 1024.
    pub const LENGTH: Field = Field::new(0, 9, 0);
}

/// A complete header of a known format, in place, with the prefixes before it.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    prefixes: &'a [u8],
    bytes: &'a [u8],
    format: &'static Format,
}

/// The view that fits a header's family.
#[derive(Clone, Copy, Debug)]
pub enum FamilyHeader<'a> {
    /// MRd, MRdLk, MWr, DMWr.
    Memory(MemoryHeader<'a>),
    /// IORd, IOWr.
    Io(IoHeader<'a>),
    /// FetchAdd, Swap, CAS.
    Atomic(AtomicHeader<'a>),
    /// CfgRd0, CfgWr0, CfgRd1, CfgWr1.
    Config(ConfigHeader<'a>),
    /// Msg, MsgD.
    Message(MessageHeader<'a>),
    /// Cpl, CplD, CplLk, CplDLk.
    Completion(CompletionHeader<'a>),
}

impl<'a> Header<'a> {
    /// The header at the start of `bytes`, behind its prefixes; what follows it is not looked at. Its fields may hold
    /// anything: rules are checked by [`Repr::parse_header`].
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
    #[must_use]
    pub fn format(&self) -> &'static Format {
        self.format
    }

    /// The bytes of the header: 12 or 16.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The bytes of the prefixes before it.
    #[must_use]
    pub fn prefix_bytes(&self) -> &'a [u8] {
        self.prefixes
    }

    /// The prefixes before it, in their order.
    pub fn prefixes(&self) -> impl Iterator<Item = Prefix> + 'a {
        let prefixes = self.prefixes;
        (0..prefixes.len() / 4).map(move |n| Prefix(dw(prefixes, n)))
    }

    /// The value of any field of the header.
    #[must_use]
    pub fn get(&self, field: Field) -> u32 {
        field.get(self.bytes)
    }

    /// Traffic Class.
    #[must_use]
    pub fn tc(&self) -> TrafficClass {
        TrafficClass::from_bits(self.get(field::TC) as u8)
    }

    /// Attributes, bit 2 joined to bits 1:0.
    #[must_use]
    pub fn attr(&self) -> Attributes {
        let bits = self.get(field::ATTR_2) << 2 | self.get(field::ATTR_1_0);
        Attributes::from_bits_truncate(bits as u8)
    }

    /// Address Type; reserved except in memory requests.
    #[must_use]
    pub fn at(&self) -> AddressType {
        AddressType::from_bits(self.get(field::AT) as u8)
    }

    /// LN: lightweight notification; reserved except in MRd, MWr, Cpl and CplD.
    #[must_use]
    pub fn ln(&self) -> bool {
        self.get(field::LN) != 0
    }

    /// TH: processing hints present; reserved except in memory requests.
    #[must_use]
    pub fn th(&self) -> bool {
        self.get(field::TH) != 0
    }

    /// TD: a digest follows the data.
    #[must_use]
    pub fn td(&self) -> bool {
        self.get(field::TD) != 0
    }

    /// EP: the data is poisoned.
    #[must_use]
    pub fn ep(&self) -> bool {
        self.get(field::EP) != 0
    }

    /// Length in DW, 1 to 1024; without meaning in a completion or message without data.
    #[must_use]
    pub fn length_dw(&self) -> u32 {
        match self.get(field::LENGTH) {
            0 => 1024,
            dw => dw,
        }
    }

    /// DWs of data after the header: Length, or 0 where the format has no data.
    #[must_use]
    pub fn data_dw(&self) -> u32 {
        if self.format.has_data { self.length_dw() } else { 0 }
    }

    /// Bytes of the whole TLP: prefixes, header, data and digest.
    #[must_use]
    pub fn tlp_len(&self) -> usize {
        self.prefixes.len() + self.bytes.len() + self.data_dw() as usize * 4 + if self.td() { 4 } else { 0 }
    }

    /// The view of its family.
    #[must_use]
    pub fn family(self) -> FamilyHeader<'a> {
        match self.format.family {
            Family::Memory => FamilyHeader::Memory(MemoryHeader(self)),
            Family::Io => FamilyHeader::Io(IoHeader(self)),
            Family::Atomic => FamilyHeader::Atomic(AtomicHeader(self)),
            Family::Config => FamilyHeader::Config(ConfigHeader(self)),
            Family::Message => FamilyHeader::Message(MessageHeader(self)),
            Family::Completion => FamilyHeader::Completion(CompletionHeader(self)),
        }
    }

    // The address of memory, I/O and AtomicOp requests is in the last DW, and in the one before it where there are four.
    fn address(&self) -> u64 {
        let low = u64::from(dw(self.bytes, self.last_dw())) & !3;
        match self.last_dw() {
            2 => low,
            _ => u64::from(dw(self.bytes, 2)) << 32 | low,
        }
    }

    // PH[1:0], where TH is set.
    fn ph(&self) -> ProcessingHint {
        ProcessingHint::from_bits(self.get(Field::new(self.last_dw(), 1, 0)) as u8)
    }

    fn last_dw(&self) -> usize {
        self.format.header_dw as usize - 1
    }

    // Tag[7:0] lies elsewhere in each family; bits 9 and 8 are here in all.
    fn tag(&self, low: Field) -> Tag {
        let bits = self.get(field::T9) << 9 | self.get(field::T8) << 8 | self.get(low);
        Tag::from_bits(bits as u16)
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
        false => (RuleId::LocalPrefix, all.count()),
    };
    ParseError::Malformed(Malformed { rule, found: found as u64 })
}

/// The first DW of a header with these fields. Length is 1024 where `length_dw` is, 0 where there is none.
fn first_dw(repr: &Repr, type_low: u8, tag: Tag, length_dw: u32) -> u32 {
    let format = repr.format();
    let (tag, attr) = (u32::from(tag.bits()), u32::from(repr.attr.bits()));
    field::FMT.place(u32::from(format.fmt))
        | field::TYPE.place(u32::from(format.type_bits | type_low))
        | field::T9.place(tag >> 9)
        | field::TC.place(u32::from(repr.tc.bits()))
        | field::T8.place(tag >> 8)
        | field::ATTR_2.place(attr >> 2)
        | field::LN.place(u32::from(repr.ln))
        | field::TH.place(u32::from(repr.th.is_some()))
        | field::TD.place(u32::from(repr.td))
        | field::EP.place(u32::from(repr.ep))
        | field::ATTR_1_0.place(attr)
        | field::AT.place(u32::from(repr.at.bits()))
        | field::LENGTH.place(length_dw)
}

/// The header of a request with an address: PH beside its low bits, and four DW where the format has them.
fn with_address(repr: &Repr, dw0: u32, dw1: u32, address: u64) -> [u32; 4] {
    let low = address as u32 & !3 | repr.th.map_or(0, |hint| u32::from(hint.ph.bits()));
    match header_dw(dw0) {
        3 => [dw0, dw1, low, 0],
        _ => [dw0, dw1, (address >> 32) as u32, low],
    }
}

/// DWs of the header that begins with this DW, no prefix: Fmt\[0\] (`PCIe 5.0 Table 2-2`).
const fn header_dw(first_dw: u32) -> usize {
    3 + (field::FMT.of(first_dw) & 1) as usize
}
