// SPDX-License-Identifier: Apache-2.0 OR MIT
//! §2 and §7: the number of reads that a NIC must have in flight to keep up with its Ethernet, by formula and by a NIC with a
//! limited number.

use super::super::published;
use super::super::report::ExperimentReport;
use super::super::setup::Setup;
use super::super::table::{Cell, Chart, Column, Line, Table};
use super::super::verdict::{Shape, Verdict};
use super::super::{Effort, PaperError};
use super::{ETHERNET_GBPS, HOST, NICS, rate, varied, way_gbps};
use crate::Plan;
use crate::Test;
use devices::packet_nic;
use model::{QUOTED, Quoted, in_flight as needed, packet_ns};

/// Size of the paper's frame with FCS, in bytes.
const FRAME_BYTES: u32 = 128;
/// Numbers of outstanding frame reads.
const READS: [u16; 12] = [1, 2, 4, 8, 12, 16, 18, 20, 24, 32, 40, 64];

/// Share of the Ethernet's rate that counts as reached.
const LINE_RATE: f64 = 0.99;

const BUDGET: &[Column] = &[
    Column { key: "latency", head: "latency" },
    Column { key: "latency_ns", head: "ns" },
    Column { key: "packet_ns", head: "packet every ns" },
    Column { key: "needed", head: "under way" },
    Column { key: "paper_needed", head: "paper says" },
];

const RATES: &[Column] = &[
    Column { key: "reads", head: "outstanding reads" },
    Column { key: "tx_gbps", head: "sending alone Gb/s" },
    Column { key: "tx_line_rate_percent", head: "of 40G Ethernet %" },
    Column { key: "tx_place_ns", head: "ns per read" },
    Column { key: "gbps", head: "both directions Gb/s" },
    Column { key: "line_rate_percent", head: "of 40G Ethernet %" },
    Column { key: "place_ns", head: "ns per read" },
];

/// The budget, and the rate that a NIC reaches with each number of reads.
pub(in super::super) fn in_flight(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let packet = packet_ns(FRAME_BYTES, ETHERNET_GBPS.into()).map_err(lab)?;
    let host_ns = latency(effort)?;
    let mut budget = QUOTED.iter().map(quoted).collect::<Result<Vec<_>, _>>()?.concat();
    budget.push(row(&format!("LAT_RD on {HOST}, with an ideal card"), host_ns, packet, None)?);
    let (mut rows, mut alone, mut both) = (Vec::new(), Vec::new(), Vec::new());
    let (size, nic) = (FRAME_BYTES, &NICS[2]);
    let ethernet = model::ethernet_gbps(ETHERNET_GBPS.into(), size);
    for reads in READS {
        let setup = varied_reads(size, effort, reads);
        let (nic, ..) =
            setup.set("slot.0.packet-nic.traffic", "tx").device::<packet_nic::PacketNicReport>()?;
        let sent = way_gbps(&nic.tx, size);
        let gbps = rate(varied_reads(size, effort, reads), size)?;
        alone.push((f64::from(reads), sent));
        both.push((f64::from(reads), gbps));
        // Little's law: how long each read is in flight.
        let place_ns = |gbps: f64| f64::from(reads) * f64::from(size) * 8.0 / gbps;
        let shown = |gbps: f64| {
            [(gbps, 2), (100.0 * gbps / ethernet, 1), (place_ns(gbps), 0)].map(|(x, n)| Cell::Number(x, n))
        };
        rows.push([Cell::integer(reads)].into_iter().chain(shown(sent)).chain(shown(gbps)).collect());
    }
    let flat = vec![(1.0, ethernet), (64.0, ethernet)];
    let number =
        published::pcie_bench("in_flight")?.compare("quotient", needed(900.0, 30.0).map_err(lab)?.exact)?;
    let at = |reads: f64| both.iter().find(|point| point.0 == reads).map_or(f64::NAN, |point| point.1);
    let shape = Shape::above(
        "at least 30 reads for 40G Ethernet both ways: reached with 64, not with 24",
        &[(at(64.0), LINE_RATE * ethernet), (LINE_RATE * ethernet, at(24.0))],
    );
    Ok(ExperimentReport {
        verdict: Verdict::of(vec![shape], vec![number]),
        labs: vec![nic.lab],
        tables: vec![
            Table { title: format!("Transfers in flight for {FRAME_BYTES} B at {ETHERNET_GBPS} Gb/s"), columns: BUDGET, rows: budget },
            Table { title: format!("82599-style NIC, DPDK driver, on {HOST}"), columns: RATES, rows },
        ],
        notes: vec![
            "The paper says \"at least 30\" twice. In §2 that is 900 ns divided by \"around every 30 ns\". In §7 it comes with 560 to 666 ns and 29.6 ns, whose quotient is 19 to 23.".into(),
            "A frame occupies its buffer in the NIC until it has left, so also during its time on the Ethernet. This adds one to the quotient. \"ns per read\" is that time, by Little's law. Reads of descriptors are additional, up to two batches of 40.".into(),
            "LAT_RD makes one read at a time, from a window of 8 KiB in a cache. The NIC's frames come from memory. Each of its reads also waits in the host until earlier writes are visible (no read passes a write, `PCIe 5.0 §2.4.1`): descriptors written back, and with both directions also frames. The number depends on the latency under load, which is neither the paper's 560 to 666 ns nor LAT_RD. With that latency, at least 30 is right.".into(),
            "`riser model inflight` answers for other sizes, rates, latencies and hosts.".into(),
        ],
        chart: Some(Chart {
            x: "outstanding reads",
            y: "frames per direction (Gb/s)",
            lines: vec![
                Line::riser("sending alone", alone),
                Line::riser("both ways", both),
                Line::paper("40G Ethernet", flat),
            ],
        }),
        ..ExperimentReport::default()
    })
}

/// Returns the lab of a NIC with this many reads, and its Ethernet.
fn varied_reads(size: u32, effort: &Effort, reads: u16) -> Setup {
    varied(&NICS[2], size, effort.packets, HOST)
        .set("slot.0.packet-nic.reads", i64::from(reads))
        .set("slot.0.packet-nic.ethernet_gbps", i64::from(ETHERNET_GBPS))
}

fn lab(error: impl std::fmt::Display) -> PaperError {
    PaperError::Lab(error.to_string())
}

/// Returns a row for each end of a latency range that the paper quotes.
fn quoted(q: &Quoted) -> Result<Vec<Vec<Cell>>, PaperError> {
    let section = q.source.split(':').next().unwrap_or(q.name);
    let mut ends = vec![q.least_ns];
    ends.extend((q.most_ns > q.least_ns).then_some(q.most_ns));
    ends.into_iter().map(|ns| row(section, ns, q.packet_ns, Some(q.says))).collect()
}

fn row(name: &str, latency_ns: f64, packet_ns: f64, says: Option<u32>) -> Result<Vec<Cell>, PaperError> {
    let answer = needed(latency_ns, packet_ns).map_err(lab)?;
    Ok(vec![
        Cell::Text(name.to_owned()),
        Cell::Number(latency_ns, 1),
        Cell::Number(packet_ns, 1),
        Cell::integer(answer.needed),
        Cell::optional(says.map(f64::from), 0),
    ])
}

/// Returns the median latency of reading a frame on the host, without the card's own time.
fn latency(effort: &Effort) -> Result<f64, PaperError> {
    let plan = Plan {
        host: HOST.into(),
        latency_transfers: effort.latency_transfers,
        warm_up: Some(effort.latency_transfers),
        ..Plan::default()
    };
    let row = plan.measure(Test::LatRd, FRAME_BYTES).map_err(|e| PaperError::Run(e.to_string()))?;
    row.latency.map(|l| l.latency_ns_median).ok_or_else(|| PaperError::Run("no latency".into()))
}
