// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLPs that arrive at root ports, and the part that handles each. A TLP without effect has no such part.

use super::completer::Job;
use super::memory::{ReadTurn, Service, WriteTurn};
use super::peer::Verdict;
use super::{Base, ROOT_ID, RootComplex, Watch};
use crate::effects::Due;
use crate::memory_system::Access;
use crate::profile::lines;
use crate::topology::MSI_WINDOW;
use config::{Side, Uncorrectable};
use endpoint::CreditReturn;
use host::{HostInput, HostInterrupt};
use tlp::rules::reasons::{poisoned, unsupported_prefixes};
use tlp::{
    Body, Data, Duration, Flaw, Limits, MemoryOp, MemoryRequest, Prefixes, TcSet, Time, Tlp, TrafficClass,
    rules,
};

impl RootComplex {
    /// A TLP has arrived at root port `port`.
    pub(crate) fn handle_tlp(&mut self, port: usize, now: Time, tlp: &Tlp) {
        // The order of these checks decides if both fail (`PCIe 5.0 §6.2.3.2.3`).
        if let Err(why) = rules::check_received(tlp, &self.base.limits(port, tlp)) {
            self.base.refused(|b| &mut b.counters.malformed, port, now, why, tlp);
            return self.base.discard(port, now, Some(Uncorrectable::MalformedTlp), tlp);
        }
        if tlp.has_wrong_ecrc() && self.checks_ecrc(port, tlp) {
            self.base.refused(|b| &mut b.counters.ecrc_errors, port, now, tlp.ecrc_violation(), tlp);
            return self.base.discard(port, now, Some(Uncorrectable::Ecrc), tlp);
        }
        match tlp.repr.body {
            Body::Memory(m) if m.op == MemoryOp::Write => self.write(port, now, &m, tlp),
            Body::Memory(_) | Body::Io(_) | Body::Atomic(_) | Body::Config(_) => {
                self.queue_request(port, now, tlp);
            }
            Body::Completion(c) if c.requester != ROOT_ID && self.pass_completion(port, now, tlp) => {}
            Body::Completion(_) => {
                self.base.return_credits(port, tlp);
                self.complete(port, now, tlp);
            }
            Body::Message(m) => self.base.message(port, now, &m, tlp),
        }
    }

    /// Bare root ports check every ECRC. Functions check the ECRC of TLPs that end here, if enabled (`PCIe 5.0
    /// §2.7.1`).
    #[cold]
    fn checks_ecrc(&self, port: usize, tlp: &Tlp) -> bool {
        let Some(function) = &self.base.ports[port].function else { return true };
        function.bridge.space().ecrc_check() && !matches!(self.judge(port, tlp), Verdict::Peer(_))
    }

    /// Judges a posted request. Returns true if it is for memory, or for no target.
    #[cold]
    fn lets_post(&mut self, port: usize, now: Time, tlp: &Tlp) -> bool {
        match self.judge(port, tlp) {
            Verdict::Here => return true,
            Verdict::Peer(egress) => self.pass_request(port, egress, now, tlp),
            verdict => {
                self.base.turn_away(port, now, tlp, verdict);
                self.base.discard(port, now, None, tlp);
            }
        }
        false
    }

    fn write(&mut self, port: usize, now: Time, m: &MemoryRequest, tlp: &Tlp) {
        if self.base.must_judge(port, tlp) && !self.lets_post(port, now, tlp) {
            return;
        }
        if tlp.prefixes.has_reserved() {
            let why = unsupported_prefixes(&tlp.prefixes);
            self.base.refused(|b| &mut b.counters.unsupported_requests, port, now, why, tlp);
            return self.base.discard(port, now, Some(Uncorrectable::UnsupportedRequest), tlp);
        }
        let (address, len) = (m.span.first_byte(), m.span.byte_count());
        let is_interrupt = MSI_WINDOW.contains(address, u64::from(len));
        let access = Access { port, requester: m.requester, address, len };
        if !is_interrupt && !self.base.memory.lets(&access, true) {
            self.base.note_refused(&access, now, tlp);
        } else if tlp.repr.ep {
            // Memory does not store the poison. It keeps its old content, which is wrong, and software cannot detect
            // this (`PCIe 5.0 §6.2.3.2.4.3`). No interrupt may be made of the TLP either (§2.7.2.2).
            self.base.refused(|b| &mut b.counters.poisoned, port, now, poisoned(), tlp);
            self.base.log(port, now, Uncorrectable::PoisonedTlp, false, Side::Secondary, tlp);
        } else if is_interrupt && !m.span.is_zero_length() {
            self.base.interrupt(now, m, tlp);
        } else if !m.span.is_zero_length() {
            self.base.counters.memory_writes += 1;
            let gap = self.base.profile.completions.write_line_gap;
            if gap > Duration::ZERO {
                self.base.ports[port].writes.add(now, lines(address, len), gap);
            }
            self.base.drain(&access, now, tlp);
            return self.base.memory.store(m.requester, m.span, &tlp.data);
        }
        // The account of an interrupt is already closed.
        self.base.effects.drop(tlp.account);
        self.base.return_credits(port, tlp);
    }

    /// Accepts a request that needs an answer into the memory system, or lets it wait with its credits. So unsendable
    /// answers of any kind block only their requester.
    fn queue_request(&mut self, port: usize, now: Time, tlp: &Tlp) {
        let p = &mut self.base.ports[port];
        let tc = tlp.repr.tc;
        let under_way = p.reads_under_way[usize::from(tc.bits())];
        if under_way >= self.base.profile.max_reads_per_port || p.waiting.len_of(tc) > 0 {
            p.waiting.push(tc, tlp.clone());
            return;
        }
        self.start(port, now, tlp);
    }

    fn start(&mut self, port: usize, now: Time, tlp: &Tlp) {
        if self.base.must_judge(port, tlp) && !self.lets_start(port, now, tlp) {
            return;
        }
        self.base.return_credits(port, tlp);
        if tlp.prefixes.has_reserved() {
            let why = unsupported_prefixes(&tlp.prefixes);
            return self.completer.refuse(&mut self.base, port, now, tlp, why);
        }
        let p = &self.base.profile;
        // Reads have a separate path, on which the compiler knows that the request does not write.
        if let Body::Memory(m) = &tlp.repr.body
            && m.op == MemoryOp::Read
        {
            let read = p.read_service(m.span.first_byte(), m.span.byte_count());
            return self.completer.begin(
                &mut self.base,
                now,
                Job::read(port, tlp, m),
                tlp,
                Service { read: Some(read), write: None },
            );
        }
        self.completer.start_other(&mut self.base, port, now, tlp);
    }

    /// Judges a request that needs an answer. Returns true if it is for memory, or for no target.
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
        match self.base.turn_away(port, now, tlp, verdict) {
            Some(status) => {
                self.base.return_credits(port, tlp);
                self.completer.answer_refused(&mut self.base, port, now, tlp, status);
            }
            None => self.base.discard(port, now, None, tlp),
        }
        false
    }

    /// The data of `job` is available. Returns its root port, whose output must then be polled.
    pub(crate) fn read_ready(&mut self, job: u32, now: Time) -> usize {
        let (port, tc) = self.completer.read_ready(&mut self.base, job, now);
        self.job_left(port, tc, now);
        port
    }

    /// Notes that a job may have ended and freed its place in the memory system. TLPs for another root port do not need
    /// a place.
    #[inline]
    pub(super) fn job_left(&mut self, port: usize, tc: TrafficClass, now: Time) {
        if !self.base.ports[port].waiting.is_empty() {
            self.start_waiting(port, tc, now);
        }
    }

    fn start_waiting(&mut self, port: usize, tc: TrafficClass, now: Time) {
        while self.base.ports[port].reads_under_way[usize::from(tc.bits())]
            < self.base.profile.max_reads_per_port
        {
            let Some(tlp) = self.base.ports[port].waiting.pop(tc) else { return };
            self.start(port, now, &tlp);
        }
    }
}

/// A write whose time in memory is known before any state has changed: see [`RootComplex::plan_write`].
pub(crate) struct PlannedWrite {
    pub(crate) data_credits: u32,
    /// Memory accepts the write immediately.
    pub(crate) turn: WriteTurn,
}

impl RootComplex {
    /// Returns the memory request in `tlp`, which has arrived at root port `port`, if neither has a rare feature. The
    /// next step is [`plan_write`](Self::plan_write) or [`plan_read`](Self::plan_read).
    #[inline(always)]
    pub(crate) fn plain_request<'a>(&self, port: usize, tlp: &'a Tlp) -> Option<&'a MemoryRequest> {
        let (p, repr) = (self.base.ports.get(port)?, &tlp.repr);
        let Body::Memory(m) = &repr.body else { return None };
        let is_plain = !(repr.td | repr.ep)
            && repr.tc == TrafficClass::default()
            && tlp.flaw == Flaw::None
            && tlp.prefixes.is_empty()
            && !m.span.is_zero_length()
            && p.watch != Watch::Everything
            && p.credits.is_empty();
        is_plain.then_some(m)
    }

    /// Plans the time of a [plain](Self::plain_request) write in memory, at root port `port`. `None` unless memory has
    /// fixed latencies and accepts the write immediately, the port has no TLP to send, the write carries as much data as its
    /// header says, and takes no time from completions.
    #[inline(always)]
    pub(crate) fn plan_write(
        &self,
        port: usize,
        now: Time,
        m: &MemoryRequest,
        data: &Data,
    ) -> Option<PlannedWrite> {
        let base = &self.base;
        let p = base.ports.get(port)?;
        let (address, len, length_dw) = (m.span.first_byte(), m.span.byte_count(), m.span.length_dw());
        if data.len() != len as usize
            || p.outputs() != 0
            || base.profile.completions.write_line_gap > Duration::ZERO
            || length_dw * 4 > p.config.mps.bytes()
            || MSI_WINDOW.contains(address, len.into())
        {
            return None;
        }
        let turn = base.memory.write_turn(&base.profile, address, len, now)?;
        (turn.taken <= now).then_some(PlannedWrite { data_credits: length_dw.div_ceil(4), turn })
    }

    /// Plans the turn of a [plain](Self::plain_request) read at root port `port`. `None` unless memory has fixed
    /// latencies and room for it, and its completions have the usual size.
    #[inline(always)]
    pub(crate) fn plan_read(&self, port: usize, now: Time, m: &MemoryRequest) -> Option<ReadTurn> {
        let Base { ports, profile, memory, .. } = &self.base;
        let p = ports.get(port)?;
        let has_room = p.waiting.is_empty() && p.reads_under_way[0] < profile.max_reads_per_port;
        if !has_room || profile.completions.unit_bytes.is_some() {
            return None;
        }
        memory.read_turn(profile, m.span.first_byte(), m.span.byte_count(), now)
    }

    /// Takes a read at root port `port` that was planned at this time; returns its job. Unless the data is there already, call
    /// `read_ready` when it is.
    #[inline(always)]
    pub(crate) fn take_read(
        &mut self,
        port: usize,
        now: Time,
        turn: &ReadTurn,
        m: &MemoryRequest,
        tlp: &Tlp,
    ) -> u32 {
        self.base.memory.take_read_turn(turn);
        let job = self.completer.start_read(&mut self.base, Job::read(port, tlp, m));
        if turn.ready <= now {
            self.completer.read_ready(&mut self.base, job, now);
        }
        job
    }

    /// Takes a write that was planned at this time.
    #[inline(always)]
    pub(crate) fn take_write(&mut self, write: &PlannedWrite, m: &MemoryRequest, data: &Data) {
        self.base.counters.memory_writes += 1;
        self.base.memory.take_turn(&write.turn);
        self.base.memory.store(m.requester, m.span, data);
    }
}

impl Base {
    /// Returns whether a request needs checks, because it may be for another root port or may be refused.
    #[inline]
    fn must_judge(&self, port: usize, tlp: &Tlp) -> bool {
        match (self.ports[port].watch, &tlp.repr.body) {
            (Watch::Nothing, _) => false,
            (Watch::BesideMemory, Body::Memory(m)) => {
                !self.memory.contains(m.requester, m.span.first_byte(), m.span.byte_count())
            }
            _ => true,
        }
    }

    /// Returns the limits of a root port: no local prefixes, and as many End-End prefixes as its function supports, or
    /// four without a function. A link does not deliver TLPs of a Traffic Class that it does not map.
    fn limits(&self, port: usize, tlp: &Tlp) -> Limits {
        let port = &self.ports[port];
        let end_to_end_prefixes = match &port.function {
            _ if tlp.prefixes.is_empty() => 0,
            None => Prefixes::MAX_END_TO_END as u8,
            Some(function) => function.routes.end_end_prefixes,
        };
        Limits { mps: port.config.mps, tc_mapped: TcSet::ALL, local_prefixes: false, end_to_end_prefixes }
    }

    /// Drops `tlp`, and logs `error` if there is one.
    #[cold]
    pub(super) fn discard(&mut self, port: usize, now: Time, error: Option<Uncorrectable>, tlp: &Tlp) {
        self.effects.drop(tlp.account);
        self.return_credits(port, tlp);
        if let Some(error) = error {
            self.log(port, now, error, false, Side::Secondary, tlp);
        }
    }

    /// Schedules a write to memory. The caller writes the bytes immediately. Only the release of the receive buffer and
    /// later reads are delayed.
    fn drain(&mut self, access: &Access, now: Time, tlp: &Tlp) {
        let Base { memory, profile, effects, .. } = self;
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
}
