// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A capture as one self-contained page: `riser trace --html`.
//!
//! [`TracePage`] takes records one by one. It keeps their data as columns, deflated in chunks of [`CHUNK_ROWS`].
//! This takes about 10 bytes per record, plus payloads up to a limit. The page contains the chunks, its own script
//! and style, and plotly.js. The script starts after the first chunk, so the first rows are visible while the
//! browser still reads the rest.
//!
//! | in the page | content |
//! |---|---|
//! | `meta`, JSON | shared data: interfaces, paths, texts, the table of formats ([`Meta`](tables::Meta)) |
//! | chunks | records as [`columns`]: zlib in base64 |
//! | payloads | data bytes of TLPs up to a [limit](payload): zlib in base64, unpacked when needed |
//! | plotly.js | zlib in base64; becomes a script when the first plot is drawn |
//!
//! A Content-Security-Policy forbids all requests. Untrusted text enters the page's markup only through escaping (`page.rs`),
//! or as JSON in which `<` is written `\u003c`.

pub mod columns;
pub(crate) mod page;
pub mod payload;
pub mod tables;

use capture::DeviceRegisters;
use capture::check::{Checker, FunctionOverrides};
use capture::{Kind, Mark, Names, Outcome, Record, TlpRecord, Tracker};
use columns::{Columns, Row};
use payload::Payloads;
use serde::Serialize;
use std::fmt::Write as _;
use std::io::{self, Write};
use tables::Tables;
use tlp::Body;
use tlp::message::name_of;

pub use columns::CHUNK_ROWS;

/// Maximum number of records in a page. Further records are only counted, and the page shows their number.
pub const MAX_ROWS: u64 = 4_000_000;

/// Maximum number of violations in a page. Further violations are only counted.
pub const MAX_VIOLATIONS: usize = 10_000;

/// The violations that `riser trace --check` finds in the capture.
#[derive(Default, Serialize)]
pub struct Violations {
    /// The first [`MAX_VIOLATIONS`] violations, in the order of discovery.
    list: Vec<Violation>,
    /// Number of all violations.
    count: u64,
}

#[derive(Serialize)]
struct Violation {
    /// Number of the record that breaks the rule.
    number: u64,
    text: String,
}

impl Violations {
    fn take(&mut self, checker: &mut Checker) {
        while let Some(found) = checker.next_finding() {
            self.count += 1;
            if self.list.len() < MAX_VIOLATIONS {
                self.list.push(Violation { number: found.number, text: found.violation.to_string() });
            }
        }
    }
}

/// Builds the page of a capture.
///
/// ```
/// # fn page(path: &str) -> Result<(), Box<dyn std::error::Error>> {
/// let mut page = riser_view::TracePage::new(path);
/// let mut reader = capture::open(path)?;
/// while let Some(record) = reader.next_record()? {
///     page.record(&record);
/// }
/// page.write(std::fs::File::create("trace.html")?)?;
/// # Ok(())
/// # }
/// ```
pub struct TracePage {
    title: String,
    columns: Columns,
    tables: Tables,
    tracker: Tracker,
    names: Names,
    checker: Checker,
    violations: Violations,
    /// Meaning of the current record.
    means: String,
    chunks: Vec<Vec<u8>>,
    payloads: Payloads,
    rows: u64,
    hidden: u64,
}

impl TracePage {
    /// Returns an empty page. `title` is for example the capture's file name.
    pub fn new(title: &str) -> TracePage {
        TracePage {
            title: title.to_owned(),
            columns: Columns::new(),
            tables: Tables::new(),
            tracker: Tracker::new(),
            names: Names::new(DeviceRegisters::default()),
            checker: Checker::new(FunctionOverrides::default()),
            violations: Violations::default(),
            means: String::new(),
            chunks: Vec::new(),
            payloads: Payloads::default(),
            rows: 0,
            hidden: 0,
        }
    }

    /// Makes the page name the registers of the devices in `devices`.
    #[must_use]
    pub fn naming(self, devices: DeviceRegisters) -> TracePage {
        TracePage { names: Names::new(devices), ..self }
    }

    /// Adds a record. After [`MAX_ROWS`] records, it is only counted.
    pub fn record(&mut self, record: &Record<'_>) {
        if self.rows == MAX_ROWS {
            self.hidden += 1;
            return;
        }
        self.checker.see(record);
        self.violations.take(&mut self.checker);
        let row = self.row(record);
        self.means.clear();
        if let Some(meaning) = self.names.see(record) {
            // Writing to a string cannot fail.
            let _ = write!(self.means, "{meaning}");
        }
        self.columns.push(&row, &self.means);
        self.rows += 1;
        if self.columns.rows() == CHUNK_ROWS {
            self.chunks.push(self.columns.take_packed());
        }
    }

    /// Returns the number of records that the page shows.
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the number of records after [`MAX_ROWS`], which the page only counts.
    pub const fn hidden(&self) -> u64 {
        self.hidden
    }

    /// Writes the page.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(mut self, out: impl Write) -> io::Result<()> {
        if self.columns.rows() > 0 {
            self.chunks.push(self.columns.take_packed());
        }
        if self.hidden == 0 {
            self.checker.finish();
            self.violations.take(&mut self.checker);
        }
        let (shares, payloads) = self.payloads.finish();
        let counts = self.tracker.matcher().counts();
        let meta = self.tables.meta(&self.title, self.rows, self.hidden, counts, shares, self.violations);
        page::write(&self.title, &meta, &self.chunks, &payloads, out)
    }

    fn row(&mut self, record: &Record<'_>) -> Row {
        let mut row = Row {
            number: record.number,
            time_ps: self.tables.since_start(record),
            interface: record.interface.map_or(0, |interface| self.tables.interface(interface)),
            path: record.path.as_ref().map_or(0, |path| self.tables.path(path)),
            captured: record.captured_len as u32,
            original: record.original_len as u32,
            kind: mark_bits(record.mark),
            place: record.mark.place.map_or(0, |place| place.saturating_add(1)),
            ..Row::default()
        };
        if let Some(header) = record.path.and_then(|path| path.nettlp) {
            (row.sequence, row.stamp) = (header.sequence, header.timestamp);
        }
        put_outcome(&self.tracker.see(record, 0), &mut row);
        // Ended transactions are not needed, because the outcomes of their records are in the rows.
        while self.tracker.next_ended().is_some() {}
        match &record.kind {
            Kind::Tlp(tlp) => self.tlp(tlp, &mut row),
            Kind::Dllp(dllp) => {
                row.kind |= columns::DLLP;
                let [a, b, c, d, e, f] = dllp.emit();
                row.header[0] = u32::from_be_bytes([a, b, c, d]);
                row.header[1] = u32::from_be_bytes([0, 0, e, f]);
                row.text = self.tables.text(capture::render::dllp_name(dllp));
            }
            Kind::Other(other) => {
                row.kind |= columns::OTHER;
                row.text = self.tables.text_or(&other.to_string(), "neither TLP nor DLLP");
            }
            Kind::Bad(bad) => {
                row.kind |= columns::BAD;
                row.text = self.tables.text_or(&format!("{}: {bad}", bad.layer()), bad.kind());
            }
        }
        row
    }

    fn tlp(&mut self, tlp: &TlpRecord<'_>, row: &mut Row) {
        let mut bytes = [0; 16];
        let len = tlp.repr.emit(&mut bytes);
        for (dw, of) in row.header.iter_mut().zip(bytes[..len].chunks_exact(4)) {
            *dw = u32::from_be_bytes([of[0], of[1], of[2], of[3]]);
        }
        row.kind |= columns::TLP | kind_bits(tlp);
        row.held = tlp.data.len() as u32;
        self.payloads.push(self.rows, tlp.data);
        row.text = self.beside(tlp);
    }

    /// Returns the index of a text with a TLP's prefixes (eight digits each) and the name of a message; 0 for most
    /// TLPs, which have neither.
    fn beside(&mut self, tlp: &TlpRecord<'_>) -> u32 {
        let name = match &tlp.repr.body {
            Body::Message(message) => name_of(message),
            _ => None,
        };
        let prefixes = tlp.prefixes.as_slice();
        if prefixes.is_empty() {
            return name.map_or(0, |name| self.tables.text(name));
        }
        let digits = prefixes.iter().map(|prefix| format!("{:08x}", prefix.0));
        let text: Vec<String> = digits.chain(name.map(str::to_owned)).collect();
        self.tables.text_or(&text.join(" "), name.unwrap_or("prefixes"))
    }
}

/// Builds and writes the page of all records of `reader`.
///
/// # Errors
/// Those of the reader and of `out`.
pub fn trace_page<R: io::Read>(
    title: &str,
    reader: &mut capture::Reader<R>,
    out: impl Write,
) -> io::Result<()> {
    let mut page = TracePage::new(title);
    while let Some(record) = reader.next_record()? {
        page.record(&record);
    }
    page.write(out)
}

fn mark_bits(mark: Mark) -> u8 {
    let bits = [(mark.damaged, columns::DAMAGED), (mark.dropped, columns::DROPPED)];
    bits.into_iter().filter(|(is, _)| *is).fold(0, |sum, (_, bit)| sum | bit)
}

fn kind_bits(tlp: &TlpRecord<'_>) -> u8 {
    let bits = [
        (tlp.origin == capture::Origin::Host, columns::HOST),
        (!tlp.prefixes.is_empty(), columns::PREFIXED),
        (tlp.ecrc.is_some(), columns::ECRC),
        (tlp.ecrc == Some(capture::Ecrc::Bad), columns::BAD_ECRC),
    ];
    bits.into_iter().filter(|(is, _)| *is).fold(0, |sum, (_, bit)| sum | bit)
}

fn put_outcome(outcome: &Outcome, row: &mut Row) {
    let cut = |ps: u128| u64::try_from(ps).unwrap_or(u64::MAX);
    let bits = [outcome.replay, outcome.taken, outcome.probe];
    row.outcome = bits.iter().rev().fold(outcome.errors.bits(), |all, bit| all << 1 | u16::from(*bit));
    row.back = outcome.request.map_or(0, |request| row.number.saturating_sub(request));
    row.forwards = outcome.forwards.map_or(0, |first| row.number.saturating_sub(first));
    row.response_ps = outcome.response_ps.map(cut);
    row.first_data_ps = outcome.first_data_ps.map(cut);
}
