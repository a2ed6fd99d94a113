// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures 9 and 10 in RTL: a NIC on the bus of a Rocket core, and the same NIC behind root complex, link and endpoint of
//! `rtl/pcie_stack`, driven by a bare-metal program. Verilator counts cycles; at 1 GHz a cycle is a nanosecond, and a lane
//! of 8 GT/s carries one byte per cycle.

use super::super::figures;
use super::super::report::ExperimentReport;
use super::super::table::{Cell, Chart, Column, Line, Table};
use super::super::verdict::{Compared, Shape, Verdict};
use super::super::{Effort, PaperError};
use super::nic;
use super::rtl::rows;
use serde::Deserialize;
use std::sync::Mutex;

/// Programs that the simulation of the core needs.
const TOOLS: &[&str] = &["python3", "verilator", "g++", "riscv64-linux-gnu-gcc"];
/// Held while a target uses the simulators of the core.
static SYSTEM: Mutex<()> = Mutex::new(());
const COLUMNS: &[Column] = &[
    Column { key: "attached", head: "attached" },
    Column { key: "frame_bytes", head: "frame B" },
    Column { key: "frame_cycles", head: "RTL, cycles a frame" },
    Column { key: "simulation_ns", head: "simulation, ns a frame" },
    Column { key: "sending_percent", head: "sending %" },
    Column { key: "receiving_percent", head: "receiving %" },
    Column { key: "waiting_percent", head: "waiting for control %" },
    Column { key: "simulation_waiting_percent", head: "simulation: waiting %" },
    Column { key: "paper_waiting_percent", head: "paper: waiting %" },
];

/// A row of `make figure9` or `make figure10`.
#[derive(Deserialize)]
struct Row {
    attached: Attached,
    ports: Ports,
    lanes: u8,
    delay_cycles: u32,
    frame_bytes: u32,
    frame_cycles: f64,
    sending_percent: f64,
    receiving_percent: f64,
    waiting_percent: f64,
    paper_waiting_percent: Option<f64>,
}

/// Place of the NIC.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Attached {
    /// On the core's bus.
    Core,
    /// At the endpoint, below root complex and link.
    Pcie,
}

/// Ports of the NIC, and of the endpoint.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Ports {
    /// AXI4.
    Axi,
    /// TileLink, as in the study.
    Tilelink,
}

impl Row {
    fn name(&self) -> String {
        let place = match self.attached {
            Attached::Core => "bus of the core".into(),
            Attached::Pcie => format!("PCIe-{}, x{}", self.delay_cycles, self.lanes),
        };
        match self.ports {
            Ports::Axi => place,
            Ports::Tilelink => format!("{place}, TileLink"),
        }
    }

    /// Returns whether this is a row of one place with AXI4 ports and frames of one size.
    fn matches(&self, attached: Attached, frame_bytes: u32) -> bool {
        self.attached == attached && self.ports == Ports::Axi && self.frame_bytes == frame_bytes
    }

    /// Runs the simulation model with the same frames, delay and lanes.
    fn cells(&self, effort: &Effort) -> Result<Vec<Cell>, PaperError> {
        let setup = match self.attached {
            Attached::Core => nic::close(),
            Attached::Pcie => nic::over_pcie(self.delay_cycles).set("link.lanes", i64::from(self.lanes)),
        };
        let report = nic::run(setup.set("slot.0.ice-nic.frame_bytes", i64::from(self.frame_bytes)), effort)?;
        Ok(vec![
            Cell::Text(self.name()),
            Cell::integer(self.frame_bytes),
            Cell::Number(self.frame_cycles, 1),
            Cell::Number(nic::frame_ns(&report), 1),
            Cell::Number(self.sending_percent, 1),
            Cell::Number(self.receiving_percent, 1),
            Cell::Number(self.waiting_percent, 1),
            Cell::Number(nic::percent(report.waiting(), &report), 1),
            Cell::optional(self.paper_waiting_percent, 0),
        ])
    }
}

/// Rows with frames of one size over PCIe, with AXI4 ports.
fn over_pcie(rows: &[Row], frame_bytes: u32) -> impl Iterator<Item = &Row> {
    rows.iter().filter(move |row| row.matches(Attached::Pcie, frame_bytes))
}

fn table(title: &str, rows: &[Row], effort: &Effort) -> Result<Table, PaperError> {
    let rows = rows.iter().map(|row| row.cells(effort)).collect::<Result<_, _>>()?;
    Ok(Table { title: title.into(), columns: COLUMNS, rows })
}

fn notes(source: &str) -> Vec<String> {
    vec![
        format!("Paper: {source}. Its plots print no numbers, and it does not give the size of its frames."),
        "The NIC and the program are the same at both places. Core, bus and link have one clock. A lane carries one symbol in a cycle.".into(),
        "The shortest delay of the line is 3 cycles. At x1 and x2 the physical layers have a quarter and a half of the clock. The chart and the verdict are those of AXI4 ports.".into(),
        "The simulation's CPU takes no time between its accesses, and a zero-length read confirms its writes. In the RTL the endpoint accepts writes as posted, so the receive path ends earlier. The simulated NIC has 16 reads in flight, the NIC in RTL 8.".into(),
    ]
}

/// The horizontal axis of a chart.
struct Axis {
    label: &'static str,
    of: fn(&Row) -> f64,
}

/// A report with the lab, and the chart of the time per frame.
fn report(axis: &Axis, measured: &[Row]) -> ExperimentReport {
    let line = |bytes| {
        let points = over_pcie(measured, bytes).map(|row| ((axis.of)(row), row.frame_cycles));
        Line::riser(format!("frames of {bytes} B"), points.collect())
    };
    ExperimentReport {
        labs: vec![nic::LAB],
        chart: Some(Chart { x: axis.label, y: "time per frame (cycles)", lines: vec![line(1500), line(64)] }),
        ..ExperimentReport::default()
    }
}

/// Figure 9: one frame at a time, by the delay of the line.
pub(in crate::paper) fn delays(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let paper = figures::chipyard()?.nic;
    let measured: Vec<Row> = rows("figure9", TOOLS, &SYSTEM)?;
    let shapes = [1500, 64].map(|bytes| {
        let close = measured.iter().filter(|row| row.matches(Attached::Core, bytes));
        let mut falling: Vec<f64> = over_pcie(&measured, bytes).map(|row| row.frame_cycles).collect();
        falling.reverse();
        falling.extend(close.map(|row| row.frame_cycles));
        Shape::order(
            &format!("time per frame of {bytes} B rises with the delay, and is lowest on the bus"),
            &falling,
        )
    });
    let axis = Axis { label: "delay of the line, one way (cycles)", of: |row| row.delay_cycles.into() };
    Ok(ExperimentReport {
        verdict: Verdict::of(shapes.to_vec(), Vec::new()),
        tables: vec![table("Figure 9 in RTL: one frame at a time", &measured, effort)?],
        notes: notes(&paper.physical_latency_cycles.source),
        ..report(&axis, &measured)
    })
}

/// Figure 10: one frame at a time, by lanes.
pub(in crate::paper) fn lanes(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let paper = figures::chipyard()?.nic;
    let measured: Vec<Row> = rows("figure10", TOOLS, &SYSTEM)?;
    let at = |lanes, bytes, of: fn(&Row) -> f64| {
        over_pcie(&measured, bytes).find(|row| row.lanes == lanes).map_or(f64::NAN, of)
    };
    let cycles = |lanes, bytes| at(lanes, bytes, |row| row.frame_cycles);
    let shapes = [1500, 64].map(|bytes| {
        let what = format!("no effect of lanes, frames of {bytes} B: 110 % of x16 above x4, cycles");
        Shape::above(&what, &[(1.1 * cycles(16, bytes), cycles(4, bytes))])
    });
    let numbers = [1500, 64].map(|bytes| {
        let what = format!("waiting for control, frames of {bytes} B, x16 (§6.2)");
        Compared::usual(what, "%", paper.waiting_percent.value, at(16, bytes, |row| row.waiting_percent))
    });
    Ok(ExperimentReport {
        verdict: Verdict::of(shapes.to_vec(), numbers.to_vec()),
        tables: vec![table("Figure 10 in RTL: by lanes", &measured, effort)?],
        notes: notes(&paper.waiting_percent.source),
        ..report(&Axis { label: "lanes", of: |row| row.lanes.into() }, &measured)
    })
}
