// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Interface of a device in Python: [`::device::Io`] with awaitable operations.

use crate::author::Author;
use crate::device::bytes::Bytes;
use crate::error::dma;
use crate::held::Held;
use crate::operation::{Operation, Value};
use crate::task::{Executor, Job, Tasks};
use ::device::DmaError;
use ::device::io::DmaOptions;
use exec::Sleep;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::rc::Rc;
use tlp::{Attributes, Duration, MessageRouting, Time, TrafficClass};

/// One life of a function, from reset to reset.
pub(crate) struct Life {
    io: ::device::Io,
    /// Number of the virtual function, from 0; `None` for the physical function.
    vf: Option<u16>,
    author: Author,
}

impl Executor for Life {
    fn now(&self) -> Time {
        self.io.now()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        self.io.sleep(duration)
    }

    fn start(&self, job: Job) -> bool {
        // A rejected task ends immediately with an error.
        !self.io.spawn(job).is_finished()
    }

    fn author(&self) -> &Author {
        &self.author
    }
}

/// Operations of a device: DMA, interrupts, messages, time, and tasks.
#[pyclass(frozen, module = "riser", extends = Tasks)]
pub(crate) struct Io(Held<Rc<Life>>);

impl Io {
    pub(crate) fn new(py: Python<'_>, io: ::device::Io, vf: Option<u16>, author: Author) -> PyResult<Py<Io>> {
        let life = Rc::new(Life { io, vf, author });
        Py::new(py, (Io(Held::new(Rc::clone(&life))), Tasks::of(life)))
    }

    fn life(&self) -> PyResult<Rc<Life>> {
        Ok(Rc::clone(&*self.0.get()?))
    }

    fn posted(&self, posted: impl Future<Output = Result<(), DmaError>> + 'static) -> Operation {
        Operation::new(async move { posted.await.map(|()| Value::Nothing).map_err(dma) })
    }
}

/// Returns the options of a transfer.
fn options(
    tc: u8,
    no_snoop: bool,
    relaxed_ordering: bool,
    id_based_ordering: bool,
    pasid: Option<u32>,
) -> PyResult<DmaOptions> {
    let tc =
        TrafficClass::new(tc).ok_or_else(|| PyValueError::new_err(format!("tc of {tc}: expected 0 to 7")))?;
    let mut attr = Attributes::empty();
    attr.set(Attributes::NO_SNOOP, no_snoop);
    attr.set(Attributes::RELAXED_ORDERING, relaxed_ordering);
    attr.set(Attributes::ID_BASED_ORDERING, id_based_ordering);
    let options = DmaOptions::tc(tc).with_attr(attr);
    match pasid {
        None => Ok(options),
        Some(pasid) if pasid < 1 << 20 => Ok(options.with_pasid(pasid)),
        Some(pasid) => Err(PyValueError::new_err(format!("pasid of {pasid}: expected at most 20 bits"))),
    }
}

#[pymethods]
impl Io {
    /// Number of the virtual function, from 0; None for the physical function.
    #[getter]
    fn vf(&self) -> PyResult<Option<u16>> {
        Ok(self.life()?.vf)
    }

    /// Max_Payload_Size in bytes, the most data of a write TLP (`PCIe 5.0 §7.5.3.4`).
    #[getter]
    fn mps_bytes(&self) -> PyResult<u32> {
        Ok(self.life()?.io.mps().bytes())
    }

    /// Max_Read_Request_Size in bytes, the most data of a read request (`PCIe 5.0 §7.5.3.4`).
    #[getter]
    fn mrrs_bytes(&self) -> PyResult<u32> {
        Ok(self.life()?.io.mrrs().bytes())
    }

    /// Number of interrupt vectors of the function: the larger one of MSI and MSI-X; None until it is known.
    #[getter]
    fn vectors(&self) -> PyResult<Option<u16>> {
        Ok(self.life()?.io.vectors())
    }

    /// Whether the function may send requests: Bus Master Enable is set, and the function is in D0.
    #[getter]
    fn is_bus_master(&self) -> PyResult<bool> {
        Ok(self.life()?.io.is_bus_master())
    }

    /// The reset that began this life: `fundamental`, `hot` or `function-level` (`PCIe 5.0 §6.6`).
    #[getter]
    fn begun_by(&self) -> PyResult<&'static str> {
        use ::device::ResetKind;
        Ok(match self.life()?.io.begun_by() {
            ResetKind::Fundamental => "fundamental",
            ResetKind::Hot => "hot",
            ResetKind::FunctionLevel => "function-level",
            _ => "other",
        })
    }

    /// Wait for the next request to the function: a `ReadRequest`, `WriteRequest`, `AtomicRequest`, `ConfigRead`, `ConfigWrite` or
    /// `Message`.
    fn next_request(&self) -> PyResult<Operation> {
        let next = self.life()?.io.next_request();
        Ok(Operation::new(async move { Ok(Value::Request(next.await)) }))
    }

    /// Read `length` bytes of host memory at `address`, and return them. The endpoint splits the read into TLPs and reassembles the data.
    #[pyo3(signature = (address, length, *, tc = 0, no_snoop = false, relaxed_ordering = false, id_based_ordering = false, pasid = None))]
    #[expect(clippy::too_many_arguments, reason = "names in Python")]
    fn dma_read(
        &self,
        address: u64,
        length: u32,
        tc: u8,
        no_snoop: bool,
        relaxed_ordering: bool,
        id_based_ordering: bool,
        pasid: Option<u32>,
    ) -> PyResult<Operation> {
        let options = options(tc, no_snoop, relaxed_ordering, id_based_ordering, pasid)?;
        let read = self.life()?.io.dma_read_with(address, length, options);
        Ok(Operation::new(async move { read.await.map(Value::Bytes).map_err(dma) }))
    }

    /// Like `dma_read`, but without data, for runs that measure only time.
    fn dma_read_counted(&self, address: u64, length: u32) -> PyResult<Operation> {
        let read = self.life()?.io.dma_read_counted(address, length);
        Ok(Operation::new(async move { read.await.map(|()| Value::Nothing).map_err(dma) }))
    }

    /// Write `data`, any bytes-like object, to host memory at `address`. The write is posted: the call ends when the
    /// endpoint has accepted it.
    #[pyo3(signature = (address, data, *, tc = 0, no_snoop = false, relaxed_ordering = false, id_based_ordering = false, pasid = None))]
    #[expect(clippy::too_many_arguments, reason = "names in Python")]
    fn dma_write(
        &self,
        address: u64,
        data: Bytes<'_>,
        tc: u8,
        no_snoop: bool,
        relaxed_ordering: bool,
        id_based_ordering: bool,
        pasid: Option<u32>,
    ) -> PyResult<Operation> {
        let options = options(tc, no_snoop, relaxed_ordering, id_based_ordering, pasid)?;
        let life = self.life()?;
        let payload = data.payload(life.io.payloads())?;
        Ok(self.posted(life.io.dma_write_with(address, payload, options)))
    }

    /// Like `dma_write`, for this many bytes without data.
    fn dma_write_counted(&self, address: u64, length: u32) -> PyResult<Operation> {
        Ok(self.posted(self.life()?.io.dma_write_counted(address, length)))
    }

    /// Raise interrupt `vector`, counted from 0, by MSI or MSI-X.
    #[pyo3(signature = (vector = 0))]
    fn interrupt(&self, vector: u16) -> PyResult<Operation> {
        Ok(self.posted(self.life()?.io.interrupt(vector)))
    }

    /// Set the level of the function's interrupt pin.
    fn intx(&self, asserted: bool) -> PyResult<Operation> {
        Ok(self.posted(self.life()?.io.intx(asserted)))
    }

    /// Send a message with this Message Code to the root complex.
    #[pyo3(signature = (code, data = None))]
    fn message(&self, code: u8, data: Option<Bytes<'_>>) -> PyResult<Operation> {
        let life = self.life()?;
        let mut message = ::device::OutMessage::new(MessageRouting::ToRootComplex, code);
        if let Some(data) = data {
            message = message.with_data(tlp::Data::Carried(data.payload(life.io.payloads())?));
        }
        Ok(self.posted(life.io.send_message(message)))
    }

    /// Add `value` to an integer of 32 or 64 `bits` in host memory. Returns the old value.
    #[pyo3(signature = (address, value, *, bits = 64))]
    fn fetch_add(&self, address: u64, value: u64, bits: u8) -> PyResult<Operation> {
        let io = &self.life()?.io;
        match bits {
            32 => Ok(atomic(io.fetch_add(address, narrow(value)?))),
            64 => Ok(atomic(io.fetch_add(address, value))),
            _ => Err(bad_bits(bits)),
        }
    }

    /// Store `value` as an integer of 32 or 64 `bits` in host memory. Returns the old value.
    #[pyo3(signature = (address, value, *, bits = 64))]
    fn swap(&self, address: u64, value: u64, bits: u8) -> PyResult<Operation> {
        let io = &self.life()?.io;
        match bits {
            32 => Ok(atomic(io.swap(address, narrow(value)?))),
            64 => Ok(atomic(io.swap(address, value))),
            _ => Err(bad_bits(bits)),
        }
    }

    /// Store `value`, of 32 or 64 `bits`, in host memory if the old value equals `compare`. Returns the old value.
    #[pyo3(signature = (address, compare, value, *, bits = 64))]
    fn compare_swap(&self, address: u64, compare: u64, value: u64, bits: u8) -> PyResult<Operation> {
        let io = &self.life()?.io;
        match bits {
            32 => Ok(atomic(io.compare_swap(address, narrow(compare)?, narrow(value)?))),
            64 => Ok(atomic(io.compare_swap(address, compare, value))),
            _ => Err(bad_bits(bits)),
        }
    }
}

fn narrow(value: u64) -> PyResult<u32> {
    u32::try_from(value).map_err(|_| PyValueError::new_err(format!("{value}: expected at most 32 bits")))
}

fn bad_bits(bits: u8) -> PyErr {
    PyValueError::new_err(format!("bits of {bits}: expected 32 or 64"))
}

fn atomic<V: Into<u64> + 'static>(future: impl Future<Output = Result<V, DmaError>> + 'static) -> Operation {
    Operation::new(async move { future.await.map(|value| Value::Integer(value.into())).map_err(dma) })
}
