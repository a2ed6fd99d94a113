// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every seed of the fuzz target `results_read` passes the target's checks, and has the contents that its name states.

use crate::checks_results as checks;
use testkit::seeds;

#[test]
fn seeds_are_read_or_rejected() {
    let seeds = seeds("results_read");
    for (name, bytes) in &seeds {
        assert_eq!(checks::results(bytes), !name.starts_with("bad_"), "{name}");
    }
    assert!(seeds.len() >= 9);
}
