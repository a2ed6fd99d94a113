// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser run`: runs a lab to its end and shows what happened, from `riser-lab`.

mod drive;
mod taps;

use super::labs::{self, Native, Set};
use super::sizes::seed;
use super::words::{Word, one_of};
use crate::failure::Failure;
use crate::{interrupt, output};
use fabric::{Side, Stop};
use lab::BuildOptions;
use plug::{Models, RunContext};
use session::Session;
use std::path::PathBuf;
use taps::Taps;

const EXAMPLE: &str = "\
Examples:
  riser run labs/ping.toml
  riser run labs/ping.toml --capture out/ping.pcapng --dllps
  riser run labs/speed/write.toml --json
  riser run labs/ping.toml --transactions-json out/ping.jsonl
  riser run labs/ping.toml --set slot.nic.link.gen=4 --set host.profile=xeon-e5-2637v3
  riser run - --capture - < labs/ping.toml | riser trace -

Runs until the host's programs are done, nothing can go on, or the lab's limit_us comes. --json prints one object:
  lab, set (what --set has given), seed, outcome (finished, failed, time-limit, no-progress, interrupted), warnings, basis, reasons, simulated_ns, events, tlp_hops, cpu_seconds, \
  refusals (left out if there are none): [{place, rule, section (of PCIe 5.0), field, found, expected, tlp (the first one, as riser trace prints it), time_ps, count, \
  waited_ps (of a request that timed out), routine, note (the windows that an address of the host misses)}], \
  links: [{slot, gen, lanes, mps_bytes, directions: [{direction, tlps, dllps, payload_bytes, wire_bytes, utilization, \
  payload_gbps, active_ns, active_gbps, replays, credit_stalls, ...}], transactions: [{kind, requests, basis, latency_ns_{min,median,mean,p99,max}, means of the parts \
  (queue_ns, credit_wait_ns, serialization_ns, wire_ns, replay_ns, root_complex_ns, memory_ns, switch_ns, completer_ns), min, median, \
  p99, max: one such transaction each, {requester, tag, bytes, start_ns, latency_ns and its parts}}]}], \
  root_complex: {...}, devices: [{slot, model, basis, counters: {...}}]
The basis says how the figures of the profiles are known that the latencies of a kind rest on: measured (or looked up), fitted (to measurements) or \
assumed, whichever is the weakest; that of the report is the weakest of all but interrupts. `riser profiles show NAME` has the source of each figure.
A link's table has two rates of data for each direction: `run Gb/s` over the whole run (payload_gbps), and `active Gb/s` over the time from the \
first to the last TLP with data of memory requests, AtomicOps or their completions (active_ns). Busy is a share of the whole run.
Errors have lines of their own: counts, by their names in JSON, that are not zero, of each link by direction and of the root \
complex. Damaged frames, which are sent again, are not among them. After them comes a line for each kind of refused TLPs: the part that refused \
them, their number, the rule with the value found and the legal values (`riser rules NAME` explains it), and the first TLP. \
Only --json has the routine ones: configuration reads that look for a function, and TLPs that a link sends again.
The bytes of a direction by kind (payload, header, digest, framing, replay, dllp, skp) add up to wire_bytes. \
A transaction is a request with its completions, from when it is handed to the transmit queue (of the host: to the root \
complex) until its last completion has come, or its data is visible. Its parts add up to its latency:
  queue          in transmit queues: for other TLPs and what else the wire carries, for room in the replay buffer
  credit wait    at the head of a transmit queue, without credits
  serialization  from first symbol to last
  wire           in flight
  replay         from when it would have arrived until it was accepted, having been sent again
  root complex   the root complex's latency, each way
  memory         the memory system: waiting for it, service, latency
  switch         switches: their latency, and the wait for their other TLPs and for room
  completer      the device that answers the host
Of several completions the way of the last one counts. Least, mean and greatest are exact, median and p99 within 1/512.
--transactions-json writes an object a line: slot, kind, requester, tag, bytes, status, start_ps, end_ps, latency_ps and \
the parts (queue_ps, ...), whose sum is latency_ps.
Ctrl-C ends a run with the report so far and its files closed, a second one at once. Where - is a file, LAB.toml comes from \
standard input, with relative paths from the current folder, and --capture or --transactions-json goes to standard output, the \
report then to standard error. A file has its name when it is whole; until then it is beside it, as NAME.??????.part.
The exit status is 1 where the outcome is failed or no-progress, 130 where it is interrupted.";

/// Run a lab to its end and show what happened
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The lab file; - is standard input
    #[arg(value_name = "LAB.toml")]
    lab: PathBuf,

    #[command(flatten)]
    set: Set,

    #[command(flatten)]
    native: Native,

    /// Write every TLP to this pcapng file; - is standard output
    #[arg(long, value_name = "OUT.pcapng")]
    capture: Option<PathBuf>,

    /// Where the tap of --capture sits on each link
    #[arg(long, value_parser = one_of(&SIDES), default_value = "device", requires = "capture")]
    tap: Side,

    /// Write DLLPs too
    #[arg(long, requires = "capture")]
    dllps: bool,

    /// Write a JSON line for each transaction to this file: how long it took, and where
    #[arg(long, value_name = "OUT.jsonl")]
    transactions_json: Option<PathBuf>,

    /// Do not count where transactions spend their time: the report has no latencies, and the run is quicker
    #[arg(long, conflicts_with = "transactions_json")]
    no_latencies: bool,

    /// Overwrite the files of --capture and --transactions-json where they exist
    #[arg(long)]
    force: bool,

    /// Seed, in place of the lab's
    #[arg(long, allow_negative_numbers = true, value_parser = seed)]
    seed: Option<u64>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const SIDES: [Word<Side>; 2] =
    [("root", "At the root port", Side::Root), ("device", "At the device", Side::Device)];

pub(crate) fn run(args: Args, models: &Models) -> Result<(), Failure> {
    let (mut file, name) = labs::read(models, &args.lab, &args.set)?;
    if let Some(seed) = args.seed {
        file.lab.seed = seed;
    }
    file.check_runs_alone().map_err(Failure::Run)?;
    let interrupted = interrupt::flag()?;
    let triggers = rtl::Triggers::default();
    let build = || {
        let (native, context) = (args.native.leave(), RunContext::with(triggers.clone()));
        Session::with(&file, BuildOptions { native, context, ..BuildOptions::default() })
            .map_err(Failure::Run)
    };
    let mut session = build()?;
    if triggers.are_wanted() {
        // Once to find when, and again with waves around it.
        drive::drive(&mut session, &Taps::default(), &interrupted)?;
        triggers.again();
        drop(session);
        session = build()?;
    }
    output::warn(session.warnings());
    session.fabric.keep_accounts(!args.no_latencies);
    let taps = Taps::open(&args, &file, &mut session)?;
    let before = session::cpu_seconds();
    let stop = drive::drive(&mut session, &taps, &interrupted)?;
    let spent = session::cpu_seconds() - before;
    let written = taps.finish(&mut session);
    let mut report = session.report(&name, &stop, spent);
    if stop == Stop::Paused {
        report.outcome = "interrupted";
    }
    if args.json {
        output::json(&report)?
    } else {
        output::text(&report.to_string())?
    }
    // The report is there, whatever became of the files.
    written?;
    match stop {
        Stop::Paused => Err(Failure::interrupted_at(report.simulated_ns)),
        Stop::Failed(_) | Stop::NoProgress(_) => Err(Failure::Run(stop.to_string())),
        _ => Ok(()),
    }
}
