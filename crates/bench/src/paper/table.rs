// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an experiment shows, as data: tables, notes and a chart. Never lays anything out.

use lab::profile::Basis;
use serde::{Serialize, Serializer};

/// The result of an experiment.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Report {
    /// Its name.
    pub experiment: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Paper, and where in it.
    pub source: &'static str,
    /// How the figures of its host profiles are known: as the weakest of them. The notes say what the devices rest on.
    pub basis: Option<Basis>,
    /// Lab files that were varied, relative to the project.
    pub labs: Vec<&'static str>,
    /// The tables.
    pub tables: Vec<Table>,
    /// What is to be known of the figures, a paragraph each.
    pub notes: Vec<String>,
    /// The chart of the same values, where there is one.
    #[serde(skip)]
    pub chart: Option<Chart>,
}

/// A column: its key in JSON, with the unit, and its head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// `latency_ns` and so on.
    pub key: &'static str,
    /// What stands above it.
    pub head: &'static str,
}

/// A table; in JSON an object for each row.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// Its head.
    pub title: String,
    /// Its columns.
    pub columns: &'static [Column],
    /// Its rows, with a cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell.
#[derive(Clone, PartialEq, Debug)]
pub enum Cell {
    /// A number, and how many decimals of it are worth showing.
    Number(f64, usize),
    /// Text.
    Text(String),
    /// No value is known.
    Empty,
}

impl Cell {
    /// A whole number.
    pub(super) fn whole(value: impl Into<f64>) -> Cell {
        Cell::Number(value.into(), 0)
    }

    /// A number, where there is one.
    pub(super) fn maybe(value: Option<f64>, decimals: usize) -> Cell {
        value.map_or(Cell::Empty, |value| Cell::Number(value, decimals))
    }

    /// As text.
    pub fn text(&self) -> String {
        match self {
            Cell::Number(value, decimals) => format!("{value:.decimals$}"),
            Cell::Text(text) => text.clone(),
            Cell::Empty => "-".to_owned(),
        }
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Cell::Number(value, _) => serializer.serialize_f64(*value),
            Cell::Text(text) => serializer.serialize_str(text),
            Cell::Empty => serializer.serialize_none(),
        }
    }
}

/// A row by the keys of its columns.
struct Row<'a>(&'a [Column], &'a [Cell]);

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().zip(self.1).map(|(column, cell)| (column.key, cell)))
    }
}

impl Serialize for Table {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Named<'a> {
            title: &'a str,
            rows: Vec<Row<'a>>,
        }
        let rows = self.rows.iter().map(|row| Row(self.columns, row)).collect();
        Named { title: &self.title, rows }.serialize(serializer)
    }
}

/// Lines over one axis.
#[derive(Clone, PartialEq, Debug)]
pub struct Chart {
    /// Across, with the unit.
    pub x: &'static str,
    /// Upward, with the unit.
    pub y: &'static str,
    /// The lines.
    pub lines: Vec<Line>,
}

/// A line of a chart.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// What it is called.
    pub name: String,
    /// True for figures of the paper.
    pub paper: bool,
    /// Its points by rising x.
    pub points: Vec<(f64, f64)>,
}

impl Line {
    /// A line of results.
    pub(super) fn riser(name: impl Into<String>, points: Vec<(f64, f64)>) -> Line {
        Line { name: name.into(), paper: false, points }
    }

    /// A line of the paper's.
    pub(super) fn paper(name: impl Into<String>, points: Vec<(f64, f64)>) -> Line {
        Line { name: name.into(), paper: true, points }
    }
}

/// The straight line of least squares through `points`: slope, and value at zero. `None` for fewer than two places.
pub(super) fn fit(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let spread: f64 = points.iter().map(|p| (p.0 - x) * (p.0 - x)).sum();
    let together: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    (spread > 0.0).then(|| (together / spread, y - together / spread * x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fit_finds_a_line_and_needs_two_places() {
        assert_eq!(fit(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]), Some((2.0, 1.0)));
        assert_eq!(fit(&[(1.0, 1.0), (1.0, 3.0)]), None);
        assert_eq!(fit(&[]), None);
    }
}
