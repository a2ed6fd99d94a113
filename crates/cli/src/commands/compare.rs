// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser compare`: compares two sets of results. `riser-bench` computes the errors.

use crate::{Failure, output};
use bench::compare::{compare_folders, page};
use files::ClaimedOutput;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  riser compare measured/ out/
  riser compare measured/ out/ --html report.html
  riser compare out/before out/after --json

A and B are folders in pcie-bench's public format: CONFIGURATION/EXPERIMENT.csv, or EXPERIMENT.csv of one configuration. They can also \
be the output of `riser bench -o`: the folder or its results.csv. Rows are paired by test, order, caches, offsets, window and size. \
Errors are shares of A's value: the median latency, or the bandwidth.

The score tells how well B predicts the rows that are in both. It consists of mean absolute errors by family of \
experiments, knee (where window sweeps leave their plateau), edge (steps at TLP boundaries) and rank (order of a \
file's rows). With --whole, the score covers all rows \
of A, and a row that B lacks counts as an error of 100 %.

--json prints one object: reference_basis and other_basis (how well the profile figures behind the results are known, if the results say so), experiments: [{configuration, experiment, family, quantity, rows, missing, mean_absolute_error_percent, \
mean_error_percent, worst: {test, pattern, cache, host_offset_bytes, device_offset_bytes, window_bytes, size_bytes, \
reference, other, error_percent}}], families, missing and additional (configurations, experiments, rows), and score: \
[{group, rows, mape_percent, mape_percent_by_configuration, mape_percent_by_server, knee_percent, edge_percent, rank_percent, p999_percent, max_percent}], and scored: {rows, \
reference_rows, missing_rows_count}.";

/// Compare two sets of results row by row
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Reference: a folder of results, such as measurements
    #[arg(value_name = "A")]
    reference: PathBuf,

    /// Folder to compare with the reference
    #[arg(value_name = "B")]
    other: PathBuf,

    /// Leave experiments in this folder out of the score, such as those used for calibration
    #[arg(long, value_name = "DIR")]
    skip: Option<PathBuf>,

    /// Score all rows of A: a row that B lacks counts as an error of 100 %
    #[arg(long)]
    whole: bool,

    /// Write an HTML page to this file: figures with B as lines, A as points
    #[arg(long, value_name = "OUT.html")]
    html: Option<PathBuf>,

    /// Overwrite existing files
    #[arg(long)]
    force: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<(), Failure> {
    let place = claim(&args)?;
    let (comparison, sets) = compare_folders(&args.reference, &args.other, args.skip.as_deref(), args.whole)?;
    if let Some(place) = place {
        place.fill(|out| page(&comparison, [&args.reference, &args.other], &sets).write(out))?;
    }
    output::report(args.json, &comparison)
}

fn claim(args: &Args) -> Result<Option<ClaimedOutput>, Failure> {
    let mut outputs = output::files(args.force);
    let folders = [&args.reference, &args.other].into_iter().chain(&args.skip);
    folders.for_each(|folder| outputs.reads(folder));
    Ok(outputs.claim_if("--html", args.html.as_deref())?)
}
