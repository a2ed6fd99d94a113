// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What devices ask of the host.

use super::effects::{Due, Effect};
use super::memory::{Request, Served, Service};
use super::peer::Verdict;
use super::reads::{Action, Job};
use super::{ROOT_ID, RootComplex};
use crate::memory_system::Access;
use crate::stages::Stage;
use crate::topology::MSI_WINDOW;
use config::{Side, Uncorrectable};
use device::CreditReturn;
use device::host::{HostInput, HostInterrupt};
use tlp::{Body, Limits, MemoryOp, MemoryRequest, Prefixes, Status, TcSet, Time, Tlp, TrafficClass, rules};

impl RootComplex {
    /// A TLP has arrived at root port `port`.
    pub(crate) fn handle_tlp(&mut self, port: usize, now: Time, tlp: &Tlp) {
        // In this order where both are so (`PCIe 5.0 §6.2.3.2.3`).
        if rules::check_received(tlp, &self.limits(port, tlp)).is_err() {
            self.counters.malformed += 1;
            return self.discard(port, now, Some(Uncorrectable::MalformedTlp), tlp);
        }
        if tlp.repr.td && tlp.ecrc_wrong && self.checks_ecrc(port, tlp) {
            self.counters.ecrc_errors += 1;
            return self.discard(port, now, Some(Uncorrectable::Ecrc), tlp);
        }
        match tlp.repr.body {
            Body::Memory(m) if m.op == MemoryOp::Write => self.write(port, now, &m, tlp),
            Body::Memory(_) | Body::Io(_) | Body::Atomic(_) | Body::Config(_) => {
                self.queue_request(port, now, tlp);
            }
            Body::Completion(c) if c.requester != ROOT_ID && self.pass_completion(port, now, tlp) => {}
            Body::Completion(_) => {
                self.return_credits(port, tlp);
                super::requester::complete(self, port, now, tlp);
            }
            Body::Message(m) => self.message(port, now, &m, tlp),
        }
    }

    /// What a root port takes: no local prefixes, and end-to-end ones as its function says; four without one. A link hands on no
    /// TLP of a Traffic Class that it does not map.
    #[inline]
    fn limits(&self, port: usize, tlp: &Tlp) -> Limits {
        let port = &self.ports[port];
        let end_to_end_prefixes = match &port.function {
            _ if tlp.prefixes.is_empty() => 0,
            None => Prefixes::MAX_END_TO_END as u8,
            Some(function) => function.routes.end_end_prefixes,
        };
        Limits { mps: port.config.mps, tc_mapped: TcSet::ALL, local_prefixes: false, end_to_end_prefixes }
    }

    /// Bare root ports check every ECRC, functions those of what ends here, where they are told to (`PCIe 5.0 §2.7.1`).
    #[cold]
    fn checks_ecrc(&self, port: usize, tlp: &Tlp) -> bool {
        let Some(function) = &self.ports[port].function else { return true };
        function.bridge.checks_ecrc() && !matches!(self.judge(port, tlp), Verdict::Peer(_))
    }

    /// `tlp` comes to nothing; `error`, where there is one, is logged.
    #[cold]
    pub(super) fn discard(&mut self, port: usize, now: Time, error: Option<Uncorrectable>, tlp: &Tlp) {
        self.effects.drop(tlp.account);
        self.return_credits(port, tlp);
        if let Some(error) = error {
            self.log(port, now, (error, false), Side::Secondary, tlp);
        }
    }

    /// A posted request that is to be judged. True where it is for memory, or nobody's.
    #[cold]
    fn lets_post(&mut self, port: usize, now: Time, tlp: &Tlp) -> bool {
        match self.judge(port, tlp) {
            Verdict::Here => return true,
            Verdict::Peer(egress) => self.pass_request(port, egress, now, tlp),
            verdict => {
                self.turn_away(port, now, tlp, verdict);
                self.discard(port, now, None, tlp);
            }
        }
        false
    }

    fn write(&mut self, port: usize, now: Time, m: &MemoryRequest, tlp: &Tlp) {
        if self.ports[port].watched && !self.lets_post(port, now, tlp) {
            return;
        }
        if tlp.prefixes.has_reserved() {
            self.counters.unsupported_requests += 1;
            return self.discard(port, now, Some(Uncorrectable::UnsupportedRequest), tlp);
        }
        let (address, len) = (m.span.first_byte(), m.span.byte_count());
        let is_interrupt = MSI_WINDOW.contains(address, u64::from(len));
        let access = Access { port, requester: m.requester, address, len };
        if !is_interrupt && !self.memory.lets(&access, true) {
            self.counters.unsupported_requests += 1;
            self.log(port, now, (Uncorrectable::UnsupportedRequest, false), Side::Secondary, tlp);
        } else if tlp.repr.ep {
            // Memory does not get the poison along: what was there before is wrong, and nobody can tell (`PCIe 5.0
            // §6.2.3.2.4.3`). Nor may an interrupt be made of it (§2.7.2.2).
            self.counters.poisoned += 1;
            self.log(port, now, (Uncorrectable::PoisonedTlp, false), Side::Secondary, tlp);
        } else if is_interrupt && !m.span.is_zero_length() {
            self.interrupt(now, m, tlp);
        } else if !m.span.is_zero_length() {
            self.counters.memory_writes += 1;
            self.memory.store(m.requester, m.span, &tlp.data);
            return self.drain(&access, now, tlp);
        }
        // Where it was an interrupt, its account is closed.
        self.effects.drop(tlp.account);
        self.return_credits(port, tlp);
    }

    /// The bytes are there at once; what takes time is the room in the receive buffer, and when a read may follow.
    fn drain(&mut self, access: &Access, now: Time, tlp: &Tlp) {
        let RootComplex { memory, profile, effects, .. } = self;
        let taken = memory.take_write(profile, access, now, tlp.account, effects);
        let port = access.port;
        if taken <= now {
            return self.return_credits(port, tlp);
        }
        let credit = CreditReturn::of(tlp);
        let draining = &mut self.ports[port].draining;
        if draining.is_empty() {
            self.effects.wake(taken, Due::Drained(port as u32));
        }
        draining.push_back((taken, credit));
    }

    pub(super) fn interrupt(&mut self, now: Time, m: &MemoryRequest, tlp: &Tlp) {
        self.counters.interrupts += 1;
        let (requester, address) = (m.requester, m.span.first_byte());
        let mut dw = [0; 4];
        dw.iter_mut().zip(tlp.data.bytes().unwrap_or_default()).for_each(|(to, from)| *to = *from);
        let interrupt = HostInterrupt::Message { requester, address, data: u32::from_le_bytes(dw) };
        let at = now + self.profile.root_complex_latency + self.profile.interrupt_latency;
        self.effects.interrupt(tlp.account, at);
        self.inbox.interrupt(at, HostInput::Interrupt(interrupt), &mut self.effects);
    }

    /// A request that is to be answered takes a place in the memory system, or waits for one and keeps its credits: so
    /// answers that cannot leave hold up their requester, whatever they say.
    fn queue_request(&mut self, port: usize, now: Time, tlp: &Tlp) {
        let p = &mut self.ports[port];
        let tc = tlp.repr.tc;
        let under_way = p.reads_under_way[usize::from(tc.bits())];
        if under_way >= self.profile.max_reads_per_port || p.waiting.len_of(tc) > 0 {
            p.waiting.push(tc, tlp.clone());
            return;
        }
        self.start(port, now, tlp);
    }

    fn start(&mut self, port: usize, now: Time, tlp: &Tlp) {
        if self.ports[port].watched && !self.lets_start(port, now, tlp) {
            return;
        }
        self.return_credits(port, tlp);
        if tlp.prefixes.has_reserved() {
            return self.refuse(port, now, tlp);
        }
        let p = &self.profile;
        // Reads have a way of their own, on which the compiler knows that nothing is written.
        if let Body::Memory(m) = &tlp.repr.body
            && m.op == MemoryOp::Read
        {
            let read = p.read_service(m.span.first_byte(), m.span.byte_count());
            return self.begin(now, Job::read(port, tlp, m), tlp, Service { read: Some(read), write: None });
        }
        self.start_other(port, now, tlp);
    }

    /// What is not a plain read.
    // Apart, so that reads, which are most, do not pay for its registers.
    #[inline(never)]
    fn start_other(&mut self, port: usize, now: Time, tlp: &Tlp) {
        let p = &self.profile;
        let (job, read, write) = match tlp.repr.body {
            Body::Memory(m) if m.op == MemoryOp::WriteDeferrable => {
                let (address, len) = (m.span.first_byte(), m.span.byte_count());
                (Job::deferrable_write(port, tlp, &m), None, Some(p.write_service(address, len)))
            }
            Body::Atomic(a) => {
                let (address, len) = (a.address, a.operand.bytes());
                let (read, write) = (p.read_service(address, len), p.write_service(address, len));
                (Job::atomic(port, tlp, &a), Some(read), Some(write))
            }
            // Configuration requests only go down (`PCIe 5.0 §2.2.7`); only hosts ask for locked reads, and I/O space
            // is not for devices (§6.5.2, §2.2.4.2).
            Body::Memory(_) | Body::Io(_) | Body::Config(_) | Body::Completion(_) | Body::Message(_) => {
                return self.refuse(port, now, tlp);
            }
        };
        self.begin(now, job, tlp, Service { read, write });
    }

    /// A job is to have this turn of the memory system, to read and to write, where there is memory for it.
    // Once for reads and once for all else: each knows what it does not do.
    #[inline(always)]
    fn begin(&mut self, now: Time, mut job: Job, tlp: &Tlp, service: Service) {
        let port = job.port;
        let access =
            Access { port, requester: tlp.repr.transaction().0, address: job.address, len: job.byte_count };
        if !self.memory.lets(&access, service.write.is_some()) {
            return self.refuse(port, now, tlp);
        }
        if tlp.repr.ep && service.write.is_some() {
            // Never advisory, though the requester learns of it (`PCIe 5.0 §2.7.2.2`).
            self.counters.poisoned += 1;
            self.log(port, now, (Uncorrectable::PoisonedTlp, false), Side::Secondary, tlp);
            return self.answer_refused(port, now, tlp, Status::UnsupportedRequest);
        }
        self.count(&job);
        self.ports[port].reads_under_way[usize::from(tlp.repr.tc.bits())] += 1;
        let request = Request { access, line_time: self.ports[port].line_time };
        let Served { asked, answered, ready, late } =
            self.memory.serve(&self.profile, &request, service, now);
        job.late = late;
        if self.profile.completions.unit_bytes.is_some() && service.write.is_none() {
            job.unit = self.completion_unit(port, job.address, job.byte_count);
        }
        let job = self.reads.insert(job);
        self.reads_in_memory += 1;
        self.effects.push(Effect::Served { account: tlp.account, job, now, asked, answered, ready });
        if ready <= now {
            self.read_ready(job, now);
        }
    }

    #[inline]
    fn count(&mut self, job: &Job) {
        *match job.action {
            Action::Read | Action::Passed => &mut self.counters.memory_reads,
            Action::Write(_) => &mut self.counters.memory_writes,
            Action::Atomic(_) => &mut self.counters.atomics,
        } += 1;
    }

    /// A request that is to be judged. True where it is for memory, or nobody's.
    #[cold]
    fn lets_start(&mut self, port: usize, now: Time, tlp: &Tlp) -> bool {
        let verdict = match self.judge(port, tlp) {
            Verdict::Here => return true,
            Verdict::Peer(egress) => {
                self.pass_request(port, egress, now, tlp);
                return false;
            }
            verdict => verdict,
        };
        match self.turn_away(port, now, tlp, verdict) {
            Some(status) => {
                self.return_credits(port, tlp);
                self.answer_refused(port, now, tlp, status);
            }
            None => self.discard(port, now, None, tlp),
        }
        false
    }

    /// Answers a request with UR.
    fn refuse(&mut self, port: usize, now: Time, tlp: &Tlp) {
        self.counters.unsupported_requests += 1;
        let error = (Uncorrectable::UnsupportedRequest, tlp.refusal_is_advisory());
        self.log(port, now, error, Side::Secondary, tlp);
        self.answer_refused(port, now, tlp, Status::UnsupportedRequest);
    }

    fn answer_refused(&mut self, port: usize, now: Time, tlp: &Tlp, status: Status) {
        self.effects.charge(tlp.account, Stage::Memory, now);
        self.ports[port].reads_under_way[usize::from(tlp.repr.tc.bits())] += 1;
        let job = self.reads.insert(Job::refused(port, tlp, status));
        self.push_ready(job);
    }

    /// The job has left: its place in the memory system is free. What goes to another root port takes none.
    pub(super) fn read_left(&mut self, port: usize, tc: TrafficClass, now: Time) {
        let p = &mut self.ports[port];
        p.reads_under_way[usize::from(tc.bits())] -= 1;
        if !p.waiting.is_empty() {
            self.start_waiting(port, tc, now);
        }
    }

    fn start_waiting(&mut self, port: usize, tc: TrafficClass, now: Time) {
        while self.ports[port].reads_under_way[usize::from(tc.bits())] < self.profile.max_reads_per_port {
            let Some(tlp) = self.ports[port].waiting.pop(tc) else { return };
            self.start(port, now, &tlp);
        }
    }
}
