// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The edges of several clocks in the order of their times. Frequencies are whole Hz, so that no rounding adds up: edge `n` of a clock
//! is at the whole picosecond below `n` half periods. Knows no signal.

use tlp::Time;

const PS_PER_S: u128 = 1_000_000_000_000;

#[derive(Clone, Debug)]
struct Clock {
    frequency_hz: u64,
    /// The next edge, from 0 on; even ones rise.
    next: u64,
    at: Time,
}

impl Clock {
    fn at(frequency_hz: u64, begin: Time, edge: u64) -> Time {
        let ps = u128::from(edge) * PS_PER_S / (2 * u128::from(frequency_hz));
        begin + tlp::Duration::from_ps(ps as u64)
    }
}

/// Clocks that begin to run at the same time, low.
#[derive(Clone, Debug)]
pub(crate) struct Clocks {
    begin: Time,
    all: Vec<Clock>,
    levels: u32,
}

impl Clocks {
    /// Clocks whose first edges rise a half period after `begin`.
    pub(crate) fn new(frequencies: &[u64], begin: Time) -> Clocks {
        let clock =
            |&frequency_hz: &u64| Clock { frequency_hz, next: 1, at: Clock::at(frequency_hz, begin, 1) };
        Clocks { begin, all: frequencies.iter().map(clock).collect(), levels: 0 }
    }

    /// When the next edge is.
    pub(crate) fn next(&self) -> Time {
        self.all.iter().map(|clock| clock.at).min().unwrap_or(Time::MAX)
    }

    /// When clock 0 rises next.
    pub(crate) fn next_rise(&self) -> Time {
        let clock = &self.all[0];
        let rises = clock.next | 1;
        Clock::at(clock.frequency_hz, self.begin, rises)
    }

    /// Goes past all edges of this time; the levels behind them, a bit for each clock.
    pub(crate) fn pass(&mut self, at: Time) -> u32 {
        for (n, clock) in self.all.iter_mut().enumerate().filter(|(_, clock)| clock.at == at) {
            // Odd edges rise.
            self.levels = self.levels & !(1 << n) | ((clock.next & 1) as u32) << n;
            clock.next += 1;
            clock.at = Clock::at(clock.frequency_hz, self.begin, clock.next);
        }
        self.levels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 322.265625 MHz is no whole number of picoseconds: a second has all of its edges, no more.
    #[test]
    fn no_edge_is_lost() {
        let mut clocks = Clocks::new(&[322_265_625, 125_000_000], Time::ZERO);
        let (mut rises, mut before) = ([0u64; 2], 0);
        while clocks.next().as_ps() <= 1_000_000_000 {
            let levels = clocks.pass(clocks.next());
            for (n, count) in rises.iter_mut().enumerate() {
                *count += u64::from(levels & !before & 1 << n != 0);
            }
            before = levels;
        }
        assert_eq!(rises, [322_266, 125_000]);
    }
}
