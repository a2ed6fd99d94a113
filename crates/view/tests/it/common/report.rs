// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A small report that uses all features.

use riser_view::report::{Axis, Bars, Figure, PageContent, Plot, Scale, Series, SeriesStyle, Table};

/// Returns the page of a report.
pub(crate) fn text_of(report: &PageContent) -> String {
    let mut out = Vec::new();
    report.write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn texts(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|&cell| cell.to_owned()).collect()
}

fn axis(label: &str, unit: &str, scale: Scale) -> Axis {
    Axis { label: label.to_owned(), unit: unit.to_owned(), scale }
}

/// Returns a report with three figures: one with bars, points and a byte scale, one with a long tail, and one without
/// data.
pub(crate) fn report() -> PageContent {
    let cold = Series {
        name: "cold".into(),
        look: SeriesStyle::Line,
        colour: 0,
        x: vec![4096.0, 65536.0, 1572864.0],
        y: vec![493.25, 500.0, 560.0],
        bars: Some(Bars {
            name: "minimum to 95th percentile".into(),
            low: vec![480.0, 480.0, 540.5],
            high: vec![506.0, 520.0, 600.0],
        }),
    };
    let warm = Series {
        name: "<b>warm".into(),
        look: SeriesStyle::Points,
        colour: 1,
        x: cold.x.clone(),
        y: vec![430.0, 433.0, 440.0],
        bars: None,
    };
    let tail = Series {
        name: "E3, \"tail\"".into(),
        look: SeriesStyle::Curve,
        colour: 2,
        x: vec![493.0, 1213.0, 5_800_000.0],
        y: vec![0.0, 0.5, 1.0],
        bars: None,
    };
    let mark = Series {
        name: "mark".into(),
        look: SeriesStyle::Dashed,
        x: vec![500.0, 9e5],
        y: vec![0.9, 0.9],
        ..tail.clone()
    };
    PageContent {
        title: "Bandwidths & <latencies>".into(),
        notes: texts(&["a < b", "second"]),
        tables: vec![Table {
            title: "Errors".into(),
            columns: texts(&["family", "error %"]),
            rows: vec![texts(&["BW_SZ", "1.25"]), texts(&["<i>LAT", "-3.10"])],
            folded: false,
        }],
        figures: vec![
            Figure {
                key: "figure7".into(),
                title: "Figure 7: Caches".into(),
                text: "By window.".into(),
                notes: Vec::new(),
                parallel: None,
                plots: vec![Plot {
                    title: "Latency".into(),
                    x: axis("Window", "", Scale::Bytes),
                    y: axis("Latency, ns", "ns", Scale::Linear),
                    series: vec![cold, warm],
                }],
            },
            Figure {
                key: "figure6".into(),
                title: "Figure 6: Tails".into(),
                text: "All of them.".into(),
                notes: texts(&["An <E5> is missing."]),
                parallel: None,
                plots: vec![Plot {
                    title: "Shares".into(),
                    x: axis("Latency, ns", "ns", Scale::Log),
                    y: axis("Share", "", Scale::Linear),
                    series: vec![tail, mark],
                }],
            },
            Figure {
                key: "figure8".into(),
                title: "Figure 8: NUMA".into(),
                notes: texts(&["Needs two."]),
                ..Figure::default()
            },
        ],
    }
}
