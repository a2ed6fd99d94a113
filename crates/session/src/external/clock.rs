// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The relation between the fabric's time and the outside time. No clock is read: the outside time is always an
//! argument.

use tlp::{Duration, Time};

/// Number of events after which a lagging fabric returns to the outside.
pub const SLICE_EVENTS: u64 = 4096;
/// Number of events after which the fabric is checked for outputs.
pub(crate) const LOOK_EVENTS: u64 = 256;
const _: () = assert!(SLICE_EVENTS.is_multiple_of(LOOK_EVENTS));

/// The time that leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Clock {
    /// The fabric's time. The fabric jumps from event to event, and runs ahead of the outside while an outside program
    /// waits for it. An input joins at its own time, or immediately if the fabric's time is later.
    Virtual,
    /// The outside time: the fabric follows it, also if this takes longer than the wall clock.
    #[default]
    Wall,
    /// The outside time, but the fabric may fall behind. An input joins at the fabric's current time. The delay is
    /// dropped, not made up for.
    Lagging,
}

/// Time by which a lagging fabric has fallen behind for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lag {
    /// Total time by which the fabric's clock is behind the outside clock.
    pub dropped: Duration,
    /// Number of drops.
    pub times: u64,
}

impl Lag {
    /// The latest time that the fabric may reach at outside time `outside`.
    pub(crate) fn aim(&self, outside: Time) -> Time {
        Time::ZERO + outside.since(Time::ZERO + self.dropped)
    }

    /// The outside time for the fabric's time `fabric`.
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
