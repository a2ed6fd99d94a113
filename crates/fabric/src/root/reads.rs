// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads under way in the memory system, and the completions they become.

use super::{Ready, RootComplex};
use crate::queue::SortedQueue;
use tlp::split::completion_piece;
use tlp::{
    Attributes, Bdf, Body, Completion, Data, MemoryRequest, Repr, Status, Tag, Time, Tlp, TrafficClass,
};

/// A request of a device, until its last completion has left.
#[derive(Clone, Debug)]
pub(super) struct Job {
    port: usize,
    requester: Bdf,
    tag: Tag,
    tc: TrafficClass,
    attr: Attributes,
    status: Status,
    first_byte: u64,
    byte_count: u32,
    sent: u32,
    carry: bool,
    data: Data,
}

impl Job {
    pub(super) fn read(port: usize, tlp: &Tlp, m: &MemoryRequest) -> Job {
        Job {
            port,
            requester: m.requester,
            tag: m.tag,
            tc: tlp.repr.tc,
            attr: tlp.repr.attr,
            status: Status::Success,
            first_byte: m.span.first_byte(),
            byte_count: m.span.byte_count(),
            sent: 0,
            carry: tlp.carry,
            data: Data::Counted(m.span.byte_count()),
        }
    }

    pub(super) fn refused(port: usize, tlp: &Tlp, status: Status) -> Job {
        let (requester, tag) = tlp.repr.transaction();
        let (first_byte, byte_count) = match tlp.repr.body {
            Body::Memory(m) => (m.span.first_byte(), m.span.byte_count()),
            // Byte Count and Lower Address of other completions are 4 and 0 (`PCIe 5.0 §2.2.9`).
            _ => (0, 4),
        };
        Job {
            port,
            requester,
            tag,
            tc: tlp.repr.tc,
            attr: tlp.repr.attr,
            status,
            first_byte,
            byte_count,
            sent: 0,
            carry: false,
            data: Data::NONE,
        }
    }

    fn completion(&self, completer: Bdf, piece: u32) -> Repr {
        let at = self.first_byte + u64::from(self.sent);
        let with_data = self.status == Status::Success;
        // A piece is at most 4096 bytes long.
        let length_dw = (((at & 3) as u32 + piece).div_ceil(4)) as u16;
        let body = Body::Completion(Completion {
            locked: false,
            completer,
            requester: self.requester,
            tag: self.tag,
            status: self.status,
            bcm: false,
            byte_count: (self.byte_count - self.sent) as u16,
            lower_address: (at & 0x7f) as u8,
            length_dw: with_data.then_some(length_dw),
        });
        Repr { tc: self.tc, attr: self.attr, ..Repr::new(body) }
    }
}

/// Jobs by number; numbers are used again.
#[derive(Default)]
pub(super) struct Reads {
    jobs: Vec<Job>,
    free: Vec<u32>,
    stamps: u64,
}

impl Reads {
    pub(super) fn insert(&mut self, job: Job) -> u32 {
        if let Some(at) = self.free.pop() {
            self.jobs[at as usize] = job;
            return at;
        }
        self.jobs.push(job);
        (self.jobs.len() - 1) as u32
    }

    /// The next place in the order of everything that leaves towards devices.
    pub(super) fn stamp(&mut self) -> u64 {
        self.stamps += 1;
        self.stamps
    }
}

impl RootComplex {
    /// The data of `job` is there; its root port is to be pumped.
    pub(crate) fn read_ready(&mut self, job: u32, now: Time) -> usize {
        self.reads_in_memory -= 1;
        let read = &mut self.reads.jobs[job as usize];
        if read.carry {
            let (address, len) = (read.first_byte, read.byte_count as usize);
            // `contains` was asked when the read was taken: it cannot miss.
            if let Ok(payload) = self.memory.payload(&self.payloads, address, len) {
                read.data = Data::Carried(payload);
            }
        }
        self.push_ready(job, now)
    }

    pub(super) fn push_ready(&mut self, job: u32, now: Time) -> usize {
        let stamp = self.reads.stamp();
        let port = self.reads.jobs[job as usize].port;
        self.ports[port].ready_wait.come(now);
        self.ports[port].ready.push_back(Ready { stamp, job });
        port
    }

    pub(super) fn next_completion(&mut self, port: usize, now: Time, queue: &mut SortedQueue) -> Option<Tlp> {
        let number = self.ports[port].front_ready()?;
        let job = &mut self.reads.jobs[number as usize];
        let completer = Bdf::default();
        let at = job.first_byte + u64::from(job.sent);
        let left = job.byte_count - job.sent;
        let piece = match job.status {
            Status::Success => {
                completion_piece(at, left, self.ports[port].config.mps, self.ports[port].config.rcb)
            }
            _ => left,
        };
        let repr = job.completion(completer, piece);
        let data = match job.status {
            Status::Success => job.data.slice(job.sent as usize, piece as usize),
            _ => Data::NONE,
        };
        if job.sent == 0 {
            self.ports[port].ready_wait.leave(now);
        }
        job.sent += piece;
        if job.sent == job.byte_count {
            job.data = Data::NONE;
            self.reads.free.push(number);
            self.ports[port].ready.pop_front();
            self.read_left(port, now, queue);
        }
        Some(Tlp::new(repr, data))
    }
}
