// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What Python awaits: a future of riser's, and what it ends with.

use crate::coroutine::{count, waker};
use crate::device::request;
use crate::error::RiserError;
use crate::held::Held;
use ::device::io::Request;
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Poll};
use tlp::Payload;

/// What an operation ends with.
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

/// Something that takes virtual time: `await` it, once. It is begun when it is first awaited.
#[pyclass(frozen, module = "riser")]
pub(crate) struct Operation(Held<RefCell<Option<Future>>>);

impl Operation {
    pub(crate) fn new(future: impl std::future::Future<Output = PyResult<Value>> + 'static) -> Operation {
        Operation(Held::new(RefCell::new(Some(Box::pin(future)))))
    }

    /// The future within.
    ///
    /// # Errors
    /// Where it has ended, or is being awaited.
    pub(crate) fn take(&self) -> PyResult<Future> {
        let state = self.0.get()?;
        let future = state.try_borrow_mut().ok().and_then(|mut state| state.take());
        future.ok_or_else(|| RiserError::new_err("an operation was awaited twice: it can be awaited once"))
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

    /// Polls it: yields itself while it has not ended.
    fn __next__(slf: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        let waker = waker()?;
        count()?;
        let state = slf.0.get()?;
        let mut future = slf.take()?;
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => {
                *state.borrow_mut() = Some(future);
                Ok(slf)
            }
            Poll::Ready(result) => Err(PyStopIteration::new_err((result?.into_any(slf.py())?,))),
        }
    }
}
