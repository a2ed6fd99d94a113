// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Experiments that ReConFig'15 could not measure: virtual functions that share a link, the window over the latency, scattered pages and an
//! IOMMU, small transfers, and later generations.

use super::super::report::ExperimentReport;
use super::super::setup::Setup;
use super::super::table::{Cell, Column, Table};
use super::super::{Effort, PaperError};
use devices::dma_engine::EngineReport;
use plug::gbps;
use tlp::Time;
use toml::Value;

const LAB: &str = "labs/papers/dma-engine-beyond.toml";
const TEXT: &str = include_str!("../../../labs/papers/dma-engine-beyond.toml");

const SHARED: &[Column] = &[
    Column { key: "virtual_functions", head: "VFs" },
    Column { key: "gbps", head: "all Gb/s" },
    Column { key: "spread_percent", head: "spread %" },
];
const READS: &[Column] = &[
    Column { key: "window_reads", head: "window" },
    Column { key: "mrrs_128_gbps", head: "128 B Gb/s" },
    Column { key: "mrrs_512_gbps", head: "512 B Gb/s" },
    Column { key: "mrrs_4096_gbps", head: "4096 B Gb/s" },
];
const PAGES: &[Column] = &[
    Column { key: "page_bytes", head: "page B" },
    Column { key: "iommu", head: "IOMMU" },
    Column { key: "h2d_gbps", head: "H2D Gb/s" },
    Column { key: "d2h_gbps", head: "D2H Gb/s" },
];
const SMALL: &[Column] = &[
    Column { key: "outstanding", head: "under way" },
    Column { key: "ring", head: "ring" },
    Column { key: "h2d_gbps", head: "H2D Gb/s" },
    Column { key: "d2h_gbps", head: "D2H Gb/s" },
    Column { key: "interrupts_per_transfer", head: "interrupts per transfer" },
];
const GENERATIONS: &[Column] = &[
    Column { key: "link", head: "link" },
    Column { key: "host", head: "host" },
    Column { key: "window_reads", head: "window" },
    Column { key: "h2d_gbps", head: "H2D Gb/s" },
    Column { key: "d2h_gbps", head: "D2H Gb/s" },
];

/// Returns the lab with these keys changed. Keys without a dot are the engine's.
fn setup(changes: &[(&str, Value)]) -> Setup {
    changes.iter().fold(Setup::new(LAB, TEXT), |setup, (key, value)| {
        let own = format!("slot.0.dma-engine.{key}");
        setup.set(if key.contains('.') { key } else { &own }, value.clone())
    })
}

fn run(changes: &[(&str, Value)]) -> Result<(EngineReport, session::SessionReport), PaperError> {
    let (engine, _, report) = setup(changes).device::<EngineReport>()?;
    Ok((engine, report))
}

/// Returns the rate of the physical function in one direction, and the lab's report.
fn one_way(changes: &[(&str, Value)], directions: &str) -> Result<(f64, session::SessionReport), PaperError> {
    let changes: Vec<_> = changes.iter().cloned().chain([("directions", directions.into())]).collect();
    let (engine, report) = run(&changes)?;
    Ok((gbps(engine.functions[0].bytes(), engine.elapsed(0, Time::MAX)), report))
}

fn both(changes: &[(&str, Value)]) -> Result<[Cell; 2], PaperError> {
    Ok([Cell::Number(one_way(changes, "h2d")?.0, 2), Cell::Number(one_way(changes, "d2h")?.0, 2)])
}

fn shared(effort: &Effort) -> Result<Table, PaperError> {
    let mut rows = Vec::new();
    for vfs in [1, 2, 4, 8, 16, 32, 64] {
        let transfers = (i64::from(effort.frames) * 16 / vfs).max(16);
        let changes = [
            ("vfs", vfs.into()),
            ("drive", "virtual".into()),
            ("size_bytes", 4096.into()),
            ("outstanding", 16.into()),
            ("transfers", transfers.into()),
        ];
        let (report, _) = run(&changes)?;
        let shares: Vec<u64> = report.functions.iter().skip(1).map(|f| report.shared_bytes(f)).collect();
        let (least, most) =
            (shares.iter().min().copied().unwrap_or(0), shares.iter().max().copied().unwrap_or(0));
        rows.push(vec![
            Cell::integer(vfs as f64),
            Cell::Number(gbps(shares.iter().sum(), report.shared_time(Time::MAX)), 2),
            Cell::Number(100.0 * (most - least) as f64 / most.max(1) as f64, 1),
        ]);
    }
    Ok(Table {
        title: "Virtual functions that share the link, 4 KiB both ways, until the first is done".into(),
        columns: SHARED,
        rows,
    })
}

fn reads(effort: &Effort) -> Result<Table, PaperError> {
    let mut rows = Vec::new();
    for window in [4, 8, 16, 32, 64] {
        let mut row = vec![Cell::integer(window as f64)];
        for mrrs in [128, 512, 4096] {
            let transfers = i64::from(effort.frames) / 4;
            let changes = [
                ("window", window.into()),
                ("link.mrrs_bytes", mrrs.into()),
                ("transfers", transfers.into()),
                ("size_bytes", 262_144.into()),
            ];
            row.push(Cell::Number(one_way(&changes, "h2d")?.0, 2));
        }
        rows.push(row);
    }
    Ok(Table { title: "Reads: the window over Max_Read_Request_Size".into(), columns: READS, rows })
}

fn pages(effort: &Effort) -> Result<Table, PaperError> {
    let mut rows = Vec::new();
    for iommu in ["off", "2m", "4k"] {
        for page in [0, 65_536, 4096] {
            let transfers = i64::from(effort.frames) / 4;
            let changes =
                [("page_bytes", page.into()), ("host.iommu", iommu.into()), ("transfers", transfers.into())];
            let [h2d, d2h] = both(&changes)?;
            let bytes = if page == 0 { Cell::Text("contiguous".into()) } else { Cell::integer(page as f64) };
            rows.push(vec![bytes, Cell::Text(iommu.into()), h2d, d2h]);
        }
    }
    Ok(Table {
        title: "1 MiB in scattered pages with a descriptor each, and the page size of the IOMMU".into(),
        columns: PAGES,
        rows,
    })
}

fn small(effort: &Effort) -> Result<Table, PaperError> {
    let mut rows = Vec::new();
    for (ring, coalesce) in [("device", 1), ("host", 1), ("host", 16)] {
        for outstanding in [1, 2, 4, 8, 16, 32] {
            let transfers = i64::from(effort.frames) * 8;
            let changes = [
                ("size_bytes", 4096.into()),
                ("outstanding", outstanding.into()),
                ("ring", ring.into()),
                ("ring_entries", 64.into()),
                ("coalesce_count", coalesce.into()),
                ("transfers", transfers.into()),
            ];
            let (h2d, (d2h, report)) = (one_way(&changes, "h2d")?.0, one_way(&changes, "d2h")?);
            let interrupts = report.devices.first().and_then(|device| device.counters.get("interrupts"));
            let each = interrupts.and_then(serde_json::Value::as_f64).map(|count| count / transfers as f64);
            let ring =
                if coalesce == 1 { ring.to_owned() } else { format!("{ring}, {coalesce} interrupts joined") };
            rows.push(vec![
                Cell::integer(outstanding as f64),
                Cell::Text(ring),
                Cell::Number(h2d, 2),
                Cell::Number(d2h, 2),
                Cell::optional(each, 3),
            ]);
        }
    }
    Ok(Table { title: "Transfers of 4 KiB, by outstanding transfers".into(), columns: SMALL, rows })
}

fn generations(effort: &Effort) -> Result<Table, PaperError> {
    let mut rows = Vec::new();
    let links = [
        (3, 8, "xeon-e5-2637v3"),
        (4, 8, "xeon-gold-6342"),
        (4, 16, "xeon-gold-6342"),
        (5, 8, "xeon-platinum-8480"),
        (5, 16, "xeon-platinum-8480"),
    ];
    for (generation, lanes, host) in links {
        for window in [32, 128, 512] {
            let transfers = i64::from(effort.frames) / 4;
            let changes = [
                ("link.gen", Value::from(generation)),
                ("link.lanes", lanes.into()),
                ("host.profile", host.into()),
                ("window", window.into()),
                ("transfers", transfers.into()),
            ];
            let [h2d, d2h] = both(&changes)?;
            let link = Cell::Text(format!("Gen{generation} x{lanes}"));
            rows.push(vec![link, Cell::Text(host.into()), Cell::integer(window as f64), h2d, d2h]);
        }
    }
    Ok(Table { title: "Later generations, 1 MiB, requests of 512 B".into(), columns: GENERATIONS, rows })
}

/// Runs all of these experiments.
pub(in super::super) fn beyond(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let tables = vec![shared(effort)?, reads(effort)?, pages(effort)?, small(effort)?, generations(effort)?];
    let notes = vec![
        "The paper has none of these figures, and none is fitted: hosts are the shipped profiles, and software takes no time.".into(),
        "A window of n reads of b bytes carries n b bytes per round trip. If the link could carry more in this time, the rate is proportional to n b (Little's law).".into(),
    ];
    Ok(ExperimentReport { labs: vec![LAB], tables, notes, ..ExperimentReport::default() })
}
