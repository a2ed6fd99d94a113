// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts how often and how long TLPs wait for credits or for the replay buffer. Never makes them wait.

use crate::counters::Counters;
use tlp::Time;

const REPLAY: usize = 3;

/// What is blocked, by class and, as a fourth, by the replay buffer, and since when.
#[derive(Default)]
pub(crate) struct Stalls {
    /// What is blocked now.
    blocked: u8,
    /// What `since` has been set for.
    noted: u8,
    since: [Time; 4],
}

impl Stalls {
    /// The classes whose heads lack credits, and whether the replay buffer holds up one that does not.
    pub(crate) fn set(&mut self, classes: u8, replay: bool) {
        self.blocked = classes | u8::from(replay) << REPLAY;
    }

    pub(crate) fn is_replay_blocked(&self) -> bool {
        self.blocked & 1 << REPLAY != 0
    }

    /// Starts and ends stalls by what is blocked at `now`, when the wire is or will be free. One that ends when it has
    /// begun is none.
    #[inline]
    pub(crate) fn note(&mut self, now: Time, counters: &mut Counters) {
        let changed = self.blocked ^ self.noted;
        if changed != 0 {
            self.change(changed, now, counters);
        }
    }

    #[cold]
    fn change(&mut self, changed: u8, now: Time, counters: &mut Counters) {
        for index in (0..self.since.len()).filter(|i| changed >> i & 1 != 0) {
            if self.blocked >> index & 1 != 0 {
                self.since[index] = now;
            } else {
                self.end(index, now, counters);
            }
        }
        self.noted = self.blocked;
    }

    fn end(&self, index: usize, now: Time, counters: &mut Counters) {
        let waited = now.since(self.since[index]).as_ps();
        if waited == 0 {
            return;
        }
        if index == REPLAY {
            counters.replay_buffer_stalls += 1;
            counters.replay_buffer_stall_ps += waited;
        } else {
            counters.credit_stalls[index] += 1;
            counters.credit_stall_ps[index] += waited;
        }
    }

    /// Counts the stalls that go on up to now. One that goes on behind it counts once more.
    pub(crate) fn finish(&mut self, now: Time, counters: &mut Counters) {
        for index in (0..self.since.len()).filter(|i| self.noted >> i & 1 != 0) {
            self.end(index, now, counters);
            self.since[index] = self.since[index].max(now);
        }
    }
}
