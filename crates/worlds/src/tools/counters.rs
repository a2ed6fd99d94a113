// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters as JSON objects that keep the order of the rows.

use serde::{Serialize, Serializer};
use session::report::RefusalReport;
use tlp::rules::Refusal;

/// Counters by their names.
pub struct Rows(Vec<(&'static str, u64)>);

impl Rows {
    /// Returns these rows.
    pub fn new(rows: impl Iterator<Item = (&'static str, u64)>) -> Rows {
        Rows(rows.collect())
    }

    /// Keeps the rows whose name is in `names`, in their order.
    pub fn of(names: &[&str], rows: impl Iterator<Item = (&'static str, u64)>) -> Rows {
        Rows::new(rows.filter(|(name, _)| names.contains(name)))
    }

    /// All rows.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().copied()
    }

    /// Returns the count of this name; 0 if there is no such row.
    pub fn get(&self, name: &str) -> u64 {
        self.iter().find(|row| row.0 == name).map_or(0, |row| row.1)
    }
}

impl Serialize for Rows {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// Reasons why a requester refused completions or gave up requests.
pub fn refusals(refusals: &[Refusal]) -> Vec<RefusalReport> {
    RefusalReport::all("nettlp requester", refusals)
}
