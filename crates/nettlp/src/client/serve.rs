// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Callbacks for TLPs that do not answer a request of this client, as in LibTLP's `nettlp_run_cb`, and the replies to
//! them.
//!
//! Never replies by itself: `completer` answers reads from memory.

use crate::carrier::{Carrier, SendError};
use capture::encap::Origin;
use std::collections::VecDeque;
use tlp::{Body, MemoryOp, Parsed, Repr, Tag};

/// A TLP passed to a callback.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// Issuer of the request. The request is the TLP itself, or the request that the TLP answers.
    pub origin: Origin,
    /// Header, and the position of the data in `tlp`.
    pub parsed: &'a Parsed,
    /// The whole TLP.
    pub tlp: &'a [u8],
}

impl Incoming<'_> {
    /// Returns the data of the TLP in whole DWs. Empty if the TLP has no data.
    pub fn data(&self) -> &[u8] {
        &self.tlp[self.parsed.data.clone()]
    }
}

/// Callbacks for received TLPs. The default implementations count requests as unserved.
pub trait Callbacks {
    /// MRd, MRdLk.
    fn mrd(&mut self, tlp: &Incoming<'_>, replies: &mut Replies) {
        let _ = tlp;
        replies.unserved += 1;
    }

    /// MWr.
    fn mwr(&mut self, tlp: &Incoming<'_>, replies: &mut Replies) {
        let _ = tlp;
        replies.unserved += 1;
    }

    /// Cpl that answers no request. Completions of this client's requests do not reach this callback.
    fn cpl(&mut self, tlp: &Incoming<'_>, replies: &mut Replies) {
        let _ = (tlp, replies);
    }

    /// CplD that answers no request.
    fn cpld(&mut self, tlp: &Incoming<'_>, replies: &mut Replies) {
        let _ = (tlp, replies);
    }

    /// Any other TLP.
    fn other(&mut self, tlp: &Incoming<'_>, replies: &mut Replies) {
        let _ = tlp;
        replies.unserved += 1;
    }
}

/// No callbacks.
impl Callbacks for () {}

/// Passes a TLP to the callback of its type.
pub(super) fn call(callbacks: &mut impl Callbacks, incoming: &Incoming<'_>, replies: &mut Replies) {
    match &incoming.parsed.repr.body {
        Body::Memory(m) if m.op.is_read() => callbacks.mrd(incoming, replies),
        Body::Memory(m) if m.op == MemoryOp::Write => callbacks.mwr(incoming, replies),
        Body::Completion(c) if c.length_dw.is_some() => callbacks.cpld(incoming, replies),
        Body::Completion(_) => callbacks.cpl(incoming, replies),
        _ => callbacks.other(incoming, replies),
    }
}

/// Maximum number of bytes of queued replies; [`Replies::push`] rejects more.
pub const REPLY_BYTES: usize = 4 << 20;

/// Error: the reply queue is full. Push the reply again from a later callback.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{REPLY_BYTES} bytes of replies are queued, the maximum")]
pub struct RepliesFull;

struct Reply {
    origin: Origin,
    tag: Tag,
    len: usize,
}

/// TLPs that callbacks send, in order.
#[derive(Default)]
pub struct Replies {
    queue: VecDeque<Reply>,
    bytes: VecDeque<u8>,
    unserved: u64,
}

impl Replies {
    /// Returns true if no reply is queued.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Queues a TLP; `data` holds whole DWs. `origin` is the issuer of the request, which is the TLP itself or the
    /// request that the TLP answers.
    ///
    /// # Errors
    /// If the queue is full.
    ///
    /// # Panics
    /// If the length of `data` does not match the header.
    pub fn push(&mut self, origin: Origin, header: &Repr, data: &[u8]) -> Result<(), RepliesFull> {
        let len = header.tlp_len();
        assert_eq!(
            header.header_len() + data.len(),
            len,
            "the data does not match the Length of a {}",
            header.name()
        );
        if self.bytes.len() + len > REPLY_BYTES {
            return Err(RepliesFull);
        }
        let mut bytes = [0; 16];
        let header_len = header.emit(&mut bytes);
        self.bytes.extend(&bytes[..header_len]);
        self.bytes.extend(data);
        self.queue.push_back(Reply { origin, tag: header.transaction().1, len });
        Ok(())
    }

    /// Returns the number of requests and messages without a callback, plus replies that the carrier can never send.
    pub(super) const fn unserved(&self) -> u64 {
        self.unserved
    }

    /// Sends as many replies as the carrier accepts. Replies that the carrier can never send are dropped and counted.
    pub(super) fn send(&mut self, carrier: &mut impl Carrier) {
        while let Some(Reply { origin, tag, len }) = self.queue.front() {
            let bytes = &self.bytes;
            let sent = carrier.send(*origin, *tag, *len, |out| {
                out.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            });
            if sent == Err(SendError::NoRoom) {
                break;
            }
            self.unserved += u64::from(sent.is_err());
            self.bytes.drain(..*len);
            self.queue.pop_front();
        }
    }
}
