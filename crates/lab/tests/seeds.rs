// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every seed of the fuzz target holds what the target asks for, and is good or bad as its name says.

#[path = "../../../fuzz/checks_lab.rs"]
mod checks;
#[path = "../../../fuzz/checks_record.rs"]
mod checks_record;

use std::path::Path;

#[test]
fn seeds_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/lab_parse");
    let mut good = Vec::new();
    for seed in std::fs::read_dir(folder).unwrap() {
        let path = seed.unwrap().path();
        if checks::lab(&std::fs::read(&path).unwrap()) {
            good.push(path.file_name().unwrap().to_string_lossy().into_owned());
        }
    }
    good.sort();
    assert_eq!(good, ["every_key.toml", "least.toml"]);
}

#[test]
fn seeds_of_records_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/lab_record");
    let mut good = Vec::new();
    for seed in std::fs::read_dir(folder).unwrap() {
        let path = seed.unwrap().path();
        if let Some(inputs) = checks_record::record(&std::fs::read(&path).unwrap()) {
            good.push((path.file_name().unwrap().to_string_lossy().into_owned(), inputs));
        }
    }
    good.sort();
    // One that is cut off is none.
    let names: Vec<(&str, u64)> = good.iter().map(|(name, inputs)| (name.as_str(), *inputs)).collect();
    let expected = [("4_full.rec", 1), ("4_good.rec", 3), ("4_least.rec", 0)];
    let earlier = [("files.rec", 0), ("good.rec", 6), ("set.rec", 0)];
    assert_eq!(names, [expected, earlier].concat());
}
