// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The counters of an adapter, as JSON and as text.

use nettlp::allow::Rule;
use nettlp::tools::ServedCounters;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;

type Counts = BTreeMap<&'static str, u64>;

#[derive(Serialize)]
pub(super) struct Report {
    listen: IpAddr,
    memory: MemoryReport,
    seconds: f64,
    cpu_seconds: f64,
    threads: u16,
    peers: Vec<PeerReport>,
    strangers: StrangersReport,
    completer: Counts,
    function: Counts,
    sockets: Counts,
    sessions: Counts,
}

#[derive(Serialize)]
pub(super) struct MemoryReport {
    pub(super) bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<String>,
    pub(super) write_back: bool,
    pub(super) written_back_bytes: u64,
}

#[derive(Serialize)]
struct PeerReport {
    address: IpAddr,
    rules: Vec<String>,
    #[serde(flatten)]
    counts: Counts,
}

#[derive(Serialize)]
struct StrangersReport {
    datagrams: u64,
    bytes: u64,
    messaging: u64,
    last: Option<IpAddr>,
}

impl Report {
    pub(super) fn new(
        listen: IpAddr,
        memory: MemoryReport,
        rules: &[Rule],
        counters: &ServedCounters,
        seconds: f64,
        threads: u16,
    ) -> Report {
        let addresses: BTreeMap<IpAddr, Vec<String>> = rules.iter().fold(BTreeMap::new(), |mut all, rule| {
            all.entry(rule.peer).or_default().push(rule.to_string());
            all
        });
        let peer = |((address, rules), peer): ((IpAddr, Vec<String>), &nettlp::adapter::PeerCounters)| {
            PeerReport { address, rules, counts: peer.rows().collect() }
        };
        let strangers = counters.strangers;
        Report {
            listen,
            memory,
            seconds,
            cpu_seconds: session::cpu_seconds(),
            threads,
            peers: addresses.into_iter().zip(&counters.peers).map(peer).collect(),
            strangers: StrangersReport {
                datagrams: strangers.datagrams,
                bytes: strangers.bytes,
                messaging: strangers.messaging,
                last: strangers.last,
            },
            completer: counters.completer.rows().collect(),
            function: counters.function.rows().collect(),
            sockets: counters.sockets.rows().collect(),
            sessions: counters.sessions.clone(),
        }
    }

    /// Lines of what is not zero.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{}: {:.3} s, {:.3} s of CPU", self.listen, self.seconds, self.cpu_seconds);
        if self.memory.written_back_bytes > 0 {
            let _ = write!(text, ", {} bytes written back", self.memory.written_back_bytes);
        }
        for peer in &self.peers {
            let _ = write!(text, "\n{}: {}", peer.rules.join(" "), line(&peer.counts));
        }
        if self.strangers.datagrams > 0 {
            let StrangersReport { datagrams, bytes, last, .. } = &self.strangers;
            let last = last.map(|last| format!(", the last from {last}")).unwrap_or_default();
            let _ = write!(text, "\nstrangers: {datagrams} datagrams, {bytes} bytes{last}");
        }
        for (name, counts) in [
            ("memory", &self.completer),
            ("function", &self.function),
            ("sockets", &self.sockets),
            ("sessions", &self.sessions),
        ] {
            let _ = write!(text, "\n{name}: {}", line(counts));
        }
        text
    }
}

fn line(counts: &Counts) -> String {
    let shown: Vec<String> = counts
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    if shown.is_empty() { "nothing".to_owned() } else { shown.join(", ") }
}
