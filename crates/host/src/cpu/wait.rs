// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queues of interrupts and device messages for a host program, within the limits of [`cpu`](super), and the futures
//! that remove items from them.

use crate::HostMessage;
use exec::{WaitList, wake};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// A queue of items, and its waiters in order.
pub(super) struct Mailbox<T> {
    pub(super) items: VecDeque<T>,
    /// Maximum number of items that the queue stores.
    most: usize,
    /// Number of items dropped beyond that.
    pub(super) lost: u64,
    pub(super) waiting: WaitList,
}

impl<T> Mailbox<T> {
    pub(super) fn new(most: usize) -> Rc<RefCell<Mailbox<T>>> {
        let waiting = WaitList::default();
        Rc::new(RefCell::new(Mailbox { items: VecDeque::new(), most, lost: 0, waiting }))
    }

    /// Removes the waiter with `ticket`. Returns the waker of the next waiting task.
    fn leave(&mut self, ticket: &mut Option<u64>) -> Option<Waker> {
        self.waiting.leave(ticket);
        if self.items.is_empty() { None } else { self.waiting.first() }
    }
}

/// Adds an item to `mail`.
pub(super) fn put<T>(mail: &RefCell<Mailbox<T>>, item: T) {
    let first = {
        let mail = &mut *mail.borrow_mut();
        if mail.items.len() < mail.most {
            mail.items.push_back(item);
        } else {
            mail.lost += 1;
        }
        mail.waiting.first()
    };
    wake(first);
}

/// Future that takes the first item.
#[must_use = "futures do nothing unless awaited"]
pub struct Arrival<T> {
    mail: Rc<RefCell<Mailbox<T>>>,
    ticket: Option<u64>,
}

/// Future of an interrupt.
pub type InterruptFuture = Arrival<()>;

/// Future of a message.
pub type MessageFuture = Arrival<HostMessage>;

impl<T> Arrival<T> {
    pub(super) fn in_mail(mail: &Rc<RefCell<Mailbox<T>>>) -> Arrival<T> {
        Arrival { mail: Rc::clone(mail), ticket: None }
    }
}

impl<T> Future for Arrival<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let this = &mut *self;
        let (item, next) = {
            let mail = &mut *this.mail.borrow_mut();
            let Some(item) = mail.items.pop_front() else {
                mail.waiting.wait(&mut this.ticket, cx.waker());
                return Poll::Pending;
            };
            (item, mail.leave(&mut this.ticket))
        };
        wake(next);
        Poll::Ready(item)
    }
}

impl<T> Drop for Arrival<T> {
    fn drop(&mut self) {
        if self.ticket.is_some() {
            let next = self.mail.borrow_mut().leave(&mut self.ticket);
            wake(next);
        }
    }
}
