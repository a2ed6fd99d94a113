// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loss of a port: the task that serves the port signals it to the tasks of all components below.

use crate::Cpu;
use crate::cpu::{Either, select};
use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use tlp::Duration;

/// How a component has lost a port above it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Loss {
    /// The port is gone. When the port is back, the task that serves the port above starts the component again.
    Temporary,
    /// The port will not return. This is the reason.
    Permanent(String),
}

/// Signals to a component's task that a port above it is gone. Clones share the signal.
#[derive(Clone, Default)]
pub(super) struct LossSignal(Rc<LossState>);

#[derive(Default)]
struct LossState {
    loss: RefCell<Option<Loss>>,
    /// Contains each waker once, so its length is at most the number of tasks of the host.
    waiting: RefCell<Vec<Waker>>,
}

impl LossSignal {
    /// Signals a loss. Only the first signal has an effect.
    pub(super) fn set(&self, loss: Loss) {
        self.0.loss.borrow_mut().get_or_insert(loss);
        let waiting = std::mem::take(&mut *self.0.waiting.borrow_mut());
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Waits for a loss.
    pub(super) async fn lost(&self) -> Loss {
        poll_fn(|cx| match &*self.0.loss.borrow() {
            Some(loss) => Poll::Ready(loss.clone()),
            None => {
                keep(&mut self.0.waiting.borrow_mut(), cx.waker());
                Poll::Pending
            }
        })
        .await
    }

    /// Waits for a loss, at most for `timeout`: the error of a driver may come before the signal.
    pub(super) async fn lost_within(&self, cpu: &Cpu, timeout: Duration) -> Option<Loss> {
        match select(self.lost(), cpu.sleep(timeout)).await {
            Either::Left(loss) => Some(loss),
            Either::Right(()) => None,
        }
    }
}

/// Adds a waker, unless it is already in the list.
pub(super) fn keep(waiting: &mut Vec<Waker>, waker: &Waker) {
    if !waiting.iter().any(|w| w.will_wake(waker)) {
        waiting.push(waker.clone());
    }
}
