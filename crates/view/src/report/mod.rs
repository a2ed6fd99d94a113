// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A report of measurements: one self-contained page with figures and tables, for `riser compare --html`, `riser
//! bench --html` and `riser sweep`.
//!
//! A [`PageContent`] is the content of a page. The page draws it with plotly.js, shows values under the pointer, and has
//! a light and a dark theme. Readers can download its data as CSV and JSON. The element `report` of the page has
//! the data as one JSON object in the layout of [`PageContent`]. This module calculates no values. All text is inserted
//! as text, not as markup.

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

/// The content of a page, from top to bottom.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct PageContent {
    /// Title.
    pub title: String,
    /// Notes on the whole page, one paragraph each.
    pub notes: Vec<String>,
    /// The figures.
    pub figures: Vec<Figure>,
    /// Tables after the figures.
    pub tables: Vec<Table>,
}

/// A table of text and numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Table {
    /// Title.
    pub title: String,
    /// Headings of the columns, with units.
    pub columns: Vec<String>,
    /// Rows with one cell per column. Columns of numbers are aligned to the right.
    pub rows: Vec<Vec<String>>,
    /// True if the table is folded until the reader opens it. Long tables are always folded.
    pub folded: bool,
}

/// A figure: one plot, or several next to each other.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Figure {
    /// Identifier in the page's address and data: letters, digits, hyphens.
    pub key: String,
    /// Title.
    pub title: String,
    /// Description in one paragraph.
    pub text: String,
    /// One line for each missing or replaced value.
    pub notes: Vec<String>,
    /// The plots; empty if all their data is missing.
    pub plots: Vec<Plot>,
    /// Parallel coordinates above the plots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel: Option<Parallel>,
}

/// Parallel coordinates: vertical axes next to each other, and one line across them per row. The page highlights
/// the rows within the ranges that the reader selects on the axes.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Parallel {
    /// The axes, from left to right.
    pub axes: Vec<Coordinate>,
    /// Index of the axis whose values determine the colours of the lines, from 0.
    pub colour: usize,
}

/// An axis of parallel coordinates.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Coordinate {
    /// Quantity and unit.
    pub label: String,
    /// One value per row. For an axis with names, the index into `names`.
    pub values: Vec<f64>,
    /// Names of the values 0, 1 and so on, if the values are not numbers.
    pub names: Vec<String>,
    /// Scale of the axis.
    pub scale: Scale,
}

/// Lines and points over one x axis.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Plot {
    /// Title.
    pub title: String,
    /// The x axis.
    pub x: Axis,
    /// The y axis.
    pub y: Axis,
    /// Series in the order of the legend.
    pub series: Vec<Series>,
}

/// An axis: its quantity and its scale.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Axis {
    /// Quantity and unit.
    pub label: String,
    /// The unit only, for values under the pointer.
    pub unit: String,
    /// Scale of the axis.
    pub scale: Scale,
}

/// Scale of an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Linear, from 0 or a negative value.
    #[default]
    Linear,
    /// Logarithmic, with powers of ten. Only values above 0 are drawn.
    Log,
    /// Logarithmic, in bytes with powers of two: ticks are 4 KiB, 16 KiB, 1 MiB. Only values above 0 are drawn.
    Bytes,
}

/// Style of a series.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SeriesStyle {
    /// A line with small marks at its points.
    #[default]
    Line,
    /// A line without marks, for a continuous curve.
    Curve,
    /// A dashed line without marks, for a target or a closed form.
    Dashed,
    /// Hollow marks without a line, for values to compare with a line.
    Points,
}

/// A series of points.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Style.
    pub look: SeriesStyle,
    /// Index of the colour. The page repeats its colours. Series that belong together have the same index.
    pub colour: usize,
    /// X values, in the unit of the axis.
    pub x: Vec<f64>,
    /// Y values, as many as X values.
    pub y: Vec<f64>,
    /// Bars around the values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bars: Option<Bars>,
}

/// Bars around values, with both ends.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Bars {
    /// Meaning of the bars, such as `minimum to 95th percentile`.
    pub name: String,
    /// Lower ends.
    pub low: Vec<f64>,
    /// Upper ends.
    pub high: Vec<f64>,
}

/// Reason why a report is invalid.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReportError {
    /// The columns of a series have different lengths. Contains its name and the lengths.
    #[error("series {0:?} has columns of {1:?} values: expected equal lengths")]
    Columns(String, Vec<usize>),
    /// A value of the series with this name is not finite.
    #[error("series {0:?} has a value that is not finite")]
    Value(String),
    /// A row of the table with this title does not have one cell per column. Contains its number of cells.
    #[error("table {0:?} has a row of {1} cells: expected as many as its columns")]
    Cells(String, usize),
    /// The key of a figure is empty, is not unique, or has characters other than letters, digits and hyphens.
    #[error("figure key {0:?}: expected a unique key of letters, digits and hyphens")]
    Key(String),
}

impl From<ReportError> for io::Error {
    fn from(error: ReportError) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidInput, error)
    }
}

impl PageContent {
    /// Writes the page. Equal reports give equal bytes.
    ///
    /// # Errors
    /// Errors of `out`. If the report is invalid, a [`ReportError`] as `InvalidInput`, before any byte is written.
    pub fn write(&self, out: impl Write) -> io::Result<()> {
        self.check()?;
        let mut out = BufWriter::new(out);
        SHELL.write_head(&self.title, &mut out)?;
        page::write_data("report", self, &mut out)?;
        page::write_end(&mut out)
    }

    /// Checks that the report is valid.
    ///
    /// # Errors
    /// The first error in the report.
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
