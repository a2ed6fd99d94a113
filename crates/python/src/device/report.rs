// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a device in Python has done, and the exception by which it or its driver has failed.

use crate::plain;
use plug::Shown;
use pyo3::prelude::*;
use pyo3::types::{PyTracebackMethods, PyType};
use tlp::Time;

/// The report of a device.
pub(crate) struct Report {
    device: Py<PyAny>,
    /// The first exception that nobody has caught, and when.
    failure: Option<(PyErr, Time)>,
    /// When its coroutine has returned, if it did.
    returned: Option<Time>,
}

impl Report {
    pub(crate) fn new(device: Py<PyAny>) -> Report {
        Report { device, failure: None, returned: None }
    }

    /// Notes an exception that nobody has caught; the first one counts, and any other is given back: what it drops may run Python.
    pub(crate) fn fail(&mut self, error: PyErr, now: Time) -> Option<PyErr> {
        if self.failure.is_some() {
            return Some(error);
        }
        self.failure = Some((error, now));
        None
    }

    /// Notes that its coroutine has returned.
    pub(crate) fn returned(&mut self, now: Time) {
        self.returned = Some(now);
    }

    /// The exception, if there was one.
    pub(crate) fn error(&self, py: Python<'_>) -> Option<PyErr> {
        self.failure.as_ref().map(|(error, _)| error.clone_ref(py))
    }
}

impl plug::Report for Report {
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

/// `ValueError: text`.
pub(crate) fn text(py: Python<'_>, error: &PyErr) -> String {
    let kind: Bound<'_, PyType> = error.get_type(py);
    let name = kind.name().map_or_else(|_| "an exception".to_owned(), |name| name.to_string());
    format!("{name}: {}", error.value(py))
}

/// The text, with the lines of the traceback below it.
fn with_traceback(py: Python<'_>, error: &PyErr) -> String {
    let trace = error.traceback(py).and_then(|trace| trace.format().ok());
    match trace {
        Some(trace) => format!("{}\n{}", text(py, error), trace.trim_end()),
        None => text(py, error),
    }
}
