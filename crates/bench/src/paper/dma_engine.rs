// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The experiments of the SR-IOV DMA engine (ReConFig'15): one transfer at a time over its size, native and with the request sizes that the
//! paper's platform allows with SR-IOV. Two settings of the lab are fitted, each to one figure of the paper. All else is predicted.

mod beyond;

pub(super) use beyond::beyond;

use super::figures::{self, Figure};
use super::report::Report;
use super::setup::Setup;
use super::table::{Cell, Chart, Column, Line, Table};
use super::{Effort, PaperError};
use plug::gbps;
use tlp::Time;

const LAB: &str = "labs/papers/dma-engine.toml";
const TEXT: &str = include_str!("../../labs/papers/dma-engine.toml");

/// Max_Payload_Size and Max_Read_Request_Size of virtual functions on the paper's platform (§V).
const VF_BYTES: i64 = 128;
/// Transfer size of the paper's figures.
const MEGABYTE: u32 = 1 << 20;

const COLUMNS: &[Column] = &[
    Column { key: "size_bytes", head: "size B" },
    Column { key: "native_gbps", head: "native Gb/s" },
    Column { key: "vf_gbps", head: "VF Gb/s" },
    Column { key: "vf_of_native_percent", head: "VF of native %" },
];

const SAID: &[Column] = &[
    Column { key: "what", head: "what" },
    Column { key: "paper", head: "paper" },
    Column { key: "riser", head: "riser" },
    Column { key: "miss_percent", head: "off by %" },
    Column { key: "how", head: "" },
];

/// Direction of the transfers, and whether a virtual function makes them.
#[derive(Clone, Copy)]
struct Run {
    directions: &'static str,
    is_virtual: bool,
}

impl Run {
    fn gbps(self, size_bytes: u32) -> Result<f64, PaperError> {
        let set = |key: &str| format!("slot.0.dma-engine.{key}");
        let mut setup = Setup::new(LAB, TEXT)
            .set(&set("size_bytes"), i64::from(size_bytes))
            .set(&set("directions"), self.directions);
        if self.is_virtual {
            setup = setup
                .set("link.mps_bytes", VF_BYTES)
                .set("link.mrrs_bytes", VF_BYTES)
                .set(&set("vfs"), 1)
                .set(&set("drive"), "virtual");
        }
        let (report, ..) = setup.device::<devices::dma_engine::Report>()?;
        let function = usize::from(self.is_virtual);
        Ok(gbps(report.functions[function].bytes(), report.elapsed(function, Time::MAX)))
    }
}

/// Rates by size, native and of a virtual function.
struct Curves {
    sizes: &'static [u32],
    native: Vec<f64>,
    vf: Vec<f64>,
}

impl Curves {
    fn run(effort: &Effort, directions: &'static str) -> Result<Curves, PaperError> {
        let sizes = effort.dma_sizes;
        let of = |is_virtual| {
            sizes.iter().map(|size| Run { directions, is_virtual }.gbps(*size)).collect::<Result<_, _>>()
        };
        Ok(Curves { sizes, native: of(false)?, vf: of(true)? })
    }

    /// Returns both rates at 1 MB.
    fn at_megabyte(&self) -> (f64, f64) {
        let at = self.sizes.iter().position(|size| *size == MEGABYTE);
        at.map_or((0.0, 0.0), |at| (self.native[at], self.vf[at]))
    }

    fn points(&self, rates: &[f64]) -> Vec<(f64, f64)> {
        self.sizes.iter().map(|s| f64::from(*s)).zip(rates.iter().copied()).collect()
    }

    /// Returns the smallest size with this native rate, by linear interpolation between two runs; zero if the rate is never reached.
    fn reaches(&self, gbps: f64) -> f64 {
        let points = self.points(&self.native);
        let crossing = points.windows(2).find(|pair| pair[0].1 < gbps && pair[1].1 >= gbps);
        crossing.map_or(0.0, |pair| {
            let ((x, y), (next_x, next_y)) = (pair[0], pair[1]);
            x + (next_x - x) * (gbps - y) / (next_y - y)
        })
    }

    fn table(&self, title: &str) -> Table {
        let row = |at: usize| {
            let (native, vf) = (self.native[at], self.vf[at]);
            let share = Cell::Number(100.0 * vf / native, 1);
            vec![Cell::whole(self.sizes[at]), Cell::Number(native, 2), Cell::Number(vf, 2), share]
        };
        Table { title: title.to_owned(), columns: COLUMNS, rows: (0..self.sizes.len()).map(row).collect() }
    }

    fn chart(&self, y: &'static str) -> Chart {
        let line = |name: &str, rates: &[f64]| Line::riser(name, self.points(rates));
        let lines = vec![line("native", &self.native), line("VF", &self.vf)];
        Chart { x: "transfer size (B)", y, lines }
    }
}

/// Returns a row that compares a figure of the paper with riser's.
fn said(what: &str, paper: &Figure, riser: f64, how: &str) -> Vec<Cell> {
    vec![
        Cell::Text(what.to_owned()),
        Cell::Number(paper.value, 2),
        Cell::Number(riser, 2),
        Cell::Number(100.0 * (riser / paper.value - 1.0), 1),
        Cell::Text(format!("{how}: {}", paper.source)),
    ]
}

fn report(curves: &Curves, title: &str, rows: Vec<Vec<Cell>>, notes: Vec<String>) -> Report {
    let said = Table { title: "Figures of the paper".into(), columns: SAID, rows };
    Report {
        labs: vec![LAB],
        tables: vec![curves.table(title), said],
        notes,
        chart: Some(curves.chart("Gb/s")),
        ..Report::default()
    }
}

/// Figure 6: from device to host.
pub(super) fn figure6(effort: &Effort) -> Result<Report, PaperError> {
    let paper = figures::dma_engine()?.d2h;
    let curves = Curves::run(effort, "d2h")?;
    let native = curves.at_megabyte().0;
    let large = || {
        curves.sizes.iter().zip(curves.native.iter().zip(&curves.vf)).filter(|(size, _)| **size > 128 << 10)
    };
    let least = large().map(|(_, (native, vf))| 100.0 * vf / native).fold(f64::INFINITY, f64::min);
    let knee = curves.reaches(0.75 * native);
    let rows = vec![
        said("native Gb/s at 1 MB", &paper.native_gbps, native, "set_up_ns fitted to it"),
        said("smallest VF rate, % of native", &paper.vf_of_native_percent, least, "predicted"),
        said("size for 75 % of that, B", &paper.good_above_bytes, knee, "predicted"),
    ];
    let notes = vec![
        "Each transfer is set up after the one before it ends, as the paper counts: 18 us of software, then the doorbell. A transfer of n bytes takes this time plus n divided by the rate of the wire. The knee is where both parts are equal.".into(),
        "VF: Max_Payload_Size is 128 B, so headers take more of the wire. The rates of the paper's plot do not rise above 1 MB; here they do, since the share of the set-up falls. A cost for each piece of memory would explain that; the paper does not name one.".into(),
    ];
    Ok(report(&curves, "D2H", rows, notes))
}

/// Figure 7: from host to device.
pub(super) fn figure7(effort: &Effort) -> Result<Report, PaperError> {
    let paper = figures::dma_engine()?.h2d;
    let curves = Curves::run(effort, "h2d")?;
    let (native, vf) = curves.at_megabyte();
    let rows = vec![
        said("native Gb/s at 1 MB", &paper.native_gbps, native, "predicted"),
        said("VF Gb/s at 1 MB", &paper.vf_gbps, vf, "window fitted to it"),
    ];
    let notes = vec![
        "Native: with read requests of 4096 B the window covers more than the latency, so the wire and the set-up are the limits. VF: with requests of 128 B, 32 times as many, a window of 14 is the limit. A window is a whole number: 13 places give 32.16 Gb/s, and 15 give 36.70.".into(),
        "The paper's VF is in a virtual machine behind an IOMMU, but not here. The fitted window includes the latency that this adds.".into(),
    ];
    Ok(report(&curves, "H2D", rows, notes))
}
