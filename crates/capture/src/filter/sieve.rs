// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Applies a filter to the records of a capture, and keeps the state from earlier records that the filter needs.

use super::Filter;
use crate::decode::Record;
use crate::transactions::{Outcome, Tracker};

/// Decides for each record of a capture whether a filter matches it. Records must come in order.
#[derive(Clone, Debug, Default)]
pub struct Sieve {
    filter: Option<Filter>,
    tracker: Option<Box<Tracker>>,
}

impl Sieve {
    /// Creates a sieve for a filter; `None` keeps all records. Tracks transactions only if the filter depends on them.
    pub fn new(filter: Option<Filter>) -> Sieve {
        let tracker = filter.as_ref().filter(|filter| filter.asks_for_outcome()).map(|_| Box::default());
        Sieve { filter, tracker }
    }

    /// Returns true if the filter matches the next record.
    pub fn keeps(&mut self, record: &Record<'_>) -> bool {
        let Some(filter) = &self.filter else { return true };
        let outcome = self.tracker.as_mut().map_or_else(Outcome::default, |tracker| {
            let outcome = tracker.see(record, 0);
            while tracker.next_ended().is_some() {}
            outcome
        });
        filter.holds(record, &outcome)
    }
}
