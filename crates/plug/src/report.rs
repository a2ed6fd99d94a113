// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report of a device in addition to its packets, as names and values. Names contain the units.

use serde::Serialize;
use serde_json::{Map, Value};
use tlp::{Duration, Time};

/// The report of a device or its driver, which fill it through a [`Shared`](crate::Shared).
pub trait Report: 'static {
    /// Returns the report at `now`. Rates of unfinished transfers are computed up to then.
    fn shown(&self, now: Time) -> Shown;

    /// Returns transfers done and transfers in total, if known, for a progress display.
    fn transfers(&self) -> Option<(u64, u64)> {
        None
    }

    /// Returns the reason if the device can no longer work. The run has then failed.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Returns the findings on the device's behaviour after the first `told`, one line each.
    fn findings(&self, _told: usize) -> Vec<String> {
        Vec::new()
    }

    /// Returns how often the device has broken a rule, as a text; `None` if never. The number in it may be larger than the
    /// number of findings.
    fn wrong(&self) -> Option<String> {
        None
    }

    /// Returns the reason if the run has failed although the device has finished.
    fn verdict(&self) -> Option<String> {
        None
    }
}

/// Names and values of a report.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Shown(Map<String, Value>);

impl Shown {
    /// Returns an empty report.
    pub fn new() -> Shown {
        Shown::default()
    }

    /// Returns the fields of `value`, a struct or a map. If JSON cannot represent it, the report has the error
    /// as `report_error`.
    pub fn of(value: &impl Serialize) -> Shown {
        match serde_json::to_value(value) {
            Ok(Value::Object(map)) => Shown(map),
            Ok(other) => Shown::new().with("report_error", format!("{other}, expected structs and maps")),
            Err(error) => Shown::new().with("report_error", error.to_string()),
        }
    }

    /// Adds `value` as `name`.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Value>) -> Shown {
        self.put(name, value);
        self
    }

    /// Sets `name` to `value`.
    pub fn put(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.0.insert(name.into(), value.into());
    }

    /// Adds the `counts` that are not zero.
    #[must_use]
    pub fn with_counts<'a>(mut self, counts: impl IntoIterator<Item = (&'a str, u64)>) -> Shown {
        counts.into_iter().filter(|(_, n)| *n > 0).for_each(|(name, n)| self.put(name, n));
        self
    }

    /// Returns names and values in alphabetical order.
    #[must_use]
    pub fn into_map(self) -> Map<String, Value> {
        self.0
    }
}

/// Returns the rate of `bytes` in `time`, in Gb/s; zero for zero time.
pub fn gbps(bytes: u64, time: Duration) -> f64 {
    match time.as_ps() {
        0 => 0.0,
        ps => bytes as f64 * 8_000.0 / ps as f64,
    }
}

/// Returns a percentile of sorted samples by nearest rank: the smallest sample that at least `per_mille` thousandths of the
/// samples do not exceed. `None` without samples.
pub fn nearest_rank<T: Copy>(sorted: &[T], per_mille: u32) -> Option<T> {
    let last = sorted.len().checked_sub(1)?;
    let rank = (sorted.len() as u64 * u64::from(per_mille)).div_ceil(1_000);
    Some(sorted[(rank as usize).saturating_sub(1).min(last)])
}

/// Converts the duration to nanoseconds.
pub fn ns(duration: Duration) -> f64 {
    duration.as_ps() as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_rank_is_a_sample() {
        let samples = [10, 20, 30, 40];
        let at = |per_mille| nearest_rank(&samples, per_mille);
        assert_eq!([0, 1, 250, 251, 500, 501].map(at), [10, 10, 10, 20, 20, 30].map(Some));
        assert_eq!([750, 751, 1_000, 2_000].map(at), [30, 40, 40, 40].map(Some));
        assert_eq!((nearest_rank(&[7], 1), nearest_rank::<u64>(&[], 500)), (Some(7), None));
    }
}
