// SPDX-License-Identifier: Apache-2.0 OR MIT
//! State of one run with devices or drivers in Python. Models find it in the context of the run; coroutines keep a reference.

use crate::device::report::PythonReport;
use crate::error::{RiserError, Stuck};
use crate::operation::Operation;
use crate::sight::Waiting;
use plug::Shared;
use pyo3::prelude::*;
use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

/// Maximum number of operations of a coroutine that may end immediately, one after the other, before the coroutine
/// waits. A coroutine that never waits would keep time, and the run, from advancing.
const MAX_AT_ONCE: u32 = 1 << 16;

static BEGINNING: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Value that means no poll.
const NONE: u64 = u64::MAX;

/// See the [module](self). The default is for runs that the command line or a suite starts.
#[derive(Default)]
pub(crate) struct RunState {
    /// Objects of the lab, to which its text refers by number.
    objects: Vec<Py<PyAny>>,
    /// Reports of the devices and drivers in Python, in the order of their slots.
    reports: RefCell<Vec<Shared<PythonReport>>>,
    /// Coroutines that wait for a TLP.
    pub(crate) waiting: Waiting,
    clock: Polls,
    /// Operations that ended since the poll began.
    at_once: Cell<u32>,
    /// Address of the operation that was polled last and has not ended.
    pending: Cell<Option<ptr::NonNull<Operation>>>,
}

impl RunState {
    /// Returns the state of a run with these objects.
    pub(crate) fn new(objects: Vec<Py<PyAny>>) -> RunState {
        RunState { objects, ..RunState::default() }
    }

    /// Like [`new`](Self::new); `clock` shows how long a coroutine of the run has been polled.
    pub(crate) fn with_clock(objects: Vec<Py<PyAny>>, clock: &Polls) -> RunState {
        RunState { objects, clock: Polls(Arc::clone(&clock.0)), ..RunState::default() }
    }

    /// Returns the object with this number.
    ///
    /// # Errors
    /// The lab has no such object. A lab from a file never has one.
    pub(crate) fn object<'py>(&self, py: Python<'py>, number: u32) -> PyResult<Bound<'py, PyAny>> {
        let object = self.objects.get(number as usize).map(|object| object.bind(py).clone());
        object.ok_or_else(|| {
            RiserError::new_err(format!("object {number} does not exist; labs in files name a class"))
        })
    }

    /// Adds the report of a device or driver that is plugged in.
    pub(crate) fn add_report(&self, report: &Shared<PythonReport>) {
        self.reports.borrow_mut().push(report.clone());
    }

    /// Returns the reports of all devices and drivers in Python.
    pub(crate) fn reports(&self) -> Vec<Shared<PythonReport>> {
        self.reports.borrow().clone()
    }

    /// Starts the clock of the outermost coroutine that is polled.
    pub(crate) fn start_clock(&self) {
        self.clock.0.store(now_ms(), Ordering::Relaxed);
    }

    /// Stops that clock.
    pub(crate) fn stop_clock(&self) {
        self.clock.0.store(NONE, Ordering::Relaxed);
    }

    /// Begins the poll of an outermost coroutine.
    pub(crate) fn begin_poll(&self) {
        self.at_once.set(0);
        self.start_clock();
    }

    /// Counts an operation of the task that is being polled.
    ///
    /// # Errors
    /// Too many operations ended immediately.
    pub(crate) fn count(&self) -> PyResult<()> {
        self.at_once.set(self.at_once.get() + 1);
        match self.at_once.get() {
            0..=MAX_AT_ONCE => Ok(()),
            _ => Err(Stuck::new_err(format!(
                "{MAX_AT_ONCE} consecutive operations took no time: a loop that waits for nothing"
            ))),
        }
    }

    /// Records that `operation` was polled and has not ended. The operation may be yielded now.
    pub(crate) fn note_pending(&self, operation: &Operation) {
        self.pending.set(Some(ptr::NonNull::from(operation)));
    }

    /// Returns whether `operation` was polled last and has not ended.
    pub(crate) fn is_pending(&self, operation: &Operation) -> bool {
        self.pending.get() == Some(ptr::NonNull::from(operation))
    }
}

/// The clock of a run's coroutines. Another thread uses it to find a coroutine that never yields.
#[pyclass(frozen, module = "riser._riser")]
pub(crate) struct Polls(Arc<AtomicU64>);

impl Default for Polls {
    fn default() -> Polls {
        Polls(Arc::new(AtomicU64::new(NONE)))
    }
}

#[pymethods]
impl Polls {
    #[new]
    fn new() -> Polls {
        Polls::default()
    }

    /// Seconds since the start of a poll that has not ended; None if no coroutine is being polled.
    fn seconds(&self) -> Option<f64> {
        match self.0.load(Ordering::Relaxed) {
            NONE => None,
            since => Some(now_ms().saturating_sub(since) as f64 / 1e3),
        }
    }
}

fn now_ms() -> u64 {
    BEGINNING.elapsed().as_millis() as u64
}
