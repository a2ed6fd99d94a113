// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines of CSV files with results, with the columns and the ranges that both formats share.

use super::number::{parse, parse_integer};
use crate::experiments::UnknownName;
use csv::StringRecord;
use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Row limit of a table. (Points of a distribution are limited by the file size only.)
pub const MAX_ROWS: usize = 100_000;

/// Range of a plausible figure. Values outside are mistakes.
#[derive(Clone, Copy)]
pub(super) struct Measurable {
    least: f64,
    most: f64,
    /// The range in the words of messages.
    shown: &'static str,
}

impl Measurable {
    /// Range of a median latency in nanoseconds: from a picosecond to a second, as for profile figures.
    pub(super) const MEDIAN_NS: Measurable = Measurable::new(1e-3, 1e9, "0.001 to 10^9 ns");
    /// Range of other latencies. These values are not compared, and 0 means not measured.
    pub(super) const LATENCY_NS: Measurable = Measurable::new(0.0, 1e9, "0 to 10^9 ns");
    /// Range of latencies in cycles, for a card of up to 10 GHz.
    pub(super) const LATENCY_CYCLES: Measurable = Measurable::new(0.0, 1e10, "0 to 10^10 cycles");
    /// Range of a bandwidth in Gb/s, from the least that a file shows to far above any link.
    pub(super) const GBPS: Measurable = Measurable::new(1e-6, 1e5, "10^-6 to 10^5 Gb/s");
    /// Range of the time of a test in nanoseconds: eleven days.
    pub(super) const TIME_NS: Measurable = Measurable::new(0.0, 1e15, "0 to 10^15 ns");
    /// Range of the time of a test in cycles.
    pub(super) const TIME_CYCLES: Measurable = Measurable::new(0.0, 1e16, "0 to 10^16 cycles");
    /// Range of transfers per second.
    pub(super) const RATE: Measurable = Measurable::new(0.0, 1e12, "0 to 10^12 per second");

    const fn new(least: f64, most: f64, shown: &'static str) -> Measurable {
        Measurable { least, most, shown }
    }
}

/// Fault in a file or folder of results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResultsError {
    /// The file or folder.
    pub path: PathBuf,
    /// The line, from 1; `None` if the fault concerns the whole file or folder.
    pub line: Option<u64>,
    /// The fault, and the content that was expected.
    pub message: String,
}

impl Display for ResultsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ResultsError { path, line, message } = self;
        match line {
            Some(line) => write!(f, "{}:{line}: {message}", path.display()),
            None => write!(f, "{}: {message}", path.display()),
        }
    }
}

impl std::error::Error for ResultsError {}

impl ResultsError {
    pub(super) fn whole(path: &Path, message: impl Display) -> ResultsError {
        ResultsError { path: path.into(), line: None, message: message.to_string() }
    }
}

/// Returns the columns of `wanted` that the header lacks.
pub(super) fn lacking(
    header: &StringRecord,
    wanted: impl IntoIterator<Item = &'static str>,
) -> Vec<&'static str> {
    let has = |column: &&str| header.iter().any(|name| name.trim() == *column);
    wanted.into_iter().filter(|column| !has(column)).collect()
}

/// A line of a file, with the context for errors.
pub(super) struct Line<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    header: &'a StringRecord,
    fields: &'a StringRecord,
}

pub(super) fn each_line(
    path: &Path,
    bytes: &[u8],
    mut take: impl FnMut(&Line<'_>) -> Result<(), ResultsError>,
) -> Result<(), ResultsError> {
    let mut reader = csv::Reader::from_reader(bytes);
    let header = reader.headers().map_err(|e| csv_error(path, bytes, &e))?.clone();
    let mut fields = StringRecord::new();
    while reader.read_record(&mut fields).map_err(|e| csv_error(path, bytes, &e))? {
        take(&Line { path, bytes, header: &header, fields: &fields })?;
    }
    Ok(())
}

/// Converts an error of the CSV reader to a message of one line.
pub(super) fn csv_error(path: &Path, bytes: &[u8], error: &csv::Error) -> ResultsError {
    let line = line_number(bytes, error.position());
    let message = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("{len} fields: the first line has {expected_len}")
        }
        csv::ErrorKind::Utf8 { .. } => "not UTF-8".into(),
        _ => error.to_string(),
    };
    ResultsError { path: path.into(), line, message }
}

/// Returns the line of a record, from 1. The reader's own count is one too low for lines that end in CR LF, because it
/// counts LF as the start of the next record.
fn line_number(bytes: &[u8], position: Option<&csv::Position>) -> Option<u64> {
    let before = usize::try_from(position?.byte()).ok()?;
    let ends = bytes.get(before..)?.iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
    Some(bytes[..before + ends].iter().filter(|b| **b == b'\n').count() as u64 + 1)
}

impl Line<'_> {
    pub(super) fn error(&self, message: String) -> ResultsError {
        let line = line_number(self.bytes, self.fields.position());
        ResultsError { path: self.path.into(), line, message }
    }

    /// Returns true if the line repeats the header.
    pub(super) fn repeats_header(&self) -> bool {
        self.fields == self.header
    }

    /// # Errors
    /// The file has more rows than allowed.
    pub(super) fn check_rows(&self, rows: usize) -> Result<(), ResultsError> {
        match rows < MAX_ROWS {
            true => Ok(()),
            false => Err(self.error(format!("more than {MAX_ROWS} rows"))),
        }
    }

    pub(super) fn has(&self, column: &str) -> bool {
        self.header.iter().any(|name| name.trim() == column)
    }

    pub(super) fn text(&self, column: &str) -> Result<&str, ResultsError> {
        let at = self.header.iter().position(|name| name.trim() == column);
        let field = at.and_then(|at| self.fields.get(at));
        field.map(str::trim).ok_or_else(|| self.error(format!("no column `{column}`")))
    }

    fn bad(&self, column: &str, text: &str, legal: &str) -> ResultsError {
        let shown: String = text.chars().take(40).collect();
        self.error(format!("{column} `{shown}`: {legal}"))
    }

    pub(super) fn named<T: FromStr<Err = UnknownName>>(&self, column: &str) -> Result<T, ResultsError> {
        self.text(column)?.parse().map_err(|e| self.error(format!("{column} {e}")))
    }

    /// Returns the value of the word in the column.
    pub(super) fn one_of<T: Copy>(&self, column: &str, words: &[(&str, T)]) -> Result<T, ResultsError> {
        let text = self.text(column)?;
        let found = words.iter().find(|(word, _)| *word == text);
        let legal = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        found.map(|(_, value)| *value).ok_or_else(|| self.bad(column, text, &format!("expected {}", legal())))
    }

    /// Returns true if the column exists and its field is not empty.
    pub(super) fn is_given(&self, column: &str) -> Result<bool, ResultsError> {
        Ok(self.has(column) && !self.text(column)?.is_empty())
    }

    /// Returns the figure in a column. Figures outside of the range `legal` are errors.
    pub(super) fn measured(&self, column: &str, legal: Measurable) -> Result<f64, ResultsError> {
        let text = self.text(column)?;
        let found = parse(text).filter(|figure| (legal.least..=legal.most).contains(figure));
        found.ok_or_else(|| self.bad(column, text, &format!("expected {}", legal.shown)))
    }

    pub(super) fn float(&self, column: &str) -> Result<f64, ResultsError> {
        let text = self.text(column)?;
        parse(text).ok_or_else(|| self.bad(column, text, "expected numbers from 0"))
    }

    pub(super) fn integer(&self, column: &str) -> Result<u64, ResultsError> {
        let text = self.text(column)?;
        parse_integer(text).ok_or_else(|| self.bad(column, text, "expected whole numbers from 0"))
    }

    pub(super) fn small(&self, column: &str) -> Result<u32, ResultsError> {
        let value = self.integer(column)?;
        let legal = || format!("expected 0 to {}", u32::MAX);
        u32::try_from(value).map_err(|_| self.bad(column, &value.to_string(), &legal()))
    }
}
