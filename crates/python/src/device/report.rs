// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report of a device in Python, with the exception that ended it or its driver.

use crate::plain;
use plug::Shown;
use pyo3::prelude::*;
use pyo3::types::{PyTracebackMethods, PyType};
use tlp::Time;

/// The report of a device.
pub(crate) struct PythonReport {
    device: Py<PyAny>,
    /// The first exception that was not caught, and its time.
    failure: Option<(PyErr, Time)>,
    /// Time at which the device's coroutine returned; `None` if it did not return.
    returned: Option<Time>,
}

impl PythonReport {
    pub(crate) fn new(device: Py<PyAny>) -> PythonReport {
        PythonReport { device, failure: None, returned: None }
    }

    /// Records an exception that was not caught. Only the first exception is stored. Any other exception is returned,
    /// because dropping it may run Python code.
    pub(crate) fn fail(&mut self, error: PyErr, now: Time) -> Option<PyErr> {
        if self.failure.is_some() {
            return Some(error);
        }
        self.failure = Some((error, now));
        None
    }

    /// Records that its coroutine returned.
    pub(crate) fn returned(&mut self, now: Time) {
        self.returned = Some(now);
    }

    /// Returns the exception; `None` if there was none.
    pub(crate) fn error(&self, py: Python<'_>) -> Option<PyErr> {
        self.failure.as_ref().map(|(error, _)| error.clone_ref(py))
    }
}

impl plug::Report for PythonReport {
    fn shown(&self, _: Time) -> Shown {
        let counters = Python::attach(|py| {
            let counters = self.device.bind(py).call_method0("report")?;
            plain::read::<serde_json::Map<_, _>>(&counters)
        });
        let mut shown = Shown::new();
        match counters {
            Ok(counters) => counters.into_iter().for_each(|(name, value)| shown.put(name, value)),
            Err(error) => shown.put("report_error", Python::attach(|py| text(py, &error))),
        }
        if let Some(at) = self.returned {
            shown.put("returned_ns", plug::ns(at.since(Time::ZERO)));
        }
        shown
    }

    fn failure(&self) -> Option<String> {
        let (error, at) = self.failure.as_ref()?;
        let trace = Python::attach(|py| with_traceback(py, error));
        Some(format!("at {} ns of virtual time: {trace}", plug::ns(at.since(Time::ZERO))))
    }
}

/// Returns the exception as `ValueError: text`.
pub(crate) fn text(py: Python<'_>, error: &PyErr) -> String {
    let kind: Bound<'_, PyType> = error.get_type(py);
    let name = kind.name().map_or_else(|_| "an exception".to_owned(), |name| name.to_string());
    format!("{name}: {}", error.value(py))
}

/// Returns the exception with the lines of its traceback below it.
fn with_traceback(py: Python<'_>, error: &PyErr) -> String {
    let trace = error.traceback(py).and_then(|trace| trace.format().ok());
    match trace {
        Some(trace) => format!("{}\n{}", text(py, error), trace.trim_end()),
        None => text(py, error),
    }
}
