// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Edges of several clocks in time order. Frequencies are whole Hz, so rounding errors do not accumulate: edge `n` of a clock is at
//! the whole picosecond below `n` half periods.

use crate::loader::Eval;
use tlp::{Duration, Time};

const PS_PER_S: u64 = 1_000_000_000_000;
/// Number of edges that are computed together.
const BATCH: usize = 256;

#[derive(Clone, Debug)]
struct Clock {
    /// Number of half periods per second: twice the frequency in Hz.
    halves: u64,
    /// Length of half a period: whole picoseconds, and the remainder in units of 1/`halves` picosecond.
    half: (u64, u64),
    /// Time of the next edge: whole picoseconds, and the remainder.
    at: (u64, u64),
    is_high: bool,
}

impl Clock {
    fn new(frequency_hz: u64) -> Clock {
        let halves = 2 * frequency_hz;
        let half = (PS_PER_S / halves, PS_PER_S % halves);
        Clock { halves, half, at: half, is_high: false }
    }

    fn pass(&mut self) {
        self.is_high = !self.is_high;
        let rest = self.at.1 + self.half.1;
        let carry = u64::from(rest >= self.halves);
        self.at = (self.at.0 + self.half.0 + carry, rest - carry * self.halves);
    }
}

/// Clocks that start at time zero, low.
#[derive(Clone, Debug)]
pub(crate) struct Clocks {
    all: Vec<Clock>,
    /// The computed edges, and how many of them have passed.
    next: Vec<Eval>,
    passed: usize,
    /// Current levels.
    levels: u32,
}

impl Clocks {
    /// Creates clocks whose first rising edge is half a period after time zero.
    pub(crate) fn new(frequencies: &[u64]) -> Clocks {
        let all = frequencies.iter().map(|hz| Clock::new(*hz)).collect();
        let mut clocks = Clocks { all, next: Vec::new(), passed: 0, levels: 0 };
        clocks.reckon();
        clocks
    }

    /// Computes the next edges.
    fn reckon(&mut self) {
        self.next.clear();
        self.passed = 0;
        while self.next.len() < BATCH {
            let time_ps = self.all.iter().map(|clock| clock.at.0).min().unwrap_or(u64::MAX);
            let mut clocks = 0;
            for (n, clock) in self.all.iter_mut().enumerate() {
                if clock.at.0 == time_ps {
                    clock.pass();
                }
                clocks |= u32::from(clock.is_high) << n;
            }
            self.next.push(Eval { clocks, time_ps });
        }
    }

    /// Returns the next edges before `until`, at least one of them if there are any.
    pub(crate) fn before(&self, until: Time) -> &[Eval] {
        let next = &self.next[self.passed..];
        let count = next.partition_point(|eval| eval.time_ps < until.as_ps());
        &next[..count]
    }

    /// Marks `count` edges as passed.
    pub(crate) fn pass(&mut self, count: usize) {
        self.passed += count;
        self.levels = self.passed.checked_sub(1).map_or(self.levels, |last| self.next[last].clocks);
        if self.passed == self.next.len() {
            self.reckon();
        }
    }

    /// Returns the time of the next edge.
    pub(crate) fn next(&self) -> Time {
        Time::from_ps(self.next[self.passed].time_ps)
    }

    /// Returns when clock 0 rises next.
    pub(crate) fn next_rise(&self) -> Time {
        let mut before = self.levels;
        for eval in &self.next[self.passed..] {
            if eval.clocks & !before & 1 == 1 {
                return Time::from_ps(eval.time_ps);
            }
            before = eval.clocks;
        }
        let clock = &self.all[0];
        let fall = if clock.is_high { clock.half.0 } else { 0 };
        Time::from_ps(clock.at.0) + Duration::from_ps(fall)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A period of 322.265625 MHz is not a whole number of picoseconds. A millisecond has the exact number of edges,
    /// each at the exact time.
    #[test]
    fn every_clock_edge_occurs() {
        let frequencies = [322_265_625u64, 125_000_000];
        let mut clocks = Clocks::new(&frequencies);
        let (mut edges, mut before) = ([0u64; 2], 0);
        while clocks.next().as_ps() <= 1_000_000_000 {
            let rise = clocks.next_rise();
            let &[eval, ..] = clocks.before(Time::MAX) else { panic!("no edge") };
            clocks.pass(1);
            for (n, count) in
                edges.iter_mut().enumerate().filter(|(n, _)| (eval.clocks ^ before) >> n & 1 == 1)
            {
                *count += 1;
                let halves = 2 * u128::from(frequencies[n]);
                assert_eq!(u128::from(eval.time_ps), u128::from(*count) * u128::from(PS_PER_S) / halves);
            }
            assert_eq!(rise == Time::from_ps(eval.time_ps), eval.clocks & !before & 1 == 1);
            before = eval.clocks;
        }
        assert_eq!(edges, [644_531, 250_000]);
    }
}
