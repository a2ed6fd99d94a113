// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests of devices before a memory system that the profile describes: what [`inbound`](super::inbound) does with fixed
//! latencies, done with caches, translation and the rest of [`crate::memory_system`]. Nothing here is reached on a host
//! without one.
//!
//! Requests of one root port take their turns in order, and reads wait for the writes before them there, not for those of
//! others. Service times that root ports share are taken in the order of arrival, so that who waits for a page walk at one
//! does not hold up who need not at another.

use super::RootComplex;
use super::reads::Job;
use crate::memory_system::Access;
use crate::profile::{LONG_READ_LINES, lines};
use device::host::CachePreparation;
use tlp::{Bdf, Duration, Mps, Time, Tlp};

impl RootComplex {
    /// From now on `requester` reaches by DMA the `bytes` from `first` on, and no other memory: a request beside them is
    /// answered with UR and counted as a translation fault, as an IOMMU of Intel's does. Without effect where there is no
    /// IOMMU in use.
    pub fn restrict_dma(&mut self, requester: Bdf, first: u64, bytes: u64) {
        if let Some(system) = &mut self.memory_system {
            system.restrict(requester, first, bytes);
        }
    }

    /// Puts the caches into a known state.
    pub(super) fn prepare_cache(&mut self, preparation: CachePreparation) {
        let port = match preparation {
            CachePreparation::WriteByDevice { requester, .. }
            | CachePreparation::ThrashByDevice { requester, .. } => self.port_of_bus(requester.bus()),
            CachePreparation::ThrashByHost | CachePreparation::WriteByHost { .. } => None,
        };
        if let Some(system) = &mut self.memory_system {
            system.prepare(preparation, port.unwrap_or(0));
        }
    }

    /// Whether the IOMMU lets `requester` there.
    #[inline]
    pub(super) fn is_mapped(&mut self, requester: Bdf, address: u64, len: u32) -> bool {
        self.memory_system.as_mut().is_none_or(|system| system.maps(requester, address, len))
    }

    /// [`book`](RootComplex::book), modelled. Returns when the answer is back at the root port.
    #[inline(never)]
    pub(super) fn book_modelled(
        &mut self,
        tlp: &Tlp,
        job: &mut Job,
        now: Time,
        read: Option<Duration>,
        write: Option<Duration>,
    ) -> Time {
        let p = &self.profile;
        let asked = now + p.root_complex_latency;
        let Some(system) = &mut self.memory_system else { return asked };
        let requester = tlp.repr.transaction().0;
        let access = Access { port: job.port, requester, address: job.address, len: job.byte_count };
        let translated = system.translate(&access, asked);
        let mut taken = translated.max(system.visible_at(access.port));
        let mut answered = taken;
        if let Some(service) = read {
            self.read_free_at = self.read_free_at.max(asked) + service;
            taken = system.take_read(access.port, taken, service).max(self.read_free_at);
            job.late = system.read(&access, asked);
            let hidden = p.hidden_service(job.address, job.byte_count, self.ports[job.port].line_time);
            let first_there = Time::from_ps(taken.as_ps() - hidden.as_ps());
            answered = first_there + p.memory_read_latency + job.late;
        }
        if let Some(service) = write {
            self.write_free_at = self.write_free_at.max(asked) + service;
            taken = system.take_write(access.port, taken, service).max(self.write_free_at);
            let latency = p.memory_write_latency + system.write(&access, asked);
            system.show(access.port, taken + latency);
            answered = answered.max(taken);
        }
        system.stay_awake(answered);
        let ready = answered + p.root_complex_latency;
        self.effects.served(tlp.account, now, asked, answered, ready);
        ready
    }

    /// [`drain`](RootComplex::drain), modelled: when there is room for the next write. Being seen takes longer, which holds
    /// up reads alone.
    #[inline(never)]
    pub(super) fn drain_modelled(
        &mut self,
        port: usize,
        now: Time,
        address: u64,
        len: u32,
        tlp: &Tlp,
    ) -> Time {
        let p = &self.profile;
        let asked = now + p.root_complex_latency;
        let Some(system) = &mut self.memory_system else { return asked };
        let service = p.write_service(address, len);
        let requester = tlp.repr.transaction().0;
        let access = Access { port, requester, address, len };
        let translated = system.translate(&access, asked);
        self.write_free_at = self.write_free_at.max(asked) + service;
        let taken = system.take_write(port, translated, service).max(self.write_free_at);
        let latency = p.memory_write_latency + system.write(&access, asked);
        let visible = system.show(port, taken + latency);
        system.stay_awake(visible);
        self.effects.written(tlp.account, asked, visible);
        taken
    }

    /// How long completions of the next read at `port` are at most, where they are shorter than Max_Payload_Size.
    pub(super) fn completion_unit(&mut self, port: usize, address: u64, len: u32) -> Option<Mps> {
        let completions = &self.profile.completions;
        let unit = completions.unit_bytes?;
        if completions.whole_from_bytes.is_some_and(|least| len >= least) {
            return None;
        }
        let long = lines(address, len) >= LONG_READ_LINES;
        let streams = std::mem::replace(&mut self.ports[port].streams, long) && long;
        (!(streams && completions.streaming)).then_some(unit)
    }
}
