// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The seeds of the fuzz targets. Never writes any.

use std::fs;
use std::path::Path;

/// Name and bytes of each seed of a target, in the order of their names.
pub(crate) fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let files = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let named =
        |path: &Path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(path).unwrap());
    let mut all: Vec<_> = files.map(|file| named(&file.unwrap().path())).collect();
    all.sort();
    all
}
