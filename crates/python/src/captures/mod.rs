// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Captures as tables. `riser-capture` reads and filters files; this module converts the records to columns.
//!
//! - [`columns`]: columns that grow, and batches. - [`stream`]: a capture read batch by batch.
//! - [`tlps`], [`transactions`], [`others`]: conversion of records to rows. - [`reading`]: options of the reader. - [`scan`]: a first pass over
//!   a file.

mod columns;
mod others;
mod reading;
mod scan;
mod series;
mod stream;
mod tlps;
mod transactions;

use crate::error::{self, CaptureError};
use crate::progress::ProgressWatch;
use crate::table::Table;
use capture::check::{Checker, FunctionOverrides, append_json};
use capture::credits::Ledgers;
use capture::{Bad, Filter, Kind, ReadOptions, Record, Sieve, Stats, Timestamp};
use columns::Batch;
use pyo3::prelude::*;
use reading::Reading;
use scan::Scan;
use std::path::PathBuf;
use stream::{Batches, Rows};

/// Records between two looks at what goes on outside.
const SLICE: u64 = 65_536;

/// Start of the times of a table.
#[derive(Clone, Copy)]
struct Clock {
    epoch_ps: u128,
}

impl Clock {
    /// Picoseconds since the epoch of the capture; `None` more than 106 days before or after it, the range of 64 bits.
    fn ps(self, time: Timestamp) -> Option<i64> {
        let (time, epoch) = (time.as_ps(), self.epoch_ps);
        if time >= epoch {
            i64::try_from(time - epoch).ok()
        } else {
            i64::try_from(epoch - time).ok().map(|ps| -ps)
        }
    }
}

/// A capture: a scanned file, and a filter.
#[pyclass(frozen, module = "riser._riser")]
pub(crate) struct Capture {
    path: PathBuf,
    options: ReadOptions,
    filter: Option<Filter>,
    /// A part of the file that cannot be read is an error.
    strict: bool,
    vc_of_tc: Option<[u8; 8]>,
    scan: Scan,
}

#[pymethods]
impl Capture {
    /// Scans the file once. TLPs are read when a table is read.
    #[new]
    #[pyo3(signature = (path, filter, strict, vc_of_tc, reading, /))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        filter: Option<&str>,
        strict: bool,
        vc_of_tc: Option<[u8; 8]>,
        reading: Reading,
    ) -> PyResult<Capture> {
        let options = reading.options()?;
        let filter = filter.map(|text| text.parse::<Filter>().map_err(error::of_filter)).transpose()?;
        let scan = py.detach(|| Scan::of(&path, &options, strict))?;
        Ok(Capture { path, options, filter, strict, vc_of_tc, scan })
    }

    /// Frames of the file.
    #[getter]
    fn frames(&self) -> u64 {
        self.scan.frames
    }

    /// Format of the file.
    #[getter]
    fn read_as(&self) -> &str {
        &self.scan.taken_for
    }

    /// Start of `time_ps`, picoseconds since 1970.
    #[getter]
    fn epoch_ps(&self) -> u128 {
        self.scan.epoch_ps
    }

    fn tlps(&self) -> Table {
        self.table(|of| tlps::Tlps::new(of.sieve(), of.clock()))
    }

    fn transactions(&self) -> Table {
        self.table(|of| transactions::Transactions::new(of.filter.clone(), of.clock()))
    }

    fn credits(&self) -> Table {
        self.table(|of| others::Credits::new(of.sieve(), of.ledgers(), of.clock()))
    }

    fn errors(&self) -> Table {
        self.table(|of| others::Errors::new(of.sieve(), of.clock()))
    }

    /// Returns the output of `riser trace --stats --json`.
    fn stats(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| {
            let (mut stats, mut sieve) = (Stats::new(), self.of().sieve());
            self.each(|record| {
                if sieve.keeps(record) {
                    stats.add(record);
                } else {
                    stats.pass(record);
                }
                Ok(())
            })?;
            serde_json::to_string(&stats.report()).map_err(error::internal)
        })
    }

    /// The length of an interval, and the tables of links, outstanding requests and credits.
    #[pyo3(signature = (interval_ps, speed_bps, /))]
    fn series(
        &self,
        py: Python<'_>,
        interval_ps: Option<u64>,
        speed_bps: Option<u64>,
    ) -> PyResult<(u128, Table, Table, Table)> {
        py.detach(|| {
            let mut series = ::capture::series::Series::new(interval_ps, self.of().ledgers());
            let mut sieve = self.of().sieve();
            self.each(|record| match sieve.keeps(record) {
                true => series.add(record).map_err(|why| CaptureError::new_err(self.with_path(&why))),
                false => {
                    series.pass(record);
                    Ok(())
                }
            })?;
            series::tables(&series.report(speed_bps), self.of().clock())
        })
    }

    /// Returns violations and the summary, each as in `riser trace --check --json`. Judges all records, regardless of the filter.
    #[pyo3(signature = (given, /))]
    fn check(&self, py: Python<'_>, given: Vec<(String, u32)>) -> PyResult<String> {
        let mut settings = FunctionOverrides::default();
        for (name, value) in given {
            settings.set(&name, &value.to_string()).map_err(|wrong| error::argument(wrong.to_string()))?;
        }
        py.detach(|| {
            let (mut checker, mut violations) = (Checker::new(settings), String::new());
            let take = |checker: &mut Checker, violations: &mut String| {
                while let Some(finding) = checker.next_finding() {
                    violations.push_str(if violations.is_empty() { "" } else { "," });
                    append_json(&finding, violations);
                }
            };
            self.each(|record| {
                checker.see(record);
                take(&mut checker, &mut violations);
                Ok(())
            })?;
            checker.finish();
            take(&mut checker, &mut violations);
            let summary = serde_json::to_string(&checker.summary()).map_err(error::internal)?;
            Ok(format!(r#"{{"violations":[{violations}],"summary":{summary}}}"#))
        })
    }

    /// Returns the page of `riser trace --html` with at most `most` records, and the number of omitted records.
    #[pyo3(signature = (most, /))]
    fn page(&self, py: Python<'_>, most: u64) -> PyResult<(String, u64)> {
        py.detach(|| {
            let title = self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy();
            let mut page = view::TracePage::new(&title).naming(worlds::models().registers());
            let (mut sieve, mut left_out) = (self.of().sieve(), 0);
            self.each(|record| {
                if sieve.keeps(record) {
                    if page.rows() < most {
                        page.record(record);
                    } else {
                        left_out += 1;
                    }
                }
                Ok(())
            })?;
            let mut html = Vec::new();
            page.write(&mut html).map_err(error::internal)?;
            Ok((String::from_utf8(html).map_err(error::internal)?, left_out))
        })
    }
}

/// Data that a view needs of a capture.
#[derive(Clone)]
struct Of {
    filter: Option<Filter>,
    vc_of_tc: Option<[u8; 8]>,
    epoch_ps: u128,
}

impl Of {
    fn sieve(&self) -> Sieve {
        Sieve::new(self.filter.clone())
    }

    fn ledgers(&self) -> Ledgers {
        self.vc_of_tc.map_or_else(Ledgers::new, Ledgers::with_map)
    }

    fn clock(&self) -> Clock {
        Clock { epoch_ps: self.epoch_ps }
    }
}

impl Capture {
    fn of(&self) -> Of {
        Of { filter: self.filter.clone(), vc_of_tc: self.vc_of_tc, epoch_ps: self.scan.epoch_ps }
    }

    /// Returns a table that reads the file when the table is read.
    fn table<R: Rows + 'static>(&self, rows: impl Fn(&Of) -> R + Send + Sync + 'static) -> Table {
        let (path, options, of, strict) = (self.path.clone(), self.options.clone(), self.of(), self.strict);
        Table::lazy(R::Batch::schema(), move || {
            let batches = Batches::open(&path, &options, rows(&of), strict).map_err(error::of_opening)?;
            Ok(Box::new(batches))
        })
    }

    /// Calls `see` with every record of the file.
    fn each(&self, mut see: impl FnMut(&Record<'_>) -> PyResult<()>) -> PyResult<()> {
        let mut reader = capture::open_with(&self.path, &self.options).map_err(error::of_opening)?;
        let (mut watch, mut seen) = (ProgressWatch::new(None), 0_u64);
        while let Some(record) = reader.next_record().map_err(|e| error::in_file(&self.path, &e))? {
            match &record.kind {
                Kind::Bad(Bad::File(fault)) if self.strict => {
                    return Err(error::of_fault(&self.path, fault));
                }
                _ => see(&record)?,
            }
            seen += 1;
            if seen.is_multiple_of(SLICE) {
                watch.look(|| (format!("{seen} records"), None))?;
            }
        }
        Ok(())
    }

    fn with_path(&self, why: &impl std::fmt::Display) -> String {
        format!("{}: {why}", self.path.display())
    }
}
