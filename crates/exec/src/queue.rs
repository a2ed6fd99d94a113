// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queue of the outputs of one class, between the program that makes them and the host that accepts them.

use super::{Sleeper, WaitList};
use std::collections::VecDeque;

/// Maximum number of queued outputs of one class. Further futures wait for room, in order.
pub const MAX_OUTPUTS: usize = 1024;

/// An output in the queue; `item` is `None` after it was withdrawn.
struct Entry<T> {
    item: Option<T>,
    sleeper: Option<Sleeper>,
}

/// A bounded queue with entries numbered from zero. An entry is accepted when it leaves the queue at the front.
pub(crate) struct OutQueue<T> {
    head: u64,
    entries: VecDeque<Entry<T>>,
    /// Futures that wait for room.
    pub(crate) room: WaitList,
}

impl<T> Default for OutQueue<T> {
    fn default() -> OutQueue<T> {
        OutQueue { head: 0, entries: VecDeque::new(), room: WaitList::default() }
    }
}

impl<T> OutQueue<T> {
    pub(crate) fn has_room(&self) -> bool {
        self.entries.len() < MAX_OUTPUTS
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Appends an entry; `sleeper` is woken when it is accepted. (The future keeps the item as an `Option`, and passes it on
    /// as such: unpacking it would cost more than everything else here.)
    pub(crate) fn push(&mut self, item: Option<T>, sleeper: Option<Sleeper>) -> u64 {
        self.entries.push_back(Entry { item, sleeper });
        self.head + self.entries.len() as u64 - 1
    }

    /// Accepts the next entry.
    pub(crate) fn pop(&mut self) -> Option<(T, Option<Sleeper>)> {
        while let Some(entry) = self.entries.pop_front() {
            self.head += 1;
            if let Some(item) = entry.item {
                return Some((item, entry.sleeper));
            }
        }
        None
    }

    pub(crate) fn is_accepted(&self, number: u64) -> bool {
        number < self.head
    }

    pub(crate) fn set_sleeper(&mut self, number: u64, sleeper: Sleeper) {
        let at = number.checked_sub(self.head).map(|at| at as usize);
        if let Some(entry) = at.and_then(|at| self.entries.get_mut(at)) {
            entry.sleeper = Some(sleeper);
        }
    }

    /// Withdraws an entry. Returns false if the entry was already accepted.
    pub(crate) fn withdraw(&mut self, number: u64) -> bool {
        let Some(at) = number.checked_sub(self.head) else { return false };
        if let Some(entry) = self.entries.get_mut(at as usize) {
            *entry = Entry { item: None, sleeper: None };
        }
        // Withdrawn entries at the back are removed, so that writes that are made and dropped repeatedly do not fill the queue.
        while self.entries.back().is_some_and(|entry| entry.item.is_none()) {
            self.entries.pop_back();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn withdrawn_entries_are_never_sent() {
        let mut queue = OutQueue::default();
        let numbers: Vec<u64> = (0..5).map(|n| queue.push(Some(n), None)).collect();
        assert!(queue.withdraw(numbers[0]) && queue.withdraw(numbers[2]) && queue.withdraw(numbers[4]));
        assert_eq!(queue.len(), 4, "the last entry is removed, inner ones leave with their neighbours");
        let popped: Vec<i32> = std::iter::from_fn(|| queue.pop().map(|(n, _)| n)).collect();
        assert_eq!(popped, [1, 3]);
        assert!(queue.is_accepted(numbers[3]) && !queue.withdraw(numbers[3]));
    }

    #[test]
    fn dropped_writes_do_not_fill_queue() {
        let mut queue = OutQueue::default();
        for n in 0..3 * MAX_OUTPUTS {
            assert!(queue.has_room());
            let number = queue.push(Some(n), None);
            assert!(queue.withdraw(number));
        }
        assert_eq!(queue.len(), 0);
    }
}
