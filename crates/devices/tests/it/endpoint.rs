// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Firmware, endpoint, device and driver together, over TLPs.

use crate::common::Event;
use crate::common::slot::Slot;
use config::PcieLayout;
use device::BarIndex;
use endpoint::FunctionConfig;
use host::cpu::Cpu;
use host::firmware::{FixedPlace, FoundFunction, HostMap, MpsPolicy, Path, Policy, Window, enumerate_host};
use host::{AsyncProgram, DriverError};
use plug::Shared;
use riser_devices::ethernet::{Peer, Station};
use riser_devices::simple_nic::{PingReport, PingSettings};
use riser_devices::{device_id, memory, pcie_bench, simple_nic};
use std::net::Ipv4Addr;
use tlp::{Duration, Mps, PayloadPool};

/// Address of the NIC's registers in NetTLP's capture.
const FIXED: u64 = 0xa000_0000;

/// A host with the device on its own bus.
fn host(fixed: Vec<FixedPlace>) -> HostMap {
    let mps = MpsPolicy::Fixed(Mps::new(256).unwrap());
    HostMap {
        first_bus: 1,
        last_bus: 1,
        mmio32: Window { base: FIXED, size: 1 << 28 },
        mmio64: Window::default(),
        io: Window::default(),
        policy: Policy { mps, ten_bit_tags: false, ..Policy::default() },
        fixed,
        ..HostMap::default()
    }
}

/// Boots, checks that `id` is the only device, and runs its driver.
fn boot<F: Future<Output = Result<(), DriverError>> + 'static>(
    function: FunctionConfig,
    id: u16,
    fixed: Vec<FixedPlace>,
    driver: impl FnOnce(Cpu, FoundFunction) -> F + 'static,
) -> (Result<(), String>, Slot) {
    let mut slot = Slot::new(function);
    let mut program = AsyncProgram::new(slot.memory.clone(), move |cpu| async move {
        let system = enumerate_host(&cpu, &host(fixed)).await?;
        let found: Vec<FoundFunction> = system.functions().map(|f| f.found).collect();
        let [function] = found[..] else { return Err(format!("one function, not {found:?}").into()) };
        assert_eq!((function.vendor, function.device), (riser_devices::VENDOR, id));
        driver(cpu, function).await
    });
    let outcome = slot.run(&mut program);
    (outcome, slot)
}

#[test]
fn driver_exercises_memory_behind_endpoint() {
    for (bar, size_bytes) in [(0, 65536), (3, 16)] {
        let settings = memory::Settings { bar: BarIndex(bar), size_bytes, ..memory::Settings::default() };
        let function = memory::function(settings, PcieLayout::default()).unwrap();
        let driver = move |cpu, f| memory::driver(cpu, f, BarIndex(bar), 16);
        assert_eq!(boot(function, device_id::MEMORY, Vec::new(), driver).0, Ok(()));
    }
}

#[test]
fn simple_nic_sends_pings_through_its_endpoint() {
    let station = |n| Station { mac: [2, 0, 0, 0, 0, n], ip: Ipv4Addr::new(10, 0, 0, n) };
    let peer = Peer { station: station(2), latency: Duration::from_us(10) };
    let (counters, report) = (Shared::default(), PingReport::default());
    let nic = simple_nic::function(BarIndex(4), PcieLayout::default(), &PayloadPool::new(), peer, &counters)
        .unwrap();
    let settings = PingSettings {
        bar: BarIndex(4),
        local: station(1),
        peer: peer.station.ip,
        count: 3,
        bytes: 1472,
        timeout: Duration::from_ms(1),
    };
    let fixed = vec![FixedPlace { path: Path(vec![0]), bar: 4, address: FIXED }];
    let handle = report.clone();
    let driver = move |cpu, f| simple_nic::driver(cpu, f, settings, handle);
    let (outcome, slot) = boot(nic, device_id::SIMPLE_NIC, fixed, driver);
    assert_eq!(outcome, Ok(()));
    assert_eq!(slot.endpoint.config(0).unwrap().bar(4).unwrap().address, FIXED);
    // Descriptor, and the frame in three parallel reads of 512, 512 and 490 B.
    assert_eq!(report.get().round_trips, vec![Duration::from_us(11); 3]);
    let reads: Vec<u32> =
        slot.log.iter().filter_map(|e| if let Event::DmaRead(_, n) = e { Some(*n) } else { None }).collect();
    assert!(reads.windows(4).any(|w| w == [16, 512, 512, 490]), "{reads:?}");
    let vectors = [32, 33].map(|v| slot.log.iter().filter(|e| **e == Event::Interrupt(v)).count());
    assert_eq!(vectors, [4, 4], "ARP and three pings, sent and received");
}

#[test]
fn benchmark_runs_through_its_endpoint() {
    for test in pcie_bench::Test::DMA {
        for carry in [false, true] {
            let settings = pcie_bench::BenchSettings { test, carry, size_bytes: 1024, ..Default::default() };
            let window = pcie_bench::Window::of(&settings, plug::MemoryKind::Low);
            let results = plug::Shared::default();
            let pool = PayloadPool::new();
            let bench = pcie_bench::function(settings, PcieLayout::default(), &pool, &results).unwrap();
            let driver = move |cpu, f| pcie_bench::driver(cpu, f, window);
            let (outcome, _) = boot(bench, device_id::PCIE_BENCH, Vec::new(), driver);
            assert_eq!(outcome, Ok(()));
            let results = results.take();
            assert_eq!((results.transfers, results.failure), (10_000, None));
            assert!(results.latencies_ps.iter().all(|ps| *ps == 500_000), "two reads at once");
        }
    }
}
