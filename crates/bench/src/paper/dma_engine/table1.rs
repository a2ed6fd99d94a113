// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Table I: resources of the engine in RTL of `rtl/dma_engine`, mapped by Yosys, without and with a virtual function.

use super::super::make::{self, make};
use super::super::published;
use super::super::report::ExperimentReport;
use super::super::table::{Cell, Column, Table};
use super::super::verdict::{Shape, Step, Verdict};
use super::super::{Effort, PaperError};

const FOLDER: &str = "rtl/dma_engine";

const COLUMNS: &[Column] = &[
    Column { key: "design", head: "design" },
    Column { key: "luts", head: "LUT" },
    Column { key: "memory_luts", head: "of these, memories" },
    Column { key: "flip_flops", head: "FF" },
    Column { key: "block_rams", head: "block RAM" },
];

/// The paper's rows: design, LUTs, memory LUTs, FFs and block RAMs.
const PAPER: [(&str, [u32; 4]); 4] = [
    ("paper: DMA logic", [5141, 0, 5320, 8]),
    ("paper: block of PCI Express", [3810, 56, 3334, 9]),
    ("paper: all, without SR-IOV", [9171, 136, 8784, 19]),
    ("paper: all, with SR-IOV", [9238, 136, 8951, 19]),
];

/// Cells of a design: LUTs, LUTs of memories among them, FFs, and block RAMs.
type Cells = [f64; 4];

/// Reads the row of `functions` from the report of `make synth`.
fn cells(report: &str, functions: &str) -> Result<Cells, PaperError> {
    match make::row(report, functions)[..] {
        [_, memories, luts, flip_flops, block_rams] => Ok([luts, memories, flip_flops, block_rams]),
        _ => Err(PaperError::Run(format!("make -C {FOLDER} synth: no row of {functions}"))),
    }
}

fn row(design: &str, cells: [Cell; 4]) -> Vec<Cell> {
    [Cell::Text(design.to_owned())].into_iter().chain(cells).collect()
}

/// Table I: resources in an FPGA.
pub(in super::super) fn table1(_: &Effort) -> Result<ExperimentReport, PaperError> {
    let report = make(FOLDER, &["yosys"], &["synth", "FUNCTIONS=1 2"])?;
    let [native, virtualized] = ["1 PF + 0 VF", "1 PF + 1 VF"].map(|functions| cells(&report, functions));
    let (native, virtualized) = (native?, virtualized?);
    let [luts, _, flip_flops, block_rams] = virtualized;
    let numbers = published::dma_engine("table1")?.compare_all(&[
        ("luts", luts),
        ("flip_flops", flip_flops),
        ("block_rams", block_rams),
    ])?;
    let sign = |what, at: usize| {
        Shape::sign(what, Step::Rises, ["no SR-IOV", "SR-IOV"], [native[at], virtualized[at]])
    };
    let unknown = || [Cell::Empty, Cell::Empty, Cell::Empty, Cell::Empty];
    let riser = [("riser: DMA logic, 1 PF", native), ("riser: DMA logic, 1 PF + 1 VF", virtualized)];
    let rows = riser.map(|(design, cells)| row(design, cells.map(Cell::integer)));
    let rest = [
        row("riser: block of PCI Express", unknown()),
        row("riser: all, without SR-IOV", unknown()),
        row("riser: all, with SR-IOV", unknown()),
    ];
    let paper = PAPER.map(|(design, cells)| row(design, cells.map(Cell::integer)));
    Ok(ExperimentReport {
        verdict: Verdict::of(vec![sign("LUTs", 0), sign("FFs", 2)], numbers),
        tables: vec![Table {
            title: "Resources on a 7-series part, by Yosys".into(),
            columns: COLUMNS,
            rows: rows.into_iter().chain(rest).chain(paper).collect(),
        }],
        notes: vec![
            "The block of PCI Express is the vendor's: its share in a design with riser's engine is unknown here, so the sums are too. The paper's \
             rows of whole designs include that block and logic around it."
                .into(),
            "Counts are before place and route. The paper's tool is Vivado. riser's engine keeps its windows and rings in LUTs and \
             distributed RAM where the paper's has FFs."
                .into(),
        ],
        ..ExperimentReport::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_those_of_the_named_functions() {
        let report = "| functions | a |\n|---|---|\n| 1 PF + 0 VF | 10 | 2 | 12 | 5 | 7.5 |\n| 1 PF + 1 VF | 11 | 2 | 13 | 6 | 8 |\n";
        assert_eq!(cells(report, "1 PF + 0 VF").unwrap(), [12.0, 2.0, 5.0, 7.5]);
        assert_eq!(cells(report, "1 PF + 1 VF").unwrap(), [13.0, 2.0, 6.0, 8.0]);
        assert!(cells(report, "1 PF + 2 VF").is_err());
    }
}
