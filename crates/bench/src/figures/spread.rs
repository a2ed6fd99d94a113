// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figure 6: distribution of latencies on E5 hosts and on the E3 host.

use super::sets::{Sets, Subject, rows};
use super::sweeps::candidates;
use super::{Figure, Line, Plot, Point, Quantity, Role};
use crate::experiments::{Cache, Key, Test};
use crate::results::{CdfPoint, Figures, LatencyFigures, Tables};

const EXPERIMENT: &str = "lat_dma_details";
/// The hosts for which the paper quotes 520, 547 and 947 ns (E5), and 493, 1213 and 11987 ns (E3).
const E5: &str = "hsw-Xeon-E5-2620v3_dell-t630";
const E3: &str = "hsw-Xeon-E3-1226v3_fujitsu-tx1310";
/// The row shown: 64 B in a window of 8 KiB.
const SIZE_BYTES: u32 = 64;
const WINDOW_BYTES: u64 = 8192;
/// Limit on the points of a line. More could not be distinguished.
const MAX_POINTS: usize = 1000;

pub(super) fn figure6(sets: &Sets<'_>) -> Figure {
    let (mut notes, mut lines) = (Vec::new(), Vec::new());
    let (e3, e5): (Vec<Subject>, Vec<Subject>) =
        candidates(sets, E5).into_iter().partition(|names| names[0].contains("E3-"));
    let e3: Vec<Subject> = std::iter::once(vec![E3.to_owned()]).chain(e3).collect();
    for (group, candidates) in [e5, e3].iter().enumerate() {
        for (nth, subject) in sets.choose(candidates, &[EXPERIMENT], &mut notes).iter().enumerate() {
            let points = |tables: &[&Tables]| spread(tables[0]);
            lines.extend(sets.lines(subject, &subject[0], group + 2 * nth, EXPERIMENT, &mut notes, points));
        }
    }
    for line in lines.iter_mut().filter(|line| line.role == Role::Run && line.points.len() > QUANTILES) {
        line.role = Role::Distribution;
    }
    Figure {
        key: "figure6",
        title: "Figure 6: Distribution of latencies, E5 and E3",
        text: "DMA reads of 64 B with a warm cache, in a window of 8 KiB: the share of samples up to a latency. If only \
               the table of a host is available, its minimum, median, 95th and 99.9th percentile and \
               maximum replace the distribution.",
        notes,
        plots: plots(lines),
    }
}

fn plots(lines: Vec<Line>) -> Vec<Plot> {
    let title = "LAT_DMA_RD of 64 B".to_owned();
    let plot = Plot { title, x: Quantity::LatencyTailNs, y: Quantity::Share, lines };
    if plot.lines.is_empty() { Vec::new() } else { vec![plot] }
}

/// Points that replace a missing distribution.
const QUANTILES: usize = 5;

/// Returns the distribution of the row shown, or its quantiles.
fn spread(tables: &Tables) -> Vec<Point> {
    let is_shown = |key: &Key| key.window_bytes == WINDOW_BYTES && key.size_bytes == SIZE_BYTES;
    let mut shown =
        rows(tables, EXPERIMENT, Test::LatDmaRd, Cache::HostWarm).filter(|row| is_shown(&row.key));
    let Some(row) = shown.next() else { return Vec::new() };
    let all = tables.experiments.get(EXPERIMENT).map_or(&[][..], Vec::as_slice);
    let place = all.iter().position(|other| other.key == row.key);
    let series = tables.distributions.get(EXPERIMENT).filter(|series| series.len() == all.len());
    match (place.zip(series).and_then(|(place, series)| series.get(place)), &row.figures) {
        (Some(distribution), _) => thinned(distribution),
        (None, Figures::Latency(latency)) => quantiles(latency),
        (None, Figures::Bandwidth(_)) => Vec::new(),
    }
}

/// Returns at most about `MAX_POINTS` points of a distribution, including the last.
fn thinned(distribution: &[CdfPoint]) -> Vec<Point> {
    let step = distribution.len().div_ceil(MAX_POINTS).max(1);
    let last = distribution.len().saturating_sub(1);
    let kept = distribution.iter().enumerate().filter(|(at, _)| at % step == 0 || *at == last);
    kept.map(|(_, point)| Point { x: point.ns, y: point.share, range: None }).collect()
}

fn quantiles(latency: &LatencyFigures) -> Vec<Point> {
    let ns = &latency.ns;
    let points: [(f64, f64); QUANTILES] =
        [(ns.min, 0.0), (ns.median, 0.5), (ns.p95, 0.95), (ns.p999, 0.999), (ns.max, 1.0)];
    points.map(|(x, y)| Point { x, y, range: None }).to_vec()
}
