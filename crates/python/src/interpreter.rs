// SPDX-License-Identifier: Apache-2.0 OR MIT
//! riser belongs to one interpreter of a process, that which has imported it first: its classes and exceptions are objects of that one.

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use std::sync::OnceLock;

/// Address of the module `sys` of the interpreter, which is there once in each and for as long.
static OWNER: OnceLock<usize> = OnceLock::new();

/// Refuses to be imported in an interpreter that is not the first to do so. Python hands out the compiled half without asking it.
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
