// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser nettlp perf`: how fast memory behind an adapter is read and written.
//!
//! - [`addresses`]: where each request goes; [`worker`]: one thread; [`report`]: what came of it.

mod addresses;
mod report;
mod worker;

use super::bytes::{number, within_addresses};
use super::peer::PeerArgs;
use crate::failure::Failure;
use crate::{interrupt, progress};
use addresses::Region;
use clap::ValueEnum;
use nettlp::client::Client;
use nettlp::net::{self, AnyCarrier, Ceiling};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use worker::{Tally, Worker};

/// Bytes that one request may have.
const MAX_LEN: u64 = 1 << 20;
/// Bytes that all buffers may take.
const MAX_BUFFER_BYTES: u64 = 1 << 30;
const MAX_THREADS: u64 = 256;
/// How long each way of sending is measured for the ceiling.
const CEILING_SPAN: tlp::Duration = tlp::Duration::from_ms(500);

const EXAMPLE: &str = "\
Examples:
  riser nettlp perf read -r 192.168.10.1
  riser nettlp perf read --len 512 --threads 4 --regions diff --pattern random -r 192.168.10.1
  riser nettlp perf read --outstanding 1 -r 127.0.0.1 -l 127.0.0.2
  riser nettlp perf write --len 256 --duration 5 --ceiling --json -r 127.0.0.1 -l 127.0.0.2

In place of tlpperf; read is its DMA read, write its DMA write. Each thread has tags, or a session, of its own, and keeps \
--outstanding requests under way; latency of single reads wants --outstanding 1. In the tagged scheme writes count as done \
when the kernel has taken them, whether they arrive or not; in a session when the peer has acknowledged them.
--json prints one object:
  remote, scheme (tagged, paper, session), direction, length_bytes, threads, outstanding, batch, pattern, regions, region_bytes, \
  mps_bytes, mrrs_bytes, elapsed_s, requests, failed, bytes, requests_per_s, tlps_per_s (requests and completions), \
  bandwidth_gbps (data alone), cpu_s, cpu_ns_per_request, cpu_ns_per_tlp (this process, both user and system), latency_ns: \
  {min, mean, median, p90, p99, p999, max} (null for writes, and where no read was answered), counters: {read_tlps, \
  write_tlps, retried, timed_out, late, copies, strays}, faults: {unsupported_request, completer_abort, config_retry, poisoned, timed_out}, sockets: \
  {received_datagrams, sent_datagrams, receive_calls, send_calls, kernel_drops}, ceiling (with --ceiling): {datagram_bytes, \
  single_per_s, batched_per_s, share_of_single, share_of_batched}
The exit status is 1 where a request failed.";

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Direction {
    /// Read memory
    Read,
    /// Write memory
    Write,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Pattern {
    /// Always the first address of the region
    Fixed,
    /// One behind the other, and from the front again
    Sequential,
    /// Anywhere in the region, at multiples of the length
    Random,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Regions {
    /// All threads have one region
    Same,
    /// Each thread has its part of it
    Diff,
}

/// Measure DMA: rate, bandwidth, latency, CPU time
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    #[arg(value_enum)]
    direction: Direction,

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

    /// Threads, each with tags or a session of its own; over ports, one for each core is fastest
    #[arg(short = 'N', long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=MAX_THREADS))]
    threads: u64,

    /// Whether threads share the region
    #[arg(short = 'R', long, value_enum, default_value = "same")]
    regions: Regions,

    /// Where each request goes
    #[arg(short = 'P', long, value_enum, default_value = "sequential")]
    pattern: Pattern,

    /// Requests under way, for each thread
    #[arg(short = 'O', long, value_name = "COUNT", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=4096))]
    outstanding: u64,

    /// Requests that are made at once, so that datagrams leave and come back in batches: none is made before so many of those
    /// outstanding have ended [default: a quarter of --outstanding]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=4096))]
    batch: Option<u64>,

    /// Seconds to measure
    #[arg(short = 't', long, value_name = "SECONDS", default_value_t = 5.0)]
    duration: f64,

    /// End after so many requests of each thread, if that is earlier
    #[arg(short, long, value_name = "COUNT", value_parser = number)]
    count: Option<u64>,

    /// What random addresses follow from
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Measure how many datagrams this machine's loopback moves, too: one second, two cores
    #[arg(long)]
    ceiling: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What a run has brought.
struct Outcome {
    scheme: &'static str,
    tally: Tally,
    elapsed_s: f64,
    cpu_s: f64,
    ceiling: Option<Ceiling>,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    check(&args)?;
    let stop = interrupt::flag()?;
    let (clients, scheme) = clients(&args)?;
    let workers: Vec<Worker> = clients
        .into_iter()
        .enumerate()
        .map(|(n, client)| Worker::new(client, plan(&args, n as u64)))
        .collect();
    let (begun, cpu) = (Instant::now(), session::cpu_seconds());
    let (tally, broken) = run_all(workers, &stop, args.duration);
    let (elapsed_s, cpu_s) = (begun.elapsed().as_secs_f64(), session::cpu_seconds() - cpu);
    let broken = broken.map(|e| super::peer::failure(&args.peer, &e));
    if let Some(broken) = broken {
        // What was measured before is not lost.
        if tally.requests > 0 {
            report::show(&args, &Outcome { scheme, tally, elapsed_s, cpu_s, ceiling: None }).ok();
        }
        return Err(broken);
    }
    let ceiling = if args.ceiling { Some(measure_ceiling(&args, &tally)?) } else { None };
    report::show(&args, &Outcome { scheme, tally, elapsed_s, cpu_s, ceiling })
}

fn check(args: &Args) -> Result<(), Failure> {
    let refuse = |why: String| Err(Failure::usage(why));
    let share = share(args);
    if args.len == 0 || args.len > MAX_LEN {
        return refuse(format!("--len {}: legal are 1 to {MAX_LEN} bytes", args.len));
    }
    if share < args.len {
        return refuse(format!(
            "a region of {share} bytes for each thread: legal are --len, {}, and more",
            args.len
        ));
    }
    within_addresses(args.address, args.region)?;
    let buffers = args.len * args.outstanding * args.threads;
    if buffers > MAX_BUFFER_BYTES {
        return refuse(format!(
            "--len, --outstanding and --threads ask for {buffers} bytes of buffers: legal are up to {MAX_BUFFER_BYTES}"
        ));
    }
    if !(args.duration > 0.0 && args.duration <= 86_400.0) {
        return refuse(format!("--duration {}: legal are more than 0 up to 86400 seconds", args.duration));
    }
    Ok(())
}

/// Requests that are made at once.
fn batch(args: &Args) -> u64 {
    args.batch.unwrap_or(args.outstanding.div_ceil(4)).min(args.outstanding)
}

/// Bytes that each thread has.
fn share(args: &Args) -> u64 {
    match args.regions {
        Regions::Same => args.region,
        Regions::Diff => args.region / args.threads,
    }
}

fn plan(args: &Args, thread: u64) -> worker::Plan {
    let bytes = share(args);
    let part = if args.regions == Regions::Diff { thread } else { 0 };
    let (address, seed) = (args.address + part * bytes, args.seed.wrapping_add(thread));
    worker::Plan {
        is_write: args.direction == Direction::Write,
        len: args.len,
        outstanding: args.outstanding,
        batch: batch(args),
        region: Region { address, bytes },
        pattern: args.pattern,
        seed,
        count: args.count.unwrap_or(u64::MAX),
    }
}

/// A client for each thread, and how they reach the peer.
fn clients(args: &Args) -> Result<(Vec<Client<AnyCarrier>>, &'static str), Failure> {
    let requester = args.peer.requester()?;
    let clients: Result<Vec<_>, _> =
        (0..args.threads).map(|thread| args.peer.client(requester, tags(args, thread)?)).collect();
    let clients = clients?;
    let is_session = clients.iter().all(Client::is_reliable);
    Ok((clients, if is_session { "session" } else { args.peer.fallback() }))
}

/// The part of the tags that a thread has: as many as its requests need, where they need not rest.
fn tags(args: &Args, thread: u64) -> Result<RangeInclusive<u16>, Failure> {
    let all = args.peer.tags_or(0..=args.peer.last_tag());
    let share = all.len() as u64 / args.threads;
    if share == 0 {
        let (threads, tags) = (args.threads, all.len());
        return Err(Failure::usage(format!("{threads} threads share {tags} tags: each needs one at least")));
    }
    let needed = args.outstanding.saturating_mul(args.len.div_ceil(u64::from(args.peer.mrrs().bytes())) + 1);
    let count = if args.peer.rests_after_all() { share } else { share.min(needed) };
    let first = u64::from(*all.start()) + thread * share;
    Ok(first as u16..=(first + count - 1) as u16)
}

/// The ceiling of datagrams as long as those that have carried data.
fn measure_ceiling(args: &Args, tally: &Tally) -> Result<Ceiling, Failure> {
    let carriers = match args.direction {
        Direction::Read => tally.counters.completions,
        Direction::Write => tally.counters.write_tlps,
    };
    let bytes = tally.bytes.checked_div(carriers).unwrap_or(args.len) as usize + report::AROUND_DATA;
    let here = |address: &IpAddr| address.is_loopback();
    let address = args.peer.local().filter(here).unwrap_or(Ipv4Addr::LOCALHOST.into());
    net::ceiling(address, bytes, CEILING_SPAN).map_err(|e| Failure::Run(format!("--ceiling: {e}")))
}

fn run_all(
    workers: Vec<Worker>,
    stop: &AtomicBool,
    seconds: f64,
) -> (Tally, Option<nettlp::client::ClientError>) {
    let span = Duration::from_secs_f64(seconds);
    thread::scope(|scope| {
        let threads: Vec<_> =
            workers.into_iter().map(|worker| scope.spawn(move || worker.run(stop, span))).collect();
        show_progress(stop, span, || threads.iter().all(thread::ScopedJoinHandle::is_finished));
        let (mut sum, mut broken) = (Tally::default(), None);
        for thread in threads {
            let (tally, why) = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            sum.add(&tally);
            if why.is_some() {
                stop.store(true, Ordering::Relaxed);
            }
            broken = broken.or(why);
        }
        (sum, broken)
    })
}

/// Looks on until all is done.
fn show_progress(stop: &AtomicBool, span: Duration, is_done: impl Fn() -> bool) {
    let (bar, begun) = (progress::bar("{bar:30} {pos}/{len} s"), Instant::now());
    bar.set_length(span.as_secs());
    while !is_done() && !stop.load(Ordering::Relaxed) {
        thread::park_timeout(Duration::from_millis(20));
        if begun.elapsed() > Duration::from_secs(2) {
            bar.set_position(begun.elapsed().as_secs());
        }
    }
    bar.finish_and_clear();
}
