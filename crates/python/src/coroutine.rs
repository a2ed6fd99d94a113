// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A coroutine of Python as a future: riser's executor drives it, and nothing of asyncio is involved.
//!
//! What it awaits is in the end an [`Operation`], which polls a future of riser's with the waker of the task that is being polled,
//! and yields itself while that has not ended. Whatever else a coroutine yields is foreign: nobody would ever wake it.

use crate::error::{RiserError, Stuck};
use crate::operation::Operation;
use crate::polls;
use pyo3::exceptions::{PyRecursionError, PyStopIteration, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll, Waker};

/// Operations of a coroutine that may end at once, one after the other, before it waits for something: one that never waits lets no
/// time pass, and its run would never end.
const MAX_AT_ONCE: u32 = 1 << 16;

/// Coroutines that are polled within one another, each through an operation of the one around it: no stack is deep enough for any
/// number of them.
const MAX_DEPTH: usize = 100;

thread_local! {
    /// Operations since the poll has begun.
    static AT_ONCE: Cell<u32> = const { Cell::new(0) };
    /// The wakers of the tasks that are being polled, the innermost last.
    static POLLED: RefCell<Vec<Waker>> = const { RefCell::new(Vec::new()) };
    /// The operation that was polled last and has not ended: its address.
    static PENDING: Cell<*const Operation> = const { Cell::new(ptr::null()) };
}

/// Puts back what the run around this one was at, as it is dropped.
struct Around {
    at_once: u32,
    polled: Vec<Waker>,
}

impl Drop for Around {
    fn drop(&mut self) {
        AT_ONCE.set(self.at_once);
        POLLED.set(std::mem::take(&mut self.polled));
    }
}

/// What `within` gives, a run: its coroutines are none of the run around it, if there is one.
pub(crate) fn apart<T>(within: impl FnOnce() -> T) -> T {
    let _around = Around { at_once: AT_ONCE.get(), polled: POLLED.take() };
    within()
}

/// Notes that `operation` was polled and has not ended: it may be yielded now.
pub(crate) fn note_pending(operation: &Operation) {
    PENDING.set(operation);
}

/// The waker of the task that is being polled.
///
/// # Errors
/// Where none is: somebody else awaits.
pub(crate) fn waker() -> PyResult<Waker> {
    POLLED.with_borrow(|wakers| wakers.last().cloned()).ok_or_else(|| {
        RiserError::new_err(
            "awaited outside of a run: what riser hands out is awaited in coroutines that riser runs, those of a device or a driver",
        )
    })
}

/// Counts an operation of the task that is being polled.
///
/// # Errors
/// Where too many have ended at once.
pub(crate) fn count() -> PyResult<()> {
    AT_ONCE.set(AT_ONCE.get() + 1);
    match AT_ONCE.get() {
        0..=MAX_AT_ONCE => Ok(()),
        _ => Err(Stuck::new_err(format!(
            "{MAX_AT_ONCE} operations in a row have taken no time: a loop that waits for nothing"
        ))),
    }
}

/// What `polled` gives with this as the waker of the task.
///
/// # Errors
/// Where coroutines are polled within one another too deep.
fn with_waker<T>(waker: &Waker, polled: impl FnOnce() -> T) -> PyResult<T> {
    let depth = POLLED.with_borrow_mut(|wakers| {
        wakers.push(waker.clone());
        wakers.len()
    });
    if depth > MAX_DEPTH {
        POLLED.with_borrow_mut(Vec::pop);
        let text =
            format!("more than {MAX_DEPTH} coroutines within one another, each in `within(...)` of the last");
        return Err(PyRecursionError::new_err(text));
    }
    let is_outermost = depth == 1;
    if is_outermost {
        AT_ONCE.set(0);
        polls::note(true);
    }
    let result = polled();
    POLLED.with_borrow_mut(Vec::pop);
    if is_outermost {
        polls::note(false);
    }
    Ok(result)
}

/// The future of what a coroutine returns or raises. Dropped before its end it closes the coroutine.
pub(crate) struct Coroutine {
    /// None once it has ended.
    coroutine: Option<Py<PyAny>>,
}

impl Coroutine {
    /// The future of `coroutine`, which was made by an `async def`.
    ///
    /// # Errors
    /// Where it is something else.
    pub(crate) fn new(coroutine: Bound<'_, PyAny>, what: &str) -> PyResult<Coroutine> {
        if !coroutine.hasattr(intern!(coroutine.py(), "send"))? {
            let kind = coroutine.get_type().name()?.to_string();
            return Err(PyTypeError::new_err(format!(
                "{what} is of type {kind}: legal are coroutines, as an `async def` gives when it is called"
            )));
        }
        Ok(Coroutine { coroutine: Some(coroutine.unbind()) })
    }

    fn step(&mut self, py: Python<'_>) -> Poll<PyResult<Py<PyAny>>> {
        let Some(coroutine) = &self.coroutine else {
            return Poll::Ready(Err(RiserError::new_err("a coroutine was polled after its end")));
        };
        let result = match coroutine.bind(py).call_method1(intern!(py, "send"), (py.None(),)) {
            Ok(yielded) if is_pending(&yielded) => return Poll::Pending,
            Ok(foreign) => Err(refused(coroutine.bind(py), &foreign)),
            Err(error) if error.is_instance_of::<PyStopIteration>(py) => {
                error.value(py).getattr(intern!(py, "value")).map(Bound::unbind)
            }
            Err(error) => Err(error),
        };
        self.coroutine = None;
        Poll::Ready(result)
    }
}

/// Whether it is the operation that was polled just now, by `await`: one that was only yielded would wake nobody.
fn is_pending(yielded: &Bound<'_, PyAny>) -> bool {
    yielded.cast_exact::<Operation>().is_ok_and(|operation| ptr::eq(operation.get(), PENDING.get()))
}

/// What comes of throwing into `coroutine` what it has done: an exception with the place of the `await`.
fn refused(coroutine: &Bound<'_, PyAny>, foreign: &Bound<'_, PyAny>) -> PyErr {
    let py = coroutine.py();
    let shown = foreign.repr().map_or_else(|_| "something".to_owned(), |text| text.to_string());
    let error = RiserError::new_err(format!(
        "awaited {shown}, which riser cannot wake: legal are operations of riser (`io.dma_read(...)`, `cpu.sleep(ns=...)`) and \
         coroutines that await these; asyncio, trio and cocotb have loops of their own"
    ));
    let thrown = coroutine.call_method1(intern!(py, "throw"), (error.clone_ref(py).into_value(py),));
    let _closed = coroutine.call_method0(intern!(py, "close"));
    thrown.err().filter(|thrown| thrown.is_instance_of::<RiserError>(py)).unwrap_or(error)
}

impl Future for Coroutine {
    type Output = PyResult<Py<PyAny>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let stepped = with_waker(cx.waker(), || Python::attach(|py| self.step(py)));
        stepped.unwrap_or_else(|error| Poll::Ready(Err(error)))
    }
}

impl Drop for Coroutine {
    fn drop(&mut self) {
        let Some(coroutine) = self.coroutine.take() else { return };
        Python::try_attach(|py| {
            // It is left where it awaits: what it does on its way out is its own, and what that raises has nobody to go to.
            if let Err(error) = coroutine.bind(py).call_method0(intern!(py, "close")) {
                error.write_unraisable(py, Some(coroutine.bind(py)));
            }
        });
    }
}
