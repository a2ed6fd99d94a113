// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables as text, for reports and commands.

use crate::transactions::PartsReport;
pub use capture::render::numbers;

/// A row of [`parts`]: the first columns, the latency in nanoseconds, and its parts.
pub type PartsRow = (Vec<String>, f64, PartsReport);

/// Returns a table of latencies and their parts in nanoseconds, after the columns of `head`. Parts that are zero in all
/// rows are omitted. `None` without rows.
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
