// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fabric's time beside a clock outside.

use tlp::{Duration, Time};

/// How much of the time that riser itself takes is made up for. More is let go: what riser computes long at is not slow for that.
const MOST_OWED: Duration = Duration::from_ms(1);

/// For how long riser computes until it looks at the machines again. A design of RTL takes a thousand times as long as its own time.
const MOST_COMPUTED: Duration = Duration::from_ms(2);
/// The least that the fabric's time advances by, however long that takes.
const LEAST_STEP: Duration = Duration::from_us(1);

/// The fabric's time goes with the clock, stands still while riser computes, and makes up for that at twice the speed: so what takes
/// its time on a wire takes no longer beside a fabric that is busy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paced {
    /// The fabric's time when it was `seen` outside.
    time: Time,
    seen: Time,
    owed: Duration,
    /// The fabric's time goes at this part of the clock's.
    slow: u64,
    /// What the fabric's time advances by at most.
    step: Duration,
    /// What it has advanced by last.
    advanced: Duration,
}

impl Paced {
    /// Begins at zero, `slow` times as slow as the clock.
    pub(super) fn new(outside: Time, slow: u32) -> Paced {
        let (owed, advanced) = (Duration::ZERO, Duration::ZERO);
        let (slow, step) = (slow.max(1).into(), Duration::MAX);
        Paced { time: Time::ZERO, seen: outside, owed, slow, step, advanced }
    }

    /// The fabric's time when it is `outside` there, and riser has waited since it was [computing](Self::computed).
    pub(super) fn waited(&mut self, outside: Time) -> Time {
        let passed = outside.since(self.seen);
        let made_up = passed.min(self.owed);
        self.owed = self.owed - made_up;
        let all = Duration::from_ps((passed + made_up).as_ps() / self.slow);
        self.advanced = all.min(self.step);
        (self.time, self.seen) = (self.time + self.advanced, outside);
        self.time
    }

    /// Riser has computed until it is `outside` there: what it takes long at, it does in small steps.
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

    /// How far the fabric's time may go until riser looks at the machines again.
    pub(super) fn step(&self) -> Duration {
        self.step
    }

    /// How long it is outside until the fabric's time is `at`, or it has advanced as far as it may.
    pub(super) fn until(&self, at: Time) -> Duration {
        let left = Duration::from_ps(at.since(self.time).min(self.step).as_ps().saturating_mul(self.slow));
        let half = Duration::from_ps(left.as_ps().div_ceil(2));
        if half <= self.owed { half } else { left - self.owed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Duration = Duration::from_us;

    #[test]
    fn it_stands_still_and_makes_up_for_that() {
        let outside = |us| Time::ZERO + US(us);
        let mut paced = Paced::new(outside(1000), 1);
        assert_eq!(paced.waited(outside(1010)), outside(10));
        paced.computed(outside(1040));
        assert_eq!(paced.waited(outside(1040)), outside(10));
        assert_eq!((paced.until(outside(30)), paced.until(outside(110))), (US(10), US(70)));
        assert_eq!(paced.waited(outside(1050)), outside(30));
        assert_eq!(paced.waited(outside(1120)), outside(120));
        // A long time is not made up for: a millisecond of it is.
        paced.computed(outside(901_120));
        assert_eq!(paced.waited(outside(901_121)), outside(121));
    }

    /// Riser computes for 90 us at each of the fabric's: it looks at the machines every 2 ms.
    #[test]
    fn what_takes_long_is_done_in_small_steps() {
        let mut now = Time::ZERO;
        let mut paced = Paced::new(now, 10);
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
