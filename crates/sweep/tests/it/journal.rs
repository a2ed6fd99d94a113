// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Journals: written records are read back, records that are cut off are run again, and changes are detected.

use crate::common;
use crate::common::{GRID, finish, parquet, sweep};
use plug::profile::Basis;
use proptest::prelude::*;
use riser_sweep::journal::{self, Header, Start, written};
use riser_sweep::{Outcome, Record, RunError, RunningSweep, Value};
use std::fs;

fn records() -> impl Strategy<Value = Vec<Record>> {
    let value = prop_oneof![
        Just(None),
        any::<bool>().prop_map(|b| Some(Value::Boolean(b))),
        any::<i64>().prop_map(|n| Some(Value::Integer(n))),
        (prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO)
            .prop_map(|x| Some(Value::Float(x))),
        "\\PC{0,8}".prop_map(|s| Some(Value::Text(s))),
    ];
    let outcome = prop::sample::select(&Outcome::ALL[..]);
    let record = (0..1000u64, outcome, prop::collection::vec(value, 0..4), prop::option::of(".{0,12}"));
    prop::collection::vec(
        record.prop_map(|(point, outcome, metrics, error)| {
            let (basis, has_warnings) = ((point % 2 == 0).then_some(Basis::Fitted), point % 3 == 0);
            Record { point, outcome, metrics, error, basis, has_warnings }
        }),
        0..8,
    )
}

fn text_of(records: &[Record]) -> String {
    let header = written(&Header::new("f".into(), 1000));
    header + &records.iter().map(written).collect::<String>()
}

proptest! {
    /// Every bit of every number is preserved.
    #[test]
    fn written_records_are_read_back(records in records()) {
        let contents = journal::read(text_of(&records).as_bytes()).unwrap();
        prop_assert_eq!(contents.records, records);
    }

    /// A journal that is cut anywhere still has the complete lines before the cut, and nothing else.
    #[test]
    fn incomplete_last_line_is_ignored(records in records()) {
        let text = text_of(&records);
        let bytes = text.as_bytes();
        for len in 0..=bytes.len() {
            let contents = journal::read(&bytes[..len]).unwrap();
            let lines = bytes[..len].iter().filter(|b| **b == b'\n').count();
            prop_assert_eq!(&contents.records[..], &records[..lines.saturating_sub(1)]);
            prop_assert_eq!(contents.header.is_some(), lines > 0);
            prop_assert!(contents.whole_bytes <= len);
        }
    }

    /// In a journal with one changed bit, the changed line is found, or it is the last line and is ignored. A wrong
    /// record is never read. If the line end of the last line but one is lost, the last two lines become one line.
    #[test]
    fn changed_bits_are_detected(records in records(), at in any::<prop::sample::Index>(), bit in 0..8u32) {
        let mut bytes = text_of(&records).into_bytes();
        let at = at.index(bytes.len());
        let before_last = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at).nth_back(1);
        let lost = if before_last == Some(at) { 2 } else { 1 };
        bytes[at] ^= 1 << bit;
        match journal::read(&bytes) {
            Ok(contents) => prop_assert_eq!(&contents.records[..], &records[..records.len().saturating_sub(lost)]),
            Err((line, _)) => prop_assert!(line >= 1 && line <= records.len() + 1),
        }
    }
}

/// A sweep that ended anywhere, even within a line, continues and gives the same file. No point has two lines.
#[test]
fn sweep_continues_from_any_cut() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, cut) = (folder.path().join("whole"), folder.path().join("cut"));
    let sweep = sweep(GRID).unwrap();
    let mut run = RunningSweep::begin(&sweep, Some((&whole, Start::New))).unwrap();
    finish(&mut run, 9);
    let (wanted, bytes) = (parquet(&run), fs::read(&whole).unwrap());
    drop(run);
    for len in (0..bytes.len()).step_by(131) {
        fs::write(&cut, &bytes[..len]).unwrap();
        let mut run = RunningSweep::begin(&sweep, Some((&cut, Start::Resume))).unwrap();
        let kept = bytes[..len].iter().filter(|b| **b == b'\n').count().saturating_sub(1) as u64;
        assert_eq!((run.progress().recorded, run.progress().resumed), (kept, kept));
        finish(&mut run, 11);
        assert_eq!(parquet(&run), wanted);
        drop(run);
        let contents = journal::read(&fs::read(&cut).unwrap()).unwrap();
        let mut points: Vec<u64> = contents.records.iter().map(|record| record.point).collect();
        points.sort_unstable();
        assert_eq!(points, (0..60).collect::<Vec<_>>(), "cut at {len}");
    }
}

#[test]
fn foreign_journals_are_rejected_and_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let sweep = sweep(GRID).unwrap();
    let other = common::sweep(&GRID.replace("[1, 3, 5]", "[1, 3]")).unwrap();
    finish(&mut RunningSweep::begin(&other, Some((&path, Start::Resume))).unwrap(), 99);
    let before = fs::read(&path).unwrap();
    let refused = |start, says: &str| {
        let error = RunningSweep::begin(&sweep, Some((&path, start))).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    };
    refused(Start::New, "exists already: --resume continues it, --force replaces it");
    refused(Start::Resume, "is of another sweep");
    let held = RunningSweep::begin(&other, Some((&path, Start::Resume))).unwrap();
    refused(Start::Force, "is in use by another process");
    drop(held);
    assert_eq!(fs::read(&path).unwrap(), before);
    // A line in the middle.
    let mut damaged = before.clone();
    damaged[200] ^= 1;
    fs::write(&path, &damaged).unwrap();
    let error = RunningSweep::begin(&other, Some((&path, Start::Resume))).unwrap_err();
    assert!(
        matches!(error, RunError::Journal(_))
            && error.to_string().contains("its checksum does not match its text"),
        "{error}"
    );
    fs::write(&path, "some other text\n".repeat(20)).unwrap();
    let error = RunningSweep::begin(&other, Some((&path, Start::Resume))).unwrap_err().to_string();
    assert!(error.contains(":1: "), "{error}");
    // Replaced on request.
    finish(&mut RunningSweep::begin(&sweep, Some((&path, Start::Force))).unwrap(), 99);
    assert_eq!(journal::read(&fs::read(&path).unwrap()).unwrap().records.len(), 60);
}
