// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser nettlp perf`: measures reads and writes of the memory of an adapter's host.

use super::bytes::{number, within_addresses};
use super::peer::{PeerArgs, failure, malformed_datagrams, requester};
use crate::commands::sizes::{at_least, whole};
use crate::commands::words::{Word, one_of};
use crate::{Failure, interrupt, output, progress};
use clap::ArgAction;
use nettlp::tools::perf::{self, Measured, Measurement, Pattern, PerfError, Tally, Workload};
use std::time::Duration;
use worlds::tools::{Outcome, PerfReport};

const MAX_THREADS: u64 = 256;

const EXAMPLE: &str = "\
Examples:
  riser nettlp perf read -r 192.168.10.1
  riser nettlp perf read --len 512 --threads 4 --regions diff --pattern random -r 192.168.10.1
  riser nettlp perf read --outstanding 1 -r 127.0.0.1 -l 127.0.0.2
  riser nettlp perf write --len 256 --duration 5 --ceiling --json -r 127.0.0.1 -l 127.0.0.2

Replaces tlpperf: read is its DMA read, write its DMA write. Each thread has its own tags or session and keeps \
--outstanding requests outstanding; measure the latency of single reads with --outstanding 1. In the tagged scheme a write \
counts as done when the kernel accepts its datagram, even if it is lost later; in a session, when the peer acknowledges it.
--json prints one object:
  remote, scheme (tagged, paper, session), direction, length_bytes, threads, outstanding, batch, pattern, regions, region_bytes, \
  mps_bytes, mrrs_bytes, elapsed_s, requests, failed, bytes, requests_per_s, tlps_per_s (requests and completions), \
  bandwidth_gbps (data alone), cpu_s, cpu_ns_per_request, cpu_ns_per_tlp (this process, both user and system), latency_ns: \
  {min, mean, median, p90, p99, p999, max} (null for writes, and if no read was answered), counters: {read_tlps, \
  write_tlps, retried, timed_out, late, copies, strays}, faults: {unsupported_request, completer_abort, config_retry, poisoned, timed_out}, sockets: \
  {received_datagrams, sent_datagrams, receive_calls, send_calls, malformed_datagrams, kernel_drops}, refusals (as in riser run; omitted if empty), drops (as in riser nettlp read; omitted if empty), ceiling (with --ceiling): {datagram_bytes, \
  single_per_s, batched_per_s, share_of_single, share_of_batched}
The exit status is 1 if a request failed.";

/// Directions, with true for writes.
const DIRECTIONS: [Word<bool>; 2] = [("read", "Read memory", false), ("write", "Write memory", true)];

const PATTERNS: [Word<Pattern>; 3] = [
    ("fixed", "Always the first address of the region", Pattern::Fixed),
    ("sequential", "One after the other, wrapping at the end of the region", Pattern::Sequential),
    ("random", "Anywhere in the region, at multiples of the length", Pattern::Random),
];

/// Regions; true if each thread has its own part.
const REGIONS: [Word<bool>; 2] = [
    ("same", "All threads share the region", false),
    ("diff", "Each thread has its own part of the region", true),
];

/// Measure DMA: rate, bandwidth, latency, CPU time
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    #[arg(value_parser = one_of(&DIRECTIONS), action = ArgAction::Set)]
    direction: bool,

    #[command(flatten)]
    peer: PeerArgs,

    /// First address of the region, decimal or with 0x
    #[arg(short, long, value_name = "ADDRESS", default_value = "0", value_parser = number)]
    address: u64,

    /// Bytes of the region
    #[arg(short = 's', long, value_name = "BYTES", default_value = "4M", value_parser = number)]
    region: u64,

    /// Bytes of each request
    #[arg(short = 'L', long, value_name = "BYTES", default_value = "256", value_parser = number)]
    len: u64,

    /// Number of threads, each with its own tags or session; with a port per tag, one thread per core is fastest
    #[arg(short = 'N', long, value_name = "COUNT", default_value_t = 1, value_parser = whole::<u64>(1..=MAX_THREADS))]
    threads: u64,

    /// Region of each thread
    #[arg(short = 'R', long, value_parser = one_of(&REGIONS), default_value = "same", action = ArgAction::Set)]
    regions: bool,

    /// Order of the addresses
    #[arg(short = 'P', long, value_parser = one_of(&PATTERNS), default_value = "sequential")]
    pattern: Pattern,

    /// Number of outstanding transfers, per thread
    #[arg(short = 'O', long, value_name = "COUNT", default_value_t = 256, value_parser = whole::<u64>(1..=4096))]
    outstanding: u64,

    /// Requests issued at once, so that datagrams are sent and received in batches, at most --outstanding. The next
    /// batch starts when this many outstanding requests have ended [default: a quarter of --outstanding]
    #[arg(long, value_name = "COUNT", value_parser = whole::<u64>(1..=4096))]
    batch: Option<u64>,

    /// Seconds to measure
    #[arg(short = 't', long, value_name = "SECONDS", default_value_t = 5.0, value_parser = at_least(0.0))]
    duration: f64,

    /// End after this many requests per thread, if that is earlier
    #[arg(short, long, value_name = "COUNT", value_parser = number)]
    count: Option<u64>,

    /// Seed of random numbers: the addresses
    #[arg(long, default_value_t = 1, value_parser = whole(0..=u64::MAX))]
    seed: u64,

    /// Measure also the datagram rate of this machine's loopback; takes one second and two cores
    #[arg(long)]
    ceiling: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let workload = args.workload();
    workload.check().map_err(Failure::usage)?;
    within_addresses(args.address, args.region)?;
    if !(args.duration > 0.0 && args.duration <= 86_400.0) {
        let why = format!("--duration {}: expected more than 0, up to 86400 seconds", args.duration);
        return Err(Failure::usage(why));
    }
    let (options, stop) = (args.peer.options()?, interrupt::flag()?);
    let measurement = Measurement::connect(&options, requester(&options)?, &workload);
    let measurement = measurement.map_err(|error| match error {
        PerfError::Tags(..) => Failure::usage(error),
        PerfError::Open(_) => Failure::run(error),
    })?;
    let (scheme, cpu) = (measurement.scheme, session::cpu_seconds());
    let bar = progress::bar("{bar:30} {pos}/{len} s");
    bar.set_length(args.duration as u64);
    let measured = measurement.run(&stop, Duration::from_secs_f64(args.duration), |elapsed| {
        if elapsed > progress::PATIENCE {
            bar.set_position(elapsed.as_secs());
        }
    });
    bar.finish_and_clear();
    let Measured { tally, elapsed, error } = measured;
    let (elapsed_s, cpu_s) = (elapsed.as_secs_f64(), session::cpu_seconds() - cpu);
    let mut outcome =
        Outcome { options: &options, workload: &workload, scheme, tally, elapsed_s, cpu_s, ceiling: None };
    if let Some(error) = error {
        // Show the results from before the error.
        if outcome.tally.requests > 0 {
            show(&outcome, args.json).ok();
        }
        let Tally { refusals, sockets, drops, .. } = &outcome.tally;
        return Err(failure(&options.target, &error, refusals.kinds(), sockets, drops));
    }
    if args.ceiling {
        let ceiling = perf::ceiling(&options, &workload, &outcome.tally);
        outcome.ceiling = Some(ceiling.map_err(|e| Failure::Run(format!("--ceiling: {e}")))?);
    }
    show(&outcome, args.json)
}

fn show(outcome: &Outcome<'_>, json: bool) -> Result<(), Failure> {
    let report = PerfReport::new(outcome);
    if json {
        output::json(&report)?;
    } else {
        output::text(report.text().trim_end())?;
        malformed_datagrams(&outcome.tally.sockets).iter().try_for_each(|line| output::text(line))?;
    }
    report.failure().map_or(Ok(()), |why| Err(Failure::Run(why)))
}

impl Args {
    fn workload(&self) -> Workload {
        Workload {
            is_write: self.direction,
            address: self.address,
            region_bytes: self.region,
            is_split: self.regions,
            pattern: self.pattern,
            seed: self.seed,
            len: self.len,
            threads: self.threads,
            outstanding: self.outstanding,
            batch: self.batch.unwrap_or(self.outstanding.div_ceil(4)),
            count: self.count.unwrap_or(u64::MAX),
        }
    }
}
