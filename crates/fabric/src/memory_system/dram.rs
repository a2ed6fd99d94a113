// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory below the caches: a latency, and banks that serve one line at a time. This model holds no data.

use super::draw::Power;
use crate::profile::{DramBanks, DramProfile};
use rand_xoshiro::Xoshiro256PlusPlus;
use tlp::{Duration, Time};

pub(super) struct Dram {
    latency: Duration,
    banks: Option<Banks>,
    power: Option<Power>,
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
            power: profile.sleep.as_ref().map(|sleep| Power::new(std::slice::from_ref(sleep))),
        }
    }

    /// Returns the time that memory takes to wake for a request at `asked`.
    pub(super) fn wake(&mut self, asked: Time, rng: &mut Xoshiro256PlusPlus) -> Duration {
        let Some(power) = &mut self.power else { return Duration::ZERO };
        power.wake(asked, rng).0.since(asked)
    }

    /// The root complex has woken memory, which stays awake until `until`.
    pub(super) fn stay_awake(&mut self, until: Time) {
        if let Some(power) = &mut self.power {
            power.stay_awake(until);
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

    #[test]
    fn lines_of_a_bank_are_served_one_by_one() {
        let ns = Duration::from_ns;
        let banks = DramBanks { count: 2, row_bytes: 4096, line_service: ns(20), speculative_reads: true };
        let mut dram = Dram::new(&DramProfile { latency: ns(80), banks: Some(banks), sleep: None });
        let at = |n| Time::ZERO + ns(n);
        // Rows: address, time, extra time.
        let rows =
            [(0, 0, 80), (64, 0, 100), (4096, 0, 80), (8192, 10, 110), (8192, 60, 80), (12_288, 15, 85)];
        for (address, when, expected) in rows {
            assert_eq!(dram.read_line(address, at(when)), ns(expected), "{address} at {when} ns");
        }
        assert_eq!(dram.snooped_line(0, at(70)), ns(10));
        let mut plain = Dram::new(&DramProfile { latency: ns(80), banks: None, sleep: None });
        assert_eq!([plain.read_line(0, at(0)), plain.read_line(0, at(0))], [ns(80); 2]);
        assert_eq!(plain.snooped_line(0, at(0)), Duration::ZERO);
    }
}
