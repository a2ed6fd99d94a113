// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of the capture reader for any bytes. The fuzz target and the tests of `riser-capture` call them on every
//! seed. A failed check panics.

use riser_capture::check::{self, Checker, FunctionOverrides};
use riser_capture::credits::Ledgers;
use riser_capture::series::Series;
use riser_capture::transactions::{Summary, append_json, append_line};
use riser_capture::{Reader, Stats, Tracker, Transaction, encap, perfetto, render};

/// Reads, decodes, counts and renders the bytes in every way. A capture has no more records than bytes. Returns the number
/// of frames and of errors, or `None` if the bytes are not a capture.
pub(crate) fn capture(bytes: &[u8]) -> Option<(u64, u64)> {
    let _ = encap::parse(bytes, bytes.len());
    let mut reader = Reader::new(bytes).ok()?;
    let (mut stats, mut text, mut records) = (Stats::new(), String::new(), 0);
    let (mut tracker, mut summary) = (Tracker::new(), Summary::new());
    let mut series = Series::new(None, Ledgers::new());
    let mut checker = Checker::new(FunctionOverrides::default());
    let mut trace = perfetto::Writer::new(Vec::new(), None).expect("memory");
    let mut requests = 0;
    let mut end = |t: Transaction| {
        append_line(&t, 12, &mut String::new());
        append_json(&t, &mut String::new());
        summary.add(&t);
        requests += u64::from(t.packets() > t.completions + t.retries);
    };
    while let Some(record) = reader.next_record().expect("memory") {
        stats.add(&record);
        checker.see(&record);
        tracker.see(&record, 0);
        std::iter::from_fn(|| tracker.next_ended()).for_each(&mut end);
        series.add(&record).expect("an automatic interval");
        trace.see(&record).expect("memory");
        render::line(&record, &mut text);
        render::json(&record, &mut text);
        text.clear();
        records += 1;
    }
    assert!(records <= bytes.len());
    tracker.finish();
    std::iter::from_fn(|| tracker.next_ended()).for_each(end);
    checker.finish();
    let mut violations = 0;
    while let Some(finding) = checker.next_finding() {
        text.clear();
        check::append_line(&finding, &mut text);
        check::append_json(&finding, &mut text);
        assert!(text.ends_with('}'));
        violations += 1;
    }
    assert_eq!(checker.summary().violations, violations);
    let report = stats.report();
    // Every request is one transaction.
    let counts = tracker.matcher().counts();
    assert!(requests <= counts.requests + counts.posted, "{requests} of {counts:?}");
    assert!(requests + counts.repeats + counts.untracked >= counts.requests + counts.posted, "{counts:?}");
    assert!(!summary.report(&tracker).to_string().is_empty());
    text += &series.report(None).csv();
    let trace = trace.finish().expect("memory");
    assert!(trace.ends_with(b"]}\n"));
    assert!(!report.to_string().is_empty());
    Some((report.frames, report.error_total))
}
