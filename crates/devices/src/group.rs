// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tasks that end together: after their group is dropped, each ends at its next poll. This module does not depend
//! on the executor.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Tasks that end when the group is dropped, so that a stopped owner leaves none running.
#[derive(Default)]
pub(crate) struct Group {
    ended: Rc<Ended>,
}

#[derive(Default)]
struct Ended {
    is_over: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

impl Group {
    /// Returns the output of `task`, or `None` if the group was dropped first.
    pub(crate) fn member<F: Future>(&self, task: F) -> impl Future<Output = Option<F::Output>> + use<F> {
        let ended = Rc::clone(&self.ended);
        async move {
            let (mut task, mut waits) = (std::pin::pin!(task), false);
            poll_fn(|cx| {
                if ended.is_over.get() {
                    return Poll::Ready(None);
                }
                // A task stores its waker.
                if !std::mem::replace(&mut waits, true) {
                    ended.waiting.borrow_mut().push(cx.waker().clone());
                }
                task.as_mut().poll(cx).map(Some)
            })
            .await
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.ended.is_over.set(true);
        self.ended.waiting.take().into_iter().for_each(Waker::wake);
    }
}
