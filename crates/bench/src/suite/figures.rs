// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts samples and times of the card to figures of the public format.

use crate::results::{BandwidthFigures, CdfPoint, LatencyFigures, Spread};
use std::collections::BTreeMap;

/// Cycles per second: the NFP-6000 of the published data runs at 1.2 GHz.
const CYCLES_PER_S: f64 = 1.2e9;
/// Cycles per tick of the clock that times bandwidths.
const TICK_CYCLES: f64 = 16.0;

/// Converts picoseconds to whole cycles. The card's ticks of 16 cycles arrive rounded to picoseconds.
pub(super) fn cycles(ps: u64) -> u64 {
    ((u128::from(ps) * 12 + 5_000) / 10_000) as u64
}

/// Converts cycles to nanoseconds, with the rounding of the published files.
fn ns(cycles: f64) -> f64 {
    1e9 * cycles / CYCLES_PER_S
}

/// Number of samples of each latency, in cycles.
#[derive(Default, Debug)]
pub(super) struct Histogram {
    counts: BTreeMap<u64, u64>,
    samples: u64,
}

impl Histogram {
    pub(super) fn add(&mut self, cycles: u64) {
        *self.counts.entry(cycles).or_insert(0) += 1;
        self.samples += 1;
    }

    pub(super) fn samples(&self) -> u64 {
        self.samples
    }

    /// Returns the sample at `rank`, from 0.
    fn at(&self, rank: u64) -> f64 {
        let mut seen = 0;
        let found = self.counts.iter().find(|(_, count)| {
            seen += **count;
            seen > rank
        });
        found.map_or(0.0, |(cycles, _)| *cycles as f64)
    }

    /// Returns a percentile, interpolated between two samples as in the published figures.
    pub(super) fn percentile(&self, percent: f64) -> f64 {
        let rank = self.samples.saturating_sub(1) as f64 * percent / 100.0;
        let (below, above) = (self.at(rank.floor() as u64), self.at(rank.ceil() as u64));
        below + (above - below) * rank.fract()
    }

    /// Returns the figures of a row whose samples took `elapsed_ps` in total.
    pub(super) fn figures(&self, elapsed_ps: u64) -> LatencyFigures {
        let samples = self.samples.max(1);
        let sum: u64 = self.counts.iter().map(|(cycles, count)| cycles * count).sum();
        let p95 = self.percentile(95.0);
        let spread = Spread {
            elapsed: (cycles(elapsed_ps) / samples) as f64,
            mean: sum as f64 / samples as f64,
            median: self.percentile(50.0),
            min: self.at(0),
            max: self.at(samples - 1),
            p95,
            p999: self.percentile(99.9),
        };
        let outliers =
            self.counts.iter().filter(|(cycles, _)| **cycles as f64 > 3.0 * p95).map(|(_, n)| n).sum();
        LatencyFigures { cycles: spread, ns: spread.scaled(ns), outliers, samples: self.samples }
    }

    /// Returns the distribution. Its first point is the smallest latency with a share of 0.
    pub(super) fn distribution(&self) -> Vec<CdfPoint> {
        let point = |cycles: u64, seen: u64| {
            let (cycles, share) = (cycles as f64, seen as f64 / self.samples as f64);
            CdfPoint { cycles, ns: ns(cycles), share }
        };
        let mut seen = 0;
        let mut points = Vec::with_capacity(self.counts.len() + 1);
        points.extend(self.counts.keys().next().map(|least| point(*least, 0)));
        points.extend(self.counts.iter().map(|(cycles, count)| {
            seen += count;
            point(*cycles, seen)
        }));
        points
    }

    /// Returns a line for each latency: cycles, nanoseconds and samples.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        self.counts.iter().map(|(cycles, count)| format!("{cycles},{:?},{count}\r\n", ns(*cycles as f64)))
    }
}

impl LatencyFigures {
    /// Raises the maximum to `cycles` if it is lower.
    pub(super) fn extend_to(&mut self, cycles: u64) {
        self.cycles.max = self.cycles.max.max(cycles as f64);
        self.ns.max = ns(self.cycles.max);
    }
}

/// Returns the line of a latency in a time series.
pub(super) fn sample_line(cycles: u64) -> String {
    format!("{cycles},{:?}\r\n", ns(cycles as f64))
}

/// Returns the figures of `transactions` transfers of one direction, of `size_bytes` each, that took `elapsed_ps`.
pub(super) fn bandwidth(transactions: u64, size_bytes: u32, elapsed_ps: u64) -> BandwidthFigures {
    let ticks = (cycles(elapsed_ps) as f64 / TICK_CYCLES).round().max(1.0);
    let cycles = ticks * TICK_CYCLES;
    let (ns, bytes) = (ns(cycles), transactions * u64::from(size_bytes));
    BandwidthFigures {
        cycles,
        ns,
        bytes,
        transactions,
        gbps: bytes as f64 * 8.0 / ns,
        transactions_per_s: transactions as f64 / ns * 1e9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks of 40/3 ns, rounded to picoseconds, convert to multiples of 16 cycles.
    #[test]
    fn ticks_are_multiples_of_16_cycles() {
        for ticks in [1, 2, 3, 42, 45, 1000, 300_000] {
            assert_eq!(cycles((ticks * 40_000 + 1) / 3), 16 * ticks);
        }
    }

    #[test]
    fn interpolates_percentiles() {
        let mut histogram = Histogram::default();
        (0..100).for_each(|_| histogram.add(720));
        [736, 736, 2400].into_iter().for_each(|cycles| histogram.add(cycles));
        let figures = histogram.figures(103 * 800_000);
        assert_eq!((figures.cycles.median, figures.ns.median), (720.0, 600.0));
        assert_eq!((figures.cycles.min, figures.cycles.max, figures.cycles.elapsed), (720.0, 2400.0, 960.0));
        assert_eq!((figures.outliers, figures.samples), (1, 103));
        // Rank 101.898 of 102: between 736 and 2400.
        assert!((figures.cycles.p999 - (736.0 + 0.898 * 1664.0)).abs() < 1e-6);
        let points = histogram.distribution();
        assert_eq!(points.iter().map(|p| p.cycles).collect::<Vec<_>>(), [720.0, 720.0, 736.0, 2400.0]);
        assert_eq!((points[0].share, points[3].share), (0.0, 1.0));
    }

    /// The first row of `bw_dma_off_rd.csv` of the E3-1226 v3.
    #[test]
    fn bandwidth_agrees_with_a_published_row() {
        let figures = bandwidth(8_388_608, 64, 130_341_013_333);
        assert_eq!((figures.cycles, figures.bytes), (156_409_216.0, 536_870_912));
        assert_eq!(figures.ns, 130_341_013.333_333_33);
        assert!((figures.gbps - 32.951_771_558_013_56).abs() < 1e-9);
        assert!((figures.transactions_per_s - 64_358_928.824_245_24).abs() < 1e-3);
    }
}
