// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures drawn from results: what each shows, as lines and points with their quantities. Looks are for whoever draws them.
//! Of results in riser's own form, each test by what was swept. Of those in pcie-bench's public form, the figures of its paper
//! (SIGCOMM'18); Figures 2 and 3 of that show other devices and no results.
//!
//! | figure | from | of |
//! |---|---|---|
//! | 1 | closed forms | a link and NICs on it |
//! | 4 | `bw_dma_sz_sweep` | NFP6000-HSW |
//! | 5 | `lat_dma_sizes` | NFP6000-HSW |
//! | 6 | `lat_dma_details` and its distributions | an E5 and the E3 host |
//! | 7 | `lat_cmd_sweep_*_rnd_08`, `bw_dma_win_sweep_*_rnd_64` | NFP6000-SNB |
//! | 8 | `bw_dma_win_sweep_rd_*` | NFP6000-BDW, memory of the other socket by memory of its own |
//! | 9 | `bw_dma_win_sweep_rd_*` | NFP6000-BDW, with the IOMMU by without |
//!
//! Where the configuration that the paper shows is not in the results, another one stands in its place, and the figure says
//! so; where nothing can, it says what it needs. A second set of results, such as measurements, stands as points over the
//! lines of the first. Never reads a file.

mod changes;
mod closed;
mod sets;
mod spread;
mod sweeps;
mod tables;

use crate::results::ResultSet;
use sets::Sets;

/// A figure.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// What names it: `figure4` of the paper, `bw-rd` of a test.
    pub key: &'static str,
    /// Its number in the paper, or its test, and behind a colon what it shows, in a few words.
    pub title: &'static str,
    /// What is to be seen in it, and under which conditions.
    pub text: &'static str,
    /// What it lacks, and what stands in place of what.
    pub notes: Vec<String>,
    /// Its plots; none where all that it needs is missing.
    pub plots: Vec<Plot>,
}

/// Lines over one axis.
#[derive(Clone, PartialEq, Debug)]
pub struct Plot {
    /// Of what: a test, a configuration.
    pub title: String,
    /// What the x axis counts.
    pub x: Quantity,
    /// What the y axis counts.
    pub y: Quantity,
    /// The lines.
    pub lines: Vec<Line>,
}

/// What an axis counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quantity {
    /// Bytes of a packet, FCS included.
    PacketBytes,
    /// Bytes of a transfer.
    TransferBytes,
    /// Bytes of the window of host memory that transfers go to; they span orders of magnitude.
    WindowBytes,
    /// Latency in nanoseconds.
    LatencyNs,
    /// Latency in nanoseconds that spans orders of magnitude.
    LatencyTailNs,
    /// 10^9 bits of data per second.
    BandwidthGbps,
    /// Change of bandwidth in percent.
    ChangePercent,
    /// Difference to the second set of results, in percent of its value.
    DifferencePercent,
    /// A column of settings of riser's own form, such as `outstanding`, in its own unit.
    Setting(&'static str),
    /// Share of all samples, 0 to 1.
    Share,
}

/// Where the values of a line are from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The first set of results.
    Run,
    /// The same, as a distribution of many points.
    Distribution,
    /// The second set of results, which the first is compared with.
    Reference,
    /// A closed form.
    Model,
    /// A rate to reach, or a closed form beside what was run.
    Mark,
}

/// Values that belong together.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// What the legend calls it.
    pub name: String,
    /// Where its values are from.
    pub role: Role,
    /// Lines of one group show the same, from different sources.
    pub group: usize,
    /// Its points by rising x.
    pub points: Vec<Point>,
}

/// One value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// Across.
    pub x: f64,
    /// Upward.
    pub y: f64,
    /// Latencies: minimum and 95th percentile.
    pub range: Option<(f64, f64)>,
}

/// All figures, from the results of `run`; those of `reference`, which has a name for the legends, stand over them. Where all
/// results are in riser's own form, of the paper's figures only those that show results.
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
    /// Whether it shows more than closed forms.
    pub fn shows_results(&self) -> bool {
        let is_result = |line: &Line| !matches!(line.role, Role::Model | Role::Mark);
        self.plots.iter().flat_map(|plot| &plot.lines).any(is_result)
    }
}
