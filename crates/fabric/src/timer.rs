// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The events of one timer in the queue, which cannot remove them. Tracks the pending ones, so that no event is
//! requested twice. Never reads a clock.

use tlp::Time;

/// Due times of one timer's events in the queue.
///
/// A timer that moves later needs no new event: the pending event fires too early and requests the next one. If a short
/// timeout expires many times while a long one runs, the queue therefore holds one event of the long one, not one for
/// each time. A new event is needed only if the timer moves before all pending events, so the number of events does not
/// grow with the run.
pub(crate) struct TimerEvents {
    /// The earliest; [`Time::MAX`] if no event is pending.
    first: Time,
    /// The others, the earliest last.
    later: Vec<Time>,
}

/// Number of events beyond the first for which there is room without allocation.
const LATER: usize = 4;

impl TimerEvents {
    /// Makes a timer without pending events.
    pub(crate) fn none() -> TimerEvents {
        TimerEvents { first: Time::MAX, later: Vec::with_capacity(LATER) }
    }

    /// Makes a timer that never requests an event: no deadline is earlier than its first one, at time zero.
    pub(crate) fn closed() -> TimerEvents {
        TimerEvents { first: Time::ZERO, later: Vec::new() }
    }

    /// Returns whether an event must be put into the queue for a timer that is due at `at`; if so, it counts as pending.
    #[inline]
    pub(crate) fn request(&mut self, at: Time) -> bool {
        let is_new = at < self.first;
        if is_new {
            if self.first < Time::MAX {
                self.later.push(self.first);
            }
            self.first = at;
        }
        is_new
    }

    /// Removes the events due by `now`, which have fired or fire at this time.
    #[inline]
    pub(crate) fn come(&mut self, now: Time) {
        while self.first <= now {
            self.first = self.later.pop().unwrap_or(Time::MAX);
        }
    }

    /// Returns the time of the first event; [`Time::MAX`] if none is pending.
    #[inline]
    pub(crate) fn first(&self) -> Time {
        self.first
    }

    /// Postpones the first event to `at`, perhaps beyond others.
    pub(crate) fn put_off_first(&mut self, at: Time) {
        self.first = at;
    }
}
