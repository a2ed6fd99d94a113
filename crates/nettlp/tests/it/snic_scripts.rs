// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the properties of the fuzz target of the simple NIC as device software, on every seed and on random
//! scripts. Never opens a socket.

use crate::checks_snic as checks;
use proptest::prelude::*;
use std::collections::BTreeMap;
use testkit::seeds;

/// Rows: seed, and numbers of sent and received frames. NetTLP's driver has a ring of one descriptor and always
/// writes index 0 to the doorbell.
#[test]
fn seeds_of_simple_nic_transfer_expected_frames() {
    let done: BTreeMap<String, (u64, u64)> =
        seeds("nettlp_snic").into_iter().map(|(name, bytes)| (name, checks::snic(&bytes))).collect();
    assert!(done.len() >= 11, "{done:?}");
    for (name, frames) in [
        ("one_descriptor_session", (3, 0)),
        ("one_descriptor_ports", (3, 0)),
        ("receive_session", (0, 2)),
        ("receive_ports", (0, 2)),
        ("not_enabled", (0, 0)),
        ("no_room", (4, 0)),
    ] {
        assert_eq!(done[name], frames, "{name}");
    }
}

/// Generates a step that has an effect.
fn step() -> impl Strategy<Value = Vec<u8>> {
    let doorbell = (4_u8..6, 0_u8..8).prop_map(|(register, index)| vec![0, register, index]);
    prop_oneof![
        3 => doorbell,
        1 => (0_u8..8, any::<u8>()).prop_map(|(register, value)| vec![0, register, value]),
        1 => any::<u8>().prop_map(|register| vec![1, register]),
        1 => prop::collection::vec(any::<u8>(), 0..40).prop_map(|tlp| [&[2, tlp.len() as u8], &tlp[..]].concat()),
        2 => any::<u8>().prop_map(|bytes| vec![3, bytes]),
        2 => (0x10_u8..0x28, any::<u8>(), any::<u8>()).prop_map(|(at, a, l)| vec![4, at, a, l]),
        2 => (5_u8..8, any::<u8>()).prop_map(|(op, a)| vec![op, a]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_scripts_pass_fuzz_checks(first in any::<u8>(), steps in prop::collection::vec(step(), 0..60)) {
        checks::snic(&[&[first, 0, 0, 0x10, 0, 2, 0x20, 0, 6, 1], &steps.concat()[..]].concat());
    }

    #[test]
    fn random_bytes_pass_fuzz_checks(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        checks::snic(&bytes);
    }
}
