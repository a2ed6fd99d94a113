// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables of the credits that TLPs consume, and of unreadable records.

use super::Clock;
use super::columns::{Batch, Flags, Names, Numbers, Texts, batch};
use super::stream::Rows;
use arrow_array::types::{Int64Type, UInt8Type, UInt16Type, UInt64Type};
use capture::credits::{Available, Consumption, Ledgers};
use capture::render::class_name;
use capture::{Bad, Kind, Record, Sieve};

batch! {
    /// The columns of credits.
    CreditColumns {
        number: Numbers<UInt64Type>,
        time_ps: Numbers<Int64Type>,
        link: Numbers<UInt16Type>,
        direction: Names<&'static str>,
        r#type: Names<&'static str>,
        class: Names<&'static str>,
        vc: Numbers<UInt8Type>,
        header_before: Numbers<Int64Type>,
        header_after: Numbers<Int64Type>,
        header_infinite: Flags,
        data_before: Numbers<Int64Type>,
        data_after: Numbers<Int64Type>,
        data_infinite: Flags,
    }
}

/// The TLPs for which a filter holds, with their credits.
pub(super) struct Credits {
    sieve: Sieve,
    ledgers: Ledgers,
    clock: Clock,
    columns: CreditColumns,
}

impl Credits {
    pub(super) fn new(sieve: Sieve, ledgers: Ledgers, clock: Clock) -> Credits {
        Credits { sieve, ledgers, clock, columns: CreditColumns::default() }
    }
}

impl Rows for Credits {
    type Batch = CreditColumns;

    fn see(&mut self, record: &Record<'_>) {
        let took = self.ledgers.see(record);
        if let (true, Some(tlp)) = (self.sieve.keeps(record), record.tlp()) {
            let row = self.columns.rows;
            self.columns.number.put(row, record.number);
            self.columns.time_ps.put(row, self.clock.ps(record.timestamp));
            self.columns.link.put(row, record.interface.map(|interface| interface.link));
            let direction = record.interface.and_then(|interface| interface.direction);
            self.columns.direction.put(row, direction.map(|way| way.name()));
            self.columns.r#type.put(row, Some(tlp.repr.format().name));
            if let Some(took) = &took {
                self.columns.took(took);
            }
            self.columns.rows += 1;
        }
    }

    fn settle(&mut self) -> usize {
        self.columns.rows()
    }

    fn batch(&mut self) -> &mut CreditColumns {
        &mut self.columns
    }
}

impl CreditColumns {
    fn took(&mut self, took: &Consumption) {
        let count = |available: Available| match available {
            Available::Credits(credits) => Some(credits),
            Available::Infinite => None,
        };
        let row = self.rows;
        self.class.put(row, Some(class_name(took.ledger.class)));
        self.vc.put(row, took.ledger.vc);
        self.header_before.put(row, count(took.header_before));
        self.header_after.put(row, count(took.header_after));
        self.header_infinite.put(row, took.header_after == Available::Infinite);
        self.data_before.put(row, count(took.data_before));
        self.data_after.put(row, count(took.data_after));
        self.data_infinite.put(row, took.data_after == Available::Infinite);
    }
}

batch! {
    /// The columns of unreadable records.
    ErrorColumns {
        number: Numbers<UInt64Type>,
        time_ps: Numbers<Int64Type>,
        offset: Numbers<UInt64Type>,
        layer: Names<&'static str>,
        error: Names<&'static str>,
        reason: Texts,
    }
}

/// Unreadable records.
pub(super) struct Errors {
    sieve: Sieve,
    clock: Clock,
    columns: ErrorColumns,
}

impl Errors {
    pub(super) fn new(sieve: Sieve, clock: Clock) -> Errors {
        Errors { sieve, clock, columns: ErrorColumns::default() }
    }
}

impl Rows for Errors {
    type Batch = ErrorColumns;

    fn see(&mut self, record: &Record<'_>) {
        let keeps = self.sieve.keeps(record);
        let Kind::Bad(bad) = &record.kind else { return };
        if !keeps {
            return;
        }
        let (row, in_file) = (self.columns.rows, record.number > 0);
        self.columns.number.put(row, in_file.then_some(record.number));
        self.columns.time_ps.put(row, self.clock.ps(record.timestamp).filter(|_| in_file));
        self.columns.offset.put(
            row,
            match bad {
                Bad::File(fault) => Some(fault.offset()),
                _ => None,
            },
        );
        self.columns.layer.put(row, Some(bad.layer().name()));
        self.columns.error.put(row, Some(bad.kind()));
        self.columns.reason.put(row, Some(bad.to_string()));
        self.columns.rows += 1;
    }

    fn settle(&mut self) -> usize {
        self.columns.rows()
    }

    fn batch(&mut self) -> &mut ErrorColumns {
        &mut self.columns
    }
}
