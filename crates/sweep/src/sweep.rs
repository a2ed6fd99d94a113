// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A sweep: read once with all files of its lab, so that every point is run from memory. Writes no files.

use crate::file::{self, Parsed};
use crate::metric::{self, Metric};
use crate::packed::{Packed, TextFile, read_text};
use crate::record::{Outcome, Point, Record};
use crate::rounds::Round;
use crate::value::Value;
use fabric::Stop;
use lab::{BuildError, BuildOptions, FileError, FileErrors, Folder, LabFile, Overrides, Reader};
use plug::Models;
use plug::file::{KeptFiles, digest};
use plug::site::NativeCode;
use rustix::time::{ClockId, clock_gettime};
use session::{Session, Slices};
use std::ops::{ControlFlow, Range};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

/// Events between two checks whether to stop.
const SLICE: u64 = 200_000;

/// A checked sweep with its lab and the files of the lab.
#[derive(Clone, Debug)]
pub struct Sweep {
    file: TextFile,
    lab: TextFile,
    files: KeptFiles,
    /// The same files, as labs read them.
    folder: Folder,
    parsed: Parsed,
    reader: Reader,
    native: NativeCode,
}

/// Result and cost of a point.
#[derive(Clone, PartialEq, Debug)]
pub struct Ran {
    /// Record of the point.
    pub record: Record,
    /// CPU time of the thread.
    pub cpu: Duration,
    /// The part of this time in the simulation itself, without reading the lab, building it and reporting.
    pub simulation: Duration,
}

impl Sweep {
    /// Reads the sweep at `path`. Slots of its lab can have these models.
    ///
    /// # Errors
    /// Faults of the sweep file or its lab, each with its place and the expected values.
    pub fn read(models: &Models, path: &Path, native: NativeCode) -> Result<Sweep, FileErrors> {
        Sweep::parse(models, TextFile::read(path)?, None, native)
    }

    /// Parses a sweep from text, with the lab that it names or with `lab` if given.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn parse(
        models: &Models,
        file: TextFile,
        lab: Option<TextFile>,
        native: NativeCode,
    ) -> Result<Sweep, FileErrors> {
        let parsed = file::parse(&file.path, &file.text)?;
        let lab = lab.map_or_else(|| named_lab(&file, &parsed), Ok)?;
        let reader = Reader::new(models);
        let folder = Folder::of(&lab.path).keeping();
        let mut sweep = Sweep { file, lab, files: KeptFiles::new(), folder, parsed, reader, native };
        sweep.check()?;
        sweep.keep(sweep.folder.kept());
        Ok(sweep)
    }

    pub(crate) fn unpacked(models: &Models, packed: Packed) -> Result<Sweep, FileErrors> {
        let Packed { file, lab, files, native } = packed;
        let parsed = file::parse(&file.path, &file.text)?;
        let native = NativeCode::allowed(native);
        let reader = Reader::new(models);
        let mut sweep =
            Sweep { file, lab, files: KeptFiles::new(), folder: Folder::default(), parsed, reader, native };
        sweep.keep(files);
        Ok(sweep)
    }

    /// Makes labs read only these files from now on.
    fn keep(&mut self, files: KeptFiles) {
        self.folder = Folder::of_kept(self.lab.path.parent().unwrap_or(Path::new("")), files.clone());
        self.files = files;
    }

    pub(crate) fn packed(&self) -> Packed {
        Packed {
            file: self.file.clone(),
            lab: self.lab.clone(),
            files: self.files.clone(),
            native: self.native == NativeCode::Allowed,
        }
    }

    /// Checks the lab alone. Also checks that every key accepts one of its values. Also reads the files of the lab.
    fn check(&self) -> Result<(), FileErrors> {
        let read = |given: &[String]| {
            self.reader.parse(&self.lab.path, &self.lab.text, self.folder.clone(), &Overrides::new(given))
        };
        let base = read(&[])?;
        base.check_runs_alone().map_err(|why| FileError::whole(&self.lab.path, why.to_string()))?;
        let wrong = |place, errors: FileErrors| {
            let first = errors.all().first().map_or_else(String::new, |error| error.message.clone());
            FileError::at(&self.file.path, &self.file.text, place, first)
        };
        let mut errors = Vec::new();
        // A value that is valid only together with values of other keys may be valid in some point.
        let all = read(&self.overrides(0, 0));
        for axis in &self.parsed.axes {
            let tried: Vec<_> = axis.witnesses().iter().map(|row| read(&set(&axis.keys, row))).collect();
            if tried.iter().all(Result::is_err) && all.is_err() {
                let first = tried.into_iter().find_map(Result::err);
                errors.extend(first.map(|first| wrong(axis.place.clone(), first)));
            }
        }
        if let (Some(budget), Some(round)) = (&self.parsed.budget, self.rounds().first()) {
            let setting = [format!("{}={}", budget.key, round.budget.unwrap_or_default())];
            errors.extend(read(&setting).err().map(|why| wrong(budget.place.clone(), why)));
        }
        if errors.is_empty() { Ok(()) } else { Err(errors.into_iter().collect()) }
    }

    /// Returns the sweep as one line of JSON, with all that a worker needs on this machine or another.
    pub fn pack(&self) -> String {
        serde_json::to_string(&self.packed()).unwrap_or_default()
    }

    /// Parses the result of [`pack`](Self::pack).
    ///
    /// # Errors
    /// The text is not a sweep, or is of another version.
    pub fn unpack(models: &Models, packed: &str) -> Result<Sweep, FileErrors> {
        let packed = serde_json::from_str(packed).map_err(|e| {
            FileError::whole(
                Path::new("<packed>"),
                format!("{e}: expected a sweep that riser of this version packed"),
            )
        })?;
        Sweep::unpacked(models, packed)
    }

    /// Returns the sweep file.
    pub fn file(&self) -> &TextFile {
        &self.file
    }

    /// Returns the lab file.
    pub fn lab(&self) -> &TextFile {
        &self.lab
    }

    /// Returns the swept keys, in the order of the columns of the results.
    pub fn keys(&self) -> Vec<&str> {
        self.parsed.keys().collect()
    }

    /// Returns the metrics, in the order of the columns of the results.
    pub fn metrics(&self) -> &[Metric] {
        &self.parsed.metrics
    }

    /// Returns the rounds: one round, or the rounds of successive halving.
    pub fn rounds(&self) -> &[Round] {
        self.parsed.rounds.all()
    }

    /// Returns the key that scales the work of a run, if there are rounds of halving.
    pub fn budget(&self) -> Option<&str> {
        self.parsed.budget.as_ref().map(|budget| budget.key.as_str())
    }

    /// Returns the number of points of all rounds.
    pub fn points(&self) -> u64 {
        self.parsed.rounds.points()
    }

    /// Returns the round, from 0, of the point with this number.
    pub fn round_of(&self, number: u64) -> u32 {
        self.parsed.rounds.of(number) as u32
    }

    /// Returns the values of [`keys`](Self::keys) of a configuration.
    pub fn settings(&self, config: u64) -> Vec<Value> {
        self.parsed.sampling.settings(&self.parsed.axes, config)
    }

    /// Returns a digest that identifies the sweep: of its file, the lab's, the lab's files, and riser's version.
    pub fn fingerprint(&self) -> String {
        let mut all = Vec::new();
        let mut add = |bytes: &[u8]| {
            all.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            all.extend_from_slice(bytes);
        };
        add(env!("CARGO_PKG_VERSION").as_bytes());
        add(self.file.text.as_bytes());
        add(self.lab.text.as_bytes());
        for (name, bytes) in &self.files {
            add(name.as_bytes());
            add(bytes);
        }
        digest(&all)
    }

    /// Returns the settings of a point in the form of `--set`.
    pub fn overrides(&self, config: u64, round: u32) -> Vec<String> {
        let keys: Vec<String> = self.keys().into_iter().map(str::to_owned).collect();
        let mut given = set(&keys, &self.settings(config));
        let budget = self.rounds().get(round as usize).and_then(|round| round.budget);
        given.extend(self.budget().zip(budget).map(|(key, value)| format!("{key}={value}")));
        given
    }

    /// Returns the lab of a point, checked.
    ///
    /// # Errors
    /// Faults of these settings.
    pub fn lab_of(&self, point: &Point) -> Result<LabFile, FileErrors> {
        let overrides = Overrides::new(&self.overrides(point.config, point.round));
        let folder = self.folder.clone();
        self.reader.parse(&self.lab.path, &self.lab.text, folder, &overrides)
    }

    /// Builds the lab of a point.
    fn session(&self, file: &LabFile) -> Result<Session, BuildError> {
        Session::with(file, BuildOptions::native(self.native))
    }

    /// Runs a point. The record covers all cases: an invalid lab, a failure, or a panic (if panics unwind).
    pub fn run(&self, point: &Point) -> Ran {
        let never = self.run_until(point, || false);
        never.unwrap_or_else(|| unreachable!("the run is never interrupted"))
    }

    /// Like [`run`](Self::run), but ends without a record if `stop` returns true. This function is called every few
    /// milliseconds.
    pub fn run_until(&self, point: &Point, stop: impl Fn() -> bool) -> Option<Ran> {
        let begun = cpu();
        let mut simulation = Duration::ZERO;
        let run = catch_unwind(AssertUnwindSafe(|| self.record(point, &stop, &mut simulation)));
        let record = run.unwrap_or_else(|panic| {
            Some(Record::without_run(point.number, Outcome::Crashed, panicked(&words(panic.as_ref()))))
        })?;
        Some(Ran { record, cpu: cpu().saturating_sub(begun), simulation })
    }

    fn record(&self, point: &Point, stop: &impl Fn() -> bool, simulation: &mut Duration) -> Option<Record> {
        let refused = |why: String| Some(Record::without_run(point.number, Outcome::Refused, why));
        let file = match self.lab_of(point) {
            Ok(file) => file,
            Err(errors) => return refused(told(&errors)),
        };
        if let Err(error) = file.check_runs_alone() {
            return refused(error.to_string());
        }
        let mut session = match self.session(&file) {
            Ok(session) => session,
            Err(error) => return refused(error.to_string()),
        };
        let begun = cpu();
        let slices = Slices { events: SLICE, max_events: self.parsed.max_events.unwrap_or(u64::MAX) };
        let before =
            |_: &mut Session| if stop() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        let ended = session.run_in_slices(slices, before).ok()?;
        *simulation = cpu().saturating_sub(begun);
        let report = session.report("", &ended, 0.0);
        let json = serde_json::to_value(&report).unwrap_or_default();
        let (metrics, missing) = metric::measure(&self.parsed.metrics, &self.settings(point.config), &json);
        let (outcome, why) = outcome(&ended);
        let error: Vec<String> = why.into_iter().chain(missing).collect();
        let error = (!error.is_empty()).then(|| plug::file::brief(&error.join("; ")).into_owned());
        let (basis, has_warnings) = (Some(report.basis), !report.warnings.is_empty());
        Some(Record { point: point.number, outcome, metrics, error, basis, has_warnings })
    }

    /// Returns the warnings of `riser run` for the lab of a point, one per line.
    pub(crate) fn warnings_of(&self, point: &Point) -> Vec<String> {
        let session = self.lab_of(point).ok().and_then(|file| self.session(&file).ok());
        session.map_or_else(Vec::new, |session| session.warnings().to_vec())
    }

    /// Returns an error at a place in the sweep file.
    pub(crate) fn error(&self, place: Range<usize>, why: String) -> FileError {
        FileError::at(&self.file.path, &self.file.text, place, why)
    }

    /// Returns true if a record is within all bounds of the metrics.
    pub fn is_feasible(&self, record: &Record) -> bool {
        record.outcome.is_whole() && self.miss(record) == 0.0
    }

    /// Returns the distance of a record from the bounds of the metrics, relative to the bounds.
    pub(crate) fn miss(&self, record: &Record) -> f64 {
        let all = self.metrics().iter().enumerate();
        all.map(|(n, metric)| metric.miss(record.number(n))).sum()
    }
}

fn named_lab(file: &TextFile, parsed: &Parsed) -> Result<TextFile, FileErrors> {
    let path = file.path.parent().unwrap_or(Path::new("")).join(&parsed.lab);
    let text = read_text(&path).map_err(|e| {
        let why =
            format!("lab `{}`: {e}: expected the path of a lab file, relative to this file", parsed.lab);
        FileError::at(&file.path, &file.text, parsed.lab_place.clone(), why)
    })?;
    Ok(TextFile { path, text })
}

fn set(keys: &[String], values: &[Value]) -> Vec<String> {
    keys.iter().zip(values).map(|(key, value)| format!("{key}={}", value.toml())).collect()
}

/// Returns the errors of a lab in one line.
fn told(errors: &FileErrors) -> String {
    let one = |error: &FileError| match error.is_setting {
        true => {
            format!("{}: {}", error.path.display().to_string().trim_start_matches("--set "), error.message)
        }
        false => error.message.clone(),
    };
    errors.all().iter().map(one).collect::<Vec<_>>().join("; ")
}

fn outcome(stop: &Stop) -> (Outcome, Vec<String>) {
    match stop {
        Stop::Finished => (Outcome::Finished, Vec::new()),
        Stop::Failed(why) => (Outcome::Failed, vec![why.clone()]),
        Stop::TimeLimit => (Outcome::TimeLimit, Vec::new()),
        Stop::Paused => (Outcome::EventLimit, vec!["max_events was reached before the end".into()]),
        Stop::NoProgress(who) => (Outcome::NoProgress, who.clone()),
    }
}

/// Returns the error text of a panic.
pub(crate) fn panicked(why: &str) -> String {
    format!("riser panicked, which is a bug in riser: {why}")
}

/// Returns the text of a panic.
pub(crate) fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no text".into())
}

/// Returns the CPU time of this thread.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
