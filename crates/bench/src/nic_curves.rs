// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Curves of NICs over a link, from [`model::nic`]: as text, as comma-separated values, as a chart and as a page.

use crate::BenchError;
use model::Packeting;
use model::nic::{Kind, Point, Question, Series};
use session::table::numbers;
use std::fmt::{Display, Formatter};
use view::figure::{Axis, FigureError, FigurePage, LineChart, PageTable, Stroke};

/// The vertical axis ends at a multiple of this.
const GBPS_STEP: f64 = 10.0;

/// Curves with the question that they answer.
pub struct NicCurves<'a> {
    /// The question.
    pub question: &'a Question,
    /// The curves, with a point for each size.
    pub series: &'a [Series],
}

impl NicCurves<'_> {
    /// Returns the curves as an SVG picture.
    ///
    /// # Errors
    /// Too many curves.
    pub fn svg(&self) -> Result<String, FigureError> {
        chart(self.question, self.series).svg()
    }

    /// Returns a page with the curves; `table` has the sizes to list as numbers.
    ///
    /// # Errors
    /// Too many curves.
    pub fn html(&self, table: &[Series]) -> Result<String, FigureError> {
        let tables = vec![PageTable { columns: columns(table), rows: rows(table) }];
        let notes = NicCurves { series: table, ..*self }.notes();
        FigurePage { lead: None, chart: chart(self.question, self.series), notes, tables }.html()
    }

    /// Returns one row for each size. Each row repeats the setup, because rows are copied without their heading.
    ///
    /// # Errors
    /// An error of the writer, which writes to memory.
    pub fn csv(&self) -> Result<String, BenchError> {
        let Question { params, form, .. } = self.question;
        let mut csv = csv::Writer::from_writer(Vec::new());
        let names = self.series.iter().map(|s| format!("{}_gbps", s.name));
        let head =
            ["form", "basis", "gen", "lanes", "size_bytes"].map(str::to_owned).into_iter().chain(names);
        let (generation, lanes) = (params.rate.generation().to_string(), params.width.lanes().to_string());
        let link = [form.name().to_owned(), self.question.basis().text().to_owned(), generation, lanes];
        let rows = rows(self.series).into_iter().map(|row| link.iter().cloned().chain(row).collect());
        let failed = |e: csv::Error| BenchError::Run(e.to_string());
        std::iter::once(head.collect::<Vec<_>>())
            .chain(rows)
            .try_for_each(|row| csv.write_record(row))
            .map_err(failed)?;
        let bytes = csv.into_inner().map_err(|e| BenchError::Run(e.to_string()))?;
        Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    }

    /// Notes, and the packet size from which each device reaches line rate.
    fn notes(&self) -> Vec<String> {
        let line_rates = self.series.iter().filter_map(|s| s.line_rate(self.question.ethernet_gbps));
        self.question.notes().into_iter().chain(line_rates).collect()
    }
}

impl Display for NicCurves<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Question { params, form, .. } = self.question;
        let basis = self.question.basis().text();
        writeln!(f, "{}: {}; Gb/s of packets; basis: {basis}", form.name(), params.describe())?;
        let columns = columns(self.series);
        let heads: Vec<&str> = columns.iter().map(String::as_str).collect();
        write!(f, "{}\n\n{}", numbers(&heads, rows(self.series)), self.notes().join("\n"))
    }
}

/// Returns the chart of all curves.
fn chart(question: &Question, series: &[Series]) -> LineChart {
    let points = || series.iter().flat_map(|s| &s.points);
    let most = points().map(|p| p.gbps()).fold(0.0, f64::max);
    let last = points().map(|p| p.size_bytes()).max().unwrap_or(1);
    let one_way = match question.packeting {
        Packeting::Both => "each way, both ways at once",
        Packeting::Tx => "sent",
        Packeting::Rx => "received",
    };
    LineChart {
        title: "Modelled throughput of a PCIe link and of NICs on it".to_owned(),
        subtitle: format!(
            "{}; {}; basis: {}",
            question.params.describe(),
            question.form.name(),
            question.basis().text()
        ),
        x: Axis { label: "packet size (B)".to_owned(), from: 0.0, to: f64::from(last) },
        y: Axis {
            label: format!("packets {one_way} (Gb/s)"),
            from: 0.0,
            to: ((most / GBPS_STEP).floor() + 1.0) * GBPS_STEP,
        },
        series: series.iter().map(line).collect(),
    }
}

fn line(series: &Series) -> view::figure::Series {
    view::figure::Series {
        name: series.title.clone(),
        points: series.points.iter().map(|p| (f64::from(p.size_bytes()), p.gbps())).collect(),
        stroke: if series.kind == Kind::Ethernet { Stroke::Dashed } else { Stroke::Solid },
    }
}

/// Headings of a table: the size, then each curve.
fn columns(series: &[Series]) -> Vec<String> {
    std::iter::once("size B".to_owned()).chain(series.iter().map(|s| s.title.clone())).collect()
}

/// One row for each size, in Gb/s.
fn rows(series: &[Series]) -> Vec<Vec<String>> {
    let sizes = series.first().map_or(&[][..], |s| &s.points);
    let row = |(at, size): (usize, &Point)| {
        let gbps =
            series.iter().map(|s| s.points.get(at).map_or(String::new(), |p| format!("{:.3}", p.gbps())));
        std::iter::once(size.size_bytes().to_string()).chain(gbps).collect()
    };
    sizes.iter().enumerate().map(row).collect()
}
