// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of results: their figures, as `riser-view` draws them.

use super::{Figure, Line, Plot, Quantity, Role};
use crate::results::ResultSet;
use view::report::{self, Axis, Bars, PageContent, Scale, Series, SeriesStyle, Table};

/// Returns the page with the figures of the results `run`. If there is a `reference`, its results appear as points, with its name in the legends.
pub fn page(
    title: &str,
    notes: Vec<String>,
    tables: Vec<Table>,
    run: &ResultSet,
    reference: Option<(&str, &ResultSet)>,
) -> PageContent {
    let mut figures = super::figures(run, reference);
    // Figures without results of this run, such as closed forms, come last.
    figures.sort_by_key(|figure| !figure.shows_results());
    let figures = figures.into_iter().map(figure).collect();
    PageContent { title: title.to_owned(), notes, tables, figures }
}

fn figure(figure: Figure) -> report::Figure {
    report::Figure {
        key: figure.key.to_owned(),
        title: figure.title.to_owned(),
        text: figure.text.to_owned(),
        notes: figure.notes,
        plots: figure.plots.into_iter().map(plot).collect(),
        parallel: None,
    }
}

fn plot(plot: Plot) -> report::Plot {
    report::Plot {
        title: plot.title,
        x: axis(plot.x),
        y: axis(plot.y),
        series: plot.lines.into_iter().map(series).collect(),
    }
}

fn axis(quantity: Quantity) -> Axis {
    let (label, unit, scale) = match quantity {
        Quantity::PacketBytes => ("Packet size, B", "B", Scale::Linear),
        Quantity::TransferBytes => ("Transfer size, B", "B", Scale::Linear),
        Quantity::WindowBytes => ("Window of host memory", "", Scale::Bytes),
        Quantity::LatencyNs => ("Latency, ns", "ns", Scale::Linear),
        Quantity::LatencyTailNs => ("Latency, ns", "ns", Scale::Log),
        Quantity::BandwidthGbps => ("Bandwidth, Gb/s", "Gb/s", Scale::Linear),
        Quantity::ChangePercent => ("Change of bandwidth, %", "%", Scale::Linear),
        Quantity::DifferencePercent => ("Difference, %", "%", Scale::Linear),
        Quantity::Setting(column) => (column, "", Scale::Linear),
        Quantity::Share => ("Share of samples", "", Scale::Linear),
    };
    Axis { label: label.to_owned(), unit: unit.to_owned(), scale }
}

fn series(line: Line) -> Series {
    let column = |of: fn(&super::Point) -> f64| line.points.iter().map(of).collect();
    let has_bars = !line.points.is_empty() && line.points.iter().all(|p| p.range.is_some());
    let bars = has_bars.then(|| Bars {
        name: "minimum to 95th percentile".to_owned(),
        low: column(|p| p.range.map_or(p.y, |(low, _)| low)),
        high: column(|p| p.range.map_or(p.y, |(_, high)| high)),
    });
    Series {
        look: match line.role {
            Role::Run => SeriesStyle::Line,
            Role::Distribution | Role::Model => SeriesStyle::Curve,
            Role::Reference => SeriesStyle::Points,
            Role::Mark => SeriesStyle::Dashed,
        },
        colour: line.group,
        x: column(|p| p.x),
        y: column(|p| p.y),
        bars,
        name: line.name,
    }
}
