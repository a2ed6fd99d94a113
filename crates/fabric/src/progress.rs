// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reasons why a run ends, and the report of a run that cannot continue.

use std::fmt;
use tlp::{Duration, Time};

/// Limits of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Virtual time at which the run ends at the latest.
    pub until: Time,
    /// Number of events after which control returns, so that a caller can show progress.
    pub events: u64,
    /// Inputs may come from outside, such as from a socket. Then the run continues to `until` even if the host program
    /// has ended or all parts are silent. Only a failure ends it earlier.
    pub open_ended: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { until: Time::MAX, events: u64::MAX, open_ended: false }
    }
}

/// Why a run has returned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The host program has succeeded or does not exist, and no request is outstanding.
    Finished,
    /// The host program has ended with this error.
    Failed(String),
    /// Virtual time has reached its limit.
    TimeLimit,
    /// The number of events per call was reached; call again to continue.
    Paused,
    /// No event is left, but parts still wait: one line for each.
    NoProgress(Vec<String>),
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::Finished => f.write_str("finished"),
            Stop::Failed(why) => write!(f, "the run failed: {why}"),
            Stop::TimeLimit => f.write_str("the time limit came first"),
            Stop::Paused => f.write_str("paused"),
            Stop::NoProgress(who) => {
                f.write_str("no progress is possible")?;
                who.iter().try_for_each(|line| write!(f, "\n  {line}"))
            }
        }
    }
}

/// Virtual time without a TLP delivered, a timer of a device or of the host, or data from memory, after which no
/// progress is expected. By then the flow-control refresh (every 30 us, `PCIe 5.0 §2.6.1.2`) has sent the credits
/// thirty times over, and the slowest REPLAY_TIMER (24,000 symbols of 4 ns, §3.6.2.1) has replayed a lost TLP ten
/// times. The time in which links retrained does not count: see [`Silence`].
pub(crate) const STALL_LIMIT: Duration = Duration::from_ms(1);

/// Virtual time without progress after which the fabric checks whether it may pass over time: some refreshes of
/// credits.
pub(crate) const LULL: Duration = Duration::from_us(90);

/// How long links have been silent while they retrained, since the last progress. That time does not count against
/// [`STALL_LIMIT`]. The time between retrains does, so that a link that retrains for ever ends the run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Silence {
    /// End of the latest silence, which may be in the future.
    until: Time,
    /// Total silence since `progress`; time in which several links are silent counts once.
    total: Duration,
    /// Time of the last progress when a silence was noted.
    progress: Time,
}

impl Silence {
    /// A link is silent from `now` until `until`; the last progress was at `progress`.
    #[cold]
    pub(crate) fn note(&mut self, now: Time, until: Time, progress: Time) {
        if progress != self.progress {
            (self.progress, self.total) = (progress, self.until.since(now));
        }
        self.total += until.since(self.until.max(now));
        self.until = self.until.max(until);
    }

    /// Silence since the last progress at `progress`; a silence that began before counts whole.
    pub(crate) fn since(&self, progress: Time) -> Duration {
        if progress < self.until { self.total } else { Duration::ZERO }
    }
}

/// Maximum number of events at one time. If it is exceeded, time stands still: a device or program asks to be called
/// again at once, without end. A fabric itself needs some tens of events per port at one time.
pub(crate) const MAX_EVENTS_PER_INSTANT: u32 = 1 << 17;

/// Virtual time in which TLPs of an ended program may still arrive. It is many round trips of any link. It also ends
/// the run of a device that continues by itself for ever.
pub(crate) const DRAIN_LIMIT: Duration = Duration::from_us(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Time {
        Time::ZERO + Duration::from_us(us)
    }

    /// Rows: now, end of the silence, last progress; then the silence since that progress, in us, after it was noted.
    #[test]
    fn silence_adds_up_and_overlaps_count_once() {
        let rows = [
            (10, 15, 9, 5),
            (12, 20, 9, 10),
            (13, 14, 9, 10),
            (30, 34, 9, 14),
            // Progress during the silence: only the rest of the silence, and any later silence, count.
            (32, 40, 31, 8),
            (50, 53, 45, 3),
        ];
        let mut silence = Silence::default();
        for (now, until, progress, total) in rows {
            silence.note(us(now), us(until), us(progress));
            assert_eq!(silence.since(us(progress)), Duration::from_us(total), "at {now} us");
        }
        assert_eq!(silence.since(us(53)), Duration::ZERO, "over and forgotten");
    }
}
