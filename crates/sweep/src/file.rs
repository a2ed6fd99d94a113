// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a sweep file, and reports all its faults with their places. This module does not read the lab.

use crate::axis::{self, Axis};
use crate::expr::{Expr, ExprError, Names};
use crate::metric::{self, Figure, From};
use crate::rounds::Rounds;
use crate::sample::Sampling;
use crate::schema::{Halving, Head, MAX_METRICS, MAX_POINTS, Metric, RESERVED};
use crate::source::File;
use plug::file::{FileError, FileErrors, Overrides, Source, key_path};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::DeValue;

/// Most keys of a sweep.
const MAX_KEYS: usize = 64;

/// Contents of a sweep file.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Parsed {
    pub(crate) lab: String,
    /// Place of `lab` in the file.
    pub(crate) lab_place: Range<usize>,
    pub(crate) max_events: Option<u64>,
    pub(crate) axes: Vec<Axis>,
    pub(crate) sampling: Sampling,
    pub(crate) budget: Option<Budget>,
    pub(crate) rounds: Rounds,
    pub(crate) metrics: Vec<metric::Metric>,
}

/// The key that scales the work of a run, and its place in the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Budget {
    pub(crate) key: String,
    pub(crate) place: Range<usize>,
}

impl Parsed {
    /// Returns the keys of all axes, in the order of the columns.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.axes.iter().flat_map(|axis| &axis.keys).map(String::as_str)
    }
}

/// Parses the sweep `text` of the file `path`.
pub(crate) fn parse(path: &Path, text: &str) -> Result<Parsed, FileErrors> {
    if text.trim().is_empty() {
        let why = "it is empty: expected `version = 1`, `lab`, [over] and [metrics]";
        return Err(FileError::whole(path, why).into());
    }
    let overrides = Overrides::default();
    let mut tree = Source { path, text, overrides: &overrides }.tree()?;
    let file = File { source: Source { path, text, overrides: &overrides } };
    let mut errors = Vec::new();
    let mut take = |key: &str| tree.get_mut().remove(key);
    let (over, together, metrics) = (take("over"), take("together"), take("metrics"));
    let axes = axis::axes(&file, over, together).unwrap_or_else(|wrong| {
        errors.extend(wrong);
        Vec::new()
    });
    let keys: Vec<&str> = axes.iter().flat_map(|axis| &axis.keys).map(String::as_str).collect();
    let metrics = self::metrics(&file, metrics, &keys).unwrap_or_else(|wrong| {
        errors.extend(wrong);
        Vec::new()
    });
    let head: Option<Head> = file.read(tree).map_err(|wrong| errors.extend(wrong)).ok();
    let (Some(head), true) = (head, errors.is_empty()) else { return Err(errors.into_iter().collect()) };
    together_right(&file, head, axes, metrics).map_err(FileErrors::from)
}

/// Checks rules that concern several keys.
fn together_right(
    file: &File<'_>,
    head: Head,
    axes: Vec<Axis>,
    metrics: Vec<metric::Metric>,
) -> Result<Parsed, FileError> {
    let whole = |why: String| FileError::whole(file.source.path, why);
    let keys = axes.iter().map(|axis| axis.keys.len()).sum::<usize>();
    if keys == 0 || keys > MAX_KEYS {
        return Err(whole(format!("{keys} keys in [over] and [[together]]: expected 1 to {MAX_KEYS}")));
    }
    if metrics.is_empty() || metrics.len() > MAX_METRICS {
        return Err(whole(format!("{} [metrics]: expected 1 to {MAX_METRICS}", metrics.len())));
    }
    let sampling = Sampling::of(&head.sample, &axes).map_err(|(span, why)| match span {
        Some(span) => file.error(span, why),
        None => whole(why),
    })?;
    let count = sampling.count();
    let (budget, rounds) = match &head.halving {
        None => (None, Rounds::once(count)),
        Some(halving) => rounds(file, halving, &axes, &metrics, count)?,
    };
    if rounds.points() > MAX_POINTS {
        return Err(whole(format!("{} points: expected 1 to {MAX_POINTS}", rounds.points())));
    }
    let (lab_place, max_events) = (head.lab.span(), head.max_events);
    let lab = head.lab.into_inner();
    if lab.is_empty() || lab.contains('\0') {
        return Err(file.error(lab_place, "lab: expected the path of a lab file"));
    }
    Ok(Parsed { lab, lab_place, max_events, axes, sampling, budget, rounds, metrics })
}

fn rounds(
    file: &File<'_>,
    halving: &Spanned<Halving>,
    axes: &[Axis],
    metrics: &[metric::Metric],
    count: u64,
) -> Result<(Option<Budget>, Rounds), FileError> {
    let (at, halving) = (halving.span(), halving.get_ref());
    let aims = metrics.iter().filter(|m| m.aim.is_some()).count();
    if aims != 1 {
        let why = format!("halving with {aims} metrics that have an aim: expected exactly one");
        return Err(file.error(at, why));
    }
    if halving.least >= halving.most {
        let why =
            format!("least {} and most {}: expected a most above the least", halving.least, halving.most);
        return Err(file.error(at, why));
    }
    let (key, place) = (halving.budget.get_ref(), halving.budget.span());
    let path = key_path(key).ok_or_else(|| {
        file.error(
            place.clone(),
            format!("budget `{key}`: expected keys separated by dots, such as slot.0.link.gen"),
        )
    })?;
    if axes.iter().flat_map(|axis| &axis.keys).any(|other| key_path(other).as_ref() == Some(&path)) {
        return Err(file.error(place, format!("budget `{key}` is in [over] too: expected another key")));
    }
    let rounds = Rounds::halving(count, halving.least, halving.most, halving.eta);
    Ok((Some(Budget { key: key.clone(), place }), rounds))
}

fn metrics(
    file: &File<'_>,
    given: Option<Spanned<DeValue<'_>>>,
    keys: &[&str],
) -> Result<Vec<metric::Metric>, Vec<FileError>> {
    let Some(given) = given else { return Ok(Vec::new()) };
    let DeValue::Table(table) = given.get_ref() else {
        let why = "metrics is not a table: expected names, each with a path into the run's report";
        return Err(vec![file.error(given.span(), why)]);
    };
    let mut all: Vec<_> =
        table.iter().map(|(name, of)| (name.get_ref().to_string(), name.span(), of)).collect();
    all.sort_by_key(|(_, place, _)| place.start);
    let (mut found, mut errors): (Vec<metric::Metric>, Vec<FileError>) = (Vec::new(), Vec::new());
    // Names that an expression may use. Invalid metrics are included, so that their faults are
    // reported once.
    let mut above = BTreeSet::new();
    for (name, place, of) in all {
        match metric(file, &name, &place, of, &found, keys, &above) {
            Ok(metric) => found.push(metric),
            Err(wrong) => errors.extend(wrong),
        }
        above.insert(name);
    }
    if errors.is_empty() { Ok(found) } else { Err(errors) }
}

fn metric(
    file: &File<'_>,
    name: &str,
    place: &Range<usize>,
    of: &Spanned<DeValue<'_>>,
    above: &[metric::Metric],
    keys: &[&str],
    names: &BTreeSet<String>,
) -> Result<metric::Metric, Vec<FileError>> {
    let wrong = |why: String| vec![file.error(place.clone(), why)];
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_name) {
        return Err(wrong(format!("metric `{name}`: expected 1 to 64 letters, digits, _ or -")));
    }
    if RESERVED.contains(&name) || keys.contains(&name) {
        let why = "has the name of a column of the results: expected another name";
        return Err(wrong(format!("metric `{name}` {why}")));
    }
    let given = match of.get_ref() {
        DeValue::String(path) => Metric::of_path(path),
        DeValue::Table(table) => file.read::<Metric>(Spanned::new(of.span(), table.clone()))?,
        _ => {
            return Err(wrong(format!("metric `{name}`: expected a path, such as \"tlp_hops\", or a table")));
        }
    };
    let at = |key: &str| match of.get_ref() {
        DeValue::Table(table) => table.get(key).map_or(of.span(), Spanned::span),
        _ => of.span(),
    };
    let source = match (&given.path, &given.expr) {
        (Some(path), None) => {
            let keys = key_path(path).ok_or_else(|| {
                let why = "expected names separated by dots, such as links.nic.upstream.payload_gbps";
                vec![file.error(at("path"), format!("path `{path}`: {why}"))]
            })?;
            From::Report(keys)
        }
        (None, Some(text)) => {
            let metrics: Vec<&str> = above.iter().map(|m| m.name.as_str()).collect();
            let expr = Expr::parse(text, &Names { metrics: &metrics, settings: keys });
            match expr {
                Ok(expr) => From::Computed(expr),
                // That metric is reported at its own place.
                Err(ExprError::UnknownName { name, .. })
                    if names.contains(&name) && metrics.len() < names.len() =>
                {
                    return Err(Vec::new());
                }
                Err(error) => return Err(vec![file.error(at("expr"), error.to_string())]),
            }
        }
        _ => return Err(wrong(format!("metric `{name}`: expected either path or expr"))),
    };
    if given.default.is_some() && matches!(source, From::Computed(_)) {
        return Err(vec![file.error(at("default"), "default: no effect on an expr")]);
    }
    let bounds = [given.at_least, given.at_most];
    if bounds.iter().flatten().any(|bound| bound.is_nan()) {
        return Err(wrong(format!("metric `{name}`: at_least or at_most of nan, expected a number")));
    }
    if let (Some(least), Some(most)) = (given.at_least, given.at_most)
        && least > most
    {
        let why = format!("metric `{name}`: at_least of {least}, expected at most at_most, {most}");
        return Err(vec![file.error(at("at_least"), why)]);
    }
    Ok(metric::Metric {
        name: name.to_owned(),
        place: place.clone(),
        from: source,
        aim: given.aim,
        at_least: given.at_least,
        at_most: given.at_most,
        default: given.default.map(Figure::of_number),
        unit: given.unit.unwrap_or_default(),
    })
}
