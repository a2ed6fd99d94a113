// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The benchmark device allocates when it is started, and not for its transfers.

mod common;

use allocation_counter::measure;
use common::{Loopback, found};
use config::PcieLayout;
use device::AsyncProgram;
use riser_devices::pcie_bench::*;
use tlp::PayloadPool;

/// Allocations of a whole run of `transfers`; the host here keeps no list of what passes.
fn allocations(test: Test, transfers: u64, carry: bool) -> u64 {
    let settings = Settings { test, transfers, carry, ..Settings::default() };
    let results = ResultsHandle::new();
    let bench = function(settings, PcieLayout::default(), &PayloadPool::new(), &results).unwrap();
    let mut host = Loopback::new(bench);
    host.keep_log = false;
    let start = |cpu| driver(cpu, found(0, BAR_BYTES), 8192, Placement::Low);
    let mut program = AsyncProgram::new(host.memory.clone(), start);
    let counted = measure(|| host.run(&mut program).unwrap());
    assert_eq!(results.get().transfers, transfers);
    counted.count_total
}

#[test]
fn ten_times_the_transfers_take_no_more_allocations() {
    for test in Test::ALL {
        for carry in [false, true] {
            let (few, many) = (allocations(test, 2_000, carry), allocations(test, 20_000, carry));
            assert!(many <= few, "{test:?}, carry {carry}: {few} for 2000, {many} for 20000");
        }
    }
}
