// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Host memory for the root complex: its bytes, and the times of accesses. The times come from fixed latencies, or from
//! a [memory system](crate::memory_system) if the profile describes one.
//!
//! With a memory system, memory serves the requests of each root port in order, and reads wait only for earlier writes
//! of their own port. Root ports share service times in the order of arrival, so a request that waits for a page walk
//! at one port does not delay requests of another.

use crate::effects::{Effect, Effects};
use crate::memory_system::{Access, MemoryCounters, MemorySystem, ReadTraffic};
use crate::profile::HostProfile;
use host::memory::{DmaAccess, HostMemory};
use tlp::{Account, AtomicOp, Bdf, Data, Duration, Payload, PayloadPool, Span, Time};

/// Host memory with its timing.
pub(super) struct TimedMemory {
    contents: HostMemory,
    /// Functions that reach another host's memory instead.
    granted: Vec<(Bdf, HostMemory)>,
    /// Costs of an access beyond fixed latencies, if the profile has them.
    system: Option<Box<MemorySystem>>,
    /// When memory takes the next read and the next write, and when the last write is visible.
    read_free_at: Time,
    write_free_at: Time,
    write_visible_at: Time,
}

/// Service times of a request that needs an answer: AtomicOps read and write.
#[derive(Clone, Copy)]
pub(super) struct Service {
    pub(super) read: Option<Duration>,
    pub(super) write: Option<Duration>,
}

/// A request that needs an answer.
pub(super) struct Request {
    pub(super) access: Access,
    /// Time that its link takes for a cache line of data.
    pub(super) line_time: Duration,
}

/// When a request has been served.
pub(super) struct Served {
    /// Time at which the request reaches the memory system.
    pub(super) asked: Time,
    /// When the memory system has answered.
    pub(super) answered: Time,
    /// When the answer is back at the root port.
    pub(super) ready: Time,
    /// Extra time that its translation and its lines took over hits in IOTLB and cache.
    pub(super) late: Duration,
}

/// The times of a read in memory with fixed latencies.
pub(crate) struct ReadTurn {
    /// When the read reaches the memory system.
    pub(crate) asked: Time,
    /// When memory takes the next read.
    taken: Time,
    /// When memory has answered.
    pub(crate) answered: Time,
    /// When the data is back at the root port.
    pub(crate) ready: Time,
}

/// The times of a write in memory with fixed latencies.
pub(crate) struct WriteTurn {
    /// When the write reaches the memory system.
    pub(crate) asked: Time,
    /// Time at which memory has accepted the write, and its room is free.
    pub(super) taken: Time,
    /// Time at which the write is visible.
    pub(crate) visible: Time,
}

impl TimedMemory {
    pub(super) fn new(contents: HostMemory, profile: &HostProfile, ports: usize) -> TimedMemory {
        TimedMemory {
            contents,
            granted: Vec::new(),
            system: MemorySystem::new(profile, ports),
            read_free_at: Time::ZERO,
            write_free_at: Time::ZERO,
            write_visible_at: Time::ZERO,
        }
    }

    /// Returns the memory system if the profile describes one.
    pub(super) fn system(&mut self) -> Option<&mut MemorySystem> {
        self.system.as_deref_mut()
    }

    pub(super) fn counters(&self) -> Option<&MemoryCounters> {
        self.system.as_ref().map(|system| system.counters())
    }

    pub(super) fn contents(&self) -> &HostMemory {
        &self.contents
    }

    /// Directs `requester` to `memory` instead of this host's memory, from now on.
    pub(super) fn grant(&mut self, requester: Bdf, memory: HostMemory) {
        self.revoke(requester);
        self.granted.push((requester, memory));
    }

    /// Directs `requester` to this host's own memory again.
    pub(super) fn revoke(&mut self, requester: Bdf) {
        self.granted.retain(|(other, _)| *other != requester);
    }

    /// Returns whether `requester` has an address space of its own.
    pub(super) fn is_granted(&self, requester: Bdf) -> bool {
        self.granted.iter().any(|(to, _)| *to == requester)
    }

    /// The memory that `requester` reaches.
    fn of(&self, requester: Bdf) -> &HostMemory {
        if self.granted.is_empty() { &self.contents } else { self.granted_to(requester) }
    }

    #[cold]
    fn granted_to(&self, requester: Bdf) -> &HostMemory {
        let granted = self.granted.iter().find(|(to, _)| *to == requester);
        granted.map_or(&self.contents, |(_, memory)| memory)
    }

    /// True if all of these bytes are memory for `requester`.
    pub(super) fn contains(&self, requester: Bdf, address: u64, len: u32) -> bool {
        self.of(requester).contains(address, len as usize)
    }

    /// Returns whether all bytes of `access` are readable memory, or writable memory if it `writes`, and the IOMMU lets
    /// the requester reach them.
    #[inline(always)]
    pub(super) fn lets(&mut self, access: &Access, writes: bool) -> bool {
        let Access { requester, address, len, .. } = *access;
        self.of(requester).lets_dma(&DmaAccess::new(requester, address, len, writes))
            && self.system.as_mut().is_none_or(|system| system.maps(requester, address, len))
    }

    /// Returns true if the IOMMU refused `access`, and false if memory refused it.
    #[cold]
    pub(super) fn is_blocked(&self, access: &Access) -> bool {
        let Access { requester, address, len, .. } = *access;
        self.is_granted(requester) || self.contents.contains(address, len as usize)
    }

    /// Schedules a write that arrives at `now`. Returns the time when its room is free again. The write is visible
    /// later, which delays only reads.
    pub(super) fn take_write(
        &mut self,
        p: &HostProfile,
        access: &Access,
        now: Time,
        account: Account,
        effects: &mut Effects,
    ) -> Time {
        if self.system.is_some() {
            return self.take_write_modelled(p, access, now, account, effects);
        }
        let turn = self.fixed_turn(p, access.address, access.len, now);
        self.take_turn(&turn);
        effects.push(Effect::Written { account, asked: turn.asked, visible: turn.visible });
        turn.taken
    }

    /// Returns the times of the next write; `None` unless it goes to pages of memory with fixed latencies.
    #[inline(always)]
    pub(super) fn write_turn(&self, p: &HostProfile, address: u64, len: u32, now: Time) -> Option<WriteTurn> {
        self.is_fixed(address, len).then(|| self.fixed_turn(p, address, len, now))
    }

    /// Returns the times of the next read; `None` unless it goes to pages of memory with fixed latencies.
    #[inline(always)]
    pub(super) fn read_turn(&self, p: &HostProfile, address: u64, len: u32, now: Time) -> Option<ReadTurn> {
        if !self.is_fixed(address, len) {
            return None;
        }
        Some(self.fixed_read_turn(p, p.read_service(address, len), now))
    }

    /// Returns the times of the next read in memory with fixed latencies, for which memory is busy for `service`.
    #[inline(always)]
    fn fixed_read_turn(&self, p: &HostProfile, service: Duration, now: Time) -> ReadTurn {
        let asked = now + p.root_complex_latency;
        let taken = asked.max(self.write_visible_at).max(self.read_free_at) + service;
        let answered = taken + p.memory_read_latency;
        ReadTurn { asked, taken, answered, ready: answered + p.root_complex_latency }
    }

    /// Notes that memory serves a read at these times.
    #[inline(always)]
    pub(super) fn take_read_turn(&mut self, turn: &ReadTurn) {
        self.read_free_at = turn.taken;
    }

    /// True if these bytes are pages of memory with fixed latencies, the same for all requesters.
    #[inline(always)]
    fn is_fixed(&self, address: u64, len: u32) -> bool {
        self.system.is_none() && self.granted.is_empty() && self.contents.has_page(address, len)
    }

    /// Returns the times of the next write in memory with fixed latencies.
    #[inline(always)]
    fn fixed_turn(&self, p: &HostProfile, address: u64, len: u32, now: Time) -> WriteTurn {
        let asked = now + p.root_complex_latency;
        let taken = asked.max(self.write_free_at) + p.write_service(address, len);
        WriteTurn { asked, taken, visible: self.write_visible_at.max(taken + p.memory_write_latency) }
    }

    /// A write has had its [turn](Self::write_turn).
    #[inline(always)]
    pub(super) fn take_turn(&mut self, turn: &WriteTurn) {
        (self.write_free_at, self.write_visible_at) = (turn.taken, turn.visible);
    }

    #[inline(never)]
    fn take_write_modelled(
        &mut self,
        p: &HostProfile,
        access: &Access,
        now: Time,
        account: Account,
        effects: &mut Effects,
    ) -> Time {
        let asked = now + p.root_complex_latency;
        let service = p.write_service(access.address, access.len);
        let Some(system) = &mut self.system else { return asked };
        let translated = system.translate(access, None, asked);
        self.write_free_at = self.write_free_at.max(asked) + service;
        let taken = system.take_write(access.port, translated, service).max(self.write_free_at);
        let latency = p.memory_write_latency + system.write(access, asked);
        let visible = system.show(access.port, taken + latency);
        system.stay_awake(visible);
        self.write_visible_at = visible;
        effects.push(Effect::Written { account, asked, visible });
        taken
    }

    /// Schedules a request that arrives at `now` in the memory system: as a read, as a write, or as both for an
    /// AtomicOp. A write without a read is a deferrable write: its answer says that it is visible, so later requests
    /// need not wait for it.
    // Inlined into its callers, so that each omits unneeded parts.
    #[inline(always)]
    pub(super) fn serve(
        &mut self,
        p: &HostProfile,
        request: &Request,
        service: Service,
        now: Time,
    ) -> Served {
        if self.system.is_some() {
            return self.serve_modelled(p, request, service, now);
        }
        let asked = now + p.root_complex_latency;
        let mut taken = asked.max(self.write_visible_at);
        let mut answered = taken;
        if let Some(service) = service.read {
            let turn = self.fixed_read_turn(p, service, now);
            self.take_read_turn(&turn);
            (taken, answered) = (turn.taken, turn.answered);
        }
        if let Some(write) = service.write {
            taken = taken.max(self.write_free_at) + write;
            self.write_free_at = taken;
            let visible = taken + p.memory_write_latency;
            if service.read.is_some() {
                self.write_visible_at = self.write_visible_at.max(visible);
                answered = answered.max(taken);
            } else {
                answered = visible;
            }
        }
        Served { asked, answered, ready: answered + p.root_complex_latency, late: Duration::ZERO }
    }

    #[inline(never)]
    fn serve_modelled(&mut self, p: &HostProfile, request: &Request, service: Service, now: Time) -> Served {
        let asked = now + p.root_complex_latency;
        let access = &request.access;
        let Some(system) = &mut self.system else {
            return Served { asked, answered: asked, ready: asked, late: Duration::ZERO };
        };
        let reads = service.read.is_some();
        let read = reads.then_some(ReadTraffic { bytes: access.len, line_time: request.line_time });
        let translated = system.translate(access, read, asked);
        let mut taken = translated.max(system.visible_at(access.port));
        let (mut answered, mut late) = (taken, Duration::ZERO);
        if let Some(service) = service.read {
            self.read_free_at = self.read_free_at.max(asked) + service;
            taken = system.take_read(access.port, taken, service).max(self.read_free_at);
            let extra = system.read(access, asked);
            late = extra + translated.since(asked);
            let hidden = p.hidden_service(access.address, access.len, request.line_time);
            let first_there = Time::from_ps(taken.as_ps() - hidden.as_ps());
            answered = first_there + p.memory_read_latency + extra;
        }
        if let Some(service) = service.write {
            self.write_free_at = self.write_free_at.max(asked) + service;
            taken = system.take_write(access.port, taken, service).max(self.write_free_at);
            let visible = taken + p.memory_write_latency + system.write(access, asked);
            if reads {
                system.show(access.port, visible);
                answered = answered.max(taken);
            } else {
                answered = visible;
            }
        }
        system.stay_awake(answered);
        Served { asked, answered, ready: answered + p.root_complex_latency, late }
    }

    /// Writes the enabled bytes of `span` for `requester`. Programs that poll memory see them when the last scheduled write is
    /// visible. Data that is only counted has no effect.
    #[inline]
    pub(super) fn store(&mut self, requester: Bdf, span: Span, data: &Data) {
        if let Some(bytes) = data.bytes() {
            self.store_bytes(requester, span, bytes);
        }
    }

    fn store_bytes(&mut self, requester: Bdf, span: Span, bytes: &[u8]) {
        let memory = self.of(requester);
        memory.set_visible_at(self.write_visible_at);
        let first = span.first_byte();
        if span.is_contiguous() {
            // The access was checked at this time, so the write cannot miss.
            let _ = memory.write(first, bytes);
            return;
        }
        for (i, byte) in bytes.iter().enumerate().filter(|(i, _)| span.is_enabled(*i as u32)) {
            let _ = memory.write(first + i as u64, &[*byte]);
        }
    }

    /// Returns `len` bytes from `address` on for `requester`; `None` if a part of them is no longer memory.
    pub(super) fn load(&self, requester: Bdf, pool: &PayloadPool, address: u64, len: u32) -> Option<Payload> {
        self.of(requester).payload(pool, address, len as usize).ok()
    }

    /// Returns whether an access that has just failed for `requester` is to be tried again.
    pub(super) fn awaits(&self, requester: Bdf) -> bool {
        self.of(requester).awaits()
    }

    /// Executes an AtomicOp of `requester`. Returns the previous value; `None` if the memory is no longer writable.
    /// Operands that are only counted have no effect.
    pub(super) fn operate(
        &mut self,
        requester: Bdf,
        op: AtomicOp,
        address: u64,
        len: u32,
        operands: &Data,
        pool: &PayloadPool,
    ) -> Option<Payload> {
        match operands.bytes() {
            Some(operands) => self.of(requester).operate(pool, op, address, len as usize, operands).ok(),
            None => self.load(requester, pool, address, len),
        }
    }
}
