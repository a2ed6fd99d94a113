// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Callbacks for TLPs that no request of ours asked for, as LibTLP's `nettlp_run_cb` has them, and the replies to them.
//!
//! Never answers on its own: what answers reads from memory is `completer`.

use crate::carrier::{Carrier, SendError};
use capture::encap::Origin;
use std::collections::VecDeque;
use tlp::{Body, MemoryOp, Parsed, Repr, Tag};

/// A TLP for a callback.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// Who issued the request that it is, or answers.
    pub origin: Origin,
    /// Header, and where the data lies in `tlp`.
    pub parsed: &'a Parsed,
    /// The whole TLP.
    pub tlp: &'a [u8],
}

impl Incoming<'_> {
    /// Its data, whole DWs; empty where it has none.
    pub fn data(&self) -> &[u8] {
        &self.tlp[self.parsed.data.clone()]
    }
}

/// What is done with TLPs as they come. What is not written counts requests as unserved.
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

    /// Cpl: a stray, since what our requests wait for does not come here.
    fn cpl(&mut self, tlp: &Incoming<'_>, replies: &mut Replies) {
        let _ = (tlp, replies);
    }

    /// CplD: a stray.
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

/// Gives a TLP to the callback of its type.
pub(super) fn call(callbacks: &mut impl Callbacks, incoming: &Incoming<'_>, replies: &mut Replies) {
    match &incoming.parsed.repr.body {
        Body::Memory(m) if m.op.is_read() => callbacks.mrd(incoming, replies),
        Body::Memory(m) if m.op == MemoryOp::Write => callbacks.mwr(incoming, replies),
        Body::Completion(c) if c.length_dw.is_some() => callbacks.cpld(incoming, replies),
        Body::Completion(_) => callbacks.cpl(incoming, replies),
        _ => callbacks.other(incoming, replies),
    }
}

/// Bytes of replies that may wait to be sent; [`Replies::push`] refuses more.
pub const REPLY_BYTES: usize = 4 << 20;

/// The replies wait for room: push again from a later callback.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{REPLY_BYTES} bytes of replies wait to be sent, no more are taken")]
pub struct RepliesFull;

struct Reply {
    origin: Origin,
    tag: Tag,
    len: usize,
}

/// TLPs that callbacks send, in their order.
#[derive(Default)]
pub struct Replies {
    queue: VecDeque<Reply>,
    bytes: VecDeque<u8>,
    unserved: u64,
}

impl Replies {
    /// Whether none wait.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Sends a TLP; `data` are its whole DWs. `origin` says who issued the request that it is, or answers.
    ///
    /// # Errors
    /// Where too many wait.
    ///
    /// # Panics
    /// Where `data` has another length than the header says.
    pub fn push(&mut self, origin: Origin, header: &Repr, data: &[u8]) -> Result<(), RepliesFull> {
        let len = header.tlp_len();
        assert_eq!(
            header.header_len() + data.len(),
            len,
            "bytes of data against Length of a {}",
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

    /// Requests and messages that had no callback, and replies that the carrier can never take.
    pub(super) const fn unserved(&self) -> u64 {
        self.unserved
    }

    /// Hands on as many as the carrier takes. Those that it never will take are dropped and counted.
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
