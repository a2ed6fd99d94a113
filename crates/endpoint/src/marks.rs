// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A set of small numbers, as bits: functions with pending work, tags in use. Never grows.

/// A set of small numbers.
pub(crate) struct Marks {
    words: Vec<u64>,
    /// Number of members.
    pub(crate) count: u16,
}

impl Marks {
    /// Makes an empty set of numbers below `end`.
    pub(crate) fn new(end: usize) -> Marks {
        Marks { words: vec![0; end.div_ceil(64)], count: 0 }
    }

    /// Returns whether `index` is a member.
    pub(crate) fn contains(&self, index: usize) -> bool {
        self.words[index / 64] >> (index % 64) & 1 == 1
    }

    /// Adds `index` if it is absent, removes it if it is present.
    pub(crate) fn flip(&mut self, index: usize) {
        let (word, bit) = (&mut self.words[index / 64], 1 << (index % 64));
        *word ^= bit;
        self.count = if *word & bit == 0 { self.count - 1 } else { self.count + 1 };
    }

    /// Returns the first member from `from` on.
    pub(crate) fn next(&self, from: usize) -> Option<usize> {
        let mut at = from / 64;
        let mut word = self.words.get(at)? & (!0 << (from % 64));
        while word == 0 {
            at += 1;
            word = *self.words.get(at)?;
        }
        Some(at * 64 + word.trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Compares the marks with a set of the standard library.
        #[test]
        fn marks_behave_like_a_set(flips in prop::collection::vec(0usize..200, 0..100), from in 0usize..210) {
            let (mut marks, mut model) = (Marks::new(200), BTreeSet::new());
            for index in flips {
                marks.flip(index);
                if !model.insert(index) {
                    model.remove(&index);
                }
            }
            prop_assert_eq!(usize::from(marks.count), model.len());
            prop_assert!((0..200).all(|index| marks.contains(index) == model.contains(&index)));
            prop_assert_eq!(marks.next(from), model.range(from..).next().copied());
        }
    }
}
