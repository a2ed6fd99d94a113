// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A running sweep: points that are left or handed out, and the records so far. A run is independent of workers: the
//! caller takes points and returns records.

use crate::journal::{Header, Journal, JournalError, Start};
use crate::ranking;
use crate::record::{Outcome, Point, Record};
use crate::sweep::Sweep;
use crate::value::Value;
use plug::counted;
use plug::profile::Basis;
use std::borrow::Cow;
use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::io;
use std::path::Path;
use thiserror::Error;

/// Maximum number of points that are run one by one before all others, until one of them finishes. These points show
/// whether the metrics are right.
const MOST_PROBES: u64 = 8;
/// Maximum number of points whose labs are built for the text of their warnings.
const MOST_LOOKS: usize = 64;

/// Reason why a sweep cannot continue.
#[derive(Debug, Error)]
pub enum RunError {
    /// Error of its journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The first finished point lacks a metric.
    #[error("{0}")]
    Metric(String),
    /// A record that does not belong to this sweep, and the reason.
    #[error("record of point {0}: {1}")]
    Record(u64, String),
    /// A worker refuses the sweep, or ends before it answers.
    #[error("{0}")]
    Worker(String),
    /// The command for workers is empty.
    #[error("no command for workers")]
    NoCommand,
    /// A worker cannot be started.
    #[error("worker {}: {error}", program.display())]
    Start {
        /// The program.
        program: OsString,
        /// The error of the system.
        error: io::Error,
    },
}

/// Progress of a sweep.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Points of all rounds.
    pub points: u64,
    /// Recorded points.
    pub recorded: u64,
    /// Points recorded before this run began, according to the journal.
    pub resumed: u64,
    /// Recorded points that are not whole: see [`Outcome::is_whole`].
    pub failed: u64,
    /// Points that are handed out now.
    pub handed_out: u64,
    /// Current round, from 0.
    pub round: usize,
    /// Number of rounds.
    pub rounds: usize,
}

/// A running sweep.
#[derive(Debug)]
pub struct RunningSweep<'s> {
    sweep: Cow<'s, Sweep>,
    journal: Option<Journal>,
    records: Vec<Option<Record>>,
    progress: Progress,
    /// Configurations of each round that has begun, in the order of its points; for the first round, the point numbers.
    configs: Vec<Vec<u64>>,
    /// Next point of the round that was not handed out yet.
    next: u64,
    /// Points that were given back without a record.
    again: VecDeque<Point>,
    out: BTreeSet<u64>,
    /// True while the first points are tried one by one.
    probing: bool,
}

impl<'s> RunningSweep<'s> {
    /// Begins or continues a sweep. Without a journal, records are kept only in memory.
    ///
    /// # Errors
    /// Errors of the journal.
    pub fn begin(sweep: &'s Sweep, journal: Option<(&Path, Start)>) -> Result<RunningSweep<'s>, RunError> {
        RunningSweep::with(Cow::Borrowed(sweep), journal)
    }

    /// Like [`begin`](Self::begin), for an owned sweep.
    ///
    /// # Errors
    /// Errors of the journal.
    pub fn owned(sweep: Sweep, journal: Option<(&Path, Start)>) -> Result<RunningSweep<'static>, RunError> {
        RunningSweep::with(Cow::Owned(sweep), journal)
    }

    fn with(sweep: Cow<'s, Sweep>, journal: Option<(&Path, Start)>) -> Result<RunningSweep<'s>, RunError> {
        let points = sweep.points();
        let rounds = sweep.rounds().len();
        let mut run = RunningSweep {
            sweep,
            journal: None,
            records: vec![None; points as usize],
            progress: Progress { points, rounds, ..Progress::default() },
            configs: Vec::new(),
            next: 0,
            again: VecDeque::new(),
            out: BTreeSet::new(),
            probing: true,
        };
        if let Some((path, start)) = journal {
            let header = Header::new(run.sweep.fingerprint(), points);
            let (journal, records) = Journal::open(path, &header, start)?;
            for record in records {
                run.check(&record)?;
                run.keep(record);
            }
            run.journal = Some(journal);
        }
        run.progress.resumed = run.progress.recorded;
        run.enter_round(0);
        run.advance();
        run.probing = run.probes().is_some();
        Ok(run)
    }

    /// Returns the sweep.
    pub fn sweep(&self) -> &Sweep {
        &self.sweep
    }

    /// Hands out up to `most` points that were not handed out before. Empty if no point is left, or if records of
    /// points in progress must arrive first.
    pub fn next_chunk(&mut self, most: usize) -> Vec<Point> {
        let mut chunk = Vec::new();
        if self.probing {
            let free = self.probes().filter(|_| self.out.is_empty() && most > 0);
            chunk.extend(free.and_then(|number| self.point(number)));
            self.again.retain(|point| !chunk.contains(point));
        } else {
            while chunk.len() < most {
                let Some(point) = self.again.pop_front().or_else(|| self.fresh()) else { break };
                if !self.is_taken(point.number) {
                    chunk.push(point);
                }
            }
        }
        self.out.extend(chunk.iter().map(|point| point.number));
        self.progress.handed_out = self.out.len() as u64;
        chunk
    }

    /// Takes back points that will not get a record. These points are the first that are handed out again.
    pub fn give_back(&mut self, points: &[Point]) {
        for point in points {
            if self.out.remove(&point.number) && self.record_of(point.number).is_none() {
                self.again.push_back(*point);
            }
        }
        self.progress.handed_out = self.out.len() as u64;
    }

    /// Accepts records, and writes new ones to the journal. Returns the number of new records.
    ///
    /// # Errors
    /// Errors of the journal, a record that does not belong to this sweep, or a metric that the first finished point
    /// lacks.
    pub fn accept(&mut self, records: Vec<Record>) -> Result<usize, RunError> {
        records.iter().try_for_each(|record| self.check(record))?;
        let (mut new, mut seen) = (Vec::new(), BTreeSet::new());
        for record in records {
            if self.record_of(record.point).is_none() && seen.insert(record.point) {
                new.push(record);
            }
        }
        if self.probing {
            new.iter().try_for_each(|record| check_metrics(&self.sweep, record))?;
        }
        if let Some(journal) = &mut self.journal {
            journal.add(&new)?;
        }
        let count = new.len();
        new.into_iter().for_each(|record| self.keep(record));
        self.advance();
        self.probing = self.probing && self.probes().is_some();
        Ok(count)
    }

    /// Returns true if every point has a record.
    pub fn is_done(&self) -> bool {
        self.progress.recorded == self.progress.points
    }

    /// Returns the first error if there are records and all of them are of refused points.
    pub fn refusal(&self) -> Option<&str> {
        let mut records = self.records.iter().flatten();
        let first = records.next().filter(|first| first.outcome == Outcome::Refused)?;
        let all = records.all(|record| record.outcome == Outcome::Refused);
        first.error.as_deref().filter(|_| all)
    }

    /// Returns the progress.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Returns the record of a point, if it exists.
    pub fn record_of(&self, number: u64) -> Option<&Record> {
        self.records.get(number as usize)?.as_ref()
    }

    /// Returns the records by point number. Some are missing until the sweep [is done](Self::is_done).
    pub fn records(&self) -> &[Option<Record>] {
        &self.records
    }

    /// Returns the point of this number; `None` if its round has not begun, so that its configuration is unknown.
    pub fn point(&self, number: u64) -> Option<Point> {
        let round = self.sweep.round_of(number);
        let place = number.checked_sub(self.sweep.rounds()[round as usize].first)?;
        let config = *self.configs.get(round as usize)?.get(place as usize)?;
        Some(Point { number, config, round })
    }

    /// Returns the warnings of `riser run` for the labs of the points, each once. The last line has the number of points with
    /// warnings. Checks only a sample of these points, so the number of points with one warning is unknown if there are several.
    pub fn warnings(&self) -> Vec<String> {
        let warned: Vec<u64> =
            self.records.iter().flatten().filter(|record| record.has_warnings).map(|r| r.point).collect();
        let mut lines = BTreeSet::new();
        for number in warned.iter().step_by(warned.len().div_ceil(MOST_LOOKS).max(1)) {
            lines.extend(self.point(*number).map(|point| self.sweep.warnings_of(&point)).unwrap_or_default());
        }
        let points = format!("{} of {} have warnings", warned.len(), counted(self.progress.points, "point"));
        match lines.len() {
            0 | 1 => lines.into_iter().map(|line| format!("{line} ({points})")).collect(),
            _ => lines.into_iter().chain([points]).collect(),
        }
    }

    /// Returns the weakest basis of the profile figures that the metrics depend on, over all points.
    pub fn basis(&self) -> Option<Basis> {
        self.records.iter().flatten().filter_map(|record| record.basis).max()
    }

    /// Waits until the journal is on the disk.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn sync(&self) -> Result<(), RunError> {
        Ok(self.journal.as_ref().map_or(Ok(()), Journal::sync)?)
    }

    fn fresh(&mut self) -> Option<Point> {
        let round = self.sweep.rounds()[self.progress.round];
        if self.next >= round.first + round.points {
            return None;
        }
        self.next += 1;
        self.point(self.next - 1)
    }

    fn is_taken(&self, number: u64) -> bool {
        self.out.contains(&number) || self.record_of(number).is_some()
    }

    /// Returns the first of the first few points without a record, as long as no point before it is whole.
    fn probes(&self) -> Option<u64> {
        let first = self.sweep.rounds()[0].points.min(MOST_PROBES);
        let open = (0..first).find(|n| self.record_of(*n).is_none_or(|record| record.outcome.is_whole()))?;
        self.record_of(open).is_none().then_some(open)
    }

    fn keep(&mut self, record: Record) {
        self.out.remove(&record.point);
        self.progress.handed_out = self.out.len() as u64;
        let failed = !record.outcome.is_whole();
        let place = &mut self.records[record.point as usize];
        if place.is_none() {
            self.progress.recorded += 1;
            self.progress.failed += u64::from(failed);
            *place = Some(record);
        }
    }

    /// Enters the next round if all points of this round are recorded.
    fn advance(&mut self) {
        let is_whole = |run: &RunningSweep<'_>, round: usize| {
            let of = run.sweep.rounds()[round];
            (of.first..of.first + of.points).all(|n| run.record_of(n).is_some())
        };
        while self.out.is_empty()
            && self.progress.round + 1 < self.progress.rounds
            && is_whole(self, self.progress.round)
        {
            self.enter_round(self.progress.round + 1);
        }
    }

    fn enter_round(&mut self, round: usize) {
        let configs = match round.checked_sub(1).and_then(|before| Some((before, self.configs.get(before)?)))
        {
            None => (0..self.sweep.rounds()[0].points).collect(),
            Some((before, configs)) => self.best(before, configs, self.sweep.rounds()[round].points),
        };
        self.configs.push(configs);
        self.progress.round = round;
        self.next = self.sweep.rounds()[round].first;
    }

    /// Returns the configurations of a round that continue in the next round, in their order.
    fn best(&self, round: usize, configs: &[u64], most: u64) -> Vec<u64> {
        let first = self.sweep.rounds()[round].first;
        let mut best =
            ranking::best(&self.sweep, configs.len(), |place| self.record_of(first + place as u64));
        best.truncate(most as usize);
        best.sort_unstable();
        best.into_iter().map(|place| configs[place]).collect()
    }

    fn check(&self, record: &Record) -> Result<(), RunError> {
        let wrong = |why: String| Err(RunError::Record(record.point, why));
        if record.point >= self.progress.points {
            return wrong(format!("expected points 0 to {}", self.progress.points - 1));
        }
        let (given, all) = (record.metrics.len(), self.sweep.metrics().len());
        match given == all || given == 0 && record.error.is_some() {
            true => Ok(()),
            false => wrong(format!("{given} metrics: expected {all}, or none with an error")),
        }
    }
}

/// Checks that a whole point has all metrics, and that metrics with an aim or a bound are no text.
fn check_metrics(sweep: &Sweep, record: &Record) -> Result<(), RunError> {
    for (metric, value) in sweep.metrics().iter().zip(&record.metrics) {
        if let (Some(Value::Text(text)), true) = (value, metric.is_compared()) {
            let why = format!(
                "metric `{}`: the report has text, `{text}`: expected a number with aim, at_least or at_most",
                metric.name
            );
            return Err(RunError::Metric(sweep.error(metric.place.clone(), why).to_string()));
        }
    }
    match (&record.error, record.outcome) {
        (Some(why), Outcome::Finished | Outcome::TimeLimit) => {
            let why =
                format!("point {}: {why}; set `default` for a metric that may be missing", record.point);
            Err(RunError::Metric(why))
        }
        _ => Ok(()),
    }
}
