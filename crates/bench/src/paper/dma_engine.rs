// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The experiments of the SR-IOV DMA engine (ReConFig'15): one transfer at a time over its size, native and with the sizes of requests that
//! SR-IOV left on its platform. Two settings of the lab are fitted, each on one figure of the paper; all else is predicted.

mod beyond;

pub(super) use beyond::beyond;

use super::figures::{self, Figure};
use super::setup::Setup;
use super::table::{Cell, Chart, Column, Line, Report, Table};
use super::{Effort, PaperError};
use plug::gbps;
use tlp::Time;

const LAB: &str = "labs/papers/dma-engine.toml";
const TEXT: &str = include_str!("../../../../labs/papers/dma-engine.toml");

/// Max_Payload_Size and Max_Read_Request_Size of virtual functions on the paper's platform (§V).
const VF_BYTES: i64 = 128;
/// The size at which the paper's figures stand.
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

/// Which way, and whether a virtual function does it.
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

/// Rates by size: native, and of a virtual function.
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

    /// The rates of both at 1 MB.
    fn at_megabyte(&self) -> (f64, f64) {
        let at = self.sizes.iter().position(|size| *size == MEGABYTE);
        at.map_or((0.0, 0.0), |at| (self.native[at], self.vf[at]))
    }

    fn points(&self, rates: &[f64]) -> Vec<(f64, f64)> {
        self.sizes.iter().map(|s| f64::from(*s)).zip(rates.iter().copied()).collect()
    }

    /// The size from which on the native rate is that, on a straight line between two that were run; zero where it never is.
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

/// A row of what the paper says.
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
    let said = Table { title: "What the paper says".into(), columns: SAID, rows };
    Report {
        labs: vec![LAB],
        tables: vec![curves.table(title), said],
        notes,
        chart: Some(curves.chart("Gb/s")),
        ..Report::default()
    }
}

/// Figure 6: from the device to the host.
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
        said("native Gb/s at 1 MB", &paper.native_gbps, native, "set_up_ns fitted on it"),
        said("least VF of native, %", &paper.vf_of_native_percent, least, "predicted"),
        said("75 % of that from, B", &paper.good_above_bytes, knee, "predicted"),
    ];
    let notes = vec![
        "Each transfer is set up when the one before it has ended, as the paper counts it: 18 us of software, then the doorbell. A transfer of n bytes takes that and n by the rate of the wire; the knee is where both are alike.".into(),
        "VF: Max_Payload_Size 128 B, so that headers take more of the wire. The paper's plot shows no more above 1 MB; here the set-up is ever less of it, which would have to be a cost for each piece of memory that the paper does not name.".into(),
    ];
    Ok(report(&curves, "D2H", rows, notes))
}

/// Figure 7: from the host to the device.
pub(super) fn figure7(effort: &Effort) -> Result<Report, PaperError> {
    let paper = figures::dma_engine()?.h2d;
    let curves = Curves::run(effort, "h2d")?;
    let (native, vf) = curves.at_megabyte();
    let rows = vec![
        said("native Gb/s at 1 MB", &paper.native_gbps, native, "predicted"),
        said("VF Gb/s at 1 MB", &paper.vf_gbps, vf, "window fitted on it"),
    ];
    let notes = vec![
        "Native: read requests of 4096 B, of which the window holds more than the latency; the wire and the set-up bound it. VF: requests of 128 B, 32 times as many, of which 14 under way are the latency's worth: the window bounds it. 13 places give 32.16 Gb/s, 15 36.70: a window is a whole number.".into(),
        "The paper's VF is in a virtual machine behind an IOMMU, here it is not: what that adds to the latency is in the fitted window.".into(),
    ];
    Ok(report(&curves, "H2D", rows, notes))
}
