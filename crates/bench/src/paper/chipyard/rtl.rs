// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures 6 and 7 and Table 2 with the PCI Express stack in RTL of `rtl/pcie_stack`: counted by Verilator cycle by cycle, and
//! mapped by Yosys. The commands of its Makefile measure; here their results stand next to the paper and the simulation.

use super::super::figures::{self, ResourceTable, Resources};
use super::super::make::{self, make};
use super::super::report::ExperimentReport;
use super::super::table::{Cell, Chart, Column, Line, Table};
use super::super::verdict::{Compared, Shape, Verdict};
use super::super::{Effort, PaperError};
use super::{BANDWIDTH_LAB, LATENCY_LAB, latency_verdict, varied};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::sync::{Mutex, PoisonError};

/// Folder of the design in a checkout.
const FOLDER: &str = "rtl/pcie_stack";
/// The layers of a port, as top-level modules.
const LAYERS: [&str; 3] = ["pcie_tl", "pcie_dll", "pcie_phy"];

const LATENCY: &[Column] = &[
    Column { key: "payload_bytes", head: "payload B" },
    Column { key: "rtl_x8_ns", head: "RTL x8 ns" },
    Column { key: "simulation_x8_ns", head: "simulation x8 ns" },
    Column { key: "difference_x8_cycles", head: "difference, cycles" },
    Column { key: "rtl_x16_ns", head: "RTL x16 ns" },
    Column { key: "paper_x8_ns", head: "paper x8" },
];

const BANDWIDTH: &[Column] = &[
    Column { key: "size_bytes", head: "size B" },
    Column { key: "effective_gbps", head: "effective Gb/s" },
    Column { key: "total_gbps", head: "total Gb/s" },
    Column { key: "simulation_gbps", head: "simulation, effective" },
    Column { key: "difference_percent", head: "difference %" },
    Column { key: "x8_effective_gbps", head: "x8 effective Gb/s" },
];

const RESOURCES: &[Column] = &[
    Column { key: "module", head: "module" },
    Column { key: "logic_luts", head: "LUT of logic" },
    Column { key: "memory_luts", head: "LUT of memories" },
    Column { key: "flip_flops", head: "FF" },
    Column { key: "block_rams", head: "RAMB36" },
    Column { key: "longest_path_cells", head: "longest path, cells" },
];

/// A row of `make figure6`.
#[derive(Deserialize)]
struct LatencyRow {
    lanes: u8,
    payload_bytes: u32,
    latency_ps: f64,
    clock_ps: f64,
}

/// A row of `make figure7`.
#[derive(Deserialize)]
struct BandwidthRow {
    lanes: u8,
    payload_bytes: u32,
    effective_gbps: f64,
    total_gbps: f64,
}

/// Programs that a simulation of the RTL needs.
pub(super) const SIMULATION_TOOLS: &[&str] = &["python3", "verilator", "g++"];

/// Held while a target uses the simulators of two ports.
static PORTS: Mutex<()> = Mutex::new(());

/// Reads the rows that a target of the Makefile prints as CSV. The target needs the programs `tools`. Targets with the same `builds` run one
/// after the other, because they would build the same files.
pub(super) fn rows<R: DeserializeOwned>(
    target: &str,
    tools: &[&str],
    builds: &Mutex<()>,
) -> Result<Vec<R>, PaperError> {
    let _alone = builds.lock().unwrap_or_else(PoisonError::into_inner);
    let text = make(FOLDER, tools, &[target])?;
    let rows: Result<_, csv::Error> = csv::Reader::from_reader(text.as_bytes()).deserialize().collect();
    rows.map_err(|e| PaperError::Run(format!("make -C {FOLDER} {target}: {e}")))
}

/// Figure 6: round-trip latency of reads.
pub(in crate::paper) fn latency(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let paper = figures::chipyard()?.latency;
    let measured: Vec<LatencyRow> = rows("figure6", SIMULATION_TOOLS, &PORTS)?;
    let of = |lanes| measured.iter().filter(move |row| row.lanes == lanes);
    let points = |lanes| of(lanes).map(|row| (f64::from(row.payload_bytes), row.latency_ps / 1e3));
    let (x8, x16): (Vec<_>, Vec<_>) = (points(8).collect(), points(16).collect());
    let mut simulated = Vec::new();
    let mut cells = Vec::new();
    for (row, x16) in of(8).zip(&x16) {
        let size = row.payload_bytes;
        let wire =
            varied(LATENCY_LAB, 8, size, effort.latency_transfers).without("slot.0.pcie-bench.profile");
        let simulation = wire.measure()?;
        let ns = simulation.latency.map_or(f64::NAN, |l| l.latency_ns_median);
        let published = paper.payload_bytes.iter().position(|bytes| *bytes == size);
        cells.push(vec![
            Cell::integer(size),
            Cell::Number(row.latency_ps / 1e3, 1),
            Cell::Number(ns, 1),
            Cell::Number((row.latency_ps - ns * 1e3) / row.clock_ps, 1),
            Cell::Number(x16.1, 1),
            Cell::optional(published.map(|at| paper.study_ns[at]), 0),
        ]);
        simulated.push((f64::from(size), ns));
    }
    // Payloads of up to 32 B, a beat of the data path, take the same time.
    let compared: Vec<_> = x8.iter().copied().filter(|(size, _)| *size <= 4.0 || *size >= 32.0).collect();
    let study = paper.payload_bytes.iter().map(|b| f64::from(*b)).zip(paper.study_ns.iter().copied());
    let study = Line::paper("paper x8", study.collect());
    Ok(ExperimentReport {
        verdict: latency_verdict(&paper, &compared),
        labs: vec![LATENCY_LAB.0],
        tables: vec![Table { title: "Read latency in the RTL".into(), columns: LATENCY, rows: cells }],
        notes: vec![
            format!("Paper: {}.", paper.source),
            "The latency of the line is set so that one DW takes 1 us at x8, as in the study; it is the same time at x16. The simulation's host is set to the same latency, and its card has no stages that store and forward. So a difference is the time that the RTL's pipeline adds for each further byte.".into(),
            "Payloads of up to 32 B, a beat of the RTL's data path, take the same time.".into(),
            "A cycle is 4.0625 ns at x8 and 2.03125 ns at x16: 32 symbols of 8 GT/s and 128b/130b.".into(),
        ],
        chart: Some(Chart {
            x: "payload (B)",
            y: "read latency (ns)",
            lines: vec![Line::riser("RTL x8", x8), Line::riser("RTL x16", x16), Line::riser("simulation x8", simulated), study],
        }),
        ..ExperimentReport::default()
    })
}

/// Figure 7: bandwidth of writes with ECRC.
pub(in crate::paper) fn bandwidth(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let paper = figures::chipyard()?.bandwidth;
    let measured: Vec<BandwidthRow> = rows("figure7", SIMULATION_TOOLS, &PORTS)?;
    let of = |lanes| measured.iter().filter(move |row| row.lanes == lanes);
    let mut cells = Vec::new();
    for (row, x8) in of(16).zip(of(8)) {
        let simulation =
            varied(BANDWIDTH_LAB, 16, row.payload_bytes, effort.bandwidth_transfers).measure()?;
        let gbps = simulation.bandwidth.map_or(f64::NAN, |b| b.bandwidth_gbps);
        cells.push(vec![
            Cell::integer(row.payload_bytes),
            Cell::Number(row.effective_gbps, 2),
            Cell::Number(row.total_gbps, 2),
            Cell::Number(gbps, 2),
            Cell::Number(100.0 * (row.effective_gbps / gbps - 1.0), 2),
            Cell::Number(x8.effective_gbps, 2),
        ]);
    }
    let at = |lanes, size| {
        of(lanes).find(|row| row.payload_bytes == size).map_or(f64::NAN, |row| row.effective_gbps)
    };
    let teeth = [256, 512, 1024].map(|size| (at(16, size), at(16, size + 4)));
    let over: Vec<_> = of(16).map(|row| (row.total_gbps, row.effective_gbps)).collect();
    let shapes = vec![
        Shape::above("effective bandwidth drops after 256, 512 and 1024 B", &teeth),
        Shape::above("total above effective bandwidth at each size", &over),
    ];
    let factors = super::COMPARED.map(|size| {
        let factor = at(16, size) / at(8, size);
        Compared::usual(format!("x16 over x8, {size} B (§6.1)"), "", paper.lanes_factor, factor)
    });
    let points = |of: fn(&BandwidthRow) -> f64| {
        let x16 = measured.iter().filter(|row| row.lanes == 16);
        x16.map(|row| (f64::from(row.payload_bytes), of(row))).collect()
    };
    Ok(ExperimentReport {
        verdict: Verdict::of(shapes, factors.to_vec()),
        labs: vec![BANDWIDTH_LAB.0],
        tables: vec![Table {
            title: "DMA writes in the RTL at Gen3 x16, MPS 256".into(),
            columns: BANDWIDTH,
            rows: cells,
        }],
        notes: vec![
            format!(
                "Paper: {}. Its plot prints no numbers. Only the factor to x8 and the saw-tooth after each multiple of 256 B can be compared.",
                paper.source
            ),
            "Total counts headers, framing, ECRCs, LCRCs and the DLLPs of both directions.".into(),
            "Sizes in the RTL are whole DWs, so the size after 256 B is 260 B.".into(),
        ],
        chart: Some(Chart {
            x: "size (B)",
            y: "bandwidth (Gb/s)",
            lines: vec![
                Line::riser("effective", points(|row| row.effective_gbps)),
                Line::riser("total", points(|row| row.total_gbps)),
            ],
        }),
        ..ExperimentReport::default()
    })
}

/// A row of `make synth`: cells of a module, in the order LUTs of logic, LUTs of memories, FFs and block RAMs.
fn resources(report: &str, layer: &str) -> Result<(Resources, f64), PaperError> {
    let unexpected = || PaperError::Run(format!("make -C {FOLDER} synth TOP={layer}: no row of all modules"));
    let path =
        report.lines().find_map(|line| line.strip_prefix("Longest path: ")?.split(' ').next()?.parse().ok());
    let [logic_luts, memory_luts, flip_flops, block_rams] = make::row(report, "all, flattened")[..] else {
        return Err(unexpected());
    };
    Ok((Resources { logic_luts, memory_luts, flip_flops, block_rams }, path.unwrap_or(f64::NAN)))
}

/// Table 2: resources of a port.
pub(in crate::paper) fn table2(_: &Effort) -> Result<ExperimentReport, PaperError> {
    let ResourceTable { source, cells: paper } = figures::chipyard()?.resources;
    let cells = |name: &str, of: &Resources, path: Cell| {
        let numbers = [of.logic_luts, of.memory_luts, of.flip_flops, of.block_rams];
        let numbers = numbers.map(Cell::integer);
        [Cell::Text(name.to_owned())].into_iter().chain(numbers).chain([path]).collect::<Vec<_>>()
    };
    let mut sum = Resources::default();
    let mut table = Vec::new();
    for layer in LAYERS {
        let report = make(FOLDER, &["yosys"], &["synth", &format!("TOP={layer}")])?;
        let (of, path) = resources(&report, layer)?;
        table.push(cells(layer, &of, Cell::integer(path)));
        sum += of;
    }
    let share = 200.0 * sum.luts() / paper.luts();
    table.push(cells("one port", &sum, Cell::Empty));
    table.push(cells("paper: PCIe", &paper, Cell::Empty));
    Ok(ExperimentReport {
        tables: vec![Table { title: "Resources, Yosys for xcup".into(), columns: RESOURCES, rows: table }],
        notes: vec![
            format!("Paper: {source}."),
            format!("Two ports take {share:.0} % of the paper's LUTs of logic and memories. The paper's tool is Vivado, and the paper does not state which parts its block has, so only the magnitude can be compared."),
            "Each layer is mapped alone, with its default parameters: x8, Gen3, one virtual channel, 256 bits.".into(),
        ],
        ..ExperimentReport::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_read_from_the_last_row() {
        let report = "| module | a | b |\n|---|---|\n| pcie_tl | 1 | 2 | 3 | 4 |\n| all, flattened | 4858 | 328 | 3956 | 0.5 |\nLongest path: 14 cells\n";
        let (of, path) = resources(report, "pcie_tl").unwrap();
        assert_eq!((of.luts(), of.flip_flops, of.block_rams, path), (5186.0, 3956.0, 0.5, 14.0));
        assert!(resources("Longest path: 14 cells\n", "pcie_tl").is_err());
        assert!(resources("| all, flattened | 1 | 2 |\n", "pcie_tl").is_err());
    }
}
