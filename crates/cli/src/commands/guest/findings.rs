// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints findings of designs to standard error as they occur, and their number at the end. Never looks for findings.

use crate::output;
use session::external::Driver;

/// Number of findings printed so far, by slot.
#[derive(Default)]
pub(super) struct Findings(Vec<usize>);

impl Findings {
    /// Prints new findings.
    pub(super) fn tell(&mut self, lab: &Driver) {
        lab.session().new_findings(&mut self.0).iter().for_each(output::note);
    }

    /// Prints the rest, and the total of each slot.
    pub(super) fn end(mut self, lab: &Driver) {
        self.tell(lab);
        lab.session().wrong().iter().for_each(output::note);
    }
}
