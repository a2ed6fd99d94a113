// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When a row has been measured well enough. The card takes millions of samples of each row; a simulation, whose noise is
//! only what its host profile says, needs fewer. Rows say how many they are of.

use crate::experiments::{Key, Test};

/// When to stop. Samples of latencies and transfers of bandwidths come in batches, behind a warm-up that does not count.
///
/// A latency row ends when neither the median nor the 95th percentile of all samples so far has changed in
/// [`Rule::stable_batches`] batches one behind the other; a bandwidth row when the rate of all transfers so far has changed
/// by less than [`Rule::tolerance_ppm`] in each of as many. Either ends after its most batches in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Samples of a batch of latencies.
    pub latency_batch: u64,
    /// Batches of a latency row at most.
    pub latency_batches: u64,
    /// By how much the two above are more in rows whose distribution is kept.
    pub detail_factor: u64,
    /// Data of a batch of bandwidths in bytes; it has [`Rule::BATCH_TRANSFERS`] transfers.
    pub bandwidth_batch_bytes: u64,
    /// Batches of a bandwidth row at most.
    pub bandwidth_batches: u64,
    /// Batches without a change, after which a row ends.
    pub stable_batches: u64,
    /// What counts as no change of a bandwidth, in parts of a million.
    pub tolerance_ppm: u64,
    /// Cache lines that a test which writes a large window has written before its first transfer: until lines are evicted
    /// from the share of the cache that writes of devices may use as fast as they enter it.
    pub seen_lines: u64,
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
        }
    }
}

impl Rule {
    /// A rule for many rows of which each need not be known to the last tick: fits and scores.
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

    /// Least and most transfers of a batch of bandwidths.
    pub const BATCH_TRANSFERS: (u64, u64) = (352, 2048);

    /// Samples or transfers of a batch.
    pub fn batch(&self, key: &Key, detail: bool) -> u64 {
        let (least, most) = Rule::BATCH_TRANSFERS;
        match key.test.is_latency() {
            true => self.latency_batch * if detail { self.detail_factor } else { 1 },
            false => (self.bandwidth_batch_bytes / u64::from(key.size_bytes.max(1))).clamp(least, most),
        }
    }

    /// The most batches of a row.
    pub fn batches(&self, key: &Key, detail: bool) -> u64 {
        match key.test.is_latency() {
            true => self.latency_batches * if detail { self.detail_factor } else { 1 },
            false => self.bandwidth_batches,
        }
    }

    /// Transfers before those that count: two batches of a bandwidth, for queues to fill, or a few samples.
    pub fn warm_up(&self, key: &Key) -> u64 {
        if key.test.is_latency() { 64 } else { 2 * self.batch(key, false) }
    }

    /// Transfers before these that the caches have seen: of tests that write, as many as touch the window three times, or
    /// [`Rule::seen_lines`]; and so of tests that read where lines that were read stay in the cache (`reads_stay`).
    pub fn seen(&self, key: &Key, reads_stay: bool) -> u64 {
        if !reads_stay && matches!(key.test, Test::LatCmdRd | Test::LatDmaRd | Test::BwDmaRd) {
            return 0;
        }
        let lines = (u64::from(key.size_bytes) + u64::from(key.host_offset_bytes)).div_ceil(64).max(1);
        let window_lines = key.window_bytes / 64;
        // All of such a cache fills, not DDIO's share alone.
        let most = if reads_stay { 4 * self.seen_lines } else { self.seen_lines };
        (3 * window_lines).min(most) / lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::Experiment;

    #[test]
    fn batches_and_warm_ups() {
        let rule = Rule::default();
        let row = |name: &str, line: usize| Experiment::named(name).unwrap().rows()[line];
        // Name, row, batch, warm-up, transfers that the caches have seen.
        for (name, line, batch, warm_up, seen) in [
            ("lat_dma_sizes", 0, 1024, 64, 0),
            ("lat_dma_sweep_wrrd_rnd_64", 11, 1024, 64, 49_152),
            ("lat_dma_sweep_wrrd_rnd_64", 0, 1024, 64, 384),
            ("bw_dma_sz_sweep", 0, 2048, 4096, 0),
            ("bw_dma_sz_sweep", 39, 352, 704, 0),
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
}
