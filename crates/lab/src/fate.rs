// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loss of a port: the task that serves the port tells it, the tasks of all seats below hear it. Never looks at a register.

use host::Cpu;
use host::cpu::{Either, select};
use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use tlp::Duration;

/// How a seat has lost the port above it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Loss {
    /// The port is gone; when it is back, the task that serves the port above starts the seat anew.
    ForNow,
    /// The port is gone for good, for this reason.
    ForGood(String),
}

/// What one seat hears of the ports above it. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Fate(Rc<State>);

#[derive(Default)]
struct State {
    loss: RefCell<Option<Loss>>,
    /// Each once: bounded by the tasks of the host.
    waiting: RefCell<Vec<Waker>>,
}

impl Fate {
    /// Tells the loss; only the first one counts.
    pub(crate) fn tell(&self, loss: Loss) {
        self.0.loss.borrow_mut().get_or_insert(loss);
        let waiting = std::mem::take(&mut *self.0.waiting.borrow_mut());
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Waits until a loss is told.
    pub(crate) async fn lost(&self) -> Loss {
        poll_fn(|cx| match &*self.0.loss.borrow() {
            Some(loss) => Poll::Ready(loss.clone()),
            None => {
                keep(&mut self.0.waiting.borrow_mut(), cx.waker());
                Poll::Pending
            }
        })
        .await
    }

    /// The loss that is told within `patience`, if one is: the error of a driver may come before the news of the loss.
    pub(crate) async fn soon(&self, cpu: &Cpu, patience: Duration) -> Option<Loss> {
        match select(self.lost(), cpu.sleep(patience)).await {
            Either::Left(loss) => Some(loss),
            Either::Right(()) => None,
        }
    }
}

/// Adds a waker, unless its task has one there.
pub(crate) fn keep(waiting: &mut Vec<Waker>, waker: &Waker) {
    if !waiting.iter().any(|w| w.will_wake(waker)) {
        waiting.push(waker.clone());
    }
}
