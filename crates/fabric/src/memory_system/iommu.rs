// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The IOMMU: when the address of a request is translated, and whether it may be at all.
//!
//! ```text
//!  root port: requests in order ──▶ [ at most hits_under_miss + 1 ] ──▶ memory, in order
//!                                         │ look           ▲
//!                                       IOTLB ── miss ──▶ walkers, in the order of arrival
//! ```
//!
//! A request enters when the one `hits_under_miss + 1` before it has left; it looks its page up, waits for a walk of that
//! page that is under way, or takes the walker that is free first; it leaves when its translation is there and all before
//! it have left. A page has its entry from the beginning of its walk on, so that nobody walks for it twice.
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
    /// When each is free.
    walkers: Vec<Time>,
    walk_cache: Option<WalkCache>,
    /// First address and bytes, of requesters that may not reach all of memory.
    windows: BTreeMap<u16, (u64, u64)>,
}

/// When the latest requests of a root port left, in a circle.
struct InOrder {
    left_at: Vec<Time>,
    next: usize,
    last: Time,
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
        let in_order = profile.hits_under_miss.min(1023) as usize + 1;
        Iommu {
            page_shift: page_size.shift(),
            hit_latency: profile.hit_latency,
            page_walk_latency: profile.page_walk_latency,
            tables: (0..tables).map(|_| table()).collect(),
            ports: (0..ports).map(|_| InOrder::new(in_order)).collect(),
            walkers: vec![Time::ZERO; profile.walkers.clamp(1, 64) as usize],
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
        let entered = at.max(self.ports[port].enters_at());
        let (page, key) = self.page(requester, address);
        let table = if self.tables.len() == 1 { 0 } else { port };
        let done = match self.tables[table].look(key, page) {
            Some(valid_at) => {
                counters.iotlb_hits += 1;
                entered.max(valid_at) + self.hit_latency
            }
            None => {
                counters.iotlb_misses += 1;
                let done = self.walk(entered, key, page, rng);
                self.tables[table].insert(key, page, done, rng);
                done
            }
        };
        self.ports[port].leave(done)
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

    /// When a walk that may begin at `at` has ended: by the walker that is free first.
    fn walk(&mut self, at: Time, key: u64, page: u64, rng: &mut Xoshiro256PlusPlus) -> Time {
        let shorter = self.walk_cache.as_mut().and_then(|cache| cache.shortens(key, page, rng));
        let mut first = 0;
        for walker in 1..self.walkers.len() {
            if self.walkers[walker] < self.walkers[first] {
                first = walker;
            }
        }
        let done = at.max(self.walkers[first]) + shorter.unwrap_or(self.page_walk_latency);
        self.walkers[first] = done;
        done
    }
}

impl InOrder {
    fn new(requests: usize) -> InOrder {
        InOrder { left_at: vec![Time::ZERO; requests], next: 0, last: Time::ZERO }
    }

    fn enters_at(&self) -> Time {
        self.left_at[self.next]
    }

    /// It leaves when it is `done`, and not before those before it.
    fn leave(&mut self, done: Time) -> Time {
        self.last = self.last.max(done);
        self.left_at[self.next] = self.last;
        self.next = if self.next + 1 == self.left_at.len() { 0 } else { self.next + 1 };
        self.last
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
