// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs long work on a separate thread, while this thread checks for Ctrl-C and reports progress.

use crate::progress::ProgressWatch;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Interval between checks.
const EVERY: Duration = Duration::from_millis(20);

/// Progress of the work: the current step, and a share from 0 to 1 if known.
#[derive(Default)]
pub(super) struct Far(Mutex<(String, Option<f64>)>);

impl Far {
    pub(super) fn tell(&self, text: String, share: Option<f64>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (text, share);
    }

    fn look(&self) -> (String, Option<f64>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Runs `work`. An exception, such as that of Ctrl-C, sets the flag of the work, and the work ends soon. Called without
/// the interpreter.
pub(super) fn apart<T: Send>(
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&AtomicBool, &Far) -> T + Send,
) -> (T, Option<PyErr>) {
    let (cancel, far) = (AtomicBool::new(false), Far::default());
    thread::scope(|scope| {
        let worker = scope.spawn(|| work(&cancel, &far));
        let (mut watch, mut raised) = (ProgressWatch::new(progress), None);
        while !worker.is_finished() {
            thread::sleep(EVERY);
            if raised.is_none() {
                raised = watch.look(|| far.look()).err();
                cancel.store(raised.is_some(), Ordering::Relaxed);
            }
        }
        match worker.join() {
            Ok(done) => (done, raised),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
