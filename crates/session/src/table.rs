// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables as text, as reports and commands show them. Never prints.

use crate::transactions::PartsReport;
use comfy_table::{CellAlignment, Table, presets};

/// A row of [`parts`]: what stands before the figures, the latency in nanoseconds, and its parts.
pub type PartsRow = (Vec<String>, f64, PartsReport);

/// A table of numbers: columns to the right, no borders, no line's end behind the last row.
pub fn numbers<R>(header: &[&str], rows: R) -> String
where
    R: IntoIterator<Item = Vec<String>>,
{
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header.to_vec()).add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

/// Where transactions spent their time: latency and parts in nanoseconds, behind the columns of `head`. Parts that no row
/// has are left out; without rows there is no table.
pub fn parts(head: &[&str], rows: Vec<PartsRow>) -> Option<String> {
    let spent = |n: usize| rows.iter().any(|(_, _, parts)| parts.columns()[n].1 > 0.0);
    let columns = rows.first()?.2.columns();
    let shown: Vec<usize> = (0..columns.len()).filter(|n| spent(*n)).collect();
    let names = shown.iter().map(|n| columns[*n].0);
    let header: Vec<&str> = head.iter().copied().chain(["latency"]).chain(names).collect();
    let cells = |(head, latency, parts): PartsRow| {
        let columns = parts.columns();
        let figures = [latency].into_iter().chain(shown.iter().map(|n| columns[*n].1));
        head.into_iter().chain(figures.map(|ns| format!("{ns:.1}"))).collect()
    };
    Some(numbers(&header, rows.into_iter().map(cells)))
}
