// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Refused TLPs while a command runs and at its end. This module does not decide which TLPs are refused.

use crate::output;
use session::report::RefusalReport;

/// Prints the refusals of a command that has ended on standard error.
pub(super) fn note(refusals: &[RefusalReport]) {
    RefusalReport::lines(refusals).for_each(output::note);
}

/// The kinds of refused TLPs that were printed so far.
#[derive(Default)]
pub(super) struct Printed {
    kinds: usize,
    refusals: Vec<RefusalReport>,
}

impl Printed {
    /// Prints the first TLP of each new kind on standard error. Calls `describe` only if `kinds` has changed.
    pub(super) fn print_new(&mut self, kinds: usize, describe: impl FnOnce() -> Vec<RefusalReport>) {
        if kinds == self.kinds {
            return;
        }
        let all = describe();
        let is_new =
            |new: &&RefusalReport| !new.routine && !self.refusals.iter().any(|old| old.is_kind_of(new));
        all.iter().filter(is_new).for_each(output::note);
        (self.kinds, self.refusals) = (kinds, all);
    }
}
