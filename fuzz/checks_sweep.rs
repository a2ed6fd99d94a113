// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of the readers of sweep files and journals for any bytes. The fuzz target and the tests of `riser-sweep`
//! call them on every seed. A failed check panics.

use riser_devices::models;
use riser_plug::site::NativeCode;
use riser_sweep::journal::{self, written};
use riser_sweep::{RunningSweep, Sweep, TextFile};

const LAB: &str = "version = 1\n[[slot]]\nname = 'a'\ndevice = 'memory'\n";

/// Parses the bytes as a sweep, in which each point must have its settings. Also parses them as a journal, whose
/// records must be the same when written again. An error message has a file, or for a journal an existing line.
/// Returns true if the bytes are either.
pub(crate) fn sweep(bytes: &[u8]) -> bool {
    let text = |path: &str, text: &str| TextFile { path: path.into(), text: text.into() };
    let is_sweep = std::str::from_utf8(bytes).is_ok_and(|file| {
        let lab = Some(text("lab.toml", LAB));
        match Sweep::parse(&models(), text("fuzz.toml", file), lab, NativeCode::Refused) {
            Ok(sweep) => {
                points(&sweep);
                true
            }
            Err(errors) => {
                let told = errors.to_string();
                assert!(told.starts_with("fuzz.toml") || told.starts_with("lab.toml"), "{told}");
                false
            }
        }
    });
    is_sweep | journal(bytes)
}

fn points(sweep: &Sweep) {
    let (keys, rounds) = (sweep.keys().len(), sweep.rounds());
    let count = rounds[0].points;
    assert!(
        count > 0
            && sweep.points() <= 1_000_000
            && sweep.points() == rounds.iter().map(|r| r.points).sum::<u64>()
    );
    for n in [0, count / 2, count - 1] {
        assert_eq!(sweep.settings(n).len(), keys);
        assert_eq!(sweep.settings(n), sweep.settings(n));
    }
    let mut run = RunningSweep::begin(sweep, None).unwrap();
    let first = run.next_chunk(3);
    assert_eq!(first.iter().map(|point| point.number).collect::<Vec<_>>(), [0]);
    // These settings may make the lab invalid, which gives an error message.
    let _ = sweep.lab_of(&first[0]).map_err(|errors| assert!(!errors.to_string().is_empty()));
    let again = Sweep::unpack(&models(), &sweep.pack()).unwrap();
    assert_eq!(again.fingerprint(), sweep.fingerprint());
}

fn journal(bytes: &[u8]) -> bool {
    match journal::read(bytes) {
        Ok(contents) => {
            assert!(contents.whole_bytes <= bytes.len());
            let Some(header) = &contents.header else { return false };
            let text = written(header) + &contents.records.iter().map(written).collect::<String>();
            assert_eq!(journal::read(text.as_bytes()).unwrap().records, contents.records);
            true
        }
        Err((line, why)) => {
            let lines = bytes.iter().filter(|b| **b == b'\n').count();
            assert!((1..=lines).contains(&line) && !why.to_string().is_empty(), "{line}: {why}");
            false
        }
    }
}
