// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outputs of one class between the program that makes them and the host that takes them.

use super::WaitList;
use super::wait::keep_waker;
use std::collections::VecDeque;
use std::task::Waker;

/// Outputs of one class that a program may have ready at once; futures beyond wait for room, in order.
pub const MAX_OUTPUTS: usize = 1024;

/// `item` is `None` once withdrawn.
struct Entry<T> {
    item: Option<T>,
    waker: Option<Waker>,
}

/// A bounded queue whose entries have numbers, in order from zero; an entry is accepted when it leaves at the front.
pub(crate) struct OutQueue<T> {
    head: u64,
    entries: VecDeque<Entry<T>>,
    /// Who waits for room.
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

    /// Appends an entry; `waker` is woken when it is accepted.
    pub(crate) fn push(&mut self, item: T, waker: Option<Waker>) -> u64 {
        self.entries.push_back(Entry { item: Some(item), waker });
        self.head + self.entries.len() as u64 - 1
    }

    /// Accepts the next entry.
    pub(crate) fn pop(&mut self) -> Option<(T, Option<Waker>)> {
        while let Some(entry) = self.entries.pop_front() {
            self.head += 1;
            if let Some(item) = entry.item {
                return Some((item, entry.waker));
            }
        }
        None
    }

    pub(crate) fn is_accepted(&self, number: u64) -> bool {
        number < self.head
    }

    pub(crate) fn set_waker(&mut self, number: u64, waker: &Waker) {
        let at = number.checked_sub(self.head).map(|at| at as usize);
        if let Some(entry) = at.and_then(|at| self.entries.get_mut(at)) {
            keep_waker(&mut entry.waker, waker);
        }
    }

    /// Takes an entry back; false where it was accepted already.
    pub(crate) fn withdraw(&mut self, number: u64) -> bool {
        let Some(at) = number.checked_sub(self.head) else { return false };
        if let Some(entry) = self.entries.get_mut(at as usize) {
            *entry = Entry { item: None, waker: None };
        }
        // So that writes which are made and dropped again and again do not fill the queue.
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
    fn what_is_withdrawn_does_not_leave_and_the_rest_keeps_its_order() {
        let mut queue = OutQueue::default();
        let numbers: Vec<u64> = (0..5).map(|n| queue.push(n, None)).collect();
        assert!(queue.withdraw(numbers[0]) && queue.withdraw(numbers[2]) && queue.withdraw(numbers[4]));
        assert_eq!(queue.len(), 4, "the last is gone, those between leave with their neighbours");
        let popped: Vec<i32> = std::iter::from_fn(|| queue.pop().map(|(n, _)| n)).collect();
        assert_eq!(popped, [1, 3]);
        assert!(queue.is_accepted(numbers[3]) && !queue.withdraw(numbers[3]));
    }

    #[test]
    fn writes_made_and_dropped_for_ever_do_not_fill_it() {
        let mut queue = OutQueue::default();
        for n in 0..3 * MAX_OUTPUTS {
            assert!(queue.has_room());
            let number = queue.push(n, None);
            assert!(queue.withdraw(number));
        }
        assert_eq!(queue.len(), 0);
    }
}
