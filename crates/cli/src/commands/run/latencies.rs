// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--latency-svg`: draws the parts of the latencies of a report.

use crate::failure::Failure;
use crate::output;
use files::ClaimedOutput;
use session::{LinkReport, SessionReport, TransactionReport};
use view::bars::{Bar, StackedBars};

/// Rows of a report that are drawn.
const DRAWN: [&str; 2] = ["mean", "p99"];

pub(super) fn draw(place: ClaimedOutput, report: &SessionReport) -> Result<(), Failure> {
    let Some(first) = report.links.iter().find_map(|link| link.transactions.first()) else {
        output::note("--latency-svg: no transaction finished, so no picture is written");
        return Ok(());
    };
    let of_link = |link: &LinkReport| -> Vec<Bar> {
        link.transactions.iter().flat_map(|t| bars(&link.slot, t)).collect()
    };
    let chart = StackedBars {
        title: format!("{}: parts of the latency", report.lab),
        subtitle: format!("mean and 99th percentile; basis: {}", report.basis.name()),
        label: "ns".to_owned(),
        parts: first.mean.columns().map(|(name, _)| name.to_owned()).to_vec(),
        bars: report.links.iter().flat_map(of_link).collect(),
    };
    Ok(place.write(&chart.svg().map_err(Failure::run)?)?)
}

fn bars(slot: &str, t: &TransactionReport) -> Vec<Bar> {
    let rows = t.rows().into_iter().filter(|(which, ..)| DRAWN.contains(which));
    rows.map(|(which, _, parts)| Bar {
        name: format!("{slot} {} {which}", t.kind),
        parts: parts.columns().map(|(_, ns)| ns).to_vec(),
    })
    .collect()
}
