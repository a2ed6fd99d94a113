// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Refused TLPs at the end of a command. This module does not decide which TLPs are refused.

use crate::output;
use session::report::RefusalReport;

/// Prints the refusals of a command that has ended on standard error.
pub(super) fn note(refusals: &[RefusalReport]) {
    RefusalReport::lines(refusals).for_each(output::note);
}
