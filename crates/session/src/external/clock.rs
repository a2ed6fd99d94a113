// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How the fabric's time relates to the time outside. It reads no clock: the time outside is always an argument.

use tlp::{Duration, Time};

/// Number of events after which a lagging fabric returns to the outside.
pub const SLICE_EVENTS: u64 = 4096;
/// Number of events after which the fabric is checked for outputs.
pub(crate) const LOOK_EVENTS: u64 = 256;
const _: () = assert!(SLICE_EVENTS.is_multiple_of(LOOK_EVENTS));

/// Which time is the master.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Clock {
    /// The fabric's time: it jumps from event to event, and runs ahead of the outside as long as somebody there waits
    /// for it. An input joins at its own time, or at once if the fabric is already later.
    Virtual,
    /// The time outside: the fabric keeps to it, however long that takes.
    #[default]
    Wall,
    /// The time outside, but the fabric may fall behind: an input joins at the fabric's present time, and the delay is
    /// dropped, not made up for.
    Lagging,
}

/// Time by which a lagging fabric has fallen behind for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lag {
    /// The sum: how far the fabric's clock is behind the clock outside.
    pub dropped: Duration,
    /// Number of drops.
    pub times: u64,
}

impl Lag {
    /// The latest time the fabric may reach when it is `outside` there.
    pub(crate) fn aim(&self, outside: Time) -> Time {
        Time::ZERO + outside.since(Time::ZERO + self.dropped)
    }

    /// The time outside when it is `fabric` in the fabric.
    pub(crate) fn outside(&self, fabric: Time) -> Time {
        fabric + self.dropped
    }

    /// Drops a delay of `debt`.
    pub(crate) fn drop_debt(&mut self, debt: Duration) {
        if debt > Duration::ZERO {
            self.dropped += debt;
            self.times += 1;
        }
    }
}
