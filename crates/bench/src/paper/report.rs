// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result of an experiment as data, without layout.

use super::table::{Chart, Table};
use super::verdict::Verdict;
use lab::profile::Basis;
use serde::Serialize;

/// The result of an experiment.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct ExperimentReport {
    /// Name of the experiment.
    pub experiment: &'static str,
    /// Its subject.
    pub title: &'static str,
    /// Paper, and the place in it.
    pub source: &'static str,
    /// Weakest basis of its host profiles' figures. The notes give the basis of the devices.
    pub basis: Option<Basis>,
    /// True if software was measured on this machine, so that results differ from run to run.
    pub is_measured_here: bool,
    /// Comparison with the paper.
    pub verdict: Verdict,
    /// Lab files with varied settings, relative to the project.
    pub labs: Vec<&'static str>,
    /// The tables.
    pub tables: Vec<Table>,
    /// Notes on the figures, one paragraph each.
    pub notes: Vec<String>,
    /// A chart of the same values, if there is one.
    #[serde(skip)]
    pub chart: Option<Chart>,
}

impl ExperimentReport {
    /// Returns the verdict in one line; `None` if nothing is compared.
    pub fn line(&self) -> Option<String> {
        let line = self.verdict.line()?;
        Some(if self.is_measured_here { format!("on this machine: {line}") } else { line })
    }
}
