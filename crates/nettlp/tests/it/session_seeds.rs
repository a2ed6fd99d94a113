// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the properties of the sessions' fuzz targets on every seed and on random bytes.

use proptest::prelude::*;
use std::collections::BTreeMap;
use testkit::seeds;

use crate::checks_session as checks;

#[test]
fn seeds_pass_fuzz_checks() {
    let (records, scripts) = (seeds("nettlp_record"), seeds("nettlp_session"));
    assert!(records.len() > 5 && scripts.len() > 5);
    records.iter().for_each(|(_, bytes)| checks::record(bytes));
    let arrived: BTreeMap<_, _> =
        scripts.iter().map(|(name, script)| (&name[..], checks::session(script))).collect();
    for (name, expected) in [
        ("pings", [4, 4]),
        ("pings_sealed", [4, 4]),
        ("reordered_sealed", [0, 12]),
        ("altered_sealed", [0, 12]),
    ] {
        assert_eq!(arrived[name], expected, "{name}");
    }
}

/// Generates steps of a script. Most steps have an effect.
fn script() -> impl Strategy<Value = Vec<u8>> {
    let step = prop_oneof![
        4 => prop_oneof![Just(0x80u8), Just(0x00)].prop_map(|step| vec![step]),
        6 => Just(vec![1]),
        8 => Just(vec![2]),
        2 => (3u8..7, any::<u8>()).prop_map(|(step, operand)| vec![step, operand]),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(step, operand)| vec![step | 7, operand]),
    ];
    (any::<u8>(), proptest::collection::vec(step, 0..200))
        .prop_map(|(first, steps)| [vec![first], steps.concat()].concat())
}

proptest! {
    #[test]
    fn random_scripts_pass_fuzz_checks(script in script()) {
        checks::session(&script);
    }

    #[test]
    fn random_bytes_pass_fuzz_checks(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        checks::record(&bytes);
        checks::session(&bytes);
    }
}
