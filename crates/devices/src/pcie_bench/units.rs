// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The address of each transfer.
//!
//! The window is divided into units of offset plus size, rounded up to a cache line (SIGCOMM'18, §4). A transfer never
//! crosses 4 KiB, so each 4 KiB of the window contains only whole units. Random units are drawn with replacement into a
//! table of at most [`MAX_TABLE`] entries, which is used repeatedly, like in the paper's card.

use super::Pattern;
use super::settings::{BenchSettings, MAX_TABLE};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256StarStar;

/// XORed into the seed of transfers that the caches have seen, so that they differ from those of the run.
const SEEN_SEED: u64 = 1 << 63;

const PAGE_BYTES: u64 = 4096;
const LINE_BYTES: u64 = 64;

/// An endless source of offsets in the window.
#[derive(Clone, Debug)]
pub struct Units {
    /// Starts of the units, in cache lines from the start of the window, in order of use; empty for sequential order.
    table: Vec<u32>,
    layout: Layout,
    host_offset: u64,
    /// Length of the cycle.
    count: u64,
    next: u64,
}

/// Layout of units in a window.
#[derive(Clone, Copy, Debug)]
struct Layout {
    unit: u64,
    per_page: u64,
    units: u64,
}

impl Layout {
    const fn new(unit: u64, window: u64) -> Layout {
        let per_page = PAGE_BYTES / unit;
        let units = window / PAGE_BYTES * per_page + window % PAGE_BYTES / unit;
        Layout { unit, per_page, units }
    }

    const fn start(&self, index: u64) -> u64 {
        index / self.per_page * PAGE_BYTES + index % self.per_page * self.unit
    }
}

impl Units {
    /// Creates the units of checked `settings`.
    pub fn new(settings: &BenchSettings) -> Units {
        let layout = Layout::new(settings.unit_bytes(), settings.window_bytes);
        let host_offset = u64::from(settings.host_offset_bytes);
        let (table, count) = match settings.pattern {
            Pattern::Sequential => (Vec::new(), layout.units),
            Pattern::Random => {
                let transfers = settings.transfers.saturating_add(settings.warm_up);
                // At the end, each worker may have one additional transfer.
                let used = transfers.saturating_add(u64::from(settings.workers()));
                let table = draw(layout, used.min(MAX_TABLE), settings.seed);
                let count = table.len() as u64;
                (table, count)
            }
        };
        Units { table, layout, host_offset, count, next: 0 }
    }

    /// Returns the offsets of the transfers that the caches have seen, in order. Sequential: the units before the first
    /// transfer. Random: other units than in the run.
    pub fn seen(settings: &BenchSettings) -> impl Iterator<Item = u64> {
        let transfers = settings.seen.min(MAX_TABLE);
        let seed = settings.seed ^ SEEN_SEED;
        let mut units = Units::new(&BenchSettings { transfers, warm_up: 0, seed, ..settings.clone() });
        let count = match settings.pattern {
            // Further passes have the same effect. If reads and writes alternate and the number of units is odd, a unit is
            // read in one pass and written in the next.
            Pattern::Sequential => transfers.min(2 * units.count),
            Pattern::Random => transfers,
        };
        if settings.pattern == Pattern::Sequential {
            units.next = (units.count - count % units.count) % units.count;
        }
        (0..count).map(move |_| units.next_offset())
    }

    /// Returns the number of different units.
    pub fn in_window(&self) -> u64 {
        self.layout.units
    }

    /// Returns the offset of the next transfer in the window.
    pub fn next_offset(&mut self) -> u64 {
        let index = self.next;
        self.next = if index + 1 == self.count { 0 } else { index + 1 };
        let start = match self.table.get(index as usize) {
            Some(line) => u64::from(*line) * LINE_BYTES,
            None => self.layout.start(index),
        };
        start + self.host_offset
    }
}

fn draw(layout: Layout, count: u64, seed: u64) -> Vec<u32> {
    let mut random = Xoshiro256StarStar::seed_from_u64(seed);
    (0..count).map(|_| (layout.start(below(layout.units, &mut random)) / LINE_BYTES) as u32).collect()
}

/// Returns a uniformly distributed number below `limit`: the high half of a product. Products that would cause a bias are
/// redrawn.
pub(crate) fn below(limit: u64, random: &mut impl RngCore) -> u64 {
    let unfair = limit.wrapping_neg() % limit;
    loop {
        let product = u128::from(random.next_u64()) * u128::from(limit);
        if product as u64 >= unfair {
            return (product >> 64) as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn settings(
        size_bytes: u32,
        host_offset_bytes: u32,
        window_bytes: u64,
        pattern: Pattern,
    ) -> BenchSettings {
        BenchSettings { size_bytes, host_offset_bytes, window_bytes, pattern, ..BenchSettings::default() }
    }

    /// Size, offset, window, number of units, and the first offsets of a sequential run.
    #[test]
    fn sequential_units_match_table() {
        let rows: [(u32, u32, u64, u64, &[u64]); 5] = [
            (64, 0, 256, 4, &[0, 64, 128, 192, 0, 64]),
            (64, 1, 4096, 32, &[1, 129, 257]),
            (2048, 0, 8192, 4, &[0, 2048, 4096, 6144, 0]),
            // A unit has 2112 B: one fits in 4 KiB, and the rest stays unused.
            (2048, 8, 8192, 2, &[8, 4104, 8]),
            (4096, 0, 4096, 1, &[0, 0]),
        ];
        for (size, offset, window, count, first) in rows {
            let mut units = Units::new(&settings(size, offset, window, Pattern::Sequential));
            assert_eq!(units.in_window(), count, "{size} at {offset} in {window}");
            let seen: Vec<u64> = first.iter().map(|_| units.next_offset()).collect();
            assert_eq!(seen, first);
        }
    }

    #[test]
    fn units_depend_only_on_the_seed() {
        let of = |seed| {
            let mut units = Units::new(&BenchSettings { seed, ..settings(64, 0, 1 << 20, Pattern::Random) });
            (0..1000).map(|_| units.next_offset()).collect::<Vec<u64>>()
        };
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
    }

    #[test]
    fn random_units_are_uniform_with_replacement() {
        let mut units =
            Units::new(&BenchSettings { transfers: 64_000, ..settings(64, 0, 64 * 64, Pattern::Random) });
        let mut seen = BTreeMap::new();
        for _ in 0..64_000 {
            *seen.entry(units.next_offset()).or_insert(0u32) += 1;
        }
        // 1000 each, with a standard deviation of 31.
        assert_eq!(seen.len(), 64);
        assert!(seen.values().all(|n| (800..1200).contains(n)), "{seen:?}");
        assert!(seen.values().any(|n| *n != 1000), "drawn with replacement");
    }

    #[test]
    fn address_sequence_repeats_after_table() {
        let few = BenchSettings {
            transfers: 10,
            warm_up: 5,
            outstanding: 3,
            ..settings(64, 0, 1 << 20, Pattern::Random)
        };
        let mut units = Units::new(&few);
        let offsets: Vec<u64> = (0..36).map(|_| units.next_offset()).collect();
        assert_eq!(offsets[..18], offsets[18..]);
        let many = Units::new(&BenchSettings { transfers: u64::MAX, ..few });
        assert_eq!(many.table.len() as u64, MAX_TABLE);
    }

    #[test]
    fn units_of_earlier_transfers_precede_the_first_unit() {
        let of = |seen, pattern| {
            let settings = BenchSettings { seen, ..settings(64, 0, 512, pattern) };
            Units::seen(&settings).collect::<Vec<u64>>()
        };
        assert_eq!(of(3, Pattern::Sequential), [320, 384, 448]);
        assert_eq!(of(8, Pattern::Sequential), (0..8).map(|n| n * 64).collect::<Vec<u64>>());
        assert_eq!(of(11, Pattern::Sequential)[..4], [320, 384, 448, 0]);
        assert_eq!(of(1000, Pattern::Sequential), of(8, Pattern::Sequential).repeat(2));
        assert_eq!((of(0, Pattern::Random), of(1000, Pattern::Random).len()), (vec![], 1000));
        let to_come: Vec<u64> = {
            let mut units = Units::new(&settings(64, 0, 512, Pattern::Random));
            (0..1000).map(|_| units.next_offset()).collect()
        };
        assert_ne!(of(1000, Pattern::Random), to_come);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn transfers_stay_in_the_window_and_within_4_kib(
            size in 1u32..=4096, offset in 0u32..64, extra in 0u64..100_000, seed: u64, random: bool,
        ) {
            prop_assume!(size + offset <= 4096);
            let pattern = if random { Pattern::Random } else { Pattern::Sequential };
            let mut s = BenchSettings { seed, ..settings(size, offset, 0, pattern) };
            s.window_bytes = s.unit_bytes() + extra;
            s.check().unwrap();
            let mut units = Units::new(&s);
            for _ in 0..100 {
                let at = units.next_offset();
                prop_assert_eq!(at % 64, u64::from(offset));
                prop_assert!(at + u64::from(size) <= s.window_bytes);
                prop_assert!(at % 4096 + u64::from(size) <= 4096);
            }
        }
    }
}
