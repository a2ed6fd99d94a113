// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Drives a lab that somebody outside joins: inputs join at their times and are recorded, and the fabric advances as
//! its clock says. The driver knows no transport and reads no clock: its caller tells it the time.

use super::clock::{Clock, LOOK_EVENTS, Lag, SLICE_EVENTS};
use super::host::HostPlace;
use super::journal::Journal;
use super::record::{RecordSize, RecordedLab, Recorder};
use crate::Session;
use fabric::{Limits, Stop};
use lab::{JoinPoint, Wakes};
use plug::place::{Input, Place};
use std::any::Any;
use std::io;
use tlp::{Duration, Time};

/// For this long after an input, the fabric is asked again at once: it and the host's programs answer by then, or later
/// within [`TICK`].
const LIVELY: Duration = Duration::from_us(50);
/// How often the fabric advances while nothing comes in and its links do more than refresh credits.
const TICK: Duration = Duration::from_ms(1);
/// How often it advances at least while they do nothing else; no effect of that shows before somebody looks.
const QUIET: Duration = Duration::from_ms(1000);
/// The same after an input, which may have changed what a quiet time costs.
const FIRST_QUIET: Duration = Duration::from_ms(20);
/// Number of events, some 0.1 us each, that the first input after a quiet time may have to wait for.
const QUIET_EVENTS: u64 = 1000;
/// How far the fabric runs ahead of the outside before it is checked again for outputs.
const STEP: Duration = Duration::from_ns(500);
/// The same where nobody outside waits for an answer.
const SETTLE_STEP: Duration = Duration::from_us(2);
/// How long, in virtual time, an input may keep somebody outside waiting while the fabric runs ahead.
const PATIENCE: Duration = Duration::from_ms(20);

/// Where somebody outside joins: a handle on a numbered place.
#[derive(Clone, Debug)]
pub struct Door<P> {
    /// The place.
    pub place: P,
    number: u16,
    wakes: Wakes,
}

/// A lab that the outside joins.
pub struct Driver {
    session: Session,
    clock: Clock,
    lag: Lag,
    journal: Journal,
    /// Virtual time until which the fabric must be asked again at once.
    lively_until: Time,
    /// How long a quiet fabric is left alone: until about [`QUIET_EVENTS`] have gathered.
    nap: Duration,
    failed: Option<String>,
}

impl Driver {
    /// Drives the lab of `session`, which must not have run yet.
    pub fn new(session: Session, clock: Clock) -> Driver {
        let (lag, journal) = (Lag::default(), session.journal.clone());
        Driver { session, clock, lag, journal, lively_until: Time::ZERO, nap: TICK, failed: None }
    }

    /// The first place of this type.
    pub fn door<P: Place + Clone>(&self) -> Option<Door<P>> {
        (0..self.session.join_points.len()).find_map(|n| self.door_at(n))
    }

    /// The place with this name, such as `host guest` or `slot adapter`, if it is of this type.
    pub fn door_named<P: Place + Clone>(&self, name: &str) -> Option<Door<P>> {
        self.door_at(self.session.join_points.iter().position(|point| point.name == name)?)
    }

    /// The names of all places of this type.
    pub fn doors<P: Place>(&self) -> impl Iterator<Item = &str> {
        let is = |point: &&JoinPoint| (&*point.place as &dyn Any).is::<P>();
        self.session.join_points.iter().filter(is).map(|point| &*point.name)
    }

    fn door_at<P: Place + Clone>(&self, n: usize) -> Option<Door<P>> {
        let JoinPoint { place, wakes, .. } = &self.session.join_points[n];
        let place = (&**place as &dyn Any).downcast_ref::<P>()?.clone();
        Some(Door { place, number: n as u16, wakes: *wakes })
    }

    /// Records every input in `out` from now on, in at most `limit` bytes; call it before the first input. When the
    /// limit is reached the run goes on, and the record says that it holds no more.
    pub fn record(&mut self, out: Box<dyn io::Write>, lab: &RecordedLab, limit: u64) {
        let places: Vec<String> = self.session.join_points.iter().map(|point| point.name.clone()).collect();
        self.journal.record(Recorder::new(out, lab, &places, limit));
    }

    /// The lab that is driven.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The lab, to add taps before it runs.
    pub fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    pub(crate) fn into_session(self) -> Session {
        self.session
    }

    /// The present virtual time.
    pub fn now(&self) -> Time {
        self.session.fabric.now()
    }

    /// The time that a lagging fabric has dropped so far; zero with other clocks.
    pub fn lag(&self) -> Lag {
        self.lag
    }

    /// Why the run has failed, if it has; it then does not go on.
    pub fn failure(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// Gives an input to the place behind `door` at `time` outside. It joins when the fabric reaches that time, or at
    /// the fabric's present time if that is later, or if the fabric lags.
    pub fn inject<P, I: Input<P>>(&mut self, time: Time, door: &Door<P>, input: I) {
        self.come_to(time);
        let now = self.now();
        self.journal.input(now, door.number, |out| input.emit(out));
        if input.join(&door.place, now) {
            self.call(usize::from(door.number), door.wakes);
        }
        self.lively_until = now + LIVELY;
        self.nap = self.nap.min(FIRST_QUIET);
    }

    /// Gives a recorded input to place number `n`.
    pub(crate) fn inject_recorded(&mut self, n: usize, input: &[u8]) -> Result<(), String> {
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
            // The host is one of this lab.
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
            Wakes::Links => self.session.commands.obey(&mut self.session.fabric),
        }
    }

    /// Advances the fabric as far as its clock allows when it is `until` outside, unless its links do nothing but refresh
    /// credits until then: it makes up for that later. Afterwards calls `leave`, since places may have outputs; with
    /// [`Clock::Virtual`] it also calls it repeatedly while the fabric runs on for those who wait for it.
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

    /// Runs ahead of the outside, by `most` at most, until nothing is due within that time but the upkeep of links: so what an
    /// input has set off has ended before the outside goes on. With [`Clock::Virtual`] alone.
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

    /// When to [drain](Self::drain) next by the clock outside if nothing comes in; `None` if nothing goes on.
    pub fn poll_timeout(&self) -> Option<Time> {
        let now = self.now();
        let lively = now < self.lively_until && self.quiet_until().is_none() || self.awaits_fabric();
        let at = if lively { now } else { self.tick() };
        self.failed.is_none().then(|| self.lag.outside(at))
    }

    /// Runs on until it is `now` outside, and ends the record; nothing more may come in. Returns the size of the
    /// record, if there is one.
    ///
    /// # Errors
    /// The record could not be written.
    pub fn finish(&mut self, now: Time) -> io::Result<Option<RecordSize>> {
        self.come_to(now);
        self.journal.finish(self.now())
    }

    /// Advances the fabric as far as its clock allows when it is `outside` there.
    pub fn come_to(&mut self, outside: Time) {
        match self.clock {
            Clock::Virtual | Clock::Wall => self.run_until(outside),
            Clock::Lagging => self.lag_behind(self.lag.aim(outside)),
        }
    }

    /// Runs the fabric until `time`, if that lies ahead.
    pub(crate) fn run_until(&mut self, time: Time) {
        if time > self.now() {
            self.run(Limits { until: time, open_ended: true, ..Limits::default() });
        }
    }

    /// Runs a slice of the way to `aim` and drops the rest. If an output comes first, it stops there and leaves the
    /// rest for the next call.
    fn lag_behind(&mut self, aim: Time) {
        let mut left = SLICE_EVENTS;
        while self.now() < aim && self.failed.is_none() {
            if left == 0 {
                return self.lag.drop_debt(aim.since(self.now()));
            }
            let from = self.now();
            self.run(Limits { until: aim, events: LOOK_EVENTS, open_ended: true });
            // Stops only between instants: a replay then finds the same place for an input that joins there.
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

    /// Runs ahead of the outside until nobody there waits any more, and posted TLPs have arrived.
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

    /// When the fabric must advance if nothing comes in. If links only refresh credits, that is after a nap: the fabric
    /// makes up for it then, or at the next input.
    fn tick(&self) -> Time {
        self.naps_until().unwrap_or(self.now() + TICK)
    }

    /// The end of the nap, or of the quiet time if that comes first; `None`: it is not quiet.
    fn naps_until(&self) -> Option<Time> {
        self.quiet_until().map(|at| at.min(self.now() + self.nap))
    }

    /// Whether nothing shows until it is `outside` there, and the nap is not over.
    fn sleeps(&self, outside: Time) -> bool {
        self.naps_until().is_some_and(|at| outside < self.lag.outside(at))
    }

    /// Until when nothing shows outside: links only refresh credits. `None` if something may show at any time.
    fn quiet_until(&self) -> Option<Time> {
        self.session.fabric.quiet_until().filter(|_| !self.has_output())
    }

    /// The events that had to be run.
    fn events(&self) -> u64 {
        let totals = self.session.fabric.totals();
        totals.events - totals.passed_over
    }

    /// Measures, from a run since `from`, how many events a quiet time has.
    fn learn(&mut self, from: Time, events_before: u64) {
        let events = self.events() - events_before;
        let passed = self.now().since(from);
        if passed >= TICK {
            let nap = passed.as_ps() / events.max(1) * QUIET_EVENTS;
            self.nap = Duration::from_ps(nap).clamp(TICK, QUIET);
        }
    }
}
