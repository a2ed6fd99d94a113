// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result of an experiment as data and as text.

use super::table::{Chart, Table};
use super::verdict::{Outcome, Verdict};
use lab::profile::Basis;
use serde::Serialize;
use session::table::numbers;
use std::fmt::{Display, Formatter, Result};

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

impl Display for ExperimentReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}: ", self.experiment)?;
        if let Some(line) = self.line() {
            writeln!(f, "{line}")?;
        }
        write!(f, "{} ({})", self.title, self.source)?;
        if !self.labs.is_empty() {
            write!(f, "\nvaries {}", self.labs.join(", "))?;
        }
        if let Some(basis) = self.basis {
            write!(f, "\nbasis of the hosts' figures: {}", basis.name())?;
        }
        for table in self.verdict.tables().iter().chain(&self.tables) {
            let header: Vec<&str> = table.columns.iter().map(|column| column.head).collect();
            let rows = table.rows.iter().map(|row| row.iter().map(|cell| cell.text()).collect());
            write!(f, "\n\n{}\n{}", table.title, numbers(&header, rows))?;
        }
        self.notes.iter().try_for_each(|note| write!(f, "\n\n{}", folded(note)))
    }
}

/// Counts the reports by outcome.
pub fn summary(reports: &[ExperimentReport]) -> String {
    let count = |outcome: &Outcome| reports.iter().filter(|r| r.verdict.outcome == *outcome).count();
    let counts: Vec<String> = Outcome::ALL
        .iter()
        .map(|outcome| (count(outcome), outcome.name()))
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    format!("{} experiments: {}", reports.len(), counts.join(", "))
}

/// Maximum number of characters in a line of notes.
const LINE: usize = 110;

/// Wraps `text` to lines of at most [`LINE`] characters, unless a word is longer.
fn folded(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let full =
            lines.last().is_some_and(|l| !l.is_empty() && l.chars().count() + word.chars().count() >= LINE);
        if full {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
    }
    lines.join("\n")
}
