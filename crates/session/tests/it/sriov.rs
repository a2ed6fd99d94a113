// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Virtual functions in a complete lab. Enumeration enables them by TLPs. A driver for each moves data and checks every
//! byte. Each takes its own interrupts, and all get equal shares.

use fabric::{Limits, Stop};
use host::firmware::FIRST_VECTOR;
use lab::{LabFile, parse};
use riser_session::{Session, TreePosition, enumerate};
use serde_json::Value;
use std::path::Path;
use tlp::Bdf;

fn assemble(text: &str) -> Session {
    let lab = parse(&devices::models(), Path::new("lab.toml"), text).unwrap_or_else(|e| panic!("{e}"));
    Session::new(&LabFile { lab, base: ".".into() }).unwrap()
}

fn lab(vfs: u16, transfers: u32, size_bytes: u32, window: u16) -> String {
    format!(
        "version = 1\n[[slot]]\nname = \"card\"\ndevice = \"dma-engine\"\n[slot.dma-engine]\nvfs = {vfs}\n\
         transfers = {transfers}\nsize_bytes = {size_bytes}\nwindow = {window}\n"
    )
}

/// Runs the lab to its end, which is successful only if every byte was right.
fn run(text: &str) -> Session {
    let mut session = assemble(text);
    assert_eq!(session.fabric.run(Limits::default()), Stop::Finished);
    session
}

/// Each function has moved all its data in both directions, without failures.
fn assert_moved(session: &Session, functions: usize, bytes: u64) {
    let report = session.report_of::<devices::dma_engine::EngineReport>().unwrap();
    let report = report.get();
    assert_eq!(report.functions.len(), functions);
    for (n, function) in report.functions.iter().enumerate() {
        let rings: Vec<_> = function.rings.iter().map(|r| (r.bytes, r.failed, r.refused)).collect();
        assert_eq!(rings, [(bytes, 0, 0); 2], "function {n}");
        assert!(function.end.is_some());
    }
}

#[test]
fn each_function_moves_its_bytes() {
    for (vfs, transfers, size_bytes, window) in [(0, 8, 4096, 32), (1, 20, 520, 1), (6, 9, 2048, 7)] {
        let session = run(&lab(vfs, transfers, size_bytes, window));
        assert_moved(&session, usize::from(vfs) + 1, u64::from(transfers) * u64::from(size_bytes));
    }
}

#[test]
fn equal_functions_get_equal_shares() {
    let session = run(&lab(7, 128, 4096, 32));
    assert_moved(&session, 8, 128 * 4096);
    let report = session.report_of::<devices::dma_engine::EngineReport>().unwrap();
    let shares: Vec<u64> = report.get().functions.iter().map(|f| f.shared_bytes).collect();
    let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
    assert!(most * 98 <= least * 100, "{shares:?}");
}

/// For writes, and for reads of a shared window, each function gets the share of its weight.
#[test]
fn bandwidth_of_functions_follows_weights() {
    for directions in ["h2d", "d2h"] {
        let text = lab(3, 400, 4096, 32);
        let session = run(&format!("{text}weights = [1, 2, 4, 1]\ndirections = \"{directions}\"\n"));
        let report = session.report_of::<devices::dma_engine::EngineReport>().unwrap();
        let shares: Vec<u64> = report.get().functions.iter().map(|f| f.shared_bytes).collect();
        let all: u64 = shares.iter().sum();
        for (share, weight) in shares.iter().zip([1u64, 2, 4, 1]) {
            let expected = all * weight / 8;
            assert!(share.abs_diff(expected) * 100 <= expected * 5, "{directions}: {shares:?}");
        }
    }
}

#[test]
fn the_report_has_a_row_for_each_function() {
    let mut session = assemble(&lab(2, 4, 1024, 8));
    let stop = session.fabric.run(Limits::default());
    let report = session.report("lab.toml", &stop, 0.0);
    let counters = &report.devices[0].counters;
    for function in ["pf", "vf000", "vf001"] {
        assert_eq!(counters[&format!("{function}.descriptors")], Value::from(8));
        assert_eq!(counters[&format!("{function}.failed")], Value::from(0));
        let rate = counters[&format!("{function}.h2d_gbps")].as_f64().unwrap();
        assert!((0.1..64.0).contains(&rate), "{rate} Gb/s on x8 of generation 3");
    }
    let shares: f64 =
        ["pf", "vf000", "vf001"].iter().map(|f| counters[&format!("{f}.share")].as_f64().unwrap()).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{shares}");
    assert_eq!(counters["virtual_functions_enabled"], Value::from(2));
    // Two vectors for each function, in addition to those of root ports.
    assert!(counters["interrupts"].as_u64().unwrap() >= 6 && FIRST_VECTOR == 32);
}

#[test]
fn all_255_virtual_functions_are_found_and_run() {
    let session = run(&lab(255, 2, 512, 64));
    assert_moved(&session, 256, 1024);
}

/// First VF Offset and VF Stride are 1, so the 256th virtual function is 256 IDs after the physical one (`PCIe 5.0
/// §9.3.3.9`, `§9.3.3.10`). It is function 0 of the next bus, which configuration requests of type 1 reach
/// (`§9.2.1.2`). On a root port and below a switch. The next slot has the bus after that, and the raw device there uses
/// it.
#[test]
fn virtual_function_256_is_on_the_next_bus() {
    let traffic = "[[slot]]\nname = \"raw\"\ndevice = \"traffic\"\n[[slot.traffic.flow]]\nname = \"w\"\nkind = \"write\"\n\
                   size_bytes = 64\ncount = 5\n";
    let rows = [(false, 0x01), (true, 0x03)];
    for (behind_a_switch, bus) in rows {
        let mut text = lab(256, 2, 512, 64) + traffic;
        if behind_a_switch {
            text = text.replace("[slot.dma-engine]", "parent = \"s\"\n[slot.dma-engine]");
            text = text.replace("[[slot.traffic.flow]]", "parent = \"s\"\n[[slot.traffic.flow]]");
            text += "[[switch]]\nname = \"s\"\n";
        }
        assert_moved(&run(&text), 257, 1024);
        let file = LabFile {
            lab: parse(&devices::models(), Path::new("lab.toml"), &text).unwrap(),
            base: ".".into(),
        };
        let found = enumerate(&file).unwrap_or_else(|e| panic!("{e}"));
        let ids: Vec<Bdf> = found.functions.iter().map(|f| f.bdf).filter(|b| b.bus() == bus).collect();
        assert_eq!(ids.len(), 256);
        let last: Vec<Bdf> = found.functions.iter().map(|f| f.bdf).filter(|b| b.bus() == bus + 1).collect();
        assert_eq!(last, [Bdf::from_bits(u16::from(bus + 1) << 8)]);
        let place = &found.functions.iter().find(|f| f.bdf == last[0]).unwrap().place;
        let pf = Bdf::from_bits(u16::from(bus) << 8);
        assert_eq!(
            *place,
            TreePosition::Slot { slot: "card".into(), model: "dma-engine".into(), vf_of: Some(pf) }
        );
        assert!(found.system.tree().contains(&format!("[0000:{:02x}]-", bus + 1)), "{}", found.system.tree());
    }
}

#[test]
fn functions_work_below_a_switch() {
    let text = lab(4, 8, 4096, 16).replace("[slot.dma-engine]", "parent = \"s\"\n[slot.dma-engine]");
    let session = run(&format!("{text}[[switch]]\nname = \"s\"\n"));
    assert_moved(&session, 5, 8 * 4096);
}

/// An engine without virtual functions may interrupt by MSI, or by a level, and its driver moves as much.
#[test]
fn engine_interrupts_by_msi_or_intx() {
    for (kind, counter) in [("msi-x", "interrupts"), ("msi", "interrupts"), ("intx", "intx_messages")] {
        let session = run(&format!("{}interrupts = \"{kind}\"\n", lab(0, 64, 1024, 32)));
        assert_moved(&session, 1, 64 * 1024);
        let counters = session.fabric.slot_counts(0);
        let count = counters.iter().find(|(name, _)| *name == counter).map_or(0, |(_, count)| *count);
        // An interrupt per half of a ring of 16, for each function and direction. A level that is already asserted
        // causes no further interrupt.
        assert!(if kind == "intx" { (2..=32).contains(&count) } else { count == 16 }, "{kind}: {count}");
    }
}
