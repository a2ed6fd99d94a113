// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The counters of an adapter, as JSON and as text.

use nettlp::adapter::Strangers;
use nettlp::allow::Rule;
use nettlp::dropped::Dropped;
use nettlp::tools::{Counts, ServedCounters};
use serde::Serialize;
use session::report::RefusalReport;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;

/// Report of an adapter with memory.
#[derive(Serialize)]
pub struct AdapterReport {
    listen: IpAddr,
    memory: MemoryReport,
    seconds: f64,
    cpu_seconds: f64,
    threads: u16,
    peers: Vec<PeerReport>,
    #[serde(flatten)]
    counters: ServedCounters,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refusals: Vec<RefusalReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    drops: Vec<Dropped>,
}

/// Memory of an adapter.
#[derive(Serialize)]
pub struct MemoryReport {
    /// Size in bytes.
    pub bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The file with its first contents.
    pub file: Option<String>,
    /// True if changes go to the file.
    pub write_back: bool,
    /// Bytes written to the file.
    pub written_back_bytes: u64,
}

#[derive(Serialize)]
struct PeerReport {
    address: IpAddr,
    rules: Vec<String>,
    #[serde(flatten)]
    counts: Counts,
}

impl AdapterReport {
    /// Reasons why the adapter's threads refused TLPs.
    pub fn refusals(counters: &ServedCounters) -> Vec<RefusalReport> {
        RefusalReport::all("nettlp adapter", counters.refusals.kinds())
    }

    /// Returns the report of an adapter that listens at this address.
    pub fn new(
        listen: IpAddr,
        memory: MemoryReport,
        rules: &[Rule],
        counters: ServedCounters,
        seconds: f64,
        threads: u16,
    ) -> AdapterReport {
        let addresses: BTreeMap<IpAddr, Vec<String>> = rules.iter().fold(BTreeMap::new(), |mut all, rule| {
            all.entry(rule.peer).or_default().push(rule.to_string());
            all
        });
        let peer = |((address, rules), counts): ((IpAddr, Vec<String>), &Counts)| PeerReport {
            address,
            rules,
            counts: counts.clone(),
        };
        let peers = addresses.into_iter().zip(&counters.peers).map(peer).collect();
        let (cpu_seconds, refusals) = (session::cpu_seconds(), AdapterReport::refusals(&counters));
        let drops = counters.drops.iter().copied().collect();
        AdapterReport { listen, memory, seconds, cpu_seconds, threads, peers, counters, refusals, drops }
    }

    /// Returns lines with the counters that are not zero.
    pub fn text(&self) -> String {
        let mut text = format!("{}: {:.3} s, {:.3} s of CPU", self.listen, self.seconds, self.cpu_seconds);
        if self.memory.written_back_bytes > 0 {
            let _ = write!(text, ", {} bytes written back", self.memory.written_back_bytes);
        }
        for peer in &self.peers {
            let _ = write!(text, "\n{}: {}", peer.rules.join(" "), line(&peer.counts));
        }
        let ServedCounters { strangers, completer, function, sockets, sessions, .. } = &self.counters;
        if let Some(line) = strangers_line(strangers) {
            let _ = write!(text, "\n{line}");
        }
        for (name, counts) in
            [("memory", completer), ("function", function), ("sockets", sockets), ("sessions", sessions)]
        {
            let _ = write!(text, "\n{name}: {}", line(counts));
        }
        for line in RefusalReport::lines(&self.refusals) {
            let _ = write!(text, "\n{line}");
        }
        for dropped in &self.drops {
            let _ = write!(text, "\nnettlp adapter: {dropped}");
        }
        text
    }
}

/// Returns a line about datagrams of peers that no --allow names, if there were any.
pub fn strangers_line(strangers: &Strangers) -> Option<String> {
    let Strangers { datagrams, bytes, last, .. } = strangers;
    let last = last.map(|last| format!(", the last from {last}")).unwrap_or_default();
    (*datagrams > 0).then(|| {
        format!("strangers: {datagrams} datagrams, {bytes} bytes{last}: dropped, no --allow names the sender")
    })
}

fn line(counts: &Counts) -> String {
    let shown: Vec<String> = counts
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    if shown.is_empty() { "nothing".to_owned() } else { shown.join(", ") }
}
