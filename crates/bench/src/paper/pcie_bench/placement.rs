// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures 8 and 9: remote memory, and the IOMMU.

use super::super::published;
use super::super::report::ExperimentReport;
use super::super::table::{Chart, Column, Line, Table};
use super::super::verdict::{Shape, Verdict};
use super::super::{Effort, PaperError};
use super::grid::{Axis, Grid, KIB, MIB, NFP, key, machine};
use crate::configurations::Iommu;
use crate::experiments::{Cache, Key, Test};
use crate::suite::Machine;
use lab::schema::BufferPages;

/// The server of both figures, with its buffer on the card's node, and on the other one.
pub(super) const LOCAL: &str = "bdw-Xeon-E5-2630v4-dell-t430-s0-s0-s0";
pub(super) const REMOTE: &str = "bdw-Xeon-E5-2630v4-dell-t430-s0-s1-s1";

const WINDOWS: &[u64] = &[16 * KIB, 256 * KIB, 512 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB];
const SIZES: [u32; 4] = [64, 128, 256, 512];
const SMALL: u64 = 16 * KIB;
const LARGE: u64 = 64 * MIB;

const COLUMNS: &[Column] = &[
    Column { key: "window_bytes", head: "window B" },
    Column { key: "base_64_gbps", head: "64 B Gb/s" },
    Column { key: "base_128_gbps", head: "128 B" },
    Column { key: "base_256_gbps", head: "256 B" },
    Column { key: "base_512_gbps", head: "512 B" },
    Column { key: "changed_64_gbps", head: "changed: 64 B" },
    Column { key: "changed_128_gbps", head: "128 B" },
    Column { key: "changed_256_gbps", head: "256 B" },
    Column { key: "changed_512_gbps", head: "512 B" },
    Column { key: "change_64_percent", head: "change 64 B %" },
    Column { key: "change_128_percent", head: "128 B %" },
    Column { key: "change_256_percent", head: "256 B %" },
    Column { key: "change_512_percent", head: "512 B %" },
];

const PAGES: &[Column] = &[
    Column { key: "window_bytes", head: "window B" },
    Column { key: "pages_4k_gbps", head: "4 KiB Gb/s" },
    Column { key: "pages_2m_gbps", head: "2 MiB" },
    Column { key: "pages_1g_gbps", head: "1 GiB" },
];

/// Two machines, and BW_RD of the four sizes on both by window.
struct Pair {
    base: Machine,
    changed: Machine,
    reads: Grid,
}

impl Pair {
    fn measure(effort: &Effort, base: Machine, changed: Machine) -> Result<Pair, PaperError> {
        let read = |size| key(Test::BwDmaRd, Cache::HostWarm, 0, size);
        let both = [&base, &changed].into_iter();
        let series: Vec<_> = both.flat_map(|machine| SIZES.map(|size| (machine, read(size)))).collect();
        let reads = Grid::measure(effort, Axis::Window(WINDOWS), &series)?;
        Ok(Pair { base, changed, reads })
    }

    /// Change of BW_RD of `SIZES[size]` in per cent.
    fn change(&self, size: usize, window: u64) -> f64 {
        self.reads.change(size + SIZES.len(), size, window)
    }

    /// Measures other rows on both machines in one window.
    fn both(&self, effort: &Effort, window: &'static [u64], rows: &[Key]) -> Result<Grid, PaperError> {
        let series: Vec<_> =
            rows.iter().flat_map(|row| [(&self.base, *row), (&self.changed, *row)]).collect();
        Grid::measure(effort, Axis::Window(window), &series)
    }

    fn table(&self, title: &str) -> Table {
        let columns: [&dyn Fn(u64) -> f64; 4] = [
            &|window| self.change(0, window),
            &|window| self.change(1, window),
            &|window| self.change(2, window),
            &|window| self.change(3, window),
        ];
        self.reads.table(title, COLUMNS, &columns)
    }

    /// The chart has a Gb/s axis, because the change is negative everywhere.
    fn chart(&self, changed: &str) -> Chart {
        let line = |name: String, series| Line::riser(name, self.reads.points(series));
        let both = SIZES.iter().enumerate().flat_map(|(n, size)| {
            [line(format!("{size} B"), n), line(format!("{size} B, {changed}"), n + SIZES.len())]
        });
        Chart { x: "window (B)", y: "BW_RD (Gb/s)", lines: both.collect() }
    }
}

/// Figure 8: reads of remote memory.
pub(in super::super) fn remote(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let paper = published::pcie_bench("figure8")?;
    let pair = Pair::measure(effort, machine(LOCAL, NFP)?, machine(REMOTE, NFP)?)?;
    let cold = SIZES.map(|size| key(Test::BwDmaRd, Cache::Cold, 0, size));
    let cold = pair.both(effort, &[SMALL], &cold)?;
    let rows = [key(Test::BwDmaWr, Cache::HostWarm, 0, 64), key(Test::LatDmaRd, Cache::HostWarm, 0, 64)];
    let others = pair.both(effort, &[SMALL], &rows)?;
    let cached = |size| pair.change(size, SMALL);
    let cold = |size: usize| cold.change(2 * size + 1, 2 * size, SMALL);
    let numbers = paper.compare_all(&[
        ("local_64", pair.reads.at(0, SMALL)),
        ("remote_64", pair.reads.at(4, SMALL)),
        ("cached_64", cached(0)),
        ("uncached_64", pair.change(0, LARGE)),
        ("local_128", pair.reads.at(1, SMALL)),
        ("remote_128", pair.reads.at(5, SMALL)),
        ("cached_128", cached(1)),
        ("cached_256", cached(2)),
        ("cached_512", cached(3)),
        ("cold_64", cold(0)),
        ("cold_128", cold(1)),
        ("cold_256", cold(2)),
        ("write", others.change(1, 0, SMALL)),
        ("latency", others.at(3, SMALL) - others.at(2, SMALL)),
    ])?;
    let shapes = vec![
        Shape::above(
            "64 B lose more from the cache than from memory",
            &[(-cached(0), -pair.change(0, LARGE))],
        ),
        Shape::above(
            "64 B lose more than 128 B and 256 B",
            &[(-cached(0), -cached(1)), (-cached(0), -cached(2))],
        ),
        Shape::above(
            "128 B and 256 B lose more than 512 B",
            &[(-cached(1), -cached(3)), (-cached(2), -cached(3))],
        ),
    ];
    Ok(ExperimentReport {
        verdict: Verdict::of(shapes, numbers),
        tables: vec![pair.table("BW_RD, warm; changed: remote memory")],
        notes: vec![
            "NFP6000-BDW: two Xeon E5-2630 v4. The cache is warmed, or thrashed, on the node of the buffer."
                .into(),
        ],
        chart: Some(pair.chart("remote")),
        ..ExperimentReport::default()
    })
}

/// BW_RD of 64 B with the IOMMU and its superpages, for each size of the buffer's pages.
fn by_pages(effort: &Effort, off: &Machine) -> Result<Grid, PaperError> {
    let machines = BufferPages::ALL.map(|pages| off.clone().with_iommu(Iommu::Pages1g).with_pages(pages));
    let read = key(Test::BwDmaRd, Cache::HostWarm, 0, 64);
    let series: Vec<_> = machines.iter().map(|machine| (machine, read)).collect();
    Grid::measure(effort, Axis::Window(WINDOWS), &series)
}

/// Figure 9: the cost of the IOMMU with 4 KiB pages.
pub(in super::super) fn iommu(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let paper = published::pcie_bench("figure9")?;
    let off = machine(LOCAL, NFP)?;
    let pair = Pair::measure(effort, off.clone(), off.with_iommu(Iommu::Pages4k))?;
    let pages = by_pages(effort, &pair.base)?;
    let rows = [key(Test::BwDmaWr, Cache::HostWarm, 0, 64), key(Test::LatDmaRd, Cache::HostWarm, 0, 64)];
    let others = pair.both(effort, &[SMALL, LARGE], &rows)?;
    let command = [key(Test::LatCmdRd, Cache::HostWarm, 0, 64)];
    let command = pair.both(effort, &[SMALL, LARGE], &command)?;
    let (hit, miss) = (command.at(1, SMALL), command.at(1, LARGE));
    let numbers = paper.compare_all(&[
        ("small_64", pair.change(0, SMALL)),
        ("small_512", pair.change(3, SMALL)),
        ("read_64", pair.change(0, LARGE)),
        ("read_256", pair.change(2, LARGE)),
        ("read_512", pair.change(3, LARGE)),
        ("write_64", others.change(1, 0, LARGE)),
        ("hit", hit),
        ("miss", miss),
        ("walk", miss - hit),
    ])?;
    let changes: Vec<(f64, f64)> =
        WINDOWS.iter().map(|window| ((window / KIB) as f64, pair.change(0, *window))).collect();
    let shapes = vec![
        Shape::knee("64 B, change in % by window in KiB:", -10.0, 512.0, &changes),
        Shape::above(
            "64 B lose more than 256 B, and these more than 512 B, in 64 MiB",
            &[
                (-pair.change(0, LARGE), -pair.change(2, LARGE)),
                (-pair.change(2, LARGE), -pair.change(3, LARGE)),
            ],
        ),
        Shape::above(
            "64 B in 64 MiB: buffers of 2 MiB pages above 4 KiB pages",
            &[(pages.at(1, LARGE), pages.at(0, LARGE))],
        ),
    ];
    Ok(ExperimentReport {
        verdict: Verdict::of(shapes, numbers),
        tables: vec![
            pair.table("BW_RD, warm; changed: IOMMU with 4 KiB pages"),
            pages.table("BW_RD of 64 B, warm, IOMMU with superpages, by pages of the buffer", PAGES, &[]),
        ],
        notes: vec![
            "NFP6000-BDW: a Xeon E5-2630 v4. 256 KiB is the largest of the paper's windows without a loss, so the first one with a loss is 512 KiB.".into(),
            "Hits are in a warm window of 16 KiB. Misses are in one of 64 MiB, which exceeds the last-level cache too: 330 ns include a read from memory.".into(),
        ],
        chart: Some(pair.chart("IOMMU")),
        ..ExperimentReport::default()
    })
}
