// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Failures of commands: a line on standard error and an exit status. Prints to standard output only for help and version.

use crate::output;
use bench::BenchError;
use bench::ask::AskError;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;
use std::fmt::Display;
use std::io;

const DONE: u8 = 0;
const RUN_FAILED: u8 = 1;
const WRONG_USAGE: u8 = 2;
/// 128 plus the number of SIGINT, as in a shell.
const INTERRUPTED: u8 = 130;

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

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Failure {
        Failure::Run(error.to_string())
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
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ReaderLeft,
            _ => Failure::Run(format!("standard output: {error}")),
        }
    }
}

/// Prints the reason, if there is one, and returns the exit status.
pub(crate) fn status(result: Result<(), Failure>) -> u8 {
    match result {
        Ok(()) | Err(Failure::ReaderLeft) => DONE,
        Err(Failure::Command(status)) => status,
        Err(Failure::Run(why)) => say(&why, RUN_FAILED),
        Err(Failure::Interrupted(done)) => say(&done, INTERRUPTED),
        Err(Failure::Usage(why)) => say(&why, WRONG_USAGE),
    }
}

/// Prints the message of clap. Help and version are no failures. All other cases are wrong usage.
pub(crate) fn refuse_arguments(error: &clap::Error, args: &[OsString]) -> u8 {
    if !error.use_stderr() {
        return status(error.print().map_err(Failure::from));
    }
    if let Some(why) = negative_value(error, args) {
        return say(&why, WRONG_USAGE);
    }
    let text = error.render().to_string();
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return say(&format!("no command given\n\n{}", text.trim_end()), WRONG_USAGE);
    }
    say(text.strip_prefix("error: ").unwrap_or(&text).trim_end(), WRONG_USAGE)
}

/// The error of a negative value with a unit, such as `--timeout -5ms`. The parser takes such a value for an option.
fn negative_value(error: &clap::Error, args: &[OsString]) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_it = |value: &str| {
        let is_negative =
            value.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        is_negative && value.starts_with(unknown.as_str())
    };
    let pair = |pair: &[OsString]| Some((pair[0].to_str()?.to_owned(), pair[1].to_str()?.to_owned()));
    let pairs = args.windows(2).filter_map(pair);
    let (option, value) =
        pairs.into_iter().find(|(option, value)| option.starts_with('-') && is_it(value))?;
    Some(format!("invalid value '{value}' for '{option}': expected a value that is not negative"))
}

fn say(why: &str, code: u8) -> u8 {
    // Messages may quote arguments of any length, so they are shortened.
    output::note(plug::file::brief(why));
    code
}
