// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Seeds of the fuzz target, and texts by lot, hold what the target asks for.

use crate::checks_rtl as checks;
use testkit::seeds;

#[test]
fn seeds_hold() {
    let seeds = seeds("rtl_source");
    let seed = |name: &str| checks::source(&seeds.iter().find(|seed| seed.0 == name).expect(name).1);
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
