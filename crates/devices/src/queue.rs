// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A bounded queue between two tasks of one device: one fills it and may wait for room, the other waits for items. The taker
//! decides when a place becomes free, so items in processing can count too.
//!
//! This module does not depend on clocks or hosts. Like all parts of a device, it belongs to one thread.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

/// A FIFO of at most `limit` items, including those in processing.
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
    /// Creates an empty queue for at most `limit` items.
    pub fn new(limit: usize) -> Queue<T> {
        Queue {
            limit,
            used: Cell::new(0),
            items: RefCell::new(VecDeque::with_capacity(limit)),
            giver: RefCell::default(),
            taker: RefCell::default(),
        }
    }

    /// Waits for room for one more item. Only one task at a time may wait, and only this task may [`put`](Self::put).
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

    /// Appends `item`. There must be [`room`](Self::room).
    pub fn put(&self, item: T) {
        self.used.set(self.used.get() + 1);
        self.items.borrow_mut().push_back(item);
        wake(&self.taker);
    }

    /// Appends `item`. If the queue is full, drops the item and returns false.
    pub fn push(&self, item: T) -> bool {
        let has_room = self.used.get() < self.limit;
        if has_room {
            self.put(item);
        }
        has_room
    }

    /// Waits for the first item and returns it. Its place stays in use until [`free`](Self::free). Only one task at a time may
    /// wait.
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

    /// Waits for the first item, returns it, and frees its place.
    pub async fn pop(&self) -> T {
        let item = self.take().await;
        self.free();
        item
    }

    /// Returns the first item, if there is one, and frees its place.
    pub fn try_pop(&self) -> Option<T> {
        let item = self.items.borrow_mut().pop_front()?;
        self.free();
        Some(item)
    }

    /// Returns whether there is an item, without removing it. The polling task is woken for the next item. Only one task at a time
    /// may wait.
    pub fn poll_some(&self, cx: &mut Context<'_>) -> bool {
        *self.taker.borrow_mut() = Some(cx.waker().clone());
        !self.is_empty()
    }

    /// Frees the place of an item that was [taken](Self::take).
    pub fn free(&self) {
        self.used.set(self.used.get().saturating_sub(1));
        wake(&self.giver);
    }

    /// Returns the number of waiting items.
    pub fn len(&self) -> usize {
        self.items.borrow().len()
    }

    /// Returns whether no items are waiting.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Wakes the waiting task, if any.
pub(crate) fn wake(task: &RefCell<Option<Waker>>) {
    // The borrow must end first: the woken task may access the queue.
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
    fn keeps_order_and_limit() {
        let queue = Queue::new(2);
        assert_eq!([1, 2, 3].map(|n| queue.push(n)), [true, true, false]);
        assert_eq!(
            (queue.len(), queue.try_pop(), queue.try_pop(), queue.try_pop()),
            (2, Some(1), Some(2), None)
        );
    }

    #[test]
    fn waiting_task_gets_the_next_item() {
        let queue = Queue::new(1);
        let mut waits = pin!(queue.pop());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(waits.as_mut().poll(&mut cx).is_pending());
        assert!(queue.push(7));
        assert_eq!(waits.as_mut().poll(&mut cx), Poll::Ready(7));
    }

    #[test]
    fn polling_leaves_the_item() {
        let queue = Queue::new(1);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(!queue.poll_some(&mut cx));
        queue.put(7);
        assert!(queue.poll_some(&mut cx) && queue.poll_some(&mut cx));
        assert_eq!(queue.try_pop(), Some(7));
    }

    #[test]
    fn taken_item_keeps_its_place_until_freed() {
        let queue = Queue::new(1);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(pin!(queue.room()).poll(&mut cx).is_ready());
        queue.put(7);
        assert_eq!(pin!(queue.take()).poll(&mut cx), Poll::Ready(7));
        let mut room = pin!(queue.room());
        assert!(room.as_mut().poll(&mut cx).is_pending(), "the item is in processing");
        queue.free();
        assert!(room.as_mut().poll(&mut cx).is_ready());
        assert!(pin!(queue.take()).poll(&mut cx).is_pending());
    }
}
