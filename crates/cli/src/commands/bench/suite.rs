// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser bench --format pcie-bench`: runs the complete suite with `bench::suite`. Parses arguments, shows the progress, and
//! handles Ctrl-C.

use super::Args;
use crate::commands::sizes::whole;
use crate::{Failure, interrupt, output, progress};
use bench::configurations::Configuration;
use bench::suite::{Extra, Rule, Suite, SuiteError, Summary, select};
use clap::ValueEnum;
use files::ClaimedOutput;
use plug::counted;
use std::path::PathBuf;
use std::thread::available_parallelism;

/// Arguments of `riser bench` for this format only.
#[derive(clap::Args)]
pub(super) struct PublicArgs {
    /// Format of the output: tables, or the files of the published pcie-bench data
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,

    /// Use only these experiments, of the suite; needs --format pcie-bench
    #[arg(long = "experiments", alias = "only", value_name = "EXPERIMENT", num_args = 1.., value_delimiter = ',')]
    only: Vec<String>,

    /// Number of rows to simulate in parallel; needs --format pcie-bench [default: one per core]
    #[arg(long, value_name = "N", value_parser = whole(1..=MAX_JOBS))]
    jobs: Option<usize>,

    /// Replace the results of an earlier run instead of continuing it; needs --format pcie-bench
    #[arg(long)]
    fresh: bool,

    /// Write NAME_hist.csv next to the distributions too; needs --format pcie-bench
    #[arg(long)]
    histograms: bool,

    /// Write NAME_ts.csv next to the distributions too, with every sample in order; needs --format pcie-bench
    #[arg(long)]
    time_series: bool,

    /// Write an HTML page to this file: the paper's figures, drawn from all results in --output; needs --format pcie-bench
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table for each kind of test
    Table,
    /// A folder for each configuration, a CSV file for each experiment
    PcieBench,
}

/// Returns true if `host` names one or all configurations of the published data.
pub(super) fn is_of_published(host: &str) -> bool {
    host == "all" || Configuration::named(host).is_some()
}

/// Maximum number of jobs.
const MAX_JOBS: usize = 256;

impl PublicArgs {
    /// True if the public format is requested.
    pub(super) fn wanted(&self) -> bool {
        self.format == Format::PcieBench
    }

    /// # Errors
    /// An argument of the public format is given without it.
    pub(super) fn refuse(&self) -> Result<(), Failure> {
        let given = [
            ("--experiments", !self.only.is_empty()),
            ("--jobs", self.jobs.is_some()),
            ("--fresh", self.fresh),
            ("--histograms", self.histograms),
            ("--time-series", self.time_series),
            ("--html", self.html.is_some()),
        ];
        super::refuse(&given, |flag| format!("{flag} requires --format pcie-bench"))
    }
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let suite = suite(args)?;
    let page = page(args, &suite)?;
    output::warn(&suite.warnings());
    let cancel = interrupt::flag()?;
    let bar = progress::bar("{bar:30} {pos}/{len} rows, {eta} left: {msg}");
    let outcome = suite.run(&cancel, &mut |at| {
        progress::set(&bar, at.rows, at.all_rows);
        bar.set_message(format!(
            "{} {}",
            at.machine.trim_start_matches(bench::configurations::CARD),
            at.experiment
        ));
    });
    bar.finish_and_clear();
    let outcome = outcome.map_err(|e| match e {
        SuiteError::Plan(_) => Failure::usage(e),
        _ => Failure::Run(e.to_string()),
    })?;
    output::report(args.json, &Summary::new(&suite, &outcome))?;
    if outcome.left > 0 {
        return Err(Failure::Interrupted(format!(
            "interrupted, {} left: run the same command again to continue",
            counted(outcome.left, "experiment")
        )));
    }
    let Some(place) = page else { return Ok(()) };
    let page = suite.page().map_err(Failure::run)?;
    Ok(place.fill(|out| page.write(out))?)
}

fn suite(args: &Args) -> Result<Suite, Failure> {
    refuse(args)?;
    let public = &args.public;
    let jobs = public.jobs.unwrap_or_else(|| available_parallelism().map_or(1, |n| n.get().min(MAX_JOBS)));
    let folder = args.output.clone();
    let folder =
        folder.ok_or_else(|| Failure::usage("--format pcie-bench requires -o, the folder to write to"))?;
    Ok(Suite {
        machines: args.ask().machines()?,
        experiments: select(&args.suite, &public.only).map_err(Failure::usage)?,
        rule: Rule::default(),
        extra: Extra { histograms: public.histograms, time_series: public.time_series },
        seed: args.seed,
        jobs,
        folder,
        fresh: public.fresh,
        force: args.force,
    })
}

/// Fails for arguments that the experiments of this format determine themselves.
fn refuse(args: &Args) -> Result<(), Failure> {
    let given = [
        ("--size", !args.sizes.is_empty()),
        ("--window", args.window.is_some()),
        ("--offset", args.offset.is_some()),
        ("--pattern", args.pattern.is_some()),
        ("--addr", args.addr.is_some()),
        ("--cache", args.cache.is_some()),
        ("--transfers", args.transfers.is_some()),
        ("--warm-up", args.warm_up.is_some()),
        ("--outstanding", !args.outstanding.is_empty()),
        ("--root-credits", !args.credits.is_empty()),
        ("--rcb", args.rcb.is_some()),
    ];
    super::refuse(&given, |flag| format!("{flag}: the experiments of --format pcie-bench set this"))
}

/// Claims the page, which must be neither a file of the suite nor a profile.
fn page(args: &Args, suite: &Suite) -> Result<Option<ClaimedOutput>, Failure> {
    let mut outputs = output::files(args.force);
    super::reads_profiles(args, &mut outputs);
    for path in suite.files() {
        outputs.claim_own("-o", &path)?;
    }
    let page = outputs.claim_if("--html", args.public.html.as_deref())?;
    Ok(page.map(ClaimedOutput::prepare).transpose()?)
}
