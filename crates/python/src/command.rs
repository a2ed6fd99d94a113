// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `riser` command of the wheel, whose models include devices in Python.

use pyo3::prelude::*;
use std::ffi::OsString;

/// Runs the command with these arguments, the first of which is its name. Returns its exit status. `itself` is the
/// command line that starts this command in other processes.
#[pyfunction]
#[pyo3(signature = (itself, args, /))]
pub(crate) fn main(py: Python<'_>, itself: Vec<OsString>, args: Vec<OsString>) -> u8 {
    py.detach(|| riser_cli::run_with(crate::models(), itself, args))
}
