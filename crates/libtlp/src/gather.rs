// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The completions of one read, put together.
//!
//! A completion belongs to the read where requester and tag are the read's, its Byte Count lies within the read, and its
//! Lower Address is that of the byte which that Byte Count names (`PCIe 5.0 §2.3.1.1`). Datagrams may overtake each other
//! and be doubled, so bytes are kept account of by DW, not by a cursor. Never waits, and knows no socket.

use nix::errno::Errno;
use tlp::{Awaited, Bdf, Body, Completion, Repr, Span, Status, Tag};

/// DWs of the longest read.
const DWS: usize = 1024;

/// A read that was sent.
#[derive(Clone, Copy)]
pub(crate) struct Read {
    pub(crate) requester: Bdf,
    pub(crate) tag: Tag,
    /// Its bytes: without holes.
    pub(crate) span: Span,
}

/// What became of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taken {
    /// Its bytes are in place.
    Data,
    /// The completer refused, or what it sent is poisoned.
    Failed(Errno),
    /// It answers something else, or nothing.
    Stray,
}

/// A read, and which of its DWs have come.
#[derive(Clone, Copy)]
pub(crate) struct Gather {
    read: Read,
    here: [u64; DWS / 64],
    missing_dw: u32,
}

impl Gather {
    pub(crate) fn new(read: Read) -> Gather {
        Gather { read, here: [0; DWS / 64], missing_dw: read.span.length_dw() }
    }

    /// Whether no completion of it can come any more.
    pub(crate) fn is_whole(&self) -> bool {
        self.missing_dw == 0
    }

    /// Takes a TLP, and puts its data where it belongs in `out`, which has the read's bytes.
    pub(crate) fn take(&mut self, tlp: &[u8], out: Option<&mut [u8]>) -> Taken {
        let Ok(parsed) = Repr::parse_header(tlp) else { return Taken::Stray };
        let Body::Completion(completion) = parsed.repr.body else { return Taken::Stray };
        if completion.locked
            || completion.requester != self.read.requester
            || completion.tag != self.read.tag
            || !parsed.prefixes.is_empty()
        {
            return Taken::Stray;
        }
        if let Some(error) = failure(&completion) {
            self.end_at(&completion);
            return Taken::Failed(error);
        }
        // A digest may be left out though TD is set, as adapters do; nothing else may stand behind the data.
        match tlp.get(parsed.data.clone()) {
            Some(data) if tlp.len() <= parsed.tlp_len() => {
                self.take_data(&completion, data, out, parsed.repr.ep)
            }
            _ => Taken::Stray,
        }
    }

    fn take_data(&mut self, c: &Completion, data: &[u8], out: Option<&mut [u8]>, poisoned: bool) -> Taken {
        let Ok(placed) = self.awaited().place(c) else { return Taken::Stray };
        let (lead, placed) = (usize::from(c.lower_address & 3), placed.start as usize..placed.end as usize);
        // Only the first one may begin within a DW, and only the last one end there.
        let first = (self.read.span.lead() as usize + placed.start) / 4;
        if placed.start != 0 && lead != 0 || !self.mark(first, data.len() / 4) {
            return Taken::Stray;
        }
        if poisoned {
            return Taken::Failed(Errno::EIO);
        }
        if let Some(out) = out {
            let from = &data[lead..lead + placed.len()];
            out[placed].copy_from_slice(from);
        }
        Taken::Data
    }

    fn awaited(&self) -> Awaited {
        let span = self.read.span;
        Awaited { first_byte: span.first_byte(), byte_count: span.byte_count() }
    }

    /// Marks DWs as here; false, and nothing changed, where one of them was already.
    fn mark(&mut self, first: usize, count: usize) -> bool {
        let is_here = |here: &[u64], dw: usize| here[dw / 64] >> (dw % 64) & 1 == 1;
        if (first..first + count).any(|dw| is_here(&self.here, dw)) {
            return false;
        }
        for dw in first..first + count {
            self.here[dw / 64] |= 1 << (dw % 64);
        }
        self.missing_dw -= count as u32;
        true
    }

    /// After a completion that says that the read failed, only what it had before may still be under way.
    fn end_at(&mut self, c: &Completion) {
        let total = self.read.span.byte_count();
        let offset = total.saturating_sub(u32::from(c.byte_count)) as usize;
        let first = (self.read.span.lead() as usize + offset) / 4;
        for dw in first..self.read.span.length_dw() as usize {
            self.mark(dw, 1);
        }
    }
}

/// The errno of a completion that is none of data.
fn failure(c: &Completion) -> Option<Errno> {
    match c.status {
        Status::Success if c.length_dw.is_some() => None,
        // A success without data answers no read.
        Status::Success => Some(Errno::EBADMSG),
        Status::UnsupportedRequest => Some(Errno::EOPNOTSUPP),
        Status::ConfigRetry => Some(Errno::EAGAIN),
        Status::CompleterAbort => Some(Errno::ECONNABORTED),
    }
}

// Named, so that it is found wherever this file is taken as a module: `fuzz/fuzz_targets/libtlp_gather.rs` does.
#[cfg(test)]
#[path = "gather/tests.rs"]
mod tests;
