// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the checks of the session fuzz target on every seed and on random scripts.

use crate::checks_vfio_user as checks;
use proptest::prelude::*;
use testkit::seeds;

#[test]
fn fuzz_seeds_pass() {
    let events: usize = seeds("vfio_user")
        .into_iter()
        .map(|(name, bytes)| {
            let events = checks::script(&bytes);
            assert!(events > 0, "{name}: no event");
            events
        })
        .sum();
    assert!(events > 200, "{events} events are few");
}

/// Returns a step of a script: most often a legal command.
fn step() -> impl Strategy<Value = Vec<u8>> {
    let small = |bits: u32| (0..=bits).prop_map(|value| value.to_le_bytes().to_vec());
    let page = || (0u64..12).prop_map(|page| (page * 4096).to_le_bytes().to_vec());
    let offset =
        || prop_oneof![Just(0u64), 0..0x2010u64, Just(u64::MAX)].prop_map(|at| at.to_le_bytes().to_vec());
    let command = |number: u8, payload: BoxedStrategy<Vec<u8>>| {
        (payload, any::<bool>(), 0u8..3).prop_map(move |(payload, posted, fds)| {
            [vec![10 + number, if posted { 0x10 } else { 0 }, fds, payload.len() as u8], payload].concat()
        })
    };
    let words = |count: usize, most: u32| {
        proptest::collection::vec(small(most), count).prop_map(|words| words.concat()).boxed()
    };
    let map = (small(3), page(), page(), page())
        .prop_map(|(flags, offset, at, size)| [vec![32, 0, 0, 0], flags, offset, at, size].concat());
    let unmap = (small(3), page(), page())
        .prop_map(|(flags, at, size)| [vec![24, 0, 0, 0], flags, at, size].concat());
    let read = (offset(), small(9), small(64)).prop_map(|fields| [fields.0, fields.1, fields.2].concat());
    let write =
        (offset(), small(9), proptest::collection::vec(any::<u8>(), 0..20)).prop_map(|(at, region, data)| {
            [at, region, (data.len() as u32).to_le_bytes().to_vec(), data].concat()
        });
    let entry = (offset(), small(9), small(9))
        .prop_map(|(at, region, count)| [at, region, count, vec![7; 8]].concat());
    let multi = proptest::collection::vec(entry, 0..6)
        .prop_map(|entries| [(entries.len() as u64).to_le_bytes().to_vec(), entries.concat()].concat());
    let flags = prop_oneof![Just(0x21u32), Just(0x24), Just(0x22), Just(0x11), Just(0x9), any::<u32>()];
    let irqs = (flags, small(5), small(4), small(3)).prop_map(|(flags, index, first, count)| {
        let picks = if flags & 2 != 0 { count[0] } else { 0 };
        let argsz = (20 + u32::from(picks)).to_le_bytes().to_vec();
        [argsz, flags.to_le_bytes().to_vec(), index, first, count, vec![1; picks.into()]].concat()
    });
    prop_oneof![
        4 => (0u8..10, any::<u8>(), any::<u8>()).prop_map(|(op, a, b)| vec![if op == 0 || op == 8 { 6 } else { op }, a, b]),
        4 => command(2, map.boxed()),
        2 => command(3, unmap.boxed()),
        1 => command(4, words(4, 0).prop_map(|w| [&[16], &w[1..]].concat()).boxed()),
        1 => command(5, words(8, 1).prop_map(|w| [&[32], &w[1..]].concat()).boxed()),
        1 => command(7, words(4, 1).prop_map(|w| [&[16], &w[1..]].concat()).boxed()),
        3 => command(8, irqs.boxed()),
        4 => command(9, read.boxed()),
        4 => command(10, write.boxed()),
        3 => command(15, multi.boxed()),
        1 => command(13, Just(vec![]).boxed()),
        1 => (any::<u8>(), any::<u8>(), any::<u8>(), 0u8..40).prop_map(|(op, flags, fds, len)| [vec![op, flags, fds, len], vec![op; len.into()]].concat()),
    ]
}

proptest! {
    #[test]
    fn random_scripts_pass_fuzz_checks(steps in proptest::collection::vec(step(), 0..120)) {
        checks::script(&[vec![9, 2], steps.concat()].concat());
    }

    #[test]
    fn random_bytes_pass_fuzz_checks(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        checks::script(&bytes);
    }
}
