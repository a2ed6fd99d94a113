// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser fidelity`: how near the shipped profiles come to measurements, by `riser-bench`. Never scores itself.

use crate::failure::Failure;
use crate::output;
use crate::outputs::{self, Outputs};
use crate::progress;
use bench::configurations::Configuration;
use bench::fidelity::{Ablation, Fidelity, MECHANISMS, THINNED_ROWS, ablation, insert, scores, thinned};
use bench::results::ResultSet;
use bench::score::GroupScore;
use bench::suite::Rule;
use clap::builder::RangedU64ValueParser;
use serde::Serialize;
use std::fs;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  riser fidelity measured/
  riser fidelity measured/ --all --work /tmp/fits --page docs/fidelity.md

DIR holds published results, CONFIGURATION/EXPERIMENT.csv. Every row of a configuration that is known is simulated and scored \
as `riser compare` does it. --all does it again with each configuration left out of the fit in turn, and with one mechanism \
after the other switched off (on one row of eleven); it takes half an hour. --page writes the tables between the marks of that page.

--json prints one object: as_shipped, and with --all left_out_of_the_fit, every_eleventh_row and without: [{name, scores}], \
each of them scores as `riser compare --json` has them.";

/// Score the profiles that ship against measurements
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The measurements
    #[arg(value_name = "DIR")]
    data: PathBuf,

    /// Score with each configuration left out of the fit, and each mechanism switched off, too
    #[arg(long)]
    all: bool,

    /// Only the configurations whose names hold one of these
    #[arg(long, value_name = "TEXT", value_delimiter = ',')]
    only: Vec<String>,

    /// Only the experiments whose names begin with one of these
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    experiments: Vec<String>,

    /// Folder for work copies of profiles
    #[arg(long, value_name = "DIR", default_value = "fidelity-work")]
    work: PathBuf,

    /// Write the tables into this page
    #[arg(long, value_name = "PAGE.md")]
    page: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long, conflicts_with = "page")]
    json: bool,

    /// Device profile of the card
    #[arg(long, value_name = "PROFILE", default_value = "nfp6000")]
    device: String,

    /// Rows that are simulated at the same time
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = RangedU64ValueParser::<usize>::new().range(1..=256))]
    jobs: usize,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    as_shipped: &'a [GroupScore],
    #[serde(flatten)]
    all: Option<All<'a>>,
}

#[derive(Serialize)]
struct All<'a> {
    left_out_of_the_fit: &'a [GroupScore],
    every_eleventh_row: &'a [GroupScore],
    without: &'a [Ablation],
}

pub(super) fn run(args: Args) -> Result<(), Failure> {
    let mut data = ResultSet::read(&args.data).map_err(|e| Failure::Run(e.to_string()))?;
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
    let shipped = fidelity.shipped(&mut say).map_err(Failure::Run)?;
    if !args.all {
        bar.finish_and_clear();
        if args.json {
            return output::json(&Report { as_shipped: &shipped, all: None });
        }
        return show(&args, "scores", &scores(&[("as shipped", &shipped)]));
    }
    fs::create_dir_all(&args.work).map_err(|e| outputs::failed(&args.work, &e))?;
    let left_out = fidelity.left_out(&mut say).map_err(Failure::Run)?;
    if !args.json {
        show(&args, "scores", &scores(&[("as shipped", &shipped), ("left out of the fit", &left_out)]))?;
    }
    let some = thinned(&data, THINNED_ROWS);
    let fidelity = Fidelity { data: &some, ..fidelity };
    let all = fidelity.shipped(&mut say).map_err(Failure::Run)?;
    let without = |mechanism| fidelity.without(mechanism, &mut say);
    let ablations: Vec<_> = MECHANISMS.iter().map(without).collect::<Result<_, _>>().map_err(Failure::Run)?;
    bar.finish_and_clear();
    if args.json {
        let all = All { left_out_of_the_fit: &left_out, every_eleventh_row: &all, without: &ablations };
        return output::json(&Report { as_shipped: &shipped, all: Some(all) });
    }
    show(&args, "ablation", &ablation(&all, &ablations))
}

/// Leaves out what was not asked for.
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
            "{}: {}: none of the published configurations, of which alone the servers are known; `riser compare` takes any results",
            args.data.display(),
            data.configurations.keys().cloned().collect::<Vec<_>>().join(", ")
        )));
    }
    // What is not known is not simulated, and so no error of the prediction.
    data.configurations.retain(|name, _| Configuration::named(name).is_some());
    if data.configurations.is_empty() {
        let names = names.join(", ");
        return Err(Failure::usage(format!("--only and --experiments leave nothing of {names}")));
    }
    Ok(())
}

/// A part of the page, or of what is printed.
fn show(args: &Args, name: &str, part: &str) -> Result<(), Failure> {
    let Some(page) = &args.page else { return output::text(part) };
    let text = fs::read_to_string(page).map_err(|e| outputs::failed(page, &e))?;
    let text = insert(&text, name, part).map_err(|e| Failure::Run(format!("{}: {e}", page.display())))?;
    // The page is there, to be changed in its place.
    let mut outputs = Outputs::new(true);
    outputs.reads(&args.data);
    outputs.claim("--page", page)?.write(&text)
}
