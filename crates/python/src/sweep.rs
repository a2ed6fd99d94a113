// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sweeps, driven by the Python half: on this machine with processes, or by any scheduler, chunk by chunk.
//!
//! Points and records pass through Python as JSON, which the scheduler need not parse.

use crate::error::{self, RiserError};
use crate::held::Held;
use crate::progress::ProgressWatch;
use crate::table::Table;
use ::sweep::pool::{Done, Workers, run};
use ::sweep::results::{Column, Values};
use ::sweep::{Outcome, Pace, Point, Record, RunError, RunningSweep, Start, TextFile, page, results};
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray};
use plug::site::NativeCode;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Work of a task for a scheduler other than the pool. The overhead of such a scheduler is some milliseconds per task.
const TASK: Duration = Duration::from_millis(500);

/// A checked sweep.
#[pyclass(frozen, module = "riser._riser")]
pub(crate) struct Sweep(::sweep::Sweep);

fn failed(error: RunError) -> PyErr {
    RiserError::new_err(error::in_python(error))
}

fn json<T: serde::de::DeserializeOwned>(text: &str) -> PyResult<T> {
    serde_json::from_str(text)
        .map_err(|e| PyValueError::new_err(format!("invalid data from another part of riser: {e}")))
}

#[pymethods]
impl Sweep {
    /// Returns a sweep from the text of a sweep file, which errors call `name`, and the lab with this text and name.
    #[new]
    #[pyo3(signature = (text, name, lab, allow_native, /))]
    fn new(
        py: Python<'_>,
        text: String,
        name: PathBuf,
        lab: Option<(String, PathBuf)>,
        allow_native: bool,
    ) -> PyResult<Sweep> {
        let native = NativeCode::allowed(allow_native);
        let lab = lab.map(|(text, path)| TextFile { path, text });
        let read =
            py.detach(|| ::sweep::Sweep::parse(&crate::models(), TextFile { path: name, text }, lab, native));
        read.map(Sweep).map_err(|errors| error::of_files(py, &errors))
    }

    /// Return everything that a worker needs, on this machine or another.
    fn pack(&self) -> String {
        self.0.pack()
    }
}

/// The sweep in a worker of any scheduler.
#[pyclass(frozen, module = "riser._riser")]
pub(crate) struct SweepWorker(::sweep::Sweep);

#[pymethods]
impl SweepWorker {
    #[new]
    #[pyo3(signature = (packed, /))]
    fn new(py: Python<'_>, packed: &str) -> PyResult<SweepWorker> {
        let unpacked = ::sweep::Sweep::unpack(&crate::models(), packed);
        unpacked.map(SweepWorker).map_err(|errors| error::of_files(py, &errors))
    }

    /// Run points. Returns their records, their CPU seconds, and the part of these in the simulation itself.
    fn run(&self, py: Python<'_>, points: &str) -> PyResult<(String, f64, f64)> {
        let points: Vec<Point> = json(points)?;
        py.detach(|| {
            let ran: Vec<_> = points.iter().map(|point| self.0.run(point)).collect();
            let seconds =
                |of: fn(&::sweep::Ran) -> Duration| ran.iter().map(|ran| of(ran).as_secs_f64()).sum();
            let (cpu, simulation) = (seconds(|ran| ran.cpu), seconds(|ran| ran.simulation));
            let records: Vec<Record> = ran.into_iter().map(|ran| ran.record).collect();
            Ok((serde_json::to_string(&records).map_err(error::internal)?, cpu, simulation))
        })
    }
}

/// A running sweep, and its chunk size.
struct Course {
    run: RunningSweep<'static>,
    pace: Pace,
}

/// A running sweep.
#[pyclass(frozen, module = "riser._riser")]
pub(crate) struct SweepRun(Held<RefCell<Course>>);

#[pymethods]
impl SweepRun {
    /// Begin `sweep`, with its records appended to the file `journal`; `start` is `new`, `resume` or `force`.
    #[new]
    #[pyo3(signature = (sweep, journal, start, /))]
    fn new(sweep: &Sweep, journal: Option<PathBuf>, start: &str) -> PyResult<SweepRun> {
        let start = match start {
            "new" => Start::New,
            "resume" => Start::Resume,
            "force" => Start::Force,
            _ => {
                return Err(PyValueError::new_err(format!("start `{start}`: expected new, resume or force")));
            }
        };
        let journal = journal.as_deref().map(|path| (path, start));
        let run = RunningSweep::owned(sweep.0.clone(), journal).map_err(failed)?;
        Ok(SweepRun(Held::new(RefCell::new(Course { run, pace: Pace::of(TASK) }))))
    }

    /// Return unassigned points, as many as one of `workers` should get at a time; None if there are none, or if records must arrive
    /// first.
    fn next_chunk(&self, workers: usize) -> PyResult<Option<String>> {
        let course = self.0.get()?;
        let Course { run, pace } = &mut *course.borrow_mut();
        let at = run.progress();
        let most = pace.chunk(at.points - at.recorded - at.handed_out, workers);
        let points = run.next_chunk(most);
        (!points.is_empty()).then(|| serde_json::to_string(&points).map_err(error::internal)).transpose()
    }

    /// Return the points one by one, for a chunk whose worker died.
    fn singly(&self, points: &str) -> PyResult<Vec<String>> {
        let points: Vec<Point> = json(points)?;
        points.iter().map(|point| serde_json::to_string(&[point]).map_err(error::internal)).collect()
    }

    /// Accept records, which took this many CPU seconds in total.
    fn accept(&self, records: &str, cpu_seconds: f64) -> PyResult<()> {
        let records: Vec<Record> = json(records)?;
        let course = self.0.get()?;
        let Course { run, pace } = &mut *course.borrow_mut();
        let each = Duration::try_from_secs_f64(cpu_seconds / records.len().max(1) as f64).unwrap_or_default();
        records.iter().for_each(|_| pace.learn(each));
        run.accept(records).map(drop).map_err(failed)
    }

    /// Record that every process that ran these points died.
    fn crashed(&self, points: &str, why: &str) -> PyResult<()> {
        let points: Vec<Point> = json(points)?;
        let records =
            points.iter().map(|point| Record::without_run(point.number, Outcome::Crashed, why)).collect();
        self.0.get()?.borrow_mut().run.accept(records).map(drop).map_err(failed)
    }

    /// Whether every point has a record.
    #[getter]
    fn is_done(&self) -> PyResult<bool> {
        Ok(self.0.get()?.borrow().run.is_done())
    }

    /// Return the number of points: total, recorded, recorded before this run, not finished; then the round from 0, and the number of
    /// rounds.
    fn progress(&self) -> PyResult<(u64, u64, u64, u64, usize, usize)> {
        let course = self.0.get()?;
        let course = course.borrow();
        let at = course.run.progress();
        Ok((at.points, at.recorded, at.resumed, at.failed, at.round, at.rounds))
    }

    /// Run the remaining points with `count` processes of `command`. Returns CPU seconds of points, the part of these in the simulation
    /// itself, and the number of workers that were started and that died.
    fn by_processes(
        &self,
        py: Python<'_>,
        command: Vec<String>,
        count: usize,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(f64, f64, u64, u64)> {
        let held = self.0.get()?;
        let mut of_thread = held.borrow_mut();
        let sweep = &mut of_thread.run;
        let workers = Workers { command: command.into_iter().map(Into::into).collect(), count };
        let (watch, stopped) = (Mutex::new(ProgressWatch::new(progress.as_ref())), Mutex::new(None));
        let (recorded, points) = (AtomicU64::new(sweep.progress().recorded), sweep.progress().points);
        let stop = || {
            let done = recorded.load(Ordering::Relaxed);
            let how_far = || (format!("{done} of {points} points"), Some(done as f64 / points.max(1) as f64));
            let looked = watch.lock().unwrap_or_else(PoisonError::into_inner).look(how_far);
            let error = looked.err();
            let is_over = error.is_some();
            *stopped.lock().unwrap_or_else(PoisonError::into_inner) = error;
            is_over
        };
        let watched = |at: &::sweep::Progress| recorded.store(at.recorded, Ordering::Relaxed);
        let done = py.detach(|| run(sweep, &workers, stop, watched)).map_err(failed)?;
        if let Some(error) = stopped.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        let Done { cpu, simulation, started, died, .. } = done;
        Ok((cpu.as_secs_f64(), simulation.as_secs_f64(), started, died))
    }

    /// Wait until the journal is on the disk.
    fn sync(&self) -> PyResult<()> {
        self.0.get()?.borrow().run.sync().map_err(failed)
    }

    /// Return a row for each point with a record, in order.
    fn table(&self) -> PyResult<Table> {
        table(&results::columns(&self.0.get()?.borrow().run))
    }

    /// Return the point numbers of the Pareto front.
    fn front(&self) -> PyResult<Vec<u64>> {
        let course = self.0.get()?;
        let run = &course.borrow().run;
        Ok(::sweep::front(run.sweep(), run.records()))
    }

    /// Return the first error, if every point was refused.
    fn refusal(&self) -> PyResult<Option<String>> {
        Ok(self.0.get()?.borrow().run.refusal().map(error::in_python))
    }

    /// Return warnings of `Lab.run` for the labs of points, one per line.
    fn warnings(&self) -> PyResult<Vec<String>> {
        Ok(self.0.get()?.borrow().run.warnings())
    }

    /// Write the Parquet file to `path`.
    fn write_parquet(&self, path: PathBuf) -> PyResult<()> {
        let columns = results::columns(&self.0.get()?.borrow().run);
        results::write_parquet(&columns, File::create(path)?)?;
        Ok(())
    }

    /// Write the CSV file to `path`.
    fn write_csv(&self, path: PathBuf) -> PyResult<()> {
        let columns = results::columns(&self.0.get()?.borrow().run);
        results::write_csv(&columns, File::create(path)?)?;
        Ok(())
    }

    /// Write the page to `path`.
    fn write_page(&self, path: PathBuf) -> PyResult<()> {
        let page = page::report(&self.0.get()?.borrow().run);
        let mut out = BufWriter::new(File::create(path)?);
        page.write(&mut out)?;
        Ok(out.flush()?)
    }
}

/// Converts the columns of a sweep's results.
fn table(columns: &[Column]) -> PyResult<Table> {
    let array = |column: &Column| -> ArrayRef {
        match &column.values {
            Values::Boolean(all) => Arc::new(BooleanArray::from(all.clone())),
            Values::Integer(all) => Arc::new(Int64Array::from(all.clone())),
            Values::Float(all) => Arc::new(Float64Array::from(all.clone())),
            Values::Text(all) if column.name == "error" => {
                Arc::new(StringArray::from_iter(all.iter().map(|why| why.as_ref().map(error::in_python))))
            }
            Values::Text(all) => Arc::new(StringArray::from_iter(all.iter().map(Option::as_deref))),
        }
    };
    Table::of_columns(columns.iter().map(|column| (column.name.clone(), array(column))).collect())
}
