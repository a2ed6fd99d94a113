// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of the repository that are generated from the code. Only `make reference`, which sets `RISER_UPDATE_DOCS`, writes
//! them.

use std::fs;
use std::path::Path;

/// Writes the generated file `path`, relative to the root of the repository, if `RISER_UPDATE_DOCS` is set. Otherwise panics
/// if the file is not `text`, and shows the first line that differs.
pub fn generated(path: impl AsRef<Path>, text: &str) {
    let file = super::root().join(path);
    if std::env::var_os("RISER_UPDATE_DOCS").is_some() {
        fs::write(&file, text).expect("the file can be written");
        return;
    }
    let old = fs::read_to_string(&file).unwrap_or_default();
    if old != text {
        let same = old.lines().zip(text.lines()).take_while(|(old, new)| old == new).count();
        let [now, expected] = [old.as_str(), text].map(|text| text.lines().nth(same).unwrap_or_default());
        let file = file.display();
        panic!(
            "{file} is out of date; `make reference` writes it. Line {}:\nnow      {now}\nexpected {expected}",
            same + 1
        );
    }
}
