// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests to a device in Python. The fields of a request can be read and matched. Each request is answered once.

use crate::device::bytes::Bytes;
use crate::error::RiserError;
use crate::held::Held;
use ::device::CompletionError;
use ::device::io::{self, Request};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::cell::RefCell;
use tlp::Data;

/// Returns the request as an object of its class.
pub(crate) fn into_any(py: Python<'_>, request: Request) -> PyResult<Py<PyAny>> {
    match request {
        Request::Read(read) => Ok(Py::new(py, ReadRequest::new(read))?.into_any()),
        Request::Write(write) => Ok(Py::new(py, WriteRequest::new(py, write)?)?.into_any()),
        Request::Atomic(atomic) => Ok(Py::new(py, AtomicRequest::new(py, atomic))?.into_any()),
        Request::ConfigRead(read) => Ok(Py::new(py, ConfigRead::new(read))?.into_any()),
        Request::ConfigWrite(write) => Ok(Py::new(py, ConfigWrite::new(write))?.into_any()),
        Request::Message(message) => Ok(Py::new(py, Message::new(py, message))?.into_any()),
        _ => Err(RiserError::new_err("a kind of request that riser for Python does not support")),
    }
}

/// Converts the name of a refusal.
fn refusal(name: &str) -> PyResult<CompletionError> {
    match name {
        "unsupported-request" => Ok(CompletionError::UnsupportedRequest),
        "completer-abort" => Ok(CompletionError::CompleterAbort),
        "retry" => Ok(CompletionError::Retry),
        _ => Err(PyValueError::new_err(format!(
            "`{name}`: expected `unsupported-request`, `completer-abort` or `retry`"
        ))),
    }
}

fn carried<'py>(py: Python<'py>, data: &Data) -> Bound<'py, PyBytes> {
    match data.bytes() {
        Some(bytes) => PyBytes::new(py, bytes),
        None => PyBytes::new(py, &vec![0; data.len()]),
    }
}

/// A value that is consumed by the answer.
struct Answer<T: 'static>(Held<RefCell<Option<T>>>);

impl<T> Answer<T> {
    fn new(of: T) -> Answer<T> {
        Answer(Held::new(RefCell::new(Some(of))))
    }

    fn take(&self) -> PyResult<T> {
        let taken = self.0.get()?.borrow_mut().take();
        taken.ok_or_else(|| RiserError::new_err("a request was answered twice"))
    }
}

/// A read of a BAR. Answer the request with `complete` or `fail`, at any later time and from any task. If the object is
/// dropped without an answer, the requester gets a completion timeout.
#[pyclass(frozen, module = "riser")]
pub(crate) struct ReadRequest {
    owed: Answer<io::ReadRequest>,
    /// Number of the BAR.
    #[pyo3(get)]
    bar: u8,
    /// Offset in the BAR of the first byte, in bytes.
    #[pyo3(get)]
    offset: u64,
    /// Requested bytes, 1 to 4096.
    #[pyo3(get)]
    length: usize,
    /// Whether no byte is enabled, for example for a flush.
    #[pyo3(get)]
    is_zero_length: bool,
}

impl ReadRequest {
    fn new(read: io::ReadRequest) -> ReadRequest {
        let (bar, offset, length) = (read.bar().0, read.offset(), read.len());
        let is_zero_length = read.is_zero_length();
        ReadRequest { owed: Answer::new(read), bar, offset, length, is_zero_length }
    }
}

#[pymethods]
impl ReadRequest {
    #[classattr]
    fn __match_args__() -> (&'static str, &'static str, &'static str) {
        ("bar", "offset", "length")
    }

    /// Answer the request with bytes, which are cut or padded with zeros at the end, or with an integer. An integer is
    /// the value of the 32-bit register that contains the first requested byte; a larger value is the value of a 64-bit
    /// register.
    fn complete(&self, answer: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Ok(value) = answer.extract::<u64>() {
            let read = self.owed.take()?;
            match u32::try_from(value) {
                Ok(narrow) if self.length <= 4 => read.complete(narrow),
                _ => read.complete(value),
            }
            return Ok(());
        }
        let bytes = answer.extract::<Bytes<'_>>().map_err(|_| {
            let kind = answer.get_type();
            PyTypeError::new_err(format!(
                "an answer of type {kind}: expected bytes, or an integer of at most 64 bits"
            ))
        })?;
        let bytes = bytes.to_vec()?;
        self.owed.take()?.complete(bytes.as_slice());
        Ok(())
    }

    /// Answer the request without data, for runs that measure only time.
    fn complete_counted(&self) -> PyResult<()> {
        self.owed.take()?.complete_counted();
        Ok(())
    }

    /// Refuse the request: `unsupported-request` or `completer-abort`.
    #[pyo3(signature = (why = "unsupported-request"))]
    fn fail(&self, why: &str) -> PyResult<()> {
        let why = refusal(why)?;
        self.owed.take()?.fail(why);
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("<riser.ReadRequest of {} B at BAR {} + {:#x}>", self.length, self.bar, self.offset)
    }
}

/// A write of a BAR. A non-posted write (to I/O space, or deferrable) is completed successfully when the object is
/// dropped.
#[pyclass(frozen, module = "riser")]
pub(crate) struct WriteRequest {
    owed: Answer<io::WriteRequest>,
    /// Number of the BAR.
    #[pyo3(get)]
    bar: u8,
    /// Offset in the BAR of the first byte, in bytes.
    #[pyo3(get)]
    offset: u64,
    /// The bytes from the first enabled byte to the last enabled byte.
    #[pyo3(get)]
    data: Py<PyBytes>,
    /// The first eight enabled bytes as an integer, little-endian.
    #[pyo3(get)]
    value: u64,
    /// One bit for each byte of `data`, from bit 0 on: whether it is enabled.
    #[pyo3(get)]
    enables: u128,
    /// Whether the write has a completion.
    #[pyo3(get)]
    is_answered: bool,
}

impl WriteRequest {
    fn new(py: Python<'_>, write: io::WriteRequest) -> PyResult<WriteRequest> {
        let span = write.span();
        let enabled = (0..span.byte_count().min(128)).filter(|index| span.is_enabled(*index));
        Ok(WriteRequest {
            bar: write.bar().0,
            offset: write.offset(),
            data: carried(py, write.data()).unbind(),
            value: write.u64(),
            enables: enabled.fold(0, |bits, index| bits | 1 << index),
            is_answered: write.is_answered(),
            owed: Answer::new(write),
        })
    }
}

#[pymethods]
impl WriteRequest {
    #[classattr]
    fn __match_args__() -> (&'static str, &'static str, &'static str) {
        ("bar", "offset", "value")
    }

    /// Written bytes, 1 to 4096.
    #[getter]
    fn length(&self, py: Python<'_>) -> usize {
        self.data.as_bytes(py).len()
    }

    /// Write the enabled bytes to `bar`, a bytearray with the BAR's bytes from offset 0. Returns whether all were in range.
    fn apply(&self, bar: &Bound<'_, pyo3::types::PyByteArray>) -> PyResult<bool> {
        let mut bytes = bar.to_vec();
        let held = self.owed.0.get()?;
        let write = held.borrow();
        let write = write.as_ref().ok_or_else(|| RiserError::new_err("the write was refused already"))?;
        let all = write.apply(&mut bytes);
        let (first, last) = (self.offset as usize, self.offset as usize + write.len());
        for (at, byte) in bytes.iter().enumerate().take(last).skip(first) {
            bar.set_item(at, *byte)?;
        }
        Ok(all)
    }

    /// Refuse the write, or defer it with `retry`. A posted write is only dropped.
    #[pyo3(signature = (why = "unsupported-request"))]
    fn fail(&self, why: &str) -> PyResult<()> {
        let why = refusal(why)?;
        self.owed.take()?.fail(why);
        Ok(())
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let length = self.length(py);
        format!(
            "<riser.WriteRequest of {length} B at BAR {} + {:#x}, value {:#x}>",
            self.bar, self.offset, self.value
        )
    }
}

/// An AtomicOp on a BAR. Answer the request with `complete` and the old bytes.
#[pyclass(frozen, module = "riser")]
pub(crate) struct AtomicRequest {
    owed: Answer<io::AtomicRequest>,
    /// Number of the BAR.
    #[pyo3(get)]
    bar: u8,
    /// Offset in the BAR, in bytes.
    #[pyo3(get)]
    offset: u64,
    /// `fetch-add`, `swap` or `compare-swap`.
    #[pyo3(get)]
    op: &'static str,
    /// The operands, concatenated, little-endian.
    #[pyo3(get)]
    operands: Py<PyBytes>,
    /// Bytes of one operand.
    #[pyo3(get)]
    length: usize,
}

impl AtomicRequest {
    fn new(py: Python<'_>, atomic: io::AtomicRequest) -> AtomicRequest {
        let op = match atomic.op() {
            tlp::AtomicOp::FetchAdd => "fetch-add",
            tlp::AtomicOp::Swap => "swap",
            tlp::AtomicOp::CompareSwap => "compare-swap",
        };
        AtomicRequest {
            bar: atomic.bar().0,
            offset: atomic.offset(),
            op,
            operands: carried(py, atomic.operands()).unbind(),
            length: atomic.len(),
            owed: Answer::new(atomic),
        }
    }
}

#[pymethods]
impl AtomicRequest {
    /// Answer the request with the old bytes.
    fn complete(&self, old: Bytes<'_>) -> PyResult<()> {
        let old = old.to_vec()?;
        if old.len() != self.length {
            let text = format!("an answer of {} B: expected the {} B of the operand", old.len(), self.length);
            return Err(PyValueError::new_err(text));
        }
        self.owed.take()?.complete(&old);
        Ok(())
    }

    /// Refuse the request: `unsupported-request` or `completer-abort`.
    #[pyo3(signature = (why = "unsupported-request"))]
    fn fail(&self, why: &str) -> PyResult<()> {
        let why = refusal(why)?;
        self.owed.take()?.fail(why);
        Ok(())
    }
}

/// A read of a configuration register that the function declares as its own.
#[pyclass(frozen, module = "riser")]
pub(crate) struct ConfigRead {
    owed: Answer<io::ConfigRead>,
    /// DW number of the register.
    #[pyo3(get)]
    register_dw: u16,
}

impl ConfigRead {
    fn new(read: io::ConfigRead) -> ConfigRead {
        ConfigRead { register_dw: read.register_dw(), owed: Answer::new(read) }
    }
}

#[pymethods]
impl ConfigRead {
    /// Answer the request with the value of the register.
    fn complete(&self, value: u32) -> PyResult<()> {
        self.owed.take()?.complete(value);
        Ok(())
    }
}

/// A write of a configuration register that the function declares as its own.
#[pyclass(frozen, module = "riser")]
pub(crate) struct ConfigWrite {
    owed: Answer<io::ConfigWrite>,
    /// DW number of the register.
    #[pyo3(get)]
    register_dw: u16,
}

impl ConfigWrite {
    fn new(write: io::ConfigWrite) -> ConfigWrite {
        ConfigWrite { register_dw: write.register_dw(), owed: Answer::new(write) }
    }
}

#[pymethods]
impl ConfigWrite {
    /// Returns the value of the register after the write, if its value was `old` before.
    fn apply(&self, old: u32) -> PyResult<u32> {
        let held = self.owed.0.get()?;
        let write = held.borrow();
        let write = write.as_ref().ok_or_else(|| RiserError::new_err("the write was refused already"))?;
        Ok(write.apply(old))
    }
}

/// A message to the function.
#[pyclass(frozen, module = "riser")]
pub(crate) struct Message {
    /// Message Code.
    #[pyo3(get)]
    code: u8,
    /// Requester ID of its sender.
    #[pyo3(get)]
    requester: String,
    /// Its data.
    #[pyo3(get)]
    data: Py<PyBytes>,
}

impl Message {
    pub(crate) fn new(py: Python<'_>, message: io::MessageRequest) -> Message {
        let data = carried(py, &message.data).unbind();
        Message { code: message.code, requester: message.requester.to_string(), data }
    }

    pub(crate) fn of_host(py: Python<'_>, message: &::host::HostMessage) -> Message {
        let data = carried(py, &message.data).unbind();
        Message { code: message.code, requester: message.requester.to_string(), data }
    }
}
