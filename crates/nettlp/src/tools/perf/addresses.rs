// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Selects the address of each request of a measurement.

/// Order of the addresses of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// Each request uses the first address of the region.
    Fixed,
    /// Addresses ascend, and start again at the first address after the end.
    Sequential,
    /// Random multiples of the request's length.
    Random,
}

/// Endless sequence of request addresses.
pub(super) struct Addresses {
    start: u64,
    /// Number of requests that fit into the region.
    places: u64,
    pattern: Pattern,
    len: u64,
    next: u64,
    random: u64,
}

impl Addresses {
    pub(super) fn new(start: u64, places: u64, pattern: Pattern, len: u64, seed: u64) -> Addresses {
        // A xorshift state of zero would stay zero.
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Addresses { start, places, pattern, len, next: 0, random }
    }

    pub(super) fn next(&mut self) -> u64 {
        let place = match self.pattern {
            Pattern::Fixed => 0,
            Pattern::Sequential => {
                let place = self.next;
                self.next = if place + 1 < self.places { place + 1 } else { 0 };
                place
            }
            Pattern::Random => self.roll() % self.places,
        };
        self.start + place * self.len
    }

    // xorshift64*: the same addresses for the same seed everywhere.
    fn roll(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(pattern: Pattern, count: usize) -> Vec<u64> {
        let mut addresses = Addresses::new(0x1000, 1000 / 256, pattern, 256, 7);
        (0..count).map(|_| addresses.next()).collect()
    }

    #[test]
    fn patterns_stay_in_their_region() {
        assert_eq!(first(Pattern::Fixed, 3), [0x1000; 3]);
        assert_eq!(first(Pattern::Sequential, 5), [0x1000, 0x1100, 0x1200, 0x1000, 0x1100]);
        let random = first(Pattern::Random, 200);
        assert_eq!(random, first(Pattern::Random, 200));
        for place in [0x1000, 0x1100, 0x1200] {
            let times = random.iter().filter(|address| **address == place).count();
            assert!((40..100).contains(&times), "{place:#x}: {times} of 200");
        }
    }
}
