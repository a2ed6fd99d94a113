// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The Python object of a device or a driver.

use crate::device::report::PythonReport;
use crate::run_state::RunState;
use plug::Shared;
use pyo3::prelude::*;
use std::rc::Rc;
use tlp::Time;

/// A Python object that is a device and its driver, with its report.
#[derive(Clone)]
pub(crate) struct Author {
    pub(crate) device: Rc<Py<PyAny>>,
    pub(crate) report: Shared<PythonReport>,
    pub(crate) run: Rc<RunState>,
}

impl Author {
    /// Records an exception that was not caught, and its time.
    pub(crate) fn fail(&self, error: PyErr, now: Time) {
        drop(self.report.change(|report| report.fail(error, now)));
    }
}
