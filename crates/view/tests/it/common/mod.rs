// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Helpers of the tests: pages of captures, a browser, and captures.
pub(crate) mod exchange;
pub(crate) mod generate;
pub(crate) mod report;
pub(crate) mod tree;
pub(crate) mod types;

use capture::{Filter, Reader, Record, Tracker, Transaction};
use riser_view::TracePage;
use std::fs::File;
use std::io::Cursor;
use std::path::{Path, PathBuf};

/// Returns the paths of the published NetTLP captures. If they are not available, prints this and returns no paths.
pub(crate) fn nettlp_captures() -> Vec<PathBuf> {
    let Some(data) = testkit::shared_data("nettlp-captures") else { return Vec::new() };
    let mut found = Vec::new();
    for folder in ["p4600", "root-complex", "simple-nic", "x520"] {
        let Ok(entries) = std::fs::read_dir(data.join(folder)) else { continue };
        found.extend(
            entries.map(|entry| entry.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "pcap")),
        );
    }
    found.sort();
    found
}

/// Calls `see` with each record of a capture.
pub(crate) fn for_each_record(bytes: &[u8], mut see: impl FnMut(&Record<'_>)) {
    let mut reader = Reader::new(Cursor::new(bytes)).unwrap();
    while let Some(record) = reader.next_record().unwrap() {
        see(&record);
    }
}

/// Returns the page of a capture.
pub(crate) fn page(title: &str, bytes: &[u8]) -> Vec<u8> {
    let mut page = TracePage::new(title);
    for_each_record(bytes, |record| page.record(record));
    let mut out = Vec::new();
    page.write(&mut out).unwrap();
    out
}

/// Writes the page of a capture to a file for a test.
pub(crate) fn page_file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.html"));
    let mut page = TracePage::new(name);
    for_each_record(bytes, |record| page.record(record));
    page.write(File::create(&path).unwrap()).unwrap();
    path
}

/// Returns the number of records that pass a filter, as `riser trace --filter` counts them.
pub(crate) fn count(bytes: &[u8], filter: &str) -> u64 {
    let filter: Filter = filter.parse().unwrap_or_else(|e| panic!("{e}"));
    let (mut tracker, mut count) = (Tracker::new(), 0);
    for_each_record(bytes, |record| {
        let outcome = tracker.see(record, filter.terms(record));
        count += u64::from(filter.holds(record, &outcome));
        while tracker.next_ended().is_some() {}
    });
    count
}

/// Returns all transactions of a capture. With a filter, each transaction has the bits of the matching terms.
pub(crate) fn transactions(bytes: &[u8], filter: Option<&Filter>) -> Vec<Transaction> {
    let (mut tracker, mut all) = (Tracker::new(), Vec::new());
    for_each_record(bytes, |record| {
        tracker.see(record, filter.map_or(0, |filter| filter.terms(record)));
        all.extend(std::iter::from_fn(|| tracker.next_ended()));
    });
    tracker.finish();
    all.extend(std::iter::from_fn(|| tracker.next_ended()));
    all
}
