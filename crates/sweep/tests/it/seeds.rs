// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every seed of the fuzz target `sweep_read` passes the target's checks, and has the content that its name says.
//! Changed seeds pass the checks too.

use crate::checks_sweep as checks;
use proptest::prelude::*;
use testkit::seeds;

#[test]
fn seeds_are_read_or_rejected() {
    let seeds = seeds("sweep_read");
    for (name, bytes) in &seeds {
        assert_eq!(checks::sweep(bytes), !name.starts_with("bad_"), "{name}");
    }
    assert!(seeds.len() >= 8);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// A seed with some of its bytes replaced, removed or repeated.
    #[test]
    fn changed_seeds_are_read_or_rejected(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..3u8, any::<u8>()), 1..4),
    ) {
        let seeds = seeds("sweep_read");
        let mut bytes = which.get(&seeds).1.clone();
        for (at, how, with) in changes {
            let at = at.index(bytes.len().max(1)).min(bytes.len().saturating_sub(1));
            match how {
                _ if bytes.is_empty() => bytes.push(with),
                0 => bytes[at] = with,
                1 => drop(bytes.drain(at..(at + usize::from(with % 16)).min(bytes.len()))),
                _ => {
                    let part = bytes[at..(at + usize::from(with % 32)).min(bytes.len())].to_vec();
                    bytes.splice(at..at, part);
                }
            }
        }
        checks::sweep(&bytes);
    }
}
