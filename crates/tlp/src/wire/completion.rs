// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completions (`PCIe 5.0 §2.2.9`).
//!
//! ```text
//!       31                     16 15    13 12  11           8 7 6      0
//!      +-------------------------+--------+---+----------------------+
//! DW 1 |      Completer ID       | Status |BCM|      Byte Count      |   Byte Count 0 is 4096
//!      +-------------------------+--------+---+-------------+-+------+
//! DW 2 |      Requester ID       |         Tag              |R| Low  |   Low: Lower Address
//!      +-------------------------+--------------------------+-+------+
//! ```

use super::{Field, Header, first_dw};
use crate::{Bdf, Completion, Repr, Status, Tag};

/// Completer ID.
pub const COMPLETER: Field = Field::new(1, 31, 16);
/// Completion Status.
pub const STATUS: Field = Field::new(1, 15, 13);
/// Byte Count Modified.
pub const BCM: Field = Field::new(1, 12, 12);
/// Byte Count; 0 is 4096.
pub const BYTE_COUNT: Field = Field::new(1, 11, 0);
/// Requester ID.
pub const REQUESTER: Field = Field::new(2, 31, 16);
/// Tag\[7:0\].
pub const TAG: Field = Field::new(2, 15, 8);
/// Lower Address.
pub const LOWER_ADDRESS: Field = Field::new(2, 6, 0);

/// A view of the header of a Cpl, CplD, CplLk or CplDLk.
#[derive(Clone, Copy, Debug)]
pub struct CompletionHeader<'a>(pub(super) Header<'a>);

/// Bit 0 of Type tells CplLk and CplDLk from Cpl and CplD (`PCIe 5.0 Table 2-3`).
const LOCKED: Field = Field::new(0, 24, 24);

impl CompletionHeader<'_> {
    /// CplLk or CplDLk.
    #[must_use]
    pub fn locked(&self) -> bool {
        self.0.get(LOCKED) != 0
    }

    /// Completer ID.
    #[must_use]
    pub fn completer(&self) -> Bdf {
        Bdf::from_bits(self.0.get(COMPLETER) as u16)
    }

    /// Completion Status as it stands, 0 to 7.
    #[must_use]
    pub fn status_bits(&self) -> u8 {
        self.0.get(STATUS) as u8
    }

    /// BCM: set only by PCI-X completers.
    #[must_use]
    pub fn bcm(&self) -> bool {
        self.0.get(BCM) != 0
    }

    /// Bytes of the request that remain, those of this completion included: 1 to 4096.
    #[must_use]
    pub fn byte_count(&self) -> u16 {
        match self.0.get(BYTE_COUNT) {
            0 => 4096,
            n => n as u16,
        }
    }

    /// Requester ID: that of the request it answers.
    #[must_use]
    pub fn requester(&self) -> Bdf {
        Bdf::from_bits(self.0.get(REQUESTER) as u16)
    }

    /// Tag of the request it answers, 10 bits.
    #[must_use]
    pub fn tag(&self) -> Tag {
        self.0.tag(TAG)
    }

    /// Low seven bits of the address of the first byte.
    #[must_use]
    pub fn lower_address(&self) -> u8 {
        self.0.get(LOWER_ADDRESS) as u8
    }

    pub(super) fn repr(&self) -> Completion {
        Completion {
            locked: self.locked(),
            completer: self.completer(),
            requester: self.requester(),
            tag: self.tag(),
            status: Status::from_bits(self.status_bits()),
            bcm: self.bcm(),
            byte_count: self.byte_count(),
            lower_address: self.lower_address(),
            length_dw: self.0.format.has_data.then_some(self.0.length_dw() as u16),
        }
    }
}

pub(super) fn emit(repr: &Repr, c: &Completion) -> [u32; 4] {
    let dw1 = COMPLETER.place(u32::from(c.completer.bits()))
        | STATUS.place(u32::from(c.status.bits()))
        | BCM.place(u32::from(c.bcm))
        | BYTE_COUNT.place(u32::from(c.byte_count));
    let dw2 = REQUESTER.place(u32::from(c.requester.bits()))
        | TAG.place(u32::from(c.tag.bits()))
        | LOWER_ADDRESS.place(u32::from(c.lower_address));
    [first_dw(repr, 0, c.tag, repr.data_dw()), dw1, dw2, 0]
}
