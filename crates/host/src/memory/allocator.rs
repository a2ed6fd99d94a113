// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Allocates the addresses of a range.

use std::collections::BTreeMap;

/// Allocates ascending addresses. Freed addresses are reused first, the lowest that fit.
#[derive(Default)]
pub(super) struct Allocator {
    end: u64,
    /// All addresses from here are free.
    next: u64,
    /// Allocations by address: start and end of the range that each takes, including bytes skipped for alignment.
    taken: BTreeMap<u64, (u64, u64)>,
    /// Free ranges below `next`: bytes by first address. No two of them are adjacent.
    free: BTreeMap<u64, u64>,
}

impl Allocator {
    /// Returns an allocator of `next..end`.
    pub(super) fn new(next: u64, end: u64) -> Allocator {
        Allocator { end, next: next.min(end), ..Allocator::default() }
    }

    /// Bytes that are neither allocated nor skipped for alignment.
    pub(super) fn left(&self) -> u64 {
        self.end - self.next + self.free.values().sum::<u64>()
    }

    /// Allocates `len` bytes at a multiple of `align`, a power of two. Returns `None` if there is no such range.
    pub(super) fn take(&mut self, len: u64, align: u64) -> Option<u64> {
        if len == 0 {
            // An allocation of no bytes takes no room.
            return self.next.checked_next_multiple_of(align).filter(|start| *start <= self.end);
        }
        self.take_free(len, align).or_else(|| self.take_next(len, align))
    }

    /// Frees the allocation at `start`; false if there is none.
    pub(super) fn give_back(&mut self, start: u64) -> bool {
        let Some((mut first, mut end)) = self.taken.remove(&start) else { return false };
        if let Some((before, bytes)) = self.free.range(..first).next_back().map(|(a, n)| (*a, *n))
            && before + bytes == first
        {
            self.free.remove(&before);
            first = before;
        }
        if let Some(bytes) = self.free.remove(&end) {
            end += bytes;
        }
        if end == self.next {
            self.next = first;
        } else {
            self.free.insert(first, end - first);
        }
        true
    }

    fn take_next(&mut self, len: u64, align: u64) -> Option<u64> {
        let start = self.next.checked_next_multiple_of(align)?;
        let end = start.checked_add(len).filter(|end| *end <= self.end)?;
        self.taken.insert(start, (self.next, end));
        self.next = end;
        Some(start)
    }

    fn take_free(&mut self, len: u64, align: u64) -> Option<u64> {
        let fits = |(first, bytes): (&u64, &u64)| {
            let start = first.checked_next_multiple_of(align)?;
            let end = start.checked_add(len)?;
            (end <= first + bytes).then_some((*first, *bytes, start, end))
        };
        let (first, bytes, start, end) = self.free.iter().find_map(fits)?;
        self.free.remove(&first);
        for (at, len) in [(first, start - first), (end, first + bytes - end)] {
            if len > 0 {
                self.free.insert(at, len);
            }
        }
        self.taken.insert(start, (start, end));
        Some(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Take(u64, u64),
        /// Frees the allocation with this index.
        GiveBack(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (1..600u64, 0..8u32).prop_map(|(len, log)| Step::Take(len, 1 << log)),
            (0..16usize).prop_map(Step::GiveBack),
        ]
    }

    proptest! {
        /// Allocations are aligned, inside the range, and apart from each other; after all of them are freed, the whole
        /// range is free.
        #[test]
        fn allocations_never_overlap(steps in prop::collection::vec(step(), 1..80)) {
            let mut allocator = Allocator::new(0x100, 0x1100);
            let mut taken: Vec<(u64, u64)> = Vec::new();
            for step in steps {
                match step {
                    Step::Take(len, align) => if let Some(start) = allocator.take(len, align) {
                        prop_assert!(start % align == 0 && start >= 0x100 && start + len <= 0x1100);
                        prop_assert!(taken.iter().all(|(at, n)| start + len <= *at || at + n <= start));
                        taken.push((start, len));
                    },
                    Step::GiveBack(_) if taken.is_empty() => {}
                    Step::GiveBack(n) => {
                        let (start, _) = taken.remove(n % taken.len());
                        prop_assert!(allocator.give_back(start) && !allocator.give_back(start));
                    }
                }
            }
            for (start, _) in taken {
                prop_assert!(allocator.give_back(start));
            }
            prop_assert_eq!((allocator.left(), allocator.take(0x1000, 1)), (0x1000, Some(0x100)));
        }
    }

    #[test]
    fn reuses_freed_addresses_first() {
        let mut allocator = Allocator::new(0x1000, 0x4000);
        let [a, b, c] = [0x100, 0x800, 0x100].map(|len| allocator.take(len, 64).unwrap());
        assert_eq!((a, b, c), (0x1000, 0x1100, 0x1900));
        assert!(allocator.give_back(b) && !allocator.give_back(b) && !allocator.give_back(a + 1));
        assert_eq!(allocator.take(0x400, 0x400), Some(0x1400));
        assert_eq!(allocator.take(0x400, 64), Some(0x1a00), "0x300 and 0x100 bytes are free below");
        assert_eq!(allocator.take(0x300, 64), Some(0x1100));
        assert_eq!(allocator.left(), 0x4000 - 0x1e00 + 0x100);
    }
}
