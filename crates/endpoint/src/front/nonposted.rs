// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Non-posted requests to BARs other than memory reads: deferrable writes, I/O, AtomicOps. Never sends: completions
//! are queued.

use super::claim::{Claim, Drop};
use super::requests::Question;
use super::{Front, FunctionBackend};
use tlp::rules::reasons::{request_type, unclaimed, wrong_length};
use tlp::{Access, AtomicRequest, IoRequest, MemoryRequest, Tlp};

impl<B: FunctionBackend> Front<B> {
    /// Claims a DMWr (ECN "Deferrable Memory Write"). Answers UR if the function does not accept deferrable writes of
    /// this length.
    pub(super) fn deferrable_write(&mut self, tlp: &Tlp, request: &MemoryRequest) -> Claim {
        let span = request.span;
        if tlp.data.len() != span.byte_count() as usize && !span.is_zero_length() {
            return self.dropped(None, tlp, Drop::Malformed(wrong_length(tlp)));
        }
        let Some(at) = self.decode(span) else {
            return self.unsupported(None, tlp, unclaimed(span.first_byte()));
        };
        let most = self.functions[at.index].settings.deferrable_bytes;
        if span.length_dw() * 4 > most || self.msix_holds(at, span) {
            return self.unsupported(Some(at.index), tlp, request_type(&tlp.repr));
        }
        if tlp.repr.ep {
            return self.refuse_poisoned(at.index, tlp);
        }
        Claim::Bar(at)
    }

    /// Claims an IORd or IOWr. Answers UR if no I/O BAR with I/O Space Enable contains the address.
    pub(super) fn io(&mut self, tlp: &Tlp, request: &IoRequest) -> Claim {
        let span = Question::of_io(tlp, request).span;
        let Some(at) = self.decode_io(span) else {
            return self.unsupported(None, tlp, unclaimed(span.first_byte()));
        };
        if request.op == Access::Write && tlp.repr.ep {
            return self.refuse_poisoned(at.index, tlp);
        }
        Claim::Bar(at)
    }

    /// Claims a FetchAdd, Swap or CAS. Answers UR if the function completes no AtomicOps of this size, and CA if it
    /// completes them but not at this address (`PCIe 5.0 §6.15.3`). A request that is not naturally aligned is
    /// malformed (§2.2.7).
    pub(super) fn atomic(&mut self, tlp: &Tlp, request: &AtomicRequest) -> Claim {
        let span = Question::of_atomic(tlp, request).span;
        let aligned = request.address.is_multiple_of(u64::from(request.operand.bytes()));
        if !aligned || tlp.data.len() != request.length_dw() as usize * 4 {
            return self.dropped(None, tlp, Drop::Malformed(wrong_length(tlp)));
        }
        let Some(at) = self.decode(span) else {
            return self.unsupported(None, tlp, unclaimed(span.first_byte()));
        };
        if !self.functions[at.index].settings.atomics.takes(request.operand) {
            return self.unsupported(Some(at.index), tlp, request_type(&tlp.repr));
        }
        if self.msix_holds(at, span) {
            return self.abort(at.index, tlp);
        }
        if tlp.repr.ep {
            return self.refuse_poisoned(at.index, tlp);
        }
        Claim::Bar(at)
    }
}
