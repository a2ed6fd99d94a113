// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A request TLP to be sent, and the buffers of requests. The requester decides the order of the TLPs.

use super::tags::Piece;
use tlp::{Bdf, Body, MemoryOp, MemoryRequest, Repr, Span, Tag};

/// Buffers of requests: the caller's own, identified by the tokens of the requests.
pub trait Buffers {
    /// Returns the buffer for bytes `offset..offset + len` of a read. Each byte is written once. If the result is
    /// `None`, the bytes are discarded.
    fn place(&mut self, token: u64, offset: u64, len: usize) -> Option<&mut [u8]>;

    /// Returns bytes `offset..offset + len` of a write. If the result is `None`, the bytes are zeroes.
    fn data(&self, token: u64, offset: u64, len: usize) -> Option<&[u8]>;
}

/// No buffers: read data is discarded, and written data is zeroes. Used for measurements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nowhere;

impl Buffers for Nowhere {
    fn place(&mut self, _: u64, _: u64, _: usize) -> Option<&mut [u8]> {
        None
    }

    fn data(&self, _: u64, _: u64, _: usize) -> Option<&[u8]> {
        None
    }
}

/// Queue of an outgoing TLP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Queue {
    Again,
    Reads,
    Writes,
}

/// The next TLP to send. The requester's state changes only when [`sent`](super::Requester::sent) is called.
#[derive(Clone, Copy)]
pub struct Outgoing {
    pub(super) queue: Queue,
    pub(super) piece: Piece,
    pub(super) token: u64,
    pub(super) request: MemoryRequest,
    pub(super) repr: Repr,
}

impl Outgoing {
    pub(super) fn new(queue: Queue, piece: Piece, token: u64, requester: Bdf, tag: Tag) -> Outgoing {
        let span = Span::covering(piece.address, u32::from(piece.len))
            .expect("a piece has 1 to 4096 bytes within 4 KiB");
        let op = if queue == Queue::Writes { MemoryOp::Write } else { MemoryOp::Read };
        let request = MemoryRequest { op, requester, tag, span };
        Outgoing { queue, piece, token, request, repr: Repr::new(Body::Memory(request)) }
    }

    /// Returns the tag of the TLP.
    pub const fn tag(&self) -> Tag {
        self.request.tag
    }

    /// Returns true for an MWr, false for an MRd.
    pub fn is_write(&self) -> bool {
        self.queue == Queue::Writes
    }

    /// Returns the length of the TLP in bytes: the header, and the data if the TLP is a write.
    pub fn tlp_len(&self) -> usize {
        self.repr.tlp_len()
    }

    /// Writes the TLP to `out`, big endian; its data comes from `buffers`.
    ///
    /// # Panics
    /// If `out` is not [`tlp_len`](Self::tlp_len) bytes long.
    pub fn emit(&self, buffers: &impl Buffers, out: &mut [u8]) {
        let header_len = self.repr.emit(out);
        if !self.is_write() {
            return;
        }
        let (lead, len) = (self.request.span.lead() as usize, usize::from(self.piece.len));
        let lanes = &mut out[header_len..];
        lanes[..lead].fill(0);
        lanes[lead + len..].fill(0);
        match buffers.data(self.token, self.piece.offset, len) {
            Some(data) => lanes[lead..lead + len].copy_from_slice(data),
            None => lanes[lead..lead + len].fill(0),
        }
    }
}
