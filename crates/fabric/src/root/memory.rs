// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Host memory as the root complex reaches it: what is there, and when each access has its turn. With fixed latencies, or by a
//! [memory system](crate::memory_system) where the profile describes one.
//!
//! With a memory system, requests of one root port take their turns in order, and reads wait for the writes before them there, not
//! for those of others. Service times that root ports share are taken in the order of arrival, so that who waits for a page walk
//! at one does not hold up who need not at another.

use super::effects::Effects;
use crate::memory_system::{Access, MemoryCounters, MemorySystem};
use crate::profile::HostProfile;
use device::memory::{DmaAccess, HostMemory};
use tlp::{Account, AtomicOp, Data, Duration, Payload, PayloadPool, Span, Time};

/// Host memory behind its timing.
pub(super) struct Memory {
    contents: HostMemory,
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
    pub(super) account: Account,
    /// How long its link takes for a cache line of data.
    pub(super) line_time: Duration,
}

/// When a request has been served.
pub(super) struct Served {
    /// The answer is back at the root port.
    pub(super) ready: Time,
    /// How long its lines took beyond a hit in the cache.
    pub(super) late: Duration,
}

impl Memory {
    pub(super) fn new(contents: HostMemory, profile: &HostProfile, ports: usize) -> Memory {
        Memory {
            contents,
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

    /// True where all of these bytes are memory, whoever asks.
    pub(super) fn contains(&self, address: u64, len: u32) -> bool {
        self.contents.contains(address, len as usize)
    }

    /// Whether all that `access` is for is memory that lets it be read, or changed where it `writes`, and the IOMMU lets the
    /// requester there.
    #[inline]
    pub(super) fn lets(&mut self, access: &Access, writes: bool) -> bool {
        let Access { requester, address, len, .. } = *access;
        self.contents.lets_dma(&DmaAccess::new(requester, address, len, writes))
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
        effects.written(account, asked, self.write_visible_at);
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
        effects.written(account, asked, visible);
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
        effects: &mut Effects,
    ) -> Served {
        if self.system.is_some() {
            return self.serve_modelled(p, request, service, now, effects);
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
        let ready = answered + p.root_complex_latency;
        effects.served(request.account, now, asked, answered, ready);
        Served { ready, late: Duration::ZERO }
    }

    #[inline(never)]
    fn serve_modelled(
        &mut self,
        p: &HostProfile,
        request: &Request,
        service: Service,
        now: Time,
        effects: &mut Effects,
    ) -> Served {
        let asked = now + p.root_complex_latency;
        let access = &request.access;
        let Some(system) = &mut self.system else { return Served { ready: asked, late: Duration::ZERO } };
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
        let ready = answered + p.root_complex_latency;
        effects.served(request.account, now, asked, answered, ready);
        Served { ready, late }
    }

    /// Writes the enabled bytes of `span`; data that is only counted changes nothing.
    #[inline]
    pub(super) fn store(&mut self, span: Span, data: &Data) {
        if let Some(bytes) = data.bytes() {
            self.store_bytes(span, bytes);
        }
    }

    fn store_bytes(&mut self, span: Span, bytes: &[u8]) {
        let first = span.first_byte();
        if span.is_contiguous() {
            // It was let before, at this time: the write cannot miss.
            let _ = self.contents.write(first, bytes);
            return;
        }
        for (i, byte) in bytes.iter().enumerate().filter(|(i, _)| span.is_enabled(*i as u32)) {
            let _ = self.contents.write(first + i as u64, &[*byte]);
        }
    }

    /// `len` bytes from `address` on; `None` where not all of it is memory any more.
    pub(super) fn load(&self, pool: &PayloadPool, address: u64, len: u32) -> Option<Payload> {
        self.contents.payload(pool, address, len as usize).ok()
    }

    /// Carries an AtomicOp out. The value before, `None` where it may not be changed any more; operands that are only counted change nothing.
    pub(super) fn operate(
        &mut self,
        op: AtomicOp,
        address: u64,
        len: u32,
        operands: &Data,
        pool: &PayloadPool,
    ) -> Option<Payload> {
        let old = self.load(pool, address, len)?;
        if let Some(operands) = operands.bytes() {
            let mut new = [0; 16];
            let new = &mut new[..old.len().min(16)];
            op.apply(&old, operands, new);
            self.contents.write(address, new).ok()?;
        }
        Some(old)
    }
}
