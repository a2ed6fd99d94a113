// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `riser` command that the wheel carries, with devices in Python among its models.

use pyo3::prelude::*;

/// Runs the command with these arguments, the first of which is its name; returns its exit status.
#[pyfunction]
#[pyo3(signature = (args, /))]
pub(crate) fn main(py: Python<'_>, args: Vec<String>) -> u8 {
    py.detach(|| riser_cli::run_with(crate::models(), args))
}
