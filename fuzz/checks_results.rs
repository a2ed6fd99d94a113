// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of the readers of result files for any bytes. The fuzz target and the tests of `riser-bench` call them on
//! every seed. A failed check panics.

use riser_bench::results::{ResultsError, parse_distributions, parse_table, write};
use std::path::Path;

/// Reads the bytes as a table and as distributions. An error message names the file and an existing line. Accepted content
/// is the same when written and read again. Returns whether the bytes are a valid file of either kind.
pub(crate) fn results(bytes: &[u8]) -> bool {
    let path = Path::new("fuzz.csv");
    let table = match parse_table(path, bytes) {
        Ok(rows) => {
            if let Some(first) = rows.first().filter(|_| rows.iter().all(|r| r.value().is_finite())) {
                let latency = first.key.test.is_latency();
                assert!(rows.iter().all(|r| r.key.test.is_latency() == latency));
                let again = parse_table(path, write::table(&rows).as_bytes()).unwrap();
                assert_eq!(again.len(), rows.len());
                assert!(again.iter().zip(&rows).all(|(a, b)| a.key == b.key && a.value() == b.value()));
            }
            !rows.is_empty()
        }
        Err(error) => refused(&error, bytes),
    };
    let series = match parse_distributions(path, bytes) {
        Ok(series) => {
            assert!(series.iter().all(|s| !s.is_empty() && s.is_sorted_by(|a, b| a.share <= b.share)));
            !series.is_empty()
        }
        Err(error) => refused(&error, bytes),
    };
    table || series
}

fn refused(error: &ResultsError, bytes: &[u8]) -> bool {
    assert!(error.to_string().starts_with("fuzz.csv") && !error.message.is_empty());
    let lines = bytes.iter().filter(|b| **b == b'\n').count() as u64 + 1;
    assert!(error.line.is_none_or(|line| (1..=lines).contains(&line)), "{error}");
    false
}
