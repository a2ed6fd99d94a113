// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of the repository that are generated from the code. Only `make reference`, which sets `RISER_UPDATE_DOCS`, writes
//! them.

use std::fs;

/// Writes the generated file `path`, relative to the root of the repository, if `RISER_UPDATE_DOCS` is set. Otherwise panics
/// if the file is not `text`, and shows the first line that differs.
pub fn generated(path: &str, text: &str) {
    let file = super::root().join(path);
    if std::env::var_os("RISER_UPDATE_DOCS").is_some() {
        fs::write(&file, text).expect("the file can be written");
        return;
    }
    let old = fs::read_to_string(&file).unwrap_or_default();
    if old != text {
        let differs = |(_, (old, new)): &(usize, (&str, &str))| old != new;
        let ends = [old.lines().count(), text.lines().count()];
        let (line, (old, new)) = (1..).zip(old.lines().zip(text.lines())).find(differs).unwrap_or_default();
        panic!(
            "{path} is out of date; `make reference` writes it. Line {line} of {ends:?}:\nnow      {old}\nexpected {new}"
        );
    }
}
