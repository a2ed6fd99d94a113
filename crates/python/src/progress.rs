// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Looks up from a run now and then: at Ctrl-C, and to say how far it is. Never holds the interpreter in between.

use pyo3::prelude::*;
use std::time::{Duration, Instant};

/// How often.
const EVERY: Duration = Duration::from_millis(100);

pub(crate) struct Watch<'a> {
    callback: Option<&'a Py<PyAny>>,
    looked: Instant,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(callback: Option<&'a Py<PyAny>>) -> Watch<'a> {
        Watch { callback, looked: Instant::now() }
    }

    /// Looks up where it is time to: `how_far` gives a text, and a share from 0 to 1 where it is known.
    ///
    /// # Errors
    /// What a signal has led to, such as KeyboardInterrupt, and what the callback raises.
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
