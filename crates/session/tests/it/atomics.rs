// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Eight devices share one counter. No increment is lost, for any links, methods and numbers of outstanding requests.

use fabric::{Limits, Stop};
use lab::{LabFile, parse};
use proptest::prelude::*;
use riser_session::Session;
use std::path::Path;

fn lab(text: &str) -> Session {
    let lab = parse(&devices::models(), Path::new("lab.toml"), text).unwrap_or_else(|e| panic!("{e}"));
    Session::new(&LabFile { lab, base: ".".into() }).unwrap()
}

/// A slot of a lab with a counter device.
fn slot(n: usize, (generation, lanes, method, increments, outstanding): (u8, u8, &str, u64, u16)) -> String {
    format!(
        "[[slot]]\nname = \"d{n}\"\ndevice = \"counter\"\nlink = {{ gen = {generation}, lanes = {lanes} }}\n\
         [slot.counter]\nmethod = \"{method}\"\nincrements = {increments}\noutstanding = {outstanding}\n"
    )
}

/// Results of the counters in the reports of a run, in the order of slots.
fn counters(session: &Session, stop: &Stop) -> Vec<u64> {
    let report = session.report("lab.toml", stop, 0.0);
    report.devices.iter().filter_map(|d| d.counters.get("counter")?.as_u64()).collect()
}

/// The drivers compare too. This test checks the number itself: 8 times 100.
#[test]
fn eight_devices_share_one_counter_exactly() {
    for method in ["fetch-add", "compare-swap", "lock"] {
        let slots: String = (0..8).map(|n| slot(n, (3, 8, method, 100, 4))).collect();
        let mut session = lab(&format!("version = 1\n{slots}"));
        let stop = session.fabric.run(Limits::default());
        assert_eq!(stop, Stop::Finished, "{method}");
        assert_eq!(counters(&session, &stop), [800], "{method}");
        let root = session.fabric.root().counters();
        assert!(root.atomics >= 800, "{method}: {} atomics", root.atomics);
    }
}

/// `PCIe 5.0 §7.5.3.15`, bits 9:6 of Device Capabilities 2: a root port reports that it routes AtomicOps. It also
/// reports that it completes AtomicOps of 32 and 64 bits and CompareSwaps of 128 bits, as its memory does. Devices that
/// use them confirm it.
#[test]
fn root_ports_report_atomics() {
    let slots: String = (0..2).map(|n| slot(n, (3, 8, "fetch-add", 10, 1))).collect();
    let mut session = lab(&format!("version = 1\n{slots}"));
    for port in 0..2 {
        let space = session.fabric.root().space(port).unwrap();
        let capabilities_2 = space.read(space.pcie_capability().unwrap() + 9);
        assert_eq!(capabilities_2 >> 6 & 0b1111, 0b1111, "root port {port}");
    }
    assert_eq!(session.fabric.run(Limits::default()), Stop::Finished);
    assert!(session.fabric.root().counters().atomics >= 20);
}

/// With bit errors on every link: a replayed request is executed once.
#[test]
fn replays_do_not_count_twice() {
    let slots: String = (0..8).map(|n| slot(n, (3, 4, "fetch-add", 400, 8))).collect();
    let mut session = lab(&format!("version = 1\nseed = 3\n[link]\nbit_error_rate = 5e-6\n{slots}"));
    let stop = session.fabric.run(Limits::default());
    assert_eq!(stop, Stop::Finished);
    assert_eq!(counters(&session, &stop), [3200]);
    let report = session.report("lab.toml", &stop, 0.0);
    let replays: u64 = report.links.iter().flat_map(|l| &l.directions).map(|d| d.replays).sum();
    assert!(replays > 0, "the errors did nothing");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn any_mix_of_links_and_methods_is_exact(
        rows in prop::collection::vec((1u8..=5, 0usize..4, 0usize..3, 1u64..60, 1u16..20), 8),
    ) {
        let methods = ["fetch-add", "compare-swap", "lock"];
        let row = |(n, (g, lanes, m, i, o)): (usize, &(u8, usize, usize, u64, u16))| {
            slot(n, (*g, [1, 2, 8, 16][*lanes], methods[*m], *i, *o))
        };
        let slots: String = rows.iter().enumerate().map(row).collect();
        let mut session = lab(&format!("version = 1\n[host]\nprofile = \"xeon-e5-2637v3\"\n{slots}"));
        let stop = session.fabric.run(Limits::default());
        prop_assert_eq!(&stop, &Stop::Finished);
        let mut sums: Vec<u64> = (0..3)
            .map(|m| rows.iter().filter(|r| r.2 == m).map(|r| r.3).sum())
            .filter(|sum| *sum > 0)
            .collect();
        let mut held = counters(&session, &stop);
        sums.sort_unstable();
        held.sort_unstable();
        prop_assert_eq!(held, sums);
    }
}
