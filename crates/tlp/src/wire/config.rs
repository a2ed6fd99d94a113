// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Configuration requests (`PCIe 5.0 §2.2.7`).
//!
//! ```text
//!       31                     16 15        12 11      8 7     4 3     0
//!      +-------------------------+---------------------+-------+-------+
//! DW 1 |      Requester ID       |         Tag         | 0000  | First |
//!      +-------------------------+----------+----------+-------+---+---+
//! DW 2 |   Bus, Device, Function |    R     | Extended | Register  | R |
//!      +-------------------------+----------+----------+-----------+---+
//! ```

use super::{Field, Header, first_dw};
use crate::{Access, Bdf, ConfigKind, ConfigRequest, Repr, Tag};

/// Requester ID.
pub const REQUESTER: Field = Field::new(1, 31, 16);
/// Tag\[7:0\].
pub const TAG: Field = Field::new(1, 15, 8);
/// Last DW Byte Enables: zero.
pub const LAST_BE: Field = Field::new(1, 7, 4);
/// First DW Byte Enables.
pub const FIRST_BE: Field = Field::new(1, 3, 0);
/// Bus, Device and Function Number: the function asked.
pub const COMPLETER: Field = Field::new(2, 31, 16);
/// Extended Register Number and Register Number: a DW number.
pub const REGISTER_DW: Field = Field::new(2, 11, 2);

/// Bit 0 of Type tells type 1 from type 0 (`PCIe 5.0 Table 2-3`).
const TYPE_1: Field = Field::new(0, 24, 24);

/// A view of the header of a CfgRd0, CfgWr0, CfgRd1 or CfgWr1.
#[derive(Clone, Copy, Debug)]
pub struct ConfigHeader<'a>(pub(super) Header<'a>);

impl ConfigHeader<'_> {
    /// Read or write.
    #[must_use]
    pub fn op(&self) -> Access {
        if self.0.format.has_data { Access::Write } else { Access::Read }
    }

    /// Type 0 or type 1.
    #[must_use]
    pub fn kind(&self) -> ConfigKind {
        if self.0.get(TYPE_1) == 0 { ConfigKind::Type0 } else { ConfigKind::Type1 }
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

    /// The function to which the request is addressed.
    #[must_use]
    pub fn completer(&self) -> Bdf {
        Bdf::from_bits(self.0.get(COMPLETER) as u16)
    }

    /// Register as a DW number, 0 to 1023.
    #[must_use]
    pub fn register_dw(&self) -> u16 {
        self.0.get(REGISTER_DW) as u16
    }

    pub(super) fn repr(&self) -> ConfigRequest {
        ConfigRequest {
            op: self.op(),
            kind: self.kind(),
            requester: self.requester(),
            tag: self.tag(),
            completer: self.completer(),
            register_dw: self.register_dw(),
            first_be: self.first_be(),
        }
    }
}

pub(super) fn emit(repr: &Repr, c: &ConfigRequest) -> [u32; 4] {
    let dw1 = REQUESTER.place(u32::from(c.requester.bits()))
        | TAG.place(u32::from(c.tag.bits()))
        | FIRST_BE.place(u32::from(c.first_be));
    let dw2 = COMPLETER.place(u32::from(c.completer.bits())) | REGISTER_DW.place(u32::from(c.register_dw));
    [first_dw(repr, 0, c.tag, 1), dw1, dw2, 0]
}
