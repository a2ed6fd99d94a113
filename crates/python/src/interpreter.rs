// SPDX-License-Identifier: Apache-2.0 OR MIT
//! riser belongs to the interpreter of a process that imports it first, because its classes and exceptions are objects
//! of that interpreter.

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use std::sync::OnceLock;

/// Address of the module `sys` of the owner. Each interpreter has one `sys` during its whole life.
static OWNER: OnceLock<usize> = OnceLock::new();

/// Rejects an import in any interpreter except the first. Python shares the compiled half between interpreters.
#[pyfunction]
pub(crate) fn refuse_others(py: Python<'_>) -> PyResult<()> {
    let own = py.import("sys")?.as_ptr() as usize;
    if *OWNER.get_or_init(|| own) == own {
        return Ok(());
    }
    Err(PyImportError::new_err(
        "riser is imported in another interpreter of this process: sub-interpreters cannot share it; processes and threads can",
    ))
}
