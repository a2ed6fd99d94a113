// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Views of a capture as lines: its records, credits, transactions, explanations, or the rules that it breaks. A line is text or a JSON object.
//! Pass each record to [`View::see`] in order, then call [`View::finish`].

use crate::check::{Checker, JsonFinding, append_line};
use crate::credits::Ledgers;
use crate::decode::{Bad, Kind, Other, Record};
use crate::explain::Explanation;
use crate::filter::{Filter, Sieve};
use crate::names::{Names, OfRequests};
use crate::render::{self, JsonRecord, append_meaning, object};
use crate::transactions::{self, JsonTransaction, Summary, Tracker};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{Result, Write};
use tlp::RuleId;
use tlp::rules::Rule;

/// A view of one capture.
pub trait View {
    /// Writes the lines of the next record.
    ///
    /// # Errors
    /// Those of `out`.
    fn see(&mut self, record: &Record<'_>, out: &mut dyn Write) -> Result<()>;

    /// Writes the remaining lines and a summary, if the view has one.
    ///
    /// # Errors
    /// Those of `out`.
    fn finish(&mut self, out: &mut dyn Write) -> Result<ViewEnd>;
}

/// The end of a view.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ViewEnd {
    /// Line for the user about the limits of the view.
    pub note: Option<String>,
    /// True if the capture breaks a rule, or could not be judged as a whole.
    pub has_failed: bool,
}

/// An object with the name of its capture, for output about several captures.
#[derive(Serialize)]
pub struct OfFile<'a, T> {
    /// The name; omitted if there is one capture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<Cow<'a, str>>,
    /// The object.
    #[serde(flatten)]
    pub of: T,
}

/// Form of the lines of a view.
#[derive(Clone, Debug, Default)]
pub struct Lines<'a> {
    /// JSON objects instead of text.
    pub json: bool,
    /// Name of the capture, for the objects.
    pub file: Option<Cow<'a, str>>,
    /// The line that is written; empty at first.
    pub line: String,
}

impl Lines<'_> {
    fn put<T: Serialize>(
        &mut self,
        out: &mut dyn Write,
        object: impl FnOnce() -> T,
        text: impl FnOnce(&mut String),
    ) -> Result<()> {
        self.line.clear();
        match self.json {
            true => {
                let file = self.file.as_deref().map(Cow::Borrowed);
                object::append(&OfFile { file, of: object() }, &mut self.line);
            }
            false => text(&mut self.line),
        }
        self.line.push('\n');
        out.write_all(self.line.as_bytes())
    }
}

/// A line for each record.
pub struct Records<'a> {
    /// Form of the lines.
    pub lines: Lines<'a>,
    /// Selects the records.
    pub sieve: Sieve,
    /// Names what TLPs access.
    pub names: Names,
    /// Adds the data of TLPs.
    pub data: bool,
}

impl View for Records<'_> {
    fn see(&mut self, record: &Record<'_>, out: &mut dyn Write) -> Result<()> {
        let meaning = self.names.see(record);
        if !self.sieve.keeps(record) {
            return Ok(());
        }
        let object = || {
            let of = JsonRecord::new(record).with_meaning(meaning.as_ref());
            if self.data { of.with_data() } else { of }
        };
        self.lines.put(out, object, |line| render::full_line(record, meaning.as_ref(), self.data, line))
    }

    fn finish(&mut self, _: &mut dyn Write) -> Result<ViewEnd> {
        Ok(ViewEnd::default())
    }
}

/// A line for each TLP with the credits before and after it.
pub struct Credits<'a> {
    /// Form of the lines.
    pub lines: Lines<'a>,
    /// Selects the TLPs.
    pub sieve: Sieve,
    /// Computes the credits.
    pub ledgers: Ledgers,
    /// Number of lines without credits so far.
    pub unknown: u64,
}

/// A TLP and the credits that it consumed.
#[derive(Serialize)]
struct WithCredits<'a, C> {
    #[serde(flatten)]
    record: JsonRecord<'a>,
    /// Null if they cannot be derived from the capture.
    credits: C,
}

impl View for Credits<'_> {
    fn see(&mut self, record: &Record<'_>, out: &mut dyn Write) -> Result<()> {
        let took = self.ledgers.see(record);
        if !self.sieve.keeps(record) || record.tlp().is_none() {
            return Ok(());
        }
        self.unknown += u64::from(took.is_none());
        let object = || WithCredits { record: JsonRecord::new(record), credits: took.as_ref() };
        self.lines.put(out, object, |line| render::credits_line(record, took.as_ref(), line))
    }

    fn finish(&mut self, _: &mut dyn Write) -> Result<ViewEnd> {
        let unknown = self.unknown;
        let note = (unknown > 0).then(|| {
            format!("credits of {unknown} TLPs are unknown: needs a capture with DLLPs since the start of the link")
        });
        Ok(ViewEnd { note, has_failed: false })
    }
}

/// A line for each transaction, and a summary.
pub struct Transactions<'a> {
    lines: Lines<'a>,
    filter: Option<Filter>,
    names: OfRequests,
    tracker: Tracker,
    summary: Summary,
    /// Digits of the times after the decimal point.
    digits: u8,
}

impl<'a> Transactions<'a> {
    /// Selects transactions by `filter`.
    pub fn new(lines: Lines<'a>, filter: Option<Filter>, names: OfRequests) -> Transactions<'a> {
        Transactions { lines, filter, names, tracker: Tracker::new(), summary: Summary::new(), digits: 1 }
    }

    fn show_ended(&mut self, out: &mut dyn Write) -> Result<()> {
        while let Some(t) = self.tracker.next_ended() {
            let meaning = self.names.take(t.request_number);
            t.hops.iter().for_each(|hop| _ = self.names.take(hop.request_number));
            if self.filter.as_ref().is_none_or(|filter| filter.holds_for(&t)) {
                self.summary.add(&t);
                let object = || JsonTransaction { transaction: &t, meaning: meaning.as_ref() };
                self.lines.put(out, object, |line| {
                    transactions::append_line(&t, self.digits, line);
                    meaning.iter().for_each(|meaning| append_meaning(meaning, line));
                })?;
            }
        }
        Ok(())
    }
}

impl View for Transactions<'_> {
    fn see(&mut self, record: &Record<'_>, out: &mut dyn Write) -> Result<()> {
        let digits = record.interface.map_or(0, |interface| interface.resolution.digits());
        self.digits = self.digits.max(digits);
        self.names.see(record);
        self.tracker.see(record, self.filter.as_ref().map_or(0, |filter| filter.terms(record)));
        self.show_ended(out)
    }

    fn finish(&mut self, out: &mut dyn Write) -> Result<ViewEnd> {
        self.tracker.finish();
        self.show_ended(out)?;
        let report = self.summary.report(&self.tracker);
        let object = || BTreeMap::from([("summary", &report)]);
        self.lines.put(out, object, |line| *line += &format!("\n{report}"))?;
        Ok(ViewEnd::default())
    }
}

/// A line for each violation, and a summary.
pub struct Findings<'a> {
    lines: Lines<'a>,
    checker: Checker,
    limit: u64,
    printed: BTreeMap<RuleId, u64>,
    /// Places where the file could not be read.
    holes: u64,
}

impl<'a> Findings<'a> {
    /// Writes at most `limit` lines for each rule.
    pub fn new(lines: Lines<'a>, checker: Checker, limit: u64) -> Findings<'a> {
        Findings { lines, checker, limit, printed: BTreeMap::new(), holes: 0 }
    }

    fn show(&mut self, out: &mut dyn Write) -> Result<()> {
        while let Some(finding) = self.checker.next_finding() {
            let count: &mut u64 = self.printed.entry(finding.violation.rule).or_default();
            *count += 1;
            if *count <= self.limit {
                let object = || JsonFinding(&finding);
                self.lines.put(out, object, |line| append_line(&finding, line))?;
            }
        }
        Ok(())
    }
}

impl View for Findings<'_> {
    fn see(&mut self, record: &Record<'_>, out: &mut dyn Write) -> Result<()> {
        self.holes += u64::from(matches!(record.kind, Kind::Bad(Bad::File(_))));
        self.checker.see(record);
        self.show(out)
    }

    fn finish(&mut self, out: &mut dyn Write) -> Result<ViewEnd> {
        self.checker.finish();
        self.show(out)?;
        let limit = self.limit;
        for (rule, count) in self.printed.iter().filter(|(_, count)| **count > limit && !self.lines.json) {
            let (more, name) = (count - limit, Rule::get(*rule).name);
            writeln!(out, "{more} more violations of {name}; --limit 0 prints all")?;
        }
        let summary = self.checker.summary();
        let object = || BTreeMap::from([("summary", &summary)]);
        self.lines.put(out, object, |line| *line += &summary.to_string())?;
        // Why a check without violations does not prove that the trace is correct.
        let why = match (summary.tlps, self.holes) {
            (0, _) => Some("no TLP was judged"),
            (_, 0) => None,
            _ => Some("the file is cut or damaged: only the TLPs that could be read were judged"),
        };
        Ok(ViewEnd { note: why.map(str::to_owned), has_failed: summary.violations > 0 || why.is_some() })
    }
}

/// Each TLP with its fields, their meaning, and the rules that it breaks.
pub struct Explanations {
    json: bool,
    names: Names,
    text: String,
    /// Number of TLPs and lines that could not be read so far.
    pub unread: u64,
}

impl Explanations {
    /// Writes JSON objects instead of text if `json` is true.
    pub fn new(json: bool, names: Names) -> Explanations {
        Explanations { json, names, text: String::new(), unread: 0 }
    }

    /// Appends a record without a header to explain.
    fn append_line(&mut self, record: &Record<'_>) {
        match self.json {
            true => render::json(record, &mut self.text),
            false => render::line(record, &mut self.text),
        }
        self.text.push('\n');
    }
}

impl View for Explanations {
    fn see(&mut self, record: &Record<'_>, out: &mut dyn Write) -> Result<()> {
        let meaning = self.names.see(record);
        self.text.clear();
        match (Explanation::of(record, meaning.as_ref()), &record.kind) {
            (Some(explanation), _) => {
                self.unread += u64::from(!explanation.is_read());
                match self.json {
                    true => explanation.append_json(record, &mut self.text)?,
                    false => explanation.append_text(record, &mut self.text),
                }
            }
            (None, Kind::Bad(_)) => {
                self.unread += 1;
                self.append_line(record);
            }
            (None, Kind::Other(Other::LoggedError)) => {
                self.append_line(record);
                if let (false, Some(line)) = (self.json, record.text) {
                    self.text += &format!("  {:<16} {}\n\n", "logged with", line.note);
                }
            }
            _ => {}
        }
        out.write_all(self.text.as_bytes())
    }

    fn finish(&mut self, _: &mut dyn Write) -> Result<ViewEnd> {
        Ok(ViewEnd { note: None, has_failed: self.unread > 0 })
    }
}
