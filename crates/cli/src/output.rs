// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables and JSON on standard output, or on standard error where a file goes to standard output. Every write can fail, so
//! that a closed pipe ends a command quietly; `println!` and `eprintln!`, which panic there, are never used.

use crate::failure::Failure;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// That standard output belongs to a file that the command writes.
static DIVERTED: AtomicBool = AtomicBool::new(false);

/// From now on reports go to standard error.
pub(crate) fn divert() {
    DIVERTED.store(true, Ordering::Relaxed);
}

/// Whether reports go to standard error.
pub(crate) fn is_diverted() -> bool {
    DIVERTED.load(Ordering::Relaxed)
}

/// Where reports go.
pub(crate) fn stream() -> Box<dyn Write> {
    match is_diverted() {
        true => Box::new(io::stderr().lock()),
        false => Box::new(io::stdout().lock()),
    }
}

/// Standard output as a file, for what is no report.
pub(crate) fn standard() -> io::Result<File> {
    io::stdout().as_fd().try_clone_to_owned().map(File::from)
}

/// One JSON object, readable, and a line's end.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    // Whole, since standard error has no buffer.
    text(&serde_json::to_string_pretty(value).map_err(io::Error::from)?)
}

/// One JSON object that has this one field.
pub(crate) fn json_of(field: &'static str, value: &impl Serialize) -> Result<(), Failure> {
    json(&BTreeMap::from([(field, value)]))
}

/// Text, and a line's end.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    Ok(writeln!(stream(), "{}", harmless(text))?)
}

/// Text of others may hold what a terminal takes for a command.
fn harmless(text: &str) -> Cow<'_, str> {
    let is_command = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    match text.contains(is_command) {
        true => text.replace(is_command, "\u{fffd}").into(),
        false => text.into(),
    }
}

/// A table of numbers.
pub(crate) fn table<R>(header: &[&str], rows: R) -> Result<(), Failure>
where
    R: IntoIterator<Item = Vec<String>>,
{
    text(&session::table::numbers(header, rows))
}

/// What is to be known of a result, a line each on standard error.
pub(crate) fn warn(warnings: &[String]) {
    for warning in warnings {
        note(format_args!("warning: {warning}"));
    }
}

/// A line on standard error. Where that has gone, as with a terminal, nobody is left to hear of it: what goes on goes on.
pub(crate) fn note(text: impl Display) {
    aside(format_args!("riser: {text}"));
}

/// Text on standard error that is no line of riser's own, as a report beside what goes on.
pub(crate) fn aside(text: impl Display) {
    let _ = writeln!(io::stderr(), "{}", harmless(&text.to_string()));
}
