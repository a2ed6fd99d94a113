// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters as JSON objects that keep the order of the rows.

use nettlp::requester;
use serde::{Serialize, Serializer};
use session::report::RefusalReport;
use std::collections::BTreeMap;
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

/// Counters of a requester.
#[derive(Serialize)]
pub struct Counters {
    /// TLPs of read requests.
    pub read_tlps: u64,
    /// TLPs of write requests.
    pub write_tlps: u64,
    /// Requests that were sent again.
    pub retried: u64,
    /// Requests without an answer in time.
    pub timed_out: u64,
    /// Completions that arrived after the timeout.
    pub late: u64,
    /// Completions that arrived twice.
    pub copies: u64,
    /// Strays by kind, without kinds with count 0.
    pub strays: BTreeMap<&'static str, u64>,
}

impl From<&requester::Counters> for Counters {
    fn from(counters: &requester::Counters) -> Counters {
        Counters {
            read_tlps: counters.read_tlps,
            write_tlps: counters.write_tlps,
            retried: counters.retried,
            timed_out: counters.timed_out,
            late: counters.late,
            copies: counters.copies,
            strays: counters.strays.rows().collect(),
        }
    }
}
