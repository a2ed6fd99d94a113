// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random draws for single requests: noise, and the time that a sleeping root complex takes to wake. They use integer
//! tables and the lab's seed, no floating point.

use crate::profile::{PowerProfile, WeightedLatency};
use rand_core::RngCore;
use rand_xoshiro::Xoshiro256PlusPlus;
use tlp::{Duration, Time};

/// Parts of a whole in [`WeightedLatency`].
const BILLION: u64 = 1_000_000_000;

/// Draws from a table; if its parts sum to less than a billion, the rest is zero latency.
pub(super) fn draw(table: &[WeightedLatency], rng: &mut Xoshiro256PlusPlus) -> Duration {
    // As uniform as 32 bits over a billion allow.
    let mut drawn = (u64::from(rng.next_u32()) * BILLION) >> 32;
    for row in table {
        let parts = u64::from(row.parts_per_billion);
        if drawn < parts {
            return row.latency;
        }
        drawn -= parts;
    }
    Duration::ZERO
}

/// The sleep of an idle root complex.
pub(super) struct Power {
    /// Sleep states, from the lightest to the deepest.
    depths: Vec<PowerProfile>,
    busy_until: Time,
    awake_at: Time,
}

impl Power {
    pub(super) fn new(depths: &[PowerProfile]) -> Power {
        Power { depths: depths.to_vec(), busy_until: Time::ZERO, awake_at: Time::ZERO }
    }

    /// Returns when a request that arrives at `at` finds the root complex awake, and whether it slept.
    pub(super) fn wake(&mut self, at: Time, rng: &mut Xoshiro256PlusPlus) -> (Time, bool) {
        let busy_until = self.busy_until.max(self.awake_at);
        let depth = self.depths.iter().rposition(|depth| at >= busy_until + depth.idle);
        if let Some(depth) = depth {
            self.awake_at = at + draw(&self.depths[depth].wake, rng);
        }
        self.busy_until = self.busy_until.max(self.awake_at).max(at);
        (at.max(self.awake_at), depth.is_some())
    }

    /// Keeps the part awake until `until`, because there is work.
    pub(super) fn stay_awake(&mut self, until: Time) {
        self.busy_until = self.busy_until.max(until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::SeedableRng;

    fn row(parts_per_billion: u32, ns: u64) -> WeightedLatency {
        WeightedLatency { parts_per_billion, latency: Duration::from_ns(ns) }
    }

    #[test]
    fn draws_follow_the_proportions_of_the_table() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
        let table = [row(100_000_000, 7), row(300_000_000, 9)];
        let mut counts = [0u32; 10];
        (0..10_000).for_each(|_| counts[(draw(&table, &mut rng).as_ps() / 1000) as usize] += 1);
        assert!((900..1100).contains(&counts[7]) && (2850..3150).contains(&counts[9]), "{counts:?}");
        assert_eq!(counts[0] + counts[7] + counts[9], 10_000);
        assert_eq!(draw(&[row(1_000_000_000, 3)], &mut rng), Duration::from_ns(3));
        assert_eq!(draw(&[], &mut rng), Duration::ZERO);
    }

    #[test]
    fn sleeps_after_a_long_enough_idle_time() {
        let at = |ns| Time::ZERO + Duration::from_ns(ns);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
        let wake = vec![row(1_000_000_000, 600)];
        let mut power = Power::new(&[PowerProfile { idle: Duration::from_ns(100), wake }]);
        assert_eq!(power.wake(at(1000), &mut rng), (at(1600), true));
        assert_eq!(power.wake(at(1200), &mut rng), (at(1600), false), "it is on its way");
        power.stay_awake(at(1700));
        assert_eq!(power.wake(at(1799), &mut rng), (at(1799), false));
        assert_eq!(power.wake(at(1899), &mut rng), (at(2499), true));
    }
}
