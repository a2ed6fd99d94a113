// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The experiments of gem5's PCI Express model (IISWC'18), measured at the device, and by `dd` in a guest.

mod dd;
mod disk;

pub(super) use dd::dd;
pub(super) use disk::{port_buffer, replay_buffer, switch_latency, width};

use super::figures;
use super::report::ExperimentReport;
use super::setup::Setup;
use super::table::{Cell, Chart, Column, Line, Table, fit};
use super::verdict::{Compared, Shape, Verdict};
use super::{Effort, PaperError};
use tlp::Duration;

const LAB: &str = "labs/papers/gem5-mmio.toml";
const TEXT: &str = include_str!("../../labs/papers/gem5-mmio.toml");

const COLUMNS: &[Column] = &[
    Column { key: "root_complex_latency_ns", head: "root complex ns" },
    Column { key: "paper_latency_ns", head: "paper ns" },
    Column { key: "latency_ns", head: "riser ns" },
    Column { key: "paper_step_ns", head: "paper step" },
    Column { key: "step_ns", head: "riser step" },
];

const FIT: &[Column] = &[
    Column { key: "of", head: "least squares" },
    Column { key: "traversals", head: "traversals" },
    Column { key: "latency_ns_at_zero", head: "ns at zero" },
];

/// Table II: register read latency by latency of the root complex.
pub(super) fn mmio(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let paper = figures::gem5()?.mmio;
    let mut riser = Vec::new();
    for &rc in &paper.root_complex_latency_ns {
        riser.push((f64::from(rc), register_read(effort, rc)?));
    }
    let theirs: Vec<(f64, f64)> =
        riser.iter().zip(&paper.latency_ns).map(|((rc, _), ns)| (*rc, *ns)).collect();
    let step =
        |points: &[(f64, f64)], at: usize| at.checked_sub(1).map(|before| points[at].1 - points[before].1);
    let row = |at: usize| {
        vec![
            Cell::integer(riser[at].0),
            Cell::integer(theirs[at].1),
            Cell::Number(riser[at].1, 3),
            Cell::optional(step(&theirs, at), 0),
            Cell::optional(step(&riser, at), 3),
        ]
    };
    let rows = (0..theirs.len()).map(row).collect();
    let line = |name: &str, points: &[(f64, f64)]| {
        let (slope, zero) = fit(points).unzip();
        vec![Cell::Text(name.into()), Cell::optional(slope, 3), Cell::optional(zero, 1)]
    };
    Ok(ExperimentReport {
        verdict: verdict(&theirs, &riser),
        labs: vec![LAB],
        tables: vec![
            Table { title: "4 B register read".into(), columns: COLUMNS, rows },
            Table { title: "Straight lines".into(), columns: FIT, rows: vec![line("paper", &theirs), line("riser", &riser)] },
        ],
        notes: vec![
            format!("Paper: {}, measured by a kernel module. Its latencies include the CPU, the bus before the root complex and the NIC's own time, without a figure for them. riser's are two traversals, the wire, and 115 ns for these parts, fitted to the mean of the table. So the slope and the differences are independent of the paper, and the mean is not.", paper.source),
            "A read and its completion each cross the root complex once, so the slope is 2. The paper's first four rows rise by 40 ns for each 25 ns (1.6 traversals), and the last by 79 ns (3.2). Its own mechanism, a latency for each request and response, gives 50 ns at every step. The text says \"around 40 ns\" for each 25 ns, as in the first four rows.".into(),
        ],
        chart: Some(Chart {
            x: "root complex latency (ns)",
            y: "register read latency (ns)",
            lines: vec![Line::paper("paper", theirs.clone()), Line::riser("riser", riser.clone())],
        }),
        ..ExperimentReport::default()
    })
}

/// Compares the latencies and the slopes of their straight lines. The paper states no error for Table II.
fn verdict(theirs: &[(f64, f64)], riser: &[(f64, f64)]) -> Verdict {
    let latency = |(theirs, riser): (&(f64, f64), &(f64, f64))| {
        Compared::usual(format!("register read, root complex {} ns", theirs.0), "ns", theirs.1, riser.1)
    };
    let slopes = fit(theirs).zip(fit(riser));
    let slope = slopes.map(|(theirs, riser)| {
        Compared::usual(
            "slope by the root complex's latency, least squares of Table II",
            "",
            theirs.0,
            riser.0,
        )
    });
    let falling: Vec<f64> = riser.iter().rev().map(|(_, ns)| *ns).collect();
    let shape = Shape::order("latency rises with each step of the root complex", &falling);
    Verdict::of(vec![shape], slope.into_iter().chain(theirs.iter().zip(riser).map(latency)).collect())
}

/// Returns the median latency of the reads, in nanoseconds. Some reads wait for an SKP ordered set.
fn register_read(effort: &Effort, root_complex_latency_ns: u32) -> Result<f64, PaperError> {
    let latency = Duration::from_ns(root_complex_latency_ns.into());
    let setup = Setup::new(LAB, TEXT)
        .set("slot.0.mmio.reads", i64::from(effort.reads))
        .host(move |host| host.root_complex_latency = latency);
    let mut latencies = setup.device::<devices::mmio::MmioReport>()?.0.latencies;
    latencies.sort_unstable();
    let median = latencies.get(latencies.len() / 2);
    Ok(median.map_or(f64::NAN, |median| median.as_ps() as f64 / 1_000.0))
}
