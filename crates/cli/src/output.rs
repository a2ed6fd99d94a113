// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables and JSON on standard output. Every write can fail, so that a closed pipe ends a command quietly; `println!`,
//! which panics there, is never used.

use crate::failure::Failure;
use serde::Serialize;
use std::io::{self, Write};

/// One JSON object, readable, and a line's end.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from)?;
    Ok(writeln!(out)?)
}

/// Text, and a line's end.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    Ok(writeln!(io::stdout().lock(), "{text}")?)
}

/// A table of numbers.
pub(crate) fn table<R>(header: &[&str], rows: R) -> Result<(), Failure>
where
    R: IntoIterator<Item = Vec<String>>,
{
    text(&lab::table::numbers(header, rows))
}
