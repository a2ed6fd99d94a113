// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser fidelity`: compares the shipped profiles with measurements. `riser-bench` computes the scores.

use crate::failure::Failure;
use crate::output;
use crate::progress;
use bench::configurations::Configuration;
use bench::fidelity::{
    Ablation, Base, Fidelity, MECHANISMS, Mechanism, Progress, THINNED_ROWS, ablation, insert, scores,
    thinned,
};
use bench::results::ResultSet;
use bench::score::GroupScore;
use bench::suite::Rule;
use clap::ValueEnum;
use clap::builder::RangedU64ValueParser;
use lab::profile::Basis;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  riser fidelity measured/
  riser fidelity measured/ --leave-out server
  riser fidelity measured/ --all --work /tmp/fits --page docs/fidelity.md

DIR holds published results: CONFIGURATION/EXPERIMENT.csv. riser simulates every row of the known configurations, and scores it \
like `riser compare`. With --leave-out, riser repeats this with each configuration, or each whole server, left out of the fit in turn. From \
a server that is left out, riser uses only the cache size and the settings. Each fitted figure is then the median over \
the other servers. With --all, riser does both. Then it repeats the scores on one of every eleven rows, each time with \
another mechanism switched off, and once more for each mechanism without a known cause, with each server left out. This takes half an hour. With --page, riser writes the tables between the marks of that page.

With --json, prints one object: basis (how well the figures of the shipped profiles are known; the weakest of all rows), as_shipped, configuration_left_out, server_left_out, and with --all ablation and ablation_server_left_out, each with \
every_eleventh_row and without: [{name, scores}], in which scores are those of `riser compare --json`.";

/// Score the shipped profiles against measurements
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder of the measurements
    #[arg(value_name = "DIR")]
    data: PathBuf,

    /// Score also with each of these left out of the fit; separate several by commas
    #[arg(long, value_name = "WHAT", value_enum, value_delimiter = ',')]
    leave_out: Vec<LeftOut>,

    /// Score also with each configuration and each server left out of the fit, and with each mechanism switched off
    #[arg(long, conflicts_with = "leave_out")]
    all: bool,

    /// Use only these configurations: those whose names contain one of these texts; separate
    /// several by commas
    #[arg(long = "configurations", alias = "only", value_name = "TEXT", value_delimiter = ',')]
    only: Vec<String>,

    /// Use only these experiments: those whose names begin with one of these texts; separate
    /// several by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    experiments: Vec<String>,

    /// Folder for temporary copies of profiles
    #[arg(long, value_name = "DIR", default_value = "fidelity-work")]
    work: PathBuf,

    /// Write the tables into this page
    #[arg(long, value_name = "PAGE.md")]
    page: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long, conflicts_with = "page")]
    json: bool,

    /// Device profile: that of the card
    #[arg(long, value_name = "PROFILE", default_value = "nfp6000")]
    device: String,

    /// Number of rows to simulate in parallel
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = RangedU64ValueParser::<usize>::new().range(1..=256))]
    jobs: usize,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    /// The weakest basis of all rows.
    basis: Option<Basis>,
    as_shipped: Vec<GroupScore>,
    #[serde(flatten)]
    left_out: BTreeMap<LeftOut, Vec<GroupScore>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ablation: Option<Ablations>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ablation_server_left_out: Option<Ablations>,
}

#[derive(Serialize)]
struct Ablations {
    every_eleventh_row: Vec<GroupScore>,
    without: Vec<Ablation>,
}

impl Ablations {
    /// Switches off one of `mechanisms` at a time and scores the profiles of `base`. After each score, updates the part `name` of the page.
    fn measure<'m>(
        args: &Args,
        name: &str,
        (fidelity, base): (&Fidelity<'_>, Base),
        mechanisms: impl Iterator<Item = &'m Mechanism>,
        say: Progress<'_>,
    ) -> Result<Ablations, Failure> {
        let every_eleventh_row = match base {
            Base::Shipped => fidelity.shipped(say)?,
            Base::ServerLeftOut => fidelity.server_left_out(say)?,
        };
        let mut all = Ablations { every_eleventh_row, without: Vec::new() };
        for mechanism in mechanisms {
            all.without.push(fidelity.without(mechanism, base, say)?);
            if args.page.is_some() {
                show(args, name, &all.table())?;
            }
        }
        Ok(all)
    }

    /// Returns the effects as tables.
    fn table(&self) -> String {
        ablation(&self.every_eleventh_row, &self.without)
    }
}

impl Report {
    /// Returns the scores as tables.
    fn scores(&self) -> String {
        let left_out = self.left_out.iter().map(|(what, scores)| (what.head(), &scores[..]));
        let columns: Vec<_> = [("as shipped", &self.as_shipped[..])].into_iter().chain(left_out).collect();
        scores(&columns)
    }
}

/// Parts of the data that are left out of the fit, one after another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum, Serialize)]
enum LeftOut {
    /// Each configuration of a server; its figures are fitted to the other configurations of that server
    #[serde(rename = "configuration_left_out")]
    Configuration,
    /// Each server with all its configurations; figures come from the other servers
    #[serde(rename = "server_left_out")]
    Server,
}

impl LeftOut {
    const ALL: [LeftOut; 2] = [LeftOut::Configuration, LeftOut::Server];

    /// Heading of its column.
    const fn head(self) -> &'static str {
        match self {
            LeftOut::Configuration => "configuration left out",
            LeftOut::Server => "server left out",
        }
    }
}

pub(super) fn run(args: Args) -> Result<(), Failure> {
    let mut data = ResultSet::read(&args.data).map_err(Failure::run)?;
    select(&mut data, &args)?;
    let fidelity = Fidelity {
        data: &data,
        device: args.device.clone(),
        rule: Rule::quick(),
        jobs: args.jobs,
        work: args.work.clone(),
    };
    let bar = progress::bar("{msg}: {pos}/{len}, {eta} left {wide_bar}");
    let mut say = |what: &str, done: usize, of: usize| {
        bar.set_message(what.to_owned());
        bar.set_length(of as u64);
        bar.set_position(done as u64);
    };
    let mut report = Report {
        basis: fidelity.basis(),
        as_shipped: fidelity.shipped(&mut say)?,
        left_out: BTreeMap::new(),
        ablation: None,
        ablation_server_left_out: None,
    };
    leave_out(&args, &fidelity, &mut report, &mut say)?;
    if !args.json {
        show(&args, "scores", &report.scores())?;
    }
    if args.all {
        let some = thinned(&data, THINNED_ROWS);
        let fidelity = Fidelity { data: &some, ..fidelity };
        let of_unknown_cause = MECHANISMS.iter().filter(|mechanism| !mechanism.is_explained);
        let base = (&fidelity, Base::ServerLeftOut);
        let left_out = Ablations::measure(&args, "unexplained", base, of_unknown_cause, &mut say)?;
        let base = (&fidelity, Base::Shipped);
        let shipped = Ablations::measure(&args, "ablation", base, MECHANISMS.iter(), &mut say)?;
        (report.ablation, report.ablation_server_left_out) = (Some(shipped), Some(left_out));
    }
    bar.finish_and_clear();
    match [&report.ablation_server_left_out, &report.ablation] {
        _ if args.json => output::json(&report),
        _ if args.page.is_some() => Ok(()),
        tables => tables.into_iter().flatten().try_for_each(|all| output::text(&all.table())),
    }
}

/// Adds the requested scores with each configuration and each server left out. After each kind, updates the page.
fn leave_out(
    args: &Args,
    fidelity: &Fidelity<'_>,
    report: &mut Report,
    say: Progress<'_>,
) -> Result<(), Failure> {
    let asked = if args.all { &LeftOut::ALL[..] } else { &args.leave_out };
    if !asked.is_empty() {
        fs::create_dir_all(&args.work).map_err(|e| files::failed(&args.work, &e))?;
    }
    for what in asked {
        let scores = match what {
            LeftOut::Configuration => fidelity.configuration_left_out(say),
            LeftOut::Server => fidelity.server_left_out(say),
        };
        report.left_out.insert(*what, scores?);
        if args.page.is_some() {
            show(args, "scores", &report.scores())?;
        }
    }
    Ok(())
}

/// Removes configurations and experiments that were not requested.
fn select(data: &mut ResultSet, args: &Args) -> Result<(), Failure> {
    let names: Vec<String> = data.configurations.keys().cloned().collect();
    if !args.only.is_empty() {
        data.configurations.retain(|name, _| args.only.iter().any(|text| name.contains(text)));
    }
    if !args.experiments.is_empty() {
        for tables in data.configurations.values_mut() {
            tables.experiments.retain(|name, _| args.experiments.iter().any(|begin| name.starts_with(begin)));
        }
        data.configurations.retain(|_, tables| !tables.is_empty());
    }
    let known = data.configurations.keys().any(|name| Configuration::named(name).is_some());
    if !data.configurations.is_empty() && !known {
        return Err(Failure::Run(format!(
            "{}: {}: not a published configuration, expected one of a known server; `riser compare` accepts any results",
            args.data.display(),
            data.configurations.keys().cloned().collect::<Vec<_>>().join(", ")
        )));
    }
    // Rows of unknown configurations are not simulated, and must not count as errors of the prediction.
    data.configurations.retain(|name, _| Configuration::named(name).is_some());
    if data.configurations.is_empty() {
        let names = names.join(", ");
        return Err(Failure::usage(format!("--configurations and --experiments match nothing in {names}")));
    }
    Ok(())
}

/// Prints a part of the report, or writes it into the page.
fn show(args: &Args, name: &str, part: &str) -> Result<(), Failure> {
    let Some(page) = &args.page else { return output::text(part) };
    let text = fs::read_to_string(page).map_err(|e| files::failed(page, &e))?;
    let text = insert(&text, name, part).map_err(|e| Failure::Run(format!("{}: {e}", page.display())))?;
    // The page exists and is changed in place.
    let mut outputs = output::files(true);
    outputs.reads(&args.data);
    Ok(outputs.claim("--page", page)?.write(&text)?)
}
