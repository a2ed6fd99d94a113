// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The complete suite of pcie-bench on any number of machines, as folders and files of the public format.
//!
//! Each row is a separate lab. Its seed depends only on the suite's seed and the place of the row, so the files are
//! the same for any number of jobs. A file is written atomically after all its rows are measured. [`RECORD`] lists the
//! results of a folder. A repeated suite keeps results with the same parameters, and changes only its own files.
//!
//! This module reads no wall clock, and does not look into a fabric.

mod figures;
mod folder;
mod machine;
mod machines;
mod measure;
mod rule;
mod run;
mod select;
mod summary;

pub use crate::results::RECORD;
pub use folder::SuiteError;
pub use machine::Machine;
pub use rule::Rule;
pub use run::{Extra, Outcome, Progress, Suite};
pub use select::{SelectError, select};
pub use summary::Summary;

use crate::BenchError;
use crate::experiments::Key;
use crate::results::{CdfPoint, ResultRow};
use std::sync::atomic::AtomicBool;

/// Measures one row on `machine`, without a suite.
///
/// # Errors
/// The lab cannot be built, or its run failed.
pub fn measure_row(machine: &Machine, key: Key, rule: &Rule, seed: u64) -> Result<ResultRow, BenchError> {
    measure(&measure::Task { machine, key, rule, detail: false, seed }).map(|m| m.row)
}

/// Measures one row of latencies on `machine` with its distribution and [`Rule::detail_factor`] times as many samples, without a suite.
///
/// # Errors
/// The lab cannot be built, or its run failed.
pub(crate) fn measure_distribution(
    machine: &Machine,
    key: Key,
    rule: &Rule,
    seed: u64,
) -> Result<(ResultRow, Vec<CdfPoint>), BenchError> {
    let measured = measure(&measure::Task { machine, key, rule, detail: true, seed })?;
    let distribution = measured.histogram.distribution();
    Ok((measured.row, distribution))
}

fn measure(task: &measure::Task<'_>) -> Result<measure::Measured, BenchError> {
    task.measure(&AtomicBool::new(false))?.ok_or_else(|| BenchError::Cancelled.at(task.key))
}
