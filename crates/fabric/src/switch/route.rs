// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The destination of a TLP that has arrived at a port of a switch (`PCIe 5.0 §2.2.4`, §2.3.1, §7.3.3): by address, by
//! ID, or by the routing of a message. This module reads registers and link states, and changes no state.
//!
//! A TLP from above must be claimed by the upstream bridge and then by one of the downstream bridges. A TLP from below
//! goes to another bridge that claims it. If no other bridge does, it goes up. If windows overlap, the lowest port
//! number wins.

use super::Switch;
use crate::bridge::{PeerToPeer, Routes};
use config::Side;
use tlp::message::MessageCodes;
use tlp::{Bdf, Body, ConfigKind, ConfigRequest, Message, MessageRouting, Tlp};

/// The destination of a TLP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Destination {
    /// Out of this port.
    Port(usize),
    /// Out of this port, as a configuration request of type 0.
    PortAsType0(usize),
    /// To the configuration space of this port's function.
    Function(usize),
    /// Out of every downstream port whose link is up.
    Broadcast,
    /// The port that received the TLP handles it.
    Receiver,
    /// Upstream, as an error message, if the bridges on the path permit it.
    ErrorMessage,
    /// To the interrupt wires of the switch, or to the messages that it gathers.
    Gathered,
    /// Nowhere: refused by the function of this port.
    Refused(usize, Refusal),
}

/// Reason why a TLP is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    /// No port claims the TLP, or the port that does may not take it.
    Unsupported,
    /// An ACS Violation (`PCIe 5.0 §6.12`).
    AcsViolation,
    /// AtomicOp Egress Blocking (`PCIe 5.0 §6.15`).
    AtomicBlocked,
    /// End-End TLP Prefix Blocking (`PCIe 5.0 §2.2.10.2`).
    PrefixBlocked,
    /// Poisoned TLP Egress Blocking (`PCIe 5.0 §2.7.2.2`).
    PoisonedBlocked,
    /// Its data exceeds Max_Payload_Size of the egress port (`PCIe 5.0 §2.2.2`).
    TooLong,
    /// The TLP is a completion without an outstanding request.
    Unexpected,
    /// Its link is down (`PCIe 5.0 §2.9.1`), or contained (§2.9.3).
    LinkDown,
}

impl Destination {
    /// Returns true if the function of `port` forwards the received TLP, or another function refuses it. Returns false
    /// if the function itself refuses the TLP, or if a function or port handles it.
    pub(super) fn leaves(self, port: usize) -> bool {
        match self {
            Function(_) | Receiver => false,
            Refused(by, _) => by != port,
            _ => true,
        }
    }

    /// Returns the port whose function finally handles the TLP that `port` received: it consumes the TLP, merges it
    /// with others or refuses it. `None` if the TLP leaves the switch, or is malformed, because that error precedes all
    /// others (`PCIe 5.0 §6.2.3.2.3`).
    pub(super) fn ends_at(self, port: usize) -> Option<usize> {
        match self {
            Function(of) => Some(of),
            Receiver | Gathered => Some(port),
            Refused(_, Refusal::TooLong) => None,
            Refused(by, _) => Some(by),
            _ => None,
        }
    }
}

use Destination::{Broadcast, Function, Gathered, Port, PortAsType0, Receiver, Refused};

/// The target of a request, for the routing of bridges.
#[derive(Clone, Copy)]
enum Target {
    Memory(u64),
    Io(u64),
}

impl Target {
    fn is_claimed(self, routes: &Routes) -> bool {
        match self {
            Target::Memory(address) => routes.windows.claims_memory(address),
            Target::Io(address) => routes.windows.claims_io(address),
        }
    }

    /// Returns whether the target lies below the bridge, even if the bridge forwards no requests downstream. Such a
    /// request never goes up.
    fn is_behind(self, routes: &Routes) -> bool {
        match self {
            Target::Memory(address) => routes.windows.holds_memory(address),
            Target::Io(address) => routes.windows.holds_io(address),
        }
    }
}

impl Switch {
    /// Returns the destination of `tlp`, received at `ingress`.
    pub(super) fn route(&self, ingress: usize, tlp: &Tlp) -> Destination {
        let to = match &tlp.repr.body {
            Body::Memory(m) => self.request(ingress, tlp, Target::Memory(m.span.address())),
            Body::Completion(c) => self.completion(ingress, tlp, c.requester),
            Body::Atomic(a) => self.request(ingress, tlp, Target::Memory(a.address)),
            Body::Io(io) => self.request(ingress, tlp, Target::Io(u64::from(io.address))),
            Body::Config(c) => self.configuration(ingress, c),
            Body::Message(m) => self.message(ingress, tlp, m),
        };
        match to {
            Port(egress) | PortAsType0(egress) => self.leave(egress, tlp, to),
            _ => to,
        }
    }

    /// Returns the verdict of the egress port on a TLP.
    fn leave(&self, egress: usize, tlp: &Tlp, to: Destination) -> Destination {
        let routes = &self.routes[egress];
        let link = &self.links[egress];
        if !link.is_open() {
            return Refused(egress, Refusal::LinkDown);
        }
        if tlp.repr.data_dw() * 4 > routes.mps.bytes() {
            return Refused(egress, Refusal::TooLong);
        }
        if routes.blocks_atomics && matches!(tlp.repr.body, Body::Atomic(_)) {
            return Refused(egress, Refusal::AtomicBlocked);
        }
        if routes.blocks_poisoned && tlp.repr.ep {
            return Refused(egress, Refusal::PoisonedBlocked);
        }
        if routes.blocks_prefixes && tlp.prefixes.end_to_end() > 0 {
            return Refused(egress, Refusal::PrefixBlocked);
        }
        to
    }

    fn request(&self, ingress: usize, tlp: &Tlp, target: Target) -> Destination {
        if ingress != 0 {
            return self.request_from_below(ingress, tlp, target);
        }
        if !target.is_claimed(&self.routes[0]) {
            return Refused(0, Refusal::Unsupported);
        }
        self.claimed_below(target, 0).map_or(Refused(0, Refusal::Unsupported), Port)
    }

    /// The downstream port other than `but` that claims `target`.
    fn claimed_below(&self, target: Target, but: usize) -> Option<usize> {
        (1..self.routes.len()).find(|port| *port != but && target.is_claimed(&self.routes[*port]))
    }

    fn request_from_below(&self, ingress: usize, tlp: &Tlp, target: Target) -> Destination {
        let from = &self.routes[ingress];
        if !from.windows.bus_master_enable {
            return Refused(ingress, Refusal::Unsupported);
        }
        if !from.lets_up(tlp) {
            return Refused(ingress, Refusal::AcsViolation);
        }
        let (up, down) = (&self.routes[0], Refused(ingress, Refusal::Unsupported));
        let may_go_up = if up.windows.bus_master_enable { Port(0) } else { Refused(0, Refusal::Unsupported) };
        if target.is_behind(from) {
            // The request would go back down where it came from.
            return if from.forwards_upstream() { may_go_up } else { down };
        }
        match self.claimed_below(target, ingress) {
            Some(peer) => match from.request_to_peer(tlp, peer) {
                PeerToPeer::Direct => Port(peer),
                PeerToPeer::Redirected => may_go_up,
                PeerToPeer::Blocked => Refused(ingress, Refusal::AcsViolation),
            },
            None if target.is_behind(up) => down,
            None => may_go_up,
        }
    }

    fn completion(&self, ingress: usize, tlp: &Tlp, requester: Bdf) -> Destination {
        let redirects = |from: &Routes| from.completion_to_peer(tlp);
        let to = self.by_id(ingress, requester, redirects);
        match to {
            // The functions of a switch send no requests, so no completion is for them.
            Function(port) => Refused(port, Refusal::Unexpected),
            Refused(port, Refusal::Unsupported) => Refused(port, Refusal::Unexpected),
            _ => to,
        }
    }

    /// The port whose function has this ID. Downstream ports have none until they have a bus number.
    fn function(&self, id: Bdf) -> Option<usize> {
        let up = &self.routes[0];
        if id == up.id {
            return Some(0);
        }
        let on_internal_bus = id.bus() == up.windows.secondary && up.windows.secondary != 0;
        if on_internal_bus { self.routes.iter().position(|routes| routes.id == id) } else { None }
    }

    /// The destination of a TLP to function `id`, by its bus number.
    fn by_id(&self, ingress: usize, id: Bdf, to_peer: impl Fn(&Routes) -> PeerToPeer) -> Destination {
        let (from, up, bus) = (&self.routes[ingress], &self.routes[0], id.bus());
        if ingress != 0 && from.windows.claims_bus(bus) {
            return if from.forwards_upstream() { Port(0) } else { Refused(ingress, Refusal::Unsupported) };
        }
        if let Some(port) = self.function(id) {
            return Function(port);
        }
        let peer = (1..self.routes.len()).find(|n| *n != ingress && self.routes[*n].windows.claims_bus(bus));
        match peer {
            Some(port) if ingress == 0 && up.windows.claims_bus(bus) => Port(port),
            Some(port) if ingress != 0 => match to_peer(from) {
                PeerToPeer::Direct => Port(port),
                PeerToPeer::Redirected => Port(0),
                PeerToPeer::Blocked => Refused(ingress, Refusal::AcsViolation),
            },
            // No function has this bus, above or within the switch's own range.
            _ if ingress == 0 || up.windows.claims_bus(bus) => Refused(ingress, Refusal::Unsupported),
            _ => Port(0),
        }
    }

    /// The destination of a configuration request, which only goes down (`PCIe 5.0 §7.3.3`).
    fn configuration(&self, ingress: usize, c: &ConfigRequest) -> Destination {
        let (up, refused) = (&self.routes[0], Refused(0, Refusal::Unsupported));
        if ingress != 0 {
            return Refused(ingress, Refusal::Unsupported);
        }
        if c.kind == ConfigKind::Type0 {
            // There is one function: device 0, function 0 of the link.
            return if c.completer.device() == 0 && c.completer.function() == 0 {
                Function(0)
            } else {
                refused
            };
        }
        let bus = c.completer.bus();
        if !up.windows.claims_bus(bus) {
            return refused;
        }
        if bus == up.windows.secondary {
            let port = usize::from(c.completer.device()) + 1;
            let is_port = port < self.routes.len() && c.completer.function() == 0;
            return if is_port { Function(port) } else { refused };
        }
        let Some(port) = (1..self.routes.len()).find(|n| self.routes[*n].windows.claims_bus(bus)) else {
            return refused;
        };
        let below = &self.routes[port];
        if bus != below.windows.secondary {
            return Port(port);
        }
        // Without ARI Forwarding Enable there is only device 0 below (`PCIe 5.0 §7.5.3.16`).
        if c.completer.device() == 0 || below.ari_forwarding {
            PortAsType0(port)
        } else {
            Refused(port, Refusal::Unsupported)
        }
    }

    fn message(&self, ingress: usize, tlp: &Tlp, m: &Message) -> Destination {
        let refused = Refused(ingress, Refusal::Unsupported);
        let is_wire = MessageCodes::INTERRUPTS.contains(m.code);
        match m.routing {
            MessageRouting::ToRootComplex if ingress != 0 => self.message_to_root(ingress, tlp, m),
            MessageRouting::Gathered if ingress != 0 => Gathered,
            MessageRouting::Local if ingress != 0 && is_wire => Gathered,
            MessageRouting::Broadcast if ingress == 0 => Broadcast,
            MessageRouting::ByAddress => self.request(ingress, tlp, Target::Memory(address(&m.header))),
            MessageRouting::ById => self.message_by_id(ingress, tlp, m),
            MessageRouting::Local | MessageRouting::Reserved(_) if !is_wire => Receiver,
            _ => refused,
        }
    }

    fn message_to_root(&self, ingress: usize, tlp: &Tlp, m: &Message) -> Destination {
        if !self.routes[ingress].lets_up(tlp) {
            return Refused(ingress, Refusal::AcsViolation);
        }
        let is_error = config::ErrorMessage::from_code(m.code).is_some();
        if is_error { Destination::ErrorMessage } else { Port(0) }
    }

    fn message_by_id(&self, ingress: usize, tlp: &Tlp, m: &Message) -> Destination {
        if ingress != 0 && !self.routes[ingress].lets_up(tlp) {
            return Refused(ingress, Refusal::AcsViolation);
        }
        let id = Bdf::from_bits(u16::from_be_bytes([m.header[0], m.header[1]]));
        let no_redirect = |_: &Routes| PeerToPeer::Direct;
        match self.by_id(ingress, id, no_redirect) {
            Function(_) => Receiver,
            to => to,
        }
    }
}

/// The address in bytes 8 to 15 of a header of four DW.
const fn address(header: &[u8; 8]) -> u64 {
    u64::from_be_bytes(*header) & !3
}

/// Returns the side of its bridge on which the link of `port` is.
pub(super) const fn link_side(port: usize) -> Side {
    if port == 0 { Side::Primary } else { Side::Secondary }
}

/// Returns the side of a port's bridge that faces the internal bus.
pub(super) const fn inner_side(port: usize) -> Side {
    if port == 0 { Side::Secondary } else { Side::Primary }
}
