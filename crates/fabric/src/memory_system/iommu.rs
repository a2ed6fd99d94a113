// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The IOMMU: when the address of a request is translated, and whether it may be at all.
//!
//! ```text
//!  root port: requests in order ──▶ [ look up, wait ] ──▶ memory, in order
//!                                      │       ▲
//!                                    IOTLB ── miss ──▶ walkers, a batch at a time
//! ```
//!
//! A request is looked up behind those before it at its root port. It waits for a walk of its page that is under way, or
//! takes a walker; where all are taken it waits, and with it all behind it, until every walk under way has ended and every
//! request that was looked up by then has been served: walks go in batches. It leaves when its translation is there and
//! all before it have left. A page has its entry from the beginning of its walk on, so that nobody walks for it twice.
//!
//! Batches are what the measured IOMMUs show (pcie-bench data, `bw_dma_win_sweep_*` with 4 KiB pages): where every request
//! misses, six writes take one walk, whatever their size; six reads take one walk and the time that their lines take one
//! after the other: so reads of 256 B cost 9 ns more than those of 64 B though neither is bound by the wire.
//!
//! Everything is mapped one to one, but for requesters that were given a window: what they ask for beside it is a fault.
//! Interrupts are not translated (VT-d leaves 0xfee0_0000 to 0xfeef_ffff out).

use super::MemoryCounters;
use super::iotlb::Iotlb;
use crate::profile::{IommuProfile, PageSize, PageWalkCache, Replacement};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;
use tlp::{Bdf, Duration, Time};

pub(super) struct Iommu {
    page_shift: u32,
    hit_latency: Duration,
    page_walk_latency: Duration,
    /// One, or one for each root port.
    tables: Vec<Iotlb>,
    ports: Vec<InOrder>,
    walks: Batch,
    walk_cache: Option<WalkCache>,
    /// First address and bytes, of requesters that may not reach all of memory.
    windows: BTreeMap<u16, (u64, u64)>,
}

/// The requests of a root port, one behind the other.
#[derive(Clone, Copy, Default)]
struct InOrder {
    /// When the next may be looked up.
    open_at: Time,
    /// When the latest has left.
    left_at: Time,
}

/// The walks that go together.
struct Batch {
    /// Walkers.
    most: u32,
    begun: u32,
    begins_at: Time,
    /// When all that was looked up since it began has been served.
    ends_at: Time,
}

struct WalkCache {
    table: Iotlb,
    shift: u32,
    /// Of a walk whose entry is there.
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

    /// `requester` reaches these addresses and no others from now on.
    pub(super) fn restrict(&mut self, requester: Bdf, first: u64, bytes: u64) {
        self.windows.insert(requester.bits(), (first, bytes));
    }

    /// Whether all of a request is mapped.
    #[inline]
    pub(super) fn maps(&self, requester: Bdf, address: u64, len: u32) -> bool {
        if self.windows.is_empty() {
            return true;
        }
        let Some(&(first, bytes)) = self.windows.get(&requester.bits()) else { return true };
        let offset = address.wrapping_sub(first);
        offset < bytes && u64::from(len) <= bytes - offset
    }

    /// When a request that comes through root port `port` at `at` is translated. It lies within one page.
    #[inline]
    pub(super) fn translate(
        &mut self,
        (port, requester): (usize, Bdf),
        address: u64,
        at: Time,
        rng: &mut Xoshiro256PlusPlus,
        counters: &mut MemoryCounters,
    ) -> Time {
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

    /// The request that was translated last has its turn at memory until `at`: the batch of walks ends no earlier.
    #[inline]
    pub(super) fn served(&mut self, at: Time) {
        self.walks.ends_at = self.walks.ends_at.max(at);
    }

    /// The page of `address` is used, in no time.
    pub(super) fn touch(
        &mut self,
        (port, requester): (usize, Bdf),
        address: u64,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let (page, key) = self.page(requester, address);
        let table = if self.tables.len() == 1 { 0 } else { port };
        if self.tables[table].look(key, page).is_none() {
            self.tables[table].insert(key, page, Time::ZERO, rng);
        }
    }

    /// Number of the page, and the same with its requester.
    #[inline]
    fn page(&self, requester: Bdf, address: u64) -> (u64, u64) {
        let page = address >> self.page_shift;
        (page, u64::from(requester.bits()) << 48 | page & 0xffff_ffff_ffff)
    }

    /// How long a walk takes.
    fn walk(&mut self, key: u64, page: u64, rng: &mut Xoshiro256PlusPlus) -> Duration {
        let shorter = self.walk_cache.as_mut().and_then(|cache| cache.shortens(key, page, rng));
        shorter.unwrap_or(self.page_walk_latency)
    }
}

impl Batch {
    /// When a walk begins that is asked for at `asked`: at once where a walker of the batch is left, or the batch is over;
    /// else with the next.
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

    /// How long a walk for `page` takes, where its entry is there; that of the next of its neighbours is.
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
