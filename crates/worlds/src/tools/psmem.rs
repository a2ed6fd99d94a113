// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The counters of `riser nettlp psmem`, as JSON and as text.

use super::Rows;
use nettlp::carrier::Carrier;
use nettlp::net::AnyCarrier;
use nettlp::psmem::{Psmem, Window};
use serde::Serialize;
use session::report::RefusalReport;
use std::collections::BTreeMap;
use std::fmt::{Display, Formatter, Result};
use std::net::IpAddr;

type Counts = BTreeMap<&'static str, u64>;

/// Report of memory that was served as a BAR.
#[derive(Serialize)]
pub struct PsmemReport {
    remote: IpAddr,
    carrier: &'static str,
    base: u64,
    size_bytes: u64,
    seconds: f64,
    #[serde(flatten)]
    counters: Counts,
    completer: Counts,
    sockets: Rows,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refusals: Vec<RefusalReport>,
}

impl PsmemReport {
    /// Returns the report on the BAR at `base` with `size_bytes`.
    pub fn new(
        remote: IpAddr,
        carrier: &AnyCarrier,
        (base, size_bytes): (u64, u64),
        seconds: f64,
        psmem: &Psmem<Window>,
    ) -> PsmemReport {
        let sockets = ["received_datagrams", "sent_datagrams", "malformed_datagrams"];
        PsmemReport {
            remote,
            carrier: PsmemReport::carrier(carrier),
            base,
            size_bytes,
            seconds,
            counters: psmem.counters().rows().collect(),
            completer: psmem.completer_counters().rows().collect(),
            sockets: Rows::of(&sockets, carrier.counters().rows()),
            refusals: PsmemReport::refusals(psmem),
        }
    }

    /// Returns the name of a carrier.
    pub fn carrier(carrier: &AnyCarrier) -> &'static str {
        if carrier.is_reliable() { "session" } else { "tagged" }
    }

    /// Reasons why TLPs were refused.
    pub fn refusals(psmem: &Psmem<Window>) -> Vec<RefusalReport> {
        RefusalReport::all("nettlp psmem", psmem.refusals())
    }
}

impl Display for PsmemReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let all = self.counters.iter().chain(&self.completer);
        let lines: Vec<String> = all
            .filter(|(name, count)| **count > 0 || matches!(**name, "reads" | "writes"))
            .map(|(name, count)| format!("{} {count}", name.replace('_', " ")))
            .collect();
        write!(f, "{:.1} s: {}", self.seconds, lines.join(", "))?;
        RefusalReport::lines(&self.refusals).try_for_each(|line| write!(f, "\n{line}"))
    }
}
