// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figure 1, and the closed forms next to Figure 4. `riser-model` calculates every value.

use super::{Figure, Line, Plot, Point, Quantity, Role};
use crate::BenchError;
use crate::configurations::SheetLink;
use model::{Bandwidth, Form, ModelError, Packeting, Params, SHIPPED, Transfer, ethernet_gbps};

/// Rates of Ethernet in Gb/s (IEEE 802.3). A link is compared with the fastest Ethernet that its raw rate can carry. In
/// the paper, this is 40 Gb/s for a Gen3 x8 link.
const ETHERNETS_GBPS: [f64; 7] = [1.0, 10.0, 40.0, 100.0, 200.0, 400.0, 800.0];
/// Packet sizes of Figure 1 in bytes.
const PACKETS: std::ops::RangeInclusive<u32> = 64..=1500;
/// Transfer sizes of the closed form next to Figure 4, in bytes.
const TRANSFERS: std::ops::RangeInclusive<u32> = 16..=2048;

/// The link of the paper's Figure 1 (section 3).
const PAPER: SheetLink = SheetLink { generation: 3, lanes: 8, mps_bytes: 256, mrrs_bytes: 512 };
/// Read Completion Boundary of every measured host, in bytes.
const RCB_BYTES: u32 = 64;

/// Draws Figure 1 for `link`, or else for the paper's link.
pub(super) fn figure1(link: Option<SheetLink>) -> Figure {
    let link = link.unwrap_or(PAPER);
    let mut figure = Figure {
        key: "figure1",
        title: "Figure 1: PCIe bandwidth and the share that NICs reach",
        text: "Published closed forms of a link with 64-bit addresses (paper, section 3): payload per direction if \
               both directions are in use, and the packets that NICs with their drivers move. If all results have the \
               same link, the formulas use it; otherwise they use the paper's link. No value here is measured or \
               simulated; riser model nic shows more.",
        notes: Vec::new(),
        plots: Vec::new(),
    };
    match nics(link) {
        Ok(lines) => figure.plots.push(Plot {
            title: format!("Throughput by packet size, {}", in_words(link)),
            x: Quantity::PacketBytes,
            y: Quantity::BandwidthGbps,
            lines,
        }),
        Err(error) => figure.notes.push(error.to_string()),
    }
    figure
}

fn nics(link: SheetLink) -> Result<Vec<Line>, BenchError> {
    let params = params(link)?;
    let effective = curve(&params, PACKETS, |b| b.read_write_gbps)?;
    let mut lines = vec![
        Line { name: "Effective PCIe BW".to_owned(), role: Role::Model, group: 0, points: effective },
        ethernet(&params, PACKETS),
    ];
    for (at, shipped) in SHIPPED.iter().enumerate() {
        let device = model::Description::parse(shipped.text).map_err(|e| BenchError::Profile(e.message))?;
        let at_size = |size| device.throughput(&params, Form::Published, Packeting::Both, size);
        let point = |size: u32| Ok(plain(f64::from(size), at_size(size)?.throughput_gbps));
        let points: Result<Vec<Point>, ModelError> = PACKETS.map(point).collect();
        let (name, points) = (shipped.title.to_owned(), points?);
        lines.push(Line { name, role: Role::Model, group: at + 1, points });
    }
    Ok(lines)
}

fn params(link: SheetLink) -> Result<Params, ModelError> {
    let SheetLink { generation, lanes, mps_bytes, mrrs_bytes } = link;
    Params::new(generation, lanes, mps_bytes, mrrs_bytes, RCB_BYTES)
}

fn in_words(link: SheetLink) -> String {
    let SheetLink { generation, lanes, mps_bytes, mrrs_bytes } = link;
    format!("Gen{generation} x{lanes}, MPS {mps_bytes}, MRRS {mrrs_bytes}")
}

const fn plain(x: f64, y: f64) -> Point {
    Point { x, y, range: None }
}

fn curve(
    params: &Params,
    sizes: impl Iterator<Item = u32>,
    of: impl Fn(&Bandwidth) -> f64,
) -> Result<Vec<Point>, ModelError> {
    sizes.map(|size| Ok(plain(f64::from(size), of(&model::published(params, Transfer::of(size))?)))).collect()
}

/// Returns the rate of frames with FCS, over the Ethernet that belongs to the link.
fn ethernet(params: &Params, sizes: impl Iterator<Item = u32>) -> Line {
    let raw = params.raw_gbps();
    let [slowest, ..] = ETHERNETS_GBPS;
    let rate = ETHERNETS_GBPS.into_iter().rfind(|rate| *rate <= raw).unwrap_or(slowest);
    let points = sizes.map(|size| plain(f64::from(size), ethernet_gbps(rate, size))).collect();
    Line { name: format!("{rate}G Ethernet"), role: Role::Mark, group: 5, points }
}

/// Returns the lines next to the bandwidths of a test over `link`: its closed form, and the Ethernet.
///
/// # Errors
/// An invalid link.
pub(super) fn beside(link: SheetLink, of: impl Fn(&Bandwidth) -> f64) -> Result<[Line; 2], BenchError> {
    let said = |e: ModelError| BenchError::Unknown(format!("No model for {}: {e}.", in_words(link)));
    let params = params(link).map_err(said)?;
    let points = curve(&params, TRANSFERS, of).map_err(said)?;
    let name = format!("Model (published form), {}", in_words(link));
    Ok([Line { name, role: Role::Mark, group: 2, points }, ethernet(&params, TRANSFERS)])
}
