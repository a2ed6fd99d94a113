// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A filter over the records of a capture, with what it needs to know of the records before. Never shows anything.

use super::Filter;
use crate::decode::Record;
use crate::transactions::{Outcome, Tracker};

/// Says of each record of a capture, in their order, whether a filter holds for it.
#[derive(Clone, Debug, Default)]
pub struct Sieve {
    filter: Option<Filter>,
    tracker: Option<Box<Tracker>>,
}

impl Sieve {
    /// With a filter, or none, which holds for all. Transactions are followed only where the filter asks for them.
    pub fn new(filter: Option<Filter>) -> Sieve {
        let tracker = filter.as_ref().filter(|filter| filter.asks_for_outcome()).map(|_| Box::default());
        Sieve { filter, tracker }
    }

    /// Whether the filter holds for the next record.
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
