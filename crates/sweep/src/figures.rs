// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures of a sweep for its page: settings and metrics as numbers, and the response of metrics to each setting.

use crate::ranking::front;
use crate::record::Record;
use crate::run::RunningSweep;
use crate::schema::Aim;
use crate::value::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of rows: more cannot be distinguished.
const MAX_ROWS: usize = 5_000;
/// Maximum number of values of a setting with separate marks. More are grouped.
const MAX_LEVELS: usize = 32;
/// Number of groups of neighbouring values.
const GROUPS: usize = 20;

/// A setting or a metric, with one number per row.
#[derive(Clone, PartialEq, Debug)]
pub struct Dimension {
    /// The key of the setting, or the name of the metric.
    pub name: String,
    /// Unit of a metric; empty if not given.
    pub unit: String,
    /// One value per row. If there are `names`, the value is an index into `names`.
    pub values: Vec<f64>,
    /// Names of the values 0, 1 and so on, if the values are not numbers.
    pub names: Vec<String>,
    /// True if the values fit a logarithmic scale: they are above 0, and rise by factors.
    pub log: bool,
    /// Aim of a metric; `None` if it has none.
    pub aim: Option<Aim>,
}

/// The points of a sweep that are whole and have all metrics. With rounds, only the last point of each configuration.
#[derive(Clone, PartialEq, Debug)]
pub struct Figures {
    /// Number of the point of each row.
    pub points: Vec<u64>,
    /// The keys of the sweep.
    pub settings: Vec<Dimension>,
    /// The metrics that have numbers in some point.
    pub metrics: Vec<Dimension>,
    /// Whether each row is feasible.
    pub feasible: Vec<bool>,
    /// Rows of the Pareto front.
    pub front: Vec<usize>,
    /// Number of points without a row, because they are not whole or lack a metric.
    pub without: usize,
    /// Number of points without a row, because there are too many points.
    pub beyond: usize,
}

/// Response of a metric to a setting.
#[derive(Clone, PartialEq, Debug)]
pub struct Response {
    /// Values of the setting, in rising order. If there are many, these are means of groups of neighbouring values.
    pub at: Vec<f64>,
    /// Median of the metric at each value.
    pub median: Vec<f64>,
    /// Minimum of the metric at each value.
    pub least: Vec<f64>,
    /// Maximum of the metric at each value.
    pub greatest: Vec<f64>,
}

impl Figures {
    /// Returns the figures of a run in its current state.
    pub fn of(run: &RunningSweep<'_>) -> Figures {
        let sweep = run.sweep();
        let mut latest: BTreeMap<u64, &Record> = BTreeMap::new();
        for record in run.records().iter().flatten() {
            if let Some(point) = run.point(record.point) {
                latest.insert(point.config, record);
            }
        }
        let whole = |record: &Record| record.outcome.is_whole();
        let used: Vec<usize> = (0..sweep.metrics().len())
            .filter(|n| latest.values().any(|r| whole(r) && r.number(*n).is_some()))
            .collect();
        let is_row = |record: &Record| whole(record) && used.iter().all(|n| record.number(*n).is_some());
        let all: Vec<(u64, &Record)> =
            latest.iter().filter(|(_, r)| is_row(r)).map(|(config, r)| (*config, *r)).collect();
        let (without, count) = (latest.len() - all.len(), all.len());
        let best: BTreeSet<u64> = front(sweep, run.records()).into_iter().collect();
        let kept = |(n, (_, record)): &(usize, (u64, &Record))| {
            // Rows are chosen evenly, and the best are always included.
            count <= MAX_ROWS
                || n * MAX_ROWS / count != (n + 1) * MAX_ROWS / count
                || best.contains(&record.point)
        };
        let rows: Vec<(u64, &Record)> =
            all.into_iter().enumerate().filter(kept).map(|(_, row)| row).collect();
        let settings: Vec<Vec<Value>> = rows.iter().map(|(config, _)| sweep.settings(*config)).collect();
        let setting = |(n, key): (usize, &str)| {
            let values: Vec<&Value> = settings.iter().filter_map(|row| row.get(n)).collect();
            dimension(key, &values)
        };
        let metric = |n: &usize| {
            let of = &sweep.metrics()[*n];
            let values: Vec<f64> = rows.iter().filter_map(|(_, record)| record.number(*n)).collect();
            let (low, high) = ends(&values);
            Dimension {
                name: of.name.clone(),
                unit: of.unit.clone(),
                log: low > 0.0 && high / low >= 100.0,
                values,
                names: Vec::new(),
                aim: of.aim,
            }
        };
        Figures {
            settings: sweep.keys().into_iter().enumerate().map(setting).collect(),
            metrics: used.iter().map(metric).collect(),
            feasible: rows.iter().map(|(_, record)| sweep.is_feasible(record)).collect(),
            front: (0..rows.len()).filter(|row| best.contains(&rows[*row].1.point)).collect(),
            points: rows.iter().map(|(_, record)| record.point).collect(),
            without,
            beyond: count - rows.len(),
        }
    }

    /// Returns the response of metric number `metric` to setting number `setting`.
    pub fn response(&self, setting: usize, metric: usize) -> Response {
        let (xs, ys) = (&self.settings[setting].values, &self.metrics[metric].values);
        let mut pairs: Vec<(f64, f64)> = xs.iter().copied().zip(ys.iter().copied()).collect();
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let mut groups: Vec<Vec<(f64, f64)>> = pairs.chunk_by(|a, b| a.0 == b.0).map(<[_]>::to_vec).collect();
        if groups.len() > MAX_LEVELS {
            groups = pairs.chunks(pairs.len().div_ceil(GROUPS)).map(<[_]>::to_vec).collect();
        }
        let mut response =
            Response { at: Vec::new(), median: Vec::new(), least: Vec::new(), greatest: Vec::new() };
        for group in groups {
            let mut ys: Vec<f64> = group.iter().map(|(_, y)| *y).collect();
            ys.sort_by(f64::total_cmp);
            response.at.push(group.iter().map(|(x, _)| x).sum::<f64>() / group.len() as f64);
            response.median.push(ys[(ys.len() - 1) / 2]);
            response.least.push(ys[0]);
            response.greatest.push(ys[ys.len() - 1]);
        }
        response
    }
}

fn ends(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(*x), high.max(*x)))
}

fn dimension(key: &str, values: &[&Value]) -> Dimension {
    let numbers = |value: &&&Value| !matches!(value, Value::Text(_) | Value::Boolean(_));
    let names: Vec<String> = match values.iter().all(|value| numbers(&value)) {
        true => Vec::new(),
        // In order of appearance, which for a grid is the order of the file.
        false => values.iter().fold(Vec::new(), |mut names, value| {
            let name = value.to_string();
            if !names.contains(&name) {
                names.push(name);
            }
            names
        }),
    };
    let value = |value: &&Value| match names.is_empty() {
        true => value.number().unwrap_or_default(),
        false => names.iter().position(|name| *name == value.to_string()).unwrap_or_default() as f64,
    };
    let values: Vec<f64> = values.iter().map(value).collect();
    let log = names.is_empty() && rises_by_factors(&values);
    Dimension { name: key.to_owned(), unit: String::new(), values, names, log, aim: None }
}

/// Returns true if the median of the values is nearer to the geometric mean of their ends than to the arithmetic one.
fn rises_by_factors(values: &[f64]) -> bool {
    let mut distinct = values.to_vec();
    distinct.sort_by(f64::total_cmp);
    distinct.dedup();
    let (Some(low), Some(high)) = (distinct.first(), distinct.last()) else { return false };
    let middle = distinct[distinct.len() / 2];
    *low > 0.0
        && high / low >= 8.0
        && (middle - (low * high).sqrt()).abs() < (middle - (low + high) / 2.0).abs()
}
