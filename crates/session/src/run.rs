// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The run loop. Every run of a lab goes through it, in one go or in slices. Never reads a clock.

use crate::session::Session;
use fabric::{Fabric, Limits, Stop};
use plug::plugged::AnyReport;
use std::ops::ControlFlow;
use tlp::Time;

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Virtual time.
    pub now: Time,
    /// The part of the time limit that has passed, from 0 to 1, if there is a limit.
    pub of_limit: Option<f64>,
    /// Transfers done, and transfers in all, of the devices that know.
    pub transfers: Option<(u64, u64)>,
    /// Events handled.
    pub events: u64,
}

/// How a run is cut into slices.
#[derive(Clone, Copy, Debug)]
pub struct Slices {
    /// Events of a slice.
    pub events: u64,
    /// Most events of the run, which is then [`Stop::Paused`].
    pub max_events: u64,
}

impl Slices {
    /// Slices of this many events, without a limit for the run.
    pub const fn of(events: u64) -> Slices {
        Slices { events, max_events: u64::MAX }
    }
}

/// Returns `done` as a part of `all`, from 0 to 1.
pub fn share(done: u64, all: u64) -> f64 {
    done.min(all) as f64 / all.max(1) as f64
}

impl Session {
    /// Runs the fabric as [`Fabric::run`] does. The result is [`Stop::Failed`] if a device has failed, or if a device judges the whole run as failed.
    pub fn run(&mut self, limits: Limits) -> Stop {
        let stop = self.fabric.run(limits);
        self.or_failed(stop)
    }

    /// Returns `stop`, or the failure of a device.
    fn or_failed(&self, stop: Stop) -> Stop {
        let told = |what: fn(&dyn AnyReport) -> Option<String>| self.said(what).next();
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

    /// As [`run_to_end`](Self::run_to_end). Before each slice it calls `before`, which may break off the run with a
    /// value.
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

    /// As [`run_in_slices`](Self::run_in_slices), and calls `after_event` after every event: for callers that wake a part of the
    /// fabric at once.
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

    /// Returns how far the run is.
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
