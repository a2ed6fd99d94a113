// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU time of this process, and of those that it began.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use rustix::time::{ClockId, clock_gettime};

/// CPU seconds that all threads of this process have used.
pub(crate) fn seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// CPU seconds of processes that this one has begun, and that have ended.
pub(crate) fn of_children() -> f64 {
    let spent = getrusage(UsageWho::RUSAGE_CHILDREN);
    spent.map_or(0.0, |of| (of.user_time() + of.system_time()).num_microseconds() as f64 / 1e6)
}
