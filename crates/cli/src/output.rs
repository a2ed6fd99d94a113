// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints tables and JSON on standard output, or on standard error if a file goes to standard output. Every write can fail, so that a
//! closed pipe ends a command without an error message. `println!` and `eprintln!` would panic, and are never used.

use crate::Failure;
use files::{Outputs, is_diverted};
use serde::Serialize;
use session::report::RefusalReport;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use worlds::machine::Watch;

/// Stream that reports go to.
pub(crate) fn stream() -> Box<dyn Write> {
    match is_diverted() {
        true => Box::new(io::stderr().lock()),
        false => Box::new(io::stdout().lock()),
    }
}

/// Starts to claim the files that a command writes. With `force`, existing files may be overwritten.
pub(crate) fn files(force: bool) -> Outputs {
    Outputs::new(force, |line| note(line))
}

/// Refuses `-` as a folder. The message ends with `instead`, another way to print the output.
pub(crate) fn refuse_standard(folder: &Path, instead: &str) -> Result<(), Failure> {
    match files::input::is_standard(folder) {
        true => Err(Failure::usage(format!("-o -: expected a folder; {instead}"))),
        false => Ok(()),
    }
}

/// Starts to report events of machines, or with `quiet` their errors, on standard error.
pub(crate) fn watch(quiet: bool) -> Watch {
    Watch::new(|line| note(line), quiet)
}

/// Prints a value as indented JSON and a newline.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    // Written in one piece, because standard error has no buffer.
    text(&serde_json::to_string_pretty(value).map_err(io::Error::from)?)
}

/// Prints a report: as JSON, or as text unless that is empty.
pub(crate) fn report(as_json: bool, report: &(impl Serialize + Display)) -> Result<(), Failure> {
    match report.to_string() {
        _ if as_json => json(report),
        lines if lines.is_empty() => Ok(()),
        lines => text(&lines),
    }
}

/// Prints a JSON object with this one field.
pub(crate) fn json_of(field: &'static str, value: &impl Serialize) -> Result<(), Failure> {
    json(&BTreeMap::from([(field, value)]))
}

/// Prints text and a newline.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    Ok(writeln!(stream(), "{}", harmless(text))?)
}

/// Replaces control characters: text from other sources may contain terminal commands.
fn harmless(text: &str) -> Cow<'_, str> {
    let is_command = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    match text.contains(is_command) {
        true => text.replace(is_command, "\u{fffd}").into(),
        false => text.into(),
    }
}

/// Prints a table of numbers.
pub(crate) fn table<R>(header: &[&str], rows: R) -> Result<(), Failure>
where
    R: IntoIterator<Item = Vec<String>>,
{
    text(&session::table::numbers(header, rows))
}

/// Prints refused TLPs at the end of a command on standard error.
pub(crate) fn refusals(refusals: &[RefusalReport]) {
    RefusalReport::lines(refusals).for_each(note);
}

/// Prints one line per warning on standard error.
pub(crate) fn warn(warnings: &[String]) {
    for warning in warnings {
        note(format_args!("warning: {warning}"));
    }
}

/// Prints a line on standard error. Write errors are ignored: standard error may be closed, and the run continues.
pub(crate) fn note(text: impl Display) {
    aside(format_args!("riser: {text}"));
}

/// Prints text without the prefix `riser:` on standard error, such as a report during a run.
pub(crate) fn aside(text: impl Display) {
    let _ = writeln!(io::stderr(), "{}", harmless(&text.to_string()));
}
