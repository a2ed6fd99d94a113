// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A bounded queue between the tasks of one device: one task fills it, one waits for what comes.
//!
//! Knows no clock and no host; like all of a device, it lives in one thread.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// First in, first out, of at most `limit` items.
pub struct Queue<T> {
    limit: usize,
    state: RefCell<State<T>>,
}

struct State<T> {
    items: VecDeque<T>,
    /// The task that waits, if one does.
    waiting: Option<Waker>,
}

impl<T> Queue<T> {
    /// An empty queue of at most `limit` items.
    #[must_use]
    pub fn new(limit: usize) -> Queue<T> {
        Queue { limit, state: RefCell::new(State { items: VecDeque::new(), waiting: None }) }
    }

    /// Appends `item`; false, and `item` is gone, where the queue is full.
    #[must_use]
    pub fn push(&self, item: T) -> bool {
        let mut state = self.state.borrow_mut();
        if state.items.len() >= self.limit {
            return false;
        }
        state.items.push_back(item);
        let waiting = state.waiting.take();
        // Whoever is woken may look into the queue.
        drop(state);
        if let Some(waker) = waiting {
            waker.wake();
        }
        true
    }

    /// The first item, if there is one.
    pub fn try_pop(&self) -> Option<T> {
        self.state.borrow_mut().items.pop_front()
    }

    /// The first item, once there is one. One task at a time may wait.
    pub async fn pop(&self) -> T {
        poll_fn(|cx| {
            let mut state = self.state.borrow_mut();
            match state.items.pop_front() {
                Some(item) => Poll::Ready(item),
                None => {
                    state.waiting = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// How many items are in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.borrow().items.len()
    }

    /// True where none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::Context;

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
}
