// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Interrupts a run from time to time to check for Ctrl-C and to report progress. The interpreter is not held in
//! between.

use pyo3::prelude::*;
use std::time::{Duration, Instant};

/// Interval between checks.
const EVERY: Duration = Duration::from_millis(100);

pub(crate) struct ProgressWatch<'a> {
    callback: Option<&'a Py<PyAny>>,
    looked: Instant,
}

impl<'a> ProgressWatch<'a> {
    pub(crate) fn new(callback: Option<&'a Py<PyAny>>) -> ProgressWatch<'a> {
        ProgressWatch { callback, looked: Instant::now() }
    }

    /// Checks if the interval has passed. `how_far` returns a text, and a share from 0 to 1 if known.
    ///
    /// # Errors
    /// The exception of a signal, such as KeyboardInterrupt, or of the callback.
    pub(crate) fn look(&mut self, how_far: impl FnOnce() -> (String, Option<f64>)) -> PyResult<()> {
        if self.looked.elapsed() < EVERY {
            return Ok(());
        }
        self.looked = Instant::now();
        Python::attach(|py| {
            py.check_signals()?;
            if let Some(callback) = self.callback {
                callback.call1(py, how_far())?;
            }
            Ok(())
        })
    }
}
