// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measurements with the host's IOMMU on, and with a given state of its caches.

use plug::transfers::CacheState;
use riser_bench::ask::{self, Ask};
use riser_bench::configurations::Iommu;
use riser_bench::results::ResultSet;
use riser_bench::results::sheet::{self, Entry};
use riser_bench::suite::Machine;
use std::sync::atomic::AtomicBool;

/// Reads of 64 B from 16 MiB: 4,096 pages of 4 KiB, 8 of 2 MiB.
fn reads(host: &str, iommu: Iommu, cache: CacheState) -> Entry {
    let ask = Ask {
        suite: vec!["LAT_RD".into()],
        sizes: vec![64],
        host: Some(host.into()),
        iommu,
        cache: Some(cache),
        window_bytes: Some(16 << 20),
        transfers: Some(200),
        warm_up: Some(200),
        seed: 1,
        ..Ask::default()
    };
    let plans = ask.plans(&devices::models()).unwrap();
    let (mut entries, ended) = ask::measure(&plans, &AtomicBool::new(false), |_, _, _, _| {}).unwrap();
    assert_eq!((entries.len(), ended), (1, None), "{host}");
    entries.remove(0)
}

fn median_ns(entry: &Entry) -> f64 {
    entry.row.latency.as_ref().unwrap().latency_ns_median
}

/// SIGCOMM'18 §6.5: an IOTLB miss costs around 330 ns, and superpages avoid it; fitted, 269 ns.
#[test]
fn gen4_and_gen5_hosts_have_an_assumed_iommu() {
    for host in ["xeon-gold-6342", "xeon-platinum-8480"] {
        let [off, small, large] = [Iommu::Off, Iommu::Pages4k, Iommu::Pages2m]
            .map(|iommu| reads(host, iommu, CacheState::HostWarm));
        let walk_ns = median_ns(&small) - median_ns(&off);
        assert!((250.0..330.0).contains(&walk_ns), "{host}: {walk_ns}");
        assert!((median_ns(&large) - median_ns(&off)).abs() < 1.0, "{host}");
        assert_eq!(small.basis.name(), "assumed", "{host}");
    }
}

/// SIGCOMM'18 §6.3: a line in the cache is read some 70 ns faster.
#[test]
fn cold_caches_make_reads_slower() {
    let [cold, warm] =
        [CacheState::Cold, CacheState::HostWarm].map(|cache| reads("xeon-e5-2637v3", Iommu::Off, cache));
    let memory_ns = median_ns(&cold) - median_ns(&warm);
    assert!((40.0..120.0).contains(&memory_ns), "{memory_ns}");
    assert_eq!((cold.settings.cache, warm.settings.cache), (CacheState::Cold, CacheState::HostWarm));
}

/// The page walk of the E3 is assumed, its latencies are fitted.
#[test]
fn results_record_iommu_and_its_basis() {
    let entries = [Iommu::Off, Iommu::Pages4k].map(|iommu| reads("xeon-e3-1226v3", iommu, CacheState::Cold));
    assert_eq!(entries.each_ref().map(|entry| entry.basis.name()), ["fitted", "assumed"]);
    let json = serde_json::to_value(&entries[1]).unwrap();
    assert_eq!((&json["iommu"], &json["cache"]), (&"4k".into(), &"cold".into()));
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("host_modes");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("results.csv"), sheet::write(&entries).unwrap()).unwrap();
    let found = ResultSet::read(&folder).unwrap();
    let names: Vec<&str> = found.configurations.keys().map(String::as_str).collect();
    assert_eq!(names, ["ideal_xeon-e3-1226v3_gen3x8_iommu4k", "ideal_xeon-e3-1226v3_gen3x8_iommuoff"]);
}

/// Figure 9 then finds both, as in the published data.
#[test]
fn suites_name_the_iommu_as_published() {
    let machine = Machine::profile("xeon-platinum-8480", "nfp6000").with_iommu(Iommu::Pages4k);
    assert_eq!(machine.name, "nfp6000_xeon-platinum-8480-iommu-nosp");
}
