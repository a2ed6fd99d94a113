// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts the records of a file that could not be read.

use crate::decode::{Kind, Record};
use crate::render::{self, counted};

/// Records that could not be read.
#[derive(Default)]
pub struct BadRecords {
    count: u64,
    /// Line of the first such record.
    first: String,
}

impl BadRecords {
    /// Counts `record` if it could not be read.
    pub fn see(&mut self, record: &Record<'_>) {
        if matches!(record.kind, Kind::Bad(_)) {
            self.count += 1;
            if self.count == 1 {
                render::line(record, &mut self.first);
            }
        }
    }

    /// Returns a line about these records, if there are any.
    pub fn line(&self) -> Option<String> {
        let (records, first) = (counted(self.count, "record"), self.first.trim());
        (self.count > 0).then(|| format!("{records} could not be read; first: {first}"))
    }
}
