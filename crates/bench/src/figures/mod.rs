// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures from results, as lines and points with their quantities, and the page that shows them. Results in the native format give one figure for each test and swept
//! setting. Results in pcie-bench's public form give the figures of its paper (SIGCOMM'18). Its Figures 2 and 3 show other devices, and are left out.
//!
//! | figure | data | subject |
//! |---|---|---|
//! | 1 | closed forms | a link and NICs on it |
//! | 4 | `bw_dma_sz_sweep` | NFP6000-HSW |
//! | 5 | `lat_dma_sizes` | NFP6000-HSW |
//! | 6 | `lat_dma_details` and its distributions | an E5 and the E3 host |
//! | 7 | `lat_cmd_sweep_*_rnd_08`, `bw_dma_win_sweep_*_rnd_64` | NFP6000-SNB |
//! | 8 | `bw_dma_win_sweep_rd_*` | NFP6000-BDW, remote memory relative to local memory |
//! | 9 | `bw_dma_win_sweep_rd_*` | NFP6000-BDW, with the IOMMU relative to without |
//!
//! If the results lack the paper's configuration, another one replaces it and the figure notes that. If no
//! configuration can replace it, the figure notes the results that it needs. A second set of results, such as
//! measurements, is drawn as points over the lines of the first. This module reads no files.

mod changes;
mod closed;
mod page;
mod sets;
mod spread;
mod sweeps;
mod tables;

pub use page::page;

use crate::results::ResultSet;
use sets::Sets;

/// A figure.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// Identifier: `figure4` of the paper, `bw-rd` of a test.
    pub key: &'static str,
    /// Title: its number in the paper, or its test, then a colon and the subject.
    pub title: &'static str,
    /// Description of the curves and their conditions.
    pub text: &'static str,
    /// Missing data, and replaced configurations.
    pub notes: Vec<String>,
    /// Its plots; empty if all its data are missing.
    pub plots: Vec<Plot>,
}

/// Lines over one axis.
#[derive(Clone, PartialEq, Debug)]
pub struct Plot {
    /// Subject: a test or a configuration.
    pub title: String,
    /// Quantity of the x axis.
    pub x: Quantity,
    /// Quantity of the y axis.
    pub y: Quantity,
    /// The lines.
    pub lines: Vec<Line>,
}

/// Quantity of an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quantity {
    /// Bytes of a packet, FCS included.
    PacketBytes,
    /// Bytes of a transfer.
    TransferBytes,
    /// Bytes of the window of host memory that transfers access, over orders of magnitude.
    WindowBytes,
    /// Latency in nanoseconds.
    LatencyNs,
    /// Latency in nanoseconds that spans orders of magnitude.
    LatencyTailNs,
    /// 10^9 bits of data per second.
    BandwidthGbps,
    /// Change of bandwidth in percent.
    ChangePercent,
    /// Difference from the second set of results, in percent of its value.
    DifferencePercent,
    /// A column of settings in the native format, such as `outstanding`, in its own unit.
    Setting(&'static str),
    /// Share of all samples, 0 to 1.
    Share,
}

/// Source of the values of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The first set of results.
    Run,
    /// The first set of results, as a distribution of many points.
    Distribution,
    /// The second set of results, to which the first is compared.
    Reference,
    /// A closed form.
    Model,
    /// A rate to reach, or a closed form next to results.
    Mark,
}

/// A line of a plot.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Source of its values.
    pub role: Role,
    /// Lines of one group show the same quantity, from different sources.
    pub group: usize,
    /// Its points, by increasing x.
    pub points: Vec<Point>,
}

/// One value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// Position on the x axis.
    pub x: f64,
    /// Position on the y axis.
    pub y: f64,
    /// For latencies: minimum and 95th percentile.
    pub range: Option<(f64, f64)>,
}

/// Draws all figures from the results of `run`. Draws the results of `reference` over them. The name of `reference` is
/// for the legends. If all results are in the native format, the paper's figures without results are left out.
pub fn figures(run: &ResultSet, reference: Option<(&str, &ResultSet)>) -> Vec<Figure> {
    let sets = Sets::new(run, reference);
    let mut figures = tables::figures(run, sets.reference());
    let mut paper = vec![
        closed::figure1(sets.only_link()),
        sweeps::figure4(&sets),
        sweeps::figure5(&sets),
        spread::figure6(&sets),
        sweeps::figure7(&sets),
        changes::figure8(&sets),
        changes::figure9(&sets),
    ];
    if !figures.is_empty() && run.configurations.values().all(|tables| tables.settings.is_some()) {
        paper.retain(Figure::shows_results);
    }
    figures.append(&mut paper);
    figures
}

impl Figure {
    /// Returns true if the figure shows more than closed forms.
    pub fn shows_results(&self) -> bool {
        let is_result = |line: &Line| !matches!(line.role, Role::Model | Role::Mark);
        self.plots.iter().flat_map(|plot| &plot.lines).any(is_result)
    }
}
