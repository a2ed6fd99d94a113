// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Interface of a driver in Python: [`::host::Cpu`] with awaitable operations.

use crate::author::Author;
use crate::device::bytes::Bytes;
use crate::device::request::Message;
use crate::driver::function::Function;
use crate::driver::memory::Memory;
use crate::error::host;
use crate::held::Held;
use crate::operation::{Operation, Value};
use crate::sight;
use crate::task::{Executor, Job, Tasks};
use ::host::HostError;
use exec::Sleep;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::rc::Rc;
use tlp::message::MessageCodes;
use tlp::{Duration, Payload, Time};

/// The program of a driver.
pub(crate) struct Program {
    cpu: ::host::Cpu,
    author: Author,
}

impl Executor for Program {
    fn now(&self) -> Time {
        self.cpu.now()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        self.cpu.sleep(duration)
    }

    fn start(&self, job: Job) -> bool {
        // A rejected task ends immediately with an error.
        !self.cpu.spawn(job).is_finished()
    }

    fn author(&self) -> &Author {
        &self.author
    }
}

/// Operations of a host program: access to devices and memory, interrupts, time, and tasks.
#[pyclass(frozen, module = "riser", extends = Tasks)]
pub(crate) struct Cpu(Held<Rc<Program>>);

impl Cpu {
    pub(crate) fn new(py: Python<'_>, cpu: ::host::Cpu, author: Author) -> PyResult<Py<Cpu>> {
        let program = Rc::new(Program { cpu, author });
        Py::new(py, (Cpu(Held::new(Rc::clone(&program))), Tasks::of(program)))
    }

    fn program(&self) -> PyResult<Rc<Program>> {
        Ok(Rc::clone(&*self.0.get()?))
    }

    /// Returns the operation of `access`.
    fn operation<T, F>(
        &self,
        access: impl FnOnce(::host::Cpu) -> F,
        value: fn(T) -> Value,
    ) -> PyResult<Operation>
    where
        T: 'static,
        F: Future<Output = Result<T, HostError>> + 'static,
    {
        let done = access(self.program()?.cpu.clone());
        Ok(Operation::new(async move { done.await.map(value).map_err(host) }))
    }

    fn payload(&self, data: &Bytes<'_>) -> PyResult<Payload> {
        data.payload(self.program()?.cpu.payloads())
    }
}

fn check_register(register_dw: u16) -> PyResult<()> {
    match register_dw {
        0..=1023 => Ok(()),
        _ => Err(PyValueError::new_err(format!("register_dw of {register_dw}: expected 0 to 1023"))),
    }
}

fn nothing((): ()) -> Value {
    Value::Nothing
}

#[pymethods]
impl Cpu {
    /// The host's memory.
    #[getter]
    fn memory(&self) -> PyResult<Memory> {
        Ok(Memory::new(self.program()?.cpu.memory().clone()))
    }

    /// Read `length` bytes of device memory, with one access for each 4 KiB of addresses, and return them.
    fn read(&self, address: u64, length: u32) -> PyResult<Operation> {
        self.operation(move |cpu| async move { cpu.read(address, length).await }, Value::Bytes)
    }

    /// Read a little-endian integer of 32 bits from device memory.
    fn read_u32(&self, address: u64) -> PyResult<Operation> {
        self.operation(move |cpu| async move { cpu.read_u32(address).await.map(u64::from) }, Value::Integer)
    }

    /// Read a little-endian integer of 64 bits from device memory.
    fn read_u64(&self, address: u64) -> PyResult<Operation> {
        self.operation(move |cpu| async move { cpu.read_u64(address).await }, Value::Integer)
    }

    /// Write `data` to device memory. The write is posted: the call ends when the host has accepted the write, before
    /// it arrives.
    fn write(&self, address: u64, data: Bytes<'_>) -> PyResult<Operation> {
        let data = self.payload(&data)?;
        self.operation(move |cpu| async move { cpu.write(address, data).await }, nothing)
    }

    /// Write a little-endian integer of 32 bits to device memory. Posted.
    fn write_u32(&self, address: u64, value: u32) -> PyResult<Operation> {
        self.operation(move |cpu| async move { cpu.write_u32(address, value).await }, nothing)
    }

    /// Write a little-endian integer of 64 bits to device memory. Posted.
    fn write_u64(&self, address: u64, value: u64) -> PyResult<Operation> {
        self.operation(move |cpu| async move { cpu.write_u64(address, value).await }, nothing)
    }

    /// Write 1 to 128 bytes that do not cross 4 KiB with a deferrable write, and wait for its completion.
    fn write_deferrable(&self, address: u64, data: Bytes<'_>) -> PyResult<Operation> {
        let data = self.payload(&data)?;
        self.operation(move |cpu| async move { cpu.write_deferrable(address, data).await }, nothing)
    }

    /// Read configuration register `register_dw`, a DW number from 0 to 1023.
    fn config_read(&self, function: &Function, register_dw: u16) -> PyResult<Operation> {
        check_register(register_dw)?;
        let id = function.id();
        self.operation(
            move |cpu| async move { cpu.config_read(id, register_dw).await.map(u64::from) },
            Value::Integer,
        )
    }

    /// Write the bytes of configuration register `register_dw` that `byte_enables` (bits 3:0) selects, and wait for the completion.
    #[pyo3(signature = (function, register_dw, value, byte_enables = 0xf))]
    fn config_write(
        &self,
        function: &Function,
        register_dw: u16,
        value: u32,
        byte_enables: u8,
    ) -> PyResult<Operation> {
        check_register(register_dw)?;
        let id = function.id();
        if byte_enables > 0xf {
            return Err(PyValueError::new_err(format!(
                "byte_enables of {byte_enables:#x}: expected four bits"
            )));
        }
        self.operation(
            move |cpu| async move { cpu.config_write(id, register_dw, byte_enables, value).await },
            nothing,
        )
    }

    /// Read 1 to 4 bytes of I/O space within one DW, as an integer.
    fn io_read(&self, address: u32, length: u32) -> PyResult<Operation> {
        self.operation(
            move |cpu| async move { cpu.io_read(address, length).await.map(u64::from) },
            Value::Integer,
        )
    }

    /// Write 1 to 4 bytes of I/O space within one DW, and wait for the completion.
    fn io_write(&self, address: u32, data: Bytes<'_>) -> PyResult<Operation> {
        let data = self.payload(&data)?;
        self.operation(move |cpu| async move { cpu.io_write(address, data).await }, nothing)
    }

    /// Wait for an interrupt with this vector number of the host: `cpu.interrupt(function.vector(0))`. Earlier interrupts are not
    /// lost.
    fn interrupt(&self, vector: u16) -> PyResult<Operation> {
        let arrival = self.program()?.cpu.interrupt(vector);
        Ok(Operation::new(async move {
            arrival.await;
            Ok(Value::Nothing)
        }))
    }

    /// Receive messages with these codes in `next_message` from now on.
    fn take_messages(&self, codes: Vec<u8>) -> PyResult<Operation> {
        let codes = MessageCodes::of(&codes);
        self.operation(
            move |cpu| async move {
                cpu.take_messages(codes).await;
                Ok(())
            },
            nothing,
        )
    }

    /// Wait for the next message that a device sends to the root complex.
    fn next_message(&self) -> PyResult<Operation> {
        let arrival = self.program()?.cpu.next_message();
        Ok(Operation::new(async move {
            let message = arrival.await;
            Python::attach(|py| Ok(Value::Any(Py::new(py, Message::of_host(py, &message))?.into_any())))
        }))
    }

    /// Wait for the next TLP at the device's end of a link that passes `filter`, in the language of `riser trace --filter`. Returns
    /// its object of `riser trace --json` as a dict, with its `data` as bytes. The fields for packets of a file, `source` to
    /// `nettlp_timestamp`, are absent.
    fn tlp(&self, filter: &str) -> PyResult<Operation> {
        sight::next(&self.program()?.author.run, filter)
    }
}
