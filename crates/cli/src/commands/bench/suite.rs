// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser bench --format pcie-bench`: runs the complete suite with `bench::suite`. Parses arguments, shows the progress, and
//! handles Ctrl-C.

use super::Args;
use crate::commands::report::{self, Head};
use crate::failure::Failure;
use crate::outputs::{ClaimedOutput, Outputs};
use crate::{interrupt, output, progress};
use bench::configurations::{CONFIGURATIONS, Configuration, Iommu};
use bench::results::ResultSet;
use bench::suite::{Extra, Machine, Outcome, Rule, Suite, SuiteError, select};
use clap::ValueEnum;
use clap::builder::RangedU64ValueParser;
use lab::Folder;
use lab::profile::{Basis, HOSTS};
use lab::schema::BufferPages;
use plug::counted;
use plug::values::{MpsBytes, MrrsBytes};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

/// Arguments of `riser bench` for this format only.
#[derive(clap::Args)]
pub(super) struct PublicArgs {
    /// Format of the output: tables, or the files of the published pcie-bench data
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,

    /// Use only these experiments, of the suite; needs --format pcie-bench
    #[arg(long = "experiments", alias = "only", value_name = "EXPERIMENT", value_delimiter = ',')]
    only: Vec<String>,

    /// Number of rows to simulate in parallel; needs --format pcie-bench [default: one per core]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=MAX_JOBS as u64))]
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

/// The card that the published data were measured with.
const CARD: &str = "nfp6000";
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

/// What `--json` prints.
#[derive(Serialize)]
struct Summary<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    /// The weakest basis of the profile figures behind all experiments, and the basis of each experiment.
    basis: Option<Basis>,
    experiments_basis: BTreeMap<&'static str, Basis>,
    folder: &'a Path,
    configurations: Vec<&'a str>,
    rows_measured: usize,
    samples: u64,
    experiments_written: usize,
    experiments_kept: usize,
    experiments_left: usize,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let suite = suite(args)?;
    let page = page(args, &suite)?;
    output::warn(&warnings(&suite));
    let cancel = interrupt::flag()?;
    let bar = progress::bar("{bar:30} {pos}/{len} rows, {eta} left: {msg}");
    let outcome = suite.run(&cancel, &mut |at| {
        bar.set_length(at.all_rows as u64);
        bar.set_position(at.rows as u64);
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
    show(args, &suite, &outcome)?;
    if outcome.left > 0 {
        return Err(Failure::Interrupted(format!(
            "interrupted, {} left: run the same command again to continue",
            counted(outcome.left, "experiment")
        )));
    }
    page.map_or(Ok(()), |page| html(page, &suite))
}

/// Returns each warning about extrapolated profile figures once.
fn warnings(suite: &Suite) -> Vec<String> {
    let all: BTreeSet<String> = suite.machines.iter().flat_map(Machine::warnings).collect();
    all.into_iter().collect()
}

fn suite(args: &Args) -> Result<Suite, Failure> {
    refuse(args)?;
    let public = &args.public;
    let jobs = public.jobs.unwrap_or_else(|| available_parallelism().map_or(1, |n| n.get().min(MAX_JOBS)));
    let folder = args.output.clone();
    let folder =
        folder.ok_or_else(|| Failure::usage("--format pcie-bench requires -o, the folder to write to"))?;
    Ok(Suite {
        machines: machines(args)?,
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

fn machines(args: &Args) -> Result<Vec<Machine>, Failure> {
    let device = args.device.as_deref().unwrap_or(CARD);
    let host = args.host.as_deref().ok_or_else(|| {
        Failure::usage(
            "--format pcie-bench requires --host: all, a configuration of the published data, or a host profile",
        )
    })?;
    let configurations: Vec<&Configuration> = match host {
        "all" => CONFIGURATIONS.iter().collect(),
        _ => Configuration::named(host).into_iter().collect(),
    };
    if configurations.is_empty() {
        return Ok(vec![profile(args, host, device)?]);
    }
    let given = args.generation.is_some() || args.lanes.is_some() || args.iommu != Iommu::Off;
    let given = given || args.buffer_pages != BufferPages::default();
    if given || !args.mps.is_empty() || !args.mrrs.is_empty() {
        let why = "--gen, --lanes, --mps, --mrrs, --iommu and --buffer-pages: a configuration already has these settings; use them only with a host profile";
        return Err(Failure::usage(why));
    }
    Ok(configurations.into_iter().map(|c| Machine::configuration(c, device)).collect())
}

/// Returns a machine with this host profile and the link of the arguments.
fn profile(args: &Args, host: &str, device: &str) -> Result<Machine, Failure> {
    if let Err(why) = HOSTS.text(host, &Folder::default()) {
        let names = CONFIGURATIONS.map(|c| c.name.trim_start_matches(bench::configurations::CARD)).join(", ");
        return Err(Failure::usage(format!("{why}; configurations are all, {names}")));
    }
    bench::ask::check_profiles(host, Some(device))?;
    bench::ask::check_host(host, args.iommu, None)?;
    bench::ask::check_pages(args.iommu, args.buffer_pages)?;
    let mut machine = Machine::profile(host, device).with_iommu(args.iommu).with_pages(args.buffer_pages);
    args.ask().link(host).map_err(Failure::usage)?;
    machine.generation = args.generation.map_or(machine.generation, |n| n as u8);
    machine.lanes = args.lanes.map_or(machine.lanes, |n| n as u8);
    if let Some(mps) = one("--mps", &args.mps)? {
        machine.mps_bytes = MpsBytes::try_from(mps).map_err(Failure::usage)?.0.bytes();
    }
    if let Some(mrrs) = one("--mrrs", &args.mrrs)? {
        machine.mrrs_bytes = MrrsBytes::try_from(mrrs).map_err(Failure::usage)?.0.bytes();
    }
    Ok(machine)
}

/// Returns the only value of an argument that is a list in other formats: a folder has results of one link.
fn one(flag: &str, values: &[i64]) -> Result<Option<i64>, Failure> {
    match values {
        [] => Ok(None),
        [value] => Ok(Some(*value)),
        _ => Err(Failure::usage(format!("{flag}: --format pcie-bench takes one value for each run"))),
    }
}

fn show(args: &Args, suite: &Suite, outcome: &Outcome) -> Result<(), Failure> {
    let Outcome { rows, samples, written, kept, left } = *outcome;
    let bases = suite.bases();
    if args.json {
        return output::json(&Summary {
            warnings: warnings(suite),
            basis: bases.iter().map(|(_, basis)| *basis).max(),
            experiments_basis: bases.into_iter().collect(),
            folder: &suite.folder,
            configurations: suite.machines.iter().map(|m| m.name.as_str()).collect(),
            rows_measured: rows,
            samples,
            experiments_written: written,
            experiments_kept: kept,
            experiments_left: left,
        });
    }
    output::text(&format!(
        "{}: {}, {} written, {kept} kept; {} of {}; basis: {}",
        suite.folder.display(),
        counted(suite.machines.len(), "configuration"),
        counted(written, "experiment"),
        counted(rows, "row"),
        counted(samples, "sample"),
        Basis::in_words(&bases)
    ))
}

/// Claims the page, which must be neither a file of the suite nor a profile.
fn page(args: &Args, suite: &Suite) -> Result<Option<ClaimedOutput>, Failure> {
    let mut outputs = Outputs::new(args.force);
    super::reads_profiles(args, &mut outputs);
    for path in suite.files() {
        outputs.claim_own("-o", &path)?;
    }
    outputs.claim_if("--html", args.public.html.as_deref())?.map(ClaimedOutput::prepare).transpose()
}

/// Writes the page from all results in the folder.
fn html(page: ClaimedOutput, suite: &Suite) -> Result<(), Failure> {
    let results = ResultSet::read(&suite.folder).map_err(Failure::run)?;
    let names: Vec<&str> = suite.machines.iter().map(|m| m.name.as_str()).collect();
    let mut notes = vec![
        format!("Simulated: {}.", names.join(", ")),
        format!("Basis of the figures: {}.", Basis::in_words(&suite.bases())),
    ];
    notes.extend(warnings(suite).iter().map(|line| format!("Warning: {line}.")));
    let head = Head { title: "pcie-bench on riser".into(), notes, tables: Vec::new() };
    report::write_html(page, head, &results, None)
}
