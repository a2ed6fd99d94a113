// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the fuzz target's properties on its seeds and on random texts.

use crate::checks_rtl as checks;
use testkit::seeds;

#[test]
fn seeds_pass_fuzz_checks() {
    let seeds = seeds("rtl_source");
    let seed = |name: &str| checks::source(&seeds.iter().find(|seed| seed.0 == name).expect(name).1);
    // For the other sources, the error names a line in them.
    assert_eq!(["scratch.v", "strange.v", "positional.v"].map(seed), [1, 0, 0]);
}

proptest::proptest! {
    #[test]
    fn handles_any_text(text in "(pcie_7x|[#(.)*/\"\\\\` a\n,é;])*") {
        checks::source(text.as_bytes());
    }

    #[test]
    fn handles_any_bytes(bytes: Vec<u8>) {
        checks::source(&bytes);
    }
}
