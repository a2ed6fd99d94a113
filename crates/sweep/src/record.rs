// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Points and what became of them. Never runs one.

use crate::value::Value;
use plug::profile::Basis;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A point: its number, and which of the sample's configurations it runs with which round's budget. All three follow from the number
/// alone but where halving has chosen the configuration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(from = "(u64, u64, u32)", into = "(u64, u64, u32)")]
pub struct Point {
    /// Its number, from 0: its row in the results.
    pub number: u64,
    /// The configuration: the point of the first round with the same settings.
    pub config: u64,
    /// The round, from 0.
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

/// How the run of a point has ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Its host's programs are done.
    Finished,
    /// The lab's `limit_us` came first.
    TimeLimit,
    /// The sweep's `max_events` came first.
    EventLimit,
    /// A program or device of it has failed.
    Failed,
    /// Nothing more could happen, but somebody still waited.
    NoProgress,
    /// The lab with these settings is none.
    Refused,
    /// The process that ran it has ended, each time that it was tried.
    Crashed,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Outcome; 7] = [
        Outcome::Finished,
        Outcome::TimeLimit,
        Outcome::EventLimit,
        Outcome::Failed,
        Outcome::NoProgress,
        Outcome::Refused,
        Outcome::Crashed,
    ];

    /// Whether its metrics are those of a whole run: it has finished, or its time was up.
    pub fn is_whole(self) -> bool {
        matches!(self, Outcome::Finished | Outcome::TimeLimit)
    }

    /// Its name, as in the results.
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

/// What became of a point. The same point of the same sweep has the same record, whoever runs it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The point's number.
    pub point: u64,
    /// How it has ended.
    pub outcome: Outcome,
    /// The metrics, in the order of the sweep; `None` where a run has none, and none at all where nothing has run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Option<Value>>,
    /// Why it did not finish, or what of its metrics is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How the figures of the profiles are known that its metrics rest on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
    /// Whether its run has warnings: [`Run::warnings`](crate::Run::warnings) has their text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_warnings: bool,
}

impl Record {
    /// A point that has nothing but an error.
    pub fn without_run(point: u64, outcome: Outcome, error: impl Into<String>) -> Record {
        let error: String = error.into();
        let error = Some(plug::file::brief(&error).into_owned());
        Record { point, outcome, metrics: Vec::new(), error, basis: None, has_warnings: false }
    }

    /// Metric number `n`, where it is a number.
    pub fn number(&self, n: usize) -> Option<f64> {
        self.metrics.get(n)?.as_ref()?.number().filter(|x| x.is_finite())
    }
}
