// SPDX-License-Identifier: Apache-2.0 OR MIT
//! NetTLP (NSDI'20): the cost of its encapsulation, and reads between devices through a switch and through a root complex. Figures
//! of its software are measured on this machine, over UDP:
//!
//! - [`libtlp`]: device software reads and writes memory of an adapter's host;
//! - [`psmem`]: a card reads the memory of device software; [`simple_nic`]: a NIC in software;
//! - [`served`]: a lab behind an adapter; [`loopback`]: addresses.

mod libtlp;
mod loopback;
mod psmem;
mod served;
mod simple_nic;

pub(super) use libtlp::{latencies, reads_by_cores, reads_by_size, writes_by_cores};
pub(super) use psmem::{reads as psmem_reads, table2 as psmem_latencies};
pub(super) use simple_nic::tlps as nic_tlps;

use super::published;
use super::report::ExperimentReport;
use super::setup::Setup;
use super::table::{Cell, Chart, Column, Line, Table};
use super::verdict::{Shape, Verdict};
use super::{Effort, PaperError};
use model::{Addressing, encapsulated_gbps};
use session::report::LinkReport;

/// Ethernet of the paper in Gb/s.
const ETHERNET_GBPS: f64 = 10.0;
/// Data of a write in bytes.
const SIZES: [u32; 7] = [4, 64, 128, 256, 512, 1024, 4096];

const ENCAPSULATED: &[Column] = &[
    Column { key: "size_bytes", head: "data B" },
    Column { key: "addr_32_gbps", head: "3 DW header Gb/s" },
    Column { key: "addr_64_gbps", head: "4 DW header Gb/s" },
];

/// §3.2: the rate of writes in packets on an Ethernet of 10 Gb/s.
pub(super) fn encapsulation(_: &Effort) -> Result<ExperimentReport, PaperError> {
    let gbps = |size, addressing| {
        encapsulated_gbps(ETHERNET_GBPS, size, addressing).map_err(|e| PaperError::Lab(e.to_string()))
    };
    let mut rows = Vec::new();
    let mut points = Vec::new();
    for size in SIZES {
        let (narrow, wide) = (gbps(size, Addressing::A32)?, gbps(size, Addressing::A64)?);
        rows.push(vec![Cell::integer(size), Cell::Number(narrow, 3), Cell::Number(wide, 3)]);
        points.push((f64::from(size), narrow));
    }
    let number = published::nettlp("section3")?.compare("write_256", gbps(256, Addressing::A32)?)?;
    let falling: Vec<f64> = points.iter().rev().map(|point| point.1).collect();
    let shape = Shape::order("the overhead falls with the size of the data", &falling);
    Ok(ExperimentReport {
        verdict: Verdict::of(vec![shape], vec![number]),
        tables: vec![Table { title: "Writes over 10 Gb/s Ethernet".into(), columns: ENCAPSULATED, rows }],
        notes: vec![
            "By formula: `riser model nettlp`. A packet has 52 B of headers and FCS around the TLP, and 20 B of preamble and gap.".into(),
        ],
        chart: Some(Chart {
            x: "data (B)",
            y: "rate of data (Gb/s)",
            lines: vec![Line::riser("3 DW header", points)],
        }),
        ..ExperimentReport::default()
    })
}

/// The labs of Figure 13: name, path, text.
const LABS: [(&str, &str, &str); 2] = [
    ("switch", "labs/papers/nettlp-switch.toml", include_str!("../../labs/papers/nettlp-switch.toml")),
    (
        "root",
        "labs/papers/nettlp-root-complex.toml",
        include_str!("../../labs/papers/nettlp-root-complex.toml"),
    ),
];

/// The links and directions that a read crosses, and the end of a number's key.
const STEPS: [(&str, &str, &str); 4] = [
    ("requester", "upstream", "sent"),
    ("completer", "downstream", "received"),
    ("completer", "upstream", "returned"),
    ("requester", "downstream", "delivered"),
];

const READS: &[Column] = &[
    Column { key: "between", head: "between" },
    Column { key: "sent", head: "MRd from requester" },
    Column { key: "received", head: "MRd at completer" },
    Column { key: "returned", head: "CplD from completer" },
    Column { key: "delivered", head: "CplD at requester" },
];

/// Figure 13: reads of 512 B through a switch and through a root complex.
pub(super) fn reads(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let paper = published::nettlp("figure13")?;
    let (mut numbers, mut rows) = (Vec::new(), Vec::new());
    for (name, path, text) in LABS {
        let counted = per_read(path, text, effort.frames)?;
        for ((.., step), tlps) in STEPS.iter().zip(counted) {
            numbers.push(paper.compare(&format!("{name}_{step}"), tlps)?);
        }
        let cells = counted.map(|tlps| Cell::Number(tlps, 2));
        rows.push([Cell::Text(name.into())].into_iter().chain(cells).collect());
    }
    Ok(ExperimentReport {
        verdict: Verdict::of(Vec::new(), numbers),
        labs: LABS.map(|(_, path, _)| path).to_vec(),
        tables: vec![Table { title: "TLPs for each read of 512 B".into(), columns: READS, rows }],
        notes: vec![
            "Counted on the links: the TLPs of twice as many reads, less those of the reads themselves, which leaves out configuration. In the paper, both devices are adapters whose TLPs a program makes; here they are a traffic generator and a memory.".into(),
            "`peer_to_peer = \"split\"` follows the authors' captures, so the root complex confirms them and does not predict them.".into(),
        ],
        ..ExperimentReport::default()
    })
}

/// Returns the TLPs of each step for one read.
fn per_read(path: &'static str, text: &'static str, reads: u32) -> Result<[f64; 4], PaperError> {
    let tlps = |count: u32| {
        let links = Setup::new(path, text).set("slot.0.traffic.flow.0.count", i64::from(count)).links()?;
        Ok::<_, PaperError>(STEPS.map(|(slot, direction, _)| tlps_of(&links, slot, direction)))
    };
    let (once, twice) = (tlps(reads)?, tlps(2 * reads)?);
    Ok([0, 1, 2, 3].map(|step| (twice[step] - once[step]) / f64::from(reads)))
}

fn tlps_of(links: &[LinkReport], slot: &str, direction: &str) -> f64 {
    let link = links.iter().find(|link| link.slot == slot);
    let way = link.and_then(|link| link.directions.iter().find(|d| d.direction == direction));
    way.map_or(f64::NAN, |way| way.tlps as f64)
}
