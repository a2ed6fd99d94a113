// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A bounded queue between two tasks of one device: one fills it and may wait for room, the other waits for what comes. A place
//! is free again when the taker says so, so that what it works on may count too.
//!
//! Knows no clock and no host; like all of a device, it lives in one thread.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

/// First in, first out, of at most `limit` items; those that are being worked on among them.
pub struct Queue<T> {
    limit: usize,
    /// Places in use.
    used: Cell<usize>,
    items: RefCell<VecDeque<T>>,
    /// The task that waits for room.
    giver: RefCell<Option<Waker>>,
    /// The task that waits for an item.
    taker: RefCell<Option<Waker>>,
}

impl<T> Queue<T> {
    /// An empty queue of at most `limit` items.
    pub fn new(limit: usize) -> Queue<T> {
        Queue {
            limit,
            used: Cell::new(0),
            items: RefCell::new(VecDeque::with_capacity(limit)),
            giver: RefCell::default(),
            taker: RefCell::default(),
        }
    }

    /// Ends when there is room for one more. One task at a time may wait, and only it may [`put`](Self::put).
    pub async fn room(&self) {
        poll_fn(|cx| {
            if self.used.get() < self.limit {
                return Poll::Ready(());
            }
            *self.giver.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Appends `item`, where there is [`room`](Self::room).
    pub fn put(&self, item: T) {
        self.used.set(self.used.get() + 1);
        self.items.borrow_mut().push_back(item);
        wake(&self.taker);
    }

    /// Appends `item`; false, and `item` is gone, where the queue is full.
    pub fn push(&self, item: T) -> bool {
        let has_room = self.used.get() < self.limit;
        if has_room {
            self.put(item);
        }
        has_room
    }

    /// The first item, once there is one; its place is in use until [`free`](Self::free). One task at a time may wait.
    pub async fn take(&self) -> T {
        poll_fn(|cx| match self.items.borrow_mut().pop_front() {
            Some(item) => Poll::Ready(item),
            None => {
                *self.taker.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    /// The first item, once there is one, and its place is free.
    pub async fn pop(&self) -> T {
        let item = self.take().await;
        self.free();
        item
    }

    /// The first item, if there is one, and its place is free.
    pub fn try_pop(&self) -> Option<T> {
        let item = self.items.borrow_mut().pop_front()?;
        self.free();
        Some(item)
    }

    /// True where there is an item, which stays; the task that asks is woken when the next one comes. One task at a time may wait.
    pub fn poll_some(&self, cx: &mut Context<'_>) -> bool {
        *self.taker.borrow_mut() = Some(cx.waker().clone());
        !self.is_empty()
    }

    /// The place of an item that was [taken](Self::take) is free.
    pub fn free(&self) {
        self.used.set(self.used.get().saturating_sub(1));
        wake(&self.giver);
    }

    /// How many items wait in it.
    pub fn len(&self) -> usize {
        self.items.borrow().len()
    }

    /// True where none does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Wakes the task that waits, if one does.
pub(crate) fn wake(task: &RefCell<Option<Waker>>) {
    // Whoever is woken may look into the queue.
    let waker = task.borrow_mut().take();
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;

    #[test]
    fn what_is_pushed_comes_out_in_order_and_no_more_than_the_limit_is_kept() {
        let queue = Queue::new(2);
        assert_eq!([1, 2, 3].map(|n| queue.push(n)), [true, true, false]);
        assert_eq!(
            (queue.len(), queue.try_pop(), queue.try_pop(), queue.try_pop()),
            (2, Some(1), Some(2), None)
        );
    }

    #[test]
    fn a_waiting_task_gets_what_comes() {
        let queue = Queue::new(1);
        let mut waits = pin!(queue.pop());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(waits.as_mut().poll(&mut cx).is_pending());
        assert!(queue.push(7));
        assert_eq!(waits.as_mut().poll(&mut cx), Poll::Ready(7));
    }

    #[test]
    fn what_is_only_looked_for_stays() {
        let queue = Queue::new(1);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(!queue.poll_some(&mut cx));
        queue.put(7);
        assert!(queue.poll_some(&mut cx) && queue.poll_some(&mut cx));
        assert_eq!(queue.try_pop(), Some(7));
    }

    #[test]
    fn what_is_taken_holds_its_place_until_it_is_freed() {
        let queue = Queue::new(1);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(pin!(queue.room()).poll(&mut cx).is_ready());
        queue.put(7);
        assert_eq!(pin!(queue.take()).poll(&mut cx), Poll::Ready(7));
        let mut room = pin!(queue.room());
        assert!(room.as_mut().poll(&mut cx).is_pending(), "it is worked on");
        queue.free();
        assert!(room.as_mut().poll(&mut cx).is_ready());
        assert!(pin!(queue.take()).poll(&mut cx).is_pending());
    }
}
