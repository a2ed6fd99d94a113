// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Host memory as the root complex reaches it: what is there, and when each access has its turn. With fixed latencies, or by a
//! [memory system](crate::memory_system) where the profile describes one.
//!
//! With a memory system, requests of one root port take their turns in order, and reads wait for the writes before them there, not
//! for those of others. Service times that root ports share are taken in the order of arrival, so that who waits for a page walk
//! at one does not hold up who need not at another.

use super::effects::{Effect, Effects};
use crate::memory_system::{Access, MemoryCounters, MemorySystem};
use crate::profile::HostProfile;
use host::memory::{DmaAccess, HostMemory};
use tlp::{Account, AtomicOp, Bdf, Data, Duration, Payload, PayloadPool, Span, Time};

/// Host memory behind its timing.
pub(super) struct Memory {
    contents: HostMemory,
    /// Functions that reach other memory in place of it.
    granted: Vec<(Bdf, HostMemory)>,
    /// What an access costs beyond fixed latencies, where the profile says.
    system: Option<Box<MemorySystem>>,
    /// When it takes the next read, the next write, and when the last write is visible.
    read_free_at: Time,
    write_free_at: Time,
    write_visible_at: Time,
}

/// Service times of a request that is to be answered: AtomicOps read and write.
#[derive(Clone, Copy)]
pub(super) struct Service {
    pub(super) read: Option<Duration>,
    pub(super) write: Option<Duration>,
}

/// A request that is to be answered.
pub(super) struct Request {
    pub(super) access: Access,
    /// How long its link takes for a cache line of data.
    pub(super) line_time: Duration,
}

/// When a request has been served.
pub(super) struct Served {
    /// It gets to the memory system.
    pub(super) asked: Time,
    /// That has answered.
    pub(super) answered: Time,
    /// The answer is back at the root port.
    pub(super) ready: Time,
    /// How long its lines took beyond a hit in the cache.
    pub(super) late: Duration,
}

impl Memory {
    pub(super) fn new(contents: HostMemory, profile: &HostProfile, ports: usize) -> Memory {
        Memory {
            contents,
            granted: Vec::new(),
            system: MemorySystem::new(profile, ports, 0),
            read_free_at: Time::ZERO,
            write_free_at: Time::ZERO,
            write_visible_at: Time::ZERO,
        }
    }

    /// The memory system is that of `seed` from now on.
    pub(super) fn seed(&mut self, profile: &HostProfile, ports: usize, seed: u64) {
        self.system = MemorySystem::new(profile, ports, seed);
    }

    /// The memory system, where the profile describes one.
    pub(super) fn system(&mut self) -> Option<&mut MemorySystem> {
        self.system.as_deref_mut()
    }

    pub(super) fn counters(&self) -> Option<&MemoryCounters> {
        self.system.as_ref().map(|system| system.counters())
    }

    pub(super) fn contents(&self) -> &HostMemory {
        &self.contents
    }

    /// `requester` reaches `memory` from now on, in place of that of this host.
    pub(super) fn grant(&mut self, requester: Bdf, memory: HostMemory) {
        self.granted.retain(|(other, _)| *other != requester);
        self.granted.push((requester, memory));
    }

    /// What `requester` reaches.
    #[inline]
    fn of(&self, requester: Bdf) -> &HostMemory {
        if self.granted.is_empty() { &self.contents } else { self.granted_to(requester) }
    }

    #[cold]
    fn granted_to(&self, requester: Bdf) -> &HostMemory {
        let granted = self.granted.iter().find(|(to, _)| *to == requester);
        granted.map_or(&self.contents, |(_, memory)| memory)
    }

    /// True where all of these bytes are memory to `requester`.
    pub(super) fn contains(&self, requester: Bdf, address: u64, len: u32) -> bool {
        self.of(requester).contains(address, len as usize)
    }

    /// Whether all that `access` is for is memory that lets it be read, or changed where it `writes`, and the IOMMU lets the
    /// requester there.
    #[inline(always)]
    pub(super) fn lets(&mut self, access: &Access, writes: bool) -> bool {
        let Access { requester, address, len, .. } = *access;
        self.of(requester).lets_dma(&DmaAccess::new(requester, address, len, writes))
            && self.system.as_mut().is_none_or(|system| system.maps(requester, address, len))
    }

    /// Takes the next turn for a write that comes at `now`. Returns when there is room again; being seen takes longer, which
    /// holds up reads alone.
    #[inline]
    pub(super) fn take_write(
        &mut self,
        p: &HostProfile,
        access: &Access,
        now: Time,
        account: Account,
        effects: &mut Effects,
    ) -> Time {
        let asked = now + p.root_complex_latency;
        let service = p.write_service(access.address, access.len);
        if self.system.is_some() {
            return self.take_write_modelled(p, access, asked, service, account, effects);
        }
        let taken = asked.max(self.write_free_at) + service;
        self.write_free_at = taken;
        self.write_visible_at = self.write_visible_at.max(taken + p.memory_write_latency);
        effects.push(Effect::Written { account, asked, visible: self.write_visible_at });
        taken
    }

    #[inline(never)]
    fn take_write_modelled(
        &mut self,
        p: &HostProfile,
        access: &Access,
        asked: Time,
        service: Duration,
        account: Account,
        effects: &mut Effects,
    ) -> Time {
        let Some(system) = &mut self.system else { return asked };
        let translated = system.translate(access, asked);
        self.write_free_at = self.write_free_at.max(asked) + service;
        let taken = system.take_write(access.port, translated, service).max(self.write_free_at);
        let latency = p.memory_write_latency + system.write(access, asked);
        let visible = system.show(access.port, taken + latency);
        system.stay_awake(visible);
        effects.push(Effect::Written { account, asked, visible });
        taken
    }

    /// Takes the next turn of the memory system for a request that comes at `now`: one of its reads, one of its writes, or one of
    /// each where an AtomicOp needs both.
    // In its callers, each of which knows what it does not do.
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
            taken = taken.max(self.read_free_at) + service;
            self.read_free_at = taken;
            answered = taken + p.memory_read_latency;
        }
        if let Some(service) = service.write {
            taken = taken.max(self.write_free_at) + service;
            self.write_free_at = taken;
            self.write_visible_at = self.write_visible_at.max(taken + p.memory_write_latency);
            answered = answered.max(taken);
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
        let translated = system.translate(access, asked);
        let mut taken = translated.max(system.visible_at(access.port));
        let (mut answered, mut late) = (taken, Duration::ZERO);
        if let Some(service) = service.read {
            self.read_free_at = self.read_free_at.max(asked) + service;
            taken = system.take_read(access.port, taken, service).max(self.read_free_at);
            late = system.read(access, asked);
            let hidden = p.hidden_service(access.address, access.len, request.line_time);
            let first_there = Time::from_ps(taken.as_ps() - hidden.as_ps());
            answered = first_there + p.memory_read_latency + late;
        }
        if let Some(service) = service.write {
            self.write_free_at = self.write_free_at.max(asked) + service;
            taken = system.take_write(access.port, taken, service).max(self.write_free_at);
            let latency = p.memory_write_latency + system.write(access, asked);
            system.show(access.port, taken + latency);
            answered = answered.max(taken);
        }
        system.stay_awake(answered);
        Served { asked, answered, ready: answered + p.root_complex_latency, late }
    }

    /// Writes the enabled bytes of `span` for `requester`; data that is only counted changes nothing.
    #[inline]
    pub(super) fn store(&mut self, requester: Bdf, span: Span, data: &Data) {
        if let Some(bytes) = data.bytes() {
            self.store_bytes(requester, span, bytes);
        }
    }

    fn store_bytes(&mut self, requester: Bdf, span: Span, bytes: &[u8]) {
        let memory = self.of(requester);
        let first = span.first_byte();
        if span.is_contiguous() {
            // It was let before, at this time: the write cannot miss.
            let _ = memory.write(first, bytes);
            return;
        }
        for (i, byte) in bytes.iter().enumerate().filter(|(i, _)| span.is_enabled(*i as u32)) {
            let _ = memory.write(first + i as u64, &[*byte]);
        }
    }

    /// `len` bytes from `address` on for `requester`; `None` where not all of it is memory any more.
    pub(super) fn load(&self, requester: Bdf, pool: &PayloadPool, address: u64, len: u32) -> Option<Payload> {
        self.of(requester).payload(pool, address, len as usize).ok()
    }

    /// Carries an AtomicOp of `requester` out. The value before, `None` where it may not be changed any more; operands that are only counted change nothing.
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
