// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Published figures of machines that are newer than the papers, and riser's predictions of them: peer-to-peer writes over Gen5
//! links, and DMA writes that a root complex has in flight. No figure of riser is fitted to the published ones.

use super::figures::{self, Figure};
use super::report::ExperimentReport;
use super::setup::Setup;
use super::table::{Cell, Column, Table};
use super::verdict::{Compared, Limit, Verdict};
use super::{Effort, PaperError};
use fabric::HostProfile;
use session::report::LinkReport;
use tlp::Duration;

/// Path and text of a lab.
type Lab = (&'static str, &'static str);

const ROOT_PORTS: Lab =
    ("labs/papers/peers-root-ports.toml", include_str!("../../labs/papers/peers-root-ports.toml"));
const UPLINK: Lab = ("labs/papers/peers-uplink.toml", include_str!("../../labs/papers/peers-uplink.toml"));
const SWITCH: Lab = ("labs/papers/peers-switch.toml", include_str!("../../labs/papers/peers-switch.toml"));
const LINES: Lab =
    ("labs/papers/lines-in-flight.toml", include_str!("../../labs/papers/lines-in-flight.toml"));

/// Largest difference of a prediction in percent.
const PREDICTED_PERCENT: f64 = 2.0;

const COLUMNS: &[Column] = &[
    Column { key: "what", head: "what" },
    Column { key: "published_gbytes", head: "published GB/s" },
    Column { key: "riser_gbytes", head: "riser GB/s" },
    Column { key: "difference_percent", head: "difference %" },
    Column { key: "source", head: "source" },
];

/// Compares the predictions with the published figures.
pub(super) fn newer(effort: &Effort) -> Result<ExperimentReport, PaperError> {
    let published = figures::newer()?;
    let lines = Figure {
        value: published.lines_in_flight.value * 64.0 / published.line_ns.value,
        source: format!("{}: 92 lines of 64 B every 300 ns", published.lines_in_flight.source),
    };
    let compared = [
        ("GPU to GPU between root ports, one way", &published.one_way_gbytes, one_way(effort)?),
        ("the same, both ways", &published.both_ways_gbytes, received(&setup(ROOT_PORTS, effort))?),
        ("two pairs over one uplink", &published.uplink_gbytes, received(&setup(UPLINK, effort))?),
        ("both ways below one switch", &published.behind_switch_gbytes, received(&setup(SWITCH, effort))?),
        (
            "DMA writes of a root complex with 92 lines in flight",
            &lines,
            lines_in_flight(effort, &published)?,
        ),
    ];
    let number = |(what, figure, riser): (&str, &Figure, f64)| Compared {
        limit: Limit::Percent(PREDICTED_PERCENT),
        ..Compared::usual(what, "GB/s", figure.value, riser)
    };
    let rows = compared.iter().map(|(what, figure, gbytes)| row(what, figure, *gbytes)).collect();
    let not_run = |figure: &Figure| format!("{} ({})", figure.value, figure.source);
    Ok(ExperimentReport {
        verdict: Verdict::of(Vec::new(), compared.map(number).to_vec()),
        labs: vec![ROOT_PORTS.0, UPLINK.0, SWITCH.0, LINES.0],
        tables: vec![Table { title: "Newer machines".into(), columns: COLUMNS, rows }],
        notes: vec![
            "Links are Gen5 x16 with Max_Payload_Size 256. Writes have 256 B and 64-bit addresses. No figure of riser is fitted to the published ones. The last row takes number and time of the lines from the paper: it tests the flow control, not the figures.".into(),
            format!("Not simulated: {} GB/s. A lab has no key for ACS redirection. With redirection, all data use the uplink of the switch, which limits them as in the third row.", not_run(&published.redirected_gbytes)),
            format!("Not predicted: {} ns. The latency of a switch is a setting of a lab.", not_run(&published.switch_ns)),
            "Rows that are not within their limit depend on limits that riser does not model: the internal bandwidth of the switch, and the engines of the GPUs. In the last row, room is also occupied while its credits return to the device.".into(),
        ],
        ..ExperimentReport::default()
    })
}

fn row(what: &str, published: &Figure, gbytes: f64) -> Vec<Cell> {
    vec![
        Cell::Text(what.into()),
        Cell::Number(published.value, 2),
        Cell::Number(gbytes, 2),
        Cell::Number(100.0 * (gbytes / published.value - 1.0), 2),
        Cell::Text(published.source.clone()),
    ]
}

fn setup((path, text): Lab, effort: &Effort) -> Setup {
    let count = i64::from(effort.packets) * 20;
    Setup::new(path, text).set("slot.0.traffic.flow.0.count", count).set("slot.1.traffic.flow.0.count", count)
}

/// Returns the rate of data into the memories of a lab of peers, in GB/s.
fn received(setup: &Setup) -> Result<f64, PaperError> {
    setup.links().map(|links| rate(&links, "to-", "downstream"))
}

/// Returns the rate of data of one direction of the slots whose names begin with `slots`, in GB/s, while they move data.
fn rate(links: &[LinkReport], slots: &str, direction: &str) -> f64 {
    let links = links.iter().filter(|link| link.slot.starts_with(slots));
    let directions = links.flat_map(|link| &link.directions).filter(|of| of.direction == direction);
    directions.map(|of| of.active_gbps).sum::<f64>() / 8.0
}

/// Returns the same for the first pair, while the second generator sends one write only.
fn one_way(effort: &Effort) -> Result<f64, PaperError> {
    let setup = setup(ROOT_PORTS, effort).set("slot.1.traffic.flow.0.count", 1);
    setup.links().map(|links| rate(&links, "to-b", "downstream"))
}

fn lines_in_flight(effort: &Effort, published: &figures::Newer) -> Result<f64, PaperError> {
    let (path, text) = LINES;
    // Posted data credits of 16 B: four for each line.
    let latency = Duration::from_ns(published.line_ns.value as u64);
    let links = Setup::new(path, text)
        .set("slot.0.link.root_credits.posted_data", (published.lines_in_flight.value * 4.0) as i64)
        .set("slot.0.pcie-bench.transfers", effort.bandwidth_transfers as i64)
        .host(move |host: &mut HostProfile| host.root_complex_latency = latency)
        .links()?;
    Ok(rate(&links, "nic", "upstream"))
}
