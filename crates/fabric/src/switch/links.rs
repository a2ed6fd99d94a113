// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events at the links of a switch: link up and down, errors, reset and disable. This module never changes a link: it
//! requests [`Action`]s.

use super::crossbar::Entry;
use super::route::{Destination, inner_side, link_side};
use super::{PortLink, Switch};
use crate::bridge::{BridgeOwner, DeadEnd, DownReasons, answers};
use config::{DetectedError, ResetScope, SlotEvent, Uncorrectable};
use endpoint::detected_error;
use link::Notice;
use tlp::{Bdf, Rate, RuleId, Time, Tlp, Violation, Width};

impl BridgeOwner for Switch {
    fn handle_notice(&mut self, port: usize, now: Time, notice: Notice) {
        match notice {
            Notice::Up { rate, width } => self.link_up(port, now, rate, width),
            Notice::Down { surprise } => self.link_down(port, now, surprise),
            Notice::Retrained { rate, width } => self.set_speed(port, rate, width),
            Notice::Negotiating { pending } => {
                self.bridges[port].space_mut().set_negotiation_pending(pending)
            }
            error => {
                if let Some((error, header)) = detected_error(error) {
                    self.link_error(port, now, error, header);
                }
            }
        }
    }

    fn handle_lost(&mut self, port: usize, now: Time, tlp: &Tlp) {
        if port == 0 {
            // The whole switch is reset with that link.
            self.refused(|c| &mut c.link_down, 0, now, Violation::new(RuleId::LinkUp, 0), tlp);
            return self.effects.drop(tlp.account);
        }
        let leave_at = now + self.timing.latency;
        let Some(answer) = self.refuse_closed(now, leave_at, port, tlp) else {
            return self.effects.drop(tlp.account);
        };
        match self.route(port, &answer) {
            Destination::Port(egress) if egress != port => {
                self.send_own(now, Entry::new(answer, leave_at, port, egress));
            }
            _ => self.effects.drop(tlp.account),
        }
    }

    fn handle_training(&mut self, port: usize, now: Time, trains: bool) {
        self.bridges[port].space_mut().set_link_training(trains);
        self.apply_registers(now, port);
    }

    fn handle_slot(&mut self, port: usize, now: Time, event: SlotEvent) {
        self.bridges[port].slot_event(event);
        self.apply_registers(now, port);
    }
}

impl Switch {
    /// Applies the registers of `port` after a change: containment, and interrupts.
    pub(super) fn apply_registers(&mut self, now: Time, port: usize) {
        if port != 0 {
            self.hold(port, DownReasons::CONTAINED, self.bridges[port].is_contained());
        }
        self.interrupts(now, port);
    }

    fn set_speed(&mut self, port: usize, rate: Rate, width: Width) {
        let link = &mut self.links[port];
        (link.rate, link.width) = (rate, width);
        self.bridges[port].set_link(link.up, rate, width);
    }

    fn link_up(&mut self, port: usize, now: Time, rate: Rate, width: Width) {
        self.links[port].up = true;
        self.set_speed(port, rate, width);
        if port == 0 {
            self.hold_all(DownReasons::RESET_ABOVE, false);
        } else {
            self.handle_slot(port, now, SlotEvent::LinkState);
            self.tell_slot_power_limit(port, now);
            let message = self.bridges[port].link_active_message();
            self.send_errors(now, now + self.timing.latency, port, message);
        }
        self.crossbar.touch(port);
    }

    /// Sends the device that comes up below a port with a slot its power limit (`PCIe 5.0 §6.9`).
    fn tell_slot_power_limit(&mut self, port: usize, now: Time) {
        if let Some(tlp) = self.bridges[port].slot_power_limit_message(&self.payloads) {
            self.send_own(now, Entry::new(tlp, now + self.timing.latency, port, port));
        }
    }

    fn link_down(&mut self, port: usize, now: Time, surprise: bool) {
        let PortLink { up, rate, width, .. } = self.links[port];
        self.links[port].up = false;
        self.bridges[port].set_link(false, rate, width);
        // The link starts again with all its credits.
        self.credits[port].clear();
        self.crossbar.disown(port);
        self.places.link_down(port).into_iter().for_each(|place| self.return_place(place));
        if port == 0 {
            return self.reset_from_above(now);
        }
        self.refuse_waiting(port, now);
        self.forget_messages(now, port);
        if up && surprise && self.bridges[port].surprise_is_error() {
            self.link_error(port, now, Uncorrectable::SurpriseDown.into(), [0; 4]);
        }
        if up {
            self.handle_slot(port, now, SlotEvent::LinkState);
        }
    }

    /// Counts and logs a TLP for the link of `port`, which is down; returns its completion, if it needs one.
    #[cold]
    pub(super) fn refuse_closed(&mut self, now: Time, leave_at: Time, port: usize, tlp: &Tlp) -> Option<Tlp> {
        let why = self.bridges[port].closed();
        self.refused(|c| &mut c.link_down, port, now, why, tlp);
        let DeadEnd { status, is_error, message } = self.bridges[port].dead_end(inner_side(port), tlp);
        // The same TLP counts as an Unsupported Request as well.
        self.counters.unsupported_requests += u64::from(is_error);
        self.send_errors(now, leave_at, port, message);
        answers::completion(tlp, self.bridges[port].id(), status)
    }

    /// TLPs that wait for a link that is down are handled like new TLPs for it (`PCIe 5.0 §2.9.1`).
    fn refuse_waiting(&mut self, port: usize, now: Time) {
        for entry in self.crossbar.flush(now, Some(port)) {
            let leave_at = entry.leave_at.max(now);
            let source = usize::from(entry.source);
            match self.refuse_closed(now, leave_at, port, &entry.tlp) {
                Some(answer) if self.links.get(source).is_some_and(|link| link.up) => {
                    let mut answer = Entry::new(answer, leave_at, source, source);
                    answer.credit = entry.credit;
                    self.send_own(now, answer);
                }
                _ => self.forget(entry),
            }
        }
    }

    fn forget(&mut self, entry: Entry) {
        self.effects.drop(entry.tlp.account);
        if let Some((port, credit)) = entry.credit {
            self.return_credit(usize::from(port), credit);
        }
    }

    /// The upstream port's link is down. The switch is reset, and passes the reset to all links below (`PCIe 5.0
    /// §2.9.1`, §6.6.1).
    fn reset_from_above(&mut self, now: Time) {
        for entry in self.crossbar.flush(now, None) {
            self.refused(|c| &mut c.link_down, 0, now, Violation::new(RuleId::LinkUp, 0), &entry.tlp);
            self.forget(entry);
        }
        self.wires.clear();
        self.gathering = 0;
        self.reset_bridge(0, ResetScope::Hot);
        self.bridges[0].set_id(Bdf::default());
        self.reset_below();
        self.name_functions();
    }

    /// Resets all downstream ports as a hot reset does, and passes the reset on.
    fn reset_below(&mut self) {
        for port in 1..self.ports() {
            self.reset_bridge(port, ResetScope::Hot);
            self.hold(
                port,
                DownReasons::RESET | DownReasons::DISABLE | DownReasons::CONTAINED | DownReasons::POWER,
                false,
            );
        }
        self.hold_all(DownReasons::RESET_ABOVE, true);
    }

    /// Puts the switch into its slot and restores power: all registers are as after a fundamental reset (`PCIe 5.0
    /// §6.6.1`). State that depends on the link above was lost when that went down.
    pub fn power_on(&mut self) {
        for port in 0..self.ports() {
            self.reset_bridge(port, ResetScope::Fundamental);
        }
        self.name_functions();
    }

    fn reset_bridge(&mut self, port: usize, scope: ResetScope) {
        self.bridges[port].reset(scope);
        let PortLink { up, rate, width, .. } = self.links[port];
        self.bridges[port].set_link(up, rate, width);
        self.routes[port] = self.bridges[port].routes();
    }

    /// Secondary Bus Reset of `port` has changed.
    pub(super) fn secondary_bus_reset(&mut self, now: Time, port: usize) {
        let set = self.routes[port].windows.secondary_bus_reset;
        if port != 0 {
            return self.hold(port, DownReasons::RESET, set);
        }
        if !set {
            return self.hold_all(DownReasons::RESET_ABOVE, false);
        }
        self.reset_below();
        self.name_functions();
        for port in 1..self.ports() {
            self.drive_wires(now, self.wires.own(port), 0);
        }
    }

    /// Link Disable of `port` has changed.
    pub(super) fn link_disable(&mut self, port: usize) {
        if port != 0 {
            self.hold(port, DownReasons::DISABLE, self.bridges[port].space().link_disable());
        }
    }

    /// Power Controller Control of `port` may have changed.
    pub(super) fn slot_power(&mut self, port: usize) {
        self.hold(port, DownReasons::POWER, self.bridges[port].slot_is_off());
    }

    fn hold_all(&mut self, why: DownReasons, on: bool) {
        for port in 1..self.ports() {
            self.hold(port, why, on);
        }
    }

    /// Holds the link of `port` down for the reason `why`, or releases it.
    pub(super) fn hold(&mut self, port: usize, why: DownReasons, on: bool) {
        for action in self.links[port].held.keep(why, on) {
            self.effects.act(port, action);
        }
    }

    fn link_error(&mut self, port: usize, now: Time, error: DetectedError, header: [u32; 4]) {
        let message = self.bridges[port].log_link(error, link_side(port), header);
        self.send_errors(now, now + self.timing.latency, port, message);
    }

    /// Sends the MSIs that are due for the function of `port`, and updates its interrupt wires.
    pub(super) fn interrupts(&mut self, now: Time, port: usize) {
        let leave_at = now + self.timing.latency;
        while let Some(msi) = self.bridges[port].poll_interrupt(&self.payloads) {
            self.send_own(now, Entry::new(msi, leave_at, port, 0));
        }
        let wires = self.bridges[port].wires();
        self.drive_wires(now, self.wires.own(port), wires);
    }
}
