// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Charts of `riser model nic`: passes its curves to `riser-view`.

use model::nic::{Kind, Question, Series};
use view::figure::{Axis, FigurePage, LineChart, PageTable, Stroke};

/// The vertical axis ends at a multiple of this.
const GBPS_STEP: f64 = 10.0;

/// Chart of all curves.
pub(super) fn chart(question: &Question, series: &[Series]) -> LineChart {
    let points = || series.iter().flat_map(|s| &s.points);
    let most = points().map(|p| p.gbps()).fold(0.0, f64::max);
    let last = points().map(|p| p.size_bytes()).max().unwrap_or(1);
    let one_way = match question.packeting {
        model::Packeting::Both => "each way, both ways at once",
        model::Packeting::Tx => "sent",
        model::Packeting::Rx => "received",
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

/// Page with the chart; `table` has the sizes to list as numbers.
pub(super) fn page(
    question: &Question,
    drawn: &[Series],
    table: &[Series],
    notes: Vec<String>,
) -> FigurePage {
    let tables = vec![PageTable { columns: columns(table), rows: rows(table) }];
    FigurePage { lead: None, chart: chart(question, drawn), notes, tables }
}

/// Headings of a table: the size, then each curve.
pub(super) fn columns(series: &[Series]) -> Vec<String> {
    std::iter::once("size B".to_owned()).chain(series.iter().map(|s| s.title.clone())).collect()
}

/// One row for each size, in Gb/s.
pub(super) fn rows(series: &[Series]) -> Vec<Vec<String>> {
    let sizes = series.first().map_or(&[][..], |s| &s.points);
    let row = |(at, size): (usize, &model::nic::Point)| {
        let gbps =
            series.iter().map(|s| s.points.get(at).map_or(String::new(), |p| format!("{:.3}", p.gbps())));
        std::iter::once(size.size_bytes().to_string()).chain(gbps).collect()
    };
    sizes.iter().enumerate().map(row).collect()
}
