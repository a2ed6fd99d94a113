// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables of where transactions spent their time. Never computes any of it.

use crate::failure::Failure;
use crate::output;
use lab::transactions::PartsReport;

/// A row: what stands before the figures, the latency, and its parts.
pub(crate) type Row = (Vec<String>, f64, PartsReport);

/// The latency and the parts in nanoseconds, behind the columns of `head`. Parts that no row has are left out.
pub(crate) fn table(head: &[&str], rows: Vec<Row>) -> Result<(), Failure> {
    let spent = |n: usize| rows.iter().any(|(_, _, parts)| parts.columns()[n].1 > 0.0);
    let Some((_, _, first)) = rows.first() else { return Ok(()) };
    let columns = first.columns();
    let shown: Vec<usize> = (0..columns.len()).filter(|n| spent(*n)).collect();
    let names = shown.iter().map(|n| columns[*n].0);
    let header: Vec<&str> = head.iter().copied().chain(["latency"]).chain(names).collect();
    let text = |(head, latency, parts): Row| {
        let columns = parts.columns();
        let figures = [latency].into_iter().chain(shown.iter().map(|n| columns[*n].1));
        head.into_iter().chain(figures.map(|ns| format!("{ns:.1}"))).collect()
    };
    output::table(&header, rows.into_iter().map(text))
}
