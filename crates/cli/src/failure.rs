// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reasons why commands do not complete.

use bench::BenchError;
use bench::ask::AskError;
use lab::BuildError;
use std::fmt::Display;
use std::io;

/// Reason why a command did not complete.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An argument is invalid, including `--set`; exit status 2.
    Usage(String),
    /// The run failed, or a file cannot be read or has an error; exit status 1.
    Run(String),
    /// Ctrl-C arrived before the end. The text tells how much the command has done; exit status 130.
    Interrupted(String),
    /// A command that riser ran ended with this status, and has printed its own error.
    Command(u8),
    /// The reader of the output has closed it (`riser ... | head`). Ends the command, but is not an error.
    ReaderLeft,
}

impl Failure {
    /// Ctrl-C at this virtual time in nanoseconds.
    pub(crate) fn interrupted_at(ns: f64) -> Failure {
        Failure::Interrupted(format!("interrupted after {:.3} us of virtual time", ns / 1_000.0))
    }

    /// A failed run.
    pub(crate) fn run(why: impl Display) -> Failure {
        Failure::Run(why.to_string())
    }

    /// Invalid arguments.
    pub(crate) fn usage(why: impl Display) -> Failure {
        Failure::Usage(why.to_string())
    }
}

impl From<AskError> for Failure {
    fn from(error: AskError) -> Failure {
        match error {
            AskError::Wrong(why) => Failure::Usage(why),
            AskError::Profile(why) => Failure::Run(why),
        }
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Failure {
        Failure::run(error)
    }
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Failure {
        Failure::Run(error.to_string())
    }
}

impl From<files::Error> for Failure {
    fn from(error: files::Error) -> Failure {
        match error {
            files::Error::Usage(why) => Failure::Usage(why),
            files::Error::File(why) => Failure::Run(why),
            files::Error::Interrupted(why) => Failure::Interrupted(why),
            files::Error::ReaderLeft => Failure::ReaderLeft,
        }
    }
}

impl From<vm::Error> for Failure {
    fn from(error: vm::Error) -> Failure {
        match error {
            vm::Error::Option(why) => Failure::Usage(why),
            vm::Error::Stopped => Failure::Interrupted("interrupted while parts were fetched".to_owned()),
            error => Failure::run(error),
        }
    }
}

/// Only output errors are converted from a plain `io::Error`. Code that reads a file names the file in a [`Failure::Run`].
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        files::Error::from(error).into()
    }
}
