// SPDX-License-Identifier: Apache-2.0 OR MIT
//! I/O requests (`PCIe 5.0 §2.2.7`): one DW, three DW of header.
//!
//! ```text
//!       31                     16 15        8 7    4 3       0
//!      +-------------------------+-----------+------+---------+
//! DW 1 |      Requester ID       |    Tag    | 0000 | First BE|
//!      +-------------------------+-----------+------+-----+---+
//! DW 2 |                  Address[31:2]                 |  R  |
//!      +------------------------------------------------+-----+
//! ```

use super::{Field, Header, first_dw};
use crate::{Access, Bdf, IoRequest, Repr, Tag};

/// Requester ID.
pub const REQUESTER: Field = Field::new(1, 31, 16);
/// Tag\[7:0\].
pub const TAG: Field = Field::new(1, 15, 8);
/// Last DW Byte Enables: zero.
pub const LAST_BE: Field = Field::new(1, 7, 4);
/// First DW Byte Enables.
pub const FIRST_BE: Field = Field::new(1, 3, 0);

/// A view of the header of an IORd or IOWr.
#[derive(Clone, Copy, Debug)]
pub struct IoHeader<'a>(pub(super) Header<'a>);

impl IoHeader<'_> {
    /// Read or write.
    #[must_use]
    pub fn op(&self) -> Access {
        if self.0.format.has_data { Access::Write } else { Access::Read }
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

    /// Last DW Byte Enables, which must be zero.
    #[must_use]
    pub fn last_be(&self) -> u8 {
        self.0.get(LAST_BE) as u8
    }

    /// First DW Byte Enables.
    #[must_use]
    pub fn first_be(&self) -> u8 {
        self.0.get(FIRST_BE) as u8
    }

    /// Address of the DW.
    #[must_use]
    pub fn address(&self) -> u32 {
        self.0.address() as u32
    }

    pub(super) fn repr(&self) -> IoRequest {
        IoRequest {
            op: self.op(),
            requester: self.requester(),
            tag: self.tag(),
            address: self.address(),
            first_be: self.first_be(),
        }
    }
}

pub(super) fn emit(repr: &Repr, io: &IoRequest) -> [u32; 4] {
    let dw1 = REQUESTER.place(u32::from(io.requester.bits()))
        | TAG.place(u32::from(io.tag.bits()))
        | FIRST_BE.place(u32::from(io.first_be));
    [first_dw(repr, 0, io.tag, 1), dw1, io.address & !3, 0]
}
