// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The complete suite of pcie-bench on any number of machines, as folders and files of the public format.
//!
//! Each row is a lab of its own, with a seed that depends on nothing but the suite's seed and the row's place; so the
//! files are the same for any number of jobs. A file is written when all its rows are measured, and in one step: it is
//! there whole or not at all. What a folder holds is recorded beside the files ([`RECORD`]); a suite that is run again
//! keeps what was measured with the same parameters, and touches no file that is not its own.
//!
//! No wall clock is read here, and no fabric looked into.

mod figures;
mod folder;
mod machine;
mod measure;
mod rule;
mod run;

pub use crate::results::RECORD;
pub use folder::SuiteError;
pub use machine::Machine;
pub use rule::Rule;
pub use run::{Extra, Outcome, Progress, Suite};

use crate::BenchError;
use crate::experiments::Key;
use crate::results::ResultRow;
use std::sync::atomic::AtomicBool;

/// Measures one row on `machine`, apart from any suite.
///
/// # Errors
/// Where there is no such lab, or its run failed.
pub fn measure_row(machine: &Machine, key: Key, rule: &Rule, seed: u64) -> Result<ResultRow, BenchError> {
    let task = measure::Task { machine, key, rule, detail: false, seed };
    let measured = task.measure(&AtomicBool::new(false))?;
    measured.map(|m| m.row).ok_or_else(|| BenchError::Cancelled.at(key))
}
