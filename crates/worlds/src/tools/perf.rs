// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result of `riser nettlp perf`, as text and as JSON.

use super::{Rows, refusals};
use nettlp::dropped::Dropped;
use nettlp::net::Ceiling;
use nettlp::requester::Counters;
use nettlp::tools::ClientOptions;
use nettlp::tools::perf::{Pattern, Tally, Workload};
use plug::counted;
use serde::Serialize;
use session::report::RefusalReport;
use std::fmt::Write;

/// Names of the socket counters in the report.
const SOCKETS: [&str; 6] = [
    "received_datagrams",
    "sent_datagrams",
    "receive_calls",
    "send_calls",
    "malformed_datagrams",
    "kernel_drops",
];

/// A finished measurement.
pub struct Outcome<'a> {
    /// Connection of the client.
    pub options: &'a ClientOptions,
    /// The requests.
    pub workload: &'a Workload,
    /// Name of the scheme.
    pub scheme: &'static str,
    /// The counters.
    pub tally: Tally,
    /// Duration in seconds.
    pub elapsed_s: f64,
    /// CPU seconds of this process.
    pub cpu_s: f64,
    /// Speed of loopback, if it was measured.
    pub ceiling: Option<Ceiling>,
}

/// Report of a finished measurement.
#[derive(Serialize)]
pub struct PerfReport {
    remote: String,
    scheme: &'static str,
    direction: &'static str,
    length_bytes: u64,
    threads: u64,
    outstanding: u64,
    batch: u64,
    pattern: &'static str,
    regions: &'static str,
    region_bytes: u64,
    mps_bytes: u32,
    mrrs_bytes: u32,
    elapsed_s: f64,
    requests: u64,
    failed: u64,
    bytes: u64,
    requests_per_s: f64,
    tlps_per_s: f64,
    bandwidth_gbps: f64,
    cpu_s: f64,
    cpu_ns_per_request: Option<f64>,
    cpu_ns_per_tlp: Option<f64>,
    latency_ns: Option<Latency>,
    counters: Counters,
    faults: Rows,
    sockets: Rows,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refusals: Vec<RefusalReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    drops: Vec<Dropped>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ceiling: Option<CeilingReport>,
}

#[derive(Serialize)]
struct Latency {
    min: u64,
    mean: f64,
    median: u64,
    p90: u64,
    p99: u64,
    p999: u64,
    max: u64,
}

#[derive(Serialize)]
struct CeilingReport {
    datagram_bytes: usize,
    single_per_s: f64,
    batched_per_s: f64,
    share_of_single: f64,
    share_of_batched: f64,
}

impl PerfReport {
    /// Returns the report of a measurement.
    pub fn new(outcome: &Outcome<'_>) -> PerfReport {
        let Outcome { options, workload, scheme, tally, elapsed_s, cpu_s, ceiling } = outcome;
        let tlps = tally.counters.read_tlps + tally.counters.write_tlps + tally.counters.completions;
        let per = |count: u64| (count > 0).then(|| cpu_s * 1e9 / count as f64);
        PerfReport {
            remote: options.target.remote.to_string(),
            scheme,
            direction: if workload.is_write { "write" } else { "read" },
            length_bytes: workload.len,
            threads: workload.threads,
            outstanding: workload.outstanding,
            batch: workload.batch,
            pattern: match workload.pattern {
                Pattern::Fixed => "fixed",
                Pattern::Sequential => "sequential",
                Pattern::Random => "random",
            },
            regions: if workload.is_split { "diff" } else { "same" },
            region_bytes: workload.share(),
            mps_bytes: options.mps.bytes(),
            mrrs_bytes: options.mrrs.bytes(),
            elapsed_s: *elapsed_s,
            requests: tally.requests,
            failed: tally.faults.rows().map(|(_, count)| count).sum(),
            bytes: tally.bytes,
            requests_per_s: tally.requests as f64 / elapsed_s,
            tlps_per_s: tlps as f64 / elapsed_s,
            bandwidth_gbps: tally.bytes as f64 * 8e-9 / elapsed_s,
            cpu_s: *cpu_s,
            cpu_ns_per_request: per(tally.requests),
            cpu_ns_per_tlp: per(tlps),
            latency_ns: (!workload.is_write && !tally.latency_ns.is_empty()).then(|| latency(tally)),
            counters: tally.counters,
            faults: Rows::new(tally.faults.rows()),
            sockets: Rows::of(&SOCKETS, tally.sockets.rows()),
            refusals: refusals(tally.refusals.kinds()),
            drops: tally.drops.iter().copied().collect(),
            ceiling: ceiling.map(|ceiling| ceiling_report(ceiling, tlps as f64 / elapsed_s)),
        }
    }

    /// Returns the failed requests by kind; `None` if all requests have succeeded.
    pub fn failure(&self) -> Option<String> {
        (self.failed > 0).then(|| format!("{} requests failed: {}", self.failed, faults(&self.faults)))
    }

    /// Returns the report as lines.
    pub fn text(&self) -> String {
        text(self)
    }
}

fn latency(tally: &Tally) -> Latency {
    let histogram = &tally.latency_ns;
    Latency {
        min: histogram.min(),
        mean: histogram.mean(),
        median: histogram.value_at_quantile(0.5),
        p90: histogram.value_at_quantile(0.9),
        p99: histogram.value_at_quantile(0.99),
        p999: histogram.value_at_quantile(0.999),
        max: histogram.max(),
    }
}

// Requests and completions are both datagrams; a small datagram costs nearly as much as a large one.
fn ceiling_report(ceiling: Ceiling, tlps_per_s: f64) -> CeilingReport {
    CeilingReport {
        datagram_bytes: ceiling.datagram_bytes,
        single_per_s: ceiling.single_per_s,
        batched_per_s: ceiling.batched_per_s,
        share_of_single: tlps_per_s / ceiling.single_per_s,
        share_of_batched: tlps_per_s / ceiling.batched_per_s,
    }
}

fn faults(faults: &Rows) -> String {
    let kinds = [
        ("unsupported_request", "Unsupported Request"),
        ("completer_abort", "Completer Abort"),
        ("config_retry", "Configuration Request Retry Status"),
        ("poisoned", "poisoned"),
        ("timed_out", "not answered"),
    ];
    let kinds = kinds.map(|(name, kind)| (faults.get(name), kind));
    let kinds = kinds.iter().filter(|(count, _)| *count > 0).map(|(count, kind)| format!("{count} {kind}"));
    kinds.collect::<Vec<_>>().join(", ")
}

fn text(r: &PerfReport) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{} of {} B, {}, {} with {} outstanding, {:.2} s, scheme {}",
        r.direction,
        r.length_bytes,
        r.pattern,
        counted(r.threads, "thread"),
        r.outstanding,
        r.elapsed_s,
        r.scheme
    );
    let _ = writeln!(
        text,
        "  {:.1} k/s, {:.3} Gb/s of data, {} done, {} failed",
        r.requests_per_s / 1e3,
        r.bandwidth_gbps,
        r.requests,
        r.failed
    );
    if let Some(l) = &r.latency_ns {
        let us = |ns: u64| ns as f64 / 1e3;
        let _ = writeln!(
            text,
            "  latency: min {:.1}, median {:.1}, p90 {:.1}, p99 {:.1}, p99.9 {:.1}, max {:.1} us",
            us(l.min),
            us(l.median),
            us(l.p90),
            us(l.p99),
            us(l.p999),
            us(l.max)
        );
    }
    if let (Some(request), Some(tlp)) = (r.cpu_ns_per_request, r.cpu_ns_per_tlp) {
        let _ = writeln!(
            text,
            "  CPU of this process: {:.2} us per request, {:.2} us per TLP",
            request / 1e3,
            tlp / 1e3
        );
    }
    let c = &r.counters;
    let strays = c.strays.total();
    let _ = writeln!(text, "  retried {}, late {}, copies {}, strays {strays}", c.retried, c.late, c.copies);
    for line in RefusalReport::lines(&r.refusals) {
        let _ = writeln!(text, "  {line}");
    }
    for dropped in &r.drops {
        let _ = writeln!(text, "  {dropped}");
    }
    if let Some(c) = &r.ceiling {
        let _ = writeln!(
            text,
            "  loopback limit at {} B: {:.0} k/s single ({:.0} %), {:.0} k/s batched ({:.0} %)",
            c.datagram_bytes,
            c.single_per_s / 1e3,
            c.share_of_single * 100.0,
            c.batched_per_s / 1e3,
            c.share_of_batched * 100.0
        );
    }
    text
}
