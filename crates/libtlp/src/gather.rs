// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reassembles the completions of one read.
//!
//! A completion belongs to the read if it has the read's requester and tag, its Byte Count is within the read, and
//! its Lower Address matches this Byte Count (`PCIe 5.0 §2.3.1.1`). Datagrams may be reordered and duplicated, so
//! each received DW is recorded separately. Never waits, and uses no socket.

use nix::errno::Errno;
use tlp::rules::reasons::{of_transaction, unsupported_prefixes};
use tlp::{Awaited, Bdf, Body, Completion, Parsed, Repr, RuleId, Span, Status, Tag, Violation};

/// Size of the longest read in DW.
const DWS: usize = 1024;

/// A read that was sent.
#[derive(Clone, Copy)]
pub(crate) struct Read {
    pub(crate) requester: Bdf,
    pub(crate) tag: Tag,
    /// The requested bytes, without holes.
    pub(crate) span: Span,
}

/// Outcome of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taken {
    /// It is a completion of the read, and its bytes were stored.
    Data,
    /// The completer refused the read, or the data is poisoned.
    Failed(Errno),
    /// It does not answer this read. If it is a completion, it breaks this rule.
    Stray(Option<Violation>),
}

/// A read, and a record of which of its DWs have arrived.
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

    /// Returns true if no further completion of the read can arrive.
    pub(crate) fn is_whole(&self) -> bool {
        self.missing_dw == 0
    }

    /// Handles a TLP, and copies its data to the right place in `out`, the buffer for all bytes of the read.
    pub(crate) fn take(&mut self, tlp: &[u8], out: Option<&mut [u8]>) -> Taken {
        let parsed = match Repr::parse_header(tlp) {
            Ok(parsed) => parsed,
            Err(error) => return Taken::Stray(Some(error.on_a_link())),
        };
        let Body::Completion(completion) = parsed.repr.body else { return Taken::Stray(None) };
        if let Some(why) = self.not_of_read(&completion, &parsed) {
            return Taken::Stray(Some(why));
        }
        if let Some(error) = failure(&completion) {
            self.end_at(&completion);
            return Taken::Failed(error);
        }
        // Only a digest may follow the data. Adapters may omit it although TD is set.
        match tlp.get(parsed.data.clone()) {
            Some(data) if tlp.len() <= parsed.tlp_len() => {
                let taken = self.take_data(&completion, data, out, parsed.repr.ep);
                taken.unwrap_or_else(|why| Taken::Stray(Some(why)))
            }
            _ => Taken::Stray(Some(Violation::new(RuleId::Length, tlp.len() as u64))),
        }
    }

    /// Returns the rule that the completion breaks if it does not belong to the read; otherwise `None`.
    fn not_of_read(&self, c: &Completion, parsed: &Parsed) -> Option<Violation> {
        if c.requester != self.read.requester || c.tag != self.read.tag {
            return Some(of_transaction(RuleId::UnexpectedCompletion, &parsed.repr));
        }
        if c.locked {
            return Some(Violation::expecting(RuleId::CompletionLocked, 0x0b, 0x0a));
        }
        (!parsed.prefixes.is_empty()).then(|| unsupported_prefixes(&parsed.prefixes))
    }

    fn take_data(
        &mut self,
        c: &Completion,
        data: &[u8],
        out: Option<&mut [u8]>,
        poisoned: bool,
    ) -> Result<Taken, Violation> {
        let awaited = self.awaited();
        let placed = awaited.place(c).map_err(|misfit| awaited.violation(c, misfit))?;
        let (lead, placed) = (usize::from(c.lower_address & 3), placed.start as usize..placed.end as usize);
        // Only the first completion may start within a DW, and only the last one may end within one.
        if placed.start != 0 && lead != 0 {
            let end_before = awaited.first_byte + placed.start as u64;
            return Err(Violation::new(RuleId::CompletionBoundary, end_before));
        }
        let first = (self.read.span.lead() as usize + placed.start) / 4;
        if !self.mark(first, data.len() / 4) {
            return Err(Violation::new(RuleId::CompletionRepeated, c.byte_count.into()));
        }
        if poisoned {
            return Ok(Taken::Failed(Errno::EIO));
        }
        if let Some(out) = out {
            let from = &data[lead..lead + placed.len()];
            out[placed].copy_from_slice(from);
        }
        Ok(Taken::Data)
    }

    fn awaited(&self) -> Awaited {
        let span = self.read.span;
        Awaited { first_byte: span.first_byte(), byte_count: span.byte_count() }
    }

    /// Marks DWs as received. If one of them was received already, changes nothing and returns false.
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

    /// After an error completion, only completions before its position can still arrive.
    fn end_at(&mut self, c: &Completion) {
        let total = self.read.span.byte_count();
        let offset = total.saturating_sub(u32::from(c.byte_count)) as usize;
        let first = (self.read.span.lead() as usize + offset) / 4;
        for dw in first..self.read.span.length_dw() as usize {
            self.mark(dw, 1);
        }
    }
}

/// Returns the errno of a completion without data.
fn failure(c: &Completion) -> Option<Errno> {
    match c.status {
        Status::Success if c.length_dw.is_some() => None,
        // The status Successful Completion without data does not answer a read.
        Status::Success => Some(Errno::EBADMSG),
        Status::UnsupportedRequest => Some(Errno::EOPNOTSUPP),
        Status::ConfigRetry => Some(Errno::EAGAIN),
        Status::CompleterAbort => Some(Errno::ECONNABORTED),
    }
}

// The path is explicit because `fuzz/fuzz_targets/libtlp_gather.rs` also uses this file as a module.
#[cfg(test)]
#[path = "gather/tests.rs"]
mod tests;
