// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When a run ends, and what it says where it cannot go on.

use std::fmt;
use tlp::{Duration, Time};

/// Limits of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Virtual time at which the run ends in any case.
    pub until: Time,
    /// Events after which control returns, so that a caller can show progress.
    pub events: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { until: Time::MAX, events: u64::MAX }
    }
}

/// Why a run has returned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The host program has ended well, or there is none, and nothing is under way.
    Finished,
    /// The host program has ended with this error.
    Failed(String),
    /// Virtual time has come to its limit.
    TimeLimit,
    /// The events of this call are used up; call again to go on.
    Paused,
    /// Nothing can happen any more, but not all are done: a line for each that waits.
    NoProgress(Vec<String>),
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::Finished => f.write_str("finished"),
            Stop::Failed(why) => write!(f, "the host program failed: {why}"),
            Stop::TimeLimit => f.write_str("the time limit came first"),
            Stop::Paused => f.write_str("paused"),
            Stop::NoProgress(who) => {
                f.write_str("no progress is possible")?;
                who.iter().try_for_each(|line| write!(f, "\n  {line}"))
            }
        }
    }
}

/// Virtual time without a TLP delivered, a timer of a device or of the host, or data from memory, after which nothing
/// will come any more. By then the flow-control refresh (every 30 us, `PCIe 5.0 §2.6.1.2`) has told the credits thirty
/// times over, and the slowest REPLAY_TIMER (24,000 symbols of 4 ns, §3.6.2.1) has sent a lost TLP again ten times.
pub(crate) const STALL_LIMIT: Duration = Duration::from_ms(1);

/// Events at one instant, after which time is said to stand still: a device or program asks to be called again at once,
/// without end. What a fabric does at one instant by itself is some tens of events for each port.
pub(crate) const MAX_EVENTS_PER_INSTANT: u32 = 1 << 17;

/// Virtual time in which what a program left behind when it ended may still arrive: many round trips of any link, and
/// little enough for a device that goes on by itself for ever.
pub(crate) const DRAIN_LIMIT: Duration = Duration::from_us(10);
