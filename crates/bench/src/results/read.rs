// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads files of results in the public format and in the native format. The files are untrusted: reading never panics and never guesses. A malformed number is
//! an error with line and column, a missing column an error of the first line.

use super::line::{Line, Measurable, ResultsError, csv_error, each_line, lacking};
use super::sheet::{self, is_sheet};
use super::write::{BANDWIDTH, KEY, LATENCY};
use super::{
    BandwidthFigures, CdfPoint, Figures, LatencyFigures, RECORD, ResultRow, ResultSet, Spread, Tables,
};
use crate::experiments::Key;
use csv::StringRecord;
use lab::profile::Basis;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Size limit of a file, in bytes.
pub const MAX_BYTES: u64 = 64 << 20;
/// Limit on the entries of a folder.
pub const MAX_FILES: usize = 4096;

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
            if path.extension().is_some_and(|extension| extension == "json") {
                let why = "JSON, expected a table: give the folder, or its results.csv";
                return Err(ResultsError::whole(path, why));
            }
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
    let folder_error = |e: std::io::Error| ResultsError::whole(folder, e);
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(folder_error)? {
        if paths.len() == MAX_FILES {
            return Err(ResultsError::whole(folder, format!("more than {MAX_FILES} entries")));
        }
        paths.push(entry.map_err(folder_error)?.path());
    }
    paths.sort();
    Ok(paths)
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, ResultsError> {
    let file_error = |e: std::io::Error| ResultsError::whole(path, e);
    let mut bytes = Vec::new();
    fs::File::open(path)
        .map_err(file_error)?
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(file_error)?;
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

/// Checks that the header has all columns of one of the two forms, and returns it.
fn check_header(path: &Path, bytes: &[u8]) -> Result<StringRecord, ResultsError> {
    let mut reader = csv::Reader::from_reader(bytes);
    let header = reader.headers().map_err(|e| csv_error(path, bytes, &e))?.clone();
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
