// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results in two formats. The public pcie-bench format has a folder for each configuration and a CSV file for each
//! experiment. The native format of riser ([`sheet`]) has one file for any number of sweeps.
//!
//! In the public format, a row is its [`Key`] (the columns `Test,PAT,Cache,HO,DO,WinSZ,SZ`) and its figures:
//!
//! ```text
//! latency    TAvg,Avg,Med,Min,Max,95%,99.9%          cycles of 1.2 GHz
//!            TAvg(ns),Avg(ns),...,99.9%(ns)          the same in nanoseconds
//!            #outliers,#samples                      outliers: over three times the 95th percentile
//! bandwidth  Time(cyc),Time,Bytes,Trans              cycles, nanoseconds, bytes, transfers
//!            BW (GB/s),Trans/s                       10^9 bits (not bytes) per second, transfers per second
//! NAME_cdf   cycles,ns,cdf                           one series behind the other, in the order of NAME's rows
//! ```
//!
//! For `BW_DMA_RW`, bytes and transfers count one direction. The card's latency clock ticks every 16 cycles.
//!
//! [`ResultSet::read`] accepts untrusted files: faults are errors with file and line, never panics, and sizes are
//! limited. [`mod@write`] writes such files. This module does not simulate and does not compare.

mod line;
mod number;
mod read;
pub mod sheet;
mod text;
pub mod write;

pub use line::{MAX_ROWS, ResultsError};
pub use read::{MAX_BYTES, MAX_FILES, parse_distributions, parse_table};
pub use text::text;

use crate::experiments::Key;
use lab::profile::Basis;
use std::collections::BTreeMap;

/// Results of any number of configurations.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ResultSet {
    /// Configurations by folder name, such as `nfp6000-1.2GHz_hsw-Xeon-E5-2637v3_supermicro`.
    pub configurations: BTreeMap<String, Tables>,
}

/// Results of one configuration.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tables {
    /// Rows of each experiment (`lat_dma_sizes`), in the order of the file. A key may occur twice, as in the `off` experiments, where both offsets are zero.
    /// The first row counts then.
    pub experiments: BTreeMap<String, Vec<ResultRow>>,
    /// Distributions of the rows of an experiment, in the order of its rows, from its `_cdf` file.
    pub distributions: BTreeMap<String, Vec<Vec<CdfPoint>>>,
    /// Settings by column, for results in the native format. Their experiments are tests.
    pub settings: Option<BTreeMap<&'static str, String>>,
    /// The measured machine, from the [record](RECORD) of a folder that riser wrote in the public form.
    pub machine: Option<BTreeMap<String, String>>,
    /// Weakest basis of the profile figures that the results depend on; `None` for results without one, such as measurements.
    pub basis: Option<Basis>,
}

impl ResultSet {
    /// Returns the weakest basis of all configurations.
    pub fn basis(&self) -> Option<Basis> {
        self.configurations.values().filter_map(|tables| tables.basis).max()
    }
}

/// Name of the file that records the contents of a folder of `riser bench --format pcie-bench`.
pub const RECORD: &str = "riser.json";

/// A row of a file.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ResultRow {
    /// Parameters of the measurement.
    pub key: Key,
    /// Its results.
    pub figures: Figures,
}

impl ResultRow {
    /// Returns the compared value: median latency in nanoseconds, or bandwidth in Gb/s.
    pub fn value(&self) -> f64 {
        match &self.figures {
            Figures::Latency(latency) => latency.ns.median,
            Figures::Bandwidth(bandwidth) => bandwidth.gbps,
        }
    }
}

/// The figures of a row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Figures {
    /// Latencies.
    Latency(LatencyFigures),
    /// A bandwidth.
    Bandwidth(BandwidthFigures),
}

/// The figures of a latency row.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LatencyFigures {
    /// In cycles of the card: the columns without unit.
    pub cycles: Spread,
    /// In nanoseconds: the columns with `(ns)`.
    pub ns: Spread,
    /// `#outliers`: samples over three times the 95th percentile.
    pub outliers: u64,
    /// `#samples`.
    pub samples: u64,
}

/// Statistics of latencies, in cycles or in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Spread {
    /// `TAvg`: time of the whole test divided by samples. This includes the card's work between samples.
    pub elapsed: f64,
    /// `Avg`.
    pub mean: f64,
    /// `Med`.
    pub median: f64,
    /// `Min`.
    pub min: f64,
    /// `Max`.
    pub max: f64,
    /// `95%`.
    pub p95: f64,
    /// `99.9%`.
    pub p999: f64,
}

impl Spread {
    /// Returns the statistics with `by` applied to each figure.
    pub fn scaled(&self, by: impl Fn(f64) -> f64) -> Spread {
        Spread {
            elapsed: by(self.elapsed),
            mean: by(self.mean),
            median: by(self.median),
            min: by(self.min),
            max: by(self.max),
            p95: by(self.p95),
            p999: by(self.p999),
        }
    }
}

/// The figures of a bandwidth row.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct BandwidthFigures {
    /// `Time(cyc)`: duration of the transfers in cycles of the card.
    pub cycles: f64,
    /// `Time`: the same in nanoseconds.
    pub ns: f64,
    /// `Bytes`: data of one direction.
    pub bytes: u64,
    /// `Trans`: transfers of one direction.
    pub transactions: u64,
    /// `BW (GB/s)`, which holds 10^9 bits per second, of one direction.
    pub gbps: f64,
    /// `Trans/s`: of one direction.
    pub transactions_per_s: f64,
}

/// A point of a distribution.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CdfPoint {
    /// Latency in cycles.
    pub cycles: f64,
    /// The same in nanoseconds.
    pub ns: f64,
    /// Share of samples up to this latency, 0 to 1.
    pub share: f64,
}

#[cfg(test)]
mod tests;
