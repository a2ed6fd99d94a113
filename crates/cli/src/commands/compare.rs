// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser compare`: compares two sets of results. `riser-bench` computes the errors.

use super::report::{self, Head};
use crate::failure::Failure;
use crate::output;
use crate::outputs::{Outputs, Place};
use bench::compare::{Comparison, Missing, MissingRow, Scored, Worst, compare_folders};
use lab::profile::Basis;
use plug::counted;
use std::path::{Path, PathBuf};
use view::report::Table;

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

/// Maximum number of missing rows in the list.
const NAMED_ROWS: usize = 10;

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

fn page(args: &Args) -> Result<Option<Place>, Failure> {
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

/// Numbers of missing items as text; `None` if nothing is missing.
fn counts(missing: &Missing) -> Option<String> {
    let all = [
        ("configuration", missing.configurations.len()),
        ("experiment", missing.experiments.len()),
        ("row", missing.rows.len()),
    ];
    let words = all.into_iter().filter(|(_, count)| *count > 0);
    let text: Vec<String> = words.map(|(what, count)| counted(count, what)).collect();
    (!text.is_empty()).then(|| text.join(", "))
}

/// Table of all results that only one set has, folded by default.
fn missing(sets: &[(String, &Missing)]) -> Option<Table> {
    let mut rows = Vec::new();
    for (set, missing) in sets {
        let mut row = |what: &str, name: String| rows.push(vec![set.clone(), what.to_owned(), name]);
        missing.configurations.iter().for_each(|name| row("configuration", name.clone()));
        missing.experiments.iter().for_each(|name| row("experiment", name.clone()));
        missing.rows.iter().take(NAMED_ROWS).for_each(|missing| row("row", row_name(missing)));
        let more = missing.rows.len().saturating_sub(NAMED_ROWS);
        if more > 0 {
            row("row", format!("{more} more; --json names all"));
        }
    }
    let columns = columns("results, lack, name");
    (!rows.is_empty()).then(|| Table {
        title: "Results that only one set has".to_owned(),
        columns,
        rows,
        folded: true,
    })
}

fn row_name(row: &MissingRow) -> String {
    format!("{}/{} {}", row.configuration, row.experiment, row.key)
}

/// One line per set with the basis of its results, if the set has one.
fn bases([reference, other]: [&str; 2], comparison: &Comparison) -> Vec<String> {
    let sets = [(reference, comparison.reference_basis), (other, comparison.other_basis)];
    let line = |(set, basis): (&str, Option<Basis>)| Some(format!("Basis of {set}: {}.", basis?.name()));
    sets.into_iter().filter_map(line).collect()
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

fn columns(heads: &str) -> Vec<String> {
    heads.split(", ").map(str::to_owned).collect()
}

fn percent(value: f64) -> String {
    format!("{value:.2}")
}

/// Key of the worst row, its two values and its error in percent.
fn worst_cells(worst: Option<&Worst>) -> [String; 4] {
    let Some(worst) = worst else { return Default::default() };
    let value = |v: f64| format!("{v:.2}");
    let signed = format!("{:+.2}", worst.error_percent);
    [worst.key.to_string(), value(worst.reference), value(worst.other), signed]
}

fn experiments(comparison: &Comparison) -> Table {
    let row = |e: &bench::compare::ExperimentComparison| {
        let [key, a, b, error] = worst_cells(e.worst.as_ref());
        let name = bench::score::short_name(&e.configuration).to_owned();
        let errors = [percent(e.mean_absolute_error_percent), format!("{:+.2}", e.mean_error_percent)];
        let counts = [e.rows.to_string(), e.missing.to_string()];
        let unit = e.quantity.unit().to_owned();
        [name, e.experiment.clone()]
            .into_iter()
            .chain(counts)
            .chain(errors)
            .chain([error, a, b, unit, key])
            .collect()
    };
    Table {
        title: "By experiment".to_owned(),
        columns: columns(
            "configuration, experiment, rows, missing, error %, bias %, worst %, A, B, unit, worst row",
        ),
        rows: comparison.experiments.iter().map(row).collect(),
        folded: false,
    }
}

fn families(comparison: &Comparison) -> Table {
    let row = |f: &bench::compare::FamilyComparison| {
        let [key, a, b, error] = worst_cells(f.worst.as_ref());
        let at = f.worst_at.clone().unwrap_or_default();
        let counts = [f.experiments.to_string(), f.rows.to_string()];
        let name = [f.family.to_owned()].into_iter();
        name.chain(counts).chain([percent(f.mean_absolute_error_percent), error, a, b, at, key]).collect()
    };
    Table {
        title: "By family".to_owned(),
        columns: columns("family, files, rows, error %, worst %, A, B, worst in, worst row"),
        rows: comparison.families.iter().map(row).collect(),
        folded: false,
    }
}

/// One row for each group and family, and for each shape.
fn scores(comparison: &Comparison) -> Table {
    let mut rows = Vec::new();
    for group in &comparison.score {
        let shapes =
            [("knee", group.knee_percent), ("edge", group.edge_percent), ("rank", group.rank_percent)];
        let shapes = shapes.into_iter().filter_map(|(name, value)| Some((name, "right", value?)));
        let errors = group.mape_percent.iter().map(|(family, value)| (*family, "error", *value));
        let tails = [("99.9th percentile", group.p999_percent), ("maximum", group.max_percent)];
        let tails = tails.into_iter().filter_map(|(name, value)| Some((name, "error", value?)));
        for (name, what, value) in errors.chain(shapes).chain(tails) {
            rows.push(vec![group.group.to_owned(), name.to_owned(), what.to_owned(), percent(value)]);
        }
    }
    Table {
        title: format!("Score of B as a prediction of A: {}", scored(comparison.scored)),
        columns: columns("group, of, what, %"),
        rows,
        folded: false,
    }
}

/// Describes which rows the score covers.
fn scored(scored: Scored) -> String {
    let Scored { rows, reference_rows, missing_rows_count } = scored;
    match (missing_rows_count, rows == reference_rows) {
        (true, _) => format!("all {rows} rows of A; rows that B lacks count as errors of 100 %"),
        (false, true) => format!("all {rows} rows of A"),
        (false, false) => format!(
            "{rows} of A's {reference_rows} rows that B has too; --whole counts the others as errors of 100 %"
        ),
    }
}

/// One line for each item that a set lacks and the other has.
fn lacks(set: &str, missing: &Missing) -> Vec<String> {
    let list = |what: &str, names: &[String]| {
        (!names.is_empty())
            .then(|| format!("{set} lacks {}: {}.", counted(names.len(), what), names.join(", ")))
    };
    let mut lines: Vec<String> = list("configuration", &missing.configurations).into_iter().collect();
    lines.extend(list("experiment", &missing.experiments));
    let named = missing.rows.iter().take(NAMED_ROWS);
    lines.extend(named.map(|row| format!("{set} lacks the row {}", row_name(row))));
    let more = missing.rows.len().saturating_sub(NAMED_ROWS);
    lines.extend((more > 0).then(|| format!("{set} lacks {}; --json names all.", counted(more, "more row"))));
    lines
}
