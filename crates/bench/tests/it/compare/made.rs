// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sets of results generated from a few numbers, or with the rows of the published data.

use riser_bench::experiments::{Cache, Experiment, Key, Pattern, Test};
use riser_bench::results::{BandwidthFigures, Figures, LatencyFigures, ResultRow, ResultSet, Spread};

/// Returns a row's key with offsets of zero.
pub(crate) const fn key(test: Test, cache: Cache, window_bytes: u64, size_bytes: u32) -> Key {
    Key {
        test,
        pattern: Pattern::Random,
        cache,
        host_offset_bytes: 0,
        device_offset_bytes: 0,
        window_bytes,
        size_bytes,
    }
}

/// Returns a row with a median in nanoseconds or a bandwidth in Gb/s. A latency spreads from 0.9 to 1.5 of its
/// median.
pub(crate) fn row(key: Key, value: f64) -> ResultRow {
    let ns = Spread {
        elapsed: value + 200.0,
        mean: value,
        median: value,
        min: 0.9 * value,
        max: 1.5 * value,
        p95: 1.1 * value,
        p999: 1.2 * value,
    };
    let figures = match key.test.is_latency() {
        true => {
            Figures::Latency(LatencyFigures { cycles: ns.scaled(|n| 1.2 * n), ns, outliers: 0, samples: 100 })
        }
        false => Figures::Bandwidth(BandwidthFigures { gbps: value, ..BandwidthFigures::default() }),
    };
    ResultRow { key, figures }
}

/// Adds rows to an experiment of a configuration.
pub(crate) fn add(
    set: &mut ResultSet,
    configuration: &str,
    experiment: &str,
    rows: impl IntoIterator<Item = ResultRow>,
) {
    let tables = set.configurations.entry(configuration.to_owned()).or_default();
    tables.experiments.entry(experiment.to_owned()).or_default().extend(rows);
}

/// Returns a set of one experiment.
pub(crate) fn set(
    configuration: &str,
    experiment: &str,
    rows: impl IntoIterator<Item = ResultRow>,
) -> ResultSet {
    let mut all = ResultSet::default();
    add(&mut all, configuration, experiment, rows);
    all
}

/// Returns all rows of a published experiment, with values by key.
pub(crate) fn whole(experiment: &str, value: impl Fn(&Key) -> f64) -> Vec<ResultRow> {
    let rows = Experiment::named(experiment).unwrap().rows();
    rows.into_iter().map(|key| row(key, value(&key))).collect()
}
