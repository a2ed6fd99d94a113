// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The benchmark device allocates when it starts, but not per transfer.

use crate::common::{Loopback, found};
use allocation_counter::measure;
use config::PcieLayout;
use host::AsyncProgram;
use riser_devices::pcie_bench::*;
use tlp::{Duration, PayloadPool};

/// Allocations of a run of `transfers`. The host here has no log.
fn allocations(test: Test, transfers: u64, carry: bool, costs: CardCosts) -> u64 {
    let size_bytes = if costs.is_free() { 64 } else { 1024 };
    let settings = BenchSettings { test, transfers, carry, costs, size_bytes, ..BenchSettings::default() };
    let window = Window::of(&settings, plug::MemoryKind::Low);
    let results = plug::Shared::default();
    let bench = function(settings, PcieLayout::default(), &PayloadPool::new(), &results).unwrap();
    let mut host = Loopback::new(bench);
    host.keep_log = false;
    let start = |cpu| driver(cpu, found(0, BAR_BYTES), window);
    let mut program = AsyncProgram::new(host.memory.clone(), start);
    let counted = measure(|| host.run(&mut program).unwrap());
    assert_eq!(results.get().transfers, transfers);
    counted.count_total
}

/// A card with costs in every stage.
fn staged() -> CardCosts {
    let ns = Duration::from_ns;
    CardCosts {
        dma_issue: ns(50),
        dma_done: ns(50),
        loop_time: ns(100),
        loop_spread: ns(20),
        write: WriteCosts {
            pull: ns(4),
            beat: ns(2),
            beat_bytes: 16,
            boundary_bytes: 128,
            ..WriteCosts::default()
        },
        read: ReadCosts { slots: 8, request_bytes: 512, frame: ns(6), push: ns(4), ..ReadCosts::default() },
        ..CardCosts::default()
    }
}

#[test]
fn ten_times_the_transfers_take_no_more_allocations() {
    for test in Test::DMA {
        for (carry, costs) in [(false, CardCosts::default()), (true, CardCosts::default()), (true, staged())]
        {
            let [few, many] = [2_000, 20_000].map(|transfers| allocations(test, transfers, carry, costs));
            assert!(many <= few, "{test:?}, carry {carry}: {few} for 2000, {many} for 20000");
        }
    }
}
