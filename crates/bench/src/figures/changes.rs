// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures 8 and 9: change of the read bandwidth with remote memory, and with the IOMMU.

use super::sets::{Sets, Subject, points, rows, window};
use super::{Figure, Plot, Point, Quantity};
use crate::configurations::Iommu;
use crate::experiments::{Cache, Test};
use crate::results::Tables;

/// NFP6000-BDW of the paper's Table 1, with card, memory and program at the same socket.
const BDW: &str = "bdw-Xeon-E5-2630v4-dell-t430-s0-s0-s0";
/// Suffix of a configuration's name: the sockets of card, memory and program.
const LOCAL: &str = "-s0-s0-s0";
/// Memory of the other socket. The program that warms the cache runs on that socket, too.
const REMOTE: &str = "-s0-s1-s1";
/// The IOMMU on, without superpages.
const IOMMU: &str = Iommu::Pages4k.in_names();

/// Experiments and transfer sizes in bytes.
const SWEEPS: [(&str, u32); 4] = [
    ("bw_dma_win_sweep_rd_rnd_64", 64),
    ("bw_dma_win_sweep_rd_rnd_128", 128),
    ("bw_dma_win_sweep_rd_rnd_256", 256),
    ("bw_dma_win_sweep_rd_rnd_512", 512),
];

pub(super) fn figure8(sets: &Sets<'_>) -> Figure {
    let remote = |name: &str| name.strip_suffix(LOCAL).map(|server| format!("{server}{REMOTE}"));
    let (notes, plots) = changes(sets, remote);
    Figure {
        key: "figure8",
        title: "Figure 8: NUMA: reads of remote memory",
        text: "Change of the bandwidth of DMA reads if memory is at the other socket instead of the card's socket. The \
               lines are in the cache of the memory's socket.",
        notes,
        plots,
    }
}

pub(super) fn figure9(sets: &Sets<'_>) -> Figure {
    let (notes, plots) = changes(sets, |name| Some(format!("{name}{IOMMU}")));
    Figure {
        key: "figure9",
        title: "Figure 9: IOMMU: reads through 4 KiB pages",
        text: "Change of the bandwidth of DMA reads if the IOMMU is on, without superpages, instead of off, with a warm \
               cache. The lines fall at the largest window that the IOTLB covers.",
        notes,
        plots,
    }
}

/// Plots the change from each configuration to its variant. `changed` returns the variant's name. Returns notes and plots.
fn changes(sets: &Sets<'_>, changed: impl Fn(&str) -> Option<String>) -> (Vec<String>, Vec<Plot>) {
    let names = std::iter::once(BDW.to_owned()).chain(sets.names());
    let pairs: Vec<Subject> =
        names.filter_map(|name| changed(&name).map(|other| vec![name, other])).collect();
    let mut notes = Vec::new();
    let chosen = sets.choose(&pairs, &SWEEPS.map(|(name, _)| name), &mut notes);
    let plots = chosen.iter().map(|pair| plot(sets, pair, &mut notes)).collect();
    (notes, plots)
}

fn plot(sets: &Sets<'_>, pair: &Subject, notes: &mut Vec<String>) -> Plot {
    let mut lines = Vec::new();
    for (group, (experiment, size)) in SWEEPS.into_iter().enumerate() {
        let name = format!("{size} B");
        let by_window = |tables: &[&Tables]| change(tables[0], tables[1], experiment);
        lines.extend(sets.lines(pair, &name, group, experiment, notes, by_window));
    }
    let title = format!("{} against {}", pair[1], pair[0]);
    Plot { title, x: Quantity::WindowBytes, y: Quantity::ChangePercent, lines }
}

/// Returns the change of warm reads in percent for each window.
fn change(from: &Tables, to: &Tables, experiment: &str) -> Vec<Point> {
    let of = |tables| points(rows(tables, experiment, Test::BwDmaRd, Cache::HostWarm), window);
    let (from, to) = (of(from), of(to));
    let at = |x: f64| from.iter().find(|p| p.x == x).filter(|p| p.y > 0.0);
    let percent = |p: &Point| at(p.x).map(|base| Point { y: 100.0 * (p.y / base.y - 1.0), ..*p });
    to.iter().filter_map(percent).collect()
}
