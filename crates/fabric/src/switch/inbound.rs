// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The handling of a TLP that has arrived at a port of a switch: checked, routed, queued, answered or refused. Every
//! TLP returns its credits once: when it is sent, when its answer is sent, or when it ends here.

use super::crossbar::Entry;
use super::route::{Destination, Refusal, inner_side, link_side};
use super::{Action, PlaceUntil, Switch};
use crate::bridge::answers;
use crate::bridge::{DownReasons, Routes};
use config::{Effects, Uncorrectable};
use endpoint::CreditReturn;
use tlp::message::{SET_SLOT_POWER_LIMIT, is_ignored};
use tlp::rules::reasons::{beyond_mps, poisoned};
use tlp::{Body, Class, ConfigKind, ConfigRequest, Limits, Status, TcSet, Time, Tlp, Violation, rules};

/// The port at which a TLP has arrived, the arrival time of the complete TLP or of its header, and the arrival time of
/// its last symbol.
#[derive(Clone, Copy)]
pub(super) struct Arrival {
    pub(super) port: usize,
    pub(super) now: Time,
    pub(super) tail_at: Time,
}

impl Switch {
    /// Handles a TLP that has arrived at `port`. With [`Forwarding::StoreAndForward`](super::Forwarding) the whole TLP has arrived at `tail_at`, which
    /// is `now`. With [`Forwarding::CutThrough`](super::Forwarding) its header arrives at `now` and its last symbol at
    /// `tail_at`. The caller then takes the [`effects`](Self::effects) and polls
    /// [`poll_touched`](Self::poll_touched).
    pub fn handle_tlp(&mut self, port: usize, now: Time, tail_at: Time, tlp: &Tlp) {
        let arrival = Arrival { port, now, tail_at: tail_at.max(now) };
        if self.links[port].held.contains(DownReasons::CONTAINED) {
            // The port is contained: TLPs that still arrive are dropped (`PCIe 5.0 §2.9.3`).
            let why = self.bridges[port].closed();
            self.refused(|c| &mut c.link_down, port, now, why, tlp);
            return self.end(port, tlp);
        }
        if !self.crossbar.has_room(port, tlp.class()) {
            let why = self.violation(port, Uncorrectable::ReceiverOverflow, tlp);
            self.refused(|c| &mut c.overflows, port, now, why, tlp);
            self.log(arrival, port, Uncorrectable::ReceiverOverflow, false, tlp);
            return self.end(port, tlp);
        }
        if let Err(why) = rules::check_received(tlp, &limits(&self.routes[port])) {
            return self.malformed(arrival, port, port, tlp, why);
        }
        let destination = self.route(port, tlp);
        if tlp.has_wrong_ecrc() && self.drops_wrong_ecrc(arrival, destination, tlp) {
            return;
        }
        // If the same function refuses the TLP, only that error counts (`PCIe 5.0 §6.2.3.2.3`).
        if tlp.repr.ep && destination.leaves(port) {
            self.poisoned(arrival, port, tlp, true);
        }
        match destination {
            Destination::Port(egress) => self.forward(arrival, port, egress, tlp.clone()),
            Destination::PortAsType0(egress) => self.forward(arrival, port, egress, as_type_0(tlp)),
            Destination::ErrorMessage => self.forward_error(arrival, port, tlp),
            Destination::Gathered => self.forward(arrival, port, 0, tlp.clone()),
            Destination::Broadcast => self.broadcast(arrival, tlp),
            Destination::Function(of) => self.configure(arrival, of, tlp),
            Destination::Receiver => self.receive(arrival, port, tlp),
            Destination::Refused(by, refusal) => self.refuse(arrival, port, by, refusal, tlp),
        }
    }

    /// Drops a TLP with a wrong ECRC of which this switch is the final receiver, because its content and sender cannot
    /// be trusted (`PCIe 5.0 §2.7.1`, §6.2.3.2.3). The function that receives the TLP does this if its ECRC Check
    /// Enable is set. The final receiver checks a forwarded TLP.
    #[cold]
    fn drops_wrong_ecrc(&mut self, arrival: Arrival, destination: Destination, tlp: &Tlp) -> bool {
        let Some(by) = destination.ends_at(arrival.port).filter(|by| self.bridges[*by].space().ecrc_check())
        else {
            return false;
        };
        self.refused(|c| &mut c.ecrc_errors, by, arrival.now, tlp.ecrc_violation(), tlp);
        self.log(arrival, by, Uncorrectable::Ecrc, false, tlp);
        self.end(arrival.port, tlp);
        true
    }

    fn forward(&mut self, arrival: Arrival, port: usize, egress: usize, tlp: Tlp) {
        if let Some(place) = self.places.answered(&tlp, PlaceUntil::Received) {
            self.return_place(place);
        }
        if tlp.repr.ep && tlp.class() != Class::Completion {
            self.bridges[egress].space_mut().note_poisoned_sent(link_side(egress));
        }
        let credit = CreditReturn::of(&tlp);
        let leave_at = self.leave_at(arrival.now, arrival.tail_at, &tlp, egress);
        // The root port has already kept the idle time after this TLP.
        let tlp = Tlp { rest_ps: 0, ..tlp };
        let entry = Entry::new(tlp, leave_at, port, egress).returning(port, credit);
        self.crossbar.push(arrival.now, port, entry);
    }

    /// Sends an error message up if SERR# Enable of the bridges on the path permits it (`PCIe 5.0 §6.2.6`), unless it
    /// triggers containment of the port that it came through (§6.2.10).
    fn forward_error(&mut self, arrival: Arrival, port: usize, tlp: &Tlp) {
        let Body::Message(m) = tlp.repr.body else { return self.end(port, tlp) };
        let contains = self.bridges[port].contains_for(m.code, m.requester);
        let passes = !contains && [port, 0].into_iter().all(|n| self.bridges[n].forwards_error(m.code));
        if passes {
            self.forward(arrival, port, 0, tlp.clone());
        } else {
            self.end(port, tlp);
        }
        self.send_errors(arrival.now, arrival.tail_at + self.timing.latency, port, None);
    }

    /// `tlp` of `port` ends here without an answer.
    pub(super) fn end(&mut self, port: usize, tlp: &Tlp) {
        self.effects.drop(tlp.account);
        self.return_credit(port, CreditReturn::of(tlp));
    }

    /// Handles a message for the switch itself. A message that the port does not accept is refused (`PCIe 5.0 §2.3.1`),
    /// unless every receiver may ignore it.
    fn receive(&mut self, arrival: Arrival, port: usize, tlp: &Tlp) {
        let Body::Message(m) = tlp.repr.body else { return self.end(port, tlp) };
        let taken =
            self.bridges[port].consumes_message(link_side(port), m.code) && !tlp.prefixes.has_reserved();
        if !taken && !is_ignored(m.code) {
            return self.refuse(arrival, port, port, Refusal::Unsupported, tlp);
        }
        if taken && tlp.repr.ep {
            // Poisoned data must not be used (`PCIe 5.0 §2.7.2.2`).
            self.poisoned(arrival, port, tlp, false);
        } else if m.code == SET_SLOT_POWER_LIMIT {
            self.bridges[0].capture_slot_power_limit(&tlp.data);
        }
        self.counters.messages += 1;
        self.end(port, tlp);
    }

    /// A configuration request to the function of port `of`.
    fn configure(&mut self, arrival: Arrival, of: usize, tlp: &Tlp) {
        let Body::Config(c) = tlp.repr.body else { return self.end(0, tlp) };
        if tlp.prefixes.has_reserved() {
            return self.refuse(arrival, 0, of, Refusal::Unsupported, tlp);
        }
        if tlp.repr.ep {
            return self.poisoned_configuration(arrival, of, tlp);
        }
        self.counters.config_requests += 1;
        if of == 0 {
            self.capture_id(&c);
        }
        let (answer, effects) = self.bridges[of].config_request(tlp, &c, &self.payloads);
        self.answer(arrival, 0, tlp, answer);
        self.apply_register_effects(arrival.now, of, effects);
    }

    /// Completes a poisoned write with UR. The only error is Poisoned TLP Received (`PCIe 5.0 §2.7.2.2`).
    ///
    /// For a port that only forwards the TLP to another port, it counts as a forwarded TLP.
    #[cold]
    fn poisoned_configuration(&mut self, arrival: Arrival, of: usize, tlp: &Tlp) {
        self.poisoned(arrival, 0, tlp, of != 0);
        if of != 0 {
            self.log(arrival, of, Uncorrectable::PoisonedTlp, false, tlp);
        }
        // `poisoned` names the rule.
        self.counters.unsupported_requests += 1;
        let answer = answers::completion(tlp, self.bridges[of].id(), Status::UnsupportedRequest);
        self.answer(arrival, 0, tlp, answer);
    }

    /// The upstream port takes the bus and device number of the last type 0 write (`PCIe 5.0 §2.2.6.2`).
    fn capture_id(&mut self, c: &ConfigRequest) {
        if c.op == tlp::Access::Write && self.bridges[0].id() != c.completer {
            self.bridges[0].set_id(c.completer);
            self.routes[0] = self.bridges[0].routes();
        }
    }

    /// Carries out the effects of a register write.
    fn apply_register_effects(&mut self, now: Time, port: usize, effects: Effects) {
        if effects.is_empty() {
            return;
        }
        self.routes[port] = self.bridges[port].routes();
        if port == 0 && effects.contains(Effects::BRIDGE) {
            self.name_functions();
        }
        if effects.contains(Effects::SECONDARY_BUS_RESET) {
            self.secondary_bus_reset(now, port);
        }
        if effects.contains(Effects::LINK_DISABLE) {
            self.link_disable(port);
        }
        if effects.contains(Effects::SLOT_CONTROL) {
            self.slot_power(port);
        }
        if effects.contains(Effects::RETRAIN_LINK) {
            self.effects.act(port, Action::Retrain);
        }
        if effects.contains(Effects::VIRTUAL_CHANNEL) {
            self.effects.act(port, Action::Channels);
        }
        self.send_errors(now, now + self.timing.latency, port, None);
    }

    /// Downstream port `k` is device `k - 1` of the bus that Secondary Bus Number of the upstream port names.
    pub(super) fn name_functions(&mut self) {
        let bus = self.routes[0].windows.secondary;
        for port in 1..self.ports() {
            if let Some(id) = tlp::Bdf::new(bus, port as u8 - 1, 0) {
                self.bridges[port].set_id(id);
                self.routes[port] = self.bridges[port].routes();
            }
        }
    }

    /// Answers a request that came in at `port`. The request's credits return when the answer leaves.
    pub(super) fn answer(&mut self, arrival: Arrival, port: usize, request: &Tlp, answer: Option<Tlp>) {
        let Some(answer) = answer else { return self.end(port, request) };
        // The switch can only read a complete TLP.
        let leave_at = arrival.tail_at + self.timing.latency;
        let entry = Entry::new(answer, leave_at, port, port).returning(port, CreditReturn::of(request));
        self.send_own(arrival.now, entry);
    }

    /// Refuses a TLP that came in at `port`, on behalf of the function of port `by`.
    pub(super) fn refuse(&mut self, arrival: Arrival, port: usize, by: usize, refusal: Refusal, tlp: &Tlp) {
        use Uncorrectable as Error;
        let (error, status) = match refusal {
            Refusal::Unsupported => (Error::UnsupportedRequest, Status::UnsupportedRequest),
            Refusal::AcsViolation => (Error::AcsViolation, Status::CompleterAbort),
            Refusal::AtomicBlocked => (Error::AtomicOpEgressBlocked, Status::UnsupportedRequest),
            Refusal::PrefixBlocked => (Error::TlpPrefixBlocked, Status::UnsupportedRequest),
            Refusal::PoisonedBlocked => (Error::PoisonedTlpEgressBlocked, Status::UnsupportedRequest),
            Refusal::TooLong => {
                let why = beyond_mps(tlp, self.routes[by].mps.bytes());
                return self.malformed(arrival, port, by, tlp, why);
            }
            Refusal::Unexpected => {
                let why = self.violation(port, Error::UnexpectedCompletion, tlp);
                self.refused(|c| &mut c.unexpected_completions, by, arrival.now, why, tlp);
                // Advisory if it is not fatal (`PCIe 5.0 §6.2.3.2.4.5`).
                self.log(arrival, by, Error::UnexpectedCompletion, true, tlp);
                return self.end(port, tlp);
            }
            Refusal::LinkDown => {
                let leave_at = arrival.tail_at + self.timing.latency;
                let answer = self.refuse_closed(arrival.now, leave_at, by, tlp);
                return self.answer(arrival, port, tlp, answer);
            }
        };
        let why = self.violation(port, error, tlp);
        match refusal {
            Refusal::AcsViolation => self.refused(|c| &mut c.acs_violations, by, arrival.now, why, tlp),
            _ => self.refused(|c| &mut c.unsupported_requests, by, arrival.now, why, tlp),
        }
        self.log(arrival, by, error, tlp.refusal_is_advisory(), tlp);
        let answer = answers::completion(tlp, self.bridges[by].id(), status);
        self.answer(arrival, port, tlp, answer);
    }

    fn malformed(&mut self, arrival: Arrival, port: usize, by: usize, tlp: &Tlp, why: Violation) {
        self.refused(|c| &mut c.malformed, by, arrival.now, why, tlp);
        self.log(arrival, by, Uncorrectable::MalformedTlp, false, tlp);
        self.end(port, tlp);
    }

    /// Reports a poisoned TLP. If `goes_on`, the TLP is not for this function, and the error is advisory (`PCIe 5.0
    /// §6.2.3.2.4.2`). If the TLP ends here, the error is never advisory (§2.7.2.2).
    #[cold]
    fn poisoned(&mut self, arrival: Arrival, port: usize, tlp: &Tlp, goes_on: bool) {
        self.refused(|c| &mut c.poisoned, port, arrival.now, poisoned(), tlp);
        self.log(arrival, port, Uncorrectable::PoisonedTlp, goes_on, tlp);
    }

    #[cold]
    fn log(&mut self, arrival: Arrival, port: usize, error: Uncorrectable, advisory: bool, tlp: &Tlp) {
        // A TLP that another port refuses came to that port over the internal bus.
        let side = if port == arrival.port { link_side(port) } else { inner_side(port) };
        let message = self.bridges[port].log(error, advisory, side, tlp);
        let leave_at = arrival.tail_at + self.timing.latency;
        self.send_errors(arrival.now, leave_at, port, message);
    }

    /// Sends `message` and the further error messages of the function of `port`, and handles their consequences.
    pub(super) fn send_errors(&mut self, now: Time, leave_at: Time, port: usize, message: Option<Tlp>) {
        self.send_error(now, leave_at, port, message);
        let further = self.bridges[port].poll_error_message();
        self.send_error(now, leave_at, port, further);
        let contained = self.bridges[port].poll_containment_message();
        self.send_error(now, leave_at, port, contained);
        self.apply_registers(now, port);
    }

    /// Sends an error message of the function of `port`. A message of a downstream port passes the upstream bridge as well.
    fn send_error(&mut self, now: Time, leave_at: Time, port: usize, message: Option<Tlp>) {
        let Some(message) = message else { return };
        let Body::Message(m) = message.repr.body else { return };
        if port != 0 && !self.bridges[0].forwards_error(m.code) {
            return;
        }
        if !self.links[0].up || !self.crossbar.has_room(self.own_input(0), Class::Posted) {
            self.counters.error_messages_lost += 1;
            return;
        }
        self.send_own(now, Entry::new(message, leave_at, port, 0));
    }
}

/// Returns a configuration request in the form that it has on its target bus (`PCIe 5.0 §7.3.3`).
fn as_type_0(tlp: &Tlp) -> Tlp {
    let mut tlp = tlp.clone();
    if let Body::Config(c) = &mut tlp.repr.body {
        c.kind = ConfigKind::Type0;
    }
    tlp
}

/// Returns the limits of a port, without local prefixes. A link does not deliver TLPs of a Traffic Class that it does
/// not map.
const fn limits(of: &Routes) -> Limits {
    let (mps, end_to_end_prefixes) = (of.mps, of.end_end_prefixes);
    Limits { mps, tc_mapped: TcSet::ALL, local_prefixes: false, end_to_end_prefixes }
}
