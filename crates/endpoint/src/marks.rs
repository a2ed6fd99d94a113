// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A set of small numbers, as bits: functions that have something to do, tags in use. Never grows.

/// A set of numbers, small ones.
pub(crate) struct Marks {
    words: Vec<u64>,
    /// How many are in it.
    pub(crate) count: u16,
}

impl Marks {
    /// An empty set, of numbers below `end`.
    pub(crate) fn new(end: usize) -> Marks {
        Marks { words: vec![0; end.div_ceil(64)], count: 0 }
    }

    /// True where `index` is in it.
    pub(crate) fn contains(&self, index: usize) -> bool {
        self.words[index / 64] >> (index % 64) & 1 == 1
    }

    /// Adds `index` if it is absent, removes it if it is there.
    pub(crate) fn flip(&mut self, index: usize) {
        let (word, bit) = (&mut self.words[index / 64], 1 << (index % 64));
        *word ^= bit;
        self.count = if *word & bit == 0 { self.count - 1 } else { self.count + 1 };
    }

    /// The first member that is not below `from`.
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
        /// Against a set of the standard library.
        #[test]
        fn marks_are_a_set(flips in prop::collection::vec(0usize..200, 0..100), from in 0usize..210) {
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
