// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Exact statistics of latencies, from all samples.

use plug::nearest_rank;
use serde::Serialize;

/// A distribution of latencies in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Latencies {
    /// Number of samples.
    pub samples: u64,
    /// The smallest sample.
    pub latency_ns_min: f64,
    /// Median: half of the samples are no greater.
    pub latency_ns_median: f64,
    /// Arithmetic mean.
    pub latency_ns_mean: f64,
    /// 95th percentile.
    pub latency_ns_p95: f64,
    /// 99th percentile.
    pub latency_ns_p99: f64,
    /// 99.9th percentile.
    pub latency_ns_p999: f64,
    /// The largest sample.
    pub latency_ns_max: f64,
}

impl Latencies {
    /// Returns the distribution of `samples_ps`, in picoseconds; `None` without samples. A percentile is the smallest
    /// sample such that this share of samples is not greater (nearest rank).
    pub fn of(mut samples_ps: Vec<u64>) -> Option<Latencies> {
        samples_ps.sort_unstable();
        let (min, max) = (*samples_ps.first()?, *samples_ps.last()?);
        let ns = |ps: u64| ps as f64 / 1_000.0;
        let rank = |per_mille| nearest_rank(&samples_ps, per_mille).map_or(f64::NAN, ns);
        let sum: u128 = samples_ps.iter().map(|&ps| u128::from(ps)).sum();
        Some(Latencies {
            samples: samples_ps.len() as u64,
            latency_ns_min: ns(min),
            latency_ns_median: rank(500),
            latency_ns_mean: sum as f64 / samples_ps.len() as f64 / 1_000.0,
            latency_ns_p95: rank(950),
            latency_ns_p99: rank(990),
            latency_ns_p999: rank(999),
            latency_ns_max: ns(max),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_use_nearest_rank() {
        let l = Latencies::of((1..=1000).rev().map(|n| n * 1_000).collect()).unwrap();
        assert_eq!((l.latency_ns_min, l.latency_ns_max, l.latency_ns_mean), (1.0, 1000.0, 500.5));
        assert_eq!(
            (l.latency_ns_median, l.latency_ns_p95, l.latency_ns_p99, l.latency_ns_p999),
            (500.0, 950.0, 990.0, 999.0)
        );
        assert_eq!(Latencies::of(Vec::new()), None);
    }
}
