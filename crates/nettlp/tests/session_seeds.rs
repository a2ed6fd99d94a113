// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the fuzz targets of sessions check, on every seed and on random bytes.

extern crate tlp as riser_tlp;

use proptest::prelude::*;
use std::fs;
use std::path::Path;

#[path = "../../../fuzz/checks_session.rs"]
mod checks;

fn each_seed(target: &str, check: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        check(&fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count > 5);
}

#[test]
fn seeds() {
    each_seed("nettlp_record", checks::record);
    each_seed("nettlp_session", |script| {
        checks::session(script);
    });
}

#[test]
fn scripts_move_tlps() {
    for (seed, arrived) in [
        ("pings", [4, 4]),
        ("pings_sealed", [4, 4]),
        ("reordered_sealed", [0, 12]),
        ("altered_sealed", [0, 12]),
    ] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/nettlp_session");
        assert_eq!(checks::session(&fs::read(folder.join(seed)).unwrap()), arrived, "{seed}");
    }
}

/// Steps that mostly lead somewhere.
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
    fn scripts(script in script()) {
        checks::session(&script);
    }

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        checks::record(&bytes);
        checks::session(&bytes);
    }
}
