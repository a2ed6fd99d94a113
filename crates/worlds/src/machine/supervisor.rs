// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Supervision of machines while they are served: reports events, and ends the run.

use super::torture::Listener;
use super::{GuestSockets, Guests, Supervisor, VmCommandError, VmEvent, Watch, hexdump};
use session::external::Driver;
use std::sync::atomic::{AtomicBool, Ordering};

/// Supervises the guests that riser has started.
pub struct GuestSupervisor<'a> {
    /// The guests.
    pub guests: Guests<'a>,
    /// Sockets of the guests.
    pub sockets: GuestSockets,
    /// Hosts whose registers are kept.
    pub hexdump: Option<&'a [String]>,
    /// Reader of the program's output.
    pub listener: Option<&'a Listener>,
    /// Takes the events.
    pub watch: Watch,
    /// Ends the run.
    pub stop: &'a AtomicBool,
    /// Results of the run.
    pub ended: Ended,
}

/// Results of a run of guests.
#[derive(Default)]
pub struct Ended {
    /// The registers at the time when the first machine disconnects.
    pub registers: Option<String>,
    /// Message about the first device that a running machine has lost. The run then ends.
    pub lost: Option<String>,
}

impl Supervisor for GuestSupervisor<'_> {
    fn notify(&mut self, lab: &mut Driver, _: usize, device: &str, event: VmEvent) {
        if let (Some(places), None, VmEvent::Gone(_) | VmEvent::Lost(_)) =
            (self.hexdump, &self.ended.registers, &event)
        {
            self.ended.registers = Some(hexdump(lab, places));
        }
        if matches!(event, VmEvent::Joined) {
            self.sockets.add_joined();
        }
        if let VmEvent::Misplaced(why) = &event {
            self.guests.set_misplaced(device, &why.to_string());
        }
        match &event {
            VmEvent::Lost(_) => drop(self.ended.lost.get_or_insert(event.line(device))),
            _ => self.watch.event(device, &event),
        }
    }

    fn observe(&mut self, lab: &Driver) {
        self.watch.observe(lab);
    }

    fn goes_on(&mut self) -> bool {
        let runs = self.guests.poll();
        let is_wanted = self.listener.is_none_or(Listener::is_wanted);
        !self.stop.load(Ordering::Relaxed) && runs && is_wanted && self.ended.lost.is_none()
    }

    fn command(&mut self, command: &str) -> Option<Result<String, VmCommandError>> {
        self.guests.command(command)
    }

    fn commands(&self) -> &'static [&'static str] {
        &Guests::COMMANDS
    }
}

/// Supervises machines that the user has started: reports all events, until `stop` is set.
pub struct WatchUntil<'a> {
    /// Takes the events.
    pub watch: Watch,
    /// Ends the run.
    pub stop: &'a AtomicBool,
}

impl Supervisor for WatchUntil<'_> {
    fn notify(&mut self, _: &mut Driver, _: usize, device: &str, event: VmEvent) {
        self.watch.event(device, &event);
    }

    fn observe(&mut self, lab: &Driver) {
        self.watch.observe(lab);
    }

    fn goes_on(&mut self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}
