// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A pool of slots that transfers take and give back. A transfer that finds too few waits, first come, first served.
//! Allocates only while the number of waiters grows to its maximum. This module does not read a clock.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

/// A waiting transfer and the number of slots that it needs.
struct Waiting {
    ticket: u64,
    count: u32,
    waker: Waker,
}

/// The slots.
pub(super) struct Slots {
    /// Free slots; `None` for no limit.
    free: Cell<Option<u32>>,
    /// Bounded by the number of workers, since each waits for one transfer at a time.
    waiting: RefCell<VecDeque<Waiting>>,
    next_ticket: Cell<u64>,
}

impl Slots {
    /// Creates `slots` free slots; zero for no limit.
    pub(super) fn new(slots: u16) -> Slots {
        let free = if slots == 0 { None } else { Some(u32::from(slots)) };
        Slots { free: Cell::new(free), waiting: RefCell::default(), next_ticket: Cell::new(0) }
    }

    /// Returns true if the number of slots is limited.
    pub(super) fn is_limited(&self) -> bool {
        self.free.get().is_some()
    }

    /// Takes `count` slots together. Waits until this number is free. The total number of slots must be at least this
    /// large.
    pub(super) async fn take(&self, count: u32) {
        let mut ticket = None;
        poll_fn(|cx| self.poll_take(count, &mut ticket, cx)).await;
    }

    fn poll_take(&self, count: u32, ticket: &mut Option<u64>, cx: &Context<'_>) -> Poll<()> {
        let Some(free) = self.free.get() else { return Poll::Ready(()) };
        let mut waiting = self.waiting.borrow_mut();
        let first = waiting.front().is_none_or(|first| Some(first.ticket) == *ticket);
        if !first || free < count {
            match ticket {
                None => {
                    let number = self.next_ticket.replace(self.next_ticket.get() + 1);
                    *ticket = Some(number);
                    waiting.push_back(Waiting { ticket: number, count, waker: cx.waker().clone() });
                }
                Some(number) => {
                    if let Some(place) = waiting.iter_mut().find(|w| w.ticket == *number) {
                        place.waker.clone_from(cx.waker());
                    }
                }
            }
            return Poll::Pending;
        }
        if ticket.is_some() {
            waiting.pop_front();
        }
        drop(waiting);
        self.free.set(Some(free - count));
        self.wake_first();
        Poll::Ready(())
    }

    /// Returns `count` slots.
    pub(super) fn give(&self, count: u32) {
        if let Some(free) = self.free.get() {
            self.free.set(Some(free + count));
            self.wake_first();
        }
    }

    fn wake_first(&self) {
        let free = self.free.get().unwrap_or(0);
        let first = self.waiting.borrow().front().filter(|w| w.count <= free).map(|w| w.waker.clone());
        if let Some(waker) = first {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;

    #[test]
    fn slots_are_taken_in_request_order() {
        let slots = Slots::new(4);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(pin!(slots.take(3)).as_mut().poll(&mut cx).is_ready());
        let (mut two, mut one) = (pin!(slots.take(2)), pin!(slots.take(1)));
        assert!(two.as_mut().poll(&mut cx).is_pending());
        assert!(one.as_mut().poll(&mut cx).is_pending(), "one is free, but an earlier request needs two");
        slots.give(1);
        assert!(one.as_mut().poll(&mut cx).is_pending());
        assert!(two.as_mut().poll(&mut cx).is_ready());
        assert!(one.as_mut().poll(&mut cx).is_pending(), "no slot is free");
        slots.give(2);
        assert!(one.as_mut().poll(&mut cx).is_ready());
        assert_eq!(slots.free.get(), Some(1));
        assert!(slots.waiting.borrow().is_empty());
    }

    #[test]
    fn unlimited_slots_never_wait() {
        let slots = Slots::new(0);
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..100 {
            assert!(pin!(slots.take(8)).as_mut().poll(&mut cx).is_ready());
        }
        slots.give(8);
    }
}
