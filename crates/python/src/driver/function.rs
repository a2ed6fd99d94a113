// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A function found by enumeration.

use crate::error::LabError;
use ::host::firmware::FoundFunction;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use tlp::Bdf;

/// A function that the host has found and enabled.
#[pyclass(frozen, module = "riser")]
pub(crate) struct Function {
    found: FoundFunction,
    /// Its virtual functions, in order.
    #[pyo3(get)]
    virtual_functions: Vec<Py<Function>>,
}

impl Function {
    /// Returns the first function of `found`, with the others as its virtual functions.
    pub(crate) fn all(py: Python<'_>, found: &[FoundFunction]) -> PyResult<Function> {
        let (first, others) =
            found.split_first().ok_or_else(|| LabError::new_err("enumeration found no function"))?;
        let of =
            |found: &FoundFunction| Py::new(py, Function { found: *found, virtual_functions: Vec::new() });
        Ok(Function { found: *first, virtual_functions: others.iter().map(of).collect::<PyResult<_>>()? })
    }

    pub(crate) fn id(&self) -> Bdf {
        self.found.bdf
    }
}

#[pymethods]
impl Function {
    /// Bus, device and function, such as `01:00.0`.
    #[getter]
    fn bdf(&self) -> String {
        self.found.bdf.to_string()
    }

    /// Vendor ID.
    #[getter]
    fn vendor_id(&self) -> u16 {
        self.found.vendor
    }

    /// Device ID.
    #[getter]
    fn device_id(&self) -> u16 {
        self.found.device
    }

    /// Class Code, 24 bits.
    #[getter]
    fn class_code(&self) -> u32 {
        self.found.class
    }

    /// Interrupt vectors that the host has assigned to the function.
    #[getter]
    fn vectors(&self) -> u16 {
        self.found.vectors
    }

    /// Host address of byte `offset` in memory BAR `bar`.
    #[pyo3(signature = (bar = 0, offset = 0))]
    fn address(&self, bar: u8, offset: u64) -> PyResult<u64> {
        self.found.address(bar, offset).map_err(|e| LabError::new_err(e.to_string()))
    }

    /// I/O address of byte `offset` in I/O BAR `bar`.
    #[pyo3(signature = (bar = 0, offset = 0))]
    fn io_address(&self, bar: u8, offset: u32) -> PyResult<u32> {
        self.found.io_address(bar, offset).map_err(|e| LabError::new_err(e.to_string()))
    }

    /// The host's number of interrupt vector `vector` of this function, for `Cpu.interrupt`.
    #[pyo3(signature = (vector = 0))]
    fn vector(&self, vector: u16) -> PyResult<u16> {
        if vector < self.found.vectors {
            return Ok(self.found.vector_base + vector);
        }
        let legal = self.found.vectors;
        Err(PyIndexError::new_err(format!(
            "vector {vector} of {}: it has {legal}, numbered from 0",
            self.found.bdf
        )))
    }

    fn __repr__(&self) -> String {
        format!("<riser.Function {} {:04x}:{:04x}>", self.found.bdf, self.found.vendor, self.found.device)
    }
}
