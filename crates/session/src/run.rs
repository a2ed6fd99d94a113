// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The run loop. Every run of a lab uses this loop, in one call or in slices. No clock is read.

use crate::session::Session;
use fabric::{Fabric, Limits, Stop};
use plug::plugged::AnyReport;
use std::ops::ControlFlow;
use tlp::Time;

/// Progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Virtual time.
    pub now: Time,
    /// The part of the time limit that has passed, from 0 to 1, if there is a limit.
    pub of_limit: Option<f64>,
    /// Transfers done and in total, of devices that know the total.
    pub transfers: Option<(u64, u64)>,
    /// Events handled.
    pub events: u64,
}

/// Division of a run into slices.
#[derive(Clone, Copy, Debug)]
pub struct Slices {
    /// Events per slice.
    pub events: u64,
    /// Maximum number of events of the run, which then ends with [`Stop::Paused`].
    pub max_events: u64,
}

impl Slices {
    /// Returns slices of this many events, without a limit for the run.
    pub const fn of(events: u64) -> Slices {
        Slices { events, max_events: u64::MAX }
    }
}

/// Returns `done` as a part of `all`, from 0 to 1.
pub fn share(done: u64, all: u64) -> f64 {
    done.min(all) as f64 / all.max(1) as f64
}

impl Session {
    /// Runs the fabric like [`Fabric::run`]. The result is [`Stop::Failed`] if a device has failed, or if a device reports that the whole run has
    /// failed.
    pub fn run(&mut self, limits: Limits) -> Stop {
        let stop = self.fabric.run(limits);
        self.or_failed(stop)
    }

    /// Returns `stop`, or the failure of a device.
    fn or_failed(&self, stop: Stop) -> Stop {
        let told = |what: fn(&dyn AnyReport) -> Option<String>| self.of_each_slot(what).next();
        match stop {
            Stop::Failed(_) => stop,
            Stop::Paused => told(|report| report.failure()).map_or(stop, Stop::Failed),
            _ => told(|report| report.failure())
                .or_else(|| told(|report| report.verdict()))
                .map_or(stop, Stop::Failed),
        }
    }

    /// Runs to the end of the lab or to its time limit.
    pub fn run_to_end(&mut self) -> Stop {
        self.run(Limits { until: self.limit, ..Limits::default() })
    }

    /// Like [`run_to_end`](Self::run_to_end), but calls `before` before each slice, which may end the run with a value.
    ///
    /// # Errors
    /// The value of `before`.
    pub fn run_in_slices<B>(
        &mut self,
        slices: Slices,
        before: impl FnMut(&mut Session) -> ControlFlow<B>,
    ) -> Result<Stop, B> {
        let until = self.limit;
        let slice =
            |session: &mut Session, events| session.fabric.run(Limits { until, events, ..Limits::default() });
        self.run_by(slices, slice, before)
    }

    /// Like [`run_in_slices`](Self::run_in_slices), and calls `after_event` after every event, for callers that wake a part of the fabric
    /// immediately.
    ///
    /// # Errors
    /// The value of `before`.
    pub fn run_by_events<B>(
        &mut self,
        slices: Slices,
        mut after_event: impl FnMut(&mut Fabric),
        before: impl FnMut(&mut Session) -> ControlFlow<B>,
    ) -> Result<Stop, B> {
        let limits = Limits { until: self.limit, events: 1, ..Limits::default() };
        let slice = |session: &mut Session, events| {
            for _ in 0..events {
                match session.fabric.run(limits) {
                    Stop::Paused => after_event(&mut session.fabric),
                    stop => return stop,
                }
            }
            Stop::Paused
        };
        self.run_by(slices, slice, before)
    }

    fn run_by<B>(
        &mut self,
        slices: Slices,
        mut slice: impl FnMut(&mut Session, u64) -> Stop,
        mut before: impl FnMut(&mut Session) -> ControlFlow<B>,
    ) -> Result<Stop, B> {
        let mut left = slices.max_events;
        loop {
            if let ControlFlow::Break(value) = before(self) {
                return Err(value);
            }
            let events = slices.events.min(left);
            let stop = slice(self, events);
            let stop = self.or_failed(stop);
            left -= events;
            if stop != Stop::Paused || left == 0 {
                return Ok(stop);
            }
        }
    }

    /// Returns the progress of the run.
    pub fn progress(&self) -> Progress {
        let (now, limit) = (self.fabric.now(), self.limit);
        Progress {
            now,
            of_limit: (limit != Time::MAX).then(|| share(now.as_ps(), limit.as_ps())),
            transfers: self.transfers(),
            events: self.fabric.totals().events,
        }
    }
}
