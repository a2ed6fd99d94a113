// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every seed of the fuzz targets, through what the targets check.

use std::fs;
use std::path::Path;

#[path = "../../../fuzz/checks.rs"]
mod checks;

/// Runs `check` on every seed of a target, and says how many there are.
fn each_seed(target: &str, check: fn(&[u8])) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let seeds = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    seeds.map(|seed| check(&fs::read(seed.unwrap().path()).unwrap())).count()
}

#[test]
fn tlp_seeds_hold() {
    assert!(each_seed("tlp_parse", checks::tlp) >= 32);
}

#[test]
fn dllp_seeds_hold() {
    assert!(each_seed("dllp_parse", checks::dllp) >= 17);
}
