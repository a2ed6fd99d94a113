// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A comparison as tables, as text and as a page. Calculates no errors.

use super::{Comparison, ExperimentComparison, FamilyComparison, Missing, MissingRow, Scored, Worst};
use crate::figures;
use crate::results::ResultSet;
use crate::score::short_name;
use lab::profile::Basis;
use plug::counted;
use session::table::numbers;
use std::fmt::{Display, Formatter};
use std::path::Path;
use view::report::{PageContent, Table};

/// Maximum number of missing rows in a list.
const NAMED_ROWS: usize = 10;

/// Returns the numbers of missing items as text; `None` if nothing is missing.
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

/// Returns the table of all results that only one set has, folded by default.
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

/// Returns one line per set with the basis of its results, if the set has one.
fn bases([reference, other]: [&str; 2], comparison: &Comparison) -> Vec<String> {
    let sets = [(reference, comparison.reference_basis), (other, comparison.other_basis)];
    let line = |(set, basis): (&str, Option<Basis>)| Some(format!("Basis of {set}: {}.", basis?.name()));
    sets.into_iter().filter_map(line).collect()
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

/// Returns the table of experiments.
fn experiments(comparison: &Comparison) -> Table {
    let row = |e: &ExperimentComparison| {
        let [key, a, b, error] = worst_cells(e.worst.as_ref());
        let name = short_name(&e.configuration).to_owned();
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

/// Returns the table of families of experiments.
fn families(comparison: &Comparison) -> Table {
    let row = |f: &FamilyComparison| {
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

/// Returns the table of scores: one row for each group and family, and for each shape.
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

/// Returns one line for each item that a set lacks and the other has.
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

impl Display for Comparison {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let mut lines = Vec::new();
        for table in [experiments(self), families(self), scores(self)] {
            let heads: Vec<&str> = table.columns.iter().map(String::as_str).collect();
            lines.extend([table.title, numbers(&heads, table.rows), String::new()]);
        }
        lines.extend(bases(["A", "B"], self));
        lines.extend(lacks("B", &self.missing).into_iter().chain(lacks("A", &self.additional)));
        f.write_str(&lines.join("\n"))
    }
}

/// Name of the reference in legends: its folder, or `A` if both folders have the same name.
fn label(reference: &Path, other: &Path) -> String {
    let name = |path: &Path| path.canonicalize().ok()?.file_name().map(|n| n.to_string_lossy().into_owned());
    match (name(reference), name(other)) {
        (Some(a), b) if Some(&a) != b.as_ref() => a,
        _ => "A".to_owned(),
    }
}

/// Returns the page of a comparison of the results in two folders. The reference is the first of both.
pub fn page(
    comparison: &Comparison,
    [reference, other]: [&Path; 2],
    [reference_set, other_set]: &[ResultSet; 2],
) -> PageContent {
    let label = label(reference, other);
    let mut notes = vec![format!(
        "{} (lines) compared with {} (points, called {label}). Errors are shares of the latter.",
        other.display(),
        reference.display()
    )];
    notes.extend(bases([&label, &other.display().to_string()], comparison));
    let sets = [(other, &comparison.missing), (reference, &comparison.additional)];
    let lacking = missing(&sets.map(|(set, missing)| (set.display().to_string(), missing)));
    for (set, missing) in sets {
        notes.extend(
            counts(missing).map(|lacks| format!("{} lacks {lacks}: see the last table.", set.display())),
        );
    }
    let tables = [scores(comparison), families(comparison), experiments(comparison)];
    let tables = tables.into_iter().chain(lacking).collect();
    figures::page("Results compared", notes, tables, other_set, Some((&label, reference_set)))
}
