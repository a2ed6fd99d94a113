// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The IOMMU: when the address of a request is translated, and whether the access is allowed.
//!
//! ```text
//!  root port: requests in order ──▶ [ look up, wait ] ──▶ memory, in order
//!                                      │       ▲
//!                                    IOTLB ── miss ──▶ walkers, a batch at a time
//! ```
//!
//! The IOMMU looks up a request after the earlier requests of its root port. On a miss, the request waits for a running
//! walk of its page, or occupies a walker. If all walkers are busy, the request and all later ones wait until every
//! running walk has ended, and every request looked up by then has been served. So walks run in batches. A request
//! leaves when its translation is available and all earlier requests have left. A page has its entry from the start of
//! its walk, so that it is walked only once.
//!
//! Batches follow the measured IOMMUs (pcie-bench data, `bw_dma_win_sweep_*` with 4 KiB pages): if every request
//! misses, six writes of any size take one walk; six reads take one walk and the time of their lines, one after
//! another. So reads of 256 B cost 9 ns more than reads of 64 B, although the wire limits neither.
//!
//! All addresses are mapped one to one. A requester may have a window: a request outside the window is a fault.
//! Interrupts are not translated (VT-d excludes 0xfee0_0000 to 0xfeef_ffff).

use super::iotlb::Iotlb;
use super::{Access, MemoryCounters};
use crate::profile::{IommuProfile, PageSize, PageWalkCache, Replacement};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;
use tlp::{Bdf, Duration, Time};

pub(super) struct Iommu {
    page_shift: u32,
    hit_latency: Duration,
    page_walk_latency: Duration,
    /// One table, or one for each root port.
    tables: Vec<Iotlb>,
    ports: Vec<InOrder>,
    walks: Batch,
    walk_cache: Option<WalkCache>,
    /// First address and bytes, by Requester ID, of requesters that may not reach all of memory.
    windows: BTreeMap<u16, (u64, u64)>,
}

/// The state of a root port, whose requests keep their order.
#[derive(Clone, Copy, Default)]
struct InOrder {
    /// When the next request may be looked up.
    open_at: Time,
    /// When the latest request has left.
    left_at: Time,
}

/// Walks that run as one batch.
struct Batch {
    /// Number of walkers.
    most: u32,
    begun: u32,
    begins_at: Time,
    /// When all requests looked up since the batch began have been served.
    ends_at: Time,
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
            tables: (0..tables).map(|_| table()).collect(),
            ports: vec![InOrder::default(); ports],
            walks: Batch {
                most: profile.walkers.max(1),
                begun: 0,
                begins_at: Time::ZERO,
                ends_at: Time::ZERO,
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

    /// Returns when a request that arrives through root port `port` at `at` is translated. The request must lie within
    /// one page.
    pub(super) fn translate(
        &mut self,
        access: &Access,
        at: Time,
        rng: &mut Xoshiro256PlusPlus,
        counters: &mut MemoryCounters,
    ) -> Time {
        let Access { port, requester, address, .. } = *access;
        let asked = at.max(self.ports[port].open_at);
        let (page, key) = self.page(requester, address);
        let table = if self.tables.len() == 1 { 0 } else { port };
        let done = match self.tables[table].look(key, page) {
            Some(valid_at) => {
                counters.iotlb_hits += 1;
                asked.max(valid_at) + self.hit_latency
            }
            None => {
                counters.iotlb_misses += 1;
                let begin = self.walks.begin(asked);
                self.ports[port].open_at = begin;
                let done = begin + self.walk(key, page, rng);
                self.tables[table].insert(key, page, done, rng);
                done
            }
        };
        let left_at = done.max(self.ports[port].left_at);
        self.ports[port].left_at = left_at;
        self.served(left_at);
        left_at
    }

    /// Notes that memory serves the latest translated request until `at`. The batch of walks ends no earlier.
    pub(super) fn served(&mut self, at: Time) {
        self.walks.ends_at = self.walks.ends_at.max(at);
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

impl Batch {
    /// Returns when a walk requested at `asked` begins: immediately if the batch has a free walker or is over,
    /// otherwise with the next batch.
    fn begin(&mut self, asked: Time) -> Time {
        let earliest = if self.begun < self.most { self.begins_at } else { self.ends_at };
        let begin = asked.max(earliest);
        if begin >= self.ends_at {
            (self.begun, self.begins_at) = (0, begin);
        }
        self.begun += 1;
        begin
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
