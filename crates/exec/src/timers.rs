// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sleepers of a program, by wake-up time.

use super::Sleeper;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tlp::Time;

/// Key of a sleeper. The key is stale after the sleeper was woken or cancelled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimerKey {
    slot: u32,
    number: u64,
}

struct TimerSlot {
    number: u64,
    sleeper: Option<Sleeper>,
}

/// Sleepers, woken in the order of their times; sleepers with the same time in the order in which they started.
/// Their number is the number of sleeping futures of the program.
#[derive(Default)]
pub(crate) struct Timers {
    next_number: u64,
    // A cancelled sleeper stays until it is at the top, or more than half of the entries are stale.
    heap: BinaryHeap<Reverse<(Time, u64, u32)>>,
    slots: Vec<TimerSlot>,
    free: Vec<u32>,
}

impl Timers {
    /// Returns the time of the first sleeper.
    pub(crate) fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((time, ..))| *time)
    }

    /// The number of sleepers.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Sleeps until `time`. If `key` belongs to a sleeper, this sleeper continues to sleep until its own time.
    pub(crate) fn sleep(&mut self, key: &mut Option<TimerKey>, time: Time, sleeper: Sleeper) {
        match key.filter(|key| self.is_live(key)) {
            Some(key) => self.slots[key.slot as usize].sleeper = Some(sleeper),
            None => *key = Some(self.insert(time, sleeper)),
        }
    }

    /// Removes the next sleeper that is due at `now`. Returns the sleeper to wake.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<Sleeper> {
        let Reverse((time, _, slot)) = *self.heap.peek()?;
        if time > now {
            return None;
        }
        self.heap.pop();
        let sleeper = self.release(slot);
        self.drop_stale_top();
        sleeper
    }

    /// Cancels a sleeper.
    pub(crate) fn cancel(&mut self, key: &mut Option<TimerKey>) {
        let Some(key) = key.take().filter(|key| self.is_live(key)) else { return };
        self.release(key.slot);
        self.drop_stale_top();
        if self.heap.len() > 2 * self.len() + 16 {
            let slots = &self.slots;
            self.heap.retain(|Reverse((_, number, slot))| slots[*slot as usize].number == *number);
        }
    }

    fn insert(&mut self, time: Time, sleeper: Sleeper) -> TimerKey {
        self.next_number += 1;
        let number = self.next_number;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(TimerSlot { number: 0, sleeper: None });
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize] = TimerSlot { number, sleeper: Some(sleeper) };
        self.heap.push(Reverse((time, number, slot)));
        TimerKey { slot, number }
    }

    fn is_live(&self, key: &TimerKey) -> bool {
        self.slots[key.slot as usize].number == key.number
    }

    fn release(&mut self, slot: u32) -> Option<Sleeper> {
        let place = &mut self.slots[slot as usize];
        place.number = 0;
        self.free.push(slot);
        place.sleeper.take()
    }

    // Removes stale entries at the top, so that `next` always names a sleeper.
    fn drop_stale_top(&mut self) {
        while let Some(Reverse((_, number, slot))) = self.heap.peek() {
            if self.slots[*slot as usize].number == *number {
                return;
            }
            self.heap.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancelled_sleepers_are_removed() {
        let mut timers = Timers::default();
        let mut first = None;
        timers.sleep(&mut first, Time::from_ps(u64::MAX - 1), Sleeper::Task(0));
        for ps in 0..10_000 {
            let mut key = None;
            timers.sleep(&mut key, Time::from_ps(ps), Sleeper::Task(0));
            assert_eq!(timers.next(), Some(Time::from_ps(ps)));
            timers.cancel(&mut key);
        }
        for ps in 0..10_000 {
            let mut key = None;
            timers.sleep(&mut key, Time::from_ps(u64::MAX - ps), Sleeper::Task(0));
            timers.cancel(&mut key);
        }
        assert_eq!((timers.len(), timers.next()), (1, Some(Time::from_ps(u64::MAX - 1))));
        assert!(timers.heap.len() < 32, "{} entries for one sleeper", timers.heap.len());
        assert!(timers.pop_due(Time::MAX).is_some() && timers.pop_due(Time::MAX).is_none());
    }
}
