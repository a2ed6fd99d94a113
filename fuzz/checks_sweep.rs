// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What must hold for any bytes as a sweep file and as a journal: called by the fuzz target, and by the tests of `riser-sweep` on every
//! seed. What is broken panics.

use riser_devices::models;
use riser_plug::site::NativeCode;
use riser_sweep::journal::{self, written};
use riser_sweep::{Run, Sweep, TextFile};

const LAB: &str = "version = 1\n[[slot]]\nname = 'a'\ndevice = 'memory'\n";

/// Bytes are a sweep, of which every point has its settings, or are refused with a message that names a file; they are a journal, whose
/// records are the same when they are written again, or are refused with a line that is there. True where they are one of both.
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
    let mut run = Run::begin(sweep, None).unwrap();
    let first = run.next_chunk(3);
    assert_eq!(first.iter().map(|point| point.number).collect::<Vec<_>>(), [0]);
    // A lab with these settings may be none, which is told.
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
            assert!((1..=lines).contains(&line) && !why.is_empty(), "{line}: {why}");
            false
        }
    }
}
