// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Drives a lab that an outside program joins: inputs join at their times and are recorded, and the fabric advances
//! according to its clock. The driver does not depend on a transport and reads no clock: its caller passes the time.

use super::clock::{Clock, LOOK_EVENTS, Lag, SLICE_EVENTS};
use super::host::HostPlace;
use super::journal::Journal;
use super::record::{RecordSize, RecordedLab, Recorder};
use crate::Session;
use fabric::{Limits, Stop};
use lab::{JoinPoint, Wakes};
use plug::place::{Attachment, Input, InputError};
use std::any::Any;
use std::io;
use tlp::{Duration, Time};

/// Time after an input during which the fabric is polled without delay. Answers of the fabric and the host's programs
/// usually come by then; later answers are noticed within [`TICK`].
const LIVELY: Duration = Duration::from_us(50);
/// Interval at which the fabric advances while there is no input, but its links do other work than credit refreshes.
const TICK: Duration = Duration::from_ms(1);
/// Maximum interval while the links only refresh credits; their progress becomes visible only when it is queried.
const QUIET: Duration = Duration::from_ms(1000);
/// The same after an input, which may have changed the cost of a quiet time.
const FIRST_QUIET: Duration = Duration::from_ms(20);
/// Maximum number of events, about 0.1 us each, that delay the first input after a quiet time.
const QUIET_EVENTS: u64 = 1000;
/// Time that the fabric runs ahead of the outside before it is checked again for outputs.
const STEP: Duration = Duration::from_ns(500);
/// The same if no outside program waits for an answer.
const SETTLE_STEP: Duration = Duration::from_us(2);
/// Maximum virtual time for which an input may block the outside while the fabric runs ahead.
const PATIENCE: Duration = Duration::from_ms(20);

/// Access to a place where an outside program joins: a handle of a numbered place.
#[derive(Clone, Debug)]
pub struct Handle<P> {
    /// The place.
    pub place: P,
    number: u16,
    wakes: Wakes,
}

/// A lab that outside programs join.
pub struct Driver {
    session: Session,
    clock: Clock,
    lag: Lag,
    journal: Journal,
    /// Virtual time until which the fabric must be polled immediately.
    lively_until: Time,
    /// Sleep time of a quiet fabric: until about [`QUIET_EVENTS`] events are due.
    nap: Duration,
    failed: Option<String>,
}

impl Driver {
    /// Returns a driver of the lab of `session`, which must not have run yet.
    pub fn new(session: Session, clock: Clock) -> Driver {
        let (lag, journal) = (Lag::default(), session.journal.clone());
        Driver { session, clock, lag, journal, lively_until: Time::ZERO, nap: TICK, failed: None }
    }

    /// Returns the first place of this type.
    pub fn handle<P: Attachment + Clone>(&self) -> Option<Handle<P>> {
        (0..self.session.join_points.len()).find_map(|n| self.handle_at(n))
    }

    /// Returns the place with this name, such as `host guest` or `slot adapter`, if it has this type.
    pub fn handle_named<P: Attachment + Clone>(&self, name: &str) -> Option<Handle<P>> {
        self.handle_at(self.session.join_points.iter().position(|point| point.name == name)?)
    }

    /// Returns the names of all places of this type.
    pub fn handles<P: Attachment>(&self) -> impl Iterator<Item = &str> {
        let is = |point: &&JoinPoint| (&*point.place as &dyn Any).is::<P>();
        self.session.join_points.iter().filter(is).map(|point| &*point.name)
    }

    fn handle_at<P: Attachment + Clone>(&self, n: usize) -> Option<Handle<P>> {
        let JoinPoint { place, wakes, .. } = &self.session.join_points[n];
        let place = (&**place as &dyn Any).downcast_ref::<P>()?.clone();
        Some(Handle { place, number: n as u16, wakes: *wakes })
    }

    /// Records every further input in `out`, in at most `limit` bytes. Call this before the first input. At the limit
    /// the run continues, and the record notes that it is full.
    pub fn record(&mut self, out: Box<dyn io::Write>, lab: &RecordedLab, limit: u64) {
        let places: Vec<String> = self.session.join_points.iter().map(|point| point.name.clone()).collect();
        self.journal.record(Recorder::new(out, lab, &places, limit));
    }

    /// Returns the driven lab.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the lab, to add taps before it runs.
    pub fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    pub(crate) fn into_session(self) -> Session {
        self.session
    }

    /// Returns the current virtual time.
    pub fn now(&self) -> Time {
        self.session.fabric.now()
    }

    /// Returns the time that a lagging fabric has dropped so far; zero with other clocks.
    pub fn lag(&self) -> Lag {
        self.lag
    }

    /// Returns the reason if the run has failed. The driver then does not continue.
    pub fn failure(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// Passes an input to the place of `handle` at outside time `time`. The input joins when the fabric reaches that
    /// time, or at the fabric's current time if this is later or the fabric lags.
    pub fn inject<P, I: Input<P>>(&mut self, time: Time, handle: &Handle<P>, input: I) {
        self.come_to(time);
        let now = self.now();
        self.journal.input(now, handle.number, |out| input.emit(out));
        if input.join(&handle.place, now) {
            self.call(usize::from(handle.number), handle.wakes);
        }
        self.lively_until = now + LIVELY;
        self.nap = self.nap.min(FIRST_QUIET);
    }

    /// Passes a recorded input to place number `n`.
    pub(crate) fn inject_recorded(&mut self, n: usize, input: &[u8]) -> Result<(), InputError> {
        let JoinPoint { place, wakes, .. } = self.session.join_points[n].clone();
        if place.take_recorded(self.now(), input)? {
            self.call(n, wakes);
        }
        Ok(())
    }

    /// Wakes the part of the fabric at place number `place`.
    fn call(&mut self, place: usize, wakes: Wakes) {
        match wakes {
            Wakes::Slot(n) => self.session.fabric.wake_slot(n),
            // The host belongs to this lab.
            Wakes::Host(host) => {
                let place = &*self.session.join_points[place].place as &dyn Any;
                if let Some(place) = place.downcast_ref::<HostPlace>() {
                    let fabric = &mut self.session.fabric;
                    place.grants(|requester, memory| {
                        _ = match memory {
                            Some(memory) => fabric.grant_memory(host, requester, memory),
                            None => fabric.revoke_dma(host, requester),
                        };
                    });
                    if place.takes_reset() {
                        _ = fabric.reset_host(host);
                    }
                }
                _ = self.session.fabric.wake_host(host);
            }
            Wakes::Links => self.session.commands.apply(&mut self.session.fabric),
        }
    }

    /// Advances the fabric to outside time `until`, as far as its clock allows. If its links only refresh credits until
    /// then, this is postponed. Afterwards calls `leave`, because places may have outputs. With [`Clock::Virtual`],
    /// `leave` is also called repeatedly while the fabric runs ahead for outside programs that wait for it.
    pub fn drain(&mut self, until: Time, mut leave: impl FnMut(&mut Driver)) {
        if !self.sleeps(until) {
            let (from, before) = (self.now(), self.events());
            self.come_to(until);
            self.learn(from, before);
        }
        leave(self);
        if self.clock == Clock::Virtual {
            self.run_ahead(&mut leave);
        }
    }

    /// Runs ahead of the outside by at most `most`, until only link maintenance is due within that time. The effects of
    /// an input are then complete before the outside continues. Only with [`Clock::Virtual`].
    pub fn settle(&mut self, most: Duration, mut leave: impl FnMut(&mut Driver)) {
        let limit = self.now() + most;
        while self.clock == Clock::Virtual && self.now() < limit && self.failed.is_none() {
            match self.quiet_until() {
                Some(at) if at > limit => return,
                Some(at) => self.run_until(at + Duration::from_ps(1)),
                None => self.run_until((self.now() + SETTLE_STEP).min(limit)),
            }
            leave(self);
        }
    }

    /// Returns the outside time of the next [drain](Self::drain) without further inputs; `None` if the fabric is
    /// finished.
    pub fn poll_timeout(&self) -> Option<Time> {
        let now = self.now();
        let lively = now < self.lively_until && self.quiet_until().is_none() || self.awaits_fabric();
        let at = if lively { now } else { self.tick() };
        self.failed.is_none().then(|| self.lag.outside(at))
    }

    /// Runs until outside time `now`, and ends the record. No more inputs may follow. Returns the size of the record, if
    /// there is one.
    ///
    /// # Errors
    /// The record could not be written.
    pub fn finish(&mut self, now: Time) -> io::Result<Option<RecordSize>> {
        self.come_to(now);
        self.journal.finish(self.now())
    }

    /// Advances the fabric to outside time `outside`, as far as its clock allows.
    pub fn come_to(&mut self, outside: Time) {
        match self.clock {
            Clock::Virtual | Clock::Wall => self.run_until(outside),
            Clock::Lagging => self.lag_behind(self.lag.aim(outside)),
        }
    }

    /// Runs the fabric until `time`, if it is in the future.
    pub(crate) fn run_until(&mut self, time: Time) {
        if time > self.now() {
            self.run(Limits { until: time, open_ended: true, ..Limits::default() });
        }
    }

    /// Runs a slice towards `aim` and drops the rest. Stops at the first output, and leaves the rest for the next call.
    fn lag_behind(&mut self, aim: Time) {
        let mut left = SLICE_EVENTS;
        while self.now() < aim && self.failed.is_none() {
            if left == 0 {
                return self.lag.drop_debt(aim.since(self.now()));
            }
            let from = self.now();
            self.run(Limits { until: aim, events: LOOK_EVENTS, open_ended: true });
            // Stops only between instants, so that a replay finds the same position for an input.
            let until = self.now().max(from + Duration::from_ps(1));
            self.run(Limits { until, open_ended: true, ..Limits::default() });
            if self.has_output() {
                return;
            }
            left -= LOOK_EVENTS;
        }
    }

    fn run(&mut self, limits: Limits) {
        if self.failed.is_some() {
            return;
        }
        match self.session.run(limits) {
            Stop::TimeLimit | Stop::Paused | Stop::Finished => {}
            stop @ (Stop::Failed(_) | Stop::NoProgress(_)) => self.failed = Some(stop.to_string()),
        }
    }

    /// Runs ahead of the outside until no outside program waits, and posted TLPs have arrived.
    fn run_ahead(&mut self, leave: &mut impl FnMut(&mut Driver)) {
        let limit = self.now() + PATIENCE;
        while self.awaits_fabric() && self.now() < limit && self.failed.is_none() {
            self.run_until(self.now() + STEP);
            leave(self);
        }
        if self.now() < self.lively_until {
            self.run_until(self.now() + STEP + STEP);
        }
        leave(self);
    }

    fn awaits_fabric(&self) -> bool {
        self.session.join_points.iter().any(|point| point.place.awaits_fabric())
    }

    fn has_output(&self) -> bool {
        self.session.join_points.iter().any(|point| point.place.has_output())
    }

    /// Time at which the fabric must advance without inputs. If links only refresh credits, this is the end of an idle
    /// period: the fabric catches up then, or at the next input.
    fn tick(&self) -> Time {
        self.naps_until().unwrap_or(self.now() + TICK)
    }

    /// The end of the idle period, or of the quiet time if this is earlier; `None` if the fabric is not quiet.
    fn naps_until(&self) -> Option<Time> {
        self.quiet_until().map(|at| at.min(self.now() + self.nap))
    }

    /// True if no output becomes visible until outside time `outside`, and the idle period is not over.
    fn sleeps(&self, outside: Time) -> bool {
        self.naps_until().is_some_and(|at| outside < self.lag.outside(at))
    }

    /// Time until which no output becomes visible outside, because links only refresh credits. `None` if an output may
    /// come at any time.
    fn quiet_until(&self) -> Option<Time> {
        self.session.fabric.quiet_until().filter(|_| !self.has_output())
    }

    /// Number of events that were run.
    fn events(&self) -> u64 {
        let totals = self.session.fabric.totals();
        totals.events - totals.passed_over
    }

    /// Measures the event rate of a quiet time, from a run since `from`.
    fn learn(&mut self, from: Time, events_before: u64) {
        let events = self.events() - events_before;
        let passed = self.now().since(from);
        if passed >= TICK {
            let nap = passed.as_ps() / events.max(1) * QUIET_EVENTS;
            self.nap = Duration::from_ps(nap).clamp(TICK, QUIET);
        }
    }
}
