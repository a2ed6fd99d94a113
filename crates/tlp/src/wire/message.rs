// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages (`PCIe 5.0 §2.2.8`). The low three bits of Type are the routing.
//!
//! ```text
//!       31                     16 15        8 7              0
//!      +-------------------------+-----------+----------------+
//! DW 1 |      Requester ID       |    Tag    |  Message Code  |
//!      +-------------------------+-----------+----------------+
//! DW 2 |     address, ID, or what the Message Code says       |
//! DW 3 |                                                      |
//!      +------------------------------------------------------+
//! ```

use super::{Field, Header, first_dw};
use crate::{Bdf, Message, MessageRouting, Repr, Tag};

/// Routing: Type\[2:0\].
pub const ROUTING: Field = Field::new(0, 26, 24);
/// Requester ID.
pub const REQUESTER: Field = Field::new(1, 31, 16);
/// Tag\[7:0\].
pub const TAG: Field = Field::new(1, 15, 8);
/// Message Code.
pub const CODE: Field = Field::new(1, 7, 0);

/// A view of the header of a Msg or MsgD.
#[derive(Clone, Copy, Debug)]
pub struct MessageHeader<'a>(pub(super) Header<'a>);

impl MessageHeader<'_> {
    /// Routing.
    #[must_use]
    pub fn routing(&self) -> MessageRouting {
        MessageRouting::from_bits(self.0.get(ROUTING) as u8)
    }

    /// Requester ID.
    #[must_use]
    pub fn requester(&self) -> Bdf {
        Bdf::from_bits(self.0.get(REQUESTER) as u16)
    }

    /// Tag.
    #[must_use]
    pub fn tag(&self) -> Tag {
        self.0.tag(TAG)
    }

    /// Message Code.
    #[must_use]
    pub fn code(&self) -> u8 {
        self.0.get(CODE) as u8
    }

    /// Header bytes 8 to 15.
    #[must_use]
    pub fn header(&self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0.bytes[8..16]);
        bytes
    }

    pub(super) fn repr(&self) -> Message {
        Message {
            routing: self.routing(),
            requester: self.requester(),
            tag: self.tag(),
            code: self.code(),
            header: self.header(),
            length_dw: self.0.format.has_data.then_some(self.0.length_dw() as u16),
        }
    }
}

pub(super) fn emit(repr: &Repr, m: &Message) -> [u32; 4] {
    let dw1 = REQUESTER.place(u32::from(m.requester.bits()))
        | TAG.place(u32::from(m.tag.bits()))
        | CODE.place(u32::from(m.code));
    let dw0 = first_dw(repr, m.routing.bits(), m.tag, repr.data_dw());
    [dw0, dw1, super::dw(&m.header, 0), super::dw(&m.header, 1)]
}
