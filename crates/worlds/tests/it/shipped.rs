// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The shipped labs can be built, and every change of one is either read or refused.

use crate::checks_lab as checks;
use lab::{parse, read};
use proptest::prelude::*;
use riser_worlds::models;
use session::Session;
use std::fs;
use std::path::{Path, PathBuf};
use testkit::seeds;

#[test]
fn seeds_pass_the_checks() {
    let good: Vec<_> = seeds("lab_parse")
        .into_iter()
        .filter(|(_, bytes)| checks::lab(bytes))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(good, ["every_key.toml", "least.toml"]);
}

/// Returns every shipped lab.
fn labs() -> Vec<PathBuf> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|e| e == "toml") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs"), &mut found);
    // The folder also has sweep files, which name labs.
    found.retain(|path| !fs::read_to_string(path).unwrap().contains("\nlab = "));
    found.sort();
    assert!(found.len() > 3);
    found
}

#[test]
fn shipped_labs_can_be_built() {
    for path in labs() {
        let file = read(&models(), &path).unwrap_or_else(|e| panic!("{e}"));
        Session::new(&file).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
}

/// Cuts, duplicates and changes pieces of a text.
fn mutate(text: &str, changes: &[(usize, usize, u8)]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for &(at, len, what) in changes {
        let at = at % (bytes.len() + 1);
        let end = (at + len).min(bytes.len());
        match what {
            0 => drop(bytes.drain(at..end)),
            1 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            2 => bytes[at..end].reverse(),
            byte => drop(bytes.splice(at..end, [byte])),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    /// A changed lab that is still valid can be drawn.
    #[test]
    fn changed_labs_are_read_or_rejected(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<usize>(), 0usize..12, any::<u8>()), 1..4),
    ) {
        let path = which.get(&labs()).clone();
        let text = mutate(&fs::read_to_string(&path).unwrap(), &changes);
        match parse(&models(), &path, &text) {
            Err(error) => prop_assert!(!error.to_string().is_empty()),
            Ok(lab) => prop_assert!(!lab::draw(&lab).is_empty()),
        }
    }
}
