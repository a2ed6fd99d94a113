// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reference page is that of the code. Never writes it unless `RISER_UPDATE_DOCS` is set, as `make reference` does.

use std::path::Path;

#[test]
fn the_page_is_that_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/sweep.md");
    let text = riser_sweep::reference::page();
    if std::env::var_os("RISER_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == text, "docs/reference/sweep.md is out of date: `make reference` writes it anew");
}
