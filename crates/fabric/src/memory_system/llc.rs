// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A last-level cache: the lines that it holds, and the last writer of each. The model has neither data nor time.
//!
//! A set is a run of entries: first the ways of cores, then those of devices (DDIO), each in the order of use, latest
//! first. The measurements require LRU: a window as large as its ways still hits as a whole (pcie-bench data, DWarm at
//! 1.5 MB of 15 MB with 2 of 20 ways). With random replacement it would not. The set is the line number modulo the
//! number of sets, which spreads a contiguous window evenly, as in the measurements.

use crate::profile::{LINE_BYTES, LlcProfile};

/// Minimum number of sets of a cache: a tag then fits 30 bits at any address.
const MIN_SETS: u64 = 64;

/// The entry of a foreign line, which never hits.
const FOREIGN: u32 = 0;

/// The last writer of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Writer {
    Core = 1,
    Device = 2,
}

/// The cache of one socket.
pub(super) struct Llc {
    /// Tag in bits 31:2, [`Writer`] in bits 1:0.
    entries: Vec<u32>,
    sets: u64,
    ways: usize,
    /// The ways of cores in each set.
    core_ways: usize,
    /// Whether all lines are foreign.
    is_foreign: bool,
}

impl Llc {
    /// A cache full of foreign lines.
    pub(super) fn new(profile: &LlcProfile) -> Llc {
        let ways = profile.ways.clamp(2, 64) as usize;
        let sets = (profile.capacity_bytes / LINE_BYTES / ways as u64).max(MIN_SETS);
        let ddio_ways = (profile.ddio_ways as usize).clamp(1, ways - 1);
        Llc {
            entries: vec![FOREIGN; sets as usize * ways],
            sets,
            ways,
            core_ways: ways - ddio_ways,
            is_foreign: true,
        }
    }

    /// Fills the cache with foreign lines.
    pub(super) fn thrash(&mut self) {
        if !self.is_foreign {
            self.entries.fill(FOREIGN);
            self.is_foreign = true;
        }
    }

    /// The last writer of the line of `address`, if the cache holds it.
    pub(super) fn look(&mut self, address: u64) -> Option<Writer> {
        let (set, key) = self.place(address);
        let at = self.find(set, key)?;
        let entry = self.entries[at];
        self.use_entry(set, at, entry);
        Some(if entry & 3 == Writer::Device as u32 { Writer::Device } else { Writer::Core })
    }

    /// `by` writes to the line of `address`. Returns true if the cache holds the line, which then keeps its way.
    /// Otherwise the line replaces the least recently used line in the ways of `by`.
    pub(super) fn write(&mut self, address: u64, by: Writer) -> bool {
        let (set, key) = self.place(address);
        let entry = key | by as u32;
        if let Some(at) = self.find(set, key) {
            self.use_entry(set, at, entry);
            return true;
        }
        self.is_foreign = false;
        let last = match by {
            Writer::Core => set + self.core_ways - 1,
            Writer::Device => set + self.ways - 1,
        };
        self.use_entry(set, last, entry);
        false
    }

    /// Removes the line of `address`. Returns true if the cache held the line.
    pub(super) fn forget(&mut self, address: u64) -> bool {
        let (set, key) = self.place(address);
        let found = self.find(set, key);
        if let Some(at) = found {
            self.entries[at] = FOREIGN;
        }
        found.is_some()
    }

    /// The first entry of the set of `address`, and the tag.
    fn place(&self, address: u64) -> (usize, u32) {
        let line = address / LINE_BYTES;
        let (tag, set) = (line / self.sets, line % self.sets);
        (set as usize * self.ways, (tag as u32) << 2)
    }

    fn find(&self, set: usize, key: u32) -> Option<usize> {
        let entries = &self.entries[set..set + self.ways];
        // The tag matches, and the line is not foreign.
        entries.iter().position(|entry| (entry ^ key).wrapping_sub(1) < 3).map(|way| set + way)
    }

    /// Puts `entry` at `at`, as the latest of its run.
    fn use_entry(&mut self, set: usize, at: usize, entry: u32) {
        let devices = set + self.core_ways;
        let first = if at < devices { set } else { devices };
        self.entries.copy_within(first..at, first + 1);
        self.entries[first] = entry;
    }

    /// Number of lines that are not foreign.
    #[cfg(test)]
    fn lines(&self) -> usize {
        self.entries.iter().filter(|entry| **entry != FOREIGN).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use tlp::Duration;

    fn cache(capacity_bytes: u64, ways: u32, ddio_ways: u32) -> Llc {
        let none = Duration::ZERO;
        Llc::new(&LlcProfile {
            capacity_bytes,
            ways,
            ddio_ways,
            core_snoop_latency: none,
            read_allocate: false,
            eviction_latency: none,
            snoop_waits: Vec::new(),
        })
    }

    fn hits(llc: &mut Llc, bytes: u64) -> u64 {
        (0..bytes / LINE_BYTES).filter(|line| llc.look(line * LINE_BYTES).is_some()).count() as u64
    }

    /// A window that was written once stays in the cache if it fits into the writer's ways. Rows: the writer, KiB of
    /// the window, KiB that hit. A cache of 15 MiB and 20 ways, 2 of them for devices, as in `hosts.json` and the data
    /// (DWarm hits fall from 1.5 MB on as 1.5 MB / window; HWarm from 13.5 MB on).
    #[test]
    fn hits_are_limited_by_ways_of_the_writer() {
        let rows = [
            (Writer::Device, 1024, 1024),
            (Writer::Device, 1536, 1536),
            (Writer::Device, 2048, 1536),
            (Writer::Device, 8192, 1536),
            (Writer::Core, 8192, 8192),
            (Writer::Core, 13_824, 13_824),
            (Writer::Core, 16_384, 13_824),
        ];
        for (writer, window_kib, expected_kib) in rows {
            let mut llc = cache(15 << 20, 20, 2);
            for line in 0..window_kib << 4 {
                llc.write(line * LINE_BYTES, writer);
            }
            assert_eq!(hits(&mut llc, window_kib << 10), expected_kib << 4, "{writer:?} {window_kib} KiB");
            llc.thrash();
            assert_eq!((hits(&mut llc, window_kib << 10), llc.lines()), (0, 0));
        }
    }

    #[test]
    fn write_hit_keeps_the_way_of_the_line() {
        let mut llc = cache(64 * 64 * 4, 4, 1);
        assert_eq!((llc.sets, llc.write(0, Writer::Core), llc.look(0)), (64, false, Some(Writer::Core)));
        assert!(llc.write(0, Writer::Device));
        assert_eq!(llc.look(63), Some(Writer::Device), "the same line");
        // The single way of devices is free, and is reused.
        let set = 64 * LINE_BYTES;
        assert_eq!([llc.write(set, Writer::Device), llc.write(2 * set, Writer::Device)], [false, false]);
        assert_eq!([llc.look(0), llc.look(set)], [Some(Writer::Device), None]);
        assert!(llc.forget(0) && !llc.forget(0));
        assert_eq!(llc.look(0), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        /// A set never has more lines than ways. A hit needs an earlier write, and returns the last writer.
        #[test]
        fn cache_holds_only_written_lines(
            accesses in prop::collection::vec((0..4096u64, 0..3u8), 1..600),
            (ways, ddio) in (2..9u32).prop_flat_map(|ways| (Just(ways), 1..ways)),
        ) {
            let mut llc = cache(u64::from(ways) * 64 * 64, ways, ddio);
            let mut written = BTreeMap::new();
            for (line, kind) in accesses {
                // There are few sets, so that lines collide.
                let address = (line % 4 + line / 4 * 64) * LINE_BYTES;
                let by = if kind == 0 { Writer::Core } else { Writer::Device };
                if kind == 2 {
                    let found = llc.look(address);
                    prop_assert!(found.is_none() || found == written.get(&address).copied());
                } else {
                    let hit = llc.write(address, by);
                    prop_assert!(!hit || written.contains_key(&address));
                    written.insert(address, by);
                    prop_assert_eq!(llc.look(address), Some(by));
                }
                prop_assert!(llc.lines() <= (ways as usize * 4).min(written.len()));
            }
        }
    }
}
