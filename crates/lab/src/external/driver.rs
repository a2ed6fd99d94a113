// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Drives a lab that somebody outside joins: inputs join at their times, are recorded, and the fabric goes on as its clock says.
//! Knows no transport; reads no clock itself: whoever drives it says what time it is.

use super::clock::{Clock, LOOK_EVENTS, Lag, SLICE_EVENTS};
use super::journal::Journal;
use super::record::{RecordSize, RecordedLab, Recorder};
use crate::build::Assembly;
use fabric::{HostId, Limits, Stop};
use plug::place::{Input, Place};
use std::any::Any;
use std::io;
use std::rc::Rc;
use tlp::{Duration, Time};

/// After an input the fabric is asked again at once for so long: it and the host's programs answer by then, or later
/// within [`TICK`].
const LIVELY: Duration = Duration::from_us(50);
/// How often the fabric advances while nothing comes in and its links do more than tell credits.
const TICK: Duration = Duration::from_ms(1);
/// How often at least it advances while they do nothing else: what happens then shows nowhere before it is looked for.
const QUIET: Duration = Duration::from_ms(20);
/// Events that the first input behind a quiet time may have to wait for, some 0.1 us each.
const QUIET_EVENTS: u64 = 1000;
/// Ahead of the outside: how far the fabric runs before it is looked at again for what leaves.
const STEP: Duration = Duration::from_ns(500);
/// Ahead of the outside: how long, in virtual time, an input may keep somebody there waiting.
const PATIENCE: Duration = Duration::from_ms(20);

/// What is to be called when something has come in at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Behind {
    Slot(usize),
    Host(HostId),
}

/// A place of a lab, and what belongs to it.
#[derive(Clone)]
pub(crate) struct Joint {
    pub(crate) name: String,
    pub(crate) place: Rc<dyn Place>,
    pub(crate) behind: Behind,
}

/// Where somebody outside joins: a handle on the place with its number.
#[derive(Clone, Debug)]
pub struct Door<P> {
    /// The place.
    pub place: P,
    number: u16,
    behind: Behind,
}

/// A lab that the outside joins.
pub struct Driver {
    assembly: Assembly,
    clock: Clock,
    lag: Lag,
    journal: Journal,
    /// Virtual time until which it is to be asked again at once.
    lively_until: Time,
    /// How long quiet fabrics are left alone: as long as there are no more than [`QUIET_EVENTS`] in it.
    nap: Duration,
    failed: Option<String>,
}

impl Driver {
    /// The lab of `assembly`, which has not run yet.
    #[must_use]
    pub fn new(assembly: Assembly, clock: Clock) -> Driver {
        let (lag, journal) = (Lag::default(), assembly.journal.clone());
        Driver { assembly, clock, lag, journal, lively_until: Time::ZERO, nap: TICK, failed: None }
    }

    /// The first place of this type.
    #[must_use]
    pub fn door<P: Place + Clone>(&self) -> Option<Door<P>> {
        (0..self.assembly.places.len()).find_map(|n| self.door_at(n))
    }

    /// The place of this name, such as `host guest` or `slot adapter`, where it is of this type.
    #[must_use]
    pub fn door_named<P: Place + Clone>(&self, name: &str) -> Option<Door<P>> {
        self.door_at(self.assembly.places.iter().position(|joint| joint.name == name)?)
    }

    fn door_at<P: Place + Clone>(&self, n: usize) -> Option<Door<P>> {
        let Joint { place, behind, .. } = &self.assembly.places[n];
        let place = (&**place as &dyn Any).downcast_ref::<P>()?.clone();
        Some(Door { place, number: n as u16, behind: *behind })
    }

    /// Notes every input in `out` from now on, in at most `limit` bytes: to be called before the first. Where they are used up the
    /// run goes on, and the record says that there is nothing more in it.
    pub fn record(&mut self, out: Box<dyn io::Write>, lab: &RecordedLab, limit: u64) {
        let places: Vec<String> = self.assembly.places.iter().map(|joint| joint.name.clone()).collect();
        self.journal.record(Recorder::new(out, lab, &places, limit));
    }

    /// The lab.
    #[must_use]
    pub fn assembly(&self) -> &Assembly {
        &self.assembly
    }

    /// The same, to put taps in before it runs.
    pub fn assembly_mut(&mut self) -> &mut Assembly {
        &mut self.assembly
    }

    pub(crate) fn into_assembly(self) -> Assembly {
        self.assembly
    }

    /// Virtual time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.assembly.fabric.now()
    }

    /// What a lagging fabric was let off so far; zero with other clocks.
    #[must_use]
    pub fn lag(&self) -> Lag {
        self.lag
    }

    /// Why the run has failed, where it has: nothing goes on then.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// Gives an input to the place behind `door`, `time` being that of the outside: it joins when the fabric is there, or at
    /// its present time where it is beyond that, or lags.
    pub fn inject<P, I: Input<P>>(&mut self, time: Time, door: &Door<P>, input: I) {
        self.come_to(time);
        let now = self.now();
        self.journal.input(now, door.number, |out| input.emit(out));
        if input.join(&door.place, now) {
            self.call(door.behind);
        }
        self.lively_until = now + LIVELY;
    }

    /// Gives an input to place number `n` as a record holds it.
    pub(crate) fn inject_recorded(&mut self, n: usize, input: &[u8]) -> Result<(), String> {
        let Joint { place, behind, .. } = self.assembly.places[n].clone();
        if place.take_recorded(self.now(), input)? {
            self.call(behind);
        }
        Ok(())
    }

    fn call(&mut self, behind: Behind) {
        match behind {
            Behind::Slot(n) => self.assembly.fabric.wake_slot(n),
            // It is one of this lab.
            Behind::Host(host) => _ = self.assembly.fabric.wake_host(host),
        }
    }

    /// Lets the fabric go on to where its clock lets it be when it is `until` outside. `leave` is called when something may
    /// have come to leave at a place: behind that, and with [`Clock::Virtual`] again and again while the fabric goes on for those who
    /// wait for it.
    pub fn drain(&mut self, until: Time, mut leave: impl FnMut(&mut Driver)) {
        let (from, before) = (self.now(), self.assembly.fabric.totals().events);
        self.come_to(until);
        self.learn(from, before);
        leave(self);
        if self.clock == Clock::Virtual {
            self.run_ahead(&mut leave);
        }
    }

    /// When to [drain](Self::drain) next by the clock of the outside, though nothing comes in; `None` where nothing goes on.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let now = self.now();
        let lively = now < self.lively_until || self.awaits_fabric();
        let at = if lively { now } else { self.tick() };
        self.failed.is_none().then(|| self.lag.outside(at))
    }

    /// Runs on until it is `now` outside, and ends the record; nothing more may come in. How large the record is, where there
    /// is one.
    ///
    /// # Errors
    /// Those of the record.
    pub fn finish(&mut self, now: Time) -> io::Result<Option<RecordSize>> {
        self.come_to(now);
        self.journal.finish(self.now())
    }

    /// Lets the fabric go on to where its clock lets it be when it is `outside` there.
    pub(crate) fn come_to(&mut self, outside: Time) {
        match self.clock {
            Clock::Virtual | Clock::Wall => self.run_until(outside),
            Clock::Lagging => self.lag_behind(self.lag.aim(outside)),
        }
    }

    /// Runs the fabric until `time`, where that lies ahead.
    pub(crate) fn run_until(&mut self, time: Time) {
        if time > self.now() {
            self.run(Limits { until: time, open_ended: true, ..Limits::default() });
        }
    }

    /// A slice of the way to `aim`; what is left of it is dropped. Where something is to leave before, it goes first, and the rest of
    /// the way is for the next time.
    fn lag_behind(&mut self, aim: Time) {
        let mut left = SLICE_EVENTS;
        while self.now() < aim && self.failed.is_none() {
            if left == 0 {
                return self.lag.drop_debt(aim.since(self.now()));
            }
            let from = self.now();
            self.run(Limits { until: aim, events: LOOK_EVENTS, open_ended: true });
            // Whole instants alone, and a later one: what joins then is found in its place by who runs the record again.
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
        match self.assembly.fabric.run(limits) {
            Stop::TimeLimit | Stop::Paused | Stop::Finished => {}
            stop @ (Stop::Failed(_) | Stop::NoProgress(_)) => self.failed = Some(stop.to_string()),
        }
    }

    /// Ahead of the outside, until nobody there waits any more, and what was posted has taken its way.
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
        self.assembly.places.iter().any(|joint| joint.place.awaits_fabric())
    }

    fn has_output(&self) -> bool {
        self.assembly.places.iter().any(|joint| joint.place.has_output())
    }

    /// When something is to be done though nothing comes in. Links that only tell credits are left alone for a nap: the fabric
    /// makes up for it then, or when something comes in, event by event as ever.
    fn tick(&self) -> Time {
        let now = self.now();
        match self.assembly.fabric.quiet_until().filter(|_| !self.has_output()) {
            Some(at) => at.min(now + self.nap),
            None => now + TICK,
        }
    }

    /// Learns from a run since `from` how many events there are in a quiet time.
    fn learn(&mut self, from: Time, events_before: u64) {
        let events = self.assembly.fabric.totals().events - events_before;
        let passed = self.now().since(from);
        if passed >= TICK {
            let nap = passed.as_ps() / events.max(1) * QUIET_EVENTS;
            self.nap = Duration::from_ps(nap).clamp(TICK, QUIET);
        }
    }
}
