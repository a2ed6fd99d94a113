// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Metrics: their place in the report of a run, or their expression, and which points are feasible.

use crate::expr::Expr;
use crate::schema::{self, Aim, Number};
use crate::value::Value;
use serde_json::Value as Json;
use std::fmt;
use std::ops::Range;

/// Value of a metric.
pub(crate) type Figure = Value;

impl Value {
    pub(crate) fn of_number(number: Number) -> Value {
        match number {
            Number::Integer(n) => Value::Integer(n),
            Number::Float(x) => Value::Float(x),
        }
    }
}

/// A metric.
#[derive(Clone, PartialEq, Debug)]
pub struct Metric {
    /// Name of the metric, and of a column of the results.
    pub name: String,
    /// Place in the sweep file, in bytes.
    pub(crate) place: Range<usize>,
    pub(crate) from: From,
    /// Aim of the metric; `None` if it has none.
    pub aim: Option<Aim>,
    /// Lower bound of feasible points.
    pub at_least: Option<f64>,
    /// Upper bound of feasible points.
    pub at_most: Option<f64>,
    pub(crate) default: Option<Figure>,
    /// Unit; empty if not given.
    pub unit: String,
}

/// Source of a metric.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum From {
    /// The report of the run, at this path.
    Report(Vec<String>),
    /// An expression of earlier metrics and settings.
    Computed(Expr),
}

impl schema::Metric {
    pub(crate) fn of_path(path: &str) -> schema::Metric {
        schema::Metric {
            path: Some(path.to_owned()),
            expr: None,
            aim: None,
            at_least: None,
            at_most: None,
            default: None,
            unit: None,
        }
    }
}

impl Metric {
    /// Returns true if values are compared, with each other or with a bound.
    pub(crate) fn is_compared(&self) -> bool {
        self.aim.is_some() || self.at_least.is_some() || self.at_most.is_some()
    }

    /// Returns the distance of a value from the bounds, relative to the bounds: 0 if the value is within, infinity if
    /// there is no value.
    pub fn miss(&self, value: Option<f64>) -> f64 {
        if self.at_least.is_none() && self.at_most.is_none() {
            return 0.0;
        }
        let Some(value) = value else { return f64::INFINITY };
        let part = |bound: f64, by: f64| (by > 0.0).then(|| by / bound.abs().max(1e-9));
        let below = self.at_least.and_then(|bound| part(bound, bound - value));
        let above = self.at_most.and_then(|bound| part(bound, value - bound));
        below.into_iter().chain(above).sum()
    }
}

/// Returns all metrics of a run in order, and errors for missing metrics.
pub(crate) fn measure(
    metrics: &[Metric],
    settings: &[Value],
    report: &Json,
) -> (Vec<Option<Figure>>, Vec<String>) {
    let (mut values, mut missing): (Vec<Option<Figure>>, Vec<String>) = (Vec::new(), Vec::new());
    for metric in metrics {
        let value = match &metric.from {
            From::Report(path) => find(report, path).map(Some).or_else(|why| {
                let default = metric.default.clone();
                default.map(Some).ok_or_else(|| format!("metric `{}`: {why}", metric.name))
            }),
            From::Computed(expr) => Ok(expr.value(&values, settings).map(Value::Float)),
        };
        values.push(value.unwrap_or_else(|why| {
            missing.push(why);
            None
        }));
    }
    (values, missing)
}

/// Keys whose value names an element of the report's lists.
const NAMES: [&str; 4] = ["name", "slot", "direction", "kind"];

/// Reason why a path of a report leads to no figure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NoFigure {
    /// There is nothing of this name at the path `of`. `known` are the names there.
    Missing { name: String, of: String, known: Vec<String> },
    /// The path leads to a table or list with these names.
    Table { path: String, known: Vec<String> },
}

impl fmt::Display for NoFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoFigure::Missing { name, of, known } => {
                write!(f, "no `{name}` in ")?;
                if of.is_empty() {
                    f.write_str("the report")?
                } else {
                    write!(f, "`{of}`")?
                }
                match known.is_empty() {
                    true => f.write_str(", which is empty"),
                    false => write!(f, "; known names: {}", known.join(", ")),
                }
            }
            NoFigure::Table { path, known } if known.is_empty() => {
                write!(f, "`{path}` is not a figure, and contains none")
            }
            NoFigure::Table { path, known } => {
                write!(f, "`{path}` is not a figure; it contains {}", known.join(", "))
            }
        }
    }
}

/// Returns the figure at `path` of a report. An element of a list is selected by its name, or by its index from 0. The
/// name of the list may be omitted before this value.
pub(crate) fn find(report: &Json, path: &[String]) -> Result<Figure, NoFigure> {
    let mut at = report;
    for (depth, name) in path.iter().enumerate() {
        at = below(at, name).ok_or_else(|| NoFigure::Missing {
            name: name.clone(),
            of: path[..depth].join("."),
            known: there(at),
        })?;
    }
    Value::of_json(at).ok_or_else(|| NoFigure::Table { path: path.join("."), known: there(at) })
}

fn below<'j>(at: &'j Json, name: &str) -> Option<&'j Json> {
    match at {
        Json::Object(map) => map
            .get(name)
            .or_else(|| map.values().filter_map(Json::as_array).find_map(|list| called(list, name))),
        Json::Array(list) => called(list, name).or_else(|| list.get(name.parse::<usize>().ok()?)),
        _ => None,
    }
}

fn called<'j>(list: &'j [Json], name: &str) -> Option<&'j Json> {
    let is_it = |one: &&Json| {
        own_name(one) == Some(name) || one["vc"].as_u64().is_some_and(|vc| vc.to_string() == name)
    };
    list.iter().find(is_it)
}

fn own_name(one: &Json) -> Option<&str> {
    NAMES.iter().find_map(|key| one.get(key)?.as_str())
}

/// Returns the names below `at`.
fn there(at: &Json) -> Vec<String> {
    let names = |list: &[Json]| -> Vec<String> {
        let name = |(n, one): (usize, &Json)| own_name(one).map_or(n.to_string(), str::to_owned);
        list.iter().enumerate().map(name).collect()
    };
    match at {
        Json::Object(map) => {
            let named = |v: &Json| {
                Some(names(v.as_array()?)).filter(|all| all.iter().any(|n| n.parse::<u64>().is_err()))
            };
            let mut all: Vec<String> = map.keys().cloned().collect();
            for name in map.values().filter_map(named).flatten() {
                if !all.contains(&name) {
                    all.push(name);
                }
            }
            all
        }
        Json::Array(list) => names(list),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report() -> Json {
        json!({
            "tlp_hops": 12, "outcome": "finished",
            "links": [{"slot": "nic", "gen": 3, "directions": [
                {"direction": "downstream", "payload_gbps": 1.5, "virtual_channels": [{"vc": 3, "tlps": 8}]},
                {"direction": "upstream", "payload_gbps": 2.5}],
                "transactions": [{"kind": "dma_read", "latency_ns_median": 500.25}]}],
            "devices": [{"slot": "nic", "model": "m", "counters": {"a b": true}}]
        })
    }

    #[test]
    fn finds_figures_by_name() {
        for (path, value) in [
            ("tlp_hops", Value::Integer(12)),
            ("outcome", Value::Text("finished".into())),
            ("links.nic.gen", Value::Integer(3)),
            ("links.0.gen", Value::Integer(3)),
            ("links.nic.upstream.payload_gbps", Value::Float(2.5)),
            ("links.nic.directions.downstream.payload_gbps", Value::Float(1.5)),
            ("links.nic.downstream.virtual_channels.3.tlps", Value::Integer(8)),
            ("links.nic.transactions.dma_read.latency_ns_median", Value::Float(500.25)),
            ("devices.nic.counters.\"a b\"", Value::Boolean(true)),
        ] {
            let keys = plug::file::key_path(path).unwrap();
            assert_eq!(find(&report(), &keys), Ok(value), "{path}");
        }
    }

    #[test]
    fn errors_list_the_known_names() {
        for (path, why) in [
            ("hops", "no `hops` in the report; known names: devices, links, outcome, tlp_hops, nic"),
            ("links.disk.gen", "no `disk` in `links`; known names: nic"),
            (
                "links.nic.transactions.dma_write.requests",
                "no `dma_write` in `links.nic.transactions`; known names: dma_read",
            ),
            (
                "links.nic.sideways",
                "no `sideways` in `links.nic`; known names: directions, gen, slot, transactions, downstream, upstream, dma_read",
            ),
            ("tlp_hops.x", "no `x` in `tlp_hops`, which is empty"),
            ("devices.nic.counters", "`devices.nic.counters` is not a figure; it contains a b"),
        ] {
            let keys = plug::file::key_path(path).unwrap();
            assert_eq!(find(&report(), &keys).unwrap_err().to_string(), *why, "{path}");
        }
    }

    #[test]
    fn misses_are_relative_to_the_bound() {
        let bounded = |least, most| Metric {
            name: "a".into(),
            place: 0..0,
            from: From::Report(Vec::new()),
            aim: None,
            at_least: least,
            at_most: most,
            default: None,
            unit: String::new(),
        };
        assert_eq!(bounded(None, None).miss(None), 0.0);
        assert_eq!(bounded(Some(95.0), None).miss(Some(95.0)), 0.0);
        assert_eq!(bounded(Some(100.0), None).miss(Some(75.0)), 0.25);
        assert_eq!(bounded(None, Some(10.0)).miss(Some(15.0)), 0.5);
        assert_eq!(bounded(None, Some(10.0)).miss(None), f64::INFINITY);
    }
}
