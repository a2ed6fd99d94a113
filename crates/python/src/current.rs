// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The current task of this thread. Python calls `__next__` of an operation without a context, so the operation looks up its task
//! here. State of a run is in [`RunState`].

use crate::error::RiserError;
use crate::run_state::RunState;
use pyo3::exceptions::PyRecursionError;
use pyo3::prelude::*;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

/// Maximum nesting depth of coroutines that poll each other through operations. The stack limits it.
const MAX_DEPTH: usize = 100;

/// Maximum nesting depth of labs that devices in Python run. The stack limits it.
const MAX_LABS: usize = 8;

/// A task with its run.
type Task = (Rc<RunState>, Waker);

thread_local! {
    /// The tasks that are being polled, innermost last.
    static POLLED: RefCell<Vec<Task>> = const { RefCell::new(Vec::new()) };
    /// Number of labs on the stack.
    static LABS: Cell<usize> = const { Cell::new(0) };
}

/// Returns the task that is being polled.
///
/// # Errors
/// If no task is being polled.
pub(crate) fn task() -> PyResult<Task> {
    POLLED.with_borrow(|tasks| tasks.last().cloned()).ok_or_else(|| {
        RiserError::new_err(
            "awaited outside of a run: operations of riser can be awaited only in coroutines of a device or a driver",
        )
    })
}

/// Calls `poll`, which polls a coroutine of `run` with this waker.
///
/// # Errors
/// If the polls of coroutines are nested too deep.
pub(crate) fn with_task<T>(run: &Rc<RunState>, waker: &Waker, poll: impl FnOnce() -> T) -> PyResult<T> {
    let depth = POLLED.with_borrow_mut(|tasks| {
        tasks.push((Rc::clone(run), waker.clone()));
        tasks.len()
    });
    if depth > MAX_DEPTH {
        POLLED.with_borrow_mut(Vec::pop);
        let text = format!("more than {MAX_DEPTH} nested coroutines, each in `within(...)` of the last");
        return Err(PyRecursionError::new_err(text));
    }
    let is_outermost = depth == 1;
    if is_outermost {
        run.begin_poll();
    }
    let result = poll();
    POLLED.with_borrow_mut(Vec::pop);
    if is_outermost {
        run.stop_clock();
    }
    Ok(result)
}

/// The tasks of the outer run. The earlier task and run become current again when this value is dropped.
struct Around(Vec<Task>);

impl Drop for Around {
    fn drop(&mut self) {
        if let Some((run, _)) = self.0.last() {
            run.start_clock();
        }
        POLLED.set(std::mem::take(&mut self.0));
    }
}

/// Calls `run`, which runs a lab. The clock of the coroutine that called it stops until the lab ends.
pub(crate) fn apart<T>(run: impl FnOnce() -> T) -> T {
    let around = Around(POLLED.take());
    if let Some((run, _)) = around.0.last() {
        run.stop_clock();
    }
    run()
}

/// Counts a lab on the stack until this value is dropped.
struct Counted;

impl Drop for Counted {
    fn drop(&mut self) {
        LABS.set(LABS.get() - 1);
    }
}

/// Calls `work`, which checks or runs a lab.
///
/// # Errors
/// If the lab is within too many other labs.
pub(crate) fn with_lab<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    LABS.set(LABS.get() + 1);
    let _counted = Counted;
    if LABS.get() > MAX_LABS {
        return Err(RiserError::new_err(format!("more than {MAX_LABS} labs run within one another")));
    }
    work()
}
