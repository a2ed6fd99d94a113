// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures 4, 5 and 7: bandwidth and latency by transfer size and by window.

use super::sets::{Sets, Subject, points, push_once, rows, size, window};
use super::{Figure, Plot, Quantity, closed};
use crate::experiments::{Cache, Test};
use crate::results::Tables;
use model::Bandwidth;

/// NFP6000-HSW and NFP6000-SNB of the paper's Table 1.
const HSW: &str = "hsw-Xeon-E5-2637v3_supermicro";
const SNB: &str = "snb-Xeon-E5-2630_dell-t620";

/// Returns the paper's configuration, then all others. E3 hosts come last, since they are unlike
/// the rest.
pub(super) fn candidates(sets: &Sets<'_>, paper: &str) -> Vec<Subject> {
    let mut names = sets.names();
    names.sort_by_key(|name| name.contains("E3-"));
    std::iter::once(paper.to_owned()).chain(names).map(|name| vec![name]).collect()
}

/// Selects a test's bandwidth of a closed form.
type Gbps = fn(&Bandwidth) -> f64;

pub(super) fn figure4(sets: &Sets<'_>) -> Figure {
    const EXPERIMENT: &str = "bw_dma_sz_sweep";
    let mut notes = Vec::new();
    let mut plots = Vec::new();
    for subject in sets.choose(&candidates(sets, HSW), &[EXPERIMENT], &mut notes) {
        let tests: [(Test, Gbps); 3] = [
            (Test::BwDmaRd, |b| b.read_gbps),
            (Test::BwDmaWr, |b| b.write_gbps),
            (Test::BwDmaRw, |b| b.read_write_gbps),
        ];
        for (test, of) in tests {
            let name = test.name();
            let by_size =
                |tables: &[&Tables]| points(rows(tables[0], EXPERIMENT, test, Cache::HostWarm), size);
            let mut lines = sets.lines(&subject, name, 0, EXPERIMENT, &mut notes, by_size);
            if lines.is_empty() {
                continue;
            }
            match sets.link(&subject[0]).and_then(|link| closed::beside(link, of)) {
                Ok(beside) => lines.extend(beside),
                Err(error) => push_once(&mut notes, error.to_string()),
            }
            let title = format!("{name}, {}", subject[0]);
            plots.push(Plot { title, x: Quantity::TransferBytes, y: Quantity::BandwidthGbps, lines });
        }
    }
    Figure {
        key: "figure4",
        title: "Figure 4: Bandwidth by transfer size, warm cache",
        text: "DMA reads, writes, and alternating reads and writes (one direction counted), to random units of a window of 8 KiB that the host has \
               written. The other lines are the closed form of the results' link, and the rate that an Ethernet of about its \
               rate needs.",
        notes,
        plots,
    }
}

pub(super) fn figure5(sets: &Sets<'_>) -> Figure {
    const EXPERIMENT: &str = "lat_dma_sizes";
    let mut notes = Vec::new();
    let mut plots = Vec::new();
    for subject in sets.choose(&candidates(sets, HSW), &[EXPERIMENT], &mut notes) {
        let mut lines = Vec::new();
        for (group, test) in [Test::LatDmaRd, Test::LatDmaWrRd].into_iter().enumerate() {
            let by_size =
                |tables: &[&Tables]| points(rows(tables[0], EXPERIMENT, test, Cache::HostWarm), size);
            lines.extend(sets.lines(&subject, test.name(), group, EXPERIMENT, &mut notes, by_size));
        }
        let title = subject[0].clone();
        plots.push(Plot { title, x: Quantity::TransferBytes, y: Quantity::LatencyNs, lines });
    }
    Figure {
        key: "figure5",
        title: "Figure 5: Latency by transfer size, warm cache",
        text: "Medians of DMA reads, and of writes followed by a read of the same address, one in flight at a time; bars \
               go from the minimum to the 95th percentile.",
        notes,
        plots,
    }
}

/// A window sweep of Figure 7.
struct Sweep {
    test: Test,
    experiment: &'static str,
}

const LATENCY_SWEEPS: [Sweep; 2] = [
    Sweep { test: Test::LatCmdRd, experiment: "lat_cmd_sweep_rd_rnd_08" },
    Sweep { test: Test::LatCmdWrRd, experiment: "lat_cmd_sweep_wrrd_rnd_08" },
];
const BANDWIDTH_SWEEPS: [Sweep; 2] = [
    Sweep { test: Test::BwDmaRd, experiment: "bw_dma_win_sweep_rd_rnd_64" },
    Sweep { test: Test::BwDmaWr, experiment: "bw_dma_win_sweep_wr_rnd_64" },
];

pub(super) fn figure7(sets: &Sets<'_>) -> Figure {
    let mut notes = Vec::new();
    let mut plots = Vec::new();
    let halves = [
        (LATENCY_SWEEPS, "Latency of 8 B, command interface", Quantity::LatencyNs),
        (BANDWIDTH_SWEEPS, "Bandwidth of 64 B", Quantity::BandwidthGbps),
    ];
    for (sweeps, what, y) in halves {
        let experiments = sweeps.each_ref().map(|s| s.experiment);
        for subject in sets.choose(&candidates(sets, SNB), &experiments, &mut notes) {
            let lines = window_lines(sets, &subject, &sweeps, &mut notes);
            plots.push(Plot { title: format!("{what}, {}", subject[0]), x: Quantity::WindowBytes, y, lines });
        }
    }
    Figure {
        key: "figure7",
        title: "Figure 7: Caches: latency and bandwidth by window",
        text: "A cold cache (thrashed by the host) and a warm one (the window written by the host). Warm reads slow down \
               where the window exceeds the last-level cache; writes followed by a read where it exceeds the tenth of \
               the cache that devices may allocate in. Bars go from the minimum to the 95th percentile.",
        notes,
        plots,
    }
}

fn window_lines(
    sets: &Sets<'_>,
    subject: &Subject,
    sweeps: &[Sweep; 2],
    notes: &mut Vec<String>,
) -> Vec<super::Line> {
    let mut lines = Vec::new();
    for (at, Sweep { test, experiment }) in sweeps.iter().enumerate() {
        for (state, (cache, word)) in
            [(Cache::Cold, "cold"), (Cache::HostWarm, "warm")].into_iter().enumerate()
        {
            let by_window = |tables: &[&Tables]| points(rows(tables[0], experiment, *test, cache), window);
            let name = format!("{} {word}", test.name());
            lines.extend(sets.lines(subject, &name, 2 * at + state, experiment, notes, by_window));
        }
    }
    lines
}
