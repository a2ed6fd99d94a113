// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables as text.

use comfy_table::{CellAlignment, Table, presets};

/// Returns a table of numbers: right-aligned columns, no borders, no newline at the end.
pub fn numbers(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header.to_vec()).add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}
