// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser compare`: compares two sets of results. `riser-bench` computes the errors.

use super::report::{self, Head};
use crate::failure::Failure;
use crate::output;
use crate::outputs::{ClaimedOutput, Outputs};
use bench::compare::tables::{bases, counts, experiments, families, lacks, missing, scores};
use bench::compare::{Comparison, compare_folders};
use std::path::{Path, PathBuf};

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
    let page = page(&args)?;
    let compared = compare_folders(&args.reference, &args.other, args.skip.as_deref(), args.whole);
    let (comparison, [reference, other]) = compared?;
    if let Some(page) = page {
        let label = label(&args.reference, &args.other);
        report::write_html(page, head(&args, &label, &comparison), &other, Some((&label, &reference)))?;
    }
    if args.json { output::json(&comparison) } else { print(&comparison) }
}

fn page(args: &Args) -> Result<Option<ClaimedOutput>, Failure> {
    let mut outputs = Outputs::new(args.force);
    let folders = [&args.reference, &args.other].into_iter().chain(&args.skip);
    folders.for_each(|folder| outputs.reads(folder));
    outputs.claim_if("--html", args.html.as_deref())
}

/// Name of the reference in legends: its folder, or `A` if both folders have the same name.
fn label(reference: &Path, other: &Path) -> String {
    let name = |path: &Path| path.canonicalize().ok()?.file_name().map(|n| n.to_string_lossy().into_owned());
    match (name(reference), name(other)) {
        (Some(a), b) if Some(&a) != b.as_ref() => a,
        _ => "A".to_owned(),
    }
}

fn head(args: &Args, label: &str, comparison: &Comparison) -> Head {
    let (families, experiments, score) = (families(comparison), experiments(comparison), scores(comparison));
    let mut notes = vec![format!(
        "{} (lines) compared with {} (points, called {label}). Errors are shares of the latter.",
        args.other.display(),
        args.reference.display()
    )];
    notes.extend(bases([label, &args.other.display().to_string()], comparison));
    let sets = [(&args.other, &comparison.missing), (&args.reference, &comparison.additional)];
    let lacking = missing(&sets.map(|(set, missing)| (set.display().to_string(), missing)));
    for (set, missing) in sets {
        notes.extend(
            counts(missing).map(|lacks| format!("{} lacks {lacks}: see the last table.", set.display())),
        );
    }
    let tables = [score, families, experiments].into_iter().chain(lacking).collect();
    Head { title: "Results compared".to_owned(), notes, tables }
}

fn print(comparison: &Comparison) -> Result<(), Failure> {
    for table in [experiments(comparison), families(comparison), scores(comparison)] {
        let heads: Vec<&str> = table.columns.iter().map(String::as_str).collect();
        output::text(&table.title)?;
        output::table(&heads, table.rows)?;
        output::text("")?;
    }
    bases(["A", "B"], comparison).iter().try_for_each(|line| output::text(line))?;
    for (set, missing) in [("B", &comparison.missing), ("A", &comparison.additional)] {
        for line in lacks(set, missing) {
            output::text(&line)?;
        }
    }
    Ok(())
}
