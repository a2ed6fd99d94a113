// SPDX-License-Identifier: Apache-2.0 OR MIT
//! AtomicOp requests (`PCIe 5.0 §2.2.7`): three or four DW of header. Byte Enables are reserved; with TH their place is
//! that of ST\[7:0\].
//!
//! ```text
//!       31                     16 15        8 7              0
//!      +-------------------------+-----------+----------------+
//! DW 1 |      Requester ID       |    Tag    |  R, or ST[7:0] |
//!      +-------------------------+-----------+----------+-----+
//! DW 2 |  Address[63:32], in a header of four DW          |     |
//! last |                  Address[31:2]                 | PH  |
//!      +------------------------------------------------+-----+
//! ```

use super::{Field, Header, first_dw};
use crate::format::FormatId;
use crate::{AtomicOp, AtomicRequest, Bdf, Hint, Repr, Tag};

/// Requester ID.
pub const REQUESTER: Field = Field::new(1, 31, 16);
/// Tag\[7:0\].
pub const TAG: Field = Field::new(1, 15, 8);
/// ST\[7:0\] with TH; else reserved.
pub const STEERING: Field = Field::new(1, 7, 0);

/// A view of the header of a FetchAdd, Swap or CAS.
#[derive(Clone, Copy, Debug)]
pub struct AtomicHeader<'a>(pub(super) Header<'a>);

impl AtomicHeader<'_> {
    /// The operation.
    #[must_use]
    pub fn op(&self) -> AtomicOp {
        match self.0.format.id {
            FormatId::FetchAdd32 | FormatId::FetchAdd64 => AtomicOp::FetchAdd,
            FormatId::Swap32 | FormatId::Swap64 => AtomicOp::Swap,
            _ => AtomicOp::CompareSwap,
        }
    }

    /// Requester ID.
    #[must_use]
    pub fn requester(&self) -> Bdf {
        Bdf::from_bits(self.0.get(REQUESTER) as u16)
    }

    /// Tag, 10 bits.
    #[must_use]
    pub fn tag(&self) -> Tag {
        self.0.tag(TAG)
    }

    /// Address as it stands; legal where it is a multiple of the operand's size.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.0.address()
    }

    /// The processing hint; `None` without TH.
    #[must_use]
    pub fn hint(&self) -> Option<Hint> {
        self.0.th().then_some(Hint { ph: self.0.ph(), st: self.0.get(STEERING) as u8 })
    }

    /// The plain value; `None` where Length is not legal for the operation.
    pub(super) fn repr(&self) -> Option<AtomicRequest> {
        let operand = self.op().operand_of_length(self.0.length_dw())?;
        Some(AtomicRequest {
            op: self.op(),
            operand,
            requester: self.requester(),
            tag: self.tag(),
            address: self.address(),
        })
    }
}

pub(super) fn emit(repr: &Repr, a: &AtomicRequest) -> [u32; 4] {
    let dw0 = first_dw(repr, 0, a.tag, a.length_dw());
    let dw1 = REQUESTER.place(u32::from(a.requester.bits()))
        | TAG.place(u32::from(a.tag.bits()))
        | STEERING.place(repr.th.map_or(0, |hint| u32::from(hint.st)));
    super::with_address(repr, dw0, dw1, a.address)
}
