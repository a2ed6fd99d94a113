// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Charts and pages of experiments, drawn by `riser-view`.

use super::{Cell, ExperimentReport, Line, Table, summary};
use crate::BenchError;
use view::figure::{
    Axis, Collection, FigureError, FigurePage, LineChart, PageTable, Section, Series, Stroke,
};

impl ExperimentReport {
    /// Returns the chart as SVG. The paper's lines are dashed.
    ///
    /// # Errors
    /// The experiment has only tables.
    pub fn svg(&self) -> Result<String, BenchError> {
        chart(self)?.svg().map_err(failed)
    }

    /// Returns a page with the verdict, the chart, the notes, the first table, and the comparison with the paper.
    ///
    /// # Errors
    /// The experiment has only tables.
    pub fn html(&self) -> Result<String, BenchError> {
        let tables = self.tables.first().into_iter().map(table).chain(compared(self)).collect();
        let page = FigurePage { lead: self.line(), chart: chart(self)?, notes: notes(self), tables };
        page.html().map_err(failed)
    }
}

/// Returns a page with all reports. Each has its verdict, chart, notes, comparison with the paper, and tables.
///
/// # Errors
/// A chart that cannot be drawn.
pub fn html_of_all(reports: &[ExperimentReport]) -> Result<String, BenchError> {
    let section = |report: &ExperimentReport| {
        Ok(Section {
            name: report.experiment.to_owned(),
            title: format!("{} ({})", report.title, report.source),
            lead: report.line(),
            chart: report.chart.as_ref().map(|_| chart(report)).transpose()?,
            notes: notes(report),
            tables: compared(report).chain(report.tables.iter().map(table)).collect(),
        })
    };
    let sections = reports.iter().map(section).collect::<Result<_, BenchError>>()?;
    let title = "Published figures, repeated by riser".to_owned();
    Collection { title, lead: summary(reports), sections }.html().map_err(failed)
}

fn failed(error: FigureError) -> BenchError {
    error.to_string().into()
}

fn chart(report: &ExperimentReport) -> Result<LineChart, BenchError> {
    let nothing = || {
        BenchError::Run(format!(
            "{}: cannot be drawn: the experiment has only tables; --json prints them",
            report.experiment
        ))
    };
    let chart = report.chart.as_ref().ok_or_else(nothing)?;
    let points = || chart.lines.iter().flat_map(|line| &line.points);
    let (first, last) = ends(points().map(|p| p.0));
    let (_, most) = ends(points().map(|p| p.1));
    Ok(LineChart {
        title: format!("{}{}", report.title[..1].to_uppercase(), &report.title[1..]),
        subtitle: report.source.to_owned(),
        x: Axis { label: chart.x.to_owned(), from: first, to: if last > first { last } else { first + 1.0 } },
        y: Axis { label: chart.y.to_owned(), from: 0.0, to: if most > 0.0 { most * 1.1 } else { 1.0 } },
        series: chart.lines.iter().map(series).collect(),
    })
}

fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let ends = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), v| (min.min(v), max.max(v)));
    if ends.0.is_finite() { ends } else { (0.0, 1.0) }
}

fn series(line: &Line) -> Series {
    let stroke = if line.paper { Stroke::Dashed } else { Stroke::Solid };
    Series { name: line.name.clone(), points: line.points.clone(), stroke }
}

fn notes(report: &ExperimentReport) -> Vec<String> {
    let basis = report.basis.map(|basis| format!("Basis of the hosts' figures: {}.", basis.name()));
    basis.into_iter().chain(report.notes.clone()).collect()
}

/// Comparison with the paper, as tables.
fn compared(report: &ExperimentReport) -> impl Iterator<Item = PageTable> {
    report.verdict.tables().into_iter().map(|of| table(&of))
}

fn table(of: &Table) -> PageTable {
    let row = |row: &Vec<Cell>| row.iter().map(|cell| cell.text()).collect();
    PageTable {
        columns: of.columns.iter().map(|c| c.head.to_owned()).collect(),
        rows: of.rows.iter().map(row).collect(),
    }
}
