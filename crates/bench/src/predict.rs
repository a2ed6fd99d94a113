// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Simulates the rows of measurements on their machines, with a chosen profile.

use crate::BenchError;
use crate::experiments::Key;
use crate::jobs::for_each;
use crate::results::{ResultRow, ResultSet, Tables};
use crate::suite::{Machine, Rule, measure_row};

/// Seed of a simulation. Each row derives its seed from this seed and its place.
const SEED: u64 = 1;

/// A configuration to simulate.
pub(crate) struct Target<'a> {
    pub(crate) machine: Machine,
    pub(crate) measured: &'a Tables,
}

/// A row to simulate, with its target and experiment.
struct Row<'a> {
    target: usize,
    experiment: &'a str,
    key: Key,
}

/// Simulates every measured row. `progress` receives the finished and total numbers of rows, and can end the work by an
/// error.
///
/// # Errors
/// The first row that cannot be simulated, or the error of `progress`.
pub(crate) fn predict(
    targets: &[Target<'_>],
    rule: &Rule,
    jobs: usize,
    progress: &mut dyn FnMut(usize, usize) -> Result<(), BenchError>,
) -> Result<ResultSet, BenchError> {
    let rows: Vec<Row<'_>> =
        targets.iter().enumerate().flat_map(|(at, target)| rows_of(at, target)).collect();
    let mut done: Vec<Option<ResultRow>> = vec![None; rows.len()];
    let work = |at: usize| {
        let row: &Row<'_> = &rows[at];
        measure_row(&targets[row.target].machine, row.key, rule, SEED + at as u64)
    };
    let mut count = 0;
    for_each(rows.len(), jobs, work, |at, result| {
        let row = &rows[at];
        let name = &targets[row.target].machine.name;
        done[at] = Some(result.map_err(|e| e.at(row.key).at(format_args!("{name}, {}", row.experiment)))?);
        count += 1;
        progress(count, rows.len())
    })?;
    Ok(gather(targets, &rows, done))
}

fn rows_of<'a>(at: usize, target: &'a Target<'_>) -> impl Iterator<Item = Row<'a>> {
    let of = move |(name, rows): (&'a String, &'a Vec<ResultRow>)| {
        rows.iter().map(move |row| Row { target: at, experiment: name, key: row.key })
    };
    target.measured.experiments.iter().flat_map(of)
}

fn gather(targets: &[Target<'_>], rows: &[Row<'_>], done: Vec<Option<ResultRow>>) -> ResultSet {
    let mut set = ResultSet::default();
    for (row, result) in rows.iter().zip(done) {
        let name = targets[row.target].machine.name.clone();
        let tables = set.configurations.entry(name).or_default();
        tables.experiments.entry(row.experiment.into()).or_default().extend(result);
    }
    set
}
