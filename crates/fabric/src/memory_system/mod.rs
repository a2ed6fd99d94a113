// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory system of a host whose profile goes beyond fixed latencies: caches, memory, the other socket, the IOMMU,
//! noise, power states. Sans-IO: given the time of an access, it returns times; it never holds or reads data. The
//! memory system allocates only on creation.
//!
//! - [`llc`]: the lines of a last-level cache, and their last writers; [`dram`]: banks;
//! - [`iommu`]: the time of a translation; [`iotlb`]: its tables;
//! - [`draw`]: noise and sleep; [`retraining`]: a link that is retrained under load.
//!
//! A read first waits until the host is awake, its address is translated, and the earlier writes of its root port are
//! visible. Its service then takes the time of its slowest line. A write waits for the same conditions. Then memory
//! accepts it, which frees its room, and it is visible when its slowest line is. A request that waits for translation
//! delays no other request: shared parts serve requests in the order of arrival.

mod dram;
mod draw;
mod iommu;
mod iotlb;
mod llc;
mod prepare;
mod retraining;

use crate::profile::{HostProfile, LINE_BYTES, LlcProfile, NumaProfile, WeightedLatency};
use dram::Dram;
use draw::{Drawing, Power};
use iommu::Iommu;
use llc::{Llc, Writer};
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
pub(crate) use retraining::ReadTraffic;
use retraining::Retraining;
use serde::Serialize;
use tlp::{Bdf, Duration, Time};

/// Counters of the caches and the IOMMU of a host, for accesses of its devices. Lines have 64 B.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct MemoryCounters {
    /// Lines read from the cache next to the root ports.
    pub read_lines_hit: u64,
    /// Lines read from the cache of the other socket.
    pub read_lines_remote: u64,
    /// Lines read from memory.
    pub read_lines_missed: u64,
    /// Written lines that were in the cache.
    pub write_lines_hit: u64,
    /// Lines written that the cache did not hold. Each has evicted another line.
    pub write_lines_missed: u64,
    /// Requests whose page was in the IOTLB or being walked.
    pub iotlb_hits: u64,
    /// Page walks begun.
    pub iotlb_misses: u64,
    /// Requests to unmapped addresses, answered with UR.
    pub translation_faults: u64,
    /// Number of wake-ups of the root complex.
    pub wake_ups: u64,
}

/// A memory request of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) port: usize,
    pub(crate) requester: Bdf,
    pub(crate) address: u64,
    /// Length in bytes, 1 to 4096, within 4 KiB.
    pub(crate) len: u32,
}

/// The memory system of a host.
pub(crate) struct MemorySystem {
    caches: Option<Caches>,
    dram: Option<Dram>,
    numa: Option<Numa>,
    iommu: Option<Iommu>,
    noise: Vec<WeightedLatency>,
    drawing: Drawing,
    power: Option<Power>,
    retraining: Option<Retraining>,
    /// Service times of requests, by root port.
    turns: Vec<Turns>,
    rng: Xoshiro256PlusPlus,
    counters: MemoryCounters,
}

/// Time from which the next request through a root port may be served.
#[derive(Clone, Copy, Default)]
struct Turns {
    /// After the reads and writes before it.
    read_free_at: Time,
    write_free_at: Time,
    /// When the writes before it are visible.
    visible_at: Time,
}

struct Caches {
    local: Llc,
    /// The cache of the other socket, if the host program runs there.
    remote: Option<Llc>,
    read_allocate: bool,
    core_snoop_latency: Duration,
    snoop_waits: Vec<WeightedLatency>,
    eviction_latency: Duration,
}

/// Returns the random numbers of a seed, independent of others drawn with the same seed.
fn random(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x6d65_6d6f_7279)
}

/// The other socket: the parts on it, and their costs.
struct Numa {
    figures: NumaProfile,
    memory: bool,
    program: bool,
}

impl MemorySystem {
    /// Returns the memory system of `profile` for this many root ports; `None` if the profile describes none.
    pub(crate) fn new(profile: &HostProfile, ports: usize) -> Option<Box<MemorySystem>> {
        let settings = &profile.settings;
        let iommu = profile.iommu.as_ref().zip(settings.iommu);
        let iommu = iommu.map(|(iommu, page_size)| Iommu::new(iommu, page_size, ports));
        let beside = |socket: u8| socket != settings.device_socket;
        let numa = profile.numa.as_ref().map(|figures| Numa {
            figures: figures.clone(),
            memory: beside(settings.memory_socket),
            program: beside(settings.program_socket),
        });
        let program_is_remote = numa.as_ref().is_some_and(|numa| numa.program);
        let system = MemorySystem {
            caches: profile.llc.as_ref().map(|llc| Caches::new(llc, program_is_remote)),
            dram: profile.dram.as_ref().map(Dram::new),
            numa: numa.filter(|numa| numa.memory || numa.program),
            iommu,
            noise: profile.noise.clone(),
            power: (!profile.power.is_empty()).then(|| Power::new(&profile.power)),
            retraining: profile.retraining.as_ref().map(Retraining::new),
            drawing: Drawing::ByChance,
            turns: vec![Turns::default(); ports],
            rng: random(0),
            counters: MemoryCounters::default(),
        };
        system.does_anything().then(|| Box::new(system))
    }

    /// Draws with `seed` from now on.
    pub(crate) fn seed(&mut self, seed: u64) {
        self.rng = random(seed);
    }

    fn does_anything(&self) -> bool {
        let parts = [self.caches.is_some(), self.dram.is_some(), self.numa.is_some(), self.iommu.is_some()];
        parts.contains(&true) || !self.noise.is_empty() || self.power.is_some() || self.retraining.is_some()
    }

    /// From now on, draws the longest latencies that are expected once among `samples`, instead of latencies by chance.
    pub(crate) fn draw_rarest_of(&mut self, samples: u64) {
        self.drawing = Drawing::rarest_of(samples);
    }

    pub(crate) fn counters(&self) -> &MemoryCounters {
        &self.counters
    }

    /// Restricts `requester` to these addresses from now on, if an IOMMU is in use.
    pub(crate) fn restrict(&mut self, requester: Bdf, first: u64, bytes: u64) {
        if let Some(iommu) = &mut self.iommu {
            iommu.restrict(requester, first, bytes);
        }
    }

    /// Returns whether the complete request is mapped. Counts a fault if not.
    pub(crate) fn maps(&mut self, requester: Bdf, address: u64, len: u32) -> bool {
        let mapped = self.iommu.as_ref().is_none_or(|iommu| iommu.maps(requester, address, len));
        self.counters.translation_faults += u64::from(!mapped);
        mapped
    }

    /// When a request that reaches the memory system at `at` is translated; the link is ready, and the root complex is awake.
    /// `read` is set if it needs data.
    pub(crate) fn translate(&mut self, access: &Access, read: Option<ReadTraffic>, at: Time) -> Time {
        let mut at = at;
        if let Some(retraining) = &mut self.retraining {
            let ready = retraining.ready(read, at);
            if ready > at {
                self.stay_awake(ready);
            }
            at = ready;
        }
        if let Some(power) = &mut self.power {
            let (awake, slept) = power.wake(at, self.drawing, &mut self.rng);
            self.counters.wake_ups += u64::from(slept);
            at = awake;
        }
        let Some(iommu) = &mut self.iommu else { return at };
        let stall = self.drawing.draw(&iommu.stalls, &mut self.rng);
        iommu.translate(access, read.is_some(), at + stall, &mut self.rng, &mut self.counters)
    }

    /// Stays awake until `until`, since there is work.
    pub(crate) fn stay_awake(&mut self, until: Time) {
        if let Some(power) = &mut self.power {
            power.stay_awake(until);
        }
    }

    /// When the writes that came through `port` are visible.
    pub(crate) fn visible_at(&self, port: usize) -> Time {
        self.turns[port].visible_at
    }

    /// Serves a read through `port` from `at` on, after the earlier ones; returns when it has been served.
    pub(crate) fn take_read(&mut self, port: usize, at: Time, service: Duration) -> Time {
        let free_at = &mut self.turns[port].read_free_at;
        *free_at = at.max(*free_at) + service;
        *free_at
    }

    /// Serves a write through `port` from `at` on, after the earlier ones; returns when it has been served.
    pub(crate) fn take_write(&mut self, port: usize, at: Time, service: Duration) -> Time {
        let free_at = &mut self.turns[port].write_free_at;
        *free_at = at.max(*free_at) + service;
        *free_at
    }

    /// Returns the time when a write through `port` becomes visible: `at`, or later if an earlier write of the port becomes visible later.
    pub(crate) fn show(&mut self, port: usize, at: Time) -> Time {
        let visible_at = &mut self.turns[port].visible_at;
        *visible_at = (*visible_at).max(at);
        *visible_at
    }

    /// Returns the extra time of a read that came at `asked`, compared with a read of lines that a device has written.
    pub(crate) fn read(&mut self, access: &Access, asked: Time) -> Duration {
        let mut latency = Duration::ZERO;
        let missed = self.counters.read_lines_missed;
        for line in lines(access) {
            latency = latency.max(self.read_line(line, asked));
        }
        let missed = self.counters.read_lines_missed > missed;
        latency + self.unlikely(missed)
    }

    /// Returns the extra time of a read by rare events: refresh and noise.
    fn unlikely(&mut self, missed: bool) -> Duration {
        let refresh = match &self.dram {
            Some(dram) if missed => dram.refresh(self.drawing, &mut self.rng),
            Some(dram) => dram.refresh_of_hit(self.drawing, &mut self.rng),
            None => Duration::ZERO,
        };
        let noise = self.drawing.draw(&self.noise, &mut self.rng);
        match self.drawing {
            Drawing::ByChance => refresh + noise,
            Drawing::Longest(_) => self.beyond_stall(refresh.max(noise)),
        }
    }

    /// Returns what a rare `wait` adds to a stall of the IOMMU: of the rarest events, only the longest counts.
    fn beyond_stall(&mut self, wait: Duration) -> Duration {
        let Some(iommu) = self.iommu.as_ref().filter(|_| self.drawing.is_rarest()) else { return wait };
        let stall = self.drawing.draw(&iommu.stalls, &mut self.rng);
        Duration::from_ps(wait.as_ps().saturating_sub(stall.as_ps()))
    }

    /// Returns the extra time until a write that came at `asked` is visible, compared with a write to lines in the
    /// cache.
    pub(crate) fn write(&mut self, access: &Access, asked: Time) -> Duration {
        let end = access.address + u64::from(access.len);
        let mut latency = Duration::ZERO;
        for line in lines(access) {
            let whole = access.address <= line && line + LINE_BYTES <= end;
            latency = latency.max(self.write_line(line, whole, asked));
        }
        latency
    }

    fn read_line(&mut self, line: u64, asked: Time) -> Duration {
        let Some(caches) = &mut self.caches else {
            self.counters.read_lines_missed += 1;
            return self.fetch(line, asked);
        };
        match caches.local.look(line) {
            Some(Writer::Device) => {
                self.counters.read_lines_hit += 1;
                Duration::ZERO
            }
            Some(Writer::Core) => {
                self.counters.read_lines_hit += 1;
                let memory = self.dram.as_mut().map(|dram| dram.snooped_line(line, asked));
                let wait = self.drawing.draw(&caches.snoop_waits, &mut self.rng);
                let snoop = caches.core_snoop_latency + memory.unwrap_or(Duration::ZERO);
                snoop + self.beyond_stall(wait)
            }
            None => self.read_elsewhere(line, asked),
        }
    }

    /// Returns the time of a line outside the local cache. Remote memory costs the same whether or not the remote cache holds the
    /// line.
    fn read_elsewhere(&mut self, line: u64, asked: Time) -> Duration {
        if self.is_remote(line) {
            self.counters.read_lines_remote += 1;
            return self.numa.as_ref().map_or(Duration::ZERO, |numa| numa.figures.remote_snoop_latency);
        }
        self.counters.read_lines_missed += 1;
        self.allocate_read(line);
        self.fetch(line, asked)
    }

    /// Whether the remote cache holds a line of local memory.
    fn is_remote(&mut self, line: u64) -> bool {
        let here = self.numa.as_ref().is_some_and(|numa| !numa.memory);
        let remote = self.caches.as_mut().and_then(|caches| caches.remote.as_mut());
        here && remote.is_some_and(|remote| remote.look(line).is_some())
    }

    /// Handles a read of a line that no cache held. Some caches then store it.
    fn allocate_read(&mut self, line: u64) {
        if let Some(caches) = &mut self.caches
            && caches.read_allocate
        {
            caches.local.write(line, Writer::Device);
        }
    }

    /// Fetches a line from memory.
    fn fetch(&mut self, line: u64, asked: Time) -> Duration {
        match (&self.numa, &mut self.dram) {
            (Some(Numa { figures, memory: true, .. }), _) => figures.remote_memory_latency,
            (_, Some(dram)) => dram.read_line(line, asked),
            (_, None) => Duration::ZERO,
        }
    }

    /// Returns the time of a write of one line. A missing line is allocated in this cache, even if its memory is at the
    /// other socket. A write of the full line waits for the eviction of another line. A partial write must fetch the
    /// line, which takes longer than the eviction.
    fn write_line(&mut self, line: u64, whole: bool, asked: Time) -> Duration {
        let Some(caches) = &mut self.caches else { return Duration::ZERO };
        let from_remote = caches.remote.as_mut().is_some_and(|remote| remote.forget(line));
        if caches.local.write(line, Writer::Device) {
            self.counters.write_lines_hit += 1;
            return Duration::ZERO;
        }
        self.counters.write_lines_missed += 1;
        match &self.numa {
            Some(numa) if !whole && !numa.memory && from_remote => numa.figures.remote_snoop_latency,
            _ if !whole => self.fetch(line, asked),
            Some(numa) if numa.memory => numa.figures.remote_eviction_latency,
            _ => caches.eviction_latency,
        }
    }
}

impl Caches {
    fn new(profile: &LlcProfile, program_is_remote: bool) -> Caches {
        Caches {
            local: Llc::new(profile),
            remote: program_is_remote.then(|| Llc::new(profile)),
            core_snoop_latency: profile.core_snoop_latency,
            snoop_waits: profile.snoop_waits.clone(),
            read_allocate: profile.read_allocate,
            eviction_latency: profile.eviction_latency,
        }
    }
}

/// Addresses of the lines that a request touches.
fn lines(access: &Access) -> impl Iterator<Item = u64> + use<> {
    let first = access.address / LINE_BYTES;
    let last = (access.address + u64::from(access.len.max(1)) - 1) / LINE_BYTES;
    (first..=last).map(|line| line * LINE_BYTES)
}

#[cfg(test)]
mod tests;
