// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How the fabric's time and that of the outside go together. Reads no clock: what time it is outside is an argument everywhere.

use tlp::{Duration, Time};

/// Events after which a fabric that lags is left for the outside.
pub const SLICE_EVENTS: u64 = 4096;
/// Events after which it is looked at for what leaves.
pub(crate) const LOOK_EVENTS: u64 = 256;
const _: () = assert!(SLICE_EVENTS.is_multiple_of(LOOK_EVENTS));

/// Which time is the master.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Clock {
    /// The fabric's: it jumps from event to event, and goes on ahead of the outside as long as somebody there waits for it. An
    /// input joins at its time, or at once where the fabric is beyond that.
    Virtual,
    /// That of the outside: the fabric keeps to it, however long that takes.
    #[default]
    Wall,
    /// That of the outside, but the fabric may fall behind: an input joins at the fabric's present time, and what the fabric
    /// is late is dropped, not made up for.
    Lagging,
}

/// Time that a lagging fabric has been let off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lag {
    /// All of it: so far behind the clock of the outside the fabric's is.
    pub dropped: Duration,
    /// How often some was dropped.
    pub times: u64,
}

impl Lag {
    /// Where the fabric may be at most when it is `outside` there.
    pub(crate) fn aim(&self, outside: Time) -> Time {
        Time::ZERO + outside.since(Time::ZERO + self.dropped)
    }

    /// When it is `fabric` in the fabric, what time is it outside.
    pub(crate) fn outside(&self, fabric: Time) -> Time {
        fabric + self.dropped
    }

    /// Lets the fabric off `debt`.
    pub(crate) fn drop_debt(&mut self, debt: Duration) {
        if debt > Duration::ZERO {
            self.dropped += debt;
            self.times += 1;
        }
    }
}
