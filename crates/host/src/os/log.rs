// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Logs of a simulated host: hot-plug events and failures. [`ObservedProgram`] adds a log of them to a host program.

use crate::cpu::AsyncProgram;
use crate::{DriverError, HostInput, HostOutput, HostProgram};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tlp::Time;

/// Maximum number of events, and of failures, in the log of a run.
const MAX_EVENTS: usize = 10_000;

/// An observation or action of a hot-plug driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HotPlugEvent {
    /// Time of the event.
    pub at: Time,
    /// Name of the slot or switch.
    pub slot: String,
    /// Description, in one line.
    pub what: String,
}

/// Events of the hot-plug drivers of a host: the first 10,000, in the order of time. Clones share the log.
#[derive(Clone, Default)]
pub struct EventLog(Rc<RefCell<Vec<HotPlugEvent>>>);

impl EventLog {
    pub(super) fn note(&self, at: Time, slot: &str, what: String) {
        let mut events = self.0.borrow_mut();
        if events.len() < MAX_EVENTS {
            events.push(HotPlugEvent { at, slot: slot.to_owned(), what });
        }
    }

    /// Returns the events so far.
    pub fn events(&self) -> Vec<HotPlugEvent> {
        self.0.borrow().clone()
    }
}

/// Failures, one line per slot. If a slot fails, the others continue. Clones share the list.
#[derive(Clone, Default)]
pub struct Failures(Rc<RefCell<Vec<String>>>);

impl Failures {
    pub(super) fn add(&self, slot: &str, error: &str) {
        let line = format!("slot `{slot}`: {error}");
        let mut lines = self.0.borrow_mut();
        if !lines.contains(&line) && lines.len() < MAX_EVENTS {
            lines.push(line);
        }
    }

    /// Returns all failures, the earliest first; `None` if nothing has failed.
    pub(super) fn text(&self) -> Option<String> {
        let lines = self.0.borrow();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

/// A host program whose configuration requests are counted as they leave. If the program waits without progress, it
/// reports the failures so far.
pub struct ObservedProgram {
    /// The program.
    pub program: AsyncProgram,
    /// Failures of its slots.
    pub failures: Failures,
    /// Number of configuration requests so far.
    pub config_requests: Rc<Cell<u64>>,
}

impl HostProgram for ObservedProgram {
    fn handle(&mut self, now: Time, input: HostInput) {
        self.program.handle(now, input);
    }

    fn poll_output(&mut self, now: Time) -> Option<HostOutput> {
        let output = self.program.poll_output(now);
        if let Some(HostOutput::ConfigRead { .. } | HostOutput::ConfigWrite { .. }) = output {
            self.config_requests.set(self.config_requests.get() + 1);
        }
        output
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.program.poll_timeout()
    }

    fn outcome(&self) -> Option<Result<(), DriverError>> {
        self.program.outcome()
    }

    fn waits_for(&self) -> Option<String> {
        let failed = self.failures.text().map(|lines| format!("has failed at {lines}"));
        let parts: Vec<String> = failed.into_iter().chain(self.program.waits_for()).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}
