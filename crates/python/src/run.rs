// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run of a lab, and its result.

use crate::error::{self, Interrupted, RunFailed, in_file, with_attribute};
use crate::progress::ProgressWatch;
use crate::run_state::RunState;
use crate::sight::Sight;
use crate::table::Table;
use crate::tables;
use ::session::{
    CaptureHandle, CaptureOptions, Progress, RunOutcome, Session, SessionReport, Slices,
    TransactionLogHandle, cpu_seconds,
};
use fabric::{Fabric, HostId, Side, Stop};
use plug::Report as _;
use pyo3::exceptions::{PyKeyboardInterrupt, PySystemExit};
use pyo3::prelude::*;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// Events between two checks for Ctrl-C and exceptions. An event of a design in RTL can take milliseconds.
const SLICE: u64 = 256;

/// Output files and logs of a run in addition to its report.
pub(crate) struct Wanted {
    capture: Option<PathBuf>,
    force: bool,
    options: CaptureOptions,
    transactions: bool,
}

impl Wanted {
    pub(crate) fn new(
        capture: Option<PathBuf>,
        force: bool,
        tap: &str,
        dllps: bool,
        transactions: bool,
    ) -> PyResult<Wanted> {
        let at = match tap {
            "device" => Side::Device,
            "root" => Side::Root,
            _ => return Err(error::argument(format!("tap `{tap}`: expected `device` or `root`"))),
        };
        Ok(Wanted { capture, force, options: CaptureOptions { at, dllps }, transactions })
    }
}

/// Creates a file at `path`. With `force` it replaces a writable file; processes that have opened the old file keep
/// that file.
fn create(path: &Path, force: bool) -> io::Result<File> {
    match path.canonicalize() {
        Ok(there) if force && there.is_file() => {
            OpenOptions::new().write(true).open(&there)?;
            fs::remove_file(&there)?;
            File::create_new(there)
        }
        _ => File::create_new(path),
    }
}

/// Outputs of a run.
struct Taps {
    capture: Option<(PathBuf, CaptureHandle<BufWriter<File>>)>,
    transactions: Option<TransactionLogHandle<Vec<u8>>>,
}

impl Taps {
    fn open(session: &mut Session, wanted: Wanted) -> PyResult<Taps> {
        let begin = |path: PathBuf| {
            let file = create(&path, wanted.force).map_err(|e| in_file(&path, &e))?;
            let handle = session.capture(BufWriter::new(file), wanted.options);
            handle.map_err(|e| in_file(&path, &e)).map(|handle| (path, handle))
        };
        let capture = wanted.capture.map(begin).transpose()?;
        let transactions = wanted.transactions.then(|| session.log_transactions(Vec::new()));
        Ok(Taps { capture, transactions })
    }

    /// Returns the lines of transactions, and completes the capture.
    fn finish(self, session: &mut Session) -> PyResult<Option<Vec<u8>>> {
        if let Some((path, handle)) = self.capture {
            session.fabric.take_tap();
            handle.finish().map_err(|e| in_file(&path, &e))?;
        }
        let finish = |log: TransactionLogHandle<Vec<u8>>| log.finish().map_err(error::internal);
        Ok(self.transactions.map(finish).transpose()?.map(Option::unwrap_or_default))
    }
}

/// Runs `session`, a lab called `name`, to its end, its limit or Ctrl-C.
pub(crate) fn run(
    name: &str,
    mut session: Session,
    state: &Rc<RunState>,
    wanted: Wanted,
    progress: Option<&Py<PyAny>>,
) -> PyResult<RunResult> {
    let taps = Taps::open(&mut session, wanted)?;
    let before = cpu_seconds();
    let (stop, interrupted) = drive(&mut session, state, ProgressWatch::new(progress));
    let spent = cpu_seconds() - before;
    let transactions = taps.finish(&mut session)?;
    let raised = Python::attach(|py| state.reports().iter().find_map(|report| report.get().error(py)));
    let (interrupted, raised) = match raised {
        Some(error) if goes_on(&error) => (interrupted.or(Some(error)), None),
        raised => (interrupted, raised),
    };
    let mut report = session.report(name, &stop, spent);
    if interrupted.is_some() {
        report.outcome = RunOutcome::Interrupted;
    }
    let refusals = report.refusals.clone();
    let result = RunResult { report: Arc::new(report), transactions: transactions.map(Arc::new) };
    match (interrupted, stop) {
        (Some(error), _) => Python::attach(|py| Err(result.of_interruption(py, error))),
        (None, stop @ (Stop::Failed(_) | Stop::NoProgress(_))) => Python::attach(|py| {
            let lines = refusals.iter().filter(|refusal| !refusal.routine);
            let text = lines.fold(stop.to_string(), |text, refusal| format!("{text}\n{refusal}"));
            let error = RunFailed::new_err(text);
            error.set_cause(py, raised);
            Err(result.into_error(py, error))
        }),
        (None, _) => Ok(result),
    }
}

/// Returns true if a device's exception ends the whole program (Ctrl-C, `sys.exit()`), and is not a failure of the
/// device.
fn goes_on(error: &PyErr) -> bool {
    Python::attach(|py| {
        error.is_instance_of::<PyKeyboardInterrupt>(py) || error.is_instance_of::<PySystemExit>(py)
    })
}

/// Returns where the run stopped, and the exception that interrupted it. If there are devices in Python, waiting
/// coroutines see the TLPs.
fn drive(session: &mut Session, state: &Rc<RunState>, mut watch: ProgressWatch<'_>) -> (Stop, Option<PyErr>) {
    let reports = state.reports();
    // The report of a slot does not contain the failure of a driver if the slot has another device.
    let failure = || reports.iter().find_map(|report| report.get().failure());
    let before = |session: &mut Session| match failure() {
        Some(why) => ControlFlow::Break((Stop::Failed(why), None)),
        None => match watch.look(|| how_far(session.progress())) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break((Stop::Paused, Some(error))),
        },
    };
    let ended = if reports.is_empty() {
        session.run_in_slices(Slices::of(SLICE), before)
    } else {
        let (links, behind) = (session.tapped_links(), session.fabric.take_tap());
        session.fabric.set_tap(Box::new(Sight::new(state, &links, crate::models().registers(), behind)));
        // The fabric calls a host program only for its own events, so wake it after an awaited TLP.
        let wake = |fabric: &mut Fabric| {
            if state.waiting.take_news() {
                // If there is a device, there is a first host.
                let _known = fabric.wake_host(HostId::FIRST);
            }
        };
        session.run_by_events(Slices::of(SLICE), wake, before)
    };
    match ended {
        Ok(stop @ Stop::Failed(_)) => (stop, None),
        Ok(stop) => (failure().map_or(stop, Stop::Failed), None),
        Err(ended) => ended,
    }
}

/// Returns virtual time, and the share of transfers or of the limit if known.
fn how_far(progress: Progress) -> (String, Option<f64>) {
    let of_transfers = progress.transfers.map(|(done, of)| ::session::share(done, of));
    (format!("{:.3} us simulated", progress.now.as_ps() as f64 / 1e6), of_transfers.or(progress.of_limit))
}

/// Result of a run.
#[pyclass(frozen, module = "riser._riser")]
#[derive(Clone)]
pub(crate) struct RunResult {
    report: Arc<SessionReport>,
    transactions: Option<Arc<Vec<u8>>>,
}

impl RunResult {
    /// Returns `error` with this result.
    fn into_error(self, py: Python<'_>, error: PyErr) -> PyErr {
        match Py::new(py, self) {
            Ok(result) => with_attribute(py, error, "result", result),
            Err(error) => error,
        }
    }

    /// Converts Ctrl-C to riser's exception with the results so far. Any other exception stays as it is.
    fn of_interruption(self, py: Python<'_>, error: PyErr) -> PyErr {
        if !error.is_instance_of::<PyKeyboardInterrupt>(py) {
            return error;
        }
        let text = format!("interrupted after {:.3} us of virtual time", self.report.simulated_ns / 1_000.0);
        self.into_error(py, Interrupted::new_err(text))
    }
}

#[pymethods]
impl RunResult {
    /// Return the report of `riser run --json` as a dict.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(pythonize::pythonize(py, &*self.report)?)
    }

    /// Return the report in the form of `riser run`.
    fn text(&self) -> String {
        self.report.to_string()
    }

    /// Return the directions of each link.
    fn links(&self) -> PyResult<Table> {
        tables::links(&self.report)
    }

    /// Return latencies and their parts for each kind of transaction.
    fn latencies(&self) -> PyResult<Table> {
        tables::latencies(&self.report)
    }

    /// Return every transaction, if they were requested.
    fn transactions(&self) -> PyResult<Option<Table>> {
        self.transactions.as_ref().map(|lines| tables::transactions(lines)).transpose()
    }
}
