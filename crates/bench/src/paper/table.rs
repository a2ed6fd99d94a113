// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables and charts of an experiment as data, without layout.

use serde::{Serialize, Serializer};

/// A column: its key in JSON, with the unit, and its head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// Key in JSON, such as `latency_ns`.
    pub key: &'static str,
    /// Head of the column.
    pub head: &'static str,
}

/// A table; in JSON an object for each row.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// Title of the table.
    pub title: String,
    /// Its columns.
    pub columns: &'static [Column],
    /// Its rows, with a cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell.
#[derive(Clone, PartialEq, Debug)]
pub enum Cell {
    /// A number, and its significant decimals.
    Number(f64, usize),
    /// Text.
    Text(String),
    /// No known value.
    Empty,
}

impl Cell {
    /// Returns a cell with a whole number.
    pub(super) fn integer(value: impl Into<f64>) -> Cell {
        Cell::Number(value.into(), 0)
    }

    /// Returns a cell with the number, or an empty one.
    pub(super) fn optional(value: Option<f64>, decimals: usize) -> Cell {
        value.map_or(Cell::Empty, |value| Cell::Number(value, decimals))
    }

    /// Returns the cell as text.
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

/// A row that serializes by the keys of its columns.
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
    /// Label of the x axis, with the unit.
    pub x: &'static str,
    /// Label of the y axis, with the unit.
    pub y: &'static str,
    /// The lines.
    pub lines: Vec<Line>,
}

/// A line of a chart.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// Name in the legend.
    pub name: String,
    /// True for the paper's figures.
    pub paper: bool,
    /// Points by increasing x.
    pub points: Vec<(f64, f64)>,
}

impl Line {
    /// Returns a line of simulated results.
    pub(super) fn riser(name: impl Into<String>, points: Vec<(f64, f64)>) -> Line {
        Line { name: name.into(), paper: false, points }
    }

    /// Returns a line of the paper.
    pub(super) fn paper(name: impl Into<String>, points: Vec<(f64, f64)>) -> Line {
        Line { name: name.into(), paper: true, points }
    }
}

/// Returns the least-squares line through `points`: slope, and value at zero. `None` for fewer than two different x.
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
    fn line_fit_needs_two_different_x() {
        assert_eq!(fit(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]), Some((2.0, 1.0)));
        assert_eq!(fit(&[(1.0, 1.0), (1.0, 3.0)]), None);
        assert_eq!(fit(&[]), None);
    }
}
