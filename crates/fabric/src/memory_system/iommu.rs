// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The IOMMU: when the address of a request is translated, and whether the access is allowed.
//!
//! ```text
//!  root port: requests in order ──▶ [ look up, wait ] ──▶ memory, in order
//!                                      │       ▲
//!                                    IOTLB ── miss ──▶ page walks, overlapping
//! ```
//!
//! A request is looked up after the earlier ones of its root port. Reads occupy the lookup for a while, misses for longer,
//! whatever their walk takes: a walk is a delay, and several run at a time. A request leaves when its translation is there
//! and all earlier requests of its root port have left. A page has its entry from the start of its walk, so that it is
//! walked only once.
//!
//! Some IOMMUs walk the same page table only once at a time ([`SerialWalks`]). One walk may wait for that; a second one
//! stops all lookups until the first has started.
//!
//! All addresses are mapped one to one. A requester may have a window: a request outside the window is a fault.
//! Interrupts are not translated (VT-d excludes 0xfee0_0000 to 0xfeef_ffff).

use super::iotlb::Iotlb;
use super::{Access, MemoryCounters};
use crate::profile::{IommuProfile, PageSize, PageWalkCache, Replacement, SerialWalks, WeightedLatency};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;
use tlp::{Bdf, Duration, Time};

pub(super) struct Iommu {
    page_shift: u32,
    hit_latency: Duration,
    page_walk_latency: Duration,
    read_service: Duration,
    /// Rare stalls of a request before its translation.
    pub(super) stalls: Vec<WeightedLatency>,
    /// One table, or one for each root port.
    tables: Vec<Iotlb>,
    ports: Vec<InOrder>,
    walks: Walks,
    walk_cache: Option<WalkCache>,
    /// First address and bytes, by Requester ID, of requesters that may not reach all of memory.
    windows: BTreeMap<u16, (u64, u64)>,
}

/// Bytes of a read that occupy the lookup together.
const READ_UNIT_BYTES: u32 = 128;

/// The state of a root port, whose requests keep their order.
#[derive(Clone, Copy, Default)]
struct InOrder {
    /// When the next request may be looked up.
    open_at: Time,
    /// When the latest request has left.
    left_at: Time,
}

/// The page walks of all root ports.
struct Walks {
    /// Time that a miss occupies the lookup.
    service: Duration,
    /// When the next miss may begin.
    free_at: Time,
    serial: Option<Serial>,
}

/// Walks of an IOMMU that walks each region only once at a time.
struct Serial {
    region_shift: u32,
    restart: Duration,
    /// Regions that may not be walked yet, with the end of their last walk. Their number is limited, because only one walk
    /// waits.
    busy: Vec<(u64, Time)>,
    /// When the walk that waits for its region starts.
    waits_until: Time,
}

struct WalkCache {
    table: Iotlb,
    shift: u32,
    /// Latency of a walk whose entry is in the page walk cache.
    walk_latency: Duration,
}

impl Iommu {
    pub(super) fn new(profile: &IommuProfile, page_size: PageSize, ports: usize) -> Iommu {
        let page_size = if profile.superpages { page_size } else { PageSize::Kib4 };
        let table = || Iotlb::new(profile.entries, profile.ways, profile.replacement);
        let tables = if profile.shared { 1 } else { ports.max(1) };
        Iommu {
            page_shift: page_size.shift(),
            hit_latency: profile.hit_latency,
            page_walk_latency: profile.page_walk_latency,
            read_service: profile.read_service,
            stalls: profile.stalls.clone(),
            tables: (0..tables).map(|_| table()).collect(),
            ports: vec![InOrder::default(); ports],
            walks: Walks {
                service: profile.miss_service,
                free_at: Time::ZERO,
                serial: profile.serial_walks.as_ref().map(Serial::new),
            },
            walk_cache: profile.page_walk_cache.as_ref().map(|cache| WalkCache::new(cache, profile)),
            windows: BTreeMap::new(),
        }
    }

    /// Restricts `requester` to these addresses from now on.
    pub(super) fn restrict(&mut self, requester: Bdf, first: u64, bytes: u64) {
        self.windows.insert(requester.bits(), (first, bytes));
    }

    /// Returns whether the complete request is mapped.
    pub(super) fn maps(&self, requester: Bdf, address: u64, len: u32) -> bool {
        if self.windows.is_empty() {
            return true;
        }
        let Some(&(first, bytes)) = self.windows.get(&requester.bits()) else { return true };
        let offset = address.wrapping_sub(first);
        offset < bytes && u64::from(len) <= bytes - offset
    }

    /// Returns when a request that arrives at `at` is translated. `reads` is true if it needs data. It must lie within one
    /// page.
    pub(super) fn translate(
        &mut self,
        access: &Access,
        reads: bool,
        at: Time,
        rng: &mut Xoshiro256PlusPlus,
        counters: &mut MemoryCounters,
    ) -> Time {
        let Access { port, requester, address, len } = *access;
        let asked = at.max(self.ports[port].open_at);
        let (page, key) = self.page(requester, address);
        let table = if self.tables.len() == 1 { 0 } else { port };
        let (done, open_at) = match self.tables[table].look(key, page) {
            Some(valid_at) => {
                counters.iotlb_hits += 1;
                (asked.max(valid_at) + self.hit_latency, asked)
            }
            None => {
                counters.iotlb_misses += 1;
                let latency = self.walk(key, page, rng);
                let (begin, open_at) = self.walks.begin(asked, address, latency);
                self.tables[table].insert(key, page, begin + latency, rng);
                (begin + latency, open_at)
            }
        };
        let service =
            if reads { self.read_service * u64::from(len.div_ceil(READ_UNIT_BYTES)) } else { Duration::ZERO };
        let left_at = done.max(self.ports[port].left_at);
        self.ports[port] = InOrder { open_at: open_at + service, left_at };
        left_at
    }

    /// Uses the page of `address`, in no simulated time.
    pub(super) fn touch(&mut self, port: usize, requester: Bdf, address: u64, rng: &mut Xoshiro256PlusPlus) {
        let (page, key) = self.page(requester, address);
        let table = if self.tables.len() == 1 { 0 } else { port };
        if self.tables[table].look(key, page).is_none() {
            self.tables[table].insert(key, page, Time::ZERO, rng);
        }
    }

    /// The page number, and that number with its requester.
    fn page(&self, requester: Bdf, address: u64) -> (u64, u64) {
        let page = address >> self.page_shift;
        (page, u64::from(requester.bits()) << 48 | page & 0xffff_ffff_ffff)
    }

    /// The latency of a walk.
    fn walk(&mut self, key: u64, page: u64, rng: &mut Xoshiro256PlusPlus) -> Duration {
        let shorter = self.walk_cache.as_mut().and_then(|cache| cache.shortens(key, page, rng));
        shorter.unwrap_or(self.page_walk_latency)
    }
}

impl Walks {
    /// Begins a walk of `latency` for a request that was looked up at `asked`. Returns its start, and when the next
    /// request may be looked up.
    fn begin(&mut self, asked: Time, address: u64, latency: Duration) -> (Time, Time) {
        let asked = asked.max(self.free_at);
        let (begin, goes_on_at) = match &mut self.serial {
            None => (asked, asked),
            Some(serial) => serial.begin(asked, address, latency),
        };
        self.free_at = goes_on_at + self.service;
        (begin, self.free_at)
    }
}

impl Serial {
    fn new(walks: &SerialWalks) -> Serial {
        Serial {
            region_shift: walks.region_bytes.max(1).ilog2(),
            restart: walks.restart,
            busy: Vec::new(),
            waits_until: Time::ZERO,
        }
    }

    /// Returns the start of a walk, and when the lookup goes on: at once, unless another walk is waiting already.
    fn begin(&mut self, asked: Time, address: u64, latency: Duration) -> (Time, Time) {
        let region = address >> self.region_shift;
        self.busy.retain(|&(_, ends_at)| ends_at + self.restart > asked);
        let last = self.busy.iter_mut().find(|(busy, _)| *busy == region);
        let begin = last.as_ref().map_or(asked, |(_, ends_at)| *ends_at + self.restart);
        match last {
            Some((_, ends_at)) => *ends_at = begin + latency,
            None => self.busy.push((region, begin + latency)),
        }
        if begin == asked {
            return (begin, asked);
        }
        let goes_on_at = asked.max(self.waits_until);
        self.waits_until = self.waits_until.max(begin);
        (begin, goes_on_at)
    }
}

impl WalkCache {
    fn new(cache: &PageWalkCache, iommu: &IommuProfile) -> WalkCache {
        WalkCache {
            table: Iotlb::new(cache.entries, 0, Replacement::Lru),
            shift: cache.pages_per_entry.max(1).ilog2(),
            walk_latency: Duration::from_ps(
                iommu.page_walk_latency.as_ps().saturating_sub(cache.saves.as_ps()),
            ),
        }
    }

    /// Returns the latency of a walk for `page` if its entry is cached. Otherwise caches the entry for the next
    /// neighbour of the page.
    fn shortens(&mut self, key: u64, page: u64, rng: &mut Xoshiro256PlusPlus) -> Option<Duration> {
        let (key, page) = ((key >> 48) << 48 | page >> self.shift, page >> self.shift);
        if self.table.look(key, page).is_some() {
            return Some(self.walk_latency);
        }
        self.table.insert(key, page, Time::ZERO, rng);
        None
    }
}

#[cfg(test)]
mod tests;
