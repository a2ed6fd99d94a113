// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Futures of a host program that wait for interrupts and messages of devices. Never hold more than the limits of
//! [`cpu`](super) allow.

use super::Shared;
use crate::HostMessage;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Ends with an interrupt.
#[must_use = "futures do nothing unless awaited"]
pub struct InterruptFuture {
    shared: Rc<Shared>,
    vector: u16,
    ticket: Option<u64>,
}

impl InterruptFuture {
    pub(super) fn new(shared: &Rc<Shared>, vector: u16) -> InterruptFuture {
        InterruptFuture { shared: Rc::clone(shared), vector, ticket: None }
    }
}

impl Future for InterruptFuture {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let next = {
            let mut vectors = this.shared.vectors.borrow_mut();
            let vector = vectors.entry(this.vector).or_default();
            if vector.pending == 0 {
                vector.waiting.wait(&mut this.ticket, cx.waker());
                return Poll::Pending;
            }
            vector.pending -= 1;
            vector.waiting.leave(&mut this.ticket);
            if vector.pending > 0 { vector.waiting.first() } else { None }
        };
        if let Some(waker) = next {
            waker.wake();
        }
        Poll::Ready(())
    }
}

impl Drop for InterruptFuture {
    fn drop(&mut self) {
        if self.ticket.is_none() {
            return;
        }
        let next = {
            let mut vectors = self.shared.vectors.borrow_mut();
            let Some(vector) = vectors.get_mut(&self.vector) else { return };
            vector.waiting.leave(&mut self.ticket);
            if vector.pending > 0 { vector.waiting.first() } else { None }
        };
        if let Some(waker) = next {
            waker.wake();
        }
    }
}

/// Ends with a message.
#[must_use = "futures do nothing unless awaited"]
pub struct MessageFuture {
    shared: Rc<Shared>,
    ticket: Option<u64>,
}

impl MessageFuture {
    pub(super) fn new(shared: &Rc<Shared>) -> MessageFuture {
        MessageFuture { shared: Rc::clone(shared), ticket: None }
    }

    /// Leaves the list of those who wait; returns whom to wake next.
    fn leave(&mut self) -> Option<Waker> {
        let mut mail = self.shared.mail.borrow_mut();
        mail.waiting.leave(&mut self.ticket);
        if mail.messages.is_empty() { None } else { mail.waiting.first() }
    }
}

impl Future for MessageFuture {
    type Output = HostMessage;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<HostMessage> {
        let this = &mut *self;
        let message = {
            let mut mail = this.shared.mail.borrow_mut();
            let Some(message) = mail.messages.pop_front() else {
                mail.waiting.wait(&mut this.ticket, cx.waker());
                return Poll::Pending;
            };
            message
        };
        if let Some(waker) = this.leave() {
            waker.wake();
        }
        Poll::Ready(message)
    }
}

impl Drop for MessageFuture {
    fn drop(&mut self) {
        if self.ticket.is_none() {
            return;
        }
        if let Some(waker) = self.leave() {
            waker.wake();
        }
    }
}
