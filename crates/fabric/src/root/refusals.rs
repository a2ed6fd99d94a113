// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLPs that root ports refuse, and requests of the host that are not completed: counted with the rule that each breaks.
//! Never logs an error.

use super::{Base, RootComplex};
use tlp::rules::{Head, Refusal};
use tlp::{Repr, Time, Tlp, Violation};

impl Base {
    /// Counts a TLP that root port `port` refuses, or a request that it gives up, and keeps the reason.
    #[cold]
    pub(super) fn refused(
        &mut self,
        counter: fn(&mut Base) -> &mut u64,
        port: usize,
        now: Time,
        why: Violation,
        tlp: &Tlp,
    ) {
        *counter(self) += 1;
        self.refusals.record(now, Some(port as u16), why, Head::of(tlp));
    }

    /// Counts a request of the host that leads to no root port.
    #[cold]
    pub(super) fn nowhere(&mut self, now: Time, repr: Repr, why: Violation) {
        self.counters.unsupported_requests += 1;
        self.refusals.record(now, None, why, Head::of_header(&repr));
    }
}

impl RootComplex {
    /// Why TLPs were refused; places are numbers of root ports.
    pub fn refusals(&self) -> &[Refusal] {
        self.base.refusals.kinds()
    }
}
