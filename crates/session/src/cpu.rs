// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU time of this process, for reports. This module does not read the wall clock.

use rustix::time::{ClockId, clock_gettime};

/// Returns the CPU seconds that all threads of this process have used.
pub fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
