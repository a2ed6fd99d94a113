// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Axes: keys of the lab with their values, from `[over]` and `[[together]]`. This module does not read the lab.

use crate::schema::{MAX_VALUES, Number, RANGE_KEYS, Range, Scale};
use crate::source::File;
use crate::value::{Value, tidy};
use plug::file::FileError;
use std::ops;
use thiserror::Error;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Most texts of an axis that are tried before a sweep begins.
const MAX_TRIED: usize = 256;

/// Keys that change together, and their values.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Axis {
    /// Keys of the lab, in the form that `--set` accepts.
    pub(crate) keys: Vec<String>,
    /// Place in the file.
    pub(crate) place: ops::Range<usize>,
    pub(crate) levels: Levels,
}

/// The values of an axis.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Levels {
    /// Values in order, one for each key.
    Listed(Vec<Vec<Value>>),
    /// All values from the first to the second.
    Between(Number, Number, Scale),
}

impl Axis {
    /// Returns the number of values; `None` if there is no list of them.
    pub(crate) fn len(&self) -> Option<u64> {
        match &self.levels {
            Levels::Listed(rows) => Some(rows.len() as u64),
            Levels::Between(..) => None,
        }
    }

    /// Returns value number `n` for each key.
    pub(crate) fn level(&self, n: u64) -> Vec<Value> {
        match &self.levels {
            Levels::Listed(rows) => rows.get(n as usize).cloned().unwrap_or_default(),
            Levels::Between(..) => self.of_unit(n as f64),
        }
    }

    /// Returns the value at `unit`, from 0 to below 1. All values are equally likely.
    pub(crate) fn of_unit(&self, unit: f64) -> Vec<Value> {
        match &self.levels {
            Levels::Listed(rows) => {
                self.level(((rows.len() as f64 * unit) as u64).min(rows.len() as u64 - 1))
            }
            Levels::Between(from, to, scale) => vec![between(*from, *to, *scale, unit)],
        }
    }

    /// Returns values that test whether the keys are valid: all texts, because they may name files; otherwise the ends.
    pub(crate) fn witnesses(&self) -> Vec<Vec<Value>> {
        match &self.levels {
            Levels::Listed(rows) => {
                let is_text = |row: &[Value]| row.iter().any(|v| matches!(v, Value::Text(_)));
                let last = rows.len() - 1;
                let of_use = |(n, row): &(usize, &Vec<Value>)| *n == 0 || *n == last || is_text(row);
                rows.iter().enumerate().filter(of_use).map(|(_, row)| row.clone()).take(MAX_TRIED).collect()
            }
            Levels::Between(..) => vec![self.of_unit(0.0), self.of_unit(1.0)],
        }
    }
}

fn between(from: Number, to: Number, scale: Scale, unit: f64) -> Value {
    let (low, high) = (from.float(), to.float());
    match (from, to, scale) {
        (Number::Integer(first), Number::Integer(last), Scale::Linear) => {
            // Each integer has an equal share.
            let span = (i128::from(last) - i128::from(first) + 1) as f64;
            Value::Integer(first.saturating_add((span * unit) as i64).min(last))
        }
        (Number::Integer(first), Number::Integer(last), Scale::Log) => {
            Value::Integer((spread(low, high, scale, unit).round() as i64).clamp(first, last))
        }
        _ => Value::Float(tidy(spread(low, high, scale, unit)).clamp(low, high)),
    }
}

fn spread(low: f64, high: f64, scale: Scale, share: f64) -> f64 {
    match scale {
        Scale::Linear => low + (high - low) * share,
        Scale::Log => low * (high / low).powf(share),
    }
}

/// Reads the axes of `[over]` and `[[together]]`, in the order of the file.
pub(crate) fn axes(
    file: &File<'_>,
    over: Option<Spanned<DeValue<'_>>>,
    together: Option<Spanned<DeValue<'_>>>,
) -> Result<Vec<Axis>, Vec<FileError>> {
    let (mut axes, mut errors) = (Vec::new(), Vec::new());
    if let Some(over) = over {
        match over.get_ref() {
            DeValue::Table(table) => {
                for (key, place, value) in keys(table) {
                    match levels(file, &place, value) {
                        Ok(levels) => axes.push(Axis { keys: vec![key], place, levels }),
                        Err(wrong) => errors.extend(wrong),
                    }
                }
            }
            _ => errors.push(
                file.error(over.span(), "over is not a table: expected keys of the lab with their values"),
            ),
        }
    }
    let span = together.as_ref().map(Spanned::span);
    match together.map(Spanned::into_inner) {
        None => {}
        Some(DeValue::Array(tables)) => {
            for one in &tables {
                match zipped(file, one) {
                    Ok(axis) => axes.push(axis),
                    Err(wrong) => errors.extend(wrong),
                }
            }
        }
        Some(_) => {
            let why = "together is not a list of tables: expected [[together]] tables, each with keys of the lab and equally many values of each";
            errors.push(file.error(span.unwrap_or(0..1), why));
        }
    }
    axes.sort_by_key(|axis| axis.place.start);
    check_twice(file, &axes, &mut errors);
    if errors.is_empty() { Ok(axes) } else { Err(errors) }
}

fn check_twice(file: &File<'_>, axes: &[Axis], errors: &mut Vec<FileError>) {
    let mut seen: Vec<Vec<String>> = Vec::new();
    for axis in axes {
        for key in &axis.keys {
            let path = plug::file::key_path(key).unwrap_or_else(|| vec![key.clone()]);
            if seen.contains(&path) {
                errors.push(
                    file.error(axis.place.clone(), format!("`{key}` a second time: expected each key once")),
                );
            }
            seen.push(path);
        }
    }
}

/// Returns keys and their values, in order. A table that is not a range contains keys of a longer path.
fn keys<'t, 'a>(table: &'t DeTable<'a>) -> Vec<(String, ops::Range<usize>, &'t Spanned<DeValue<'a>>)> {
    let mut found = Vec::new();
    for (key, value) in table {
        let name = key.get_ref();
        match value.get_ref() {
            DeValue::Table(below) if !is_range(below) => {
                let deeper = keys(below).into_iter();
                found.extend(
                    deeper.map(|(key, place, value)| (format!("{}.{key}", quoted(name)), place, value)),
                );
            }
            // A name that is already a path is used as it is. Any other name is a key with unusual
            // characters.
            _ => found.push((name.to_string(), key.span(), value)),
        }
    }
    found.sort_by_key(|(_, place, _)| place.start);
    found
}

fn is_range(table: &DeTable<'_>) -> bool {
    RANGE_KEYS.iter().any(|key| table.contains_key(*key))
}

/// Returns a key as a part of a path.
fn quoted(name: &str) -> String {
    let bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    if bare { name.to_owned() } else { toml::Value::String(name.to_owned()).to_string() }
}

fn zipped(file: &File<'_>, one: &Spanned<DeValue<'_>>) -> Result<Axis, Vec<FileError>> {
    let at = |message: String| vec![file.error(one.span(), message)];
    let table = one.get_ref().as_table().ok_or_else(|| at("an element of together is not a table".into()))?;
    let all = keys(table);
    let mut columns = Vec::new();
    for (key, place, value) in &all {
        match levels(file, place, value)? {
            Levels::Listed(rows) => columns.push((key, place, rows)),
            Levels::Between(..) => {
                let why =
                    format!("`{key}` is in [[together]]: expected a list, or a range with step or points");
                return Err(vec![file.error(place.clone(), why)]);
            }
        }
    }
    let Some((first, place, rows)) = columns.first() else {
        return Err(at(
            "together without a key: expected keys of the lab and equally many values of each".into()
        ));
    };
    let count = rows.len();
    if let Some((key, place, rows)) = columns.iter().find(|(.., rows)| rows.len() != count) {
        let why = format!("number of values of `{key}`: {}, expected {count} as for `{first}`", rows.len());
        return Err(vec![file.error((*place).clone(), why)]);
    }
    let place = (*place).clone();
    let row = |n: usize| columns.iter().flat_map(|(.., rows)| rows[n].clone()).collect();
    let levels = Levels::Listed((0..count).map(row).collect());
    Ok(Axis { keys: all.iter().map(|(key, ..)| key.clone()).collect(), place, levels })
}

fn levels(
    file: &File<'_>,
    place: &ops::Range<usize>,
    value: &Spanned<DeValue<'_>>,
) -> Result<Levels, Vec<FileError>> {
    let wrong = |span: ops::Range<usize>, why: &str| vec![file.error(span, why)];
    match value.get_ref() {
        DeValue::Array(list) if list.is_empty() => {
            Err(wrong(value.span(), "no value: expected at least one"))
        }
        DeValue::Array(list) if list.len() > MAX_VALUES => {
            Err(wrong(value.span(), &format!("{} values: expected at most {MAX_VALUES}", list.len())))
        }
        DeValue::Array(list) => {
            let one = |v: &Spanned<DeValue<'_>>| {
                let why = "expected numbers, booleans, strings or lists of these";
                file.value(v).ok_or_else(|| file.error(v.span(), why)).map(|value| vec![value])
            };
            let (good, bad): (Vec<_>, Vec<_>) = list.iter().map(one).partition(Result::is_ok);
            let errors: Vec<FileError> = bad.into_iter().filter_map(Result::err).collect();
            if !errors.is_empty() {
                return Err(errors);
            }
            Ok(Levels::Listed(good.into_iter().filter_map(Result::ok).collect()))
        }
        DeValue::Table(table) => {
            let range: Range = file.read(Spanned::new(value.span(), table.clone()))?;
            spread_out(&range).map_err(|why| wrong(value.span(), &why.to_string()))
        }
        _ => {
            let why = "expected a list, as [3, 4, 5], or a range, as { from = 1, to = 32, points = 6, scale = \"log\" }";
            Err(vec![file.error(place.clone(), why)])
        }
    }
}

/// Reason why a range is illegal.
#[derive(Clone, Copy, PartialEq, Debug, Error)]
enum RangeError {
    #[error("from {0} to {1}: expected finite numbers of which the second is greater")]
    Order(f64, f64),
    #[error("from {0}: expected a number above 0 with scale = \"log\"")]
    LogFrom(f64),
    #[error("both step and points: expected only one of them")]
    StepAndPoints,
    #[error("step with scale = \"log\": expected points")]
    LogStep,
    #[error("step of {0}: expected a step above 0 that gives at most {MAX_VALUES} values")]
    Step(f64),
}

/// Returns the values of a range.
fn spread_out(range: &Range) -> Result<Levels, RangeError> {
    let (low, high) = (range.from.float(), range.to.float());
    if !(low.is_finite() && high.is_finite() && low < high) {
        return Err(RangeError::Order(low, high));
    }
    if range.scale == Scale::Log && low <= 0.0 {
        return Err(RangeError::LogFrom(low));
    }
    let shares = |n: u64| (0..n).map(move |i| i as f64 / (n - 1) as f64);
    let values: Vec<f64> = match (range.step, range.points) {
        (None, None) => return Ok(Levels::Between(range.from, range.to, range.scale)),
        (Some(_), Some(_)) => return Err(RangeError::StepAndPoints),
        (Some(_), None) if range.scale == Scale::Log => {
            return Err(RangeError::LogStep);
        }
        (None, Some(points)) => shares(points).map(|s| spread(low, high, range.scale, s)).collect(),
        (Some(step), None) => {
            let step = step.float();
            let count = (high - low) / step;
            if !(step > 0.0 && count < MAX_VALUES as f64) {
                return Err(RangeError::Step(step));
            }
            // Rounding errors must not drop the last step.
            (0..=(count + 1e-9) as u64).map(|n| low + step * n as f64).collect()
        }
    };
    let whole = |n: Option<Number>| n.is_none_or(|n| matches!(n, Number::Integer(_)));
    let value = |x: f64| match whole(Some(range.from)) && whole(Some(range.to)) && whole(range.step) {
        true => Value::Integer(x.round() as i64),
        false => Value::Float(tidy(x)),
    };
    let mut rows: Vec<Vec<Value>> = values.into_iter().map(|x| vec![value(x)]).collect();
    rows.dedup();
    Ok(Levels::Listed(rows))
}
