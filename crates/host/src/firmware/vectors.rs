// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Assignment of a host's interrupt vectors.

/// The vectors of a host, and the assigned ranges.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Vectors {
    first: u16,
    last: u16,
    /// Assigned ranges in order: first vector and number.
    given: Vec<(u16, u16)>,
}

impl Vectors {
    pub(super) const fn new((first, last): (u16, u16)) -> Vectors {
        Vectors { first, last, given: Vec::new() }
    }

    /// Assigns `count` consecutive vectors, starting at the lowest free multiple of `align`.
    pub(super) fn give(&mut self, count: u16, align: u16) -> Option<u16> {
        // Gaps are rare, so the end of the last range is tried first.
        let fits = |base: u32, before: u32| base + u32::from(count) <= before;
        let up = |at: u32| at.next_multiple_of(align.max(1).into());
        let end = u32::from(self.last) + 1;
        let behind = self.given.last().map_or(u32::from(self.first), |g| u32::from(g.0) + u32::from(g.1));
        if fits(up(behind), end) {
            return self.insert(self.given.len(), up(behind), count);
        }
        let mut free = u32::from(self.first);
        for i in 0..self.given.len() {
            let (base, len) = self.given[i];
            if fits(up(free), base.into()) {
                return self.insert(i, up(free), count);
            }
            free = u32::from(base) + u32::from(len);
        }
        None
    }

    fn insert(&mut self, at: usize, base: u32, count: u16) -> Option<u16> {
        let base = u16::try_from(base).ok()?;
        self.given.insert(at, (base, count));
        Some(base)
    }

    /// Releases the vectors that start at `base`.
    pub(super) fn take_back(&mut self, base: u16, count: u16) {
        self.given.retain(|given| *given != (base, count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_aligned_and_reused() {
        let mut vectors = Vectors::new((32, 63));
        let given: Vec<_> = [(1, 1), (4, 4), (2, 2)].map(|(n, a)| vectors.give(n, a)).into();
        assert_eq!(given, [Some(32), Some(36), Some(40)]);
        assert_eq!((vectors.give(32, 1), vectors.give(22, 1)), (None, Some(42)));
        assert_eq!(vectors.give(3, 1), Some(33), "the gap before 36");
        vectors.take_back(36, 4);
        assert_eq!((vectors.give(8, 8), vectors.give(4, 4)), (None, Some(36)));
    }
}
