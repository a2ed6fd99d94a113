// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every seed of the fuzz target `results_read` holds what the target asks for, and is what its name says.

#[path = "../../../fuzz/checks_results.rs"]
mod checks;

use std::fs;
use std::path::Path;

#[test]
fn seeds_are_read_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/results_read");
    let mut seeds = 0;
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let good = !path.file_name().unwrap().to_string_lossy().starts_with("bad_");
        assert_eq!(checks::results(&fs::read(&path).unwrap()), good, "{}", path.display());
        seeds += 1;
    }
    assert!(seeds >= 9);
}
