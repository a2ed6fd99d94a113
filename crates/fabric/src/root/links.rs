// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events at the links of root ports: errors of the layers below, link down and up, resets. This module never changes a
//! link: it requests [`Action`](crate::bridge::Action)s.

use super::{Base, RootComplex};
use crate::bridge::{BridgeOwner, DeadEnd, DownReasons};
use crate::profile::LINE_BYTES;
use config::{DetectedError, ResetScope, Side, SlotEvent, Uncorrectable};
use device::CompletionError;
use endpoint::{CreditReturn, detected_error};
use host::HostError;
use link::{Notice, wire_time};
use tlp::{Class, Rate, Status, Time, Tlp, Width};

impl BridgeOwner for RootComplex {
    /// A bare root port only takes its speed.
    #[cold]
    fn handle_notice(&mut self, port: usize, now: Time, notice: Notice) {
        if let Notice::Up { rate, width } | Notice::Retrained { rate, width } = notice {
            self.base.ports[port].line_time = wire_time(LINE_BYTES, rate, width);
        }
        if self.base.ports[port].function.is_none() {
            return;
        }
        match notice {
            Notice::Up { rate, width } => self.base.link_up(port, now, rate, width),
            Notice::Down { surprise } => self.link_down(port, now, surprise),
            Notice::Retrained { rate, width } => self.base.set_speed(port, rate, width),
            Notice::Negotiating { pending } => {
                if let Some(function) = &mut self.base.ports[port].function {
                    function.bridge.space_mut().set_negotiation_pending(pending);
                }
            }
            error => {
                if let Some((error, header)) = detected_error(error) {
                    self.base.link_error(port, now, error, header);
                }
            }
        }
    }

    fn handle_lost(&mut self, port: usize, now: Time, tlp: &Tlp) {
        let status = self.base.refuse_closed(port, now, tlp);
        if tlp.class() != Class::NonPosted {
            return self.base.effects.drop(tlp.account);
        }
        if tlp.repr.transaction().0 == super::ROOT_ID {
            self.refuse(port, now, tlp, status);
        } else {
            self.answer(port, now, tlp, status);
        }
    }

    #[cold]
    fn handle_training(&mut self, port: usize, now: Time, trains: bool) {
        let Some(function) = &mut self.base.ports[port].function else { return };
        function.bridge.space_mut().set_link_training(trains);
        self.base.apply_registers(port, now);
    }

    fn handle_slot(&mut self, port: usize, now: Time, event: SlotEvent) {
        if let Some(function) = &mut self.base.ports[port].function {
            function.bridge.slot_event(event);
            self.base.apply_registers(port, now);
        }
    }
}

impl RootComplex {
    /// Handles a link that went down. The link starts again with all its credits. Requests that were sent below it get
    /// no answer.
    fn link_down(&mut self, port: usize, now: Time, surprise: bool) {
        let Some(function) = &mut self.base.ports[port].function else { return };
        let was_up = std::mem::replace(&mut function.up, false);
        if let Some((rate, width)) = function.speed {
            function.bridge.set_link(false, rate, width);
        }
        function.wires = 0;
        self.base.forget_credits(port);
        self.drop_answers(port);
        self.refuse_waiting(port, now);
        // Parts of reads that wait for a tag of this port no longer need it.
        self.issue_waiting(now);
        let is_error = self.base.ports[port].function.as_ref().is_some_and(|f| f.bridge.surprise_is_error());
        if was_up && surprise && is_error {
            self.base.link_error(port, now, Uncorrectable::SurpriseDown.into(), [0; 4]);
        }
        if was_up && let Some(function) = &mut self.base.ports[port].function {
            function.bridge.slot_event(SlotEvent::LinkState);
        }
        self.base.apply_registers(port, now);
    }

    /// Drops answers for devices below, and the requests that wait for answers (`PCIe 5.0 §2.9.1`).
    fn drop_answers(&mut self, port: usize) {
        for ready in self.base.ports[port].ready.drain() {
            self.completer.drop_job(&mut self.base, port, ready.job);
        }
        self.completer.forget(port);
        for tlp in self.base.ports[port].waiting.drain() {
            self.base.effects.drop(tlp.account);
        }
    }

    /// Refuses the requests that wait for a link that is down, and drops all else (`PCIe 5.0 §2.9.1`).
    fn refuse_waiting(&mut self, port: usize, now: Time) {
        let p = &mut self.base.ports[port];
        let waiting = [&mut p.posted_out, &mut p.non_posted_out, &mut p.passing].map(super::Lanes::drain);
        for out in waiting.into_iter().flatten() {
            self.handle_lost(port, now, &out.tlp);
            self.base.give_back(now, out.credit);
        }
    }

    /// Root port `port`, whose link is down, is reset as by a fundamental reset (`PCIe 5.0 §6.6.1`).
    #[cold]
    pub(crate) fn reset_port(&mut self, port: usize, now: Time) {
        let Some(function) = &mut self.base.ports[port].function else { return };
        function.bridge.reset(ResetScope::Fundamental);
        function.wires = 0;
        if let Some((rate, width)) = function.speed {
            function.bridge.set_link(function.up, rate, width);
        }
        self.base.hold(
            port,
            DownReasons::RESET | DownReasons::DISABLE | DownReasons::CONTAINED | DownReasons::POWER,
            false,
        );
        self.base.apply_registers(port, now);
    }
}

impl Base {
    fn link_error(&mut self, port: usize, now: Time, error: DetectedError, header: [u32; 4]) {
        let Some(function) = &mut self.ports[port].function else { return };
        let message = function.bridge.log_link(error, Side::Secondary, header);
        self.report(port, now, message);
    }

    fn set_speed(&mut self, port: usize, rate: Rate, width: Width) {
        let Some(function) = &mut self.ports[port].function else { return };
        function.speed = Some((rate, width));
        function.bridge.set_link(function.up, rate, width);
    }

    fn link_up(&mut self, port: usize, now: Time, rate: Rate, width: Width) {
        let Some(function) = &mut self.ports[port].function else { return };
        function.up = true;
        self.set_speed(port, rate, width);
        let Some(function) = &mut self.ports[port].function else { return };
        let message = function.bridge.link_active_message();
        function.hear_own_errors(message);
        function.bridge.slot_event(SlotEvent::LinkState);
        if let Some(limit) = function.bridge.slot_power_limit_message(&self.payloads) {
            self.send(port, now, limit);
            self.effects.wake_port(port, now);
        }
        self.apply_registers(port, now);
    }

    /// Drops the credits that are due to the link of `port`, for TLPs that came in over it.
    fn forget_credits(&mut self, port: usize) {
        self.ports[port].credits.clear();
        self.ports[port].draining.clear();
        for p in &mut self.ports {
            for lane in [&mut p.posted_out, &mut p.non_posted_out, &mut p.passing] {
                lane.iter_mut().filter(|out| out.came_through(port)).for_each(|out| out.credit = None);
            }
        }
    }

    /// Counts and logs a TLP for the link of root port `port`, which is down; returns the status of its completion.
    #[cold]
    pub(super) fn refuse_closed(&mut self, port: usize, now: Time, tlp: &Tlp) -> Status {
        let Some(function) = &mut self.ports[port].function else { return Status::UnsupportedRequest };
        let why = function.bridge.closed();
        let DeadEnd { status, message, .. } = function.bridge.dead_end(Side::Primary, tlp);
        self.refused(|b| &mut b.function_counters.link_down, port, now, why, tlp);
        self.report(port, now, message);
        status
    }

    /// Holds the link of `port` down for the reason `why`, or releases it.
    pub(super) fn hold(&mut self, port: usize, why: DownReasons, on: bool) {
        let Some(function) = &mut self.ports[port].function else { return };
        for action in function.held.keep(why, on) {
            self.effects.act(port, action);
        }
    }

    /// Returns the credits of a TLP that has left, to the root port through which it came in.
    pub(super) fn give_back(&mut self, now: Time, credit: Option<(u32, CreditReturn)>) {
        if let Some((from, credit)) = credit {
            self.ports[from as usize].credits.push(credit);
            self.effects.wake_port(from as usize, now);
        }
    }
}

/// The error of a request of the host that was completed with `status`.
pub(super) const fn host_error(status: Status) -> HostError {
    match status {
        Status::CompleterAbort => HostError::Completion(CompletionError::CompleterAbort),
        _ => HostError::Completion(CompletionError::UnsupportedRequest),
    }
}
