// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The shipped labs of packet NICs, and illegal settings.

use fabric::{Limits, Stop};
use lab::read;
use riser_session::Session;
use riser_session::transactions::transactions;
use std::path::Path;

/// 4000 + 2000 frames in whole rings of 480, plus one ring: 6720; round trips: 1 + 16.
#[test]
fn shipped_labs_run_to_their_end() {
    for (name, frames, interrupts) in
        [("simple", 6720, 2 * 6720), ("kernel", 6720, 2 * 168), ("dpdk", 6720, 0), ("round-trip", 17, 0)]
    {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../labs/nic/{name}.toml"));
        let mut lab =
            Session::new(&read(&devices::models(), &path).unwrap_or_else(|e| panic!("{e}"))).unwrap();
        let stop = lab.fabric.run(Limits::default());
        assert_eq!(stop, Stop::Finished, "{name}");
        let report = lab.report(name, &stop, 0.0);
        let counters = &report.devices[0].counters;
        for (key, value) in [
            ("tx_frames", frames),
            ("rx_frames", frames),
            ("interrupts", interrupts),
            ("failed_transfers", 0),
        ] {
            assert_eq!(counters[key], value, "{name}: {key}");
        }
        assert_eq!(counters.contains_key("round_trip_ns_median"), name == "round-trip");
    }
}

/// A program that polls memory notices a frame when its write is visible, which is the end of the transaction.
#[test]
fn round_trips_include_root_complex_and_memory() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/nic/round-trip.toml");
    let file = read(&devices::models(), &path).unwrap_or_else(|e| panic!("{e}"));
    let mut lab = Session::new(&file).unwrap();
    let stop = lab.fabric.run(Limits::default());
    let report = lab.report("round-trip", &stop, 0.0);
    let all = transactions(&lab.fabric, 0, lab.host_basis());
    let least = |kind| all.iter().find(|t| t.kind == kind).unwrap().latency_ns_min;
    let pcie = report.devices[0].counters["round_trip_pcie_ns_median"].as_f64().unwrap();
    assert!(pcie >= least("host_write") + least("dma_write"), "{pcie} ns: {all:?}");
}
