// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Refused TLPs: the one place that counts them, with the rule that each breaks. Never logs an error.

use super::{Behind, Counters, Front, Shared};
use device::seam::CompletionError;
use tlp::Violation;
use tlp::rules::reasons::{aborted, unsupported};
use tlp::rules::{Head, Refusal};

impl Shared {
    /// Counts a TLP that `function` refuses, or a request that it gives up, and keeps the reason. No other code writes
    /// the [counters of refusals](Counters::refused).
    #[cold]
    pub(crate) fn refused(
        &mut self,
        counter: fn(&mut Counters) -> &mut u64,
        function: Option<usize>,
        why: Violation,
        tlp: Head,
    ) {
        *counter(&mut self.counters) += 1;
        self.refusals.record(self.now, function.map(|index| index as u16), why, tlp);
    }
}

impl<B: Behind> Front<B> {
    /// Why TLPs were refused. Places are numbers of functions; a slot with one function has no places.
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

/// The device answered a request with this error; errors other than UR become CA.
#[cold]
pub(crate) fn of_answer(error: CompletionError) -> Violation {
    if error == CompletionError::UnsupportedRequest { unsupported() } else { aborted() }
}
