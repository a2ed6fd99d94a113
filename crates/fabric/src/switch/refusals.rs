// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLPs that a switch refuses or reports: counted with the rule that each breaks. Never logs an error.

use super::{Switch, SwitchCounters};
use crate::bridge::refusals::violation;
use config::Uncorrectable;
use tlp::rules::{Head, Refusal};
use tlp::{Time, Tlp, Violation};

impl Switch {
    /// Counts a TLP that port `port` refuses, and stores the reason.
    #[cold]
    pub(super) fn refused(
        &mut self,
        counter: fn(&mut SwitchCounters) -> &mut u64,
        port: usize,
        now: Time,
        why: Violation,
        tlp: &Tlp,
    ) {
        *counter(&mut self.counters) += 1;
        self.refusals.record(now, Some(port as u16), why, Head::of(tlp));
    }

    /// Returns the rule broken by a TLP that came in at port `ingress` and that a port reports as `error`.
    #[cold]
    pub(super) fn violation(&self, ingress: usize, error: Uncorrectable, tlp: &Tlp) -> Violation {
        violation(error, tlp, (ingress != 0).then_some(&self.routes[ingress]))
    }

    /// Reasons why TLPs were refused. Places are numbers of ports.
    pub fn refusals(&self) -> &[Refusal] {
        self.refusals.kinds()
    }
}
