// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sweep file, key by key: the reference page in `docs/` is generated from these types and their comments.

use schemars::JsonSchema;
use serde::de::{Deserializer, Error, IgnoredAny, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;
use toml::Spanned;

/// A sweep: a lab over ranges of its settings, and what is looked at.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// Version of the file's format: 1.
    #[schemars(with = "u32", range(min = 1, max = 1))]
    pub version: Spanned<u32>,
    /// The lab file, relative to this one.
    #[schemars(with = "String")]
    pub lab: Spanned<String>,
    /// Read by [`axis`](crate::axis). Errors list it as a legal key; so are the next two.
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
    /// Events after which the run of a point ends, with the outcome `event-limit`. Without it, only the lab's `limit_us` does.
    #[schemars(range(min = 1))]
    pub max_events: Option<u64>,
    /// Which points of the ranges are run.
    #[serde(default)]
    pub sample: Sample,
    /// Rounds with ever fewer points and ever more work each, toward the aim; without it, each point is run once.
    #[schemars(with = "Option<Halving>")]
    pub halving: Option<Spanned<Halving>>,
}

/// Which points of the ranges are run.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// How they are chosen.
    #[serde(default)]
    #[schemars(with = "Method")]
    pub method: Option<Spanned<Method>>,
    /// How many; of a grid, all.
    #[schemars(with = "Option<u64>", range(min = 1, max = 1_000_000))]
    pub points: Option<Spanned<u64>>,
    /// Seed of random points; of Sobol points, that of a digital shift, without which they begin at the first value of every range.
    #[schemars(with = "Option<u64>")]
    pub seed: Option<Spanned<u64>>,
}

/// How points are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Each value of each range with each of the others; the last range in the file changes first.
    #[default]
    Grid,
    /// Drawn independently, each value of a range as likely as another.
    Random,
    /// The Sobol sequence (Joe and Kuo 2008): points that fill the ranges evenly, however many are taken.
    Sobol,
}

/// Successive halving: all points with the least budget, then the best of these with more, up to the most.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Halving {
    /// The key of the lab that scales the work of a run, such as a number of transfers; each round sets it.
    #[schemars(with = "String")]
    pub budget: Spanned<String>,
    /// What it is in the first round.
    #[schemars(range(min = 1, max = 1_000_000_000_000_u64))]
    pub least: u64,
    /// What it is in the last round.
    #[schemars(range(min = 1, max = 1_000_000_000_000_u64))]
    pub most: u64,
    /// One of so many points goes on to the next round, with so many times the budget.
    #[serde(default = "eta")]
    #[schemars(range(min = 2, max = 16))]
    pub eta: u32,
}

const fn eta() -> u32 {
    3
}

/// A range of numbers, in place of a list of values. With `step` or `points`, values in order; without either, all between, of which
/// random and Sobol points are.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The first value. Where both ends are integers, so are all values: the nearest ones, each once.
    #[schemars(with = "f64")]
    pub from: Number,
    /// The last value.
    #[schemars(with = "f64")]
    pub to: Number,
    /// From one value to the next; the last one is not above `to`.
    #[schemars(with = "Option<f64>")]
    pub step: Option<Number>,
    /// How many values, `from` and `to` among them.
    #[schemars(range(min = 2, max = 65_536))]
    pub points: Option<u64>,
    /// How they are spread.
    #[serde(default)]
    pub scale: Scale,
}

/// How the values of a range are spread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Evenly.
    #[default]
    Linear,
    /// Each the same times the one before.
    Log,
}

/// A metric: a figure of the run's report, or one that is computed of others. Where it is only a path, the path alone may stand in
/// place of the table.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// Where it stands in the report that `riser run --json` prints: names with dots between.
    pub path: Option<String>,
    /// What it is computed by: `+ - * /`, parentheses, `min(a, b)`, `max(a, b)`, `log2(a)`, `exp2(a)`, numbers, metrics that
    /// stand above, and keys of `[over]` (between quotes where they are no plain names). It has no value where one of these has none,
    /// and where it is no finite number.
    pub expr: Option<String>,
    /// Where the aim is: what is best.
    pub aim: Option<Aim>,
    /// A point is feasible where the metric is no less.
    pub at_least: Option<f64>,
    /// A point is feasible where the metric is no more.
    pub at_most: Option<f64>,
    /// What it is where the report has no such figure, as of a kind of transaction that there were none of. Without it, that is an
    /// error of the point.
    #[schemars(with = "Option<f64>")]
    pub default: Option<Number>,
    /// Its unit, for tables and pages.
    pub unit: Option<String>,
}

/// Which values of a metric are better.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Aim {
    /// Greater ones.
    Maximize,
    /// Smaller ones.
    Minimize,
}

/// A number of the file: an integer stays one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    /// A whole number.
    Integer(i64),
    /// A number.
    Float(f64),
}

impl Number {
    /// As a float.
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
