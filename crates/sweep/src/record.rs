// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Points and their records.

use crate::value::Value;
use plug::profile::Basis;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A point: its number, its configuration in the sample, and the round whose budget it has. The number alone determines
/// all three, except the configuration that halving chose.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(from = "(u64, u64, u32)", into = "(u64, u64, u32)")]
pub struct Point {
    /// Number, from 0: the row in the results.
    pub number: u64,
    /// The configuration: number of the point of the first round with the same settings.
    pub config: u64,
    /// Round, from 0.
    pub round: u32,
}

impl From<(u64, u64, u32)> for Point {
    fn from((number, config, round): (u64, u64, u32)) -> Point {
        Point { number, config, round }
    }
}

impl From<Point> for (u64, u64, u32) {
    fn from(point: Point) -> (u64, u64, u32) {
        (point.number, point.config, point.round)
    }
}

/// How the run of a point ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The programs of the lab's host are done.
    Finished,
    /// The run reached the lab's `limit_us`.
    TimeLimit,
    /// The run reached the sweep's `max_events`.
    EventLimit,
    /// A program or device failed.
    Failed,
    /// No events were left, but a program or device still waited.
    NoProgress,
    /// The lab is invalid with these settings.
    Refused,
    /// The process that ran the point died every time.
    Crashed,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Outcome; 7] = [
        Outcome::Finished,
        Outcome::TimeLimit,
        Outcome::EventLimit,
        Outcome::Failed,
        Outcome::NoProgress,
        Outcome::Refused,
        Outcome::Crashed,
    ];

    /// Returns true if the metrics are those of a whole run: it finished, or reached its time limit.
    pub fn is_whole(self) -> bool {
        matches!(self, Outcome::Finished | Outcome::TimeLimit)
    }

    /// Returns the name used in the results.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Finished => "finished",
            Outcome::TimeLimit => "time-limit",
            Outcome::EventLimit => "event-limit",
            Outcome::Failed => "failed",
            Outcome::NoProgress => "no-progress",
            Outcome::Refused => "refused",
            Outcome::Crashed => "crashed",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Result of a point. The same point of the same sweep has the same record on any worker.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Number of the point.
    pub point: u64,
    /// How its run ended.
    pub outcome: Outcome,
    /// The metrics, in the order of the sweep; `None` for missing metrics. Empty if nothing was run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Option<Value>>,
    /// The reason why the run did not finish, or the missing metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Weakest basis of the profile figures that its metrics depend on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
    /// True if its run has warnings: [`Run::warnings`](crate::Run::warnings) returns them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_warnings: bool,
}

impl Record {
    /// Returns a record with an error only.
    pub fn without_run(point: u64, outcome: Outcome, error: impl Into<String>) -> Record {
        let error: String = error.into();
        let error = Some(plug::file::brief(&error).into_owned());
        Record { point, outcome, metrics: Vec::new(), error, basis: None, has_warnings: false }
    }

    /// Returns the value of metric `n` if it is a number.
    pub fn number(&self, n: usize) -> Option<f64> {
        self.metrics.get(n)?.as_ref()?.number().filter(|x| x.is_finite())
    }
}
