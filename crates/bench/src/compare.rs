// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two sets of results side by side, row by row: `riser compare`.
//!
//! Rows are paired by their [`Key`] within the same experiment and configuration. If a key occurs twice, its first row
//! counts. The compared value is the median latency in nanoseconds or the bandwidth in Gb/s. The first set is the
//! reference: errors are relative to its values. Lists configurations, experiments and rows that only one set has. They
//! never count as agreement.

mod tables;

pub use tables::page;

use crate::BenchError;
use crate::experiments::Key;
use crate::pairing::{by_key, find, in_common, paired};
use crate::results::{Figures, ResultRow, ResultSet, Tables};
use crate::score::{GroupScore, family, mean, percent, relative_error, score};
use lab::profile::Basis;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Common rows of two sets of results, and their differences.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparison {
    /// Basis of the profile figures that the reference depends on. Absent for results without a basis, such as
    /// measurements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference_basis: Option<Basis>,
    /// Basis of the other set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_basis: Option<Basis>,
    /// The experiments that both sets have, by configuration and name.
    pub experiments: Vec<ExperimentComparison>,
    /// The same experiments, averaged by family.
    pub families: Vec<FamilyComparison>,
    /// Parts of the reference that the other set lacks.
    pub missing: Missing,
    /// Parts of the other set that the reference lacks.
    pub additional: Missing,
    /// How well the other set predicts the reference.
    pub score: Vec<GroupScore>,
    /// Counts of the scored rows.
    pub scored: Scored,
}

/// Counts of the rows that a score covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Scored {
    /// Scored rows of the reference. Repeated rows and rows that are independent of the host are left out.
    pub rows: u64,
    /// Rows of the reference that would count if the other set had them all.
    pub reference_rows: u64,
    /// Whether rows that the other set lacks count as errors of 100 %.
    pub missing_rows_count: bool,
}

/// Parts that one set has and the other lacks.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Missing {
    /// Configurations that are missing completely.
    pub configurations: Vec<String>,
    /// Experiments that are missing completely from a configuration of both sets, as `CONFIGURATION/EXPERIMENT`.
    pub experiments: Vec<String>,
    /// Rows that are missing from an experiment of both sets.
    pub rows: Vec<MissingRow>,
}

impl Missing {
    /// Returns true if nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.configurations.is_empty() && self.experiments.is_empty() && self.rows.is_empty()
    }
}

/// A row that only one set has.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct MissingRow {
    /// The configuration.
    pub configuration: String,
    /// The experiment.
    pub experiment: String,
    /// The key of the row.
    #[serde(flatten)]
    pub key: Key,
}

/// Comparison of one experiment of one configuration, over the rows that both sets have.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ExperimentComparison {
    /// Folder name of the configuration.
    pub configuration: String,
    /// The experiment.
    pub experiment: String,
    /// Family of the experiment.
    pub family: &'static str,
    /// Quantity of its values.
    pub quantity: Quantity,
    /// Rows compared.
    pub rows: usize,
    /// Rows of the reference without a counterpart.
    pub missing: usize,
    /// Mean of the rows' absolute errors, without missing rows.
    pub mean_absolute_error_percent: f64,
    /// Mean of the signed errors; positive if the other set is above the reference.
    pub mean_error_percent: f64,
    /// The row with the largest error.
    pub worst: Option<Worst>,
}

/// Quantity of an experiment's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Median latency in nanoseconds.
    LatencyNsMedian,
    /// Bandwidth in 10^9 bits per second.
    BandwidthGbps,
}

impl Quantity {
    /// Returns the unit of the values.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Quantity::LatencyNsMedian => "ns",
            Quantity::BandwidthGbps => "Gb/s",
        }
    }
}

/// The row with the largest difference.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Worst {
    /// The key of the row.
    #[serde(flatten)]
    pub key: Key,
    /// Its value in the reference, in the unit of the experiment's quantity.
    pub reference: f64,
    /// Its value in the other set.
    pub other: f64,
    /// Signed error of the other set relative to the reference, in percent.
    pub error_percent: f64,
}

/// Comparison of a family of experiments over all configurations.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FamilyComparison {
    /// Name of the family, such as `BW_SZ`.
    pub family: &'static str,
    /// Compared experiments. An experiment of two configurations counts twice.
    pub experiments: usize,
    /// Rows compared.
    pub rows: usize,
    /// Mean of the experiments' mean absolute errors.
    pub mean_absolute_error_percent: f64,
    /// The configuration and experiment with the worst row.
    pub worst_at: Option<String>,
    /// The row with the largest error.
    pub worst: Option<Worst>,
}

/// Compares `other` with `reference`. `skip` affects only the score, as in [`score`]. The score covers the rows that both sets have.
///
/// Configurations are paired by name, with or without the name of the card. If each set has exactly one configuration,
/// the two are paired even if their names differ, so that users can compare any two folders. Configurations in the
/// native format are paired by the settings that vary within either set. Their rows are paired with rows of the public
/// form by key, whatever the experiment.
pub fn compare(reference: &ResultSet, other: &ResultSet, skip: Option<&ResultSet>) -> Comparison {
    comparison(reference, other, skip, false)
}

/// Compares the results in folder `other` with those in `reference`, both as [`ResultSet::read`] takes them. `skip` is a folder of experiments to leave out of
/// the score. With `whole`, the score covers all rows of the reference: a row that the other set lacks is an error of 100 %.
///
/// # Errors
/// A folder that cannot be read, or folders that have no row in common.
pub fn compare_folders(
    reference: &Path,
    other: &Path,
    skip: Option<&Path>,
    whole: bool,
) -> Result<(Comparison, [ResultSet; 2]), BenchError> {
    let read = |path: &Path| ResultSet::read(path).map_err(|e| e.to_string());
    let sets = [read(reference)?, read(other)?];
    let skip = skip.map(read).transpose()?;
    let comparison = comparison(&sets[0], &sets[1], skip.as_ref(), whole);
    if comparison.experiments.is_empty() {
        let of = |set: &ResultSet| set.configurations.keys().cloned().collect::<Vec<_>>().join(", ");
        return Err(format!(
            "{} and {} have no row in common: one has {}; the other {}",
            reference.display(),
            other.display(),
            of(&sets[0]),
            of(&sets[1])
        )
        .into());
    }
    Ok((comparison, sets))
}

fn comparison(reference: &ResultSet, other: &ResultSet, skip: Option<&ResultSet>, whole: bool) -> Comparison {
    let (reference, other) = paired(reference, other);
    let (reference, other) = (&reference, &other);
    let all = score(reference, other, skip);
    let reference_rows = rows_of(&all);
    let score = if whole { all } else { score(&in_common(reference, other), other, skip) };
    let scored = Scored { rows: rows_of(&score), reference_rows, missing_rows_count: whole };
    let mut comparison = Comparison {
        reference_basis: reference.basis(),
        other_basis: other.basis(),
        experiments: Vec::new(),
        families: Vec::new(),
        missing: missing(reference, other),
        additional: missing(other, reference),
        score,
        scored,
    };
    for (configuration, tables, others) in in_both(reference, other) {
        for (experiment, rows) in &tables.experiments {
            if let Some(found) = others.experiments.get(experiment) {
                comparison.experiments.extend(compare_rows(configuration, experiment, rows, found));
            }
        }
    }
    comparison.families = families(&comparison.experiments);
    comparison
}

fn rows_of(score: &[GroupScore]) -> u64 {
    score.iter().map(|group| group.rows).sum()
}

fn in_both<'a>(
    reference: &'a ResultSet,
    other: &'a ResultSet,
) -> impl Iterator<Item = (&'a str, &'a Tables, &'a Tables)> {
    let pair = |(name, tables): (&'a String, &'a Tables)| {
        find(other, name).map(|(_, others)| (name.as_str(), tables, others))
    };
    reference.configurations.iter().filter_map(pair)
}

/// Returns the keys of `rows` that `others` lacks, in order and without repetitions.
fn lacking(rows: &[ResultRow], others: &[ResultRow]) -> Vec<Key> {
    let mut seen = by_key(others);
    let mut keys = Vec::new();
    for row in rows {
        if seen.insert(row.key, row).is_none() {
            keys.push(row.key);
        }
    }
    keys
}

/// Returns the parts of `set` that `other` lacks.
fn missing(set: &ResultSet, other: &ResultSet) -> Missing {
    let mut missing = Missing::default();
    for (configuration, tables) in &set.configurations {
        let Some((_, others)) = find(other, configuration) else {
            missing.configurations.push(configuration.clone());
            continue;
        };
        for (experiment, rows) in &tables.experiments {
            let Some(found) = others.experiments.get(experiment) else {
                missing.experiments.push(format!("{configuration}/{experiment}"));
                continue;
            };
            let row = |key: Key| MissingRow {
                configuration: configuration.clone(),
                experiment: experiment.clone(),
                key,
            };
            missing.rows.extend(lacking(rows, found).into_iter().map(row));
        }
    }
    missing
}

/// Compares one experiment. Returns `None` if the sets share no row of it.
fn compare_rows(
    configuration: &str,
    experiment: &str,
    rows: &[ResultRow],
    others: &[ResultRow],
) -> Option<ExperimentComparison> {
    let (reference, found) = (by_key(rows), by_key(others));
    let pairs: Vec<Worst> =
        reference.values().filter_map(|row| Some(pair(row, found.get(&row.key)?))).collect();
    let absolute: Vec<f64> = pairs.iter().map(|p| relative_error(p.other, p.reference)).collect();
    let signed: Vec<f64> = pairs.iter().map(signed_error).collect();
    let quantity = match reference.values().next()?.figures {
        Figures::Latency(_) => Quantity::LatencyNsMedian,
        Figures::Bandwidth(_) => Quantity::BandwidthGbps,
    };
    Some(ExperimentComparison {
        configuration: configuration.to_owned(),
        experiment: experiment.to_owned(),
        family: family(experiment),
        quantity,
        rows: pairs.len(),
        missing: reference.len() - pairs.len(),
        mean_absolute_error_percent: percent(mean(&absolute)?),
        mean_error_percent: percent(mean(&signed)?),
        worst: pairs.into_iter().reduce(worse),
    })
}

fn pair(row: &ResultRow, other: &ResultRow) -> Worst {
    let mut pair = Worst { key: row.key, reference: row.value(), other: other.value(), error_percent: 0.0 };
    pair.error_percent = percent(signed_error(&pair));
    pair
}

fn signed_error(pair: &Worst) -> f64 {
    let error = relative_error(pair.other, pair.reference);
    if pair.other < pair.reference { -error } else { error }
}

/// Returns the row with the larger error, the first if they are equal.
fn worse(a: Worst, b: Worst) -> Worst {
    if b.error_percent.abs() > a.error_percent.abs() { b } else { a }
}

fn families(experiments: &[ExperimentComparison]) -> Vec<FamilyComparison> {
    let mut by_family: BTreeMap<&'static str, Vec<&ExperimentComparison>> = BTreeMap::new();
    for experiment in experiments {
        by_family.entry(experiment.family).or_default().push(experiment);
    }
    by_family.into_iter().map(|(family, members)| family_of(family, &members)).collect()
}

fn family_of(family: &'static str, members: &[&ExperimentComparison]) -> FamilyComparison {
    let errors: Vec<f64> = members.iter().map(|e| e.mean_absolute_error_percent / 100.0).collect();
    let size = |e: &&&ExperimentComparison| e.worst.as_ref().map_or(0.0, |w| w.error_percent.abs());
    let worst = members.iter().reduce(|a, b| if size(&b) > size(&a) { b } else { a });
    FamilyComparison {
        family,
        experiments: members.len(),
        rows: members.iter().map(|e| e.rows).sum(),
        mean_absolute_error_percent: percent(mean(&errors).unwrap_or(0.0)),
        worst_at: worst.map(|e| format!("{}/{}", e.configuration, e.experiment)),
        worst: worst.and_then(|e| e.worst.clone()),
    }
}
