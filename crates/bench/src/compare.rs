// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two sets of results side by side, row by row: `riser compare`.
//!
//! Rows are paired by their [`Key`] within the same experiment of the same configuration; of a key that comes twice, the
//! first row stands. What is compared is the median latency in nanoseconds or the bandwidth in Gb/s. The first set is the
//! reference: errors are shares of its values. What only one of both has is named, never counted as agreement.

use crate::BenchError;
use crate::experiments::Key;
use crate::pairing::{by_key, find, in_common, paired};
use crate::results::{Figures, ResultRow, ResultSet, Tables};
use crate::score::{GroupScore, family, mean, percent, relative_error, score};
use lab::profile::Basis;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// What two sets of results have in common and where they differ.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparison {
    /// How the figures of the profiles are known that the reference rests on; left out of results that do not say it, such as
    /// measurements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference_basis: Option<Basis>,
    /// The same of the other set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_basis: Option<Basis>,
    /// Every experiment that both have, by configuration and name.
    pub experiments: Vec<ExperimentComparison>,
    /// The same in families of experiments, by name.
    pub families: Vec<FamilyComparison>,
    /// What the reference has and the other set lacks.
    pub missing: Missing,
    /// What the other set has beyond the reference.
    pub additional: Missing,
    /// How well the other set predicts the reference.
    pub score: Vec<GroupScore>,
    /// The rows that the score is of.
    pub scored: Scored,
}

/// The rows that a score is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Scored {
    /// Rows of the reference that count; those that it repeats, and those that say nothing of the host, do not.
    pub rows: u64,
    /// Rows of the reference that would count if the other set had them all.
    pub reference_rows: u64,
    /// Whether rows that the other set lacks count as errors of 100 %.
    pub missing_rows_count: bool,
}

/// What one set has and the other lacks.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Missing {
    /// Configurations that are missing as a whole.
    pub configurations: Vec<String>,
    /// Experiments that are missing as a whole, of configurations that both have, as `CONFIGURATION/EXPERIMENT`.
    pub experiments: Vec<String>,
    /// Rows that are missing of experiments that both have.
    pub rows: Vec<MissingRow>,
}

impl Missing {
    /// True where nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.configurations.is_empty() && self.experiments.is_empty() && self.rows.is_empty()
    }
}

/// A row of which only one set has a value.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct MissingRow {
    /// The configuration.
    pub configuration: String,
    /// The experiment.
    pub experiment: String,
    /// What makes the row.
    #[serde(flatten)]
    pub key: Key,
}

/// Rows that both sets have of one experiment of one configuration.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ExperimentComparison {
    /// The configuration, as its folder is called.
    pub configuration: String,
    /// The experiment.
    pub experiment: String,
    /// The family that it belongs to.
    pub family: &'static str,
    /// What the values of its rows are.
    pub quantity: Quantity,
    /// Rows compared.
    pub rows: usize,
    /// Rows of the reference without a counterpart.
    pub missing: usize,
    /// Mean of the rows' absolute errors, without missing rows.
    pub mean_absolute_error_percent: f64,
    /// Mean of the rows' errors with their signs: above 0 where the other set is above the reference.
    pub mean_error_percent: f64,
    /// The row with the greatest error.
    pub worst: Option<Worst>,
}

/// What the values of an experiment are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Median latency in nanoseconds.
    LatencyNsMedian,
    /// Bandwidth in 10^9 bits per second.
    BandwidthGbps,
}

impl Quantity {
    /// The unit of its values.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Quantity::LatencyNsMedian => "ns",
            Quantity::BandwidthGbps => "Gb/s",
        }
    }
}

/// The row that differs most.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Worst {
    /// What makes the row.
    #[serde(flatten)]
    pub key: Key,
    /// Its value in the reference, in the unit of the experiment's quantity.
    pub reference: f64,
    /// Its value in the other set.
    pub other: f64,
    /// By how much the other set is above the reference, or below it.
    pub error_percent: f64,
}

/// All experiments of a family, over all configurations.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FamilyComparison {
    /// Its name, such as `BW_SZ`.
    pub family: &'static str,
    /// Experiments compared; one of two configurations counts twice.
    pub experiments: usize,
    /// Rows compared.
    pub rows: usize,
    /// Mean of the experiments' mean absolute errors.
    pub mean_absolute_error_percent: f64,
    /// The configuration and experiment with the worst row.
    pub worst_at: Option<String>,
    /// The row with the greatest error.
    pub worst: Option<Worst>,
}

/// Compares `other` with `reference`; `skip` as in [`score`], of which it concerns nothing else. The score is of the rows that
/// both have.
///
/// Configurations are paired by name, with or without the card's. Where both sets hold one configuration, these two are
/// compared, whatever their names: so folders of one's own can be. Those of riser's own form are paired by the settings that
/// differ within either set, and their rows with those of the public form by their keys, whatever the experiment.
pub fn compare(reference: &ResultSet, other: &ResultSet, skip: Option<&ResultSet>) -> Comparison {
    comparison(reference, other, skip, false)
}

/// The same with a score of all that the reference has: a row that the other set lacks is an error of 100 %.
pub fn compare_whole(reference: &ResultSet, other: &ResultSet, skip: Option<&ResultSet>) -> Comparison {
    comparison(reference, other, skip, true)
}

/// Compares what the folder `other` holds with what `reference` holds: both as [`ResultSet::read`] takes them. `skip` is a folder of
/// experiments that are no part of the score; `whole` as in [`compare_whole`].
///
/// # Errors
/// A folder that cannot be read, or folders without a row in common.
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

/// The keys of `rows` in their order, each once, that `others` lacks.
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

/// What `other` lacks of `set`.
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

/// The comparison of one experiment; `None` where no row is in both.
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

/// The one with the greater error, the first of equal ones.
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
