// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables and JSON on standard output. Every write can fail, so that a closed pipe ends a command quietly; `println!`,
//! which panics there, is never used.

use crate::failure::Failure;
use comfy_table::{CellAlignment, Table, presets};
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

/// A table of numbers: columns to the right, no borders.
pub(crate) fn table<R>(header: &[&str], rows: R) -> Result<(), Failure>
where
    R: IntoIterator<Item = Vec<String>>,
{
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header.to_vec()).add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    text(&table.trim_fmt())
}
