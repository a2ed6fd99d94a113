// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Non-posted requests to BARs other than memory reads: deferrable writes, I/O, AtomicOps. Never sends: what is to be
//! sent is queued.

use super::Endpoint;
use super::inbound::{Drop, credit_of};
use super::requests::{Question, Reply};
use crate::seam::{CompletionError, RequestOp};
use tlp::{Access, AtomicRequest, IoRequest, MemoryRequest, Span, Time, Tlp};

impl Endpoint {
    /// A DMWr (ECN "Deferrable Memory Write"): UR where the function takes none, or none of this length.
    pub(super) fn deferrable_write(&mut self, now: Time, tlp: Tlp, request: MemoryRequest) {
        let span = request.span;
        let (credit, question) = (credit_of(&tlp), Question::of(&tlp, span, Reply::NothingOrRetry));
        if tlp.data.len() != span.byte_count() as usize && !span.is_zero_length() {
            return self.drop_request(None, &tlp, Drop::Malformed);
        }
        let Some((index, bar, offset)) = self.decode(span) else {
            return self.refuse(None, &tlp, &question, CompletionError::UnsupportedRequest);
        };
        let most = self.functions[index].settings.deferrable_bytes;
        if span.length_dw() * 4 > most || self.msix_holds(index, bar, offset, span) {
            return self.refuse(Some(index), &tlp, &question, CompletionError::UnsupportedRequest);
        }
        if tlp.repr.ep {
            return self.refuse_poisoned(index, &tlp, &question);
        }
        let op = RequestOp::WriteNonPosted { bar, offset, span, data: tlp.data, deferrable: true };
        self.hand_on_non_posted(now, index, credit, question, op);
    }

    /// An IORd or IOWr: UR where no I/O BAR with I/O Space Enable holds it.
    pub(super) fn io(&mut self, now: Time, tlp: Tlp, request: IoRequest) {
        let (credit, question) = (credit_of(&tlp), Question::of_io(&tlp, &request));
        let span = question.span;
        let Some((index, bar, offset)) = self.decode_io(span) else {
            return self.refuse(None, &tlp, &question, CompletionError::UnsupportedRequest);
        };
        let op = match request.op {
            Access::Read => RequestOp::Read { bar, offset, span, locked: false },
            Access::Write if tlp.repr.ep => return self.refuse_poisoned(index, &tlp, &question),
            Access::Write => {
                let data = enabled(&tlp, span);
                RequestOp::WriteNonPosted { bar, offset, span, data, deferrable: false }
            }
        };
        self.hand_on_non_posted(now, index, credit, question, op);
    }

    /// A FetchAdd, Swap or CAS: UR where the function does not complete AtomicOps of this size, CA where it does but not
    /// there (`PCIe 5.0 §6.15.3`). One that is not naturally aligned is malformed (§2.2.7).
    pub(super) fn atomic(&mut self, now: Time, tlp: Tlp, request: AtomicRequest) {
        let (credit, question) = (credit_of(&tlp), Question::of_atomic(&tlp, &request));
        let span = question.span;
        let aligned = request.address.is_multiple_of(u64::from(request.operand.bytes()));
        if !aligned || tlp.data.len() != request.length_dw() as usize * 4 {
            return self.drop_request(None, &tlp, Drop::Malformed);
        }
        let Some((index, bar, offset)) = self.decode(span) else {
            return self.refuse(None, &tlp, &question, CompletionError::UnsupportedRequest);
        };
        if !self.functions[index].settings.atomics.takes(request.operand) {
            return self.refuse(Some(index), &tlp, &question, CompletionError::UnsupportedRequest);
        }
        if self.msix_holds(index, bar, offset, span) {
            return self.refuse(Some(index), &tlp, &question, CompletionError::CompleterAbort);
        }
        if tlp.repr.ep {
            return self.refuse_poisoned(index, &tlp, &question);
        }
        let op = RequestOp::Atomic { bar, offset, op: request.op, operands: tlp.data };
        self.hand_on_non_posted(now, index, credit, question, op);
    }
}

/// The bytes of `span`, where the TLP of a peer may have the whole DW.
fn enabled(tlp: &Tlp, span: Span) -> tlp::Data {
    let (lead, len) = (span.lead() as usize, span.byte_count() as usize);
    if tlp.data.len() == 4 && len < 4 { tlp.data.slice(lead, len) } else { tlp.data.clone() }
}
