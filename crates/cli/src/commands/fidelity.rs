// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser fidelity`: compares the shipped profiles with measurements. `riser-bench` computes the scores.

use super::words::{Word, one_of};
use crate::commands::sizes::whole;
use crate::{Failure, output, progress};
use bench::configurations::Configuration;
use bench::fidelity::{Fidelity, FidelityReport, LeftOut, Part, insert};
use bench::results::ResultSet;
use bench::suite::Rule;
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
    #[arg(long, value_name = "WHAT", value_parser = one_of(&PARTS), value_delimiter = ',')]
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
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = whole::<usize>(1..=256))]
    jobs: usize,
}

/// Parts of the data that are left out of the fit, one after another.
const PARTS: [Word<LeftOut>; 2] = [
    (
        "configuration",
        "Each configuration of a server; its figures are fitted to the other configurations of that server",
        LeftOut::Configuration,
    ),
    (
        "server",
        "Each server with all its configurations; figures come from the other servers",
        LeftOut::Server,
    ),
];

pub(super) fn run(args: Args) -> Result<(), Failure> {
    let mut data = ResultSet::read(&args.data).map_err(Failure::run)?;
    select(&mut data, &args)?;
    let left_out = if args.all { &LeftOut::ALL[..] } else { &args.leave_out };
    if !left_out.is_empty() {
        fs::create_dir_all(&args.work).map_err(|e| files::failed(&args.work, &e))?;
    }
    let (device, work) = (args.device.clone(), args.work.clone());
    let fidelity = Fidelity { data: &data, device, rule: Rule::quick(), jobs: args.jobs, work };
    let bar = progress::bar("{msg}: {pos}/{len}, {eta} left {wide_bar}");
    let mut say = |what: &str, done: usize, of: usize| {
        bar.set_message(what.to_owned());
        progress::set(&bar, done, of);
    };
    let measured =
        FidelityReport::measure(&fidelity, left_out, args.all, &mut say, &mut |part| show(&args, &part));
    bar.finish_and_clear();
    let report = measured?;
    if args.json { output::json(&report) } else { Ok(()) }
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

/// Writes a part of the report into the page, or prints it when it is complete.
fn show(args: &Args, Part { name, text, is_whole }: &Part) -> Result<(), Failure> {
    let Some(page) = &args.page else {
        return if *is_whole && !args.json { output::text(text) } else { Ok(()) };
    };
    let old = fs::read_to_string(page).map_err(|e| files::failed(page, &e))?;
    let new = insert(&old, name, text).map_err(|e| Failure::Run(format!("{}: {e}", page.display())))?;
    // The page exists and is changed in place.
    let mut outputs = output::files(true);
    outputs.reads(&args.data);
    Ok(outputs.claim("--page", page)?.write(&new)?)
}
