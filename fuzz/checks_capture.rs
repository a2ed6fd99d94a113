// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What must hold for any bytes as a capture: called by the fuzz target, and by the tests of `riser-capture` on every
//! seed. What is broken panics.

use riser_capture::{Reader, Stats, encap, render};

/// Any bytes are read, decoded, counted and rendered, with no more records than bytes; gives the number of frames and of
/// errors, or `None` where they are no capture.
pub(crate) fn capture(bytes: &[u8]) -> Option<(u64, u64)> {
    let _ = encap::parse(bytes, bytes.len());
    let mut reader = Reader::new(bytes).ok()?;
    let (mut stats, mut text, mut records) = (Stats::new(), String::new(), 0);
    while let Some(record) = reader.next_record().expect("memory") {
        stats.add(&record);
        render::verbose_line(&record, &mut text);
        render::json(&record, &mut text);
        text.clear();
        records += 1;
    }
    assert!(records <= bytes.len());
    let report = stats.report();
    assert!(!report.to_string().is_empty());
    Some((report.frames, report.error_total))
}
