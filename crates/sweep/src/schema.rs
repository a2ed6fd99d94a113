// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sweep file, key by key. The reference page in `docs/` is generated from these types and their comments.

use plug::file::Schema as FileSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error, IgnoredAny, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::fmt;
use toml::Spanned;

/// Most points of a sweep.
pub(crate) const MAX_POINTS: u64 = 1_000_000;
/// Most values of an axis.
pub(crate) const MAX_VALUES: usize = 65_536;
/// Keys that only a range has.
pub(crate) const RANGE_KEYS: [&str; 4] = ["from", "to", "step", "points"];
/// Most metrics.
pub(crate) const MAX_METRICS: usize = 256;
/// Columns of the results that are not metrics.
pub(crate) const RESERVED: [&str; 7] = ["point", "round", "config", "feasible", "basis", "outcome", "error"];

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
    /// Keys of the lab, each with a list of values or a range: the points are their combinations.
    // Read by `axis`. This and the next two keys are fields so that errors list them as known keys.
    #[serde(default)]
    #[schemars(with = "Over")]
    pub over: IgnoredAny,
    /// Keys of the lab that change together, each with equally many values.
    #[serde(default)]
    #[schemars(with = "Vec<Over>")]
    pub together: IgnoredAny,
    /// Figures of the run, each with a path into its report, or a table.
    #[serde(default)]
    #[schemars(with = "Metrics")]
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

/// Keys of the lab with their values. A table that is not a range has keys of a longer path.
pub(crate) struct Over;

impl JsonSchema for Over {
    fn schema_name() -> Cow<'static, str> {
        "Over".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (range, over) = (generator.subschema_for::<Range>(), generator.subschema_for::<Over>());
        let has_key = |key: &str| json!({ "required": [key] });
        json_schema!({
            "type": "object",
            "additionalProperties": {
                "if": { "type": "array" },
                "then": { "minItems": 1, "maxItems": MAX_VALUES, "items": generator.subschema_for::<Setting>() },
                "else": { "if": { "anyOf": RANGE_KEYS.map(has_key) }, "then": range, "else": over },
            },
        })
    }
}

/// A value of a key of the lab.
pub(crate) struct Setting;

impl JsonSchema for Setting {
    fn schema_name() -> Cow<'static, str> {
        "Setting".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["boolean", "number", "string", "array"],
            "items": generator.subschema_for::<Setting>(),
        })
    }
}

/// Metrics by their names.
pub(crate) struct Metrics;

impl JsonSchema for Metrics {
    fn schema_name() -> Cow<'static, str> {
        "Metrics".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut metric = Metric::json_schema(generator);
        // Either a path, or a table.
        metric.insert("type".to_owned(), json!(["string", "object"]));
        json_schema!({
            "type": "object",
            "minProperties": 1,
            "maxProperties": MAX_METRICS,
            "propertyNames": { "pattern": "^[A-Za-z0-9_-]{1,64}$", "not": { "enum": RESERVED } },
            "additionalProperties": metric,
        })
    }
}

/// Returns the JSON Schema of sweep files.
pub fn json_schema() -> Value {
    let mut schema = FileSchema::of::<Head>().json("riser sweep");
    schema["required"] = json!(["version", "lab", "metrics"]);
    schema["anyOf"] = json!([{ "required": ["over"] }, { "required": ["together"] }]);
    schema
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
