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
use crate::format::FormatId;
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

/// A view of the header of an MRd, MRdLk, MWr or DMWr.
#[derive(Clone, Copy, Debug)]
pub struct MemoryHeader<'a>(pub(super) Header<'a>);

impl MemoryHeader<'_> {
    /// The operation.
    #[must_use]
    pub fn op(&self) -> MemoryOp {
        match self.0.format.id {
            FormatId::MWr32 | FormatId::MWr64 => MemoryOp::Write,
            FormatId::DMWr32 | FormatId::DMWr64 => MemoryOp::WriteDeferrable,
            FormatId::MRdLk32 | FormatId::MRdLk64 => MemoryOp::ReadLocked,
            _ => MemoryOp::Read,
        }
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

    /// First DW Byte Enables: the field, or 1111b, which a non-posted request with TH implies (`PCIe 5.0 §2.2.7.1`).
    #[must_use]
    pub fn first_be(&self) -> u8 {
        if self.implies_byte_enables() { 0xf } else { self.0.get(FIRST_BE) as u8 }
    }

    /// Last DW Byte Enables: the field, or what a non-posted request with TH implies: 1111b, or 0000b with one DW.
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
        self.0.address()
    }

    /// The processing hint; `None` without TH.
    #[must_use]
    pub fn hint(&self) -> Option<Hint> {
        let st = if self.op().is_posted() { self.0.get(TAG) } else { self.0.get(BYTE_ENABLES) };
        self.0.th().then_some(Hint { ph: self.0.ph(), st: st as u8 })
    }

    /// The bytes that it names.
    ///
    /// # Errors
    /// Where the specification forbids the combination.
    pub fn span(&self) -> Result<Span, SpanError> {
        Span::from_fields(self.address(), self.0.length_dw(), self.first_be(), self.last_be())
    }

    fn implies_byte_enables(&self) -> bool {
        self.0.th() && !self.op().is_posted()
    }

    pub(super) fn repr(&self) -> Result<MemoryRequest, SpanError> {
        let steered = self.0.th() && self.op().is_posted();
        let tag = if steered { Tag::default() } else { self.tag() };
        Ok(MemoryRequest { op: self.op(), requester: self.requester(), tag, span: self.span()? })
    }
}

pub(super) fn emit(repr: &Repr, m: &MemoryRequest) -> [u32; 4] {
    let mut tag = m.tag;
    let mut byte_enables = m.span.last_be() << 4 | m.span.first_be();
    match repr.th {
        Some(hint) if m.op.is_posted() => tag = Tag::from_bits(u16::from(hint.st)),
        Some(hint) => byte_enables = hint.st,
        None => {}
    }
    let dw0 = first_dw(repr, 0, tag, m.span.length_dw());
    let dw1 = REQUESTER.place(u32::from(m.requester.bits()))
        | TAG.place(u32::from(tag.bits()))
        | BYTE_ENABLES.place(u32::from(byte_enables));
    super::with_address(repr, dw0, dw1, m.span.address())
}
