// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What comes to a host program until it is taken, interrupts and messages of devices, and the futures that take it. Never hold
//! more than the limits of [`cpu`](super) allow.

use crate::HostMessage;
use exec::{WaitList, wake};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// What has come and who waits for it, first come, first served.
pub(super) struct Mailbox<T> {
    pub(super) items: VecDeque<T>,
    /// The most items that are kept.
    most: usize,
    /// Items that came beyond that.
    pub(super) lost: u64,
    pub(super) waiting: WaitList,
}

impl<T> Mailbox<T> {
    pub(super) fn new(most: usize) -> Rc<RefCell<Mailbox<T>>> {
        let waiting = WaitList::default();
        Rc::new(RefCell::new(Mailbox { items: VecDeque::new(), most, lost: 0, waiting }))
    }

    /// The future that holds `ticket` waits no longer; returns whom to wake next.
    fn leave(&mut self, ticket: &mut Option<u64>) -> Option<Waker> {
        self.waiting.leave(ticket);
        if self.items.is_empty() { None } else { self.waiting.first() }
    }
}

/// Puts an item into `mail`.
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

/// Ends with what has come first.
#[must_use = "futures do nothing unless awaited"]
pub struct Arrival<T> {
    mail: Rc<RefCell<Mailbox<T>>>,
    ticket: Option<u64>,
}

/// Ends with an interrupt.
pub type InterruptFuture = Arrival<()>;

/// Ends with a message.
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
