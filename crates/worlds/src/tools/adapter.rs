// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Serves memory as an adapter, and reports its counters as JSON and as text.

use files::{Error, Note, Result};
use nettlp::adapter::Strangers;
use nettlp::allow::Rule;
use nettlp::dropped::Dropped;
use nettlp::net::Clock;
use nettlp::tools::{Counts, MemoryServer, ServedCounters, ServedMemory};
use serde::Serialize;
use session::report::{RefusalReport, SeenRefusals};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use tlp::Duration;

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

#[derive(Serialize)]
struct MemoryReport {
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    write_back: bool,
    written_back_bytes: u64,
}

#[derive(Serialize)]
struct PeerReport {
    address: IpAddr,
    rules: Vec<String>,
    #[serde(flatten)]
    counts: Counts,
}

/// Memory that is served to peers until a signal arrives.
pub struct MemoryServing<'a> {
    /// The memory and its adapter.
    pub memory: ServedMemory,
    /// File of the memory; `None` for zeros.
    pub file: Option<&'a Path>,
    /// Write the memory back to its file, at the end and with each report.
    pub write_back: bool,
    /// Rules of the peers.
    pub rules: &'a [Rule],
    /// Number of threads.
    pub threads: u16,
    /// Interval between two reports during the run.
    pub every: Option<Duration>,
    /// Set at the end.
    pub end: &'a AtomicBool,
    /// Set to request a report during the run.
    pub show: &'a AtomicBool,
    /// Takes lines for the user.
    pub note: Note,
    /// Takes reports during the run.
    pub print: Note,
}

impl MemoryServing<'_> {
    /// Serves the memory. Calls `greet` when peers can connect. Returns the report, and whether the memory was written back.
    ///
    /// # Errors
    /// A socket cannot be opened, or a thread fails.
    pub fn run(&self, greet: impl FnOnce()) -> Result<(AdapterReport, Result<()>)> {
        let server = MemoryServer::start(&self.memory, self.threads);
        let server = server.map_err(|error| Error::File(error.to_string()))?;
        greet();
        let (clock, mut seen) = (Clock::new(), SeenRefusals::default());
        let mut next = self.every.map(|every| clock.now() + every);
        server.wait(self.end, |server| {
            let describe = || refusals(&server.counters());
            seen.new_kinds(server.refusal_kinds(), describe).iter().for_each(|line| (self.note)(line));
            let asked = self.show.swap(false, Ordering::Relaxed);
            if asked || next.is_some_and(|next| clock.now() >= next) {
                next = next.zip(self.every).map(|(next, every)| next + every);
                let written = if asked { self.write_back_and_go_on() } else { 0 };
                (self.print)(&self.report(server.counters(), clock, written));
            }
        });
        let counters = server.stop();
        let written = self.write_back();
        let counters = counters.map_err(|error| Error::File(format!("serving: {error}")))?;
        let report = self.report(counters, clock, *written.as_ref().unwrap_or(&0));
        Ok((report, written.map(drop)))
    }

    /// Writes the memory back. After a failure, such as a full disk, the data stays for the next attempt.
    fn write_back_and_go_on(&self) -> u64 {
        self.write_back().unwrap_or_else(|error| {
            (self.note)(&format_args!("{error}; serving goes on"));
            0
        })
    }

    fn write_back(&self) -> Result<u64> {
        let failed = |error| {
            let file = self.file.map_or("the memory".into(), Path::to_string_lossy);
            Error::File(format!("writing back {file}: {error}"))
        };
        self.memory.image.write_back().map_err(failed)
    }

    fn report(&self, counters: ServedCounters, clock: Clock, written_back_bytes: u64) -> AdapterReport {
        let addresses = self.rules.iter().fold(BTreeMap::<_, Vec<_>>::new(), |mut all, rule| {
            all.entry(rule.peer).or_default().push(rule.to_string());
            all
        });
        let peer = |((address, rules), counts): ((IpAddr, Vec<String>), &Counts)| PeerReport {
            address,
            rules,
            counts: counts.clone(),
        };
        AdapterReport {
            listen: self.memory.options.address,
            memory: MemoryReport {
                bytes: self.memory.image.bytes(),
                file: self.file.map(|file| file.display().to_string()),
                write_back: self.write_back,
                written_back_bytes,
            },
            seconds: clock.now().as_ps() as f64 / 1e12,
            cpu_seconds: session::cpu_seconds(),
            threads: self.threads,
            peers: addresses.into_iter().zip(&counters.peers).map(peer).collect(),
            refusals: refusals(&counters),
            drops: counters.drops.iter().copied().collect(),
            counters,
        }
    }
}

/// Reasons why the adapter's threads refused TLPs.
fn refusals(counters: &ServedCounters) -> Vec<RefusalReport> {
    RefusalReport::all("nettlp adapter", counters.refusals.kinds())
}

/// The counters that are not zero.
impl Display for AdapterReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:.3} s, {:.3} s of CPU", self.listen, self.seconds, self.cpu_seconds)?;
        if self.memory.written_back_bytes > 0 {
            write!(f, ", {} bytes written back", self.memory.written_back_bytes)?;
        }
        for peer in &self.peers {
            write!(f, "\n{}: {}", peer.rules.join(" "), line(&peer.counts))?;
        }
        let ServedCounters { strangers, completer, function, sockets, sessions, .. } = &self.counters;
        strangers_line(strangers).iter().try_for_each(|line| write!(f, "\n{line}"))?;
        for (name, counts) in
            [("memory", completer), ("function", function), ("sockets", sockets), ("sessions", sessions)]
        {
            write!(f, "\n{name}: {}", line(counts))?;
        }
        RefusalReport::lines(&self.refusals).try_for_each(|line| write!(f, "\n{line}"))?;
        self.drops.iter().try_for_each(|dropped| write!(f, "\nnettlp adapter: {dropped}"))
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
