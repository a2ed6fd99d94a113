// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figure 1, and the closed forms beside Figure 4. Asks `riser-model` for every value.

use super::{Figure, Line, Plot, Point, Quantity, Role};
use model::{Bandwidth, Form, ModelError, Packeting, Params, SHIPPED, Transfer, ethernet_gbps};

/// The Ethernet that both figures compare with, in Gb/s.
const ETHERNET_GBPS: f64 = 40.0;
/// Packet sizes of Figure 1 in bytes.
const PACKETS: std::ops::RangeInclusive<u32> = 64..=1500;
/// Transfer sizes of the closed form beside Figure 4 in bytes.
const TRANSFERS: std::ops::RangeInclusive<u32> = 16..=2048;

/// Generation, lanes and RCB of every host of the paper (section 6): RCB in bytes.
const LINK: (u8, u8, u32) = (3, 8, 64);

pub(super) fn figure1() -> Figure {
    let mut figure = Figure {
        key: "figure1",
        title: "Figure 1: PCIe bandwidth and what NICs get of it",
        text: "Closed forms of a Gen 3 x8 link with MPS 256, MRRS 512 and 64-bit addresses (paper, section 3), in their \
               published form: payload each way where both ways are used at once, and the packets that NICs with their \
               drivers move through the link. Nothing here is measured or simulated; riser model nic has more.",
        notes: Vec::new(),
        plots: Vec::new(),
    };
    match nics() {
        Ok(lines) => figure.plots.push(Plot {
            title: "Throughput by packet size".to_owned(),
            x: Quantity::PacketBytes,
            y: Quantity::BandwidthGbps,
            lines,
        }),
        Err(why) => figure.notes.push(why),
    }
    figure
}

fn nics() -> Result<Vec<Line>, String> {
    let params = params(256, 512).map_err(|e| e.to_string())?;
    let effective = curve(&params, PACKETS, |b| b.read_write_gbps).map_err(|e| e.to_string())?;
    let mut lines = vec![
        Line { name: "Effective PCIe BW".to_owned(), role: Role::Model, group: 0, points: effective },
        ethernet(PACKETS, 5),
    ];
    for (at, shipped) in SHIPPED.iter().enumerate() {
        let device = model::Description::parse(shipped.text).map_err(|e| e.message)?;
        let at_size = |size| device.throughput(&params, Form::Published, Packeting::Both, size);
        let point = |size: u32| Ok(plain(f64::from(size), at_size(size)?.throughput_gbps));
        let points: Result<Vec<Point>, ModelError> = PACKETS.map(point).collect();
        let points = points.map_err(|e| e.to_string())?;
        lines.push(Line { name: shipped.title.to_owned(), role: Role::Model, group: at + 1, points });
    }
    Ok(lines)
}

fn params(mps_bytes: u32, mrrs_bytes: u32) -> Result<Params, ModelError> {
    let (generation, lanes, rcb_bytes) = LINK;
    Params::new(generation, lanes, mps_bytes, mrrs_bytes, rcb_bytes)
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

/// Packets on an Ethernet, without FCS, preamble and gap.
fn ethernet(sizes: impl Iterator<Item = u32>, group: usize) -> Line {
    let points = sizes.map(|size| plain(f64::from(size), ethernet_gbps(ETHERNET_GBPS, size))).collect();
    Line { name: format!("{ETHERNET_GBPS}G Ethernet"), role: Role::Mark, group, points }
}

/// What stands beside the bandwidths of a test: the closed form of a link with these sizes in bytes, and the Ethernet.
pub(super) fn beside(mps_bytes: u32, mrrs_bytes: u32, of: impl Fn(&Bandwidth) -> f64) -> Vec<Line> {
    let model = params(mps_bytes, mrrs_bytes).and_then(|params| curve(&params, TRANSFERS, of));
    let model = model.ok().map(|points| Line {
        name: "Model (published form)".to_owned(),
        role: Role::Mark,
        group: 2,
        points,
    });
    model.into_iter().chain([ethernet(TRANSFERS, 5)]).collect()
}
