// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Seeds of the fuzz targets. Never writes any.

use std::fs;
use std::path::Path;

/// Returns name and bytes of each seed of a fuzz target, sorted by name.
///
/// # Panics
/// If the target has no seeds: a test that reads none would pass without testing anything.
pub fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = crate::root().join("fuzz/seeds").join(target);
    let files = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let named =
        |path: &Path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(path).unwrap());
    let mut all: Vec<_> = files.map(|file| named(&file.unwrap().path())).collect();
    assert!(!all.is_empty(), "{}: no seeds", folder.display());
    all.sort();
    all
}
