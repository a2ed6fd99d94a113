// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Seeds of the fuzz target, and texts by lot, hold what the target asks for.

extern crate riser_rtl as rtl;

#[path = "../../../fuzz/checks_rtl.rs"]
mod checks;

use std::path::Path;

#[test]
fn seeds_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/rtl_source");
    let seed = |name: &str| checks::source(&std::fs::read(folder.join(name)).unwrap());
    // What is told of the others names a line in them.
    assert_eq!(["scratch.v", "strange.v", "positional.v"].map(seed), [1, 0, 0]);
}

proptest::proptest! {
    #[test]
    fn no_text_is_too_strange(text in "(pcie_7x|[#(.)*/\"\\\\` a\n,é;])*") {
        checks::source(text.as_bytes());
    }

    #[test]
    fn nor_are_bytes(bytes: Vec<u8>) {
        checks::source(&bytes);
    }
}
