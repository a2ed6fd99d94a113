// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Findings of designs, which go to standard error as they occur, with their number at the end. Never looks for any.

use crate::output;
use lab::external::Driver;

/// How many findings of each slot have been told.
#[derive(Default)]
pub(super) struct Findings(Vec<usize>);

impl Findings {
    /// Tells those that are new.
    pub(super) fn tell(&mut self, lab: &Driver) {
        lab.assembly().new_findings(&mut self.0).iter().for_each(output::note);
    }

    /// Tells the rest, and how many there are in all.
    pub(super) fn end(mut self, lab: &Driver) {
        self.tell(lab);
        lab.assembly().wrong().iter().for_each(output::note);
    }
}
