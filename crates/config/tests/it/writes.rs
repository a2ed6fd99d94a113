// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random writes to functions of every kind, and the seeds of the fuzz target.

use crate::checks_config as checks;
use proptest::prelude::*;
use testkit::seeds;

#[test]
fn seeds_pass_the_checks() {
    let count = seeds("config_write").iter().map(|(_, seed)| checks::writes(seed)).count();
    assert!(count >= 10, "{count} seeds");
}

/// Writes all ones, then zeros, to every register of every kind of function.
#[test]
fn patterns_in_every_register_pass_the_checks() {
    for kind in 0..checks::KINDS {
        for value in [!0u32, 0, 0x5555_5555, 0xaaaa_aaaa] {
            let mut bytes = vec![kind as u8];
            for dw in 0u16..256 {
                bytes.extend(dw.to_le_bytes());
                bytes.push(0xf);
                bytes.extend(value.to_le_bytes());
            }
            checks::writes(&bytes);
        }
    }
}

fn step() -> impl Strategy<Value = [u8; 7]> {
    let value = prop_oneof![Just(0u32), Just(!0), any::<u32>(), (0u32..32).prop_map(|b| 1 << b)];
    (0u16..400, prop_oneof![8 => 0u8..16, 1 => Just(0xf0)], value).prop_map(|(dw, mode, value)| {
        let ([a, b], [c, d, e, f]) = (dw.to_le_bytes(), value.to_le_bytes());
        [a, b, mode, c, d, e, f]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_writes_and_events_pass_the_checks(kind in 0u8..16, steps in prop::collection::vec(step(), 1..120)) {
        let mut bytes = vec![kind];
        bytes.extend(steps.into_iter().flatten());
        checks::writes(&bytes);
    }
}
