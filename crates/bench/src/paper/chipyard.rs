// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The experiments of Chipyard's PCIe study (2022): read latency, write bandwidth, and a NIC that waits for control.

mod nic;
mod rtl;
mod rtl_nic;

pub(super) use nic::nic;
pub(super) use rtl::{bandwidth as rtl_bandwidth, latency as rtl_latency, table2 as rtl_table2};
pub(super) use rtl_nic::{delays as rtl_nic_delays, lanes as rtl_nic_lanes};

use super::figures;
use super::report::ExperimentReport;
use super::setup::Setup;
use super::table::{Cell, Chart, Column, Line, Table};
use super::verdict::{Compared, Limit, Shape, Verdict};
use super::{Effort, PaperError};
use crate::Row;

/// The lab of Figure 6: its path and its text.
const LATENCY_LAB: (&str, &str) =
    ("labs/papers/chipyard-latency.toml", include_str!("../../labs/papers/chipyard-latency.toml"));
/// The lab of Figure 7.
const BANDWIDTH_LAB: (&str, &str) =
    ("labs/papers/chipyard-bandwidth.toml", include_str!("../../labs/papers/chipyard-bandwidth.toml"));

/// Link widths of Figure 6.
const LANES: [u8; 5] = [1, 2, 4, 8, 16];
/// Payloads of Figure 6 in bytes, from 1 to 512. A read of 1 B moves one DW, as one of 4 B does.
const PAYLOADS: [u32; 10] = [1, 4, 8, 16, 32, 64, 128, 256, 384, 512];
/// Sizes of Figure 7 in bytes: on both sides of each payload boundary.
const SIZES: [u32; 14] = [64, 128, 192, 255, 256, 257, 320, 384, 511, 512, 513, 768, 1024, 1025];

/// Sizes at which x16 is compared with x8.
const COMPARED: [u32; 3] = [64, 256, 1024];

const LATENCY: &[Column] = &[
    Column { key: "payload_bytes", head: "payload B" },
    Column { key: "x1_ns", head: "x1 ns" },
    Column { key: "x2_ns", head: "x2 ns" },
    Column { key: "x4_ns", head: "x4 ns" },
    Column { key: "x8_ns", head: "x8 ns" },
    Column { key: "x16_ns", head: "x16 ns" },
    Column { key: "paper_x8_ns", head: "paper x8" },
    Column { key: "paper_measured_x8_ns", head: "hosts x8, in the paper" },
];

const BANDWIDTH: &[Column] = &[
    Column { key: "size_bytes", head: "size B" },
    Column { key: "effective_gbps", head: "effective Gb/s" },
    Column { key: "total_gbps", head: "total Gb/s" },
    Column { key: "x8_twice_gbps", head: "2 x effective at x8" },
    Column { key: "published_model_gbps", head: "pcie-bench's model" },
];

/// Returns a lab with `lanes`, transfers of `size` bytes, and equal numbers of counted and warm-up transfers.
fn varied(lab: (&'static str, &'static str), lanes: u8, size: u32, transfers: u64) -> Setup {
    // Every effort is far below the largest integer of a lab file.
    let transfers = i64::try_from(transfers).unwrap_or(i64::MAX);
    Setup::new(lab.0, lab.1)
        .set("link.lanes", i64::from(lanes))
        .set("slot.0.pcie-bench.size_bytes", i64::from(size))
        .set("slot.0.pcie-bench.transfers", transfers)
        .set("slot.0.pcie-bench.warm_up", transfers)
}

/// Figure 6: round-trip read latency by lanes and payload.
pub(super) fn latency(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let paper = figures::chipyard()?.latency;
    let mut lines: Vec<Vec<(f64, f64)>> = Vec::new();
    for lanes in LANES {
        let mut line = Vec::new();
        for size in PAYLOADS {
            let row = varied(LATENCY_LAB, lanes, size, effort.latency_transfers).measure()?;
            let ns = row.latency.map_or(0.0, |l| l.latency_ns_median);
            line.push((f64::from(size), ns));
        }
        lines.push(line);
    }
    let theirs = |figures: &[f64], bytes: u32| {
        paper.payload_bytes.iter().zip(figures).find(|(b, _)| **b == bytes).map(|(_, ns)| *ns)
    };
    let row = |(at, bytes): (usize, u32)| {
        let own = lines.iter().map(|line| Cell::Number(line[at].1, 1));
        let paper = [theirs(&paper.study_ns, bytes), theirs(&paper.measured_ns, bytes)]
            .map(|ns| Cell::optional(ns, 0));
        std::iter::once(Cell::integer(bytes)).chain(own).chain(paper).collect()
    };
    let rows = PAYLOADS.into_iter().enumerate().map(row).collect();
    let points =
        |ns: &[f64]| paper.payload_bytes.iter().map(|b| f64::from(*b)).zip(ns.iter().copied()).collect();
    let own = LANES.iter().zip(lines.clone()).map(|(lanes, line)| Line::riser(format!("x{lanes}"), line));
    let study = [
        Line::paper("paper x8", points(&paper.study_ns)),
        Line::paper("hosts x8", points(&paper.measured_ns)),
    ];
    let x8 = LANES.iter().position(|lanes| *lanes == 8).map_or(&[][..], |at| &lines[at][..]);
    Ok(ExperimentReport {
        verdict: latency_verdict(&paper, x8),
        labs: vec![LATENCY_LAB.0],
        tables: vec![Table { title: "Read latency, median".into(), columns: LATENCY, rows }],
        notes: vec![
            format!("Paper: {}.", paper.source),
            "Host profile `chipyard`: its latency is set so that one DW over Gen3 x8 takes 1 us, as in the study. Device profile `chipyard`: three stages store and forward the data. The study names them: the memory loader of the root complex (§3.2.3), its transmit buffer, and the receive buffer of the endpoint (§3.1.1).".into(),
            "A read of 1 B moves one DW, like a read of 4 B: only its byte enables differ.".into(),
            "512 B take 70 ns more on a Gen3 x8 wire than one DW, and 64 ns more in each stage. The width of the stages is assumed: 8 B per cycle of 1 GHz, the system bus of Rocket Chip. The study gives no width, and names the design of its root complex as a cause of its 350 ns. The 250 ns of measured hosts include the card's time for each byte and the host's time for each line.".into(),
        ],
        chart: Some(Chart { x: "payload (B)", y: "read latency (ns)", lines: own.chain(study).collect() }),
        ..ExperimentReport::default()
    })
}

/// Compares latencies at x8 with the study's. The limit is the study's own error to measured hosts.
fn latency_verdict(paper: &figures::Latency, x8: &[(f64, f64)]) -> Verdict {
    let at = |bytes: u32| x8.iter().find(|point| point.0 == f64::from(bytes)).map_or(f64::NAN, |p| p.1);
    let errors =
        paper.study_ns.iter().zip(&paper.measured_ns).map(|(study, hosts)| 100.0 * (study / hosts - 1.0));
    let error = errors.fold(0.0, f64::max);
    let numbers = paper.payload_bytes.iter().zip(&paper.study_ns).map(|(bytes, ns)| Compared {
        limit: Limit::Percent(error),
        ..Compared::usual(format!("read latency at x8, {bytes} B (§6.1)"), "ns", *ns, at(*bytes))
    });
    let falling: Vec<f64> = x8.iter().rev().map(|point| point.1).collect();
    // 1 B and 4 B are one DW.
    let shape =
        Shape::order("latency at x8 rises with each payload above one DW", &falling[..falling.len() - 1]);
    Verdict::of(vec![shape], numbers.collect())
}

/// Figure 7: bandwidth of writes by size.
pub(super) fn bandwidth(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let paper = figures::chipyard()?.bandwidth;
    let (mut rows, mut effective, mut total, mut factors) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for size in SIZES {
        let measure = |lanes| varied(BANDWIDTH_LAB, lanes, size, effort.bandwidth_transfers).measure();
        let (row, half) = (measure(16)?, measure(8)?);
        let up = row.upstream;
        let gbps = |row: &Row| row.bandwidth.map_or(0.0, |b| b.bandwidth_gbps);
        let payload = gbps(&row);
        // Bytes on the wire without SKP ordered sets, as the study counts them.
        let whole = payload * (up.wire_bytes - up.skp_bytes) as f64 / up.payload_bytes.max(1) as f64;
        let published = row.bandwidth.and_then(|b| b.model_published_gbps);
        rows.push(vec![
            Cell::integer(size),
            Cell::Number(payload, 2),
            Cell::Number(whole, 2),
            Cell::Number(paper.lanes_factor * gbps(&half), 2),
            Cell::optional(published, 2),
        ]);
        factors.push((size, payload / gbps(&half)));
        effective.push((f64::from(size), payload));
        total.push((f64::from(size), whole));
    }
    let at = |points: &[(f64, f64)], size: u32| {
        points.iter().find(|point| point.0 == f64::from(size)).map_or(f64::NAN, |point| point.1)
    };
    let teeth = [256, 512, 1024].map(|size| (at(&effective, size), at(&effective, size + 1)));
    let over: Vec<(f64, f64)> =
        total.iter().zip(&effective).map(|(total, effective)| (total.1, effective.1)).collect();
    let shapes = vec![
        Shape::above("effective bandwidth drops after 256, 512 and 1024 B", &teeth),
        Shape::above("total above effective bandwidth at each size", &over),
    ];
    let compared = factors.iter().filter(|(size, _)| COMPARED.contains(size)).map(|(size, factor)| {
        Compared::usual(format!("x16 over x8, {size} B (§6.1)"), "", paper.lanes_factor, *factor)
    });
    Ok(ExperimentReport {
        verdict: Verdict::of(shapes, compared.collect()),
        labs: vec![BANDWIDTH_LAB.0],
        tables: vec![Table { title: "DMA writes at Gen3 x16, MPS 256".into(), columns: BANDWIDTH, rows }],
        notes: vec![
            format!("Paper: {}. Its plot prints no numbers. Only the factor to x8 and the saw-tooth after each multiple of 256 B can be compared.", paper.source),
            "Total counts headers, framing, ECRCs, LCRCs and the DLLPs of this direction. The lab turns ECRC on in devices, as in the study: 4 B for each TLP.".into(),
            "A write moves whole DWs, also if its size is not a multiple of 4 B.".into(),
        ],
        chart: Some(Chart {
            x: "size (B)",
            y: "bandwidth (Gb/s)",
            lines: vec![Line::riser("effective", effective), Line::riser("total", total)],
        }),
        ..ExperimentReport::default()
    })
}
