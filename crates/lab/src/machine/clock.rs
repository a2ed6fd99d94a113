// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fabric's time beside a clock outside.

use tlp::{Duration, Time};

/// How much of the time that riser itself takes is made up for. More is let go: what riser computes long at is not slow for that.
const MOST_OWED: Duration = Duration::from_ms(1);

/// The fabric's time goes with the clock, stands still while riser computes, and makes up for that at twice the speed: so what takes
/// its time on a wire takes no longer beside a fabric that is busy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paced {
    /// The fabric's time when it was `seen` outside.
    time: Time,
    seen: Time,
    owed: Duration,
}

impl Paced {
    /// Begins at zero.
    pub(super) fn new(outside: Time) -> Paced {
        Paced { time: Time::ZERO, seen: outside, owed: Duration::ZERO }
    }

    /// The fabric's time when it is `outside` there, and riser has waited since it was [computing](Self::computed).
    pub(super) fn waited(&mut self, outside: Time) -> Time {
        let passed = outside.since(self.seen);
        let made_up = passed.min(self.owed);
        self.owed = self.owed - made_up;
        (self.time, self.seen) = (self.time + passed + made_up, outside);
        self.time
    }

    /// Riser has computed until it is `outside` there.
    pub(super) fn computed(&mut self, outside: Time) {
        self.owed = (self.owed + outside.since(self.seen)).min(MOST_OWED);
        self.seen = outside;
    }

    /// How long it is outside until the fabric's time is `at`.
    pub(super) fn until(&self, at: Time) -> Duration {
        let left = at.since(self.time);
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
        let mut paced = Paced::new(outside(1000));
        assert_eq!(paced.waited(outside(1010)), outside(10));
        paced.computed(outside(1040));
        assert_eq!(paced.waited(outside(1040)), outside(10));
        assert_eq!((paced.until(outside(30)), paced.until(outside(110))), (US(10), US(70)));
        assert_eq!(paced.waited(outside(1050)), outside(30));
        assert_eq!(paced.waited(outside(1120)), outside(120));
        // A long time is not made up for: a millisecond of it is.
        paced.computed(outside(901_120));
        assert_eq!(paced.waited(outside(903_120)), outside(3120));
    }
}
