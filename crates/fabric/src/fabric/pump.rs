// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Moves TLPs from the owners of ports into their queues, and from there onto the wires.

use super::owners::{PortOwner, RootPortOwner, SlotOwner, SwitchPortOwner};
use super::{Fabric, show};
use crate::host_slot::HostSlot;
use crate::queue::Event;
use crate::topology::{HostId, Owner};
use crate::wire::InFlight;
use link::{Rare, Sent};

/// The frame that has gone onto a wire.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    Nothing,
    /// A new TLP; only this leaves room in the transmit queue.
    NewTlp,
    /// A DLLP, or a replayed TLP.
    Other,
}

impl Fabric {
    pub(super) fn pump_root(&mut self, host: HostId, n: usize) {
        self.pump(self.hosts[host].root_ports[n]);
    }

    /// Fills the wire from a port's queues, and the queues from its owner. Then pumps the ports that can continue as a
    /// result.
    pub(super) fn pump(&mut self, index: usize) {
        self.pump_port(index);
        if let Owner::Switch { switch, .. } = self.ports[index].owner {
            self.pump_touched_ports(switch as usize);
        }
    }

    /// Pumps this port only. One frame makes the wire busy, so a port sends at most one frame. The room that becomes
    /// free is filled at once.
    fn pump_port(&mut self, index: usize) {
        let sent = self.transmit(index);
        let more = self.refill(index);
        if sent == Put::Nothing && self.transmit(index) == Put::NewTlp && more {
            self.refill(index);
        }
        if self.ports[index].port.has_notice() {
            self.pump_notices(index);
        }
        self.ports[index].arm(self.now, &mut self.queue);
    }

    #[cold]
    fn pump_notices(&mut self, index: usize) {
        self.tell_owner(index);
        // The owner may have something to send in response.
        self.refill(index);
        if self.transmit(index) == Put::NewTlp {
            self.refill(index);
        }
    }

    /// Pumps a port of which only the link has changed. Polls the owner only if there is new room, or if the owner may
    /// have more than at the last poll.
    #[inline(always)]
    pub(super) fn pump_link(&mut self, index: usize) {
        let Some(state) = self.ports.get_mut(index) else { return };
        if state.asks_again || state.port.has_notice() {
            return self.pump(index);
        }
        if self.transmit(index) == Put::NewTlp {
            self.refill(index);
            if let Owner::Switch { switch, .. } = self.ports[index].owner {
                self.ports[index].arm(self.now, &mut self.queue);
                return self.pump_touched_ports(switch as usize);
            }
        }
        self.ports[index].arm(self.now, &mut self.queue);
    }

    /// Pumps the other ports of a switch that took or sent a TLP at one port: they may be able to send, or have credits to
    /// return.
    pub(super) fn pump_touched_ports(&mut self, n: usize) {
        while let Some(state) = self.switches.get_mut(n)
            && let Some(port) = state.switch.poll_touched()
        {
            if let Some(index) = state.ports[port] {
                self.pump_port(index);
            }
        }
        self.apply_switch_actions(n);
        let Some(state) = self.switches.get_mut(n) else { return };
        if let Some(at) = state.switch.poll_timeout().map(|at| at.max(self.now))
            && state.timer.request(at)
        {
            self.queue.push(at, Event::SwitchTimer(n as u32));
        }
    }

    /// Sends a frame if one may be sent. This function is called far more often than it sends a frame.
    #[inline(always)]
    fn transmit(&mut self, index: usize) -> Put {
        let ready = self.ports[index].port.transmit_ready_at();
        if ready.is_some_and(|at| at <= self.now) { self.send(index) } else { Put::Nothing }
    }

    #[inline(never)]
    fn send(&mut self, index: usize) -> Put {
        self.send_fast(index).unwrap_or_else(|| self.send_general(index))
    }

    #[inline(never)]
    fn send_general(&mut self, index: usize) -> Put {
        let now = self.now;
        let id = self.ports[index].id;
        let ends = [index, id.peer().index()];
        let Ok([state, peer]) = self.ports.get_disjoint_mut(ends) else { return Put::Nothing };
        let sent = state.port.poll_transmit(now);
        // The parts just written are read one by one: reading them as a whole would wait for the writes.
        let Some(Sent { frame, start, end, wait }) = &sent else { return self.send_foreign(index) };
        let lent = self.ledger.lend(&mut state.port, *frame, id.link(), peer.propagation);
        let Some(lent) = lent else { return Put::Nothing };
        if let Some(tap) = &mut self.tap {
            show(tap.as_mut(), *end, id, id.side(), lent, None);
        }
        let tlp = lent.tlp();
        let arrival = *end + peer.propagation;
        if let (Some(tlp), Some(wait)) = (tlp, wait) {
            let data_bytes = 4 * tlp.repr.data_dw();
            self.ledger.sent(tlp, data_bytes, [*start, *end, arrival], wait.credit_wait, &mut state.flow);
        }
        let again = tlp.filter(|_| wait.is_none());
        let tail = peer.tail(*start, *end, tlp);
        let put = if wait.is_some() { Put::NewTlp } else { Put::Other };
        let in_flight = InFlight::new(*frame, again, tail);
        if !peer.port.rare().intersects(Rare::FAULTS | Rare::FRAMES) {
            peer.push_inbound(in_flight, arrival, &mut self.queue);
        } else if let Some(cut) = peer.send_by_rules(in_flight, lent, arrival, &mut self.queue) {
            self.cut(id.link(), cut);
        }
        put
    }

    /// Refills the queues from the owner. Returns false if the owner would have no TLP even with unlimited room.
    // The called functions are not inlined, so that no owner pays for the registers of another.
    #[inline(always)]
    fn refill(&mut self, index: usize) -> bool {
        match self.ports[index].owner {
            Owner::Root(host, n) => {
                let root = &self.hosts[host].root;
                if root.outputs(n as usize) == 0 && !root.owes_credits(n as usize) {
                    self.ports[index].asks_again = false;
                    return false;
                }
                self.refill_root(index, host, n as usize)
            }
            Owner::Slot(n) => self.refill_slot(index, n as usize),
            Owner::Switch { switch, port } => self.refill_switch(index, switch as usize, port as usize),
        }
    }

    /// Refills the queues from a switch port. A TLP that is sent lets its ingress port return credits, which the switch reports
    /// (`pump_touched_ports`).
    #[inline(never)]
    fn refill_switch(&mut self, index: usize, n: usize, port: usize) -> bool {
        let (Some(state), Some(at)) = (self.switches.get_mut(n), self.ports.get_mut(index)) else {
            return false;
        };
        let mut owner = SwitchPortOwner { switch: &mut state.switch, port };
        owner.refill(at, self.now, &mut self.ledger)
    }

    /// Refills the queues from a device. During a poll for output the device may also accept a request or set a timer,
    /// so credits and the timer are polled as well.
    #[inline(never)]
    fn refill_slot(&mut self, index: usize, n: usize) -> bool {
        let (Some(slot), Some(at)) = (self.slots.get_mut(n), self.ports.get_mut(index)) else { return false };
        let mut owner = SlotOwner::of(slot, n, &at.port);
        let more = owner.refill(at, self.now, &mut self.ledger);
        let timeout = owner.status.timeout;
        self.arm_slot_at(n, timeout);
        more
    }

    /// Refills the queues from a root port. Sending a posted request may unblock those after it, and sending a
    /// completion lets in a read that waited with its credits. Then the host program, which may have waited for room,
    /// may go on.
    #[inline(never)]
    fn refill_root(&mut self, index: usize, host: HostId, n: usize) -> bool {
        let Some(at) = self.ports.get_mut(index) else { return false };
        let side = &mut self.hosts[host];
        let mut owner = RootPortOwner::of(&mut side.root, n, at.id.link());
        let more = owner.refill(at, self.now, &mut self.ledger);
        let moved = owner.moved;
        side.apply_effects(host, &mut self.queue, &mut self.ledger, &mut self.actions);
        if moved && side.program.as_ref().is_some_and(HostSlot::is_stuck) {
            self.queue.push(self.now, Event::Host(host));
        }
        more
    }
}
