// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pairs the configurations and rows of two sets of results, which may have different formats. This module does not
//! compare values.

use crate::experiments::Key;
use crate::results::sheet::{RowSettings, varying};
use crate::results::{ResultRow, ResultSet, Tables};
use crate::score::short_name;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the configuration `name` of `set`, with or without the name of the card.
pub(crate) fn find<'a>(set: &'a ResultSet, name: &str) -> Option<(&'a str, &'a Tables)> {
    let exact = set.configurations.get_key_value(name);
    let loose = || set.configurations.iter().find(|(other, _)| short_name(other) == short_name(name));
    exact.or_else(loose).map(|(name, tables)| (name.as_str(), tables))
}

/// Returns rows by key. The first of repeated keys counts.
pub(crate) fn by_key<'a>(rows: impl IntoIterator<Item = &'a ResultRow>) -> BTreeMap<Key, &'a ResultRow> {
    let mut found = BTreeMap::new();
    for row in rows {
        found.entry(row.key).or_insert(row);
    }
    found
}

/// Returns both sets with paired names. Configurations of `other` get the names of the reference's. If only one set is in the public form, the rows of the
/// other are sorted into its experiments.
pub(crate) fn paired(reference: &ResultSet, other: &ResultSet) -> (ResultSet, ResultSet) {
    let mut reference = reference.clone();
    let mut other = renamed(&reference, other);
    let names: Vec<String> = reference.configurations.keys().cloned().collect();
    for name in names {
        let Some(theirs) = find(&other, &name).map(|(theirs, _)| theirs.to_owned()) else { continue };
        let pair = (reference.configurations.get_mut(&name), other.configurations.get_mut(&theirs));
        let (Some(a), Some(b)) = pair else { continue };
        match (a.settings.is_some(), b.settings.is_some()) {
            (true, false) => *a = sorted_like(a, b),
            (false, true) => *b = sorted_like(b, a),
            _ => {}
        }
    }
    (reference, other)
}

/// Returns the rows of the reference that the other set has too, by configuration, experiment and key.
pub(crate) fn in_common(reference: &ResultSet, other: &ResultSet) -> ResultSet {
    let mut common = reference.clone();
    common.configurations.retain(|name, tables| {
        let theirs = find(other, name).map(|(_, theirs)| &theirs.experiments);
        tables.experiments.retain(|experiment, rows| {
            let found = theirs.and_then(|t| t.get(experiment)).map(by_key).unwrap_or_default();
            rows.retain(|row| found.contains_key(&row.key));
            !rows.is_empty()
        });
        !tables.is_empty()
    });
    common
}

/// Returns `other` with its configurations renamed to their partners in the reference. If each set has exactly one configuration, the two are partners.
pub(crate) fn renamed(reference: &ResultSet, other: &ResultSet) -> ResultSet {
    let mut names = BTreeMap::new();
    if let ([a], [b]) = (&names_of(reference)[..], &names_of(other)[..]) {
        names.insert(b.clone(), a.clone());
    } else {
        for (theirs, own) in by_settings(reference, other) {
            names.insert(theirs, own);
        }
    }
    let name = |old: &String| names.get(old).unwrap_or(old).clone();
    let configurations = other.configurations.iter().map(|(old, tables)| (name(old), tables.clone()));
    ResultSet { configurations: configurations.collect() }
}

fn names_of(set: &ResultSet) -> Vec<String> {
    set.configurations.keys().cloned().collect()
}

/// Returns the names of partners (other set, reference): configurations that agree in all settings that vary within either set. So two sweeps of one setting on
/// different hosts are paired by that setting.
fn by_settings(reference: &ResultSet, other: &ResultSet) -> Vec<(String, String)> {
    let (ours, theirs) = (places(reference), places(other));
    let differ = |places: &BTreeMap<&String, &RowSettings>| varying(places.values().copied());
    let has = |places: &BTreeMap<&String, &RowSettings>, column: &str| {
        places.values().any(|p| p.contains_key(column))
    };
    // Ignore columns that one of the files does not have.
    let columns: Vec<&str> = differ(&ours)
        .union(&differ(&theirs))
        .copied()
        .filter(|column| has(&ours, column) && has(&theirs, column))
        .collect();
    // `outstanding` is a setting of bandwidth tests only, so absent values match absent values.
    let agree =
        |a: &RowSettings, b: &RowSettings| columns.iter().all(|column| a.get(column) == b.get(column));
    let pair = |(name, place): (&&String, &&RowSettings)| {
        let found = ours.iter().find(|(_, own)| agree(own, place))?;
        Some(((*name).clone(), (*found.0).clone()))
    };
    theirs.iter().filter_map(pair).collect()
}

fn places(set: &ResultSet) -> BTreeMap<&String, &RowSettings> {
    set.configurations.iter().filter_map(|(name, tables)| Some((name, tables.settings.as_ref()?))).collect()
}

/// Returns the rows of `sheet` sorted into the experiments of `like`. Rows that no experiment has stay in their own
/// experiment.
fn sorted_like(sheet: &Tables, like: &Tables) -> Tables {
    let rows = by_key(sheet.experiments.values().flatten());
    let mut sorted = Tables { settings: sheet.settings.clone(), basis: sheet.basis, ..Tables::default() };
    let mut used = BTreeSet::new();
    for (experiment, theirs) in &like.experiments {
        let found: Vec<ResultRow> =
            by_key(theirs).keys().filter_map(|key| rows.get(key)).map(|row| **row).collect();
        used.extend(found.iter().map(|row| row.key));
        if !found.is_empty() {
            sorted.experiments.insert(experiment.clone(), found);
        }
    }
    for (experiment, own) in &sheet.experiments {
        let rest: Vec<ResultRow> = own.iter().filter(|row| !used.contains(&row.key)).copied().collect();
        if !rest.is_empty() {
            sorted.experiments.entry(experiment.clone()).or_default().extend(rest);
        }
    }
    sorted
}
