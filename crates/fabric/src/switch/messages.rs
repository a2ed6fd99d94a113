// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages that a switch does not simply forward (`PCIe 5.0 §2.2.8`): the switch merges the interrupt wires from
//! below, gathers PME_TO_Ack, and broadcasts. A wire never changes before its message is sent. So an interrupt pushes
//! the earlier writes, like an MSI.

use super::crossbar::{Entry, GONE};
use super::{Switch, inbound::Arrival};
use endpoint::CreditReturn;
use tlp::message::{ASSERT_INTA, DEASSERT_INTA, PME_TO_ACK, PME_TURN_OFF, plain};
use tlp::{Body, Message, MessageRouting, Time, Tlp};

/// The INTx wires (`PCIe 5.0 §2.2.8.1`): INTA in bit 0 to INTD in bit 3.
pub(super) struct Wires {
    /// The wires of each port's link, then those of each port's own function.
    of: Vec<u8>,
    /// The wires as the upstream port has reported them.
    told: u8,
}

impl Wires {
    pub(super) fn new(ports: usize) -> Wires {
        Wires { of: vec![0; 2 * ports], told: 0 }
    }

    fn ports(&self) -> usize {
        self.of.len() / 2
    }

    /// The source of the wires of `port`'s own function.
    pub(super) fn own(&self, port: usize) -> usize {
        self.ports() + port
    }

    /// The wires that `source` asserts.
    pub(super) fn asserted(&self, source: usize) -> u8 {
        self.of[source]
    }

    pub(super) fn clear(&mut self) {
        self.of.fill(0);
        self.told = 0;
    }

    /// Returns the wires that the upstream port must show: wires of device `d` of the internal bus are rotated by `d`
    /// (`PCIe 5.0 §2.2.8.1`, Table 2-22); wires of the upstream port's own function are not.
    fn joined(&self) -> u8 {
        let ports = self.ports();
        self.of.iter().enumerate().fold(0, |all, (source, wires)| {
            let device = (source % ports).saturating_sub(1);
            all | turned(*wires, device)
        })
    }

    /// A wire of `source` changes; returns the wire of the upstream port that changes, and its level.
    fn set(&mut self, source: usize, wire: u8, asserted: bool) -> Option<(u8, bool)> {
        let bit = 1 << wire;
        self.of[source] = if asserted { self.of[source] | bit } else { self.of[source] & !bit };
        let joined = self.joined();
        let changed = joined ^ self.told;
        self.told = joined;
        (changed != 0).then(|| (changed.trailing_zeros() as u8, joined & changed != 0))
    }
}

const fn turned(wires: u8, by: usize) -> u8 {
    let wide = (wires as u16) << (by % 4);
    (wide as u8 | (wide >> 4) as u8) & 0xf
}

impl Switch {
    /// Merges a posted TLP that leaves upstream with others if needed. Returns the TLP that the upstream port sends, if
    /// any.
    pub(super) fn gather(&mut self, entry: Entry) -> Option<Tlp> {
        match &entry.tlp.repr.body {
            Body::Message(Message { routing: MessageRouting::Local | MessageRouting::Gathered, .. })
                if entry.source == GONE =>
            {
                self.effects.drop(entry.tlp.account);
                None
            }
            Body::Message(Message { routing: MessageRouting::Local, code, .. }) => {
                let code = *code;
                self.wire_changes(usize::from(entry.source), code)
            }
            Body::Message(Message { routing: MessageRouting::Gathered, .. }) => {
                self.acknowledged(usize::from(entry.source))
            }
            _ => Some(entry.tlp),
        }
    }

    fn wire_changes(&mut self, source: usize, code: u8) -> Option<Tlp> {
        let asserted = code < DEASSERT_INTA;
        let (wire, asserted) = self.wires.set(source, code & 3, asserted)?;
        let first = if asserted { ASSERT_INTA } else { DEASSERT_INTA };
        Some(self.protected(plain(self.bridges[0].id(), MessageRouting::Local, first + wire)))
    }

    /// `port` has acknowledged PME_Turn_Off. The upstream port acknowledges when all ports have (`PCIe 5.0
    /// §5.3.3.2.1`).
    fn acknowledged(&mut self, port: usize) -> Option<Tlp> {
        if port != 0 && self.gathering & 1 << port == 0 {
            return None;
        }
        self.gathering &= !(1 << port);
        let ack = plain(self.bridges[0].id(), MessageRouting::Gathered, PME_TO_ACK);
        (self.gathering == 0).then(|| self.protected(ack))
    }

    /// Sends a message from the upstream port out of every downstream port whose link is up. Its credits return with
    /// the last copy.
    pub(super) fn broadcast(&mut self, arrival: Arrival, tlp: &Tlp) {
        let turns_off = matches!(tlp.repr.body, Body::Message(m) if m.code == PME_TURN_OFF);
        let up: u64 = (1..self.ports()).filter(|port| self.links[*port].up).fold(0, |all, n| all | 1 << n);
        if up == 0 {
            self.end(0, tlp);
        }
        for port in (1..self.ports()).filter(|port| up >> port & 1 == 1) {
            let leave_at = self.leave_at(arrival.now, arrival.tail_at, tlp, port);
            let entry = Entry::new(tlp.clone(), leave_at, 0, port);
            let is_last = up >> port == 1;
            let entry = if is_last { entry.returning(0, CreditReturn::of(tlp)) } else { entry };
            self.crossbar.push(arrival.now, 0, entry);
        }
        if turns_off {
            self.gathering = up;
            self.acknowledge_alone(arrival);
        }
    }

    /// Acknowledges immediately if no port has to acknowledge.
    fn acknowledge_alone(&mut self, arrival: Arrival) {
        if self.gathering == 0 {
            let ack = plain(self.bridges[0].id(), MessageRouting::Gathered, PME_TO_ACK);
            let leave_at = arrival.tail_at + self.timing.latency;
            self.send_own(arrival.now, Entry::new(ack, leave_at, 0, 0));
        }
    }

    /// Sets the wires of `source` to `wires`, by messages of the switch itself.
    pub(super) fn drive_wires(&mut self, now: Time, source: usize, wires: u8) {
        let changed = self.wires.asserted(source) ^ wires;
        for wire in (0..4).filter(|wire| changed >> wire & 1 == 1) {
            let first = if wires >> wire & 1 == 1 { ASSERT_INTA } else { DEASSERT_INTA };
            let tlp = plain(self.bridges[0].id(), MessageRouting::Local, first + wire);
            self.send_own(now, Entry::new(tlp, now + self.timing.latency, source, 0));
        }
    }

    /// The link of `port` is down, so it asserts no wire and sends no acknowledgement.
    pub(super) fn forget_messages(&mut self, now: Time, port: usize) {
        self.drive_wires(now, port, 0);
        if self.gathering & 1 << port != 0 {
            let ack = plain(self.bridges[port].id(), MessageRouting::Gathered, PME_TO_ACK);
            self.send_own(now, Entry::new(ack, now + self.timing.latency, port, 0));
        }
    }
}
