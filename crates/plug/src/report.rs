// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report of a device besides its packets, by name. Units stand in the names.

use serde::Serialize;
use serde_json::{Map, Value};
use tlp::{Duration, Time};

/// The report of a device or its driver. It lies in a [`Shared`](crate::Shared), which they fill.
pub trait Report: 'static {
    /// What it shows at `now`: rates of what has not ended are taken up to then.
    fn shown(&self, now: Time) -> Shown;

    /// Transfers done, and transfers to do in all, if known: for progress.
    fn transfers(&self) -> Option<(u64, u64)> {
        None
    }

    /// Why the device can do nothing any more, if it cannot: the run has failed then, whatever its end.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Returns the findings on the device's behaviour after the first `told`, a line each.
    fn findings(&self, _told: usize) -> Vec<String> {
        Vec::new()
    }

    /// Returns how much the device has done wrong, if anything. It may be more than the findings.
    fn wrong(&self) -> Option<String> {
        None
    }

    /// Why the run has failed though the device went on to its end.
    fn verdict(&self) -> Option<String> {
        None
    }
}

/// Names and values of a report.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Shown(Map<String, Value>);

impl Shown {
    /// An empty report.
    pub fn new() -> Shown {
        Shown::default()
    }

    /// The fields of `value`, a struct or a map. If it cannot be written as JSON, the error is shown instead, as
    /// `report_error`.
    pub fn of(value: &impl Serialize) -> Shown {
        match serde_json::to_value(value) {
            Ok(Value::Object(map)) => Shown(map),
            Ok(other) => Shown::new().with("report_error", format!("{other}: legal are structs and maps")),
            Err(error) => Shown::new().with("report_error", error.to_string()),
        }
    }

    /// With `value` under `name`.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Value>) -> Shown {
        self.put(name, value);
        self
    }

    /// Puts `value` under `name`.
    pub fn put(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.0.insert(name.into(), value.into());
    }

    /// With the `counts` that are not zero.
    #[must_use]
    pub fn with_counts<'a>(mut self, counts: impl IntoIterator<Item = (&'a str, u64)>) -> Shown {
        counts.into_iter().filter(|(_, n)| *n > 0).for_each(|(name, n)| self.put(name, n));
        self
    }

    /// Names and values, in the order of names.
    #[must_use]
    pub fn into_map(self) -> Map<String, Value> {
        self.0
    }
}

/// The rate of `bytes` in `time`, in Gb/s; zero in no time.
pub fn gbps(bytes: u64, time: Duration) -> f64 {
    match time.as_ps() {
        0 => 0.0,
        ps => bytes as f64 * 8_000.0 / ps as f64,
    }
}

/// A count with its noun: `1 row`, `2 rows`.
pub fn counted(count: impl TryInto<u64>, noun: &str) -> String {
    match count.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

/// The duration in nanoseconds.
pub fn ns(duration: Duration) -> f64 {
    duration.as_ps() as f64 / 1_000.0
}
