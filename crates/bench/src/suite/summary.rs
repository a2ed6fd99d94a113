// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Summary of a run of a suite: as JSON, as text and as a page.

use super::{Machine, Outcome, Suite};
use crate::figures;
use crate::results::{ResultSet, ResultsError};
use lab::profile::Basis;
use plug::counted;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Formatter};
use std::path::Path;
use view::report::PageContent;

/// Summary of a run.
#[derive(Serialize)]
pub struct Summary<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    /// The weakest basis of the profile figures behind all experiments, and the basis of each experiment.
    basis: Option<Basis>,
    experiments_basis: BTreeMap<&'static str, Basis>,
    folder: &'a Path,
    configurations: Vec<&'a str>,
    rows_measured: usize,
    samples: u64,
    experiments_written: usize,
    experiments_kept: usize,
    experiments_left: usize,
}

impl Summary<'_> {
    /// Returns the summary of the run of `suite` with this outcome.
    pub fn new<'a>(suite: &'a Suite, outcome: &Outcome) -> Summary<'a> {
        let bases = suite.bases();
        Summary {
            warnings: suite.warnings(),
            basis: bases.iter().map(|(_, basis)| *basis).max(),
            experiments_basis: bases.into_iter().collect(),
            folder: &suite.folder,
            configurations: suite.machines.iter().map(|m| m.name.as_str()).collect(),
            rows_measured: outcome.rows,
            samples: outcome.samples,
            experiments_written: outcome.written,
            experiments_kept: outcome.kept,
            experiments_left: outcome.left,
        }
    }
}

impl Display for Summary<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let bases: Vec<_> = self.experiments_basis.iter().map(|(name, basis)| (*name, *basis)).collect();
        write!(
            f,
            "{}: {}, {} written, {} kept; {} of {}; basis: {}",
            self.folder.display(),
            counted(self.configurations.len(), "configuration"),
            counted(self.experiments_written, "experiment"),
            self.experiments_kept,
            counted(self.rows_measured, "row"),
            counted(self.samples, "sample"),
            Basis::in_words(&bases)
        )
    }
}

impl Suite {
    /// Returns each warning about extrapolated profile figures once.
    pub fn warnings(&self) -> Vec<String> {
        let all: BTreeSet<String> = self.machines.iter().flat_map(Machine::warnings).collect();
        all.into_iter().collect()
    }

    /// Returns the page with all results in the suite's folder.
    ///
    /// # Errors
    /// Results that cannot be read.
    pub fn page(&self) -> Result<PageContent, ResultsError> {
        let results = ResultSet::read(&self.folder)?;
        let names: Vec<&str> = self.machines.iter().map(|m| m.name.as_str()).collect();
        let mut notes = vec![
            format!("Simulated: {}.", names.join(", ")),
            format!("Basis of the figures: {}.", Basis::in_words(&self.bases())),
        ];
        notes.extend(self.warnings().iter().map(|line| format!("Warning: {line}.")));
        Ok(figures::page("pcie-bench on riser", notes, Vec::new(), &results, None))
    }
}
