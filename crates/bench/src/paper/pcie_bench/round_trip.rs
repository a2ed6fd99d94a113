// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figure 2: one frame from a program to the cable and back, and the share of PCI Express in it.

use super::super::report::ExperimentReport;
use super::super::setup::Setup;
use super::super::table::{Cell, Chart, Column, Line, Table};
use super::super::verdict::{Shape, Verdict};
use super::super::{Effort, PaperError};
use super::super::{figures, published};
use devices::packet_nic::{self, Trip};
use session::TransactionReport;
use session::transactions::transactions;

const LAB: &str = "labs/nic/round-trip.toml";
const TEXT: &str = include_str!("../../../labs/nic/round-trip.toml");

/// Sizes of frames in bytes.
const SIZES: [u32; 7] = [64, 128, 256, 512, 1024, 1500, 1520];

/// How a frame is handed over, and how the program notices its return: names in tables, and keys.
const WAYS: [(&str, &str, &str); 3] = [
    ("PIO, memory polled", "dpdk", "pio"),
    ("descriptor, memory polled", "dpdk", "ring"),
    ("descriptor, interrupt and head pointer", "simple", "ring"),
];

const COLUMNS: &[Column] = &[
    Column { key: "size_bytes", head: "size B" },
    Column { key: "total_ns", head: "total ns" },
    Column { key: "pcie_ns", head: "PCIe ns" },
    Column { key: "pcie_percent", head: "PCIe %" },
    Column { key: "to_device_ns", head: "to device" },
    Column { key: "descriptor_ns", head: "descriptor" },
    Column { key: "fetch_ns", head: "fetch" },
    Column { key: "network_ns", head: "MAC and cable" },
    Column { key: "store_ns", head: "store, notice" },
    Column { key: "paper_total_ns", head: "paper total" },
    Column { key: "paper_pcie_percent", head: "paper PCIe %" },
];

const STAGES: &[Column] = &[
    Column { key: "way", head: "way" },
    Column { key: "kind", head: "transaction" },
    Column { key: "requests_per_frame", head: "per frame" },
    Column { key: "latency_ns", head: "mean ns" },
    Column { key: "queue_ns", head: "queue" },
    Column { key: "serialization_ns", head: "serialization" },
    Column { key: "wire_ns", head: "wire" },
    Column { key: "root_complex_ns", head: "root complex" },
    Column { key: "memory_ns", head: "memory" },
    Column { key: "completer_ns", head: "device" },
];

/// Results of one way to hand over a frame.
struct HandoverResults {
    table: Table,
    totals: Vec<(f64, f64)>,
    pcie: Vec<(f64, f64)>,
    stages: Vec<Vec<Cell>>,
}

/// Round trips by frame size and stage.
pub(in super::super) fn round_trip(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let paper = figures::pcie_bench()?.round_trip;
    let measure = |(name, kind, send)| measure(name, kind, send, effort, &paper);
    let ways = WAYS.into_iter().map(measure).collect::<Result<Vec<_>, _>>()?;
    let verdict = ways.first().map(|way| verdict(way, &paper)).transpose()?.unwrap_or_default();
    let at = f64::from(paper.bytes);
    let mut lines = vec![
        Line::paper("paper, total", vec![(at, paper.total_ns)]),
        Line::paper("paper, PCIe", vec![(at, paper.pcie_ns)]),
    ];
    let mut stages = Vec::new();
    let mut tables = Vec::new();
    for (way, (name, ..)) in ways.into_iter().zip(WAYS) {
        lines.push(Line::riser(format!("{name}: total"), way.totals));
        lines.push(Line::riser(format!("{name}: PCIe"), way.pcie));
        stages.extend(way.stages);
        tables.push(way.table);
    }
    tables.push(Table {
        title: format!("Transactions for a frame of {} B, by stage", paper.bytes),
        columns: STAGES,
        rows: stages,
    });
    Ok(ExperimentReport {
        verdict,
        labs: vec![LAB],
        tables,
        notes: vec![
            format!("Paper: {}. Its plot prints no numbers.", paper.source),
            "MAC and cable are set in the lab: 70 ns, and the frame's time on a 40 Gb/s Ethernet from preamble to FCS, 28 ns for 128 B. This matches the difference of about 100 ns between the paper's 1000 and 900. The part of PCIe is everything else: host, root complex, link and the NIC's own logic, in both directions.".into(),
            "The paper's program writes the frame into the card and polls memory, without a kernel: see the first table. Its time of PCI Express includes the core's loads, and its stores through write-combining buffers. riser does not model these buffers, and the paper's host is unknown. riser's NIC takes the time of NetFPGA, 116 ns for both directions together: both are FPGAs, and the paper calls their latencies in line (§6.1). A descriptor that the card must read, and interrupts, take longer than the paper's: no NIC with rings is as fast.".into(),
            "If a program polls memory, it sees a frame when the write of the descriptor is visible: after root complex and memory.".into(),
            "The parts of a row add up to its total. In the last table, posted transactions overlap: the lines of a frame written by PIO, or a frame and its descriptor.".into(),
        ],
        chart: Some(Chart { x: "frame (B)", y: "round trip (ns)", lines }),
        ..ExperimentReport::default()
    })
}

/// Compares the paper's own way to hand over a frame.
fn verdict(way: &HandoverResults, paper: &figures::RoundTrip) -> Result<Verdict, PaperError> {
    let at = |points: &[(f64, f64)], size: u32| {
        points.iter().find(|point| point.0 == f64::from(size)).map_or(f64::NAN, |point| point.1)
    };
    let share = |size| 100.0 * at(&way.pcie, size) / at(&way.totals, size);
    let numbers = published::pcie_bench("figure2")?.compare_all(&[
        ("total", at(&way.totals, paper.bytes)),
        ("pcie", at(&way.pcie, paper.bytes)),
        ("large_percent", share(paper.large_bytes)),
    ])?;
    let shapes = vec![
        Shape::order(
            "the share of PCI Express falls from 64 to 1500 B",
            &SIZES[..6].iter().map(|size| share(*size)).collect::<Vec<_>>(),
        ),
        Shape::above("its share is more than 90 % for small packets (64 B)", &[(share(64), 90.0)]),
    ];
    Ok(Verdict::of(shapes, numbers))
}

fn measure(
    name: &str,
    kind: &str,
    send: &str,
    effort: &Effort,
    paper: &figures::RoundTrip,
) -> Result<HandoverResults, PaperError> {
    let mut way = HandoverResults {
        table: Table { title: name.to_owned(), columns: COLUMNS, rows: Vec::new() },
        totals: Vec::new(),
        pcie: Vec::new(),
        stages: Vec::new(),
    };
    for size in SIZES {
        let setup = Setup::new(LAB, TEXT)
            .set("slot.0.packet-nic.kind", kind)
            .set("slot.0.packet-nic.send", send)
            .set("slot.0.packet-nic.frame_bytes", i64::from(size))
            .set("slot.0.packet-nic.frames", i64::from(effort.frames));
        let (report, session, _) = setup.device::<packet_nic::PacketNicReport>()?;
        let trip = median(&report.trips).ok_or_else(|| PaperError::Run(format!("{LAB}: no round trip")))?;
        let all = transactions(&session.fabric, 0, session.host_basis());
        let trip = Shown::of(&trip);
        way.table.rows.push(row(size, &trip, paper));
        let x = f64::from(size);
        way.totals.push((x, trip.total()));
        way.pcie.push((x, trip.pcie()));
        if size == paper.bytes {
            let frames = report.tx.frames as f64;
            way.stages.extend(all.iter().filter(|t| belongs(t)).map(|t| stage(name, t, frames)));
        }
    }
    Ok(way)
}

/// Returns the trip with the median total.
fn median(trips: &[Trip]) -> Option<Trip> {
    let mut trips = trips.to_vec();
    trips.sort_by_key(Trip::total);
    trips.get(trips.len() / 2).copied()
}

/// The parts of a trip, in ns.
struct Shown([f64; 5]);

impl Shown {
    fn of(trip: &Trip) -> Shown {
        Shown(trip.parts().map(|part| ns(part.as_ps())))
    }

    fn total(&self) -> f64 {
        self.0.iter().sum()
    }

    /// Returns the time of all parts except MAC and cable.
    fn pcie(&self) -> f64 {
        self.total() - self.0[3]
    }
}

fn ns(ps: u64) -> f64 {
    ps as f64 / 1_000.0
}

fn row(size: u32, trip: &Shown, paper: &figures::RoundTrip) -> Vec<Cell> {
    let share = |part: f64, whole: f64| 100.0 * part / whole;
    let (total, pcie) = (trip.total(), trip.pcie());
    let (paper_total, paper_share) = match size {
        s if s == paper.bytes => (Some(paper.total_ns), Some(share(paper.pcie_ns, paper.total_ns))),
        s if s == paper.large_bytes => (None, Some(paper.large_pcie_percent)),
        _ => (None, None),
    };
    let first = [
        Cell::integer(size),
        Cell::Number(total, 1),
        Cell::Number(pcie, 1),
        Cell::Number(share(pcie, total), 1),
    ];
    let parts = trip.0.map(|part| Cell::Number(part, 1));
    let last = [Cell::optional(paper_total, 0), Cell::optional(paper_share, 0)];
    first.into_iter().chain(parts).chain(last).collect()
}

/// Returns true for transactions of a round trip. Configuration requests are not.
fn belongs(transaction: &TransactionReport) -> bool {
    ["host_write", "host_read", "dma_read", "dma_write", "interrupt"].contains(&transaction.kind)
}

fn stage(way: &str, t: &TransactionReport, frames: f64) -> Vec<Cell> {
    let mean = &t.mean;
    let parts = [
        t.latency_ns_mean,
        mean.queue_ns,
        mean.serialization_ns,
        mean.wire_ns,
        mean.root_complex_ns,
        mean.memory_ns,
        mean.completer_ns,
    ];
    let first = [
        Cell::Text(way.to_owned()),
        Cell::Text(t.kind.to_owned()),
        Cell::Number(t.requests as f64 / frames, 1),
    ];
    first.into_iter().chain(parts.map(|ns| Cell::Number(ns, 1))).collect()
}
