// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a client takes time from.

use std::time::Instant;
use tlp::Time;

/// Tells the time; never runs backwards.
pub trait Clock {
    /// Now.
    fn now(&mut self) -> Time;
}

/// Wall time since it was made.
#[derive(Clone, Copy, Debug)]
pub struct WallClock(Instant);

impl WallClock {
    /// Starts at [`Time::ZERO`].
    #[must_use]
    pub fn start() -> WallClock {
        WallClock(Instant::now())
    }
}

impl Clock for WallClock {
    fn now(&mut self) -> Time {
        let elapsed = self.0.elapsed();
        Time::from_ps(
            elapsed.as_secs().saturating_mul(1_000_000_000_000) + u64::from(elapsed.subsec_nanos()) * 1000,
        )
    }
}
