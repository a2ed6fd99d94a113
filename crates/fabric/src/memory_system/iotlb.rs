// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A table of translations, looked up by page: the IOTLB, and the page walk cache. This module does not read page
//! tables. A key distinguishes requesters.

use crate::profile::Replacement;
use rand_core::RngCore;
use rand_xoshiro::Xoshiro256PlusPlus;
use tlp::Time;

/// The key of an empty entry.
const EMPTY: u64 = u64::MAX;

/// Maximum number of entries of a table: each set is searched one by one.
const MAX_ENTRIES: u32 = 4096;

pub(super) struct Iotlb {
    keys: Vec<u64>,
    /// When the walk that filled the entry has ended.
    valid_at: Vec<Time>,
    /// Number of the lookup that last used the entry.
    used: Vec<u64>,
    ways: usize,
    sets: u64,
    replacement: Replacement,
    lookups: u64,
}

impl Iotlb {
    /// Makes an empty table. If `ways` is 0, any entry holds any page.
    pub(super) fn new(entries: u32, ways: u32, replacement: Replacement) -> Iotlb {
        let entries = entries.clamp(1, MAX_ENTRIES) as usize;
        let ways = if ways == 0 { entries } else { (ways as usize).min(entries) };
        let sets = entries / ways;
        Iotlb {
            keys: vec![EMPTY; sets * ways],
            valid_at: vec![Time::ZERO; sets * ways],
            used: vec![0; sets * ways],
            ways,
            sets: sets as u64,
            replacement,
            lookups: 0,
        }
    }

    /// Returns when `page` of the requester in `key` is or will be in the table; `None` if it is neither in the table
    /// nor being walked.
    pub(super) fn look(&mut self, key: u64, page: u64) -> Option<Time> {
        let set = self.set(page);
        let way = self.keys[set..set + self.ways].iter().position(|k| *k == key)?;
        self.lookups += 1;
        self.used[set + way] = self.lookups;
        Some(self.valid_at[set + way])
    }

    /// Inserts a page that [`look`](Self::look) has not found.
    pub(super) fn insert(&mut self, key: u64, page: u64, valid_at: Time, rng: &mut Xoshiro256PlusPlus) {
        let set = self.set(page);
        let at = set + self.victim(set, rng);
        self.lookups += 1;
        (self.keys[at], self.valid_at[at], self.used[at]) = (key, valid_at, self.lookups);
    }

    fn set(&self, page: u64) -> usize {
        (page % self.sets) as usize * self.ways
    }

    /// An empty way, or the one to replace.
    fn victim(&self, set: usize, rng: &mut Xoshiro256PlusPlus) -> usize {
        let empty = self.keys[set..set + self.ways].iter().position(|k| *k == EMPTY);
        empty.unwrap_or_else(|| match self.replacement {
            Replacement::Random => rng.next_u32() as usize % self.ways,
            Replacement::Lru => {
                let used = self.used[set..set + self.ways].iter().enumerate();
                used.min_by_key(|(_, used)| **used).map_or(0, |(way, _)| way)
            }
        })
    }

    /// Number of entries in use.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.keys.iter().filter(|key| **key != EMPTY).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand_core::SeedableRng;
    use std::collections::BTreeSet;

    fn rng() -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(1)
    }

    /// Uses `page`; returns true if the table had it.
    fn use_page(table: &mut Iotlb, rng: &mut Xoshiro256PlusPlus, page: u64) -> bool {
        let found = table.look(page, page).is_some();
        if !found {
            table.insert(page, page, Time::ZERO, rng);
        }
        found
    }

    /// Counts hits of ten rounds over this many pages in order, without the first round. In a cyclic pattern the next
    /// page is always the least recently used one. This is the worst case for LRU, but not for random replacement.
    #[test]
    fn cyclic_accesses_distinguish_replacement_policies() {
        let rows = [
            (128, 0, Replacement::Lru, 128, 1280..=1280),
            (128, 0, Replacement::Lru, 129, 0..=0),
            (128, 0, Replacement::Random, 160, 700..=1150),
            (128, 8, Replacement::Lru, 128, 1280..=1280),
            (128, 8, Replacement::Lru, 136, 640..=640),
        ];
        for (entries, ways, replacement, pages, expected) in rows {
            let (mut table, mut rng) = (Iotlb::new(entries, ways, replacement), rng());
            for page in 0..pages {
                use_page(&mut table, &mut rng, page);
            }
            let rounds = (0..10).flat_map(|_| 0..pages);
            let hits = rounds.filter(|page| use_page(&mut table, &mut rng, *page)).count();
            assert!(expected.contains(&hits), "{entries}/{ways} {replacement:?}, {pages} pages: {hits}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn table_is_bounded_and_finds_only_inserted_pages(
            pages in prop::collection::vec(0..200u64, 1..400),
            entries in 1..64u32,
            ways in 0..9u32,
            random in any::<bool>(),
        ) {
            let replacement = if random { Replacement::Random } else { Replacement::Lru };
            let (mut table, mut rng) = (Iotlb::new(entries, ways, replacement), rng());
            let mut seen = BTreeSet::new();
            for page in pages {
                prop_assert!(!use_page(&mut table, &mut rng, page) || seen.contains(&page));
                seen.insert(page);
                prop_assert!(table.look(page, page).is_some(), "the latest page is there");
                prop_assert!(table.len() <= (entries as usize).min(seen.len()));
            }
        }
    }
}
