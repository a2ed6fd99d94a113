// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The end of a command: a line on standard error and an exit status. Prints to standard output only for help and version.

use crate::{Failure, output};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;

const DONE: u8 = 0;
const RUN_FAILED: u8 = 1;
const WRONG_USAGE: u8 = 2;
/// 128 plus the number of SIGINT, as in a shell.
const INTERRUPTED: u8 = 130;

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
