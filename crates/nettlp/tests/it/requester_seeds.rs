// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the properties of the requester's fuzz target on every seed and on random scripts. Uses only the public
//! interface.

use crate::checks_requester as checks;
use proptest::prelude::*;
use testkit::seeds;

#[test]
fn every_seed_passes_fuzz_checks() {
    let seeds = seeds("nettlp_requester");
    assert!(seeds.len() >= 5, "{seeds:?}");
    for (_, seed) in seeds {
        checks::requester(&seed);
    }
}

/// Generates a step of a script that has an effect.
fn step() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (any::<u8>(), 0u8..2, any::<u8>()).prop_map(|(a, h, l)| vec![0, a, h, l]),
        (any::<u8>(), any::<u8>()).prop_map(|(a, l)| vec![132, a, 0, l]),
        Just(vec![1; 4]),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(|d| [&[2, d.len() as u8], &d[..]].concat()),
        (any::<u8>(), any::<u8>(), prop_oneof![Just(0), Just(64), any::<u8>()]).prop_map(|(t, s, x)| vec![
            3,
            t,
            if x == 0 { 0 } else { s },
            x
        ]),
        any::<u8>().prop_map(|us| vec![4, us]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_scripts_pass_fuzz_checks(steps in prop::collection::vec(step(), 0..120)) {
        checks::requester(&steps.concat());
    }

    #[test]
    fn random_bytes_pass_fuzz_checks(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        checks::requester(&bytes);
    }
}
