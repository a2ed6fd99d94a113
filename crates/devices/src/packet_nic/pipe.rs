// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A bounded pipe between two tasks of one device: one waits for room, the other for what comes. A place is free again when
//! the taker says so, so that what it works on counts too. Knows no clock.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// First in, first out, of at most `limit` items; those that are being worked on among them.
pub(super) struct Pipe<T> {
    limit: usize,
    /// Places in use.
    used: Cell<usize>,
    items: RefCell<VecDeque<T>>,
    /// The task that waits for room.
    giver: RefCell<Option<Waker>>,
    /// The task that waits for an item.
    taker: RefCell<Option<Waker>>,
}

impl<T> Pipe<T> {
    pub(super) fn new(limit: usize) -> Pipe<T> {
        Pipe {
            limit,
            used: Cell::new(0),
            items: RefCell::new(VecDeque::with_capacity(limit)),
            giver: RefCell::default(),
            taker: RefCell::default(),
        }
    }

    /// Ends when there is room for one more. One task at a time may wait, and only it may [`push`](Self::push).
    pub(super) async fn room(&self) {
        poll_fn(|cx| {
            if self.used.get() < self.limit {
                return Poll::Ready(());
            }
            *self.giver.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Appends an item; to be called when there is [`room`](Self::room).
    pub(super) fn push(&self, item: T) {
        self.used.set(self.used.get() + 1);
        self.items.borrow_mut().push_back(item);
        wake(&self.taker);
    }

    /// The first item, once there is one; its place is in use until [`free`](Self::free). One task at a time may wait.
    pub(super) async fn take(&self) -> T {
        poll_fn(|cx| match self.items.borrow_mut().pop_front() {
            Some(item) => Poll::Ready(item),
            None => {
                *self.taker.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    /// The first item, and its place is free.
    pub(super) async fn pop(&self) -> T {
        let item = self.take().await;
        self.free();
        item
    }

    /// The place of an item that was taken is free.
    pub(super) fn free(&self) {
        self.used.set(self.used.get().saturating_sub(1));
        wake(&self.giver);
    }
}

fn wake(task: &RefCell<Option<Waker>>) {
    // Whoever is woken may look into the pipe.
    let waker = task.borrow_mut().take();
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::Context;

    #[test]
    fn what_is_taken_holds_its_place_until_it_is_freed() {
        let pipe = Pipe::new(1);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(pin!(pipe.room()).poll(&mut cx).is_ready());
        pipe.push(7);
        assert_eq!(pin!(pipe.take()).poll(&mut cx), Poll::Ready(7));
        let mut room = pin!(pipe.room());
        assert!(room.as_mut().poll(&mut cx).is_pending(), "it is worked on");
        pipe.free();
        assert!(room.as_mut().poll(&mut cx).is_ready());
        assert!(pin!(pipe.take()).poll(&mut cx).is_pending());
    }
}
