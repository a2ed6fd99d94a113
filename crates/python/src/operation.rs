// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Awaitable operations: a future of riser, and its result.

use crate::current;
use crate::device::request;
use crate::error::RiserError;
use crate::held::Held;
use ::device::io::Request;
use pyo3::exceptions::PyStopIteration;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll};
use tlp::Payload;

/// Result of an operation.
pub(crate) enum Value {
    Nothing,
    Bytes(Payload),
    Integer(u64),
    Request(Option<Request>),
    Any(Py<PyAny>),
}

impl Value {
    pub(crate) fn into_any(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(match self {
            Value::Nothing => py.None(),
            Value::Bytes(bytes) => PyBytes::new(py, &bytes).into_any().unbind(),
            Value::Integer(value) => value.into_pyobject(py)?.into_any().unbind(),
            Value::Request(None) => py.None(),
            Value::Request(Some(request)) => request::into_any(py, request)?,
            Value::Any(any) => any,
        })
    }
}

pub(crate) type Future = Pin<Box<dyn std::future::Future<Output = PyResult<Value>>>>;

/// Maximum nesting depth of operations, such as `within(within(...))`. The stack limits it.
const MAX_NESTED: u8 = 32;

/// An operation that takes virtual time. `await` an operation once: it starts when it is first awaited, and an
/// operation that is never awaited causes a warning.
#[pyclass(frozen, module = "riser")]
pub(crate) struct Operation {
    state: Held<OperationState>,
    origin: Option<Origin>,
}

/// Code and instruction that made an operation. The line is looked up only for a warning.
struct Origin {
    code: Py<PyAny>,
    instruction: i32,
}

impl Origin {
    /// Returns the current instruction; `None` if Python runs no code.
    fn here() -> Option<Origin> {
        static GET_FRAME: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        Python::attach(|py| {
            let frame = GET_FRAME.import(py, "sys", "_getframe").ok()?.call0().ok()?;
            let instruction = frame.getattr(intern!(py, "f_lasti")).ok()?.extract().ok()?;
            Some(Origin { code: frame.getattr(intern!(py, "f_code")).ok()?.unbind(), instruction })
        })
    }

    /// Warns that the operation was never awaited. A pending exception is preserved.
    fn warn(&self, py: Python<'_>) {
        let raised = PyErr::take(py);
        let warned = py
            .import(intern!(py, "riser._unawaited"))
            .and_then(|module| module.call_method1(intern!(py, "warn"), (&self.code, self.instruction)));
        if let Err(error) = warned {
            error.write_unraisable(py, None);
        }
        if let Some(raised) = raised {
            raised.restore(py);
        }
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        let (Ok(state), Some(origin)) = (self.state.get(), &self.origin) else { return };
        if state.is_unused() {
            Python::try_attach(|py| origin.warn(py));
        }
    }
}

struct OperationState {
    future: RefCell<Option<Future>>,
    /// The task that awaits the operation, identified by the data of its waker.
    awaited_by: Cell<*const ()>,
    /// Whether the operation was awaited, even without success.
    is_awaited: Cell<bool>,
    /// Nesting depth of the operations within it.
    nested: u8,
}

fn twice() -> PyErr {
    RiserError::new_err("an operation was awaited twice")
}

impl Operation {
    pub(crate) fn new(future: impl std::future::Future<Output = PyResult<Value>> + 'static) -> Operation {
        Operation::around(0, future).unwrap_or_else(|_| unreachable!("no operation is within it"))
    }

    /// Returns an operation with a nesting depth.
    ///
    /// # Errors
    /// The nesting is too deep.
    pub(crate) fn around(
        nested: u8,
        future: impl std::future::Future<Output = PyResult<Value>> + 'static,
    ) -> PyResult<Operation> {
        if nested > MAX_NESTED {
            let text = format!("more than {MAX_NESTED} operations within one another");
            return Err(RiserError::new_err(text));
        }
        let future: Future = Box::pin(future);
        let state = OperationState {
            future: RefCell::new(Some(future)),
            awaited_by: Cell::new(ptr::null()),
            is_awaited: Cell::new(false),
            nested,
        };
        Ok(Operation { state: Held::new(state), origin: Origin::here() })
    }

    /// Returns the inner future, for another future to poll, and the new nesting depth.
    ///
    /// # Errors
    /// The operation has ended, or is being awaited.
    pub(crate) fn take(&self) -> PyResult<(Future, u8)> {
        let state = self.state.get()?;
        if !state.awaited_by.get().is_null() {
            return Err(twice());
        }
        Ok((state.take()?, state.nested + 1))
    }
}

impl OperationState {
    /// Returns true if the operation was not awaited and not taken.
    fn is_unused(&self) -> bool {
        !self.is_awaited.get() && self.future.try_borrow().is_ok_and(|future| future.is_some())
    }

    fn take(&self) -> PyResult<Future> {
        self.future.try_borrow_mut().ok().and_then(|mut future| future.take()).ok_or_else(twice)
    }
}

#[pymethods]
impl Operation {
    fn __await__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    /// Polls it. Yields itself until it ends.
    fn __next__(slf: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        let state = slf.state.get();
        if let Ok(state) = &state {
            state.is_awaited.set(true);
        }
        let (run, waker) = current::task()?;
        run.count()?;
        let state = state?;
        // Only one task may await it: a second one would not be woken at its end.
        let owner = state.awaited_by.replace(waker.data());
        if !owner.is_null() && owner != waker.data() {
            state.awaited_by.set(owner);
            return Err(twice());
        }
        let mut future = state.take()?;
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => {
                *state.future.borrow_mut() = Some(future);
                run.note_pending(&slf);
                Ok(slf)
            }
            Poll::Ready(result) => Err(PyStopIteration::new_err((result?.into_any(slf.py())?,))),
        }
    }
}
