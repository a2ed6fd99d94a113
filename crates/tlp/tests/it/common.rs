// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bytes of the cases in files, and settings of properties.

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

/// The bytes of hexadecimal words. `WORD*N` repeats a word.
pub(crate) fn hex(words: &str) -> Vec<u8> {
    let bytes = |word: &str| {
        let (digits, times) = word.split_once('*').unwrap_or((word, "1"));
        let pair = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        (0..digits.len()).step_by(2).map(pair).collect::<Vec<_>>().repeat(times.parse().unwrap())
    };
    words.split(' ').flat_map(bytes).collect()
}

pub(crate) fn cases() -> ProptestConfig {
    let failure_persistence = Some(Box::new(FileFailurePersistence::WithSource("regressions")) as _);
    ProptestConfig { cases: 256, failure_persistence, ..ProptestConfig::default() }
}
