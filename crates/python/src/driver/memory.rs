// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Host memory for a driver in Python. Accesses by the processor take no time.

use crate::device::bytes::Bytes;
use crate::error::HostError;
use crate::held::Held;
use ::host::memory::{HostMemory, MemoryError, OutOfRange};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The host's memory, which devices reach by DMA.
#[pyclass(frozen, module = "riser")]
pub(crate) struct Memory(Held<HostMemory>);

fn out_of_range(error: OutOfRange) -> PyErr {
    HostError::new_err(error.to_string())
}

fn refused(error: MemoryError) -> PyErr {
    HostError::new_err(error.to_string())
}

impl Memory {
    pub(crate) fn new(memory: HostMemory) -> Memory {
        Memory(Held::new(memory))
    }
}

#[pymethods]
impl Memory {
    /// Allocate `length` zeroed bytes at a multiple of `align`, with `low` below 4 GiB. Returns their address.
    #[pyo3(signature = (length, align = 4096, *, low = false))]
    fn alloc(&self, length: u64, align: u64, low: bool) -> PyResult<u64> {
        let memory = self.0.get()?;
        if low { memory.alloc_low(length, align) } else { memory.alloc(length, align) }.map_err(refused)
    }

    /// Free the allocation at this address.
    fn free(&self, address: u64) -> PyResult<()> {
        self.0.get()?.free(address).map_err(refused)
    }

    /// Return the `length` bytes at `address`.
    fn read<'py>(&self, py: Python<'py>, address: u64, length: usize) -> PyResult<Bound<'py, PyBytes>> {
        let memory = self.0.get()?;
        if !memory.contains(address, length) {
            return Err(HostError::new_err(format!("{length} B at {address:#x}: outside of memory")));
        }
        PyBytes::new_with(py, length, |bytes| memory.read(address, bytes).map_err(out_of_range))
    }

    /// Write `data` to `address`.
    fn write(&self, address: u64, data: Bytes<'_>) -> PyResult<()> {
        self.0.get()?.write(address, &data.to_vec()?).map_err(out_of_range)
    }

    /// Return the little-endian integer of 32 bits at `address`.
    fn read_u32(&self, address: u64) -> PyResult<u32> {
        self.0.get()?.read_u32(address).map_err(out_of_range)
    }

    /// Return the little-endian integer of 64 bits at `address`.
    fn read_u64(&self, address: u64) -> PyResult<u64> {
        self.0.get()?.read_u64(address).map_err(out_of_range)
    }

    /// Write a little-endian integer of 32 bits to `address`.
    fn write_u32(&self, address: u64, value: u32) -> PyResult<()> {
        self.0.get()?.write_u32(address, value).map_err(out_of_range)
    }

    /// Write a little-endian integer of 64 bits to `address`.
    fn write_u64(&self, address: u64, value: u64) -> PyResult<()> {
        self.0.get()?.write_u64(address, value).map_err(out_of_range)
    }
}
