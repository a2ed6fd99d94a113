// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time in which links do nothing but refresh credits. The fabric computes the effect link by link and skips the time,
//! so that an idle fabric costs very little.
//!
//! Every port refreshes its credits every 30 us ([`Port::REFRESH`]). Between two frames, the state of all ports and
//! their pending events are therefore the same as 30 us before, but later. SKP ordered sets are the exception, since
//! their interval is different: they delay a frame, but change later events only if another frame has to wait for that
//! one. So the fabric skips N intervals if no frame has to wait in any of them, and only refreshes are due. The ports
//! count the frames they have sent. The result is the same as if the events had run. The frames carry no new
//! information, and a tap that wants to see them prevents the skip.

use super::Fabric;
use crate::progress::Limits;
use crate::queue::Event;
use crate::wire::PortState;
use link::Port;
use tlp::{Duration, Time};

/// Minimum number of intervals to pass over. With fewer intervals, an event might come after another one at the same
/// time, although it was requested earlier.
const LEAST: u64 = 2;

/// Time until the next check if time may not be passed over at all.
const SELDOM: Duration = Duration::from_us(300);

/// Earliest next check whether time may be passed over: not before this time, and not before this number of events.
#[derive(Default)]
pub(super) struct Look {
    from: Time,
    events: u64,
}

impl Fabric {
    /// Returns the time of the next event other than credit refreshes of links; [`Time::MAX`] if there is none. `None`
    /// if TLPs are in flight or a link is about to come up.
    ///
    /// Callers that run a fabric in step with the wall clock use this. Until that time, the outside sees no difference
    /// between one long step and many short ones.
    pub fn quiet_until(&self) -> Option<Time> {
        let rests = |port: &Port| port.is_idle() || port.is_down();
        // The frames of a slot with its own data link layer may be visible outside.
        if !self.frame_ends.is_empty() {
            return None;
        }
        if !self.host_started || !self.ports.iter().all(|state| rests(&state.port)) {
            return None;
        }
        let others = self.queue.next_of_each().filter(|(_, event)| !event.is_of_port());
        Some(others.map(|(time, _)| time).min().unwrap_or(Time::MAX))
    }

    /// Skips as many complete intervals as contain only refreshes, if there are any. The skip is between two events:
    /// all pending events come after the intervals.
    pub(super) fn pass_quiet_time(&mut self, limits: &Limits) {
        if self.now < self.look.from || self.totals.events < self.look.events {
            return;
        }
        if !self.may_pass() {
            self.look.from = self.now + SELDOM;
            return;
        }
        // A frame has two events. With an even step, all looks could come between the two, while a frame is in flight.
        self.look.events = self.totals.events + ((self.ports.len() as u64 / 4) | 1);
        let Some(most) = self.quiet_intervals(limits) else { return };
        let intervals = self.ports.iter().fold(most, |most, state| state.port.refreshes_ahead(most));
        if intervals >= LEAST {
            self.pass(intervals);
        }
        // The limit is near now, or a frame has to wait.
        self.look.from = self.now + Port::REFRESH;
    }

    /// Returns whether time may be skipped at all: no tap wants to see each frame, and no device is polled whenever a
    /// frame arrives.
    fn may_pass(&self) -> bool {
        self.host_started
            && self.frame_ends.is_empty()
            && self.tap.as_ref().is_none_or(|tap| !tap.sees_refreshes())
            && self.ports.iter().all(|state| state.faults.none() && !state.asks_again)
    }

    /// Returns how many intervals end before an event other than a refresh is due; `None` if they are too few, or TLPs are in
    /// flight.
    fn quiet_intervals(&self, limits: &Limits) -> Option<u64> {
        let (mut refreshes, mut limit) = (0, self.quiet_limit(limits));
        for (time, event) in self.queue.next_of_each() {
            if is_refresh(&self.ports, time, event) {
                refreshes += 1;
            } else {
                limit = limit.min(time);
            }
        }
        let intervals = limit.since(self.now).as_ps().checked_sub(1)? / Port::REFRESH.as_ps();
        // Each is queued only once.
        let due = self.ports.iter().filter(|state| state.timer_at() < Time::MAX).count();
        let at_rest = |n: usize| self.ports[n].only_refreshes(&self.ports[self.ports[n].id.peer().index()]);
        let quiet = intervals >= LEAST && refreshes == due && (0..self.ports.len()).all(at_rest);
        quiet.then_some(intervals)
    }

    /// Returns the time that may not be passed: the end of the run, or the moment when a run without progress ends.
    fn quiet_limit(&self, limits: &Limits) -> Time {
        match limits.open_ended {
            true => limits.until,
            false if self.ends => self.now,
            false if self.has_timers() => limits.until,
            false => limits.until.min(self.stalls_at()),
        }
    }

    /// Skips `intervals`. Each refresh in them has one event that sends it, and one for its arrival.
    fn pass(&mut self, intervals: u64) {
        let span = Duration::from_ps(Port::REFRESH.as_ps() * intervals);
        let Fabric { ports, queue, .. } = self;
        queue.put_off(span, |time, event| is_refresh(ports, time, event));
        let frames: u64 = ports.iter_mut().map(|state| state.skip_refreshes(intervals, span)).sum();
        self.totals.events += 2 * frames;
        self.totals.passed_over += 2 * frames;
        self.now += span;
    }
}

/// Returns whether `event` is the next timer of a port that [only refreshes](PortState::only_refreshes).
fn is_refresh(ports: &[PortState], time: Time, event: Event) -> bool {
    matches!(event, Event::PortTimer(id) if ports[id.index()].timer_at() == time)
}
