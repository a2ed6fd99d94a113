// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads files of results in the public format and in the native format. The files are untrusted: reading never panics and never guesses. A malformed number is
//! an error with line and column, a missing column an error of the first line.

use super::number::{parse, parse_integer};
use super::sheet::{self, is_sheet};
use super::write::{BANDWIDTH, KEY, LATENCY};
use super::{
    BandwidthFigures, CdfPoint, Figures, LatencyFigures, RECORD, ResultRow, ResultSet, Spread, Tables,
};
use crate::experiments::{Key, UnknownName};
use csv::StringRecord;
use lab::profile::Basis;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Size limit of a file, in bytes.
pub const MAX_BYTES: u64 = 64 << 20;
/// Row limit of a table. (Points of a distribution are limited by the file size only.)
pub const MAX_ROWS: usize = 100_000;
/// Limit on the entries of a folder.
pub const MAX_FILES: usize = 4096;

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
    const LATENCY_CYCLES: Measurable = Measurable::new(0.0, 1e10, "0 to 10^10 cycles");
    /// Range of a bandwidth in Gb/s, from the least that a file shows to far above any link.
    pub(super) const GBPS: Measurable = Measurable::new(1e-6, 1e5, "10^-6 to 10^5 Gb/s");
    /// Range of the time of a test in nanoseconds: eleven days.
    const TIME_NS: Measurable = Measurable::new(0.0, 1e15, "0 to 10^15 ns");
    /// Range of the time of a test in cycles.
    const TIME_CYCLES: Measurable = Measurable::new(0.0, 1e16, "0 to 10^16 cycles");
    /// Range of transfers per second.
    const RATE: Measurable = Measurable::new(0.0, 1e12, "0 to 10^12 per second");

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
    fn whole(path: &Path, message: impl Display) -> ResultsError {
        ResultsError { path: path.into(), line: None, message: message.to_string() }
    }
}

impl ResultSet {
    /// Reads `path`: the folder of one configuration, a folder of such folders, a file in the native format, or a folder
    /// that contains such files. In folders, only `.csv` files are read. Files `_hist.csv` and `_ts.csv` are skipped,
    /// because they hold no further results. Folders without results are left out.
    ///
    /// # Errors
    /// The first file that cannot be read or has neither format, or a folder without results.
    pub fn read(path: &Path) -> Result<ResultSet, ResultsError> {
        let mut set = ResultSet::default();
        if path.is_file() {
            set.add_sheet(path, &bytes_of(path)?)?;
            return Ok(set);
        }
        let own = set.add_folder(path)?;
        if !own.is_empty() {
            set.configurations.insert(name_of(path), own);
        }
        if !set.configurations.is_empty() {
            return Ok(set);
        }
        for folder in entries(path)?.into_iter().filter(|p| p.is_dir()) {
            let tables = set.add_folder(&folder)?;
            if !tables.is_empty() {
                set.configurations.insert(name_of(&folder), tables);
            }
        }
        if set.configurations.is_empty() {
            let why = "no results: looked for results.csv, EXPERIMENT.csv and CONFIGURATION/EXPERIMENT.csv";
            return Err(ResultsError::whole(path, why));
        }
        Ok(set)
    }

    /// Adds the configurations of a file in the native format.
    fn add_sheet(&mut self, path: &Path, bytes: &[u8]) -> Result<(), ResultsError> {
        if !is_sheet(&check_header(path, bytes)?) {
            let why = "one experiment of pcie-bench's form: give its folder, whose name is the configuration";
            return Err(ResultsError::whole(path, why));
        }
        for (name, tables) in sheet::parse(path, bytes)? {
            if self.configurations.contains_key(&name) {
                let why = format!("an earlier file has results of {name} too: merge both into one");
                return Err(ResultsError::whole(path, why));
            }
            self.configurations.insert(name, tables);
        }
        Ok(())
    }

    /// Reads the files of one folder. Files of the public form make up one configuration, which may be empty.
    fn add_folder(&mut self, folder: &Path) -> Result<Tables, ResultsError> {
        let mut tables = Tables::default();
        for path in entries(folder)? {
            let name = path.file_name().and_then(|n| n.to_str()).and_then(|n| n.strip_suffix(".csv"));
            let Some(name) = name else { continue };
            if name.ends_with("_hist") || name.ends_with("_ts") || !path.is_file() {
                continue;
            }
            let bytes = bytes_of(&path)?;
            match name.strip_suffix("_cdf") {
                Some(of) => {
                    tables.distributions.insert(of.to_owned(), parse_distributions(&path, &bytes)?);
                }
                None if is_sheet(&check_header(&path, &bytes)?) => self.add_sheet(&path, &bytes)?,
                None => {
                    tables.experiments.insert(name.to_owned(), parse_table(&path, &bytes)?);
                }
            }
        }
        if !tables.is_empty()
            && let Some(record) = record(&folder.join(RECORD))?
        {
            let known = |name: &String| tables.experiments.contains_key(name);
            let own = record.experiments.iter().filter(|(name, _)| known(name));
            tables.basis = own.filter_map(|(_, experiment)| experiment.basis).max();
            tables.machine = Some(record.machine);
        }
        Ok(tables)
    }
}

impl Tables {
    /// Returns true if there is no table of any experiment.
    pub fn is_empty(&self) -> bool {
        self.experiments.is_empty()
    }
}

/// The part of a folder's record with the machine and the basis of the results.
#[derive(Deserialize)]
struct Record {
    machine: BTreeMap<String, String>,
    experiments: BTreeMap<String, RecordedExperiment>,
}

#[derive(Deserialize)]
struct RecordedExperiment {
    basis: Option<Basis>,
}

fn record(path: &Path) -> Result<Option<Record>, ResultsError> {
    if !path.is_file() {
        return Ok(None);
    }
    let read = serde_json::from_slice::<Record>(&bytes_of(path)?);
    read.map(Some).map_err(|e| ResultsError::whole(path, format!("not a record of a suite: {e}")))
}

fn name_of(folder: &Path) -> String {
    let name = |p: &Path| p.file_name().map(|n| n.to_string_lossy().into_owned());
    name(folder)
        .or_else(|| fs::canonicalize(folder).ok().and_then(|p| name(&p)))
        .unwrap_or_else(|| "results".into())
}

/// Returns the entries of a folder, sorted by name.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, ResultsError> {
    let said = |e: std::io::Error| ResultsError::whole(folder, e);
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(said)? {
        if paths.len() == MAX_FILES {
            return Err(ResultsError::whole(folder, format!("more than {MAX_FILES} entries")));
        }
        paths.push(entry.map_err(said)?.path());
    }
    paths.sort();
    Ok(paths)
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, ResultsError> {
    let said = |e: std::io::Error| ResultsError::whole(path, e);
    let mut bytes = Vec::new();
    fs::File::open(path).map_err(said)?.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(said)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(ResultsError::whole(path, format!("larger than {MAX_BYTES} bytes")));
    }
    Ok(bytes)
}

/// Parses the rows of an experiment. `path` is used only in errors.
///
/// # Errors
/// The first line that does not follow the format.
pub fn parse_table(path: &Path, bytes: &[u8]) -> Result<Vec<ResultRow>, ResultsError> {
    let mut rows = Vec::new();
    check_header(path, bytes)?;
    each_line(path, bytes, |line| {
        line.check_rows(rows.len())?;
        rows.push(row(line)?);
        Ok(())
    })?;
    Ok(rows)
}

/// Parses the distributions of an experiment's rows, in the order of the rows. `path` is used only in errors. A new distribution starts when the share of
/// samples falls.
///
/// # Errors
/// The first line that does not follow the format.
pub fn parse_distributions(path: &Path, bytes: &[u8]) -> Result<Vec<Vec<CdfPoint>>, ResultsError> {
    let mut series: Vec<Vec<CdfPoint>> = Vec::new();
    each_line(path, bytes, |line| {
        let point = CdfPoint {
            cycles: line.measured("cycles", Measurable::LATENCY_CYCLES)?,
            ns: line.measured("ns", Measurable::LATENCY_NS)?,
            share: line.float("cdf")?,
        };
        if point.share > 1.0 {
            return Err(line.error(format!("cdf {}: expected 0 to 1", point.share)));
        }
        match series.last_mut() {
            Some(last) if last.last().is_none_or(|p| p.share <= point.share) => last.push(point),
            _ => series.push(vec![point]),
        }
        Ok(())
    })?;
    Ok(series)
}

/// Returns the columns of `wanted` that the header lacks.
pub(super) fn lacking(
    header: &StringRecord,
    wanted: impl IntoIterator<Item = &'static str>,
) -> Vec<&'static str> {
    let has = |column: &&str| header.iter().any(|name| name.trim() == *column);
    wanted.into_iter().filter(|column| !has(column)).collect()
}

/// Checks that the header has all columns of one of the two forms, and returns it.
fn check_header(path: &Path, bytes: &[u8]) -> Result<StringRecord, ResultsError> {
    let mut reader = csv::Reader::from_reader(bytes);
    let header = reader.headers().map_err(|e| said(path, bytes, &e))?.clone();
    let (form, missing) = match is_sheet(&header) {
        true => ("the form of `riser bench -o`", sheet::missing_columns(&header)),
        false => ("pcie-bench's form", published_columns(&header)),
    };
    if missing.is_empty() {
        return Ok(header);
    }
    let names: Vec<String> = missing.iter().map(|name| format!("`{name}`")).collect();
    let message = format!("missing columns {} of {form}", names.join(", "));
    Err(ResultsError { path: path.into(), line: Some(1), message })
}

/// Returns the columns that a file of the public form lacks. A file with any latency column that bandwidths lack counts
/// as latencies.
fn published_columns(header: &StringRecord) -> Vec<&'static str> {
    let figures = |columns: &'static str| lacking(header, columns.split(','));
    let (latency, bandwidth) = (figures(LATENCY), figures(BANDWIDTH));
    let is_latency = latency.len() < LATENCY.split(',').count();
    let mut missing = lacking(header, KEY.split(','));
    missing.extend(if is_latency { latency } else { bandwidth });
    missing
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
    let header = reader.headers().map_err(|e| said(path, bytes, &e))?.clone();
    let mut fields = StringRecord::new();
    while reader.read_record(&mut fields).map_err(|e| said(path, bytes, &e))? {
        take(&Line { path, bytes, header: &header, fields: &fields })?;
    }
    Ok(())
}

/// Converts an error of the CSV reader to a message of one line.
fn said(path: &Path, bytes: &[u8], error: &csv::Error) -> ResultsError {
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
    fn error(&self, message: String) -> ResultsError {
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

    fn named<T: FromStr<Err = UnknownName>>(&self, column: &str) -> Result<T, ResultsError> {
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

    fn float(&self, column: &str) -> Result<f64, ResultsError> {
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

fn row(line: &Line<'_>) -> Result<ResultRow, ResultsError> {
    let key = Key {
        test: line.named("Test")?,
        pattern: line.named("PAT")?,
        cache: line.named("Cache")?,
        host_offset_bytes: line.small("HO")?,
        device_offset_bytes: line.small("DO")?,
        window_bytes: line.integer("WinSZ")?,
        size_bytes: line.small("SZ")?,
    };
    if key.test.is_latency() != line.has("Med(ns)") {
        let of = if key.test.is_latency() { "Med(ns)" } else { "BW (GB/s)" };
        return Err(
            line.error(format!("{} in a file for other tests: its figures have a column `{of}`", key.test))
        );
    }
    let figures = match key.test.is_latency() {
        true => Figures::Latency(latency(line)?),
        false => Figures::Bandwidth(bandwidth(line)?),
    };
    Ok(ResultRow { key, figures })
}

fn latency(line: &Line<'_>) -> Result<LatencyFigures, ResultsError> {
    Ok(LatencyFigures {
        cycles: spread(line, "", Measurable::LATENCY_CYCLES)?,
        ns: Spread {
            median: line.measured("Med(ns)", Measurable::MEDIAN_NS)?,
            ..spread(line, "(ns)", Measurable::LATENCY_NS)?
        },
        outliers: line.integer("#outliers")?,
        samples: line.integer("#samples")?,
    })
}

fn spread(line: &Line<'_>, unit: &str, legal: Measurable) -> Result<Spread, ResultsError> {
    let of = |name: &str| line.measured(&format!("{name}{unit}"), legal);
    Ok(Spread {
        elapsed: of("TAvg")?,
        mean: of("Avg")?,
        median: of("Med")?,
        min: of("Min")?,
        max: of("Max")?,
        p95: of("95%")?,
        p999: of("99.9%")?,
    })
}

fn bandwidth(line: &Line<'_>) -> Result<BandwidthFigures, ResultsError> {
    Ok(BandwidthFigures {
        cycles: line.measured("Time(cyc)", Measurable::TIME_CYCLES)?,
        ns: line.measured("Time", Measurable::TIME_NS)?,
        bytes: line.integer("Bytes")?,
        transactions: line.integer("Trans")?,
        gbps: line.measured("BW (GB/s)", Measurable::GBPS)?,
        transactions_per_s: line.measured("Trans/s", Measurable::RATE)?,
    })
}
