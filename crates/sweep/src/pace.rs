// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many points a worker is given at a time. Never gives any.

use std::time::Duration;

/// The work of a chunk: enough that handing it out does not count.
const CHUNK: Duration = Duration::from_millis(200);
/// Points of a chunk at most: two orders with as many fit into a pipe.
pub(crate) const MOST: usize = 500;

/// Learns from records what a point costs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pace {
    /// The work of a chunk.
    work: Duration,
    /// CPU seconds of a point, lately.
    cost: Option<f64>,
}

impl Default for Pace {
    /// Chunks for processes of this machine.
    fn default() -> Pace {
        Pace::of(CHUNK)
    }
}

impl Pace {
    /// Chunks of so much work.
    pub const fn of(work: Duration) -> Pace {
        Pace { work, cost: None }
    }

    /// A point has taken so much CPU time.
    pub fn learn(&mut self, cpu: Duration) {
        let cpu = cpu.as_secs_f64();
        self.cost = Some(self.cost.map_or(cpu, |cost| cost + (cpu - cost) / 16.0));
    }

    /// Points of the next chunk, where so many are left for so many workers: as much work as it is to have, less towards the end, so that all end
    /// together.
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
    fn chunks_follow_the_cost() {
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
