// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser run`: runs a lab to its end and prints the report of `riser-session`.

mod drive;
mod taps;

use super::labs::{self, LabOptions};
use super::sizes::whole;
use super::words::{Word, one_of};
use crate::{Failure, interrupt, output};
use fabric::{Side, Stop};
use plug::Models;
use session::{RunOutcome, Session};
use std::path::PathBuf;
use taps::Taps;
use view::bars::StackedBars;
use worlds::designs;

const EXAMPLE: &str = "\
Examples:
  riser run labs/ping.toml
  riser run labs/ping.toml --capture out/ping.pcapng --dllps
  riser run labs/speed/write.toml --json
  riser run labs/ping.toml --transactions-json out/ping.jsonl
  riser run labs/tree.toml --latency-svg out/latencies.svg
  riser run labs/ping.toml --set slot.nic.link.gen=4 --set host.profile=xeon-e5-2637v3
  riser run - --capture - < labs/ping.toml | riser trace -

Runs until the host's programs end, no further progress is possible, or limit_us of the lab is reached. --json prints one object:
  lab, set (the values of --set), seed, outcome (finished, failed, time-limit, no-progress, interrupted), warnings, basis, reasons, simulated_ns, events, tlp_hops, cpu_seconds, \
  faults (omitted if the lab has none): [{fault (as in --set fault.0), slot, direction, frames_matched, frames_affected, note (why no frame was affected)}], \
  refusals (omitted if there are none): [{place, rule, section (of PCIe 5.0; §2.2.9.1 of 6.0), field, found, expected, tlp (the first one, in the format of riser trace), time_ps, count, \
  waited_ps (if a request timed out), routine, note (the windows, if an address of the host is in none of them)}], \
  links: [{slot, gen, lanes, mps_bytes, directions: [{direction, tlps, dllps, payload_bytes, wire_bytes, utilization, \
  payload_gbps, active_ns, active_gbps, replays, credit_stalls, ...}], transactions: [{kind, requests, basis, latency_ns_{min,median,mean,p99,max}, means of the parts \
  (queue_ns, credit_wait_ns, serialization_ns, wire_ns, replay_ns, root_complex_ns, memory_ns, switch_ns, completer_ns), min, median, \
  p99, max: one transaction with that latency, {requester, tag, bytes, start_ns, latency_ns and its parts}}]}], \
  root_complex: {...}, devices: [{slot, model, basis, counters: {...}}]
`basis` tells how well the profile figures of a latency are known: measured (or looked up), fitted (to measurements) \
or assumed. A kind of transaction has the weakest basis of its figures; the report has the weakest of all kinds except interrupts. \
`riser profiles show NAME` prints the source of each figure.
The table of a link has two data rates for each direction: `run Gb/s` over the whole run (payload_gbps), and `active Gb/s` from the \
first to the last TLP with data of memory requests, AtomicOps or their completions (active_ns). Busy is a share of the whole run.
Error counters that are not zero have separate lines, with their JSON names: those of each link by direction, and those of the root \
complex. Damaged frames are not among them, because they are sent again. Then follows one line for each kind of refused TLP: the part \
that refused it, the count, the rule with the value found and the legal values (`riser rules NAME` explains it), and the first TLP. \
A line for each fault has the numbers of frames that matched and that were affected. Routine refusals are only in --json: configuration reads that probe for a function, and TLPs that a link sends again.
The byte counts of a direction by kind (payload, header, digest, framing, replay, dllp, skp) add up to wire_bytes. \
A transaction is a request with its completions. It begins when the transmit queue (for a host request: the root complex) takes the \
request. It ends when the last completion has arrived, or the data is visible. Its parts add up to its latency:
  queue          in transmit queues: for other TLPs, for other traffic on the wire, or for room in the replay buffer
  credit wait    at the head of a transmit queue, without credits
  serialization  from the first symbol to the last
  wire           in flight
  replay         from the expected arrival until the replayed TLP is accepted
  root complex   latency of the root complex, each way
  memory         memory system: waiting, service and latency
  switch         switches: latency, and waiting for other TLPs and for room
  completer      the device that answers the host
If a request has several completions, the parts are those of the last one. Minimum, mean and maximum are exact, median and p99 within 1/512.
--transactions-json writes one object per line: slot, kind, requester, tag, bytes, status, start_ps, end_ps, latency_ps and \
the parts (queue_ps, ...), whose sum is latency_ps.
Ctrl-C ends a run, prints the report so far and completes the files. A second Ctrl-C ends it immediately. If LAB.toml is -, the lab is \
read from standard input, with relative paths from the current folder. If --capture or --transactions-json is -, it goes to standard \
output, and the report to standard error. Output goes to NAME.??????.part, which is renamed when complete.
The exit status is 1 if the outcome is failed or no-progress, and 130 if it is interrupted.";

/// Run a lab to its end and report what happened
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Lab file; - is standard input
    #[arg(value_name = "LAB.toml")]
    lab: PathBuf,

    #[command(flatten)]
    options: LabOptions,

    /// Write all TLPs to this pcapng file; - is standard output
    #[arg(long, value_name = "OUT.pcapng")]
    capture: Option<PathBuf>,

    /// Place on each link where --capture sees the TLPs
    #[arg(long = "capture-at", alias = "tap", value_name = "END", value_parser = one_of(&SIDES), default_value = "device", requires = "capture")]
    tap: Side,

    /// Write DLLPs to the capture too
    #[arg(long, requires = "capture")]
    dllps: bool,

    /// Write one JSON line per transaction to this file, with its latency and the latency's parts; - is standard output
    #[arg(long, value_name = "OUT.jsonl")]
    transactions_json: Option<PathBuf>,

    /// Draw the parts of the latencies as stacked bars in this file: of each kind of transaction the mean and the 99th percentile
    #[arg(long, value_name = "OUT.svg")]
    latency_svg: Option<PathBuf>,

    /// Do not measure latencies: the report has none, and the run is faster
    #[arg(long, conflicts_with_all = ["transactions_json", "latency_svg"])]
    no_latencies: bool,

    /// Overwrite existing files
    #[arg(long)]
    force: bool,

    /// Seed of random numbers [default: the lab's]
    #[arg(long, allow_negative_numbers = true, value_parser = whole(0..=u64::MAX))]
    seed: Option<u64>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const SIDES: [Word<Side>; 2] =
    [("root", "At the root port", Side::Root), ("device", "At the device", Side::Device)];

pub(crate) fn run(args: Args, models: &Models) -> Result<(), Failure> {
    let (mut file, name) = labs::read(models, &args.lab, &args.options.set)?;
    if let Some(seed) = args.seed {
        file.lab.seed = seed;
    }
    file.check_runs_alone().map_err(Failure::run)?;
    let interrupted = interrupt::flag()?;
    let search = |session: &mut Session| drive::drive(session, &Taps::default(), &interrupted).map(drop);
    let mut session = designs::build_at_triggers(&file, args.options.native.leave(), search)?;
    output::warn(session.warnings());
    session.fabric.keep_accounts(!args.no_latencies);
    let mut taps = Taps::open(&args, &file, &mut session)?;
    let picture = taps.latencies.take();
    let before = session::cpu_seconds();
    let stop = drive::drive(&mut session, &taps, &interrupted)?;
    let spent = session::cpu_seconds() - before;
    let written = taps.finish(&mut session);
    let mut report = session.report(&name, &stop, spent);
    if stop == Stop::Paused {
        report.outcome = RunOutcome::Interrupted;
    }
    output::report(args.json, &report)?;
    output::warn(&report.fault_warnings());
    // Print the report even if a file could not be written.
    written?;
    match (picture, StackedBars::of_latencies(&report)) {
        (Some(place), Some(chart)) => place.write(&chart.svg().map_err(Failure::run)?)?,
        (Some(_), None) => output::note("--latency-svg: no transaction finished, so no picture is written"),
        (None, _) => {}
    }
    match stop {
        Stop::Paused => Err(Failure::interrupted_at(report.simulated_ns)),
        Stop::Failed(_) | Stop::NoProgress(_) => Err(Failure::Run(stop.to_string())),
        _ => Ok(()),
    }
}
