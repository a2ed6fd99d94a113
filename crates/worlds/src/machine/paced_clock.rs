// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fabric's time, paced by an outside clock.

use tlp::{Duration, Time};

/// Maximum computing time for which the fabric makes up. Longer computations do not slow the fabric down.
const MOST_OWED: Duration = Duration::from_ms(1);

/// Target for riser's computing time between two polls of the machines. The computation of an RTL design takes a
/// thousand times the simulated time.
const MOST_COMPUTED: Duration = Duration::from_ms(2);
/// Minimum step of the fabric's time, however long it takes to compute.
const LEAST_STEP: Duration = Duration::from_us(1);

/// Maximum step of the fabric's time during catch-up, before riser polls the machines again.
const CATCH_UP: Duration = Duration::from_us(50);

/// The fabric's time follows the clock and stands still while riser computes. It then catches up, so that a frame on a wire takes the same
/// time with a busy fabric as with an idle one.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacedClock {
    /// The fabric's time when the outside clock showed `seen`.
    time: Time,
    seen: Time,
    owed: Duration,
    /// Factor by which the fabric's time is slower than the clock.
    slow: u64,
    /// Catches up without waiting, in steps of [`CATCH_UP`]. Otherwise the fabric's time runs at twice the speed of the
    /// clock until it has caught up, while riser waits.
    at_once: bool,
    /// Maximum step of the fabric's time.
    step: Duration,
    /// The last step.
    advanced: Duration,
}

impl PacedClock {
    /// Starts at zero, `slow` times slower than the clock. With `at_once`, riser has its own processor and catches up as soon as it can.
    pub(super) fn new(outside: Time, slow: u32, at_once: bool) -> PacedClock {
        let (owed, advanced) = (Duration::ZERO, Duration::ZERO);
        let (slow, step) = (slow.max(1).into(), Duration::MAX);
        PacedClock { time: Time::ZERO, seen: outside, owed, slow, at_once, step, advanced }
    }

    /// Returns the fabric's time at `outside`, after riser has waited since [`computed`](Self::computed).
    pub(super) fn waited(&mut self, outside: Time) -> Time {
        let passed = outside.since(self.seen);
        let most = if self.at_once { passed.max(CATCH_UP) } else { passed };
        let made_up = self.owed.min(most);
        self.owed = self.owed - made_up;
        let all = Duration::from_ps((passed + made_up).as_ps() / self.slow);
        self.advanced = all.min(self.step);
        (self.time, self.seen) = (self.time + self.advanced, outside);
        self.time
    }

    /// Records the end of a computation at `outside`. Long computations make the next steps smaller.
    pub(super) fn computed(&mut self, outside: Time) {
        let took = outside.since(self.seen);
        self.owed = (self.owed + took).min(MOST_OWED);
        self.seen = outside;
        if took > MOST_COMPUTED {
            let step = u128::from(self.advanced.as_ps()) * u128::from(MOST_COMPUTED.as_ps());
            self.step = Duration::from_ps((step / u128::from(took.as_ps())) as u64).max(LEAST_STEP);
        } else {
            self.step = self.step + self.step;
        }
    }

    /// Returns the maximum step of the fabric's time before riser polls the machines again.
    pub(super) fn step(&self) -> Duration {
        self.step
    }

    /// Returns the outside time until the fabric's time is `at`, or until the end of the step if that is earlier.
    pub(super) fn until(&self, at: Time) -> Duration {
        let left = Duration::from_ps(at.since(self.time).min(self.step).as_ps().saturating_mul(self.slow));
        if self.at_once {
            return left - left.min(self.owed);
        }
        let half = Duration::from_ps(left.as_ps().div_ceil(2));
        if half <= self.owed { half } else { left - self.owed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Duration = Duration::from_us;

    #[test]
    fn stands_still_during_computation_and_catches_up() {
        let outside = |us| Time::ZERO + US(us);
        let mut paced = PacedClock::new(outside(1000), 1, false);
        assert_eq!(paced.waited(outside(1010)), outside(10));
        paced.computed(outside(1040));
        assert_eq!(paced.waited(outside(1040)), outside(10));
        assert_eq!((paced.until(outside(30)), paced.until(outside(110))), (US(10), US(70)));
        assert_eq!(paced.waited(outside(1050)), outside(30));
        assert_eq!(paced.waited(outside(1120)), outside(120));
        // Only a millisecond of a long computation is made up for.
        paced.computed(outside(901_120));
        assert_eq!(paced.waited(outside(901_121)), outside(121));
    }

    #[test]
    fn catches_up_at_once_with_own_processor() {
        let outside = |us| Time::ZERO + US(us);
        let mut paced = PacedClock::new(outside(1000), 1, true);
        paced.computed(outside(1120));
        // The fabric is 120 us behind: riser does not wait, and polls the machines every 50 us.
        assert_eq!(paced.until(outside(110)), US(0));
        assert_eq!(paced.waited(outside(1120)), outside(50));
        assert_eq!(paced.waited(outside(1120)), outside(100));
        assert_eq!(paced.until(outside(130)), US(10));
        assert_eq!(paced.waited(outside(1130)), outside(130));
        // Waiting time counts in full.
        assert_eq!(paced.waited(outside(21_130)), outside(20_130));
    }

    /// riser computes for 90 us per microsecond of fabric time, and polls the machines every 2 ms.
    #[test]
    fn takes_small_steps_if_computation_is_slow() {
        let mut now = Time::ZERO;
        let mut paced = PacedClock::new(now, 10, false);
        for _ in 0..20 {
            let before = paced.time;
            now += US(5000);
            let advanced = paced.waited(now).since(before);
            now += Duration::from_ps(90 * advanced.as_ps());
            paced.computed(now);
        }
        let step = paced.step();
        assert!(step <= US(45) && step >= US(10), "{step:?}");
        assert!(paced.until(paced.time + US(1_000_000)) <= US(450));
    }
}
