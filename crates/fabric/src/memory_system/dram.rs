// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory below the caches: a latency, banks whose lines take turns, and refresh. It holds no data.

use super::draw::{Drawing, is_drawn};
use crate::profile::{DramBanks, DramProfile, RefreshProfile};
use rand_core::RngCore;
use rand_xoshiro::Xoshiro256PlusPlus;
use tlp::{Duration, Time};

pub(super) struct Dram {
    latency: Duration,
    banks: Option<Banks>,
    refresh: Option<RefreshProfile>,
}

struct Banks {
    free_at: Vec<Time>,
    row_shift: u32,
    line_service: Duration,
    speculative_reads: bool,
}

impl Dram {
    pub(super) fn new(profile: &DramProfile) -> Dram {
        Dram {
            latency: profile.latency,
            banks: profile.banks.as_ref().map(Banks::new),
            refresh: profile.refresh.clone(),
        }
    }

    /// Returns how long a read waits for a refresh: it finds one with a probability of cycle / interval, and then any part of it
    /// is left. Some wait longer.
    pub(super) fn refresh(&self, drawing: Drawing, rng: &mut Xoshiro256PlusPlus) -> Duration {
        let Some(RefreshProfile { interval, cycle, late, .. }) = &self.refresh else { return Duration::ZERO };
        let beyond = drawing.draw(late, rng);
        if beyond > Duration::ZERO || drawing.is_rarest() {
            return *cycle + beyond;
        }
        let since = ((u128::from(interval.as_ps()) * u128::from(rng.next_u32())) >> 32) as u64;
        Duration::from_ps(cycle.as_ps().saturating_sub(since))
    }

    /// Returns how long a read that hits the cache waits for a refresh.
    pub(super) fn refresh_of_hit(&self, drawing: Drawing, rng: &mut Xoshiro256PlusPlus) -> Duration {
        let hits = self.refresh.as_ref().map_or(0, |refresh| refresh.hits);
        match drawing.of_share(hits) {
            Some(drawing) if drawing.is_rarest() || is_drawn(hits, rng) => self.refresh(drawing, rng),
            _ => Duration::ZERO,
        }
    }

    /// Returns the extra time for the line at `address`, requested at `asked`, over one from the cache. A bank serves
    /// requests in the order of their arrival at the host, even if the host delayed some of them.
    pub(super) fn read_line(&mut self, address: u64, asked: Time) -> Duration {
        match &mut self.banks {
            Some(banks) => banks.turn(address, asked) + self.latency,
            None => self.latency,
        }
    }

    /// Returns the extra time for a line that comes from the cache of a core while memory is read for it as well.
    pub(super) fn snooped_line(&mut self, address: u64, asked: Time) -> Duration {
        match &mut self.banks {
            Some(banks) if banks.speculative_reads => banks.turn(address, asked),
            _ => Duration::ZERO,
        }
    }
}

impl Banks {
    fn new(banks: &DramBanks) -> Banks {
        Banks {
            free_at: vec![Time::ZERO; banks.count.clamp(1, 65_536) as usize],
            row_shift: banks.row_bytes.max(64).ilog2(),
            line_service: banks.line_service,
            speculative_reads: banks.speculative_reads,
        }
    }

    /// Reserves the next service time of the bank, and returns the wait for it.
    fn turn(&mut self, address: u64, asked: Time) -> Duration {
        let bank = (address >> self.row_shift) % self.free_at.len() as u64;
        let free_at = &mut self.free_at[bank as usize];
        let begin = asked.max(*free_at);
        *free_at = begin + self.line_service;
        begin.since(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::WeightedLatency;
    use rand_core::SeedableRng;

    /// 4 Gb chips of the Haswell servers: 260 ns each 7.8 us, so 3.33 % of the reads wait, evenly up to 260 ns: 128 in a million
    /// for each nanosecond.
    #[test]
    fn reads_wait_evenly_for_refresh() {
        let dram = Dram::new(&DramProfile {
            latency: Duration::from_ns(69),
            banks: None,
            refresh: Some(refresh(0, Vec::new())),
        });
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let waits: Vec<u64> =
            (0..1_000_000).map(|_| dram.refresh(Drawing::ByChance, &mut rng).as_ps()).collect();
        let beyond = |ns: u64| waits.iter().filter(|ps| **ps > ns * 1000).count() as f64;
        for (ns, per_million) in [(0, 33_333.0), (65, 25_000.0), (130, 16_667.0), (195, 8_333.0)] {
            let found = beyond(ns);
            assert!((found / per_million - 1.0_f64).abs() < 0.03, "{found} in a million beyond {ns} ns");
        }
        assert_eq!(beyond(260), 0.0);
    }

    fn refresh(hits: u32, late: Vec<WeightedLatency>) -> RefreshProfile {
        let ns = Duration::from_ns;
        RefreshProfile { interval: ns(7_800), cycle: ns(260), hits, late }
    }

    /// A tenth of the hits waits too. One read in a million waits for another 150 ns: the longest of two million reads, but
    /// not of two million hits.
    #[test]
    fn rarest_waits_depend_on_the_number_of_reads() {
        let late = vec![WeightedLatency { parts_per_billion: 1_000, latency: Duration::from_ns(150) }];
        let refresh = Some(refresh(100_000_000, late));
        let dram = Dram::new(&DramProfile { latency: Duration::ZERO, banks: None, refresh });
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let two_million = Drawing::rarest_of(2_000_000);
        assert_eq!(dram.refresh(two_million, &mut rng), Duration::from_ns(410));
        assert_eq!(dram.refresh_of_hit(two_million, &mut rng), Duration::from_ns(260));
        assert_eq!(dram.refresh_of_hit(Drawing::rarest_of(100_000_000), &mut rng), Duration::from_ns(410));
        let waits =
            (0..1_000_000).filter(|_| dram.refresh_of_hit(Drawing::ByChance, &mut rng) > Duration::ZERO);
        let found = waits.count() as f64;
        assert!((found / 3_333.0 - 1.0).abs() < 0.1, "{found} hits in a million wait");
    }

    #[test]
    fn lines_of_a_bank_are_served_one_by_one() {
        let ns = Duration::from_ns;
        let banks = DramBanks { count: 2, row_bytes: 4096, line_service: ns(20), speculative_reads: true };
        let mut dram = Dram::new(&DramProfile { latency: ns(80), banks: Some(banks), refresh: None });
        let at = |n| Time::ZERO + ns(n);
        // Rows: address, time, extra time.
        let rows =
            [(0, 0, 80), (64, 0, 100), (4096, 0, 80), (8192, 10, 110), (8192, 60, 80), (12_288, 15, 85)];
        for (address, when, expected) in rows {
            assert_eq!(dram.read_line(address, at(when)), ns(expected), "{address} at {when} ns");
        }
        assert_eq!(dram.snooped_line(0, at(70)), ns(10));
        let mut plain = Dram::new(&DramProfile { latency: ns(80), banks: None, refresh: None });
        assert_eq!([plain.read_line(0, at(0)), plain.read_line(0, at(0))], [ns(80); 2]);
        assert_eq!(plain.snooped_line(0, at(0)), Duration::ZERO);
    }
}
