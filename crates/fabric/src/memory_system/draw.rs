// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random draws for single requests: noise, and the time that a sleeping root complex takes to wake. They use integer
//! tables and the lab's seed, no floating point.

use crate::profile::{PowerProfile, WeightedLatency};
use rand_core::RngCore;
use rand_xoshiro::Xoshiro256PlusPlus;
use tlp::{Duration, Time};

/// Parts of a whole in [`WeightedLatency`].
const BILLION: u64 = 1_000_000_000;

/// How latencies are drawn from tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Drawing {
    /// By chance.
    ByChance,
    /// Always the longest with at least this many parts per billion.
    Longest(u64),
}

impl Drawing {
    /// The longest latency that is expected once among `samples`.
    pub(super) const fn rarest_of(samples: u64) -> Drawing {
        Drawing::Longest(if samples == 0 { BILLION } else { BILLION.div_ceil(samples) })
    }

    /// Returns true for the longest latencies.
    pub(super) const fn is_rarest(self) -> bool {
        matches!(self, Drawing::Longest(_))
    }

    /// Returns how tables are drawn from that apply to `parts` of a billion requests; `None` if that is too rare.
    pub(super) const fn of_share(self, parts: u32) -> Option<Drawing> {
        match self {
            _ if parts == 0 => None,
            Drawing::ByChance => Some(self),
            Drawing::Longest(least) => {
                let least = (least * BILLION).div_ceil(parts as u64);
                if least > BILLION { None } else { Some(Drawing::Longest(least)) }
            }
        }
    }

    /// Draws from a table; if its parts sum to less than a billion, the rest is zero latency.
    pub(super) fn draw(self, table: &[WeightedLatency], rng: &mut Xoshiro256PlusPlus) -> Duration {
        let Drawing::Longest(least) = self else { return draw(table, rng) };
        let likely = table.iter().filter(|row| u64::from(row.parts_per_billion) >= least);
        likely.map(|row| row.latency).max().unwrap_or(Duration::ZERO)
    }
}

/// Returns true with a probability of `parts` in a billion.
pub(super) fn is_drawn(parts: u32, rng: &mut Xoshiro256PlusPlus) -> bool {
    share(rng) < u64::from(parts)
}

/// A number below a billion, as uniform as 32 bits allow.
fn share(rng: &mut Xoshiro256PlusPlus) -> u64 {
    (u64::from(rng.next_u32()) * BILLION) >> 32
}

fn draw(table: &[WeightedLatency], rng: &mut Xoshiro256PlusPlus) -> Duration {
    if table.is_empty() {
        return Duration::ZERO;
    }
    let mut drawn = share(rng);
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
    pub(super) fn wake(&mut self, at: Time, drawing: Drawing, rng: &mut Xoshiro256PlusPlus) -> (Time, bool) {
        let busy_until = self.busy_until.max(self.awake_at);
        let depth = self.depths.iter().rposition(|depth| at >= busy_until + depth.idle);
        if let Some(depth) = depth {
            self.awake_at = at + drawing.draw(&self.depths[depth].wake, rng);
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

    /// Two million requests are expected to meet a latency of one in a million, but not one of one in a hundred million.
    #[test]
    fn rarest_draws_take_the_longest_likely_latency() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
        let table = [row(1_000_000, 7), row(1_000, 9), row(10, 11)];
        let mut of = |samples| Drawing::rarest_of(samples).draw(&table, &mut rng);
        assert_eq!([10, 10_000, 2_000_000, 100_000_000].map(&mut of), [0, 7, 9, 11].map(Duration::from_ns));
        assert_eq!(Drawing::Longest(500).of_share(100_000_000), Some(Drawing::Longest(5_000)));
        assert_eq!(Drawing::Longest(500).of_share(100), None);
        assert_eq!(Drawing::ByChance.of_share(1), Some(Drawing::ByChance));
        assert_eq!(Drawing::ByChance.of_share(0), None);
    }

    #[test]
    fn sleeps_after_a_long_enough_idle_time() {
        let at = |ns| Time::ZERO + Duration::from_ns(ns);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
        let wake = vec![row(1_000_000_000, 600)];
        let mut power = Power::new(&[PowerProfile { idle: Duration::from_ns(100), wake }]);
        let mut wake = |power: &mut Power, ns| power.wake(at(ns), Drawing::ByChance, &mut rng);
        assert_eq!(wake(&mut power, 1000), (at(1600), true));
        assert_eq!(wake(&mut power, 1200), (at(1600), false), "it is on its way");
        power.stay_awake(at(1700));
        assert_eq!(wake(&mut power, 1799), (at(1799), false));
        assert_eq!(wake(&mut power, 1899), (at(2499), true));
    }
}
