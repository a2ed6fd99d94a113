// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A design with frames, in time: its library, its clock and its reset. It runs ahead of the fabric while no input can arrive.

use crate::clocks::Clocks;
use crate::loader::{Edges, Instance, RunError};
use link::symbol_times;
use tlp::{Duration, Rate, Time};

/// Duration of PERST#.
const RESET: Duration = Duration::from_ns(200);
/// REPLAY_TIMER in symbol times (`PCIe 5.0 §3.6.2.1`).
const REPLAY_SYMBOLS: u32 = 24_500;

/// A design with one clock.
pub(crate) struct Engine {
    /// `None`: it was not loaded, or has ended.
    instance: Option<Instance>,
    clocks: Clocks,
    clock_hz: u64,
    reset_until: Time,
    /// Time of the last evaluated edges.
    at: Time,
    /// Whether the fabric's time is before `at`: outputs must not be visible yet.
    is_ahead: bool,
    /// Whether the block has new inputs since then.
    is_fresh: bool,
    failure: Option<RunError>,
}

impl Engine {
    pub(crate) fn new(instance: Option<Instance>, clock_hz: u64) -> Engine {
        Engine {
            instance,
            clocks: Clocks::new(&[clock_hz]),
            clock_hz,
            reset_until: Time::ZERO + RESET,
            at: Time::ZERO,
            is_ahead: false,
            is_fresh: true,
            failure: None,
        }
    }

    /// Whether the design runs.
    pub(crate) fn runs(&self) -> bool {
        self.instance.is_some()
    }

    pub(crate) fn at(&self) -> Time {
        self.at
    }

    pub(crate) fn is_ahead(&self) -> bool {
        self.is_ahead
    }

    pub(crate) fn reset_until(&self) -> Time {
        self.reset_until
    }

    /// Resets the design at `now`.
    pub(crate) fn reset(&mut self, now: Time) {
        self.reset_until = now + RESET;
    }

    /// Returns the limit of REPLAY_TIMER at this rate, in cycles of 16 bits.
    pub(crate) fn replay_timer(&self, rate: Rate) -> u32 {
        let limit = symbol_times(rate, REPLAY_SYMBOLS);
        self.cycles(limit).min(u16::MAX.into()) as u32
    }

    /// Returns the number of whole cycles in a time.
    pub(crate) fn cycles(&self, time: Duration) -> u64 {
        (u128::from(time.as_ps()) * u128::from(self.clock_hz) / 1_000_000_000_000) as u64
    }

    /// Evaluates edges before `until`, up to one with an output. Returns false if no edge is left.
    pub(crate) fn pass_edges(&mut self, until: Time, words: [usize; 2], edges: &mut dyn Edges) -> bool {
        let evals = self.clocks.before(until);
        let (Some(instance), false) = (&mut self.instance, evals.is_empty()) else { return false };
        match instance.run(evals, self.reset_until, words, edges, std::mem::take(&mut self.is_fresh)) {
            Ok(done) => {
                let last = evals[..done].last();
                self.at = last.map_or(self.at, |last| Time::from_ps(last.time_ps));
                self.clocks.pass(done);
            }
            Err(why) => {
                self.instance = None;
                self.failure = Some(why);
            }
        }
        true
    }

    /// The fabric has caught up, and may give inputs.
    pub(crate) fn join(&mut self) {
        self.is_ahead = false;
        self.is_fresh = true;
    }

    /// The design has run ahead since `before`, the time of its edges then.
    pub(crate) fn note_ahead(&mut self, before: Time) {
        self.is_ahead = self.at > before;
    }

    /// Returns when the fabric must call the design.
    pub(crate) fn poll_timeout(&self, has_output: bool) -> Option<Time> {
        let waits = self.is_ahead && has_output;
        self.instance.as_ref().map(|_| if waits { self.at } else { self.clocks.next_rise() })
    }

    /// Returns the reason for which the design has ended, in this cycle.
    pub(crate) fn failure(&self, cycle: u64) -> Option<String> {
        self.failure.as_ref().map(|why| format!("the design ended in cycle {cycle}: {why}"))
    }
}
