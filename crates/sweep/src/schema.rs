// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sweep file, key by key. The reference page in `docs/` is generated from these types and their comments.

use schemars::JsonSchema;
use serde::de::{Deserializer, Error, IgnoredAny, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;
use toml::Spanned;

/// A sweep: a lab, ranges of its settings, and metrics.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// Version of the file's format: 1.
    #[schemars(with = "u32", range(min = 1, max = 1))]
    pub version: Spanned<u32>,
    /// The lab file, relative to this one.
    #[schemars(with = "String")]
    pub lab: Spanned<String>,
    /// Read by [`axis`](crate::axis). This and the next two keys are fields so that errors list them as known keys.
    #[serde(default)]
    #[schemars(skip)]
    pub over: IgnoredAny,
    /// As `over`.
    #[serde(default)]
    #[schemars(skip)]
    pub together: IgnoredAny,
    /// Read by [`metric`](crate::metric).
    #[serde(default)]
    #[schemars(skip)]
    pub metrics: IgnoredAny,
    /// Events after which the run of a point ends with the outcome `event-limit`. Without this limit, only the lab's
    /// `limit_us` ends a run.
    #[schemars(range(min = 1))]
    pub max_events: Option<u64>,
    /// Points of the ranges to run.
    #[serde(default)]
    pub sample: Sample,
    /// Rounds with fewer and fewer points and more work each, selected by the aim. Without this table, each point is
    /// run once.
    #[schemars(with = "Option<Halving>")]
    pub halving: Option<Spanned<Halving>>,
}

/// Points of the ranges to run.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// Method by which the points are chosen.
    #[serde(default)]
    #[schemars(with = "Method")]
    pub method: Option<Spanned<Method>>,
    /// Number of points; a grid has all points.
    #[schemars(with = "Option<u64>", range(min = 1, max = 1_000_000))]
    pub points: Option<Spanned<u64>>,
    /// Seed of random points. For Sobol points, the seed of a digital shift. Without a seed, Sobol points begin at the
    /// first value of every range.
    #[schemars(with = "Option<u64>")]
    pub seed: Option<Spanned<u64>>,
}

/// Method of choosing points.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Every combination of values. The last range in the file changes first.
    #[default]
    Grid,
    /// The points are drawn independently; all values of a range are equally likely.
    Random,
    /// The Sobol sequence (Joe and Kuo 2008): points that fill the ranges evenly, for any number of points.
    Sobol,
}

/// Successive halving: all points run with the smallest budget. Then the best of them run with larger budgets, up to
/// the largest.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Halving {
    /// The key of the lab that scales the work of a run, such as a number of transfers. Each round sets this key.
    #[schemars(with = "String")]
    pub budget: Spanned<String>,
    /// Its value in the first round.
    #[schemars(range(min = 1, max = 1_000_000_000_000_u64))]
    pub least: u64,
    /// Its value in the last round.
    #[schemars(range(min = 1, max = 1_000_000_000_000_u64))]
    pub most: u64,
    /// 1 in `eta` points continues in the next round, with `eta` times the budget.
    #[serde(default = "eta")]
    #[schemars(range(min = 2, max = 16))]
    pub eta: u32,
}

const fn eta() -> u32 {
    3
}

/// A range of numbers, instead of a list of values. With `step` or `points`, the range has these values, in order.
/// Without `step` and `points`, random and Sobol points can have any value in the range.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The first value. If both ends are integers, all values are integers: the nearest integers, each once.
    #[schemars(with = "f64")]
    pub from: Number,
    /// The last value.
    #[schemars(with = "f64")]
    pub to: Number,
    /// Distance between two values. The last value is not above `to`.
    #[schemars(with = "Option<f64>")]
    pub step: Option<Number>,
    /// Number of values, including `from` and `to`.
    #[schemars(range(min = 2, max = 65_536))]
    pub points: Option<u64>,
    /// Spacing of the values.
    #[serde(default)]
    pub scale: Scale,
}

/// Spacing of the values of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Equal differences.
    #[default]
    Linear,
    /// Equal ratios.
    Log,
}

/// A metric: a figure of the run's report, or an expression. If the table has only a path, the path can replace it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// Path in the report that `riser run --json` prints: names with dots between.
    pub path: Option<String>,
    /// Expression with `+ - * /`, parentheses, `min(a, b)`, `max(a, b)`, `log2(a)`, `exp2(a)`, numbers, earlier
    /// metrics, and keys of `[over]` (between quotes if they are not plain names). The metric has no value if one of
    /// these has none, or if the result is not a finite number.
    pub expr: Option<String>,
    /// Whether larger or smaller values are better.
    pub aim: Option<Aim>,
    /// Lower bound: a point is feasible only if the metric is not below it.
    pub at_least: Option<f64>,
    /// Upper bound: a point is feasible only if the metric is not above it.
    pub at_most: Option<f64>,
    /// Value if the report has no such figure, for example for a kind of transaction that did not occur. Without this
    /// default, such a point has an error.
    #[schemars(with = "Option<f64>")]
    pub default: Option<Number>,
    /// Unit, for tables and pages.
    pub unit: Option<String>,
}

/// Direction of a metric's better values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Aim {
    /// Larger values are better.
    Maximize,
    /// Smaller values are better.
    Minimize,
}

/// A number of the file. Integers stay integers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Float(f64),
}

impl Number {
    /// Returns the number as a float.
    pub fn float(self) -> f64 {
        match self {
            Number::Integer(n) => n as f64,
            Number::Float(x) => x,
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Number, D::Error> {
        struct AnyNumber;
        impl Visitor<'_> for AnyNumber {
            type Value = Number;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }
            fn visit_i64<E: Error>(self, n: i64) -> Result<Number, E> {
                Ok(Number::Integer(n))
            }
            fn visit_u64<E: Error>(self, n: u64) -> Result<Number, E> {
                i64::try_from(n).map(Number::Integer).map_err(E::custom)
            }
            fn visit_f64<E: Error>(self, x: f64) -> Result<Number, E> {
                Ok(Number::Float(x))
            }
        }
        from.deserialize_any(AnyNumber)
    }
}
