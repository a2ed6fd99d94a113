// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of single accesses, part by part, and of their dependence on seed and order alone.

use super::*;
use crate::profile::{
    DramProfile, HostSettings, IommuProfile, PageSize, PowerProfile, RefreshProfile, Replacement,
    RetrainingProfile,
};
use host::caches::CachePreparation;
use proptest::prelude::*;

const WINDOW: u64 = 0x10_0000;

/// A read of a line on Gen3 x8.
const LINE: Option<ReadTraffic> = Some(ReadTraffic { bytes: 64, line_time: Duration::from_ps(8_125) });

fn ns(n: u64) -> Duration {
    Duration::from_ns(n)
}

fn at(n: u64) -> Time {
    Time::ZERO + ns(n)
}

fn device() -> Bdf {
    Bdf::from_bits(0x100)
}

/// Distinct figures, so that each sum has unique parts.
fn profile(settings: HostSettings) -> HostProfile {
    HostProfile {
        llc: Some(LlcProfile {
            capacity_bytes: 64 * 64 * 8,
            ways: 8,
            ddio_ways: 2,
            core_snoop_latency: ns(40),
            read_allocate: false,
            eviction_latency: ns(26),
            snoop_waits: Vec::new(),
        }),
        dram: Some(DramProfile { latency: ns(80), banks: None, refresh: None }),
        numa: Some(NumaProfile {
            remote_snoop_latency: ns(94),
            remote_memory_latency: ns(120),
            remote_eviction_latency: ns(99),
        }),
        iommu: Some(IommuProfile {
            entries: 4,
            ways: 0,
            replacement: Replacement::Lru,
            shared: true,
            superpages: false,
            hit_latency: ns(3),
            page_walk_latency: ns(260),
            miss_service: ns(40),
            read_service: ns(2),
            stalls: Vec::new(),
            serial_walks: None,
            page_walk_cache: None,
        }),
        settings,
        ..HostProfile::ideal()
    }
}

fn sockets(device_socket: u8, memory_socket: u8, program_socket: u8) -> HostSettings {
    HostSettings { iommu: None, device_socket, memory_socket, program_socket }
}

fn seeded(profile: &HostProfile, ports: usize, seed: u64) -> Box<MemorySystem> {
    let mut system = MemorySystem::new(profile, ports).unwrap();
    system.seed(seed);
    system
}

fn system(settings: HostSettings) -> Box<MemorySystem> {
    seeded(&profile(settings), 2, 1)
}

fn access(address: u64, len: u32) -> Access {
    Access { port: 0, requester: device(), address, len }
}

/// Rows: sockets of device, memory and program; how the window was prepared; then the latencies of a read of a line, of
/// a write of a line, of a write of 8 B to another line, and of a second read of the line.
#[test]
fn line_latency_depends_on_its_place() {
    use CachePreparation::{ThrashByHost, WriteByDevice, WriteByHost};
    let (address, bytes) = (WINDOW, 8192);
    let by_host = || WriteByHost { address, bytes };
    let by_device = || WriteByDevice { requester: device(), address, bytes, passes: 2 };
    let rows = [
        ((0, 0, 0), ThrashByHost, [80, 26, 80, 0], "cold"),
        ((0, 0, 0), by_host(), [40, 0, 0, 0], "host-warmed"),
        ((0, 0, 0), by_device(), [0, 0, 0, 0], "device-warmed"),
        ((1, 1, 1), by_host(), [40, 0, 0, 0], "the same on the other socket"),
        ((0, 0, 1), ThrashByHost, [80, 26, 80, 0], "cold, program elsewhere"),
        ((0, 0, 1), by_host(), [94, 26, 94, 0], "warmed by a program elsewhere"),
        ((0, 1, 0), ThrashByHost, [120, 99, 120, 0], "memory elsewhere"),
        (
            (0, 1, 0),
            by_host(),
            [40, 0, 0, 0],
            "memory of the other socket, but the line is in the local cache",
        ),
        (
            (0, 1, 0),
            by_device(),
            [0, 0, 0, 0],
            "a device's lines are in the local cache, for any place of memory",
        ),
        ((0, 1, 1), by_host(), [120, 99, 120, 0], "both elsewhere"),
        ((0, 1, 1), by_device(), [0, 0, 0, 0], "both elsewhere, but written by a device"),
    ];
    for ((d, m, p), preparation, expected, why) in rows {
        let mut system = system(sockets(d, m, p));
        system.prepare(&preparation, 0);
        let read = |system: &mut MemorySystem| system.read(&access(WINDOW, 64), at(0));
        let first = read(&mut system);
        let whole = system.write(&access(WINDOW, 64), at(0));
        let part = system.write(&access(WINDOW + 128, 8), at(0));
        let got = [first, whole, part, read(&mut system)];
        assert_eq!(got, expected.map(ns), "{why}");
    }
}

#[test]
fn slowest_line_determines_the_latency() {
    let mut system = system(sockets(0, 0, 0));
    system.prepare(&CachePreparation::WriteByHost { address: WINDOW, bytes: 128 }, 0);
    // Rows: address, bytes, cost; lines 0 and 1 are warm, 2 is not.
    let rows = [(0, 128, 40), (64, 64, 40), (64, 65, 80), (127, 1, 40), (128, 1, 80), (0, 4096, 80)];
    for (offset, len, expected) in rows {
        assert_eq!(system.read(&access(WINDOW + offset, len), at(0)), ns(expected), "{len} at {offset}");
    }
    // A write from 1 on fills lines 1 and 2, and writes only part of its first and last line.
    assert_eq!(system.write(&access(WINDOW + 64, 128), at(0)), ns(26));
    assert_eq!(system.write(&access(WINDOW + 256 + 1, 128), at(0)), ns(80));
    let counters = *system.counters();
    assert_eq!((counters.read_lines_hit, counters.read_lines_missed), (2 + 1 + 1 + 1 + 2, 1 + 1 + 62));
    assert_eq!((counters.write_lines_hit, counters.write_lines_missed), (1, 1 + 3));
}

#[test]
fn device_written_window_hits_if_it_fits_ddio_ways() {
    let mut system = system(sockets(0, 0, 0));
    let (address, bytes) = (WINDOW, 64 * 64 * 64);
    system.prepare(&CachePreparation::ThrashByDevice { requester: device(), address, bytes, seed: 3 }, 0);
    let lines = bytes / 64;
    for line in 0..lines {
        system.read(&access(address + line * 64, 64), at(0));
    }
    // Two ways of 64 sets, which now hold only lines of this window.
    assert_eq!(system.counters().read_lines_hit, 128);
}

/// Prepared transfers leave the caches in the same state as real transfers.
#[test]
fn prepared_transfers_leave_the_same_state_as_real_ones() {
    for (read_allocate, program) in [(false, 0), (true, 0), (true, 1)] {
        let mut profile = profile(sockets(0, 0, program));
        profile.llc.as_mut().unwrap().read_allocate = read_allocate;
        let (mut told, mut seen) = (seeded(&profile, 2, 1), seeded(&profile, 2, 1));
        let prepared = CachePreparation::WriteByHost { address: WINDOW, bytes: 64 * 100 };
        [&mut told, &mut seen].into_iter().for_each(|system| system.prepare(&prepared, 0));
        // 100 B at each: two lines, or three.
        let places: Vec<(u64, bool)> = (0..700).map(|n| (WINDOW + n * 7919 % 60_000, n % 3 == 0)).collect();
        for &(address, writes) in &places {
            let access = access(address, 100);
            let _ = if writes { seen.write(&access, at(0)) } else { seen.read(&access, at(0)) };
        }
        told.prepare(&CachePreparation::TransfersOfDevice { requester: device(), bytes: 100, places }, 0);
        let read_all = |system: &mut MemorySystem| -> Vec<Duration> {
            (0..1_000).map(|line| system.read(&access(WINDOW + line * 64, 64), at(0))).collect()
        };
        let (told, seen) = (read_all(&mut told), read_all(&mut seen));
        assert_eq!(told, seen, "{read_allocate} {program}");
        assert!([ns(0), ns(80)].iter().all(|cost| seen.contains(cost)), "some hit, some miss");
    }
}

#[test]
fn writes_become_visible_in_order_per_port() {
    let mut system = system(sockets(0, 0, 0));
    assert_eq!(
        [system.show(0, at(90)), system.show(0, at(70)), system.show(1, at(50))],
        [at(90), at(90), at(50)]
    );
    assert_eq!([system.visible_at(0), system.visible_at(1)], [at(90), at(50)]);
}

#[test]
fn preparation_fills_the_iotlb_too() {
    let mut system = system(HostSettings { iommu: Some(PageSize::Gib1), ..sockets(0, 0, 0) });
    let translate = |system: &mut MemorySystem, page: u64, when| {
        system.translate(&access(page << 12, 64), LINE, at(when)).as_ps() / 1000 - when
    };
    assert_eq!([translate(&mut system, 1, 0), translate(&mut system, 1, 1000)], [260, 3]);
    let requester = device();
    let write = CachePreparation::WriteByDevice { requester, address: 8 << 12, bytes: 4 << 12, passes: 1 };
    system.prepare(&write, 0);
    let latencies = [(8, 2000), (11, 3000), (1, 4000)].map(|(page, when)| translate(&mut system, page, when));
    assert_eq!(latencies, [3, 3, 260], "four pages of four entries: no superpages here");
    system.restrict(requester, 0, 4096);
    assert_eq!([system.maps(requester, 0, 64), system.maps(requester, 4096, 64)], [true, false]);
    assert_eq!(system.counters().translation_faults, 1);
}

#[test]
fn sleeping_root_complex_is_woken_once() {
    let wake = vec![WeightedLatency { parts_per_billion: 1_000_000_000, latency: ns(650) }];
    let power = vec![PowerProfile { idle: ns(100), wake }];
    let profile = HostProfile { power, ..HostProfile::ideal() };
    let mut system = seeded(&profile, 1, 1);
    assert_eq!(system.translate(&access(0, 64), LINE, at(1000)), at(1650));
    assert_eq!(system.translate(&access(0, 64), LINE, at(1010)), at(1650));
    system.stay_awake(at(2000));
    assert_eq!(system.translate(&access(0, 64), LINE, at(2050)), at(2050));
    assert_eq!(system.counters().wake_ups, 1);
}

#[test]
fn plain_host_has_no_memory_system() {
    assert!(MemorySystem::new(&HostProfile::ideal(), 4).is_none());
    // An IOMMU that is off, and an empty other socket.
    let bare = HostProfile { llc: None, dram: None, ..profile(sockets(0, 0, 0)) };
    assert!(MemorySystem::new(&bare, 4).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// The same accesses with the same seed cost the same; a hit needs an earlier write.
    #[test]
    fn accesses_are_deterministic_and_hit_only_written_lines(
        accesses in prop::collection::vec((0..512u64, any::<bool>()), 1..300),
        seed in any::<u64>(),
    ) {
        let settings = HostSettings { iommu: Some(PageSize::Kib4), ..sockets(0, 0, 0) };
        let noise = vec![WeightedLatency { parts_per_billion: 300_000_000, latency: ns(1000) }];
        let profile = HostProfile { noise, ..profile(settings) };
        let mut systems = [(); 2].map(|()| seeded(&profile, 2, seed));
        let mut written = std::collections::BTreeSet::new();
        for (n, (line, is_write)) in (0..).zip(accesses) {
            let access = access(line * 64, 64);
            let costs = systems.each_mut().map(|system| {
                let translated = system.translate(&access, LINE.filter(|_| !is_write), at(n * 50));
                let latency = if is_write { system.write(&access, at(n * 50)) } else { system.read(&access, at(n * 50)) };
                (translated, latency, *system.counters())
            });
            prop_assert_eq!(costs[0], costs[1]);
            let latency = costs[0].1.as_ps() % 1_000_000;
            let miss = if is_write { 26_000 } else { 80_000 };
            prop_assert!(written.contains(&line) || latency == miss);
            if is_write {
                written.insert(line);
            }
        }
    }
}

/// A client chip: what devices read stays in the cache.
#[test]
fn read_lines_stay_in_the_cache() {
    let mut profile = profile(sockets(0, 0, 0));
    profile.llc.as_mut().unwrap().read_allocate = true;
    let mut system = seeded(&profile, 1, 1);
    assert_eq!(system.read(&access(0, 64), at(1000)), ns(80));
    assert_eq!(system.read(&access(0, 64), at(5000)), Duration::ZERO, "as one written by a device");
}

#[test]
fn root_complex_is_woken_from_the_deepest_sleep_that_it_reached() {
    let always = |wake| vec![WeightedLatency { parts_per_billion: 1_000_000_000, latency: ns(wake) }];
    let depth = |idle: u64, wake: u64| PowerProfile { idle: ns(idle), wake: always(wake) };
    let profile = HostProfile { power: vec![depth(100, 60), depth(600, 640)], ..HostProfile::ideal() };
    let mut system = seeded(&profile, 1, 1);
    assert_eq!(system.translate(&access(0, 64), LINE, at(1000)), at(1640));
    assert_eq!(system.translate(&access(0, 64), LINE, at(1800)), at(1860), "lightly");
}

/// Reads that miss meet refreshes; hits and writes do not.
#[test]
fn only_reads_from_memory_meet_refreshes() {
    let mut profile = profile(sockets(0, 0, 0));
    let refresh = RefreshProfile { interval: ns(1000), cycle: ns(500), hits: 0, late: Vec::new() };
    profile.dram = Some(DramProfile { latency: ns(80), banks: None, refresh: Some(refresh) });
    let mut system = seeded(&profile, 1, 1);
    let late = |costs: Vec<Duration>| costs.iter().filter(|cost| **cost > ns(80)).count();
    let missed: Vec<Duration> = (0..400).map(|line| system.read(&access(line * 64, 64), at(0))).collect();
    assert!(missed.iter().all(|cost| (ns(80)..=ns(580)).contains(cost)));
    let count = late(missed);
    assert!((160..240).contains(&count), "{count} of 400: one half is expected");
    system.write(&access(0, 64), at(0));
    assert_eq!(late((0..400).map(|_| system.read(&access(0, 64), at(0))).collect()), 0);
}

/// The rarest events of a million requests: a read from memory waits 500 ns for a refresh and 300 beyond, a hit 70, a snooped
/// line until its core has woken, and with an IOMMU each waits for a stall instead. Each draw is certain.
#[test]
fn rarest_events_are_the_longest_that_are_expected() {
    let row = |parts_per_billion, latency| vec![WeightedLatency { parts_per_billion, latency: ns(latency) }];
    let mut profile = profile(sockets(0, 0, 0));
    let refresh = RefreshProfile { interval: ns(10_000), cycle: ns(500), hits: 0, late: row(1_000, 300) };
    profile.dram = Some(DramProfile { latency: ns(80), banks: None, refresh: Some(refresh) });
    profile.noise = row(1_000, 70);
    profile.llc.as_mut().unwrap().snoop_waits = row(1_000, 9_000);
    profile.iommu.as_mut().unwrap().stalls = row(1_000, 1_500);
    let rarest = |profile: &HostProfile| {
        let mut system = seeded(profile, 1, 1);
        system.prepare(&CachePreparation::WriteByHost { address: 64, bytes: 64 }, 0);
        system.write(&access(128, 64), at(0));
        system.draw_rarest_of(1_000_000);
        let mut read = |line: u64| {
            let (access, now) = (access(line * 64, 64), at(100_000 + line * 10_000));
            system.translate(&access, LINE, now).since(now) + system.read(&access, now)
        };
        [0, 1, 2].map(&mut read)
    };
    assert_eq!(rarest(&profile), [880, 9_110, 70].map(ns));
    profile.settings.iommu = Some(PageSize::Kib4);
    assert_eq!(rarest(&profile), [1_840, 9_043, 1_503].map(ns), "a walk, then hits of 3 ns");
}

#[test]
fn load_of_writes_loses_time_to_retraining() {
    let retraining = RetrainingProfile {
        write_ppm: 1_000_000,
        idle_ppm: 0,
        apart: ns(100),
        write_wait: Duration::from_us(1),
        read_wait: Duration::from_us(1),
    };
    let profile = HostProfile { retraining: Some(retraining), ..HostProfile::ideal() };
    let mut system = seeded(&profile, 1, 1);
    let late = (1..=100).filter(|n| system.translate(&access(0, 64), None, at(n * 50)) > at(n * 50)).count();
    // After 1000 ns, a wait of 1000 ns: 20 requests of 50 ns each.
    assert!((38..=60).contains(&late), "{late} of 100 wait");
    let mut system = seeded(&profile, 1, 1);
    assert!((1..=100).all(|n| system.translate(&access(0, 64), LINE, at(n * 50)) == at(n * 50)));
}

/// A link that is retrained under load still sleeps between requests that are far apart.
#[test]
fn retraining_leaves_sleep_between_requests() {
    let wake = vec![WeightedLatency { parts_per_billion: 1_000_000_000, latency: ns(650) }];
    let retraining = RetrainingProfile {
        write_ppm: 1_000_000,
        idle_ppm: 0,
        apart: ns(100),
        write_wait: Duration::from_us(1),
        read_wait: Duration::from_us(1),
    };
    let profile = HostProfile {
        power: vec![PowerProfile { idle: ns(300), wake }],
        retraining: Some(retraining),
        ..HostProfile::ideal()
    };
    let mut system = seeded(&profile, 1, 1);
    assert_eq!(system.translate(&access(0, 64), LINE, at(1000)), at(1650));
    assert_eq!(system.translate(&access(0, 64), LINE, at(2000)), at(2650));
}
