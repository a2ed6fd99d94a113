// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of measurements, fits and comparisons.

use lab::BuildError;
use model::ModelError;
use plug::profile::ProfileError;
use plug::values::ValueError;
use std::fmt::Display;
use thiserror::Error;

/// Error of a measurement, a fit or a comparison.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum BenchError {
    /// The caller cancelled the work.
    #[error("cancelled")]
    Cancelled,
    /// The closed form rejected a value.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A value of the link is invalid.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// A profile could not be read, written or changed.
    #[error("{0}")]
    Profile(String),
    /// An unknown name; the text lists the known names.
    #[error("{0}")]
    Unknown(String),
    /// An error with its place: a file, a row or a configuration.
    #[error("{place}: {error}")]
    At {
        /// The place.
        place: String,
        /// The error at this place.
        error: Box<BenchError>,
    },
    /// A lab could not be built, its run failed, or it measured too little.
    #[error("{0}")]
    Run(String),
}

impl BenchError {
    /// Adds the place of the error.
    pub(crate) fn at(self, place: impl Display) -> BenchError {
        BenchError::At { place: place.to_string(), error: Box::new(self) }
    }
}

impl From<ProfileError> for BenchError {
    fn from(error: ProfileError) -> BenchError {
        BenchError::Profile(error.to_string())
    }
}

impl From<BuildError> for BenchError {
    fn from(error: BuildError) -> BenchError {
        BenchError::Run(error.to_string())
    }
}

impl From<String> for BenchError {
    fn from(text: String) -> BenchError {
        BenchError::Run(text)
    }
}

impl From<&str> for BenchError {
    fn from(text: &str) -> BenchError {
        BenchError::Run(text.to_owned())
    }
}
