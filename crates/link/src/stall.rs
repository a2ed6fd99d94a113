// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts how often and how long TLPs wait for credits or for the replay buffer. This module does not cause waits.

use crate::counters::Counters;
use tlp::{Class, Duration, Time, Vc};

/// Number of heads of queues that can wait: one for each class on each channel.
const HEADS: usize = Vc::COUNT * CLASSES;
const CLASSES: usize = Class::ALL.len();
/// Index of the replay buffer, after the heads.
const REPLAY: usize = HEADS;
const ALL_CLASSES: u32 = (1 << CLASSES) - 1;

/// The blocked heads and the replay buffer, with the time from which each is blocked. The bits of heads are ordered by
/// channel, then by [`Class::index`].
pub(crate) struct Stalls {
    /// The bits that are blocked now.
    blocked: u32,
    /// The bits for which `since` is set.
    noted: u32,
    since: [Time; HEADS + 1],
    /// How long the current head of each queue has waited for credits.
    waited: [Duration; HEADS],
}

impl Stalls {
    pub(crate) fn new() -> Stalls {
        Stalls { blocked: 0, noted: 0, since: [Time::ZERO; HEADS + 1], waited: [Duration::ZERO; HEADS] }
    }

    /// Sets the classes of `channel` whose heads lack credits. `replay`: the replay buffer blocks a head that has
    /// credits.
    pub(crate) fn set(&mut self, channel: usize, classes: u8, replay: bool) {
        // Usually no head is or was blocked.
        if self.blocked == 0 && classes == 0 && !replay {
            return;
        }
        let shift = channel * CLASSES;
        let kept = self.blocked & !(ALL_CLASSES << shift | 1 << REPLAY);
        self.blocked = kept | u32::from(classes) << shift | u32::from(replay) << REPLAY;
    }

    /// Sets whether the replay buffer blocks a head that has its credits.
    pub(crate) fn set_replay(&mut self, blocked: bool) {
        self.blocked = self.blocked & !(1 << REPLAY) | u32::from(blocked) << REPLAY;
    }

    pub(crate) fn is_replay_blocked(&self) -> bool {
        self.blocked & 1 << REPLAY != 0
    }

    /// Returns true if no head is blocked.
    pub(crate) fn none(&self) -> bool {
        self.blocked == 0 && self.noted == 0
    }

    /// Returns how long the head of `class` on `channel`, which is sent now, has waited for credits.
    pub(crate) fn take_wait(&mut self, channel: usize, class: Class) -> Duration {
        std::mem::take(&mut self.waited[channel * CLASSES + class.index()])
    }

    /// Starts and ends stalls according to `blocked` at `now`, when the wire is or will be free. A stall of no duration
    /// does not count.
    pub(crate) fn note(&mut self, now: Time, counters: &mut Counters) {
        let changed = self.blocked ^ self.noted;
        if changed != 0 {
            self.change(changed, now, counters);
        }
    }

    #[cold]
    fn change(&mut self, changed: u32, now: Time, counters: &mut Counters) {
        for index in bits(changed) {
            if self.blocked >> index & 1 != 0 {
                self.since[index] = now;
            } else {
                self.end(index, now, counters);
            }
        }
        self.noted = self.blocked;
    }

    fn end(&mut self, index: usize, now: Time, counters: &mut Counters) {
        let waited = now.since(self.since[index]);
        let ps = waited.as_ps();
        if ps == 0 {
            return;
        }
        if index == REPLAY {
            counters.replay_buffer_stalls += 1;
            counters.replay_buffer_stall_ps += ps;
            return;
        }
        counters.credit_stalls[index % CLASSES] += 1;
        counters.credit_stall_ps[index % CLASSES] += ps;
        let vc = &mut counters.vcs[index / CLASSES];
        vc.credit_stalls += 1;
        vc.credit_stall_ps += ps;
        self.waited[index] += waited;
    }

    /// Counts the time of unfinished stalls up to `now`. A stall that continues counts once more.
    pub(crate) fn finish(&mut self, now: Time, counters: &mut Counters) {
        for index in bits(self.noted) {
            self.end(index, now, counters);
            self.since[index] = self.since[index].max(now);
        }
    }
}

/// The positions of the bits that are set.
fn bits(mut set: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let index = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(index)
    })
}
