// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser run`: runs a lab to its end and shows what happened, from `riser-lab`.

use super::{cpu, files, parts};
use crate::failure::Failure;
use crate::output;
use crate::progress;
use clap::ValueEnum;
use fabric::{Limits, Side, Stop};
use indicatif::ProgressBar;
use lab::report::{HotPlugReport, LinkReport};
use lab::{Assembly, CaptureOptions, Report};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const EXAMPLE: &str = "\
Examples:
  riser run labs/ping.toml
  riser run labs/ping.toml --capture out/ping.pcapng --dllps
  riser run labs/speed/write.toml --json
  riser run labs/ping.toml --transactions-json out/ping.jsonl

Runs until the host's programs are done, nothing can go on, or the lab's limit_us comes. --json prints one object:
  lab, seed, outcome (finished, failed, time-limit, no-progress), reasons, simulated_ns, events, tlp_hops, cpu_seconds, \
  links: [{slot, gen, lanes, mps_bytes, directions: [{direction, tlps, dllps, payload_bytes, wire_bytes, utilization, \
  replays, credit_stalls, ...}], transactions: [{kind, requests, latency_ns_{min,median,mean,p99,max}, means of the parts \
  (queue_ns, credit_wait_ns, serialization_ns, wire_ns, replay_ns, root_complex_ns, memory_ns, completer_ns), min, median, \
  p99, max: one such transaction each, {requester, tag, bytes, start_ns, latency_ns and its parts}}]}], \
  root_complex: {...}, devices: [{slot, model, counters: {...}}]
Errors have lines of their own: counts, by their names in JSON, that are not zero, of each link by direction and of the root \
complex. Damaged frames, which are sent again, are not among them.
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
  completer      the device that answers the host
Of several completions the way of the last one counts. Least, mean and greatest are exact, median and p99 within 1/512.
--transactions-json writes an object a line: slot, kind, requester, tag, bytes, status, start_ps, end_ps, latency_ps and \
the parts (queue_ps, ...), whose sum is latency_ps.
The exit status is 1 where the outcome is failed or no-progress.";

/// Events between two looks at the wall clock.
const SLICE: u64 = 200_000;
/// Progress is shown on runs longer than this.
const PATIENCE: Duration = Duration::from_secs(2);

/// Run a lab to its end and show what happened
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The lab file
    #[arg(value_name = "LAB.toml")]
    lab: PathBuf,

    /// Write every TLP to this pcapng file
    #[arg(long, value_name = "OUT.pcapng")]
    capture: Option<PathBuf>,

    /// Where the tap of --capture sits on each link
    #[arg(long, value_enum, default_value_t = At::Device, requires = "capture")]
    tap: At,

    /// Write DLLPs too
    #[arg(long, requires = "capture")]
    dllps: bool,

    /// Write a JSON line for each transaction to this file: how long it took, and where
    #[arg(long, value_name = "OUT.jsonl")]
    transactions_json: Option<PathBuf>,

    /// Overwrite the files of --capture and --transactions-json where they exist
    #[arg(long)]
    force: bool,

    /// Seed, in place of the lab's
    #[arg(long)]
    seed: Option<u64>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum At {
    /// At the root port
    Root,
    /// At the device
    Device,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let mut file = lab::read(&args.lab).map_err(|e| Failure::Run(e.to_string()))?;
    if let Some(seed) = args.seed {
        file.lab.seed = seed;
    }
    let mut assembly = lab::build(&file).map_err(Failure::Run)?;
    let capture = match &args.capture {
        Some(path) => {
            files::not_the_input(path, &args.lab)?;
            files::not_the_input(path, &file.base.path().join(file.lab.host.profile.get_ref()))?;
            let out = files::create(path, args.force)?;
            let options = CaptureOptions { at: args.tap.side(), dllps: args.dllps };
            let handle = assembly.capture(out, options).map_err(|e| files::failed(path, &e))?;
            Some((path, handle))
        }
        None => None,
    };
    let log = match &args.transactions_json {
        Some(path) => {
            files::not_the_input(path, &args.lab)?;
            files::not_the_input(path, &file.base.path().join(file.lab.host.profile.get_ref()))?;
            Some((path, assembly.log_transactions(files::create(path, args.force)?)))
        }
        None => None,
    };
    let before = cpu::seconds();
    let stop = drive(&mut assembly, file.lab.limit_us);
    let spent = cpu::seconds() - before;
    if let Some((path, handle)) = capture {
        assembly.fabric.take_tap();
        handle.finish().map_err(|e| files::failed(path, &e))?;
    }
    if let Some((path, handle)) = log {
        handle.finish().map_err(|e| files::failed(path, &e))?;
    }
    let report = assembly.report(&args.lab.display().to_string(), &stop, spent);
    if args.json {
        output::json(&report)?
    } else {
        show(&report)?
    }
    match stop {
        Stop::Failed(_) | Stop::NoProgress(_) => Err(Failure::Run(stop.to_string())),
        _ => Ok(()),
    }
}

impl At {
    const fn side(self) -> Side {
        match self {
            At::Root => Side::Root,
            At::Device => Side::Device,
        }
    }
}

/// Runs to the end, with progress on a terminal's standard error where that takes long.
fn drive(assembly: &mut Assembly, limit_us: Option<u64>) -> Stop {
    let until = lab::limit(limit_us);
    let start = Instant::now();
    let mut bar: Option<ProgressBar> = None;
    loop {
        let stop = assembly.fabric.run(Limits { until, events: SLICE, ..Limits::default() });
        if stop != Stop::Paused {
            if let Some(bar) = bar {
                bar.finish_and_clear();
            }
            return stop;
        }
        if start.elapsed() > PATIENCE {
            let bar = bar.get_or_insert_with(|| progress::spinner("{spinner} {elapsed} {msg}"));
            let totals = assembly.fabric.totals();
            bar.set_message(format!("{} simulated, {} TLP-hops", assembly.fabric.now(), totals.tlp_hops));
            bar.tick();
        }
    }
}

fn show(report: &Report) -> Result<(), Failure> {
    output::text(&format!(
        "{}: {} after {:.3} us; {} events, {} TLP-hops in {:.3} s of CPU",
        report.lab,
        report.outcome,
        report.simulated_ns / 1_000.0,
        report.events,
        report.tlp_hops,
        report.cpu_seconds
    ))?;
    output::text("")?;
    let header = [
        "slot",
        "link",
        "direction",
        "TLPs",
        "DLLPs",
        "payload B",
        "wire B",
        "busy %",
        "Gb/s",
        "replays",
        "stalls",
    ];
    let rows = report.links.iter().flat_map(|link| {
        link.directions.iter().map(move |d| {
            vec![
                link.slot.clone(),
                format!("Gen{} x{}", link.generation, link.lanes),
                d.direction.to_owned(),
                d.tlps.to_string(),
                d.dllps.to_string(),
                d.payload_bytes.to_string(),
                d.wire_bytes.to_string(),
                format!("{:.1}", d.utilization * 100.0),
                format!("{:.3}", d.payload_gbps),
                d.replays.to_string(),
                d.credit_stalls.to_string(),
            ]
        })
    });
    output::table(&header, rows)?;
    show_errors(report)?;
    show_hot_plug(report)?;
    show_transactions(report)?;
    show_devices(report)
}

/// A line for each link, and one for the root complex, where a count of errors is not zero.
fn show_errors(report: &Report) -> Result<(), Failure> {
    let named = |prefix: &str, counts: Vec<(&str, u64)>| -> Vec<String> {
        counts.into_iter().map(|(name, n)| format!("{prefix}{name} {n}")).collect()
    };
    let of_link = |link: &LinkReport| {
        let ways = link.directions.iter().map(|d| named(&format!("{} ", d.direction), d.errors()));
        (link.slot.clone(), ways.collect::<Vec<_>>().concat())
    };
    let root = ("root complex".to_owned(), named("", report.root_errors()));
    let all = report.links.iter().map(of_link).chain([root]);
    for (n, (place, counts)) in all.filter(|(_, counts)| !counts.is_empty()).enumerate() {
        let gap = if n == 0 { "\n" } else { "" };
        output::text(&format!("{gap}errors, {place}: {}", counts.join(", ")))?;
    }
    Ok(())
}

/// A line for each event of slots that are hot-plug capable.
fn show_hot_plug(report: &Report) -> Result<(), Failure> {
    if report.hot_plug.is_empty() {
        return Ok(());
    }
    output::text("\nWhat came and went")?;
    let row = |e: &HotPlugReport| vec![format!("{:.3}", e.at_ns / 1_000.0), e.slot.clone(), e.event.clone()];
    output::table(&["us", "slot", "event"], report.hot_plug.iter().map(row))
}

fn show_transactions(report: &Report) -> Result<(), Failure> {
    output::text("\nHow long transactions took and where, in ns")?;
    let all = report.links.iter().flat_map(|link| link.transactions.iter().map(move |t| (&link.slot, t)));
    let rows = all.flat_map(|(slot, t)| {
        let head = move |which: &str| match which {
            "mean" => vec![slot.clone(), t.kind.to_owned(), t.requests.to_string(), which.to_owned()],
            _ => [vec![String::new(); 3], vec![which.to_owned()]].concat(),
        };
        t.rows().into_iter().map(move |(which, whole, parts)| (head(which), whole, parts))
    });
    parts::table(&["slot", "kind", "requests", ""], rows.collect())
}

fn show_devices(report: &Report) -> Result<(), Failure> {
    for device in report.devices.iter().filter(|d| !d.counters.is_empty()) {
        let (parts, counts): (Vec<_>, Vec<_>) =
            device.counters.iter().partition(|(name, _)| name.contains('.'));
        let counts: Vec<String> =
            counts.into_iter().map(|(name, value)| format!("{name} {}", short(value))).collect();
        let line = format!("\n{} ({}): {}", device.slot, device.model, counts.join(", "));
        output::text(line.trim_end_matches([' ', ':']))?;
        show_parts(&parts)?;
    }
    Ok(())
}

/// What a device shows of several things, such as flows, as `thing.what`: a row for each thing.
fn show_parts(parts: &[(&String, &serde_json::Value)]) -> Result<(), Failure> {
    let mut columns: Vec<&str> = Vec::new();
    let mut rows: Vec<(&str, BTreeMap<&str, String>)> = Vec::new();
    for (thing, what, value) in parts.iter().filter_map(|(name, value)| split(name, value)) {
        if !columns.contains(&what) {
            columns.push(what);
        }
        if rows.last().is_none_or(|(last, _)| *last != thing) {
            rows.push((thing, BTreeMap::new()));
        }
        if let Some((_, row)) = rows.last_mut() {
            row.insert(what, short(value));
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    let cells = |(thing, row): (&str, BTreeMap<&str, String>)| {
        let cell = |what: &&str| row.get(what).cloned().unwrap_or_default();
        std::iter::once(thing.to_owned()).chain(columns.iter().map(cell)).collect()
    };
    let header: Vec<&str> = std::iter::once("").chain(columns.iter().copied()).collect();
    output::table(&header, rows.into_iter().map(cells))
}

fn split<'a>(
    name: &'a str,
    value: &'a serde_json::Value,
) -> Option<(&'a str, &'a str, &'a serde_json::Value)> {
    name.rsplit_once('.').map(|(thing, what)| (thing, what, value))
}

/// A number with three digits behind the point at most; JSON has them all.
fn short(value: &serde_json::Value) -> String {
    match value.as_f64().filter(|_| value.is_f64()) {
        Some(number) => format!("{number:.3}"),
        None => value.to_string(),
    }
}
