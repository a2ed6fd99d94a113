// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Charts and pages of `riser paper`: passes the result of an experiment to `riser-view`.

use crate::failure::Failure;
use bench::paper::{Line, Report};
use view::figure::{Axis, FigurePage, LineChart, Series, Stroke};

/// Chart of an experiment. The paper's lines are dashed.
pub(super) fn chart(report: &Report) -> Result<LineChart, Failure> {
    let nothing = || {
        Failure::Run(format!(
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

/// Page with the chart, the notes, and the first table.
pub(super) fn page(report: &Report) -> Result<FigurePage, Failure> {
    let table = report.tables.first();
    let columns = table.map_or(Vec::new(), |t| t.columns.iter().map(|c| c.head.to_owned()).collect());
    let rows = table.map_or(Vec::new(), |t| {
        t.rows.iter().map(|row| row.iter().map(|cell| cell.text()).collect()).collect()
    });
    let basis = report.basis.map(|basis| format!("Basis of the hosts' figures: {}.", basis.name()));
    let notes = basis.into_iter().chain(report.notes.clone()).collect();
    Ok(FigurePage { chart: chart(report)?, notes, columns, rows })
}
