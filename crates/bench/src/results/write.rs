// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Text of files in the public format. Names, order and number formats of the columns are those of the published files,
//! and lines end in CR LF. This module does not write to disk.

use super::number::float;
use super::{BandwidthFigures, CdfPoint, Figures, LatencyFigures, ResultRow, Spread};
use crate::experiments::Key;

/// Columns of a row's key.
pub(super) const KEY: &str = "Test,PAT,Cache,HO,DO,WinSZ,SZ";
/// Columns of latencies.
pub(super) const LATENCY: &str = "TAvg,Avg,Med,Min,Max,95%,99.9%,TAvg(ns),Avg(ns),Med(ns),Min(ns),Max(ns),95%(ns),99.9%(ns),\
                       #outliers,#samples";
/// Columns of bandwidths.
pub(super) const BANDWIDTH: &str = "Time(cyc),Time,Bytes,Trans,BW (GB/s),Trans/s";

/// Returns the file of an experiment. All its rows must be latencies, or all bandwidths.
pub fn table(rows: &[ResultRow]) -> String {
    let latencies = matches!(rows.first(), Some(ResultRow { figures: Figures::Latency(_), .. }));
    let columns = if latencies { LATENCY } else { BANDWIDTH };
    let mut text = format!("{KEY},{columns}\r\n");
    for row in rows {
        let figures = match &row.figures {
            Figures::Latency(figures) => latency(figures),
            Figures::Bandwidth(figures) => bandwidth(figures),
        };
        text += &format!("{},{figures}\r\n", key(&row.key));
    }
    text
}

/// Returns the `_cdf` file of an experiment: the distributions of its rows, concatenated.
pub fn distributions<'a>(series: impl IntoIterator<Item = &'a [CdfPoint]>) -> String {
    let mut text = String::from("cycles,ns,cdf\r\n");
    for point in series.into_iter().flatten() {
        let share = if point.share == 0.0 { "0".to_owned() } else { float(point.share) };
        text += &format!("{},{},{share}\r\n", whole(point.cycles), float(point.ns));
    }
    text
}

/// Returns the first seven columns. Only a window of 1.5 MiB is written as a float.
fn key(key: &Key) -> String {
    let Key { test, pattern, cache, host_offset_bytes, device_offset_bytes, window_bytes, size_bytes } = key;
    let float = if *window_bytes == 3 << 19 { ".0" } else { "" };
    format!(
        "{test},{pattern},{cache},{host_offset_bytes},{device_offset_bytes},{window_bytes}{float},{size_bytes}"
    )
}

/// Formats cycles that are integers in the files: `TAvg`, `Min` and `Max`, `Time(cyc)`.
fn whole(cycles: f64) -> String {
    format!("{cycles:.0}")
}

fn latency(figures: &LatencyFigures) -> String {
    let Spread { elapsed, mean, median, min, max, p95, p999 } = figures.cycles;
    let mut fields =
        vec![whole(elapsed), float(mean), float(median), whole(min), whole(max), float(p95), float(p999)];
    let Spread { elapsed, mean, median, min, max, p95, p999 } = figures.ns;
    fields.extend([elapsed, mean, median, min, max, p95, p999].map(float));
    fields.extend([figures.outliers, figures.samples].map(|n| n.to_string()));
    fields.join(",")
}

fn bandwidth(figures: &BandwidthFigures) -> String {
    let BandwidthFigures { cycles, ns, bytes, transactions, gbps, transactions_per_s } = *figures;
    format!(
        "{},{},{bytes},{transactions},{},{}",
        whole(cycles),
        float(ns),
        float(gbps),
        float(transactions_per_s)
    )
}
