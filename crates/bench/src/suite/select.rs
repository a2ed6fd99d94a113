// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Selects experiments of the suites by name. Measures nothing.

use crate::experiments::{EXPERIMENTS, Experiment};
use thiserror::Error;

/// The reason why no experiments are selected.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SelectError {
    /// There is no suite or experiment of this name.
    #[error("no experiment `{0}`: there are full, short, {names}", names = names())]
    Suite(String),
    /// There is no experiment of this name.
    #[error("no experiment `{0}`: there are {names}", names = names())]
    Experiment(String),
    /// The suite has none of these experiments.
    #[error("--experiments {}: the suite has no such experiment", .0.join(","))]
    NotInSuite(Vec<String>),
}

fn names() -> String {
    EXPERIMENTS.map(|e| e.name).join(", ")
}

/// Returns the experiments of `suite`, in the suite's order: names of experiments, `full` or `short`. If `only` is not empty, it
/// restricts them to these names.
///
/// # Errors
/// A name is unknown, or no experiment remains.
pub fn select(suite: &[String], only: &[String]) -> Result<Vec<&'static Experiment>, SelectError> {
    let known = |name: &str| name == "full" || name == "short" || Experiment::named(name).is_some();
    if let Some(name) = suite.iter().find(|name| !known(name)) {
        return Err(SelectError::Suite(name.clone()));
    }
    if let Some(name) = only.iter().find(|name| Experiment::named(name).is_none()) {
        return Err(SelectError::Experiment(name.clone()));
    }
    let in_suite =
        |e: &Experiment| suite.iter().any(|s| s == "full" || s == "short" && e.short || s == e.name);
    let is_wanted = |e: &Experiment| only.is_empty() || only.iter().any(|o| o == e.name);
    let wanted: Vec<&Experiment> = EXPERIMENTS.iter().filter(|e| in_suite(e) && is_wanted(e)).collect();
    if wanted.is_empty() { Err(SelectError::NotInSuite(only.to_vec())) } else { Ok(wanted) }
}
