// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A report of measurements as one self-contained page: figures and tables, `riser compare --html`, `riser bench --html` and
//! `riser sweep`.
//!
//! A [`Report`] says what is to be seen; the page draws it with plotly.js, shows the values under the pointer, follows the
//! light or dark theme, and hands out its data as CSV and JSON. The data stand in the page as one JSON object, in the
//! layout of [`Report`], under the id `report`. Never computes a value of its own; text reaches the page as text.

use crate::page::{self, Shell};
use serde::Serialize;
use std::io::{self, BufWriter, Write};

pub(crate) const SHELL: Shell = Shell {
    command: "report",
    markup: include_str!("report.html"),
    style: include_str!("report.css"),
    scripts: &[
        include_str!("plots.js"),
        include_str!("parallel.js"),
        include_str!("data.js"),
        include_str!("app.js"),
    ],
};

/// What a page shows, from above.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Report {
    /// The head.
    pub title: String,
    /// What is to be known of all of it, a paragraph each.
    pub notes: Vec<String>,
    /// The figures.
    pub figures: Vec<Figure>,
    /// Tables behind the figures.
    pub tables: Vec<Table>,
}

/// A table of text and numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Table {
    /// Its head.
    pub title: String,
    /// Heads of the columns, with units.
    pub columns: Vec<String>,
    /// Rows with a cell for each column. Columns of numbers stand to the right.
    pub rows: Vec<Vec<String>>,
    /// Whether it is shown only when asked for; a long one always is.
    pub folded: bool,
}

/// A figure: one plot or several side by side.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Figure {
    /// What names it in the page's address and in the data: letters, digits, hyphens.
    pub key: String,
    /// Its head.
    pub title: String,
    /// What it shows, a paragraph.
    pub text: String,
    /// What it lacks or replaces, a line each.
    pub notes: Vec<String>,
    /// Its plots; none where all that they need is missing.
    pub plots: Vec<Plot>,
    /// Its parallel coordinates, above its plots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel: Option<Parallel>,
}

/// Parallel coordinates: axes side by side, and a line across them for each row. The page shows those within what is chosen on each axis.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Parallel {
    /// The axes, from left to right.
    pub axes: Vec<Coordinate>,
    /// The axis by which lines are coloured, from 0.
    pub colour: usize,
}

/// An axis of parallel coordinates.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Coordinate {
    /// What it counts, with the unit.
    pub label: String,
    /// A value for each row; of one that has names, the number of its name.
    pub values: Vec<f64>,
    /// Names of the values 0, 1 and so on, where they are no numbers.
    pub names: Vec<String>,
    /// How it is divided.
    pub scale: Scale,
}

/// Lines and points over one x axis.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Plot {
    /// Its head.
    pub title: String,
    /// Across.
    pub x: Axis,
    /// Upward.
    pub y: Axis,
    /// First to last in the legend.
    pub series: Vec<Series>,
}

/// An axis: what it counts and how it is divided.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Axis {
    /// What it counts, with the unit.
    pub label: String,
    /// The unit alone, as it stands behind values under the pointer.
    pub unit: String,
    /// How it is divided.
    pub scale: Scale,
}

/// How an axis is divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Evenly, from 0 or from below it.
    #[default]
    Linear,
    /// By powers of ten; what is not above 0 is not drawn.
    Log,
    /// Bytes by powers of two: ticks are 4 KiB, 16 KiB, 1 MiB; what is not above 0 is not drawn.
    Bytes,
}

/// How a series looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Look {
    /// A line with small marks at its points.
    #[default]
    Line,
    /// A line without marks: what has a value everywhere.
    Curve,
    /// A dashed line without marks: a mark to reach, a closed form.
    Dashed,
    /// Hollow marks without a line: what stands over a line to compare with.
    Points,
}

/// Points of one kind.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Series {
    /// What the legend calls it.
    pub name: String,
    /// How it looks.
    pub look: Look,
    /// Which of the page's colours it has, by turns: series that belong together share one.
    pub colour: usize,
    /// Its places across, in the axis' unit.
    pub x: Vec<f64>,
    /// As many values upward.
    pub y: Vec<f64>,
    /// Ends of bars around the values, where it has bars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bars: Option<Bars>,
}

/// Bars around values: where each begins and ends.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Bars {
    /// What they are, such as `minimum to 95th percentile`.
    pub name: String,
    /// Lower ends.
    pub low: Vec<f64>,
    /// Upper ends.
    pub high: Vec<f64>,
}

/// Why a report cannot be shown.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReportError {
    /// A series by name, and its columns' lengths: legal are equal ones.
    #[error("series {0:?} has columns of {1:?} values: legal are equal lengths")]
    Columns(String, Vec<usize>),
    /// A series by name with a value that is no finite number.
    #[error("series {0:?} has a value that is no finite number")]
    Value(String),
    /// A table by title with a row of so many cells: legal are as many as columns.
    #[error("table {0:?} has a row of {1} cells: legal are as many as its columns")]
    Cells(String, usize),
    /// A key that is empty or given twice, or has other signs: legal are letters, digits and hyphens.
    #[error("figure key {0:?}: legal are letters, digits and hyphens, each key once")]
    Key(String),
}

impl From<ReportError> for io::Error {
    fn from(error: ReportError) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidInput, error)
    }
}

impl Report {
    /// Writes the page. The same report is the same bytes.
    ///
    /// # Errors
    /// Those of `out`; a [`ReportError`] as `InvalidInput`, before a byte is written.
    pub fn write(&self, out: impl Write) -> io::Result<()> {
        self.check()?;
        let mut out = BufWriter::new(out);
        SHELL.write_head(&self.title, &mut out)?;
        page::write_data("report", self, &mut out)?;
        page::write_end(&mut out)
    }

    /// Whether it can be shown.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn check(&self) -> Result<(), ReportError> {
        for table in &self.tables {
            if let Some(row) = table.rows.iter().find(|row| row.len() != table.columns.len()) {
                return Err(ReportError::Cells(table.title.clone(), row.len()));
            }
        }
        for (at, figure) in self.figures.iter().enumerate() {
            let legal = figure.key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
            let twice = self.figures[..at].iter().any(|other| other.key == figure.key);
            if figure.key.is_empty() || !legal || twice {
                return Err(ReportError::Key(figure.key.clone()));
            }
        }
        let coordinates = self.figures.iter().filter_map(|f| f.parallel.as_ref());
        coordinates.into_iter().try_for_each(Parallel::check)?;
        let series = self.figures.iter().flat_map(|f| &f.plots).flat_map(|p| &p.series);
        series.into_iter().try_for_each(Series::check)
    }
}

impl Parallel {
    fn check(&self) -> Result<(), ReportError> {
        let lengths: Vec<usize> = self.axes.iter().map(|axis| axis.values.len()).collect();
        if let Some(axis) = self.axes.iter().find(|axis| axis.values.len() != lengths[0]) {
            return Err(ReportError::Columns(axis.label.clone(), lengths));
        }
        let named =
            |axis: &Coordinate, value: f64| axis.names.is_empty() || (value as usize) < axis.names.len();
        let is_bad = |axis: &&Coordinate| axis.values.iter().any(|v| !v.is_finite() || !named(axis, *v));
        match self.axes.iter().find(is_bad) {
            Some(axis) => Err(ReportError::Value(axis.label.clone())),
            None => Ok(()),
        }
    }
}

impl Series {
    fn columns(&self) -> Vec<&[f64]> {
        let bars = self.bars.iter().flat_map(|bars| [&bars.low[..], &bars.high[..]]);
        [&self.x[..], &self.y[..]].into_iter().chain(bars).collect()
    }

    fn check(&self) -> Result<(), ReportError> {
        let columns = self.columns();
        if columns.iter().any(|column| column.len() != self.x.len()) {
            let lengths = columns.iter().map(|column| column.len()).collect();
            return Err(ReportError::Columns(self.name.clone(), lengths));
        }
        match columns.iter().all(|column| column.iter().all(|value| value.is_finite())) {
            true => Ok(()),
            false => Err(ReportError::Value(self.name.clone())),
        }
    }
}
