// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What devices ask of the host.

use super::RootComplex;
use super::reads::Job;
use crate::queue::{Event, EventQueue, SortedQueue};
use crate::topology::MSI_WINDOW;
use device::CreditReturn;
use device::host::HostInput;
use tlp::{Body, Class, Data, MemoryOp, MemoryRequest, Status, Time, Tlp};

impl RootComplex {
    /// A TLP has arrived at root port `port`.
    pub(crate) fn handle_tlp(&mut self, port: usize, now: Time, tlp: Tlp, queue: &mut SortedQueue) {
        if tlp.repr.data_dw() * 4 > self.ports[port].config.mps.bytes() || !is_whole(&tlp) {
            self.counters.malformed += 1;
            return self.return_credits(port, &tlp);
        }
        match tlp.repr.body {
            Body::Memory(m) if m.op == MemoryOp::Write => self.write(port, now, &m, tlp, queue),
            Body::Memory(_) | Body::Io(_) | Body::Atomic(_) | Body::Config(_) => {
                self.queue_request(port, now, tlp, queue);
            }
            Body::Completion(_) => {
                self.return_credits(port, &tlp);
                super::requester::complete(self, port, now, &tlp, queue);
            }
            Body::Message(_) => {
                self.counters.messages += 1;
                self.return_credits(port, &tlp);
            }
        }
    }

    fn write(&mut self, port: usize, now: Time, m: &MemoryRequest, tlp: Tlp, queue: &mut SortedQueue) {
        let (address, len) = (m.span.first_byte(), m.span.byte_count());
        let is_interrupt = MSI_WINDOW.contains(address, u64::from(len));
        if !is_interrupt && !self.memory.contains(address, len as usize) {
            self.counters.unsupported_requests += 1;
        } else if tlp.repr.ep {
            self.counters.poisoned += 1;
        } else if is_interrupt && !m.span.is_zero_length() {
            self.interrupt(now, &tlp.data, queue);
        } else if !m.span.is_zero_length() {
            self.counters.memory_writes += 1;
            self.store(m, &tlp.data);
            return self.drain(port, now, address, len, &tlp, queue);
        }
        self.return_credits(port, &tlp);
    }

    /// The bytes are there at once; what takes time is the room in the receive buffer, and when a read may follow.
    fn drain(&mut self, port: usize, now: Time, address: u64, len: u32, tlp: &Tlp, queue: &mut SortedQueue) {
        let arrived = now + self.profile.root_complex_latency;
        let taken = arrived.max(self.write_free_at) + self.profile.write_service(address, len);
        self.write_free_at = taken;
        self.write_visible_at = self.write_visible_at.max(taken + self.profile.memory_write_latency);
        let service = &mut self.ports[port].write_service;
        service.root_complex += self.profile.root_complex_latency;
        service.memory += taken.since(arrived);
        if taken <= now {
            return self.return_credits(port, tlp);
        }
        let credit = CreditReturn { class: Class::Posted, data_credits: tlp.data_credits() };
        let draining = &mut self.ports[port].draining;
        if draining.is_empty() {
            queue.push(taken, Event::Drained(port as u32));
        }
        draining.push_back((taken, credit));
    }

    fn store(&mut self, m: &MemoryRequest, data: &Data) {
        let Some(bytes) = data.bytes() else { return };
        let first = m.span.first_byte();
        if m.span.is_contiguous() {
            // `contains` was asked before: the write cannot miss.
            let _ = self.memory.write(first, bytes);
            return;
        }
        for (i, byte) in bytes.iter().enumerate().filter(|(i, _)| m.span.is_enabled(*i as u32)) {
            let _ = self.memory.write(first + i as u64, &[*byte]);
        }
    }

    fn interrupt(&mut self, now: Time, data: &Data, queue: &mut SortedQueue) {
        self.counters.interrupts += 1;
        let vector = match data.bytes() {
            Some(&[low, high, ..]) => u16::from_le_bytes([low, high]),
            Some(&[low]) => u16::from(low),
            _ => 0,
        };
        let at = now + self.profile.root_complex_latency + self.profile.interrupt_latency;
        self.interrupts.push_back((at, HostInput::Interrupt { vector }));
        queue.push(at, Event::Host);
    }

    /// A request that is to be answered takes a place in the memory system, or waits for one and keeps its credits: so
    /// answers that cannot leave hold up their requester, whatever they say.
    fn queue_request(&mut self, port: usize, now: Time, tlp: Tlp, queue: &mut SortedQueue) {
        let p = &mut self.ports[port];
        if p.reads_under_way >= self.profile.max_reads_per_port || !p.waiting.is_empty() {
            p.waiting.push_back(tlp);
            return;
        }
        self.start(port, now, &tlp, queue);
    }

    fn start(&mut self, port: usize, now: Time, tlp: &Tlp, queue: &mut SortedQueue) {
        self.return_credits(port, tlp);
        // Configuration requests only go down (`PCIe 5.0 §2.2.7`).
        let Body::Memory(m) = tlp.repr.body else { return self.refuse(port, now, tlp) };
        if m.op != MemoryOp::Read {
            return self.refuse(port, now, tlp);
        }
        let (address, len) = (m.span.first_byte(), m.span.byte_count());
        if !self.memory.contains(address, len as usize) {
            return self.refuse(port, now, tlp);
        }
        self.counters.memory_reads += 1;
        self.ports[port].reads_under_way += 1;
        let arrived = (now + self.profile.root_complex_latency).max(self.write_visible_at);
        let taken = arrived.max(self.read_free_at) + self.profile.read_service(address, len);
        self.read_free_at = taken;
        let ready = taken + self.profile.memory_read_latency + self.profile.root_complex_latency;
        let root_complex = self.profile.root_complex_latency * 2;
        let service = &mut self.ports[port].read_service;
        service.root_complex += root_complex;
        service.memory += ready.since(now) - root_complex;
        let job = self.reads.insert(Job::read(port, tlp, &m));
        self.reads_in_memory += 1;
        if ready <= now {
            self.read_ready(job, now);
        } else {
            queue.push(ready, Event::ReadReady(job));
        }
    }

    /// Answers a request with UR.
    fn refuse(&mut self, port: usize, now: Time, tlp: &Tlp) {
        self.counters.unsupported_requests += 1;
        self.ports[port].reads_under_way += 1;
        let job = self.reads.insert(Job::refused(port, tlp, Status::UnsupportedRequest));
        self.push_ready(job, now);
    }

    /// The job has left: its place in the memory system is free.
    pub(super) fn read_left(&mut self, port: usize, now: Time, queue: &mut SortedQueue) {
        let p = &mut self.ports[port];
        p.reads_under_way -= 1;
        if let Some(tlp) = p.waiting.pop_front() {
            self.start(port, now, &tlp, queue);
        }
    }
}

/// Whether a TLP has the data that its header says; one from a device below the seam may not.
fn is_whole(tlp: &Tlp) -> bool {
    match tlp.repr.body {
        Body::Memory(m) if m.op.is_read() || m.span.is_zero_length() => true,
        Body::Memory(m) => tlp.data.len() == m.span.byte_count() as usize,
        Body::Io(_) | Body::Atomic(_) | Body::Completion(_) | Body::Message(_) => {
            tlp.data.len() == tlp.repr.data_lanes().len()
        }
        Body::Config(_) => true,
    }
}
