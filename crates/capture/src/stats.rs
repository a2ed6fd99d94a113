// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Statistics of a capture. Memory depends on the number of types, sizes and requesters, not on the number of
//! records.

use crate::decode::{Kind, Record, TlpRecord};
use crate::encap::Layer;
use crate::filter::terms::is_error;
use crate::matcher::{Counts, Errors, MAX_REQUESTERS, Match, Matcher, Requester};
use crate::render::dllp_name;
use crate::sequence::{Arrival, Sequences, way};
use crate::time::Timestamp;
use crate::transactions::Outcome;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use tlp::{Bdf, Body, Class, FORMATS, Tag};

/// Counts records.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Counters of the report.
    counted: StatsReport,
    first: Option<Timestamp>,
    last: Timestamp,
    by_format: [u64; FORMATS.len()],
    read_sizes: Sizes,
    write_sizes: Sizes,
    completion_sizes: Sizes,
    requesters: BTreeMap<Requester, RequesterCounts>,
    errors: BTreeMap<(Layer, &'static str), u64>,
    sequences: Sequences,
    matcher: Matcher,
}

#[derive(Clone, Debug, Default)]
struct RequesterCounts {
    slot: Arc<str>,
    requests: u64,
    completions: u64,
    tags: Tags,
}

/// The tags of non-posted requests, one bit per tag.
#[derive(Clone, Debug, Default)]
struct Tags([u64; Tag::COUNT as usize / 64]);

impl Tags {
    fn insert(&mut self, tag: Tag) {
        self.0[usize::from(tag.bits() / 64)] |= 1 << (tag.bits() % 64);
    }

    fn list(&self) -> Vec<u16> {
        (0..Tag::COUNT).filter(|tag| self.0[usize::from(tag / 64)] >> (tag % 64) & 1 == 1).collect()
    }
}

/// How often each size occurs. The index is the size in bytes, at most the 4 KiB of a TLP's data.
#[derive(Clone, Debug, Default)]
struct Sizes(Vec<u64>);

impl Sizes {
    fn count(&mut self, bytes: usize) {
        if self.0.len() <= bytes {
            self.0.resize(bytes + 1, 0);
        }
        self.0[bytes] += 1;
    }

    fn report(&self) -> Vec<SizeCount> {
        let sizes = self.0.iter().zip(0..).filter(|(count, _)| **count > 0);
        sizes.map(|(count, bytes)| SizeCount { bytes, count: *count }).collect()
    }
}

impl Stats {
    /// Creates statistics without records.
    pub fn new() -> Stats {
        Stats::default()
    }

    /// Counts a record.
    pub fn add(&mut self, record: &Record<'_>) {
        if record.number > 0 {
            self.counted.frames += 1;
            self.counted.captured_bytes += record.captured_len as u64;
            if let Some(time) = record.time() {
                self.first = Some(self.first.map_or(time, |first| first.min(time)));
                self.last = self.last.max(time);
            }
        }
        let mut outcome = Outcome::default();
        match &record.kind {
            Kind::Tlp(_) | Kind::Dllp(_) if record.mark.is_lost() => {
                self.counted.lost += 1;
                if record.tlp().is_some() {
                    self.sequences.tlp(record);
                }
            }
            Kind::Tlp(tlp) => outcome = self.add_tlp(record, tlp),
            Kind::Dllp(dllp) => {
                self.sequences.pass(record);
                *self.counted.dllps.entry(dllp_name(dllp)).or_default() += 1;
            }
            Kind::Other(_) => self.counted.others += 1,
            Kind::Bad(bad) => {
                self.sequences.pass(record);
                *self.errors.entry((bad.layer(), bad.kind())).or_default() += 1;
            }
        }
        self.counted.error_records += u64::from(is_error(record, &outcome));
    }

    /// Processes a record that a filter excludes. It is not counted, but the state of sequence numbers is updated.
    pub fn pass(&mut self, record: &Record<'_>) {
        self.sequences.pass(record);
    }

    /// Returns the matcher, with the outstanding transactions.
    pub const fn matcher(&self) -> &Matcher {
        &self.matcher
    }

    /// Counts a TLP. Returns its effect on the transactions; only the fields that errors depend on are set.
    fn add_tlp(&mut self, record: &Record<'_>, tlp: &TlpRecord<'_>) -> Outcome {
        let format = tlp.repr.format();
        self.by_format[format.id as usize] += 1;
        self.counted.payload_bytes += tlp.payload_bytes as u64;
        self.counted.captured_payload_bytes += tlp.data.len() as u64;
        self.add_size(tlp);
        self.add_requester(record, tlp, format.class);
        match self.sequences.tlp(record) {
            Arrival::Taken { .. } => {
                return outcome_of(&self.matcher.see(
                    record.number,
                    record.timestamp,
                    way(record),
                    &tlp.repr,
                ));
            }
            Arrival::Again => self.matcher.count_repeat(),
            Arrival::OutOfOrder | Arrival::Lost => self.counted.out_of_order += 1,
        }
        Outcome::default()
    }

    fn add_size(&mut self, tlp: &TlpRecord<'_>) {
        match &tlp.repr.body {
            Body::Memory(m) => {
                let sizes = if m.op.is_read() { &mut self.read_sizes } else { &mut self.write_sizes };
                sizes.count(m.span.byte_count() as usize);
            }
            Body::Completion(c) if c.length_dw.is_some() => self.completion_sizes.count(tlp.payload_bytes),
            Body::Completion(_) | Body::Io(_) | Body::Atomic(_) | Body::Config(_) | Body::Message(_) => {}
        }
    }

    fn add_requester(&mut self, record: &Record<'_>, tlp: &TlpRecord<'_>, class: Class) {
        let (id, tag) = tlp.repr.transaction();
        let requester = Requester { link: way(record).0, id };
        if self.requesters.len() == MAX_REQUESTERS && !self.requesters.contains_key(&requester) {
            return;
        }
        let counts = self.requesters.entry(requester).or_insert_with(|| RequesterCounts {
            slot: record.interface.map_or_else(Arc::default, |interface| Arc::clone(&interface.slot)),
            ..RequesterCounts::default()
        });
        match class {
            Class::Completion => counts.completions += 1,
            Class::NonPosted => {
                counts.requests += 1;
                counts.tags.insert(tag);
            }
            Class::Posted => counts.requests += 1,
        }
    }

    /// Returns the statistics so far. `Display` prints a table, and `Serialize` writes an object.
    pub fn report(&self) -> StatsReport {
        let mut types = BTreeMap::<&'static str, u64>::new();
        for (format, count) in FORMATS.iter().zip(self.by_format).filter(|(_, count)| *count > 0) {
            *types.entry(format.name).or_default() += count;
        }
        let errors: Vec<ErrorCount> = self
            .errors
            .iter()
            .map(|((layer, error), count)| ErrorCount { layer: *layer, error, count: *count })
            .collect();
        StatsReport {
            duration_ps: self.first.map(|first| self.last.since_ps(first)),
            tlps: self.by_format.iter().sum(),
            types,
            read_sizes: self.read_sizes.report(),
            write_sizes: self.write_sizes.report(),
            completion_sizes: self.completion_sizes.report(),
            requesters: self.requester_reports(),
            transactions: self.matcher.counts(),
            waiting: self.matcher.waiting().count() as u64,
            error_total: errors.iter().map(|error| error.count).sum(),
            errors,
            ..self.counted.clone()
        }
    }

    fn requester_reports(&self) -> Vec<RequesterReport> {
        let outstanding: BTreeMap<Requester, u32> =
            self.matcher.outstanding().map(|(r, o)| (r, o.max)).collect();
        let report = |(requester, counts): (&Requester, &RequesterCounts)| RequesterReport {
            link: requester.link,
            slot: counts.slot.to_string(),
            requester: Id(requester.id),
            requests: counts.requests,
            completions: counts.completions,
            max_outstanding: outstanding.get(requester).copied().unwrap_or(0),
            tags: counts.tags.list(),
        };
        self.requesters.iter().map(report).collect()
    }
}

/// The outcome with only the fields that errors depend on.
fn outcome_of(matched: &Match) -> Outcome {
    let (errors, probe) = match matched {
        Match::Complete(transaction) => (transaction.errors, transaction.is_probe),
        Match::Unmatched => (Errors::UNEXPECTED_COMPLETION, false),
        _ => (Errors::empty(), false),
    };
    Outcome { errors, probe, taken: !matches!(matched, Match::Repeat), ..Outcome::default() }
}

/// Statistics of a capture.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct StatsReport {
    /// Number of frames.
    pub frames: u64,
    /// Captured bytes of these frames.
    pub captured_bytes: u64,
    /// Time from the earliest to the latest frame in picoseconds; `None` if no frame has a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ps: Option<u128>,
    /// Number of TLPs.
    pub tlps: u64,
    /// TLPs by type. Contains only types that occur.
    pub types: BTreeMap<&'static str, u64>,
    /// Data of all TLPs in bytes, by their Length fields.
    pub payload_bytes: u64,
    /// Captured bytes of this data.
    pub captured_payload_bytes: u64,
    /// Memory reads by number of requested bytes.
    pub read_sizes: Vec<SizeCount>,
    /// Memory writes by number of written bytes.
    pub write_sizes: Vec<SizeCount>,
    /// Completions by number of data bytes.
    pub completion_sizes: Vec<SizeCount>,
    /// Counts by link and requester.
    pub requesters: Vec<RequesterReport>,
    /// Counts of requests and completions.
    pub transactions: Counts,
    /// Number of requests outstanding at the end.
    pub waiting: u64,
    /// DLLPs by type.
    pub dllps: BTreeMap<&'static str, u64>,
    /// Frames that are neither TLP nor DLLP.
    pub others: u64,
    /// TLPs and DLLPs that were damaged or dropped on the way; not counted by type.
    pub lost: u64,
    /// TLPs that their receiver discarded because an earlier one was lost.
    pub out_of_order: u64,
    /// Records that the filter `error` matches: unreadable, lost, or with an error in a transaction.
    pub error_records: u64,
    /// Number of records that cannot be read, and of unreadable parts of the file.
    pub error_total: u64,
    /// Records that cannot be read, by layer and kind.
    pub errors: Vec<ErrorCount>,
}

/// How often a size occurs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct SizeCount {
    /// The size in bytes.
    pub bytes: u32,
    /// Number of occurrences.
    pub count: u64,
}

/// Statistics of one requester on one link.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RequesterReport {
    /// Number of the link, from 0.
    pub link: u16,
    /// The slot or switch at the end of the link, if the capture names it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub slot: String,
    /// Requester ID.
    pub requester: Id,
    /// Number of requests, including posted ones.
    pub requests: u64,
    /// Number of completions to it.
    pub completions: u64,
    /// Maximum number of non-posted requests outstanding at a time.
    pub max_outstanding: u32,
    /// Tags of its non-posted requests in ascending order.
    pub tags: Vec<u16>,
}

/// A Requester ID that serializes as `bus:device.function`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Id(pub Bdf);

impl Serialize for Id {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// How often an error occurs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ErrorCount {
    /// The layer with the fault.
    pub layer: Layer,
    /// A short name of the kind of fault.
    pub error: &'static str,
    /// Number of occurrences.
    pub count: u64,
}

impl fmt::Display for StatsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} frames, {} bytes captured, ", self.frames, self.captured_bytes)?;
        match self.duration_ps {
            Some(ps) => writeln!(f, "over {}.{:03} ns", ps / 1000, ps % 1000)?,
            None => writeln!(f, "no times")?,
        }
        let (tlps, payload, captured) = (self.tlps, self.payload_bytes, self.captured_payload_bytes);
        writeln!(f, "{tlps} TLPs with {payload} bytes of data, {captured} of them captured")?;
        self.fmt_counts(f)?;
        self.fmt_requesters(f)?;
        self.fmt_transactions(f)?;
        self.fmt_errors(f)
    }
}

impl StatsReport {
    fn fmt_counts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = self.types.iter().chain(&self.dllps);
        for (name, count) in named {
            writeln!(f, "  {name:<22}{count:>12}")?;
        }
        if self.others > 0 {
            writeln!(f, "  {:<22}{:>12}", "neither TLP nor DLLP", self.others)?;
        }
        let tables = [
            ("read", &self.read_sizes),
            ("write", &self.write_sizes),
            ("completion", &self.completion_sizes),
        ];
        for (what, sizes) in tables.into_iter().filter(|(_, sizes)| !sizes.is_empty()) {
            writeln!(f, "{what} sizes")?;
            for size in sizes {
                writeln!(f, "  {:<22}{:>12}", format_args!("{} B", size.bytes).to_string(), size.count)?;
            }
        }
        Ok(())
    }

    fn fmt_requesters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.requesters.is_empty() {
            return Ok(());
        }
        let link = |r: &RequesterReport| if r.slot.is_empty() { r.link.to_string() } else { r.slot.clone() };
        let width = self.requesters.iter().map(|r| link(r).chars().count()).max().unwrap_or(0).max(4);
        writeln!(f, "requester  {:>width$}      requests   completions  outstanding  tags", "link")?;
        for r in &self.requesters {
            write!(f, "  {:<9}{:>width$}{:>14}", r.requester.0.to_string(), link(r), r.requests)?;
            writeln!(f, "{:>14}{:>13}  {}", r.completions, r.max_outstanding, ranges(&r.tags))?;
        }
        Ok(())
    }

    fn fmt_transactions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let t = &self.transactions;
        writeln!(f, "transactions")?;
        let rows = [
            ("posted", t.posted),
            ("non-posted", t.requests),
            ("forwarded", t.forwarded),
            ("completed", t.completed),
            ("completed with error", t.failed),
            ("bus probes, UR", t.probes),
            ("not completed", self.waiting),
            ("seen again", t.repeats),
            ("tag reused meanwhile", t.tag_reuses),
            ("given up", t.given_up),
            ("expired", t.expired),
            ("not tracked", t.untracked),
            ("unmatched completions", t.unmatched),
            ("byte count mismatches", t.byte_count_mismatches),
        ];
        for (name, count) in rows.into_iter().filter(|(_, count)| *count > 0) {
            writeln!(f, "  {name:<22}{count:>12}")?;
        }
        Ok(())
    }

    fn fmt_errors(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, count) in [("lost on the way", self.lost), ("discarded, out of order", self.out_of_order)]
        {
            if count > 0 {
                writeln!(f, "{what:<24}{count:>12}")?;
            }
        }
        writeln!(f, "{:<24}{:>12}", "records with errors", self.error_records)?;
        for error in &self.errors {
            let name = format!("{}: {}", error.layer, error.error);
            writeln!(f, "  {name:<34}{:>12}", error.count)?;
        }
        Ok(())
    }
}

/// Returns ascending numbers as text with runs merged, such as `0-7, 9`; `-` if there are none.
fn ranges(numbers: &[u16]) -> String {
    if numbers.is_empty() {
        return "-".to_owned();
    }
    let mut parts = Vec::new();
    let mut rest = numbers;
    while let Some(first) = rest.first() {
        let run = rest.iter().zip(*first..).take_while(|(number, expected)| **number == *expected).count();
        let last = rest[run - 1];
        parts.push(if run == 1 { first.to_string() } else { format!("{first}-{last}") });
        rest = &rest[run..];
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_merge_consecutive_numbers() {
        let rows: [(&[u16], &str); 4] =
            [(&[], "-"), (&[3], "3"), (&[0, 1, 2, 7], "0-2, 7"), (&[1022, 1023], "1022-1023")];
        for (numbers, text) in rows {
            assert_eq!(ranges(numbers), text);
        }
    }
}
