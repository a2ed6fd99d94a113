// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `riser` command that the wheel carries, with devices in Python among its models.

use pyo3::prelude::*;
use std::ffi::OsString;

/// Runs the command with these arguments, the first of which is its name; returns its exit status. `itself` is how other processes run it.
#[pyfunction]
#[pyo3(signature = (itself, args, /))]
pub(crate) fn main(py: Python<'_>, itself: Vec<OsString>, args: Vec<OsString>) -> u8 {
    py.detach(|| riser_cli::run_with(crate::models(), itself, args))
}
