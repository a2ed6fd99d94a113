// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures 9 and 10: a NIC close to the core and over PCIe, and the parts of its time. Also the gain of batching and of
//! more outstanding reads, which the study names as future work.

use super::super::figures;
use super::super::report::ExperimentReport;
use super::super::setup::Setup;
use super::super::table::{Cell, Chart, Column, Line, Table};
use super::super::verdict::{Compared, Shape, Verdict};
use super::super::{Effort, PaperError};
use devices::ice_nic;
use tlp::Duration;

pub(super) const LAB: &str = "labs/papers/chipyard-nic.toml";
const TEXT: &str = include_str!("../../../labs/papers/chipyard-nic.toml");

/// Figure 9 gives delays of the physical layer in cycles. At 1 GHz these are nanoseconds.
const CYCLES: [u32; 5] = [0, 100, 250, 500, 1000];
/// Assumed one-way latency of the bus between core and NIC on one chip.
const ON_CHIP: Duration = Duration::from_ns(10);

const COLUMNS: &[Column] = &[
    Column { key: "attached", head: "attached" },
    Column { key: "frame_ns", head: "ns a frame" },
    Column { key: "received_gbps", head: "Gb/s" },
    Column { key: "sending_percent", head: "sending %" },
    Column { key: "receiving_percent", head: "receiving %" },
    Column { key: "waiting_percent", head: "waiting for control %" },
    Column { key: "paper_waiting_percent", head: "paper: waiting %" },
];

/// Returns the lab with the NIC over PCIe, and a delay of the physical layer in ns.
pub(super) fn over_pcie(cycles: u32) -> Setup {
    Setup::new(LAB, TEXT).set("link.propagation_ps", i64::from(cycles) * 1000)
}

/// Returns the lab with the NIC on the chip. riser has no such bus, so the fastest link replaces it: a frame of 64 B takes
/// 0.7 ns on it.
pub(super) fn close() -> Setup {
    over_pcie(0).set("link.gen", 5).set("link.lanes", 32).host(|host| host.root_complex_latency = ON_CHIP)
}

pub(super) fn run(setup: Setup, effort: &Effort) -> Result<ice_nic::IceNicReport, PaperError> {
    let setup = setup.set("slot.0.ice-nic.frames", i64::from(effort.frames));
    let (report, ..) = setup.device::<ice_nic::IceNicReport>()?;
    match (report.failed, report.refused) {
        (0, 0) => Ok(report),
        (failed, refused) => Err(PaperError::Run(format!("{LAB}: {failed} failed, {refused} refused"))),
    }
}

pub(super) fn frame_ns(report: &ice_nic::IceNicReport) -> f64 {
    report.elapsed.as_ps() as f64 / 1_000.0 / report.received.max(1) as f64
}

fn gbps(report: &ice_nic::IceNicReport) -> f64 {
    report.bytes as f64 * 8_000.0 / report.elapsed.as_ps().max(1) as f64
}

/// Returns a part of the report's time in per cent.
pub(super) fn percent(part: Duration, report: &ice_nic::IceNicReport) -> f64 {
    100.0 * part.as_ps() as f64 / report.elapsed.as_ps().max(1) as f64
}

fn row(attached: String, report: &ice_nic::IceNicReport, paper: Option<f64>) -> Vec<Cell> {
    let percent = |part: Duration| percent(part, report);
    vec![
        Cell::Text(attached),
        Cell::Number(frame_ns(report), 1),
        Cell::Number(gbps(report), 3),
        Cell::Number(percent(report.sending), 1),
        Cell::Number(percent(report.receiving), 1),
        Cell::Number(percent(report.waiting()), 1),
        Cell::optional(paper, 0),
    ]
}

/// Figures 9 and 10, and the study's future work.
pub(in super::super) fn nic(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let paper = figures::chipyard()?.nic;
    let cycles = paper.physical_latency_cycles.value as u32;
    let (by_delay, line) = delays(effort)?;
    let fitted = Widths::run(effort, cycles, FITTED)?;
    let large = Widths::run(effort, cycles, Load { frame_bytes: 1500, outstanding: 16 })?;
    let what = format!("waiting for control, {}, x16 (§6.2)", FITTED.name());
    let numbers = vec![Compared::usual(what, "%", paper.waiting_percent.value, fitted.waiting_percent(16))];
    let what = format!("no effect of lanes, {}: 110 % of x16 above x1, ns", FITTED.name());
    let no_effect = Shape::above(&what, &[(1.1 * fitted.frame_ns(16), fitted.frame_ns(1))]);
    let rising: Vec<f64> = line.points.iter().rev().map(|point| point.1).collect();
    let shapes = vec![no_effect, Shape::order("time per frame rises with the delay", &rising)];
    let tables = vec![
        by_delay,
        fitted.table(paper.waiting_percent.value),
        large.table(paper.waiting_percent.value),
        recovered(effort, cycles)?,
    ];
    Ok(ExperimentReport {
        verdict: Verdict::of(shapes, numbers),
        labs: vec![LAB],
        tables,
        notes: vec![
            format!("Paper: {}; {} has {cycles} cycles of the physical layer, one way. Its plots print no numbers.", paper.waiting_percent.source, paper.physical_latency_cycles.source),
            "The study gives neither the size of its frames nor the number of outstanding reads. Both are fitted to Figure 10: 128 B in two reads, one after the other. Its text says that the NIC supports few outstanding requests, and names more of them as future work (§6.2). With these values, the NIC waits for half of the time, and lanes have no effect. With 1500 B and 16 outstanding reads it waits for half of the time too, but a frame crosses an x1 link 24 times in each direction in 88 B, which takes 2.2 us more than at x16.".into(),
            "In Figure 9 a frame has 1500 B, in accesses of 64 B. The CPU writes the address of each frame and of each buffer, polls a count until there is a completion, and reads it. Waiting for control is the time in which the NIC has no reads and no writes in flight.".into(),
            "Close to the core, a Gen5 x32 link without time of flight and with 10 ns each way replaces the bus on the chip. The study does not give the latency of that bus.".into(),
            "Over PCIe the writes of the receive path are posted. A zero-length read after them confirms that they are done, as TileLink's responses do.".into(),
        ],
        chart: Some(Chart { x: "delay of the physical layer, one way (ns)", y: "time per frame (ns)", lines: vec![line] }),
        ..ExperimentReport::default()
    })
}

fn delays(effort: &Effort) -> Result<(Table, Line), PaperError> {
    let mut rows = vec![row("close to the core".into(), &run(close(), effort)?, None)];
    let mut points = Vec::new();
    for cycles in CYCLES {
        let report = run(over_pcie(cycles), effort)?;
        points.push((f64::from(cycles), frame_ns(&report)));
        rows.push(row(format!("PCIe-{cycles}, x16"), &report, None));
    }
    let table = Table { title: "Figure 9: one frame at a time".into(), columns: COLUMNS, rows };
    Ok((table, Line::riser("control for each frame", points)))
}

/// Frames of the NIC, and how many reads it has outstanding.
#[derive(Clone, Copy)]
struct Load {
    frame_bytes: u32,
    outstanding: u16,
}

/// The load of Figure 10. The study gives neither value: both are fitted to the figure's waiting time and to its lanes.
const FITTED: Load = Load { frame_bytes: 128, outstanding: 1 };

impl Load {
    fn name(self) -> String {
        format!("frames of {} B, {} outstanding", self.frame_bytes, self.outstanding)
    }
}

/// Figure 10 with one load: a report for each width.
struct Widths {
    cycles: u32,
    load: Load,
    reports: Vec<(u8, ice_nic::IceNicReport)>,
}

impl Widths {
    fn run(effort: &Effort, cycles: u32, load: Load) -> Result<Widths, PaperError> {
        let of = |lanes: u8| {
            let setup = over_pcie(cycles)
                .set("link.lanes", i64::from(lanes))
                .set("slot.0.ice-nic.frame_bytes", i64::from(load.frame_bytes))
                .set("slot.0.ice-nic.outstanding", i64::from(load.outstanding));
            Ok((lanes, run(setup, effort)?))
        };
        let reports = [1, 2, 4, 8, 16].into_iter().map(of).collect::<Result<_, _>>()?;
        Ok(Widths { cycles, load, reports })
    }

    fn at(&self, lanes: u8, of: impl Fn(&ice_nic::IceNicReport) -> f64) -> f64 {
        let found = self.reports.iter().find(|(width, _)| *width == lanes);
        found.map_or(f64::NAN, |(_, report)| of(report))
    }

    fn waiting_percent(&self, lanes: u8) -> f64 {
        self.at(lanes, |report| percent(report.waiting(), report))
    }

    fn frame_ns(&self, lanes: u8) -> f64 {
        self.at(lanes, frame_ns)
    }

    fn table(&self, paper: f64) -> Table {
        let Widths { cycles, load, .. } = self;
        let rows = self.reports.iter();
        let rows = rows.map(|(lanes, report)| row(format!("PCIe-{cycles}, x{lanes}"), report, Some(paper)));
        let title = format!("Figure 10: over lanes, {}", load.name());
        Table { title, columns: COLUMNS, rows: rows.collect() }
    }
}

/// Control mode, frames per batch, outstanding reads.
const RECOVERED: [(&str, u32, u16); 8] = [
    ("each", 1, 1),
    ("each", 1, 16),
    ("batched", 1, 16),
    ("batched", 4, 16),
    ("batched", 16, 1),
    ("batched", 16, 4),
    ("batched", 16, 16),
    ("batched", 16, 64),
];

fn recovered(effort: &Effort, cycles: u32) -> Result<Table, PaperError> {
    let mut rows = Vec::new();
    for (control, batch, outstanding) in RECOVERED {
        let setup = over_pcie(cycles)
            .set("slot.0.ice-nic.control", control)
            .set("slot.0.ice-nic.batch", i64::from(batch))
            .set("slot.0.ice-nic.outstanding", i64::from(outstanding));
        rows.push(row(format!("{control}, batch {batch}, {outstanding} reads"), &run(setup, effort)?, None));
    }
    let title =
        format!("Gain at PCIe-{cycles}, x16: doorbells and completions in batches, outstanding reads");
    Ok(Table { title, columns: COLUMNS, rows })
}
