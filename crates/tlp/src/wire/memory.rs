// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory requests (`PCIe 5.0 §2.2.7`).
//!
//! ```text
//!       31                     16 15        8 7     4 3     0
//!      +-------------------------+-----------+-------+-------+
//! DW 1 |      Requester ID       |    Tag    | Last  | First |   Tag is ST[7:0] in a write with TH,
//!      +-------------------------+-----------+-------+-------+   the Byte Enables are ST[7:0] in a read with TH
//! DW 2 |            Address[31:2], or Address[63:32]     |PH |   PH: bits 1:0 of the last DW, with TH
//!      +-------------------------------------------------+---+
//! DW 3 |            Address[31:2], with 4 DW             |PH |
//!      +-------------------------------------------------+---+
//! ```

use super::{Field, Header, first_dw};
use crate::{Bdf, Hint, MemoryOp, MemoryRequest, Repr, Span, SpanError, Tag};

/// Requester ID.
pub const REQUESTER: Field = Field::new(1, 31, 16);
/// Tag\[7:0\].
pub const TAG: Field = Field::new(1, 15, 8);
/// Last DW Byte Enables.
pub const LAST_BE: Field = Field::new(1, 7, 4);
/// First DW Byte Enables.
pub const FIRST_BE: Field = Field::new(1, 3, 0);
/// Both Byte Enables: ST\[7:0\] of a read with TH.
pub const BYTE_ENABLES: Field = Field::new(1, 7, 0);

/// A view of the header of an MRd or MWr.
#[derive(Clone, Copy, Debug)]
pub struct MemoryHeader<'a>(pub(super) Header<'a>);

impl MemoryHeader<'_> {
    /// Read or write.
    #[must_use]
    pub fn op(&self) -> MemoryOp {
        if self.0.format.has_data { MemoryOp::Write } else { MemoryOp::Read }
    }

    /// Requester ID.
    #[must_use]
    pub fn requester(&self) -> Bdf {
        Bdf::from_bits(self.0.get(REQUESTER) as u16)
    }

    /// Tag, 10 bits: the field as it stands, also where a write with TH has its steering tag there.
    #[must_use]
    pub fn tag(&self) -> Tag {
        self.0.tag(TAG)
    }

    /// First DW Byte Enables: the field, or 1111b, which a read with TH implies (`PCIe 5.0 §2.2.7.1`).
    #[must_use]
    pub fn first_be(&self) -> u8 {
        if self.implies_byte_enables() { 0xf } else { self.0.get(FIRST_BE) as u8 }
    }

    /// Last DW Byte Enables: the field, or what a read with TH implies: 1111b, or 0000b with one DW.
    #[must_use]
    pub fn last_be(&self) -> u8 {
        match (self.implies_byte_enables(), self.0.length_dw()) {
            (false, _) => self.0.get(LAST_BE) as u8,
            (true, 1) => 0,
            (true, _) => 0xf,
        }
    }

    /// Address of the first DW.
    #[must_use]
    pub fn address(&self) -> u64 {
        let low = u64::from(super::dw(self.0.bytes, self.last_dw())) & !3;
        match self.last_dw() {
            2 => low,
            _ => u64::from(super::dw(self.0.bytes, 2)) << 32 | low,
        }
    }

    /// The processing hint; `None` without TH.
    #[must_use]
    pub fn hint(&self) -> Option<Hint> {
        let st = match self.op() {
            MemoryOp::Read => self.0.get(BYTE_ENABLES),
            MemoryOp::Write => self.0.get(TAG),
        };
        let ph = self.0.get(Field::new(self.last_dw(), 1, 0));
        self.0.th().then_some(Hint { ph: ph as u8, st: st as u8 })
    }

    /// The bytes that it names.
    ///
    /// # Errors
    /// Where the specification forbids the combination.
    pub fn span(&self) -> Result<Span, SpanError> {
        Span::from_fields(self.address(), self.0.length_dw(), self.first_be(), self.last_be())
    }

    fn implies_byte_enables(&self) -> bool {
        self.0.th() && !self.0.format.has_data
    }

    fn last_dw(&self) -> usize {
        self.0.format.header_dw as usize - 1
    }

    pub(super) fn repr(&self) -> Result<MemoryRequest, SpanError> {
        let steered = self.0.th() && self.0.format.has_data;
        let tag = if steered { Tag::default() } else { self.tag() };
        Ok(MemoryRequest { op: self.op(), requester: self.requester(), tag, span: self.span()? })
    }
}

pub(super) fn emit(repr: &Repr, m: &MemoryRequest) -> [u32; 4] {
    let mut tag = m.tag;
    let mut byte_enables = m.span.last_be() << 4 | m.span.first_be();
    match (repr.th, m.op) {
        (Some(hint), MemoryOp::Read) => byte_enables = hint.st,
        (Some(hint), MemoryOp::Write) => tag = Tag::from_bits(u16::from(hint.st)),
        (None, _) => {}
    }
    let dw0 = first_dw(repr, 0, tag, m.span.length_dw())
        | super::field::TH.place(u32::from(repr.th.is_some()))
        | super::field::AT.place(u32::from(repr.at.bits()));
    let dw1 = REQUESTER.place(u32::from(m.requester.bits()))
        | TAG.place(u32::from(tag.bits()))
        | BYTE_ENABLES.place(u32::from(byte_enables));
    let low = m.span.address() as u32 | repr.th.map_or(0, |hint| u32::from(hint.ph & 3));
    match repr.format().header_dw {
        3 => [dw0, dw1, low, 0],
        _ => [dw0, dw1, (m.span.address() >> 32) as u32, low],
    }
}
