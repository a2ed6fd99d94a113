// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rows of the benchmark over an axis, as the table and the lines of a figure.

use super::super::table::{Cell, Column, Line, Table};
use super::super::{Effort, PaperError};
use crate::configurations::Configuration;
use crate::experiments::{Cache, Key, Pattern, Test, row};
use crate::jobs;
use crate::results::{CdfPoint, Figures, ResultRow, Spread};
use crate::suite::{Machine, measure_distribution, measure_row};
use std::thread;

/// The card of Figures 5 to 9.
pub(super) const NFP: &str = "nfp6000";

pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;

/// Seed of all rows.
const SEED: u64 = 1;

/// Returns a measured configuration with the card `device`.
pub(super) fn machine(configuration: &str, device: &str) -> Result<Machine, PaperError> {
    let found = Configuration::named(configuration);
    let found = found.ok_or_else(|| PaperError::Lab(format!("no configuration {configuration}")))?;
    Ok(Machine::configuration(found, device))
}

/// Returns a row with random addresses.
pub(super) const fn key(test: Test, cache: Cache, window_bytes: u64, size_bytes: u32) -> Key {
    row(test, Pattern::Random, cache, window_bytes, size_bytes)
}

/// The quantity on the axis.
#[derive(Clone, Copy)]
pub(super) enum Axis {
    /// Bytes of a transfer.
    Size(&'static [u64]),
    /// Bytes of the window.
    Window(&'static [u64]),
}

impl Axis {
    fn values(self) -> &'static [u64] {
        match self {
            Axis::Size(values) | Axis::Window(values) => values,
        }
    }

    fn at(self, key: Key, value: u64) -> Key {
        match self {
            Axis::Size(_) => Key { size_bytes: value as u32, ..key },
            Axis::Window(_) => Key { window_bytes: value, ..key },
        }
    }
}

/// Results of several series over an axis.
pub(super) struct Grid {
    axis: Axis,
    rows: Vec<Vec<ResultRow>>,
}

impl Grid {
    /// Measures each series at each value of the axis.
    pub(super) fn measure(
        effort: &Effort,
        axis: Axis,
        series: &[(&Machine, Key)],
    ) -> Result<Grid, PaperError> {
        let points = axis.values().len();
        let rows = each(series.len() * points, |n| {
            let (machine, key) = series[n / points];
            let key = axis.at(key, axis.values()[n % points]);
            measure_row(machine, key, &effort.rule, SEED)
        })?;
        Ok(Grid { axis, rows: rows.chunks(points).map(<[ResultRow]>::to_vec).collect() })
    }

    /// Returns the compared value of a series at a value of the axis: median ns or Gb/s. NaN if the axis has no such value.
    pub(super) fn at(&self, series: usize, value: u64) -> f64 {
        let place = self.axis.values().iter().position(|v| *v == value);
        place.map_or(f64::NAN, |place| self.rows[series][place].value())
    }

    /// Returns the difference of a series to another one in per cent.
    pub(super) fn change(&self, series: usize, to: usize, value: u64) -> f64 {
        percent(self.at(series, value), self.at(to, value))
    }

    /// Returns the latencies of a series in ns at a value of the axis.
    pub(super) fn spread(&self, series: usize, value: u64) -> Spread {
        let row = self.rows[series].iter().zip(self.axis.values()).find(|(_, v)| **v == value);
        match row.map(|(row, _)| row.figures) {
            Some(Figures::Latency(latency)) => latency.ns,
            _ => Spread::default(),
        }
    }

    /// Returns a series as points.
    pub(super) fn points(&self, series: usize) -> Vec<(f64, f64)> {
        self.axis.values().iter().zip(&self.rows[series]).map(|(x, row)| (*x as f64, row.value())).collect()
    }

    /// Returns the values as a table: the axis, the series, and further columns as functions of the axis.
    pub(super) fn table(
        &self,
        title: &str,
        columns: &'static [Column],
        more: &[&dyn Fn(u64) -> f64],
    ) -> Table {
        let rows = self.axis.values().iter().enumerate().map(|(place, x)| {
            let measured = self.rows.iter().map(|series| series[place].value());
            let further = more.iter().map(|of| of(*x));
            let numbers = measured.chain(further).map(|value| Cell::Number(value, 1));
            [Cell::integer(*x as f64)].into_iter().chain(numbers).collect()
        });
        Table { title: title.to_owned(), columns, rows: rows.collect() }
    }

    /// Returns the series as lines, with the heads of their columns.
    pub(super) fn lines(&self, columns: &[Column]) -> Vec<Line> {
        let names = columns.iter().skip(1).map(|column| column.head);
        names.zip(0..self.rows.len()).map(|(name, series)| Line::riser(name, self.points(series))).collect()
    }
}

/// Returns the difference of `value` to `base` in per cent of `base`.
pub(super) fn percent(value: f64, base: f64) -> f64 {
    100.0 * (value / base - 1.0)
}

/// Measures latencies of 64 B on each machine, with their distributions.
pub(super) fn distributions(
    effort: &Effort,
    machines: &[Machine],
    key: Key,
) -> Result<Vec<(Spread, Vec<CdfPoint>)>, PaperError> {
    // Tails need all samples, not only as many as the median needs.
    let rule = crate::suite::Rule { stable_batches: u64::MAX, ..effort.rule };
    let measured = each(machines.len(), |n| measure_distribution(&machines[n], key, &rule, SEED))?;
    let spread = |row: ResultRow| match row.figures {
        Figures::Latency(latency) => latency.ns,
        Figures::Bandwidth(_) => Spread::default(),
    };
    Ok(measured.into_iter().map(|(row, distribution)| (spread(row), distribution)).collect())
}

/// Runs jobs 0 to `count - 1` on all cores. Returns their results in order.
fn each<T: Send>(
    count: usize,
    work: impl Fn(usize) -> Result<T, crate::BenchError> + Sync,
) -> Result<Vec<T>, PaperError> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut results: Vec<Option<T>> = (0..count).map(|_| None).collect();
    jobs::for_each(count, cores, work, |at, result| {
        results[at] = Some(result.map_err(|e| PaperError::Run(e.to_string()))?);
        Ok(())
    })?;
    Ok(results.into_iter().flatten().collect())
}
