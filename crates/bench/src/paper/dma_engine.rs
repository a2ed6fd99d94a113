// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The experiments of the SR-IOV DMA engine (ReConFig'15): one transfer at a time over its size, native and with the request sizes that the
//! paper's platform allows with SR-IOV. Two settings of the lab are fitted, each to one figure of the paper. All else is predicted.

mod beyond;
mod table1;

pub(super) use beyond::beyond;
pub(super) use table1::table1;

use super::figures::{self, Figure};
use super::report::ExperimentReport;
use super::setup::Setup;
use super::table::{Cell, Chart, Column, Line, Table};
use super::verdict::{Compared, Shape, Verdict};
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
    Column { key: "pf_128_gbps", head: "PF, 128 B" },
    Column { key: "vf_gbps", head: "VF, host" },
    Column { key: "vf_guest_gbps", head: "VF, VM" },
    Column { key: "vf_of_native_percent", head: "VF, host, of native %" },
    Column { key: "vf_guest_of_native_percent", head: "VF, VM, of native %" },
];

/// The four cases of Figures 6 and 7.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    /// Without SR-IOV.
    Native,
    /// The physical function, with the request sizes of SR-IOV.
    Physical,
    /// The virtual function, driven by the host.
    Virtual,
    /// The virtual function, driven by a virtual machine: behind the IOMMU, with 2 MiB pages.
    Guest,
}

impl Case {
    const ALL: [Case; 4] = [Case::Native, Case::Physical, Case::Virtual, Case::Guest];

    /// Rate of transfers in `directions`.
    fn gbps(self, directions: &'static str, size_bytes: u32) -> Result<f64, PaperError> {
        let set = |key: &str| format!("slot.0.dma-engine.{key}");
        let mut setup = Setup::new(LAB, TEXT)
            .set(&set("size_bytes"), i64::from(size_bytes))
            .set(&set("directions"), directions);
        if self != Case::Native {
            let drive = if self == Case::Physical { "physical" } else { "virtual" };
            setup = setup
                .set("link.mps_bytes", VF_BYTES)
                .set("link.mrrs_bytes", VF_BYTES)
                .set(&set("vfs"), 1)
                .set(&set("drive"), drive);
        }
        if self == Case::Guest {
            setup = setup.set("host.iommu", "2m");
        }
        let (report, ..) = setup.device::<devices::dma_engine::EngineReport>()?;
        let function = usize::from(matches!(self, Case::Virtual | Case::Guest));
        Ok(gbps(report.functions[function].bytes(), report.elapsed(function, Time::MAX)))
    }
}

/// Rates by size, of each case.
struct Curves {
    sizes: &'static [u32],
    rates: [Vec<f64>; 4],
}

impl Curves {
    fn run(effort: &Effort, directions: &'static str) -> Result<Curves, PaperError> {
        let sizes = effort.dma_sizes;
        let of = |case: Case| -> Result<Vec<f64>, PaperError> {
            sizes.iter().map(|size| case.gbps(directions, *size)).collect()
        };
        let [native, physical, vf, guest] = Case::ALL.map(of);
        Ok(Curves { sizes, rates: [native?, physical?, vf?, guest?] })
    }

    fn of(&self, case: Case) -> &[f64] {
        &self.rates[case as usize]
    }

    /// Returns a rate at 1 MB.
    fn at_megabyte(&self, case: Case) -> f64 {
        let at = self.sizes.iter().position(|size| *size == MEGABYTE);
        at.map_or(f64::NAN, |at| self.of(case)[at])
    }

    fn points(&self, case: Case) -> Vec<(f64, f64)> {
        self.sizes.iter().map(|s| f64::from(*s)).zip(self.of(case).iter().copied()).collect()
    }

    /// Returns the rates of a case in per cent of native ones.
    fn of_native(&self, case: Case) -> Vec<f64> {
        self.of(case).iter().zip(self.of(Case::Native)).map(|(rate, native)| 100.0 * rate / native).collect()
    }

    /// Returns the smallest size with this native rate, by linear interpolation between two runs; zero if the rate is never reached.
    fn reaches(&self, gbps: f64) -> f64 {
        let points = self.points(Case::Native);
        let crossing = points.windows(2).find(|pair| pair[0].1 < gbps && pair[1].1 >= gbps);
        crossing.map_or(0.0, |pair| {
            let ((x, y), (next_x, next_y)) = (pair[0], pair[1]);
            x + (next_x - x) * (gbps - y) / (next_y - y)
        })
    }

    fn table(&self, title: &str) -> Table {
        let shares = [Case::Virtual, Case::Guest].map(|case| self.of_native(case));
        let row = |at: usize| {
            let rates = Case::ALL.map(|case| Cell::Number(self.of(case)[at], 2));
            let shares = shares.each_ref().map(|share| Cell::Number(share[at], 1));
            [Cell::integer(self.sizes[at])].into_iter().chain(rates).chain(shares).collect()
        };
        Table { title: title.to_owned(), columns: COLUMNS, rows: (0..self.sizes.len()).map(row).collect() }
    }

    fn chart(&self) -> Chart {
        let names = COLUMNS[1..].iter().map(|column| column.head);
        let lines = names.zip(Case::ALL).map(|(name, case)| Line::riser(name, self.points(case)));
        Chart { x: "transfer size (B)", y: "Gb/s", lines: lines.collect() }
    }
}

/// Returns the comparison of a figure with riser's number. `how` is how riser found its number.
fn compared(what: &str, unit: &str, paper: &Figure, riser: f64, how: &str) -> Compared {
    Compared::usual(format!("{what}, {how} ({})", paper.source), unit, paper.value, riser)
}

fn report(curves: &Curves, title: &str, verdict: Verdict, notes: Vec<String>) -> ExperimentReport {
    ExperimentReport {
        verdict,
        labs: vec![LAB],
        tables: vec![curves.table(title)],
        notes,
        chart: Some(curves.chart()),
        ..ExperimentReport::default()
    }
}

/// Note on the cases that need a platform.
const CASES: &str = "PF, VF on the host: Max_Payload_Size and Max_Read_Request_Size are 128 B, as the paper's platform sets them with SR-IOV. VF in a VM: in addition behind the IOMMU with 2 MiB pages, since the paper's buffers are in huge pages. The processor's time in the virtual machine is not simulated.";

/// Figure 6: from device to host.
pub(super) fn figure6(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let paper = figures::dma_engine()?.d2h;
    let curves = Curves::run(effort, "d2h")?;
    let native = curves.at_megabyte(Case::Native);
    let wire = model::Params::new(3, 8, 256, 4096, 64)
        .and_then(|params| model::exact(&params, model::Transfer::of(MEGABYTE), &model::Dllps::default()))
        .map_err(|e| PaperError::Lab(e.to_string()))?;
    let numbers = vec![
        compared("native at 1 MB", "Gb/s", &paper.native_gbps, native, "set_up_ns fitted to it"),
        compared(
            "good performance above; here: 75 % of that",
            "B",
            &paper.good_above_bytes,
            curves.reaches(0.75 * native),
            "predicted",
        ),
        compared("most that PCI Express carries", "Gb/s", &paper.wire_gbps, wire.write_gbps, "by formula"),
    ];
    let share = |case: Case| {
        let large = curves.sizes.iter().zip(curves.of_native(case)).filter(|(size, _)| **size > 128 << 10);
        large.map(|(_, percent)| (percent, paper.vf_of_native_percent.value)).collect::<Vec<_>>()
    };
    let shapes = vec![
        Shape::above("PF above 90 % of native, transfers above 128 KiB (§V)", &share(Case::Physical)),
        Shape::above(
            "VF on the host above 90 % of native, transfers above 128 KiB (§V)",
            &share(Case::Virtual),
        ),
        Shape::above("VF in a VM above 90 % of native, transfers above 128 KiB (§V)", &share(Case::Guest)),
    ];
    let notes = vec![
        "Each transfer is set up after the one before it ends, as the paper counts: 18 us of software, then the doorbell. A transfer of n bytes takes this time plus n divided by the rate of the wire. The knee is where both parts are equal.".into(),
        CASES.into(),
        "The rates of the paper's plot do not rise above 1 MB; here they do, since the share of the set-up falls. A cost for each piece of memory would explain that; the paper does not name one.".into(),
    ];
    Ok(report(&curves, "D2H", Verdict::of(shapes, numbers), notes))
}

/// Figure 7: from host to device.
pub(super) fn figure7(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let paper = figures::dma_engine()?.h2d;
    let curves = Curves::run(effort, "h2d")?;
    let [native, guest] = [Case::Native, Case::Guest].map(|case| curves.at_megabyte(case));
    let numbers = vec![
        compared("native at 1 MB", "Gb/s", &paper.native_gbps, native, "predicted"),
        compared("VF in a VM at 1 MB", "Gb/s", &paper.vf_gbps, guest, "window fitted to it"),
        compared("VF in a VM of native", "%", &paper.vf_of_native_percent, 100.0 * guest / native, "as both"),
    ];
    let shapes = vec![Shape::above("native above VF in a VM at 1 MB", &[(native, guest)])];
    let notes = vec![
        "Native: with read requests of 4096 B the window covers more than the latency, so the wire and the set-up are the limits. VF: with requests of 128 B, 32 times as many, a window of 14 is the limit. A window is a whole number: 13 places give 31.07 Gb/s, and 15 give 34.98.".into(),
        CASES.into(),
    ];
    Ok(report(&curves, "H2D", Verdict::of(shapes, numbers), notes))
}
