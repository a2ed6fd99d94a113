// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One turn of a virtual machine: events of its clients become requests, and inputs of the host become answers and interrupts.

use super::client::DmaMemory;
use super::event::VmEvent;
use super::vm_host::{Firmware, VmHost};
use guest::vfio_device::Outcome;
use guest::vfio_user::{Event, HangUp, Irq, IrqChange, IrqEvent, Token};
use host::{DriverError, HostInput, HostInterrupt, HostReadId};
use plug::Attachment;
use session::external::Driver;
use session::external::host::HostRequest;
use std::io;
use tlp::Time;

/// Maximum number of events of one client before the events of the others are handled.
const MOST_OF_CLIENT: usize = 64;
/// The low bits of a request's ID are the request's number at its client; the bits above are the client's number.
const ID_BITS: u32 = 20;

impl VmHost {
    /// Handles up to `most` events of the clients, while there is room. Their requests join the lab at `now`. Returns
    /// the number of events, and whether more events may be there already.
    ///
    /// # Errors
    /// riser can no longer accept clients.
    pub fn poll_clients(
        &mut self,
        lab: &mut Driver,
        now: Time,
        most: usize,
        mut notify: impl FnMut(&mut Driver, &str, VmEvent),
    ) -> io::Result<(usize, bool)> {
        self.issue(lab, now);
        let (mut taken, mut more) = (0, false);
        for n in 0..self.clients.len() {
            self.clients[n].server.turn()?;
            if let Some(peer) = self.clients[n].server.arrival() {
                notify(lab, &self.clients[n].name, VmEvent::Connected(peer));
            }
            let begun = taken;
            loop {
                if taken == most || taken - begun == MOST_OF_CLIENT || !self.has_room() {
                    more = true;
                    break;
                }
                let Some(event) = self.clients[n].server.poll() else { break };
                taken += 1;
                self.event(n, event, lab, now, &mut notify);
                self.issue(lab, now);
            }
        }
        for client in &self.clients {
            match client.messages().lost() {
                0 => {}
                lost => notify(lab, &client.name, VmEvent::WritesLost(lost)),
            }
        }
        if let Some((first, count)) = self.handle.place.refused_dma() {
            notify(lab, "", VmEvent::Unmapped(first, count));
        }
        Ok((taken, more))
    }

    fn event(
        &mut self,
        n: usize,
        event: Event,
        lab: &mut Driver,
        now: Time,
        notify: &mut impl FnMut(&mut Driver, &str, VmEvent),
    ) {
        match event {
            Event::Joined => {
                self.clients[n].counters.clients += 1;
                if let Err(why) = self.fetch(n, lab) {
                    notify(lab, &self.clients[n].name, VmEvent::Misplaced(why));
                    return self.clients[n].server.hang_up(HangUp::Absent);
                }
                let mut memories =
                    DmaMemory { lab, handle: &self.handle, scope: self.clients[n].scope(), now };
                self.clients[n].join(&mut memories);
                notify(lab, &self.clients[n].name, VmEvent::Joined);
            }
            Event::Read { token, region, offset, len } => {
                self.clients[n].counters.reads += 1;
                let outcome = self.clients[n].device.read(token, region, offset, len as u32);
                self.conclude(n, outcome);
            }
            Event::Write { token, region, offset, data, .. } => {
                self.clients[n].counters.writes += 1;
                let moving = self.moving(n, region, offset, &data);
                if !moving.is_empty() {
                    self.issue(lab, now);
                    self.release(&moving, lab, notify);
                }
                let outcome = self.clients[n].device.write(token, region, offset, &data);
                if let Some(token) = self.conclude(n, outcome) {
                    self.reset(n, lab, notify);
                    self.clients[n].server.complete(token, Ok(&[]));
                }
                if !moving.is_empty() {
                    self.issue(lab, now);
                    self.follow(lab, notify);
                }
            }
            Event::Map { .. } | Event::Unmap { .. } | Event::Dma { .. } => {
                self.memory(n, event, lab, now, notify)
            }
            Event::Reset { token } => {
                self.clients[n].counters.resets += 1;
                self.reset(n, lab, notify);
                self.clients[n].server.complete(token, Ok(&[]));
            }
            Event::Refused(why) => {
                self.clients[n].counters.refused += 1;
                notify(lab, &self.clients[n].name, VmEvent::Refused(why));
            }
            Event::HangUp(why) => {
                // The supervisor gets the event before anything changes.
                let is_lost = self.clients[n].is_there && why.leaves_peer();
                let what = if is_lost { VmEvent::Lost(why) } else { VmEvent::Gone(why) };
                notify(lab, &self.clients[n].name, what);
                self.leave(n, lab, now, notify);
            }
            Event::Irqs(event) => self.irqs(n, event),
        }
    }

    fn memory(
        &mut self,
        n: usize,
        event: Event,
        lab: &mut Driver,
        now: Time,
        notify: &mut impl FnMut(&mut Driver, &str, VmEvent),
    ) {
        let mut memories = DmaMemory { lab, handle: &self.handle, scope: self.clients[n].scope(), now };
        let what = self.clients[n].memory(event, &mut memories);
        if let Some(what) = what {
            notify(lab, &self.clients[n].name, what);
        }
    }

    fn irqs(&mut self, n: usize, event: IrqEvent) {
        if event.change == IrqChange::Assigned && matches!(event.irq, Irq::Msi | Irq::Msix) {
            // The device does DMA from now on.
            self.clients[n].ask_whether_shared();
        }
        self.clients[n].device.irqs(event);
    }

    /// Returns true if another access may come.
    fn has_room(&self) -> bool {
        self.clients.iter().all(|client| client.device.has_room()) && self.handle.place.has_room()
    }

    /// Issues requests while there is room. A request that a host cannot issue ends the run with an error.
    fn issue(&mut self, lab: &mut Driver, now: Time) {
        for (n, client) in (0..).zip(&mut self.clients) {
            while self.handle.place.has_room()
                && let Some(mut request) = client.device.poll_request()
            {
                if let Some(id) = request.id_mut() {
                    id.0 |= n << ID_BITS;
                }
                let request = HostRequest::issue(request).unwrap_or_else(|why| {
                    HostRequest::end(Err(DriverError::from(why.to_string()).at(&client.name)))
                });
                lab.inject(now, &self.handle, request);
            }
        }
    }

    /// Passes an outcome on to client `n`. Returns the write, if it is a write that resets the client's device.
    fn conclude(&mut self, n: usize, outcome: Option<Outcome<Token>>) -> Option<Token> {
        match outcome? {
            Outcome::Answer(answer) => self.clients[n].server.complete(answer.token, Ok(&answer.bytes)),
            Outcome::Intx => self.signal(n, Irq::Intx, 0),
            Outcome::Reset { token } => return Some(token),
        }
        None
    }

    /// Handles the root complex's messages to the host, and issues the requests that follow from them.
    pub fn poll_lab(&mut self, lab: &mut Driver) {
        while let Some((_, input)) = self.handle.place.poll_input() {
            self.handle(input);
        }
        self.issue(lab, lab.now());
    }

    /// Sends answers and interrupts to the clients.
    pub fn flush(&mut self) {
        for client in &mut self.clients {
            let [signalled, lost] = client.send();
            client.counters.interrupts += signalled;
            client.counters.interrupts_lost += lost;
            client.server.flush();
        }
    }

    /// Returns whether the fabric must wait until memory that is reached by messages has accepted DMA writes. While an
    /// access is in progress, the machine cannot accept DMA writes, and the fabric continues.
    pub fn holds_up(&self) -> bool {
        !self.handle.place.awaits_fabric() && self.clients.iter().any(|client| client.messages().is_full())
    }

    /// Returns whether a device waits for memory that riser accesses by messages.
    pub fn is_awaited(&self) -> bool {
        self.clients.iter().any(|client| client.messages().awaits())
    }

    pub(super) fn handle(&mut self, input: HostInput) {
        match input {
            HostInput::Done { id: HostReadId(id), result } => {
                let (n, id) = ((id >> ID_BITS) as usize, HostReadId(id & ((1 << ID_BITS) - 1)));
                let outcome = self.clients.get_mut(n).and_then(|client| client.device.handle(id, &result));
                self.conclude(n, outcome);
            }
            HostInput::Interrupt(interrupt) => self.interrupt(interrupt),
            _ => self.clients[0].counters.messages += 1,
        }
    }

    fn interrupt(&mut self, interrupt: HostInterrupt) {
        // The VMD gets the interrupts that no function claims. The client of the hierarchy is the first client, so
        // this loop handles it last.
        let mut clients = self.clients.iter_mut().enumerate().rev();
        let found = clients.find_map(|(n, client)| Some((n, client.device.interrupt(&interrupt)?)));
        let by_wire = matches!(interrupt, HostInterrupt::Wire { .. });
        match (found, &self.firmware) {
            (Some((n, (irq, vector))), _) => self.signal(n, irq, vector),
            // Interrupt Status shows later which function asserts it.
            (None, Firmware::Functions(_)) if by_wire => {}
            (None, _) => self.clients[0].counters.interrupts_foreign += 1,
        }
    }

    fn signal(&mut self, n: usize, irq: Irq, vector: u32) {
        let client = &mut self.clients[n];
        if client.messages().hold(irq, vector) {
            return;
        }
        match client.server.signal(irq, vector) {
            true => client.counters.interrupts += 1,
            false => client.counters.interrupts_lost += 1,
        }
    }
}
