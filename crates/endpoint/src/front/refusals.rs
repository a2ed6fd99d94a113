// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Refused TLPs: the only code that counts them, with the rule that each breaks. Never logs an error.

use super::{Counters, Front, Function, FunctionBackend, Shared};
use device::seam::CompletionError;
use tlp::rules::reasons::{aborted, unsupported};
use tlp::rules::{Head, Reason, Refusal};
use tlp::split::request_piece;
use tlp::{Body, MemoryOp, MemoryRequest, Repr, Span, Tag, Violation};

impl Shared {
    /// Counts a TLP that `function` refuses, or a request that it abandons, and stores the reason. No other code writes
    /// the [counters of refusals](Counters::refused).
    #[cold]
    pub(crate) fn refused(
        &mut self,
        counter: fn(&mut Counters) -> &mut u64,
        function: Option<usize>,
        why: impl Into<Reason>,
        tlp: Head,
    ) {
        *counter(&mut self.counters) += 1;
        self.refusals.record(self.now, function.map(|index| index as u16), why, tlp);
    }
}

impl<B: FunctionBackend> Function<B> {
    /// Counts a request that the function may not issue because Bus Master Enable is clear or it is not in D0.
    /// `request` is its first TLP.
    #[cold]
    pub(crate) fn blocked(&self, shared: &mut Shared, request: Option<Body>) {
        let head = request.map_or_else(Head::default, |body| Head::of_header(&Repr::new(body)));
        let function = Some(usize::from(self.number));
        shared.refused(|c| &mut c.blocked_by_bus_master, function, self.settings.gate(), head);
    }

    /// Returns the first memory request of a transfer that is split at `limit` bytes.
    #[cold]
    pub(crate) fn first_request(
        &self,
        shared: &Shared,
        op: MemoryOp,
        (address, len): (u64, u32),
        limit: u32,
    ) -> Option<Body> {
        let span = match len {
            0 => Span::zero_length(address),
            _ => Span::covering(address, request_piece(address, len, limit)).ok()?,
        };
        Some(Body::Memory(MemoryRequest { op, requester: self.id(shared), tag: Tag::default(), span }))
    }
}

impl<B: FunctionBackend> Front<B> {
    /// Returns the reasons for refused TLPs. Places are numbers of functions. A slot with one function has no places.
    pub(crate) fn refusals(&self) -> Vec<Refusal> {
        let place = |refusal: &Refusal| refusal.place.filter(|_| self.functions.len() > 1);
        self.shared
            .refusals
            .kinds()
            .iter()
            .map(|refusal| Refusal { place: place(refusal), ..*refusal })
            .collect()
    }
}

/// Returns the violation for an error with which the device answered a request; errors other than UR become CA.
#[cold]
pub(crate) fn of_answer(error: CompletionError) -> Violation {
    if error == CompletionError::UnsupportedRequest { unsupported() } else { aborted() }
}
