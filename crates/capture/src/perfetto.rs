// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Exports a capture to the Perfetto viewer and to Chrome's, as trace events in JSON. Events are written while the
//! capture is read. Memory holds only the unfinished transactions.
//!
//! | in the viewer | in the capture |
//! |---|---|
//! | process | a link |
//! | thread | a direction of the link, with a slice per TLP and DLLP as long as its time on the wire; an instant if the speed is unknown |
//! | async slice | a transaction with completions, on one track per type, requester and tag |
//! | counter | outstanding requests of a requester; available credits of a direction, class and virtual channel |
//!
//! Times are microseconds with six decimals, so their unit is a picosecond. Captures with times since 1970 start at
//! their first frame, because viewers compute times in floating point.

use crate::credits::{Available, LedgerId, Ledgers};
use crate::decode::{Kind, Record};
use crate::filter::Filter;
use crate::matcher::{Requester, Transaction};
use crate::reader::Direction;
use crate::render::{append_bdf, append_hex, class_name, dllp_name};
use crate::sequence::{opposite, way};
use crate::time::{Timestamp, append_decimal};
use crate::transactions::Tracker;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, Write};
use tlp::{DLLP_LEN, Dllp, Format};

/// Number of buffered bytes from which the buffer is written.
const BUFFER_LEN: usize = 64 << 10;
/// Framing, sequence number and LCRC of a TLP; framing of a DLLP.
const TLP_FRAMING: u64 = 8;
const DLLP_FRAMING: u64 = 2;

/// Writes trace events.
pub struct Writer<W> {
    inner: W,
    buffer: String,
    filter: Option<Filter>,
    tracker: Tracker,
    ledgers: Ledgers,
    named: BTreeSet<(u16, Option<Direction>)>,
    outstanding: BTreeMap<Requester, u32>,
    base: Option<Timestamp>,
    is_first: bool,
}

impl<W: Write> Writer<W> {
    /// Starts a trace on `inner`. The writer has its own buffer. With a filter, only matching records and
    /// transactions are written. Counters always count all records.
    ///
    /// # Errors
    /// If `inner` fails.
    pub fn new(inner: W, filter: Option<Filter>) -> io::Result<Writer<W>> {
        let mut writer = Writer {
            inner,
            buffer: String::with_capacity(BUFFER_LEN + 4096),
            filter,
            tracker: Tracker::new(),
            ledgers: Ledgers::new(),
            named: BTreeSet::new(),
            outstanding: BTreeMap::new(),
            base: None,
            is_first: true,
        };
        writer.buffer.push_str("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
        writer.hand_on()?;
        Ok(writer)
    }

    /// Processes a record.
    ///
    /// # Errors
    /// If the underlying writer fails.
    pub fn see(&mut self, record: &Record<'_>) -> io::Result<()> {
        let terms = self.filter.as_ref().map_or(0, |filter| filter.terms(record));
        let outcome = self.tracker.see(record, terms);
        let base = if record.timestamp.is_virtual() { Timestamp::ZERO } else { record.timestamp };
        if record.number > 0 {
            self.base.get_or_insert(base);
        }
        if self.filter.as_ref().is_none_or(|filter| filter.holds(record, &outcome)) {
            self.frame(record);
        }
        self.count(record);
        while let Some(transaction) = self.tracker.next_ended() {
            self.transaction(&transaction);
        }
        if self.buffer.len() >= BUFFER_LEN { self.hand_on() } else { Ok(()) }
    }

    /// Ends the trace, and returns the underlying writer.
    ///
    /// # Errors
    /// If the underlying writer fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.tracker.finish();
        while let Some(transaction) = self.tracker.next_ended() {
            self.transaction(&transaction);
        }
        self.buffer.push_str("\n]}\n");
        self.hand_on()?;
        self.inner.flush()?;
        Ok(self.inner)
    }

    fn hand_on(&mut self) -> io::Result<()> {
        let result = self.inner.write_all(self.buffer.as_bytes());
        self.buffer.clear();
        result
    }

    /// Writes a slice for a TLP or DLLP.
    fn frame(&mut self, record: &Record<'_>) {
        let (name, wire_bytes) = match &record.kind {
            Kind::Tlp(tlp) => (tlp.repr.name(), tlp.wire_len as u64 + TLP_FRAMING),
            Kind::Dllp(dllp) => (dllp_name(dllp), DLLP_LEN as u64 + DLLP_FRAMING),
            Kind::Other(_) | Kind::Bad(_) => return,
        };
        self.name_way(record);
        let (link, direction) = way(record);
        let speed = record.interface.and_then(|interface| interface.speed_bps);
        let duration = speed.map(|bps| u128::from(wire_bytes) * 8_000_000_000_000 / u128::from(bps));
        let end = self.relative_ps(record.timestamp);
        self.begin(
            if duration.is_some() { 'X' } else { 'i' },
            name,
            link,
            end.saturating_sub(duration.unwrap_or(0)),
        );
        match duration {
            Some(ps) => append_us(",\"dur\":", ps.min(end), &mut self.buffer),
            None => self.buffer.push_str(",\"s\":\"t\""),
        }
        self.field(",\"tid\":", tid(direction));
        self.field(",\"args\":{\"number\":", record.number);
        // Writing to a string cannot fail. The line of a TLP or DLLP has no quotation marks.
        let _ = match &record.kind {
            Kind::Tlp(tlp) => write!(self.buffer, ",\"tlp\":\"{}\"", tlp.repr),
            Kind::Dllp(dllp) => write!(self.buffer, ",\"dllp\":\"{dllp}\""),
            _ => Ok(()),
        };
        if record.mark.is_lost() {
            self.buffer.push_str(",\"lost\":true");
        }
        self.buffer.push_str("}}");
    }

    /// Writes the counters that a record changed.
    fn count(&mut self, record: &Record<'_>) {
        let at = self.relative_ps(record.timestamp);
        if let Some(tlp) = record.tlp() {
            let requester = Requester { link: way(record).0, id: tlp.repr.transaction().0 };
            let now = self.tracker.matcher().outstanding_of(requester).now;
            if self.outstanding.insert(requester, now).unwrap_or(0) != now {
                let mut name = "outstanding ".to_owned();
                append_bdf(requester.id, &mut name);
                self.begin('C', &name, requester.link, at);
                self.field(",\"args\":{\"requests\":", now.into());
                self.buffer.push_str("}}");
            }
        }
        let changed = match &record.kind {
            Kind::Dllp(Dllp::FlowControl(fc)) if !record.mark.is_lost() => {
                self.ledgers.see(record);
                Some(LedgerId { way: opposite(way(record)), vc: fc.vc.id(), class: fc.class })
            }
            _ => self.ledgers.see(record).map(|took| took.ledger),
        };
        changed.into_iter().for_each(|ledger| self.credits(ledger, at));
    }

    fn credits(&mut self, id: LedgerId, at: u128) {
        let LedgerId { way: (link, direction), vc, class } = id;
        let Some((header, data)) = self.ledgers.available(id) else { return };
        if (header, data) == (Available::Infinite, Available::Infinite) {
            return;
        }
        let name = format!("credits {} {} vc{vc}", direction.map_or("", Direction::name), class_name(class));
        self.begin('C', &name, link, at);
        let mut lead = ",\"args\":{";
        for (name, left) in [("header", header), ("data", data)] {
            if let Available::Credits(credits) = left {
                let _ = write!(self.buffer, "{lead}\"{name}\":{credits}");
                lead = ",";
            }
        }
        self.buffer.push_str("}}");
    }

    /// Writes an async slice for a transaction with completions.
    fn transaction(&mut self, t: &Transaction) {
        let hidden = self.filter.as_ref().is_some_and(|filter| !filter.holds_for(t));
        if t.is_posted() || t.completions == 0 || hidden {
            return;
        }
        let mut name = format!("{} ", Format::get(t.format).name);
        append_bdf(t.requester.id, &mut name);
        name.push_str(" tag 0x");
        append_hex(t.tag.bits().into(), 2, &mut name);
        for (phase, time) in [('b', t.start), ('e', t.end)] {
            let at = self.relative_ps(time);
            self.begin(phase, &name, t.requester.link, at);
            self.buffer.push_str(",\"tid\":0,\"cat\":\"transaction\",\"id\":\"0x");
            append_hex(u64::from(t.requester.id.bits()) << 16 | u64::from(t.tag.bits()), 8, &mut self.buffer);
            self.buffer.push('"');
            if phase == 'b' {
                self.buffer.push_str(",\"args\":");
                crate::transactions::append_json(t, &mut self.buffer);
            }
            self.buffer.push('}');
        }
    }

    /// Names the process and the thread of a direction when it first appears.
    fn name_way(&mut self, record: &Record<'_>) {
        let (link, direction) = way(record);
        if !self.named.insert((link, direction)) {
            return;
        }
        let name = record.interface.map_or("", |interface| match &*interface.slot {
            "" => interface.name.split(':').next().unwrap_or_default(),
            slot => slot,
        });
        let link_name = if name.is_empty() { format!("link {link}") } else { name.to_owned() };
        let way_name = direction.map_or("frames", Direction::name);
        for (what, name) in [("process_name", link_name.as_str()), ("thread_name", way_name)] {
            self.begin('M', what, link, 0);
            self.field(",\"tid\":", tid(direction));
            let quoted = serde_json::Value::from(name).to_string();
            let _ = write!(self.buffer, ",\"args\":{{\"name\":{quoted}}}}}");
        }
    }

    /// Begins an event. The caller ends it with a brace.
    fn begin(&mut self, phase: char, name: &str, link: u16, at_ps: u128) {
        self.buffer.push_str(if self.is_first { "\n{\"ph\":\"" } else { ",\n{\"ph\":\"" });
        self.is_first = false;
        self.buffer.push(phase);
        self.buffer.push_str("\",\"name\":\"");
        self.buffer.push_str(name);
        // Viewers reserve process 0 for the idle process.
        self.field("\",\"pid\":", u64::from(link) + 1);
        append_us(",\"ts\":", at_ps, &mut self.buffer);
    }

    fn field(&mut self, name: &str, value: u64) {
        self.buffer.push_str(name);
        append_decimal(&mut self.buffer, value, 1);
    }

    fn relative_ps(&self, time: Timestamp) -> u128 {
        time.since_ps(self.base.unwrap_or_default())
    }
}

const fn tid(direction: Option<Direction>) -> u64 {
    match direction {
        None => 1,
        Some(Direction::Downstream) => 2,
        Some(Direction::Upstream) => 3,
    }
}

/// Appends picoseconds as microseconds.
fn append_us(name: &str, ps: u128, out: &mut String) {
    let ps = u64::try_from(ps).unwrap_or(u64::MAX);
    out.push_str(name);
    append_decimal(out, ps / 1_000_000, 1);
    out.push('.');
    append_decimal(out, ps % 1_000_000, 6);
}
