// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rule that ends the measurement of a row. The card takes millions of samples per row. A simulation has only the
//! noise of its host profile, and needs fewer samples. Rows record their number of samples.

use crate::experiments::{Key, Test};

/// When to stop. Latency samples and bandwidth transfers come in batches, after a warm-up that does not count.
///
/// A latency row ends when neither the median nor the 95th percentile of all samples has changed in [`Rule::stable_batches`] consecutive batches. A bandwidth
/// row ends when the rate of all transfers has changed by less than [`Rule::tolerance_ppm`] in each of as many batches. Both end after their largest number of
/// batches in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Samples in a batch of latencies.
    pub latency_batch: u64,
    /// Most batches of a latency row.
    pub latency_batches: u64,
    /// Factor for both in rows whose distribution is kept.
    pub detail_factor: u64,
    /// Data in a batch of bandwidths, in bytes. A batch has [`Rule::BATCH_TRANSFERS`] transfers.
    pub bandwidth_batch_bytes: u64,
    /// Most batches of a bandwidth row.
    pub bandwidth_batches: u64,
    /// Consecutive batches without a change that end a row.
    pub stable_batches: u64,
    /// Maximum change of a bandwidth that is treated as no change, in parts per million.
    pub tolerance_ppm: u64,
    /// Cache lines that a test has written to a large window before its first transfer. Device writes may use only a
    /// share of the cache. After this number of lines, lines leave that share at the same rate at which they enter it.
    pub seen_lines: u64,
    /// Samples whose maximum a latency row has: as many as the published rows. A row measures fewer. Then it measures
    /// [`Rule::RAREST_SAMPLES`] more, in which each read meets the longest latency that is expected once among so many samples.
    /// Zero: the maximum of the row's own samples.
    pub maximum_of_samples: u64,
}

impl Default for Rule {
    fn default() -> Rule {
        Rule {
            latency_batch: 1024,
            latency_batches: 24,
            detail_factor: 4,
            bandwidth_batch_bytes: 256 << 10,
            bandwidth_batches: 24,
            stable_batches: 3,
            tolerance_ppm: 1000,
            seen_lines: 49_152,
            maximum_of_samples: 1 << 21,
        }
    }
}

impl Rule {
    /// Returns a rule for fits and scores, which need many rows with less precision.
    pub fn quick() -> Rule {
        Rule {
            latency_batch: 256,
            latency_batches: 8,
            bandwidth_batches: 8,
            stable_batches: 2,
            tolerance_ppm: 3000,
            ..Rule::default()
        }
    }

    /// Returns the rule with the fewest samples, for tests of properties that do not depend on precision.
    pub const fn least() -> Rule {
        Rule {
            latency_batch: 32,
            latency_batches: 2,
            detail_factor: 4,
            bandwidth_batch_bytes: 16 << 10,
            bandwidth_batches: 2,
            stable_batches: 1,
            tolerance_ppm: 10_000,
            seen_lines: 49_152,
            maximum_of_samples: 0,
        }
    }

    /// Fewest and most transfers in a batch of bandwidths.
    pub const BATCH_TRANSFERS: (u64, u64) = (352, 2048);

    /// Samples of a latency row that only its maximum counts.
    pub const RAREST_SAMPLES: u64 = 64;
    /// Times as many samples as the other published rows have those whose distribution is published.
    const DETAIL_SAMPLES: u64 = 8;

    /// Returns the samples whose maximum a row has, if these are more than it measures.
    pub fn maximum_of(&self, key: &Key, detail: bool) -> Option<u64> {
        let samples = self.maximum_of_samples * if detail { Rule::DETAIL_SAMPLES } else { 1 };
        (key.test.is_latency() && samples > self.batch(key, detail) * self.batches(key, detail))
            .then_some(samples)
    }

    /// Returns the samples or transfers in a batch.
    pub fn batch(&self, key: &Key, detail: bool) -> u64 {
        let (least, most) = Rule::BATCH_TRANSFERS;
        match key.test.is_latency() {
            true => self.latency_batch * if detail { self.detail_factor } else { 1 },
            false => (self.bandwidth_batch_bytes / u64::from(key.size_bytes.max(1))).clamp(least, most),
        }
    }

    /// Returns the most batches of a row.
    pub fn batches(&self, key: &Key, detail: bool) -> u64 {
        match key.test.is_latency() {
            true => self.latency_batches * if detail { self.detail_factor } else { 1 },
            false => self.bandwidth_batches,
        }
    }

    /// Returns the number of transfers before the counted transfers: two batches for a bandwidth, to fill the queues; a
    /// few samples for a latency. Alternating reads and writes need 16 batches: while the queue of the slower kind fills, the other kind
    /// ends more often.
    pub fn warm_up(&self, key: &Key) -> u64 {
        match key.test {
            Test::BwDmaRw => 16 * self.batch(key, false),
            test if test.is_latency() => 64,
            _ => 2 * self.batch(key, false),
        }
    }

    /// Returns the transfers before these that the caches have seen. For tests that write, they cover the window three times or have [`Rule::seen_lines`]
    /// lines, whichever is less. The same holds for tests that read if lines that were read stay in the cache (`reads_stay`).
    pub fn seen(&self, key: &Key, reads_stay: bool) -> u64 {
        if !reads_stay && matches!(key.test, Test::LatCmdRd | Test::LatDmaRd | Test::BwDmaRd) {
            return 0;
        }
        let lines = (u64::from(key.size_bytes) + u64::from(key.host_offset_bytes)).div_ceil(64).max(1);
        let window_lines = key.window_bytes / 64;
        // Such a cache fills completely, not only DDIO's share.
        let most = if reads_stay { 4 * self.seen_lines } else { self.seen_lines };
        (3 * window_lines).min(most) / lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::Experiment;

    #[test]
    fn rule_sets_batches_and_warm_ups() {
        let rule = Rule::default();
        let row = |name: &str, line: usize| Experiment::named(name).unwrap().rows()[line];
        // Name, row, batch, warm-up, transfers seen by the caches.
        for (name, line, batch, warm_up, seen) in [
            ("lat_dma_sizes", 0, 1024, 64, 0),
            ("lat_dma_sweep_wrrd_rnd_64", 11, 1024, 64, 49_152),
            ("lat_dma_sweep_wrrd_rnd_64", 0, 1024, 64, 384),
            ("bw_dma_sz_sweep", 0, 2048, 4096, 0),
            ("bw_dma_sz_sweep", 39, 352, 704, 0),
            ("bw_dma_sz_sweep", 119, 352, 5632, 12),
            ("bw_dma_win_sweep_wr_rnd_512", 12, 512, 1024, 6144),
        ] {
            let key = row(name, line);
            assert_eq!(
                (rule.batch(&key, false), rule.warm_up(&key), rule.seen(&key, false)),
                (batch, warm_up, seen),
                "{name} {line}"
            );
        }
    }

    /// The published rows have 2,097,152 samples, or 16,777,216 with a distribution.
    #[test]
    fn latency_rows_have_the_maximum_of_published_rows() {
        let row = |name: &str| Experiment::named(name).unwrap().rows()[0];
        let (latency, bandwidth) = (row("lat_dma_sizes"), row("bw_dma_sz_sweep"));
        let rule = Rule::default();
        assert_eq!(rule.maximum_of(&latency, false), Some(2_097_152));
        assert_eq!(rule.maximum_of(&latency, true), Some(16_777_216));
        assert_eq!(rule.maximum_of(&bandwidth, false), None);
        assert_eq!(Rule { maximum_of_samples: 1000, ..rule }.maximum_of(&latency, false), None);
        assert_eq!(Rule::least().maximum_of(&latency, true), None);
    }
}
