// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The figures of pcie-bench (SIGCOMM'18). Figure 1 has three NICs as devices with their drivers, and the closed form of each.
//! Figures 4 to 9 are rows of the benchmark on the measured configurations.

mod caches;
mod cards;
mod grid;
mod in_flight;
mod placement;
mod round_trip;

pub(super) use caches::{caches, findings};
pub(super) use cards::{bandwidth, distribution, latency};
pub(super) use in_flight::in_flight;
pub(super) use placement::{iommu, remote};
pub(super) use round_trip::round_trip;

use super::report::ExperimentReport;
use super::setup::Setup;
use super::table::{Cell, Chart, Column, Line, Table};
use super::verdict::{Shape, Verdict};
use super::{Effort, PaperError};
use super::{figures, published};
use crate::nic_form;
use devices::packet_nic;
use model::{Dllps, FCS_BYTES, Form, Packeting, Params, Transfer, ethernet_gbps};

/// A NIC: its name in a lab, its closed form, and the path and text of its lab.
struct Nic {
    name: &'static str,
    closed_form: &'static str,
    lab: &'static str,
    text: &'static str,
}

/// The NICs of Figure 1.
const NICS: [Nic; 3] = [
    Nic {
        name: "simple",
        closed_form: "simple",
        lab: "labs/nic/simple.toml",
        text: include_str!("../../labs/nic/simple.toml"),
    },
    Nic {
        name: "kernel driver",
        closed_form: "82599-kernel",
        lab: "labs/nic/kernel.toml",
        text: include_str!("../../labs/nic/kernel.toml"),
    },
    Nic {
        name: "DPDK driver",
        closed_form: "82599-dpdk",
        lab: "labs/nic/dpdk.toml",
        text: include_str!("../../labs/nic/dpdk.toml"),
    },
];

/// Sizes of Figure 1 in bytes: on both sides of each payload boundary.
pub(super) const SIZES: [u32; 16] =
    [64, 128, 192, 256, 257, 320, 384, 512, 513, 640, 768, 769, 1024, 1025, 1280, 1520];
/// The host that is compared with the ideal one.
const HOST: &str = "xeon-e5-2637v3";
/// Rate of the Ethernet in Figure 1.
const ETHERNET_GBPS: u32 = 40;

const COLUMNS: &[Column] = &[
    Column { key: "size_bytes", head: "size B" },
    Column { key: "model_exact_gbps", head: "closed form Gb/s" },
    Column { key: "ideal_gbps", head: "ideal host Gb/s" },
    Column { key: "difference_percent", head: "difference %" },
    Column { key: "host_gbps", head: "xeon-e5-2637v3 Gb/s" },
    Column { key: "host_40g_gbps", head: "and 40G Ethernet" },
    Column { key: "ethernet_gbps", head: "40G Ethernet" },
];

/// Results of one NIC, by size.
struct Curve {
    rows: Vec<Vec<Cell>>,
    closed: Vec<(f64, f64)>,
    ideal: Vec<(f64, f64)>,
    host: Vec<(f64, f64)>,
    ethernet: Vec<(f64, f64)>,
    /// The largest difference between closed form and simulation in percent, and its size.
    worst: (f64, u32),
}

/// Gen3 x8, MPS 256, MRRS 512 (SIGCOMM'18, §3), as in the labs.
fn params() -> Result<Params, PaperError> {
    Params::new(3, 8, 256, 512, 64).map_err(|e| PaperError::Lab(e.to_string()))
}

/// Returns a lab of a NIC with frames of `size` bytes, including the FCS, which is not in host memory.
fn varied(nic: &Nic, size: u32, frames: u32, host: &str) -> Setup {
    Setup::new(nic.lab, nic.text)
        .set("host.profile", host)
        .set("slot.0.packet-nic.frame_bytes", i64::from(size - FCS_BYTES))
        .set("slot.0.packet-nic.frames", i64::from(frames))
        .set("slot.0.packet-nic.warm_up", 2 * i64::from(frames))
}

/// Returns the rate in one direction of frames of `size` bytes with FCS, in Gb/s.
fn way_gbps(way: &packet_nic::DirectionCounts, size: u32) -> f64 {
    let (frames, time) = way.pace();
    frames as f64 * f64::from(size) * 8_000.0 / time.as_ps().max(1) as f64
}

/// Returns the rate of received frames of a lab.
fn rate(setup: Setup, size: u32) -> Result<f64, PaperError> {
    Ok(way_gbps(&setup.device::<packet_nic::PacketNicReport>()?.0.rx, size))
}

/// Figure 1: throughput by frame size, in both directions at once.
pub(super) fn nics(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let paper = figures::pcie_bench()?.nics;
    let curves = NICS.iter().map(|nic| curve(nic, effort)).collect::<Result<Vec<_>, _>>()?;
    let differences = NICS.iter().zip(&curves).map(|(nic, curve)| {
        let (percent, size) = curve.worst;
        format!("{} {percent:+.1} % at {size} B", nic.name)
    });
    let differences = differences.collect::<Vec<_>>().join(", ");
    let mut lines = Vec::new();
    for (nic, curve) in NICS.iter().zip(&curves) {
        lines.push(Line::riser(format!("{}, ideal host", nic.name), curve.ideal.clone()));
        lines.push(Line::riser(format!("{}, {HOST}", nic.name), curve.host.clone()));
        lines.push(Line::paper(format!("{}, closed form", nic.name), curve.closed.clone()));
    }
    lines.extend(curves.first().map(|c| Line::paper("40G Ethernet", c.ethernet.clone())));
    let table =
        |(nic, curve): (&Nic, Curve)| Table { title: nic.name.into(), columns: COLUMNS, rows: curve.rows };
    Ok(ExperimentReport {
        verdict: verdict(effort)?,
        labs: NICS.iter().map(|nic| nic.lab).collect(),
        tables: NICS.iter().zip(curves).map(table).collect(),
        notes: vec![
            format!("Paper: {}; the plot prints no other numbers.", paper.source),
            format!("Largest differences from the closed form, on the ideal host: {differences}. There the wire is the limit, which the closed form describes."),
            format!("In the paper, the simple NIC does not reach 40 Gb/s Ethernet with frames of {} B or less.", paper.simple_line_rate_above_bytes),
            format!("On {HOST} a register read stalls a core for its whole latency. The simple NIC makes one such read for every frame, so it has 16 cores for each direction (`workers`). Up to 64 reads of frames may be in flight (`reads`). The time of the host's own instructions is not modelled."),
            "Sizes and rates of frames include the FCS, which is not in host memory. On the Ethernet, each frame has 20 B more. All sent frames come back, so both directions have the same rate.".into(),
        ],
        chart: Some(Chart { x: "frame (B)", y: "frames per direction (Gb/s)", lines }),
        ..ExperimentReport::default()
    })
}

/// Compares the rates of the link, by the paper's own formulas, and the order of the NICs, by simulation.
fn verdict(effort: &Effort) -> Result<Verdict, PaperError> {
    let failed = |e: model::ModelError| PaperError::Lab(e.to_string());
    let params = params()?;
    let link = |size| model::published(&params, Transfer::of(size)).map_err(failed);
    let usable = link(1024)?;
    let numbers = published::pcie_bench("figure1")?.compare_all(&[
        ("raw", params.raw_gbps()),
        ("tlp", usable.tlp_gbps),
        ("usable", usable.read_write_gbps),
    ])?;
    let simulated = |nic: &Nic, size| rate(varied(nic, size, effort.packets, HOST), size);
    let [simple, kernel, dpdk] = &NICS;
    let simple_512 = simulated(simple, 512)?;
    let link_gbps =
        model::exact(&params, Transfer::of(512), &Dllps::default()).map_err(failed)?.read_write_gbps;
    let order = [link_gbps, simulated(dpdk, 512)?, simulated(kernel, 512)?, simple_512];
    let line = f64::from(ETHERNET_GBPS);
    let shapes = vec![
        Shape::order(
            &format!("at 512 B: link > DPDK driver > kernel driver > simple NIC; here simulated, on {HOST}"),
            &order,
        ),
        Shape::above(
            &format!(
                "the simple NIC is below 40 Gb/s at 512 B and above it at 1024 B; here simulated, on {HOST}"
            ),
            &[(line, simple_512), (simulated(simple, 1024)?, line)],
        ),
    ];
    Ok(Verdict::of(shapes, numbers))
}

fn curve(nic: &Nic, effort: &Effort) -> Result<Curve, PaperError> {
    let (params, description) =
        (params()?, nic_form::shipped(nic.closed_form).map_err(|e| PaperError::Lab(e.to_string()))?);
    let mut curve = Curve {
        rows: Vec::new(),
        closed: Vec::new(),
        ideal: Vec::new(),
        host: Vec::new(),
        ethernet: Vec::new(),
        worst: (0.0, 0),
    };
    for &size in effort.packet_sizes {
        let closed = description.throughput(&params, Form::Exact, Packeting::Both, size);
        let closed = closed.map_err(|e| PaperError::Lab(e.to_string()))?.throughput_gbps;
        let setup = |host| varied(nic, size, effort.packets, host);
        let (ideal, host) = (rate(setup("ideal"), size)?, rate(setup(HOST), size)?);
        let limited = setup(HOST).set("slot.0.packet-nic.ethernet_gbps", i64::from(ETHERNET_GBPS));
        let (limited, ethernet) = (rate(limited, size)?, ethernet_gbps(ETHERNET_GBPS.into(), size));
        let difference = 100.0 * (ideal / closed - 1.0);
        if difference.abs() > curve.worst.0.abs() {
            curve.worst = (difference, size);
        }
        curve.rows.push(vec![
            Cell::integer(size),
            Cell::Number(closed, 2),
            Cell::Number(ideal, 2),
            Cell::Number(difference, 2),
            Cell::Number(host, 2),
            Cell::Number(limited, 2),
            Cell::Number(ethernet, 2),
        ]);
        let x = f64::from(size);
        curve.closed.push((x, closed));
        curve.ideal.push((x, ideal));
        curve.host.push((x, host));
        curve.ethernet.push((x, ethernet));
    }
    Ok(curve)
}
