// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU time of child processes. [`session::cpu_seconds`] returns the time of this process.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// CPU seconds of processes that this one has begun, and that have ended.
pub(crate) fn of_children() -> f64 {
    let spent = getrusage(UsageWho::RUSAGE_CHILDREN);
    spent.map_or(0.0, |of| (of.user_time() + of.system_time()).num_microseconds() as f64 / 1e6)
}
