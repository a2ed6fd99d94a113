// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transactions as rows: columns are the fields of `riser trace --transactions --json` (`capture::transactions`).

use super::Clock;
use super::columns::{BATCH_ROWS, Batch, Flags, Names, Numbers, Texts, batch};
use super::stream::Rows;
use arrow_array::types::{Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use capture::matcher::{Ack, Errors, Target};
use capture::render::status_name;
use capture::{Filter, Record, Timestamp, Tracker, Transaction};
use tlp::{Bdf, Format};

batch! {
    /// The columns.
    Columns {
        number: Numbers<UInt64Type>,
        time_ps: Numbers<Int64Type>,
        link: Numbers<UInt16Type>,
        direction: Names<&'static str>,
        slot: Names<String>,
        r#type: Names<&'static str>,
        requester: Names<Bdf>,
        tag: Numbers<UInt16Type>,
        tc: Numbers<UInt8Type>,
        address: Numbers<UInt64Type>,
        completer: Names<Bdf>,
        register: Numbers<UInt16Type>,
        message_code: Numbers<UInt8Type>,
        message_name: Names<&'static str>,
        request_bytes: Numbers<UInt32Type>,
        completions: Numbers<UInt32Type>,
        status: Names<&'static str>,
        data_bytes: Numbers<UInt32Type>,
        latency_ps: Numbers<UInt64Type>,
        first_data_ps: Numbers<UInt64Type>,
        throughput_mbps: Numbers<UInt64Type>,
        packets: Numbers<UInt32Type>,
        retries: Numbers<UInt32Type>,
        ack_number: Numbers<UInt64Type>,
        ack_ps: Numbers<UInt64Type>,
        completion_ack_number: Numbers<UInt64Type>,
        completion_ack_ps: Numbers<UInt64Type>,
        ack: Names<&'static str>,
        probe: Flags,
        errors: Texts,
    }
}

/// The transactions for which a filter holds, in the order in which they end.
pub(super) struct Transactions {
    filter: Option<Filter>,
    tracker: Tracker,
    clock: Clock,
    columns: Columns,
}

impl Transactions {
    pub(super) fn new(filter: Option<Filter>, clock: Clock) -> Transactions {
        Transactions { filter, tracker: Tracker::new(), clock, columns: Columns::default() }
    }
}

impl Rows for Transactions {
    type Batch = Columns;

    fn see(&mut self, record: &Record<'_>) {
        let terms = self.filter.as_ref().map_or(0, |filter| filter.terms(record));
        self.tracker.see(record, terms);
    }

    fn end(&mut self) {
        self.tracker.finish();
    }

    fn settle(&mut self) -> usize {
        while self.columns.rows() < BATCH_ROWS
            && let Some(transaction) = self.tracker.next_ended()
        {
            if self.filter.as_ref().is_none_or(|filter| filter.holds_for(&transaction)) {
                self.columns.put(&transaction, self.clock);
            }
        }
        self.columns.rows()
    }

    fn batch(&mut self) -> &mut Columns {
        &mut self.columns
    }
}

/// Converts picoseconds to 64 bits, limited to the maximum.
fn narrow(ps: u128) -> u64 {
    u64::try_from(ps).unwrap_or(u64::MAX)
}

impl Columns {
    fn put(&mut self, t: &Transaction, clock: Clock) {
        let row = self.rows;
        self.number.put(row, t.request_number);
        self.time_ps.put(row, clock.ps(t.start).filter(|_| t.has_start));
        self.link.put(row, t.requester.link);
        self.direction.put(row, t.direction.map(|way| way.name()));
        self.slot.put_str(row, Some(&*t.slot).filter(|slot| !slot.is_empty()));
        self.r#type.put(row, Some(Format::get(t.format).name));
        self.requester.put(row, Some(t.requester.id));
        self.tag.put(row, t.tag.bits());
        self.tc.put(row, t.tc);
        self.target(t.target);
        self.request_bytes.put(row, t.bytes);
        self.completions.put(row, t.completions);
        self.answer(t);
        self.packets.put(row, t.packets());
        self.retries.put(row, t.retries);
        let (number, ps) = seen(t.ack, t.start);
        self.ack_number.put(row, number);
        self.ack_ps.put(row, ps);
        let (number, ps) = seen(t.completion_ack, t.end);
        self.completion_ack_number.put(row, number);
        self.completion_ack_ps.put(row, ps);
        self.ack.put(row, [t.ack, t.completion_ack].contains(&Ack::None).then_some("none"));
        self.probe.put(row, t.is_probe);
        if !t.errors.is_empty() {
            self.errors.put(row, Some(t.errors.names().collect::<Vec<_>>().join(", ")));
        }
        self.rows += 1;
    }

    fn target(&mut self, target: Target) {
        let row = self.rows;
        let (address, register, message) = match target {
            Target::Address(address) => (Some(address), None, None),
            Target::Register { function, offset } => (None, Some((function, offset)), None),
            Target::Message { code, name } => (None, None, Some((code, name))),
        };
        self.address.put(row, address);
        self.completer.put(row, register.map(|(function, _)| function));
        self.register.put(row, register.map(|(_, offset)| offset));
        self.message_code.put(row, message.map(|(code, _)| code));
        self.message_name.put(row, message.and_then(|(_, name)| name));
    }

    fn answer(&mut self, t: &Transaction) {
        let row = self.rows;
        let response = t.response_ps().filter(|_| !t.is_posted());
        let timed = response.filter(|_| !t.errors.contains(Errors::UNEXPECTED_COMPLETION));
        self.status.put(row, t.status.filter(|_| !t.is_posted()).map(status_name));
        let is_answered = t.completions > 0 && !t.is_posted();
        self.data_bytes.put(row, is_answered.then_some(t.data_bytes));
        self.latency_ps.put(row, timed.map(narrow));
        self.first_data_ps.put(row, timed.and(t.first_data_ps()).map(narrow));
        self.throughput_mbps.put(row, timed.and(t.throughput_mbps()));
    }
}

/// Number of the Ack, and its time after `since`.
fn seen(ack: Ack, since: Timestamp) -> (Option<u64>, Option<u64>) {
    match ack {
        Ack::Seen { number, time } => (Some(number), Some(narrow(time.since_ps(since)))),
        Ack::Unknown | Ack::None => (None, None),
    }
}
