// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A short form of a sweep's result: as JSON, and as text by [`Display`](fmt::Display).

use crate::pool::Done;
use crate::{Record, RunningSweep, front};
use plug::counted;
use plug::profile::Basis;
use serde::{Serialize, Serializer};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum number of points in the text.
const MAX_BEST: usize = 10;
/// Maximum number of errors in the text.
const MAX_ERRORS: usize = 5;

/// The result of a sweep.
#[derive(Serialize)]
pub struct Summary {
    sweep: PathBuf,
    lab: PathBuf,
    points: u64,
    recorded: u64,
    resumed: u64,
    outcomes: BTreeMap<&'static str, u64>,
    /// Warnings of the labs of points.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The weakest basis of the figures of profiles that the metrics depend on.
    #[serde(skip_serializing_if = "Option::is_none")]
    basis: Option<Basis>,
    best: Vec<Best>,
    wall_seconds: f64,
    cpu_seconds: f64,
    simulation_cpu_seconds: f64,
    workers_started: u64,
    workers_died: u64,
    folder: PathBuf,
    /// True if the sweep was stopped before its last point. The folder then has only the journal.
    #[serde(skip)]
    pub stopped: bool,
    /// The first errors, each with its first point and its number of points.
    #[serde(skip)]
    errors: Vec<(String, u64, u64)>,
}

/// A point of the Pareto front.
#[derive(Serialize)]
struct Best {
    point: u64,
    #[serde(serialize_with = "by_name")]
    settings: Vec<(String, Json)>,
    #[serde(serialize_with = "by_name")]
    metrics: Vec<(String, Json)>,
}

/// Serializes pairs as an object, in this order.
fn by_name<S: Serializer>(all: &[(String, Json)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(all.iter().map(|(name, value)| (name, value)))
}

impl Summary {
    /// Returns the result of `run` after a time of `wall` and `cpu_seconds` of all processes. Its files are in
    /// `folder`.
    pub fn new(
        run: &RunningSweep<'_>,
        done: &Done,
        wall: Duration,
        cpu_seconds: f64,
        folder: &Path,
    ) -> Summary {
        let (sweep, progress) = (run.sweep(), run.progress());
        let mut outcomes = BTreeMap::new();
        let mut errors: Vec<(String, u64, u64)> = Vec::new();
        for record in run.records().iter().flatten() {
            *outcomes.entry(record.outcome.name()).or_default() += 1;
            if let Some(why) = &record.error {
                match errors.iter().position(|(other, ..)| other == why) {
                    Some(at) => errors[at].2 += 1,
                    None if errors.len() < MAX_ERRORS => errors.push((why.clone(), record.point, 1)),
                    None => {}
                }
            }
        }
        let best = front(sweep, run.records());
        Summary {
            sweep: sweep.file().path.clone(),
            lab: sweep.lab().path.clone(),
            points: progress.points,
            recorded: progress.recorded,
            resumed: progress.resumed,
            outcomes,
            warnings: run.warnings(),
            basis: run.basis(),
            best: best.into_iter().filter_map(|n| Some(row(run, run.record_of(n)?))).collect(),
            wall_seconds: wall.as_secs_f64(),
            cpu_seconds,
            simulation_cpu_seconds: done.simulation.as_secs_f64(),
            workers_started: done.started,
            workers_died: done.died,
            folder: folder.to_owned(),
            stopped: done.stopped && !run.is_done(),
            errors,
        }
    }
}

fn row(run: &RunningSweep<'_>, record: &Record) -> Best {
    let sweep = run.sweep();
    let config = run.point(record.point).map_or(0, |point| point.config);
    let json = |value: &crate::Value| serde_json::to_value(value).unwrap_or_default();
    let settings = sweep.settings(config);
    let settings = sweep.keys().into_iter().zip(settings.iter().map(json)).map(|(k, v)| (k.to_owned(), v));
    let metrics = sweep.metrics().iter().zip(&record.metrics);
    let metrics = metrics.map(|(m, v)| (m.name.clone(), v.as_ref().map_or(Json::Null, json)));
    Best { point: record.point, settings: settings.collect(), metrics: metrics.collect() }
}

/// Returns a value as text: with five significant digits if it is not whole.
fn cell(value: &Json) -> String {
    match value {
        Json::Null => "-".to_owned(),
        Json::String(text) => text.clone(),
        Json::Number(n) if n.is_f64() => {
            let x = n.as_f64().unwrap_or_default();
            format!("{x:.4e}").parse::<f64>().map_or_else(|_| n.to_string(), |x| x.to_string())
        }
        other => other.to_string(),
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} of {}", self.sweep.display(), self.recorded, counted(self.points, "point"))?;
        let outcomes: Vec<String> =
            self.outcomes.iter().map(|(name, count)| format!("{count} {name}")).collect();
        if !outcomes.is_empty() {
            write!(f, ": {}", outcomes.join(", "))?;
        }
        if let Some(basis) = self.basis {
            write!(f, "; basis: {}", basis.name())?;
        }
        if let Some(first) = self.best.first() {
            let shown = self.best.iter().take(MAX_BEST);
            let names = first.settings.iter().chain(&first.metrics).map(|(name, _)| name.as_str());
            let header: Vec<&str> = std::iter::once("point").chain(names).collect();
            let rows = shown.map(|best| {
                let values = best.settings.iter().chain(&best.metrics).map(|(_, value)| cell(value));
                std::iter::once(best.point.to_string()).chain(values).collect()
            });
            write!(f, "\n\nPareto front:\n{}", session::table::numbers(&header, rows))?;
            if self.best.len() > MAX_BEST {
                write!(f, "\n... {} more", self.best.len() - MAX_BEST)?;
            }
        }
        if !self.errors.is_empty() {
            write!(f, "\n\nerrors, with the first point of each:")?;
        }
        for (why, point, count) in &self.errors {
            write!(f, "\n  point {point}, {count} in total: {}", why.replace('\n', " "))?;
        }
        let results = if self.stopped { "" } else { "results.parquet, results.csv, report.html, " };
        write!(f, "\n\n{}/: {results}journal.jsonl", self.folder.display())
    }
}
