// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the lab of `labs/` and checks its report. The lab's driver checks every byte in host memory.

use fabric::Stop;
use my_device::Settings;
use plug::Model;
use plug::file::Folder;
use plug::transfers::{Test, Workload};
use riser_lab::{Overrides, parse_with};
use riser_session::{Session, SessionReport};
use std::path::Path;

/// Runs the lab with the keys of `set` changed.
fn run(set: &[&str]) -> Result<SessionReport, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("labs/my-device.toml");
    let text = std::fs::read_to_string(&path).map_err(|e| e.to_string())?;
    let models = my_device::models().map_err(|e| e.to_string())?;
    let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
    let file = parse_with(&models, &path, &text, Folder::of(&path), &Overrides::new(&set));
    let mut session = Session::new(&file.map_err(|e| e.to_string())?).map_err(|e| e.to_string())?;
    let stop = session.run_to_end();
    let report = session.report("labs/my-device.toml", &stop, 0.0);
    if stop == Stop::Finished { Ok(report) } else { Err(stop.to_string()) }
}

#[test]
fn copies_and_counts_every_byte() {
    for (set, copies, bytes) in [
        (&[][..], 4, 4 * 65536),
        (&["slot.card.my-device.in_flight=1", "slot.card.my-device.copies=1"], 1, 65536),
        (&["slot.card.my-device.copy_bytes=1000", "slot.card.my-device.piece_bytes=300"], 4, 4000),
        // A physical function and two virtual functions.
        (&["slot.card.my-device.vfs=2", "slot.card.my-device.copies=1"], 3, 3 * 65536),
    ] {
        let report = run(set).unwrap_or_else(|e| panic!("{set:?}: {e}"));
        let counters = &report.devices[0].counters;
        assert_eq!((counters["copies"].as_u64(), counters["bytes"].as_u64()), (Some(copies), Some(bytes)));
        assert!(counters["copied_gbps"].as_f64() > Some(1.0), "{counters:?}");
        // Upstream payload: the copies, 4 B for each copy's interrupt, and the register reads.
        let upstream = report.links[0].directions.iter().find(|d| d.direction == "upstream");
        let payload = upstream.map_or(0, |d| d.payload_bytes);
        assert!(payload >= bytes + 4 * copies && payload < bytes + 2048 * copies, "{payload}");
    }
}

#[test]
fn more_pieces_in_flight_are_faster() {
    let gbps = |in_flight: u16| {
        let report =
            run(&[&format!("slot.card.my-device.in_flight={in_flight}")]).unwrap_or_else(|e| panic!("{e}"));
        report.devices[0].counters["copied_gbps"].as_f64().unwrap_or_default()
    };
    let (one, many) = (gbps(1), gbps(16));
    assert!(many > 2.0 * one, "{one} Gb/s with one piece, {many} with sixteen");
}

#[test]
fn rejects_invalid_settings() {
    for (set, says) in [
        ("slot.card.my-device.piece_bytes=8192", "piece_bytes of 8192, expected 1 to 4096"),
        ("slot.card.my-device.copy_bytes=100", "piece_bytes of 512, expected at most copy_bytes, 100"),
        ("slot.card.my-device.copy=1", "unknown field `copy`"),
    ] {
        let error = run(&[set]).map(|_| ()).unwrap_err();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn offers_alternating_reads_and_writes() {
    let of = |workload| Settings::offer(&workload, &Folder::default()).map(|offer| offer.window_bytes);
    let usual = Workload::new(Test::BwRdWr, 256);
    assert_eq!(of(usual.clone()), Ok(64 * 256));
    let error = of(Workload { window_bytes: Some(1000), ..usual }).unwrap_err();
    assert_eq!(error.to_string(), "window_bytes of 1000, expected a multiple of size_bytes, 256");
}
