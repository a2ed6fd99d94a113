// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of a sweep, which `riser-view` renders from the sweep's figures.

use crate::figures::{Dimension, Figures};
use crate::results::{Values, columns};
use crate::run::RunningSweep;
use plug::counted;
use plug::profile::Basis;
use std::collections::BTreeMap;
use view::report::{
    Axis, Bars, Coordinate, Figure, PageContent, Parallel, Plot, Scale, Series, SeriesStyle, Table,
};

/// Maximum number of metrics with figures of responses.
const MAX_METRICS: usize = 6;
/// Most rows of the table of points. The Parquet file has all of them.
const MAX_ROWS: usize = 1_000;

/// Returns the page of a sweep: parallel coordinates, Pareto fronts, the response to each parameter, and the
/// points.
pub fn report(run: &RunningSweep<'_>) -> PageContent {
    let figures = Figures::of(run);
    PageContent {
        title: run.sweep().file().path.display().to_string(),
        notes: notes(run, &figures),
        figures: all(&figures),
        tables: tables(run, &figures),
    }
}

fn notes(run: &RunningSweep<'_>, figures: &Figures) -> Vec<String> {
    let progress = run.progress();
    let lab = run.sweep().lab().path.display();
    let mut notes = vec![format!(
        "{} of {lab}, {} of them not finished.",
        counted(progress.points, "point"),
        progress.failed
    )];
    notes.extend(basis(run).map(|basis| format!("Basis of the metrics: {basis}.")));
    notes.extend(run.warnings().into_iter().map(|line| format!("Warning: {line}.")));
    if figures.without > 0 {
        notes.push(format!(
            "{} points that did not finish or lack a metric are not in the figures.",
            figures.without
        ));
    }
    if figures.beyond > 0 {
        notes.push(format!(
            "{} points, evenly chosen and not among the best, are left out of the figures.",
            figures.beyond
        ));
    }
    notes
}

/// Returns the basis of the profile figures that the metrics depend on, with the number of points for each
/// basis if they differ.
fn basis(run: &RunningSweep<'_>) -> Option<String> {
    let mut counts: BTreeMap<Basis, u64> = BTreeMap::new();
    for basis in run.records().iter().flatten().filter_map(|record| record.basis) {
        *counts.entry(basis).or_default() += 1;
    }
    match counts.len() {
        0 | 1 => counts.into_keys().next().map(|basis| basis.name().to_owned()),
        _ => {
            let of =
                |(basis, points): (Basis, u64)| format!("{} in {}", basis.name(), counted(points, "point"));
            Some(counts.into_iter().map(of).collect::<Vec<_>>().join(", "))
        }
    }
}

fn all(figures: &Figures) -> Vec<Figure> {
    if figures.points.is_empty() {
        return Vec::new();
    }
    let aims = figures.metrics.iter().filter(|metric| metric.aim.is_some()).count();
    let mut all = vec![parallel(figures)];
    all.extend((aims > 1).then(|| pareto(figures)));
    let shown = figures.metrics.iter().enumerate().take(MAX_METRICS);
    all.extend(shown.map(|(n, metric)| responses(figures, n, metric)));
    all
}

fn parallel(figures: &Figures) -> Figure {
    let coordinate = |of: &Dimension| Coordinate {
        label: labelled(of),
        values: of.values.clone(),
        names: of.names.clone(),
        scale: scale(of),
    };
    let axes: Vec<Coordinate> = figures.settings.iter().chain(&figures.metrics).map(coordinate).collect();
    let aim = figures.metrics.iter().position(|metric| metric.aim.is_some()).unwrap_or(0);
    Figure {
        key: "parallel".into(),
        title: "All points: settings and metrics side by side".into(),
        text: "Each line is a point of the sweep.".into(),
        parallel: Some(Parallel {
            axes,
            colour: (figures.settings.len() + aim).min(figures.settings.len() + figures.metrics.len() - 1),
        }),
        ..Figure::default()
    }
}

/// Plots pairs of aims: feasible points, other points, and the Pareto front.
fn pareto(figures: &Figures) -> Figure {
    let aims: Vec<&Dimension> = figures.metrics.iter().filter(|metric| metric.aim.is_some()).collect();
    let pairs = (0..aims.len()).flat_map(|a| (a + 1..aims.len()).map(move |b| (a, b))).take(6);
    let plot = |(a, b): (usize, usize)| {
        let (x, y) = (aims[a], aims[b]);
        let front = &figures.front;
        let of = |name: &str, look, colour, is: &dyn Fn(usize) -> bool| {
            let mut rows: Vec<usize> = (0..x.values.len()).filter(|row| is(*row)).collect();
            rows.sort_by(|m, n| x.values[*m].total_cmp(&x.values[*n]));
            let column = |of: &Dimension| rows.iter().map(|row| of.values[*row]).collect();
            Series { name: name.into(), look, colour, x: column(x), y: column(y), bars: None }
        };
        let look = if aims.len() == 2 { SeriesStyle::Line } else { SeriesStyle::Points };
        let series = vec![
            of("not feasible", SeriesStyle::Points, 5, &|row| !figures.feasible[row]),
            of("feasible", SeriesStyle::Points, 0, &|row| figures.feasible[row] && !front.contains(&row)),
            of("Pareto front", look, 1, &|row| front.contains(&row)),
        ];
        let series = series.into_iter().filter(|series| !series.x.is_empty()).collect();
        Plot { title: format!("{} over {}", y.name, x.name), x: axis(x), y: axis(y), series }
    };
    Figure {
        key: "pareto".into(),
        title: "Pareto front: no other point is better in all aims".into(),
        text: "Feasible points are within all bounds of the metrics.".into(),
        plots: pairs.map(plot).collect(),
        ..Figure::default()
    }
}

fn responses(figures: &Figures, n: usize, metric: &Dimension) -> Figure {
    let plot = |(at, setting): (usize, &Dimension)| {
        let response = figures.response(at, n);
        let bars = Bars { name: "minimum to maximum".into(), low: response.least, high: response.greatest };
        let (x, y) = (response.at, response.median);
        let series =
            Series { name: "median".into(), look: SeriesStyle::Line, colour: n, x, y, bars: Some(bars) };
        let mut across = axis(setting);
        if !setting.names.is_empty() {
            let names: Vec<String> =
                setting.names.iter().enumerate().map(|(n, name)| format!("{n}: {name}")).collect();
            across.label = format!("{} ({})", setting.name, names.join(", "));
        }
        Plot { title: setting.name.clone(), x: across, y: axis(metric), series: vec![series] }
    };
    Figure {
        key: format!("response-{n}"),
        title: format!("{}: response to each parameter", metric.name),
        text: "Medians over all other settings; bars from minimum to maximum.".into(),
        plots: figures.settings.iter().enumerate().map(plot).collect(),
        ..Figure::default()
    }
}

fn labelled(of: &Dimension) -> String {
    if of.unit.is_empty() { of.name.clone() } else { format!("{}, {}", of.name, of.unit) }
}

fn scale(of: &Dimension) -> Scale {
    match of.log {
        true if of.name.ends_with("bytes") => Scale::Bytes,
        true => Scale::Log,
        false => Scale::Linear,
    }
}

fn axis(of: &Dimension) -> Axis {
    Axis { label: labelled(of), unit: of.unit.clone(), scale: scale(of) }
}

fn tables(run: &RunningSweep<'_>, figures: &Figures) -> Vec<Table> {
    let columns = columns(run);
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    let numbers: Vec<u64> = run.records().iter().flatten().map(|record| record.point).collect();
    let row = |at: usize| columns.iter().map(|column| cell(&column.values, at)).collect();
    let best = figures.front.iter().filter_map(|row| numbers.binary_search(&figures.points[*row]).ok());
    let best = Table {
        title: "Best points".into(),
        columns: names.clone(),
        rows: best.map(row).collect(),
        folded: false,
    };
    let all = numbers.len().min(MAX_ROWS);
    let title = if all < numbers.len() { format!("The first {all} points") } else { "All points".into() };
    let all = Table { title, columns: names, rows: (0..all).map(row).collect(), folded: true };
    [best, all].into_iter().filter(|table| !table.rows.is_empty()).collect()
}

fn cell(values: &Values, at: usize) -> String {
    let text = match values {
        Values::Boolean(all) => all[at].map(|is| is.to_string()),
        Values::Integer(all) => all[at].map(|n| n.to_string()),
        Values::Float(all) => all[at].map(|x| x.to_string()),
        Values::Text(all) => all[at].clone(),
    };
    text.unwrap_or_default()
}
