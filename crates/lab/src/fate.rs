// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What has become of the port that somebody stands below: told by whoever looks after it, heard by all below. Never looks at
//! a register.

use host::Cpu;
use host::cpu::{Either, select};
use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use tlp::Duration;

/// How somebody has lost what is above.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Loss {
    /// It is gone; when it is there again, whoever looks after the port above begins anew.
    ForNow,
    /// It is gone, and nobody will bring it up again: why.
    ForGood(String),
}

/// Heard by one of those below a port; clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Fate(Rc<State>);

#[derive(Default)]
struct State {
    loss: RefCell<Option<Loss>>,
    /// Each once: bounded by the tasks of the host.
    waiting: RefCell<Vec<Waker>>,
}

impl Fate {
    /// Says it, once: what was said first stays.
    pub(crate) fn tell(&self, loss: Loss) {
        self.0.loss.borrow_mut().get_or_insert(loss);
        let waiting = std::mem::take(&mut *self.0.waiting.borrow_mut());
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Waits until something is said.
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

    /// What is said within `patience`: an error of what is below may come before the news of its end.
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
