// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bytes of Python objects, for payloads.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};
use tlp::{Payload, PayloadPool};

/// `bytes`, or any object with a buffer: `bytearray`, `memoryview`, numpy arrays of any type.
pub(crate) enum Bytes<'py> {
    Plain(Bound<'py, PyBytes>),
    Buffer(Python<'py>, PyBuffer<u8>),
}

impl<'py> FromPyObject<'_, 'py> for Bytes<'py> {
    type Error = PyErr;

    fn extract(any: Borrowed<'_, 'py, PyAny>) -> PyResult<Bytes<'py>> {
        if let Ok(bytes) = any.cast::<PyBytes>() {
            return Ok(Bytes::Plain(bytes.to_owned()));
        }
        let as_bytes = || PyMemoryView::from(&any)?.call_method1(intern!(any.py(), "cast"), ("B",));
        let buffer = PyBuffer::get(&any).or_else(|_: PyErr| PyBuffer::get(&as_bytes()?)).map_err(|_| {
            let kind = any.get_type();
            PyTypeError::new_err(format!(
                "data of type {kind}: expected bytes, bytearray, memoryview or contiguous arrays of numpy"
            ))
        })?;
        Ok(Bytes::Buffer(any.py(), buffer))
    }
}

impl Bytes<'_> {
    /// Returns a payload with a copy of these bytes.
    pub(crate) fn payload(&self, pool: &PayloadPool) -> PyResult<Payload> {
        match self {
            Bytes::Plain(bytes) => Ok(pool.copy(bytes.as_bytes())),
            Bytes::Buffer(..) => Ok(pool.copy(&self.to_vec()?)),
        }
    }

    /// Returns the bytes.
    pub(crate) fn to_vec(&self) -> PyResult<Vec<u8>> {
        match self {
            Bytes::Plain(bytes) => Ok(bytes.as_bytes().to_vec()),
            Bytes::Buffer(py, buffer) if buffer.is_c_contiguous() => buffer.to_vec(*py),
            Bytes::Buffer(..) => Err(PyBufferError::new_err("the bytes are not contiguous")),
        }
    }
}
