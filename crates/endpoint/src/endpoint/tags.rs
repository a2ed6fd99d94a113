// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The request that uses each tag of an endpoint, and its part of a transfer. This module does not record which tags
//! are free.

use crate::front::findings::Expected;
use tlp::{
    AtomicOp, AtomicRequest, Attributes, Awaited, Bdf, Body, Hint, MemoryOp, MemoryRequest, OperandSize,
    Repr, Span, Tag, TrafficClass,
};

/// The part of a transfer that one request covers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Part {
    /// The read that gets the bytes; `None` if they are no longer needed.
    pub(crate) owner: Option<u16>,
    /// Number of bytes that have not been answered yet.
    pub(crate) awaited: Awaited,
    /// Offset of the next byte in its transfer.
    pub(crate) offset: u32,
    /// The request as it was sent.
    pub(crate) sent: Option<Sent>,
}

impl Part {
    /// Returns the fields that completions of its request must have.
    pub(crate) fn expected(&self) -> Expected {
        Expected { awaited: self.awaited, repeated: self.sent.map(|sent| (sent.tc, sent.attr)) }
    }
}

/// The request of a tag, in the form for the Header Log after a timeout (`PCIe 5.0 §7.8.4.7`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) span: Span,
    /// The operation and operand size of an AtomicOp.
    pub(crate) atomic: Option<(AtomicOp, OperandSize)>,
    pub(crate) tc: TrafficClass,
    pub(crate) attr: Attributes,
    pub(crate) hint: Option<Hint>,
}

impl Sent {
    /// Returns the header of the request that `requester` sent with this tag.
    pub(crate) fn repr(&self, requester: Bdf, tag: Tag) -> Repr {
        let Sent { span, tc, attr, hint, .. } = *self;
        let body = match self.atomic {
            None => Body::Memory(MemoryRequest { op: MemoryOp::Read, requester, tag, span }),
            Some((op, operand)) => {
                Body::Atomic(AtomicRequest { op, operand, requester, tag, address: span.first_byte() })
            }
        };
        Repr { tc, attr, th: hint, ..Repr::new(body) }
    }
}
