// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Number of points that a worker receives at a time.

use std::time::Duration;

/// Work of a chunk. It is so large that the time to hand out the chunk is negligible.
const CHUNK: Duration = Duration::from_millis(200);
/// Maximum number of points of a chunk: two orders of this size fit into a pipe.
pub(crate) const MOST: usize = 500;

/// Estimates the cost of a point from records.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pace {
    /// Work of a chunk.
    work: Duration,
    /// Recent CPU seconds per point.
    cost: Option<f64>,
}

impl Default for Pace {
    /// Returns the pace for processes of this machine.
    fn default() -> Pace {
        Pace::of(CHUNK)
    }
}

impl Pace {
    /// Returns a pace for chunks with this much work.
    pub const fn of(work: Duration) -> Pace {
        Pace { work, cost: None }
    }

    /// Records the CPU time of a point.
    pub fn learn(&mut self, cpu: Duration) {
        let cpu = cpu.as_secs_f64();
        self.cost = Some(self.cost.map_or(cpu, |cost| cost + (cpu - cost) / 16.0));
    }

    /// Returns the number of points for the next chunk, if `left` points remain for `workers`. A chunk has the configured work, and less towards
    /// the end, so that all workers finish together.
    pub fn chunk(&self, left: u64, workers: usize) -> usize {
        let Some(cost) = self.cost else { return 1 };
        let share = left / (2 * workers.max(1) as u64);
        let enough = self.work.as_secs_f64() / cost.max(1e-9);
        (enough as u64).min(share).clamp(1, MOST as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_size_depends_on_cost_of_points() {
        let mut pace = Pace::default();
        assert_eq!(pace.chunk(1000, 2), 1);
        pace.learn(Duration::from_millis(10));
        assert_eq!([1000, 40, 3, 0].map(|left| pace.chunk(left, 2)), [20, 10, 1, 1]);
        (0..200).for_each(|_| pace.learn(Duration::from_secs(1)));
        assert_eq!(pace.chunk(1000, 2), 1);
        (0..400).for_each(|_| pace.learn(Duration::from_nanos(1)));
        assert_eq!(pace.chunk(1_000_000, 2), MOST);
    }
}
