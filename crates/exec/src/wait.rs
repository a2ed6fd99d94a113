// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Futures that wait for the same event, in order of arrival.

use std::collections::VecDeque;
use std::task::Waker;

/// Stores `waker` in `place`. Clones the waker only if the stored waker does not wake the same task.
pub(crate) fn keep_waker(place: &mut Option<Waker>, waker: &Waker) {
    match place {
        Some(kept) => kept.clone_from(waker),
        None => *place = Some(waker.clone()),
    }
}

/// Wakes the task of `waker`. The caller must not hold a borrow.
pub fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Waiting futures, first come, first served. There is one entry per future, so the length is at most the number of the
/// program's futures. A future that is dropped leaves the list.
#[derive(Default)]
pub struct WaitList {
    next_ticket: u64,
    waiting: VecDeque<(u64, Option<Waker>)>,
}

impl WaitList {
    /// True if no future waits before the holder of `ticket` (or before a new future, without a ticket).
    pub fn is_turn(&self, ticket: Option<u64>) -> bool {
        self.waiting.front().is_none_or(|(first, _)| Some(*first) == ticket)
    }

    /// Waits at the position of `ticket`, or at the end without a ticket.
    pub fn wait(&mut self, ticket: &mut Option<u64>, waker: &Waker) {
        if let Some(at) = ticket.and_then(|t| self.position(t)) {
            keep_waker(&mut self.waiting[at].1, waker);
            return;
        }
        *ticket = Some(self.next_ticket);
        self.waiting.push_back((self.next_ticket, Some(waker.clone())));
        self.next_ticket += 1;
    }

    /// Leaves the list.
    #[inline]
    pub fn leave(&mut self, ticket: &mut Option<u64>) {
        if let Some(at) = ticket.take().and_then(|t| self.position(t)) {
            let _ = self.waiting.remove(at);
        }
    }

    /// Returns the waker of the first future, to be woken when no borrow is held. The future keeps its
    /// position until it is polled.
    #[inline]
    pub fn first(&self) -> Option<Waker> {
        self.waiting.front().and_then(|(_, waker)| waker.clone())
    }

    /// The number of futures that wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// True if no future waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    // The entry is found by binary search, because tickets ascend.
    fn position(&self, ticket: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&ticket, |(t, _)| *t).ok()
    }
}
