// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a tag of an endpoint stands for: a part of a transfer, and its request as it was sent. Never knows which tags are free.

use tlp::{
    AtomicOp, AtomicRequest, Attributes, Awaited, Bdf, Body, Hint, MemoryOp, MemoryRequest, OperandSize,
    Repr, Span, Tag, TrafficClass,
};

/// The part of a transfer that one request asks for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Part {
    /// Who gets the bytes; `None` once nobody wants them.
    pub(crate) owner: Option<u16>,
    /// What completions have not answered yet.
    pub(crate) awaited: Awaited,
    /// Place of the next byte in its transfer.
    pub(crate) offset: u32,
    /// The request.
    pub(crate) sent: Option<Sent>,
}

/// The request that a tag names, as the Header Log is to have it should it time out (`PCIe 5.0 §7.8.4.7`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) span: Span,
    /// Of an AtomicOp, which, and of what size.
    pub(crate) atomic: Option<(AtomicOp, OperandSize)>,
    pub(crate) tc: TrafficClass,
    pub(crate) attr: Attributes,
    pub(crate) hint: Option<Hint>,
}

impl Sent {
    /// The header of the request of `requester` with this tag.
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
