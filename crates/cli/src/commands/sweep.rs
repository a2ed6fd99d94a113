// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser sweep`: runs a lab over ranges of its settings, with `riser-sweep`. Parses arguments, shows progress, and handles Ctrl-C.

use super::labs::Native;
use crate::commands::sizes::whole;
use crate::{Failure, interrupt, output, progress};
use files::ClaimedOutput;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use plug::Models;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread::available_parallelism;
use std::time::Instant;
use sweep::pool::Workers;
use sweep::{JournalError, RunningSweep, Start, Summary, Sweep, page, pool, results, worker};

const EXAMPLE: &str = "\
Examples:
  riser sweep labs/sweeps/link.toml
  riser sweep labs/sweeps/link.toml -o out/link --workers 8
  riser sweep labs/sweeps/link.toml -o out/link --resume
  riser sweep labs/sweeps/link.toml --json

The file names a lab. Its table [over] has keys of the lab with their values. It also selects the combinations to run: \
all, random or Sobol points, or successive halving toward an aim. Its [metrics] are figures from the output of `riser \
run --json`. See docs/reference/sweep.md.

Each point is run by one of --workers processes. Files in the folder of -o:
  journal.jsonl    each record when it is complete; --resume continues the journal, and skips points that have a record
  results.parquet  a row for each point, in order: settings, metrics, basis, outcome, error; the same bytes for any number of workers
  results.csv      the same rows and columns as text
  report.html      parallel coordinates, Pareto front, response over each parameter
If the lab of a point is invalid, fails or makes no progress, the outcome of the point records this. A point at which \
a worker dies three times has the outcome crashed. The sweep ends if the first finished point lacks a metric that has \
no `default`.

With --json, prints one object: sweep, lab, points, recorded, resumed, outcomes by name, warnings (of `riser run` for some \
of the labs, and the number of points with warnings; also on standard error), basis (how well the profile figures behind the metrics are known: measured, fitted or assumed, whichever is the weakest), best \
(the points on the Pareto front, each with settings and metrics), wall_seconds, cpu_seconds of all processes, simulation_cpu_seconds, workers_started, workers_died, and folder.
Ctrl-C ends a sweep and leaves its journal complete. The exit status is 0 if every point has a record, whatever its outcome, and 1 if every point was refused.";

/// Run a lab over ranges of its settings
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Sweep file
    #[arg(value_name = "FILE.toml", required_unless_present = "worker")]
    file: Option<PathBuf>,

    /// Write journal, results and report to this folder [default: the name of FILE without its extension, in the current folder]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Number of processes that run points [default: one per core]
    #[arg(long, value_name = "N", value_parser = whole::<usize>(1..=1024))]
    workers: Option<usize>,

    /// Continue from the journal in the folder, if there is one
    #[arg(long)]
    resume: bool,

    /// Overwrite existing files: start the sweep again
    #[arg(long, conflicts_with = "resume")]
    force: bool,

    #[command(flatten)]
    native: Native,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// Run points for another process
    #[arg(long, hide = true, exclusive = true)]
    worker: bool,
}

/// Files that a sweep writes, in addition to its journal.
struct Files {
    parquet: ClaimedOutput,
    csv: ClaimedOutput,
    page: ClaimedOutput,
    folder: PathBuf,
}

const JOURNAL: &str = "journal.jsonl";
const PARQUET: &str = "results.parquet";
const CSV: &str = "results.csv";
const PAGE: &str = "report.html";

pub(crate) fn run(args: Args, models: &Models, itself: Vec<OsString>) -> Result<(), Failure> {
    let Some(path) = args.file.as_deref().filter(|_| !args.worker) else {
        worker::prepare();
        return Ok(worker::serve(models, io::stdin().lock(), io::stdout())?);
    };
    let begun = Instant::now();
    let sweep = Sweep::read(models, path, args.native.leave()).map_err(Failure::run)?;
    let files = claim(&args, path, &sweep)?;
    let start = match (args.resume, args.force) {
        (true, _) => Start::Resume,
        (_, true) => Start::Force,
        _ => Start::New,
    };
    let journal = files.folder.join(JOURNAL);
    let mut run = RunningSweep::begin(&sweep, Some((&journal, start))).map_err(Failure::run)?;
    let done = drive(&args, &mut run, itself)?;
    let cpu_seconds = session::cpu_seconds() + cpu_seconds_of_children();
    let summary = Summary::new(&run, &done, begun.elapsed(), cpu_seconds, &files.folder);
    output::warn(&summary.warnings);
    if !summary.stopped {
        write(files, &run)?;
    }
    output::report(args.json, &summary)?;
    match summary.stopped {
        true => Err(Failure::Interrupted(format!(
            "interrupted: {} of {} points are recorded; the same command with --resume continues",
            run.progress().recorded,
            run.progress().points
        ))),
        false => run.refusal().map_or(Ok(()), |why| {
            let count = run.progress().points;
            Err(Failure::Run(format!("no point was run: all {count} were refused, the first with: {why}")))
        }),
    }
}

/// Returns the CPU seconds of child processes that have ended.
fn cpu_seconds_of_children() -> f64 {
    let used = getrusage(UsageWho::RUSAGE_CHILDREN);
    used.map_or(0.0, |used| (used.user_time() + used.system_time()).num_microseconds() as f64 / 1e6)
}

fn drive(args: &Args, run: &mut RunningSweep<'_>, itself: Vec<OsString>) -> Result<pool::Done, Failure> {
    let count = args.workers.unwrap_or_else(|| available_parallelism().map_or(1, usize::from));
    if itself.is_empty() {
        return Err(Failure::Run("cannot start workers: the path of this program is unknown".into()));
    }
    let command = itself.into_iter().chain(["sweep".into(), "--worker".into()]).collect();
    let flag = interrupt::flag()?;
    let bar = progress::bar("{bar:30} {pos}/{len} points, {eta} left{msg}");
    bar.set_length(run.progress().points);
    bar.set_position(run.progress().recorded);
    bar.reset_eta();
    let done = pool::run(
        run,
        &Workers { command, count },
        || flag.load(Ordering::Relaxed),
        |at| {
            bar.set_position(at.recorded);
            let mut message = String::new();
            if at.rounds > 1 {
                message += &format!(", round {} of {}", at.round + 1, at.rounds);
            }
            if at.failed > 0 {
                message += &format!(", {} not finished", at.failed);
            }
            bar.set_message(message);
        },
    );
    bar.finish_and_clear();
    done.map_err(Failure::run)
}

/// Claims all output files, and creates their folder.
fn claim(args: &Args, path: &Path, sweep: &Sweep) -> Result<Files, Failure> {
    let folder = match &args.output {
        Some(folder) => folder.clone(),
        None => PathBuf::from(path.file_stem().unwrap_or_else(|| "sweep".as_ref())),
    };
    output::refuse_standard(&folder, "--json prints the results")?;
    if folder.exists() && !folder.is_dir() {
        return Err(Failure::usage(format!("-o {}: not a folder", folder.display())));
    }
    // A resumed sweep may overwrite the files that it wrote before.
    let mut outputs = output::files(args.force || args.resume);
    outputs.reads(path);
    outputs.reads(&sweep.lab().path);
    let journal = folder.join(JOURNAL);
    if journal.exists() && !args.force && !args.resume {
        return Err(Failure::run(JournalError::Exists(journal)));
    }
    outputs.claim_own("-o", &journal)?;
    let mut claim = |name: &str| outputs.claim("-o", &folder.join(name));
    let (parquet, csv, page) = (claim(PARQUET)?, claim(CSV)?, claim(PAGE)?);
    let [parquet, csv, page] = [parquet, csv, page].map(|output| {
        let output = output.prepare()?;
        output.remove_leftovers();
        Ok::<_, Failure>(output)
    });
    Ok(Files { parquet: parquet?, csv: csv?, page: page?, folder })
}

fn write(files: Files, run: &RunningSweep<'_>) -> Result<(), Failure> {
    let columns = results::columns(run);
    let mut bytes = Vec::new();
    results::write_parquet(&columns, &mut bytes).map_err(|e| Failure::Run(format!("{PARQUET}: {e}")))?;
    files.parquet.fill(|out| out.write_all(&bytes))?;
    files.csv.fill(|out| results::write_csv(&columns, out))?;
    Ok(files.page.fill(|out| page::report(run).write(out))?)
}
