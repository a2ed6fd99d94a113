// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A Python coroutine as a future, driven by riser's executor without asyncio.
//!
//! A coroutine finally awaits an [`Operation`]. The operation polls a future of riser with the waker of the current task, and
//! yields itself until the future ends. Any other yielded object is foreign: riser could never wake it.

use crate::current;
use crate::error::RiserError;
use crate::operation::Operation;
use crate::run_state::RunState;
use pyo3::exceptions::{PyStopIteration, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// The future of a coroutine's return value or exception. If this value is dropped early, it closes the coroutine.
pub(crate) struct Coroutine {
    run: Rc<RunState>,
    /// The coroutine; `None` after its end.
    coroutine: Option<Py<PyAny>>,
}

impl Coroutine {
    /// Returns the future of `coroutine`, the result of an `async def`, in this run.
    ///
    /// # Errors
    /// `coroutine` is another kind of object.
    pub(crate) fn new(run: &Rc<RunState>, coroutine: Bound<'_, PyAny>, what: &str) -> PyResult<Coroutine> {
        if !coroutine.hasattr(intern!(coroutine.py(), "send"))? {
            let kind = coroutine.get_type().name()?.to_string();
            return Err(PyTypeError::new_err(format!(
                "{what} is of type {kind}: expected a coroutine, which a call of an `async def` returns"
            )));
        }
        Ok(Coroutine { run: Rc::clone(run), coroutine: Some(coroutine.unbind()) })
    }

    fn step(&mut self, py: Python<'_>) -> Poll<PyResult<Py<PyAny>>> {
        let Some(coroutine) = &self.coroutine else {
            return Poll::Ready(Err(RiserError::new_err("a coroutine was polled after its end")));
        };
        let result = match coroutine.bind(py).call_method1(intern!(py, "send"), (py.None(),)) {
            Ok(yielded) if self.is_pending(&yielded) => return Poll::Pending,
            Ok(foreign) => Err(refused(coroutine.bind(py), &foreign)),
            Err(error) if error.is_instance_of::<PyStopIteration>(py) => {
                error.value(py).getattr(intern!(py, "value")).map(Bound::unbind)
            }
            Err(error) => Err(error),
        };
        self.coroutine = None;
        Poll::Ready(result)
    }

    /// Returns whether `await` polled `yielded` just now. If not, no waker would continue the coroutine.
    fn is_pending(&self, yielded: &Bound<'_, PyAny>) -> bool {
        yielded.cast_exact::<Operation>().is_ok_and(|operation| self.run.is_pending(operation.get()))
    }
}

/// Throws an exception into `coroutine`, so that the error has the place of the `await`. Returns the resulting error.
fn refused(coroutine: &Bound<'_, PyAny>, foreign: &Bound<'_, PyAny>) -> PyErr {
    let py = coroutine.py();
    let shown = foreign.repr().map_or_else(|_| "something".to_owned(), |text| text.to_string());
    let error = RiserError::new_err(format!(
        "awaited {shown}, which riser cannot wake: expected an operation of riser (`io.dma_read(...)`, `cpu.sleep(ns=...)`) or \
         a coroutine that awaits one; asyncio, trio and cocotb have their own event loops"
    ));
    let thrown = coroutine.call_method1(intern!(py, "throw"), (error.clone_ref(py).into_value(py),));
    let _closed = coroutine.call_method0(intern!(py, "close"));
    thrown.err().filter(|thrown| thrown.is_instance_of::<RiserError>(py)).unwrap_or(error)
}

impl Future for Coroutine {
    type Output = PyResult<Py<PyAny>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let run = Rc::clone(&self.run);
        let stepped = current::with_task(&run, cx.waker(), || Python::attach(|py| self.step(py)));
        stepped.unwrap_or_else(|error| Poll::Ready(Err(error)))
    }
}

impl Drop for Coroutine {
    fn drop(&mut self) {
        let Some(coroutine) = self.coroutine.take() else { return };
        Python::try_attach(|py| {
            // The coroutine is closed at its `await`. No caller is left to receive an exception of its cleanup.
            if let Err(error) = coroutine.bind(py).call_method0(intern!(py, "close")) {
                error.write_unraisable(py, Some(coroutine.bind(py)));
            }
        });
    }
}
