// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of translation, for single requests and under load.

use super::*;
use rand_core::{RngCore, SeedableRng};

fn profile() -> IommuProfile {
    IommuProfile {
        entries: 116,
        ways: 0,
        replacement: Replacement::Lru,
        shared: true,
        superpages: true,
        hit_latency: Duration::ZERO,
        page_walk_latency: Duration::from_ns(260),
        miss_service: Duration::from_ns(45),
        read_service: Duration::from_ns(8),
        stalls: Vec::new(),
        serial_walks: None,
        page_walk_cache: None,
    }
}

fn function(bus: u8) -> Bdf {
    Bdf::from_bits(u16::from(bus) << 8)
}

struct Rig {
    iommu: Iommu,
    rng: Xoshiro256PlusPlus,
    counters: MemoryCounters,
}

impl Rig {
    fn new(profile: &IommuProfile, pages: PageSize) -> Rig {
        let rng = Xoshiro256PlusPlus::seed_from_u64(1);
        Rig { iommu: Iommu::new(profile, pages, 2), rng, counters: MemoryCounters::default() }
    }

    /// Translates a read of up to 128 B of the device of a port; returns when it is translated, in nanoseconds.
    fn ask(&mut self, port: usize, page: u64, at_ns: u64) -> u64 {
        self.translate(port, page, 1, true, Time::ZERO + Duration::from_ns(at_ns)).as_ps() / 1000
    }

    fn translate(&mut self, port: usize, page: u64, len: u32, reads: bool, at: Time) -> Time {
        let access = Access { port, requester: function(port as u8 + 1), address: page << 12, len };
        self.iommu.translate(&access, reads, at, &mut self.rng, &mut self.counters)
    }
}

/// Rows: port, page, arrival time, translation time, and the reason. A miss occupies the lookup for 45 ns, a read for 8.
#[test]
fn requests_are_translated_in_order_and_walks_overlap() {
    let rows = [
        (0, 1, 0, 260, "a walk"),
        (0, 1, 10, 260, "looked up at 53 ns: the walk for its page is running"),
        (0, 2, 20, 321, "looked up 8 ns later, at 61"),
        (0, 3, 30, 374, "45 + 8 ns later"),
        (0, 1, 600, 600, "it is there"),
        (1, 1, 600, 860, "another requester has another context"),
        (0, 4, 610, 905, "walks of all ports start 45 ns apart"),
        (0, 1, 611, 905, "in order"),
        (1, 1, 612, 860, "but another root port has its own order"),
        (1, 1, 900, 900, "and is not delayed if it misses nothing"),
    ];
    let mut rig = Rig::new(&profile(), PageSize::Kib4);
    for (port, page, at, expected, why) in rows {
        assert_eq!(rig.ask(port, page, at), expected, "page {page} at {at} ns: {why}");
    }
    assert_eq!((rig.counters.iotlb_hits, rig.counters.iotlb_misses), (5, 5));
}

/// Reads occupy the lookup for each 128 B, writes do not.
#[test]
fn lookup_is_occupied_by_misses_and_by_data_of_reads() {
    for (reads, len, third) in
        [(true, 64, 8), (true, 128, 8), (true, 256, 16), (true, 512, 32), (false, 512, 0)]
    {
        let mut rig = Rig::new(&profile(), PageSize::Kib4);
        let at = |ns| Time::ZERO + Duration::from_ns(ns);
        rig.translate(0, 1, len, reads, at(0));
        rig.translate(0, 1, len, reads, at(1_000));
        let walked = rig.translate(0, 2, len, reads, at(1_000));
        assert_eq!(walked, at(1_000 + third + 260), "{len} B");
    }
}

/// Sandy Bridge, 240 ns a walk: walks of a region follow one another after 21 ns. Lookups continue
/// while one walk waits. A second waiting walk stops them until the first has started. Rows: page, translation time of a write that is there at 0, and the reason.
#[test]
fn walks_of_a_region_do_not_overlap() {
    let rows = [
        (0, 240, "a walk"),
        (511, 501, "waits for the first, from 45 ns on"),
        (512, 501, "another region: walked at 90 ns, in order"),
        (1, 762, "a second one waits: no lookups from 135 ns until 261"),
        (1024, 762, "another region: looked up at 306 ns"),
        (2, 1023, "the next one of the first region starts at 783"),
    ];
    let serial_walks = Some(SerialWalks { region_bytes: 2 << 20, restart: Duration::from_ns(21) });
    let page_walk_latency = Duration::from_ns(240);
    let mut rig = Rig::new(&IommuProfile { serial_walks, page_walk_latency, ..profile() }, PageSize::Kib4);
    for (page, expected, why) in rows {
        let done = rig.translate(0, page, 64, false, Time::ZERO).as_ps() / 1000;
        assert_eq!(done, expected, "page {page}: {why}");
    }
}

/// Larger pages cover a larger range if the IOMMU supports them.
#[test]
fn page_size_is_bounded_by_hardware_and_lab() {
    // Rows: pages, superpages, misses of 1024 pages of 4 KiB in order.
    let rows = [
        (PageSize::Kib4, true, 1024),
        (PageSize::Mib2, true, 2),
        (PageSize::Gib1, true, 1),
        (PageSize::Mib2, false, 1024),
    ];
    for (pages, superpages, misses) in rows {
        let mut rig = Rig::new(&IommuProfile { superpages, ..profile() }, pages);
        (0..1024).for_each(|page| assert!(rig.ask(0, page, page * 1000) >= page * 1000));
        assert_eq!(rig.counters.iotlb_misses, misses, "{pages:?} {superpages}");
    }
}

#[test]
fn page_walk_cache_shortens_walks() {
    let cache = PageWalkCache { entries: 2, pages_per_entry: 8, saves: Duration::from_ns(100) };
    let mut rig = Rig::new(&IommuProfile { page_walk_cache: Some(cache), ..profile() }, PageSize::Kib4);
    let at = |n: u64| n * 10_000;
    let latencies = [0, 7, 8, 16, 9, 1].iter().enumerate();
    let latencies: Vec<u64> =
        latencies.map(|(n, page)| rig.ask(0, *page, at(n as u64)) - at(n as u64)).collect();
    assert_eq!(latencies, [260, 160, 260, 260, 160, 260]);
}

#[test]
fn function_reaches_only_its_window() {
    let mut iommu = Iommu::new(&profile(), PageSize::Kib4, 1);
    iommu.restrict(function(1), 0x1000, 0x2000);
    let rows =
        [(0x1000, 1, true), (0x2fff, 1, true), (0x2fff, 2, false), (0xfff, 4, false), (0x3000, 1, false)];
    for (address, len, expected) in rows {
        assert_eq!(iommu.maps(function(1), address, len), expected, "{len} at {address:#x}");
        assert!(iommu.maps(function(2), address, len));
    }
}

/// Transfers of a card to random pages. `under_way` of them are outstanding. Each takes `wire_ps` on the wire or in the card,
/// `late_gap_ps` more for each microsecond of its translation, and `other_ps` elsewhere.
struct Load {
    reads: bool,
    bytes: u32,
    under_way: u64,
    wire_ps: u64,
    other_ps: u64,
    late_gap_ps: u64,
}

impl Load {
    /// Nanoseconds from one transfer to the next.
    fn pace(&self, profile: &IommuProfile, pages: u64) -> f64 {
        const TRANSFERS: u64 = 16_000;
        let mut rig = Rig::new(profile, PageSize::Kib4);
        let mut draws = Xoshiro256PlusPlus::seed_from_u64(2);
        let mut ends: std::collections::VecDeque<Time> = vec![Time::ZERO; self.under_way as usize].into();
        let (mut wire_free, mut half) = (Time::ZERO, Time::ZERO);
        for n in 0..TRANSFERS {
            let at = ends.pop_front().unwrap_or_default();
            let translated = rig.translate(0, draws.next_u64() % pages, self.bytes, self.reads, at);
            let ready = translated + Duration::from_ps(self.other_ps);
            let late = translated.since(at).as_ps() * self.late_gap_ps / 1_000_000;
            wire_free = ready.max(wire_free) + Duration::from_ps(self.wire_ps + late);
            ends.push_back(wire_free);
            half = if n == TRANSFERS / 2 { wire_free } else { half };
        }
        wire_free.since(half).as_ps() as f64 / 1000.0 / (TRANSFERS - 1 - TRANSFERS / 2) as f64
    }
}

/// Nanoseconds per transfer, compared with measurements (pcie-bench data,
/// nfp6000-1.2GHz_hsw-Xeon-E5-2637v3_supermicro-iommu-nosp, `bw_dma_win_sweep_{rd_rnd_64,rd_rnd_256,wr_rnd_256}`,
/// Cold), by KiB of the window: reads of 64 B and 256 B, and writes of 256 B. All rows use one set of figures; the paper
/// states that reads of 512 B lose nothing (SIGCOMM'18, §6.5).
#[test]
fn translation_under_load_is_as_slow_as_measured() {
    let profile = IommuProfile {
        entries: 119,
        replacement: Replacement::Random,
        page_walk_latency: Duration::from_ns(267),
        miss_service: Duration::from_ps(44_600),
        read_service: Duration::from_ps(7_700),
        ..profile()
    };
    let read = |bytes, wire_ps, other_ps| Load {
        reads: true,
        bytes,
        under_way: 28,
        wire_ps,
        other_ps,
        late_gap_ps: 0,
    };
    let loads = [
        read(64, 13_000, 534_000),
        // Two completions of 128 B.
        Load { late_gap_ps: 2 * 8_600, ..read(256, 44_400, 490_000) },
        Load { reads: false, bytes: 256, under_way: 64, wire_ps: 40_520, other_ps: 0, late_gap_ps: 0 },
        read(512, 74_330, 510_000),
    ];
    let rows = [
        (256, [19.52, 44.45, 40.52, 74.33]),
        (1536, [40.50, 51.79, 40.52, 74.33]),
        (2048, [43.37, 53.36, 40.52, 74.33]),
        (3072, [46.35, 55.72, 40.55, 74.33]),
        (4096, [47.87, 56.89, 40.72, 74.33]),
        (8192, [50.04, 59.20, 42.37, 74.33]),
        (16_384, [51.18, 60.16, 43.44, 74.33]),
        (65_536, [52.03, 60.68, 44.29, 74.33]),
    ];
    for (kib, measured) in rows {
        for (load, measured) in loads.iter().zip(measured) {
            let pace = load.pace(&profile, kib / 4);
            assert!((pace / measured - 1.0).abs() < 0.06, "{kib} KiB: {pace:.2} ns for {measured}");
        }
    }
}

/// The same for writes of 64 B on Sandy Bridge (cold; 64 of them wait for translation): a window of one region pays a whole
/// walk for each miss, and cost falls with the number of regions.
#[test]
fn serial_walks_are_as_slow_as_measured() {
    let profile = IommuProfile {
        entries: 125,
        replacement: Replacement::Random,
        page_walk_latency: Duration::from_ns(240),
        miss_service: Duration::from_ps(50_500),
        serial_walks: Some(SerialWalks { region_bytes: 2 << 20, restart: Duration::from_ns(21) }),
        ..profile()
    };
    let writes =
        Load { reads: false, bytes: 64, under_way: 64, wire_ps: 21_100, other_ps: 0, late_gap_ps: 0 };
    let rows = [
        (512, 21.1),
        (1024, 127.8),
        (1536, 175.4),
        (2048, 199.3),
        (3072, 153.6),
        (4096, 142.3),
        (8192, 97.9),
        (16_384, 72.0),
        (32_768, 59.6),
        (65_536, 53.9),
    ];
    for (kib, measured) in rows {
        let pace = writes.pace(&profile, kib / 4);
        assert!((pace / measured - 1.0).abs() < 0.06, "{kib} KiB: {pace:.2} ns for {measured}");
    }
}
