// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sums over the transactions of one kind on one link, with a histogram of their latencies and an example for each
//! bucket. A breakdown uses only integers, and never grows after creation.
//!
//! Least, mean and greatest are exact. The latencies in a bucket differ by less than 1/512. A quantile is the latency
//! of the first transaction in its bucket, with its parts. It is a measured latency, and exact if the others in the
//! bucket took as long.

use crate::stages::{Parts, Stage, Transaction};
use tlp::Duration;

/// Each power of two has `1 << SUB_BITS` bucket_bounds.
const SUB_BITS: u32 = 9;
/// Latencies from 2^44 ps (17 s) share the last bucket.
const MAX_BITS: u32 = 44;
const BUCKETS: usize = ((MAX_BITS - SUB_BITS + 1) as usize) << SUB_BITS;

/// Sums and histogram of the transactions of one kind.
pub struct Breakdown {
    count: u64,
    least_ps: u64,
    greatest_ps: u64,
    sums: Parts,
    least: Transaction,
    greatest: Transaction,
    /// Number of transactions in each bucket.
    counts: Box<[u64]>,
    /// The first transaction of each bucket that has any, in the order of bucket_bounds.
    examples: Vec<Transaction>,
    places: Box<[u16]>,
}

const _: () = assert!(BUCKETS <= u16::MAX as usize);

impl Breakdown {
    /// A breakdown of one transaction.
    pub(crate) fn new(first: &Transaction) -> Breakdown {
        let mut breakdown = Breakdown {
            count: 0,
            least_ps: u64::MAX,
            greatest_ps: 0,
            sums: Parts::default(),
            least: *first,
            greatest: *first,
            counts: vec![0; BUCKETS].into_boxed_slice(),
            // Reserves room for all buckets. The operating system provides memory only for used ones.
            examples: Vec::with_capacity(BUCKETS),
            places: vec![0; BUCKETS].into_boxed_slice(),
        };
        breakdown.add(first.latency(), &first.parts, &[], || *first);
        breakdown
    }

    /// Adds a transaction that took `latency` if it is neither the first of its bucket, the least nor the greatest;
    /// otherwise has no effect and returns false.
    #[inline(always)]
    pub(crate) fn add_usual(&mut self, latency: Duration, spent: &[(Stage, Duration)]) -> bool {
        let ps = latency.as_ps();
        let count = &mut self.counts[bucket_of(ps)];
        if *count == 0 || ps < self.least_ps || ps > self.greatest_ps {
            return false;
        }
        *count += 1;
        self.count += 1;
        spent.iter().for_each(|&(stage, spent)| self.sums.add(stage, spent));
        true
    }

    /// Adds a transaction that took `latency`: `parts` and `spent` together. Calls `whole` only if the transaction has
    /// to be kept.
    pub(crate) fn add(
        &mut self,
        latency: Duration,
        parts: &Parts,
        spent: &[(Stage, Duration)],
        whole: impl Fn() -> Transaction,
    ) {
        let ps = latency.as_ps();
        self.count += 1;
        self.sums.add_all(parts);
        spent.iter().for_each(|&(stage, spent)| self.sums.add(stage, spent));
        let bucket = bucket_of(ps);
        let count = &mut self.counts[bucket];
        *count += 1;
        // The first transaction of all is the first of its bucket.
        if *count == 1 || ps < self.least_ps || ps > self.greatest_ps {
            self.remember(bucket, ps, &whole());
        }
    }

    /// Keeps a transaction that stands out: the first of its bucket, the least or the greatest. Few do.
    #[cold]
    fn remember(&mut self, bucket: usize, ps: u64, whole: &Transaction) {
        if self.counts[bucket] == 1 {
            self.places[bucket] = self.examples.len() as u16;
            self.examples.push(*whole);
        }
        if ps < self.least_ps {
            (self.least_ps, self.least) = (ps, *whole);
        }
        if ps > self.greatest_ps || self.count == 1 {
            (self.greatest_ps, self.greatest) = (ps, *whole);
        }
    }

    /// Forgets all transactions.
    pub(crate) fn clear(&mut self) {
        (self.count, self.least_ps, self.greatest_ps) = (0, u64::MAX, 0);
        self.sums = Parts::default();
        self.counts.fill(0);
        self.examples.clear();
    }

    /// Number of transactions.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Total time in each stage. The sum over all stages is the sum of the latencies.
    pub fn sums(&self) -> &Parts {
        &self.sums
    }

    /// Total time in `stage`.
    pub fn sum(&self, stage: Stage) -> Duration {
        self.sums.of(stage)
    }

    /// The first transaction with the least latency.
    pub fn least(&self) -> &Transaction {
        &self.least
    }

    /// The first transaction with the greatest latency.
    pub fn greatest(&self) -> &Transaction {
        &self.greatest
    }

    /// Returns a transaction of the bucket that holds the quantile `per_mille` in 1000 (nearest rank); 500 is the
    /// median. 0 and 1000 return exactly the least and the greatest.
    pub fn quantile(&self, per_mille: u64) -> &Transaction {
        let rank = (u128::from(self.count) * u128::from(per_mille)).div_ceil(1_000) as u64;
        if rank <= 1 || rank >= self.count {
            return if rank <= 1 { &self.least } else { &self.greatest };
        }
        let mut seen = 0;
        let at_rank = |count: &u64| {
            seen += count;
            seen >= rank
        };
        let example = |bucket: usize| self.examples.get(usize::from(self.places[bucket]));
        self.counts.iter().position(at_rank).and_then(example).unwrap_or(&self.greatest)
    }
}

/// Log-linear: below 2^9 ps one bucket per picosecond, then 512 buckets per power of two.
const fn bucket_of(ps: u64) -> usize {
    let ps = if ps >> MAX_BITS == 0 { ps } else { (1 << MAX_BITS) - 1 };
    if ps >> SUB_BITS == 0 {
        return ps as usize;
    }
    let octave = ps.ilog2() - SUB_BITS;
    ((octave as usize) << SUB_BITS) + (ps >> octave) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::TransactionKind;
    use tlp::{Bdf, Status, Tag, Time};

    fn of(ps: u64) -> Transaction {
        let mut parts = Parts::default();
        parts.add(Stage::Memory, Duration::from_ps(ps));
        Transaction {
            link: 0,
            kind: TransactionKind::DmaRead,
            requester: Bdf::default(),
            tag: Tag::default(),
            bytes: 4,
            status: Status::Success,
            start: Time::from_ps(7),
            end: Time::from_ps(7 + ps),
            parts,
        }
    }

    fn add(breakdown: &mut Breakdown, ps: u64) {
        breakdown.add(Duration::from_ps(ps), &of(ps).parts, &[], || of(ps));
    }

    fn all(latencies: impl IntoIterator<Item = u64>) -> Breakdown {
        let mut latencies = latencies.into_iter();
        let mut breakdown = Breakdown::new(&of(latencies.next().unwrap()));
        latencies.for_each(|ps| add(&mut breakdown, ps));
        breakdown
    }

    /// Rows: picoseconds, bucket: where an octave begins and ends, and the clamp.
    #[test]
    fn buckets_have_expected_bounds() {
        let last = BUCKETS - 1;
        let rows = [
            (0, 0),
            (511, 511),
            (512, 512),
            (1023, 1023),
            (1024, 1024),
            (1025, 1024),
            (1026, 1025),
            (2047, 1535),
            (2048, 1536),
            ((1 << 44) - 1, last),
            (1 << 44, last),
            (u64::MAX, last),
        ];
        for (ps, bucket) in rows {
            assert_eq!(bucket_of(ps), bucket, "{ps}");
        }
    }

    #[test]
    fn quantiles_use_nearest_rank() {
        // Up to 512 ps every bucket is one picosecond wide.
        let b = all((1..=500).rev());
        let at = |per_mille| b.quantile(per_mille).latency().as_ps();
        assert_eq!([0, 2, 3, 500, 990, 1000].map(at), [1, 1, 2, 250, 495, 500]);
        assert_eq!((b.count(), b.sum(Stage::Memory).as_ps()), (500, 500 * 501 / 2));
    }

    #[test]
    fn quantile_error_is_at_most_a_512th() {
        let b = all((0..10_000).map(|n| 1_000_000 + n * 997 % 9_973 * 331));
        let mut sorted: Vec<u64> = (0..10_000).map(|n| 1_000_000 + n * 997 % 9_973 * 331).collect();
        sorted.sort_unstable();
        for per_mille in [10, 250, 500, 900, 990] {
            let exact = sorted[(10_000 * per_mille as usize).div_ceil(1_000) - 1];
            let found = b.quantile(per_mille).latency().as_ps();
            assert!(found.abs_diff(exact) * 512 <= exact, "{per_mille}: {found} for {exact}");
        }
    }

    #[test]
    fn breakdown_is_empty_after_clear() {
        let mut b = all([5, 900, 3]);
        b.clear();
        add(&mut b, 8);
        add(&mut b, 9);
        assert_eq!((b.count(), b.least().latency().as_ps(), b.greatest().latency().as_ps()), (2, 8, 9));
        assert_eq!(b.quantile(500).latency().as_ps(), 8);
    }
}
