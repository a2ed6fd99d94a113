// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a capture of a lab holds: every TLP once at each tap, in order of time.

use capture::check::{Checker, Settings};
use capture::reader::Reader;
use fabric::{Limits, Side, Stop};
use lab::{LabFile, parse};
use riser_session::{CaptureOptions, Session};
use std::path::Path;

const LAB: &str = "
version = 1
[link]
bit_error_rate = 1e-6
[[slot]]
name = \"copies\"
device = \"pcie-bench\"
[slot.pcie-bench]
test = \"BW_RDWR\"
size_bytes = 1500
transfers = 400
carry = true
[[slot]]
name = \"slow\"
device = \"pcie-bench\"
link = { gen = 1, lanes = 1 }
[slot.pcie-bench]
test = \"BW_RDWR\"
transfers = 100
";

/// Timestamps of the frames of a capture at `at`, and its bytes.
fn times(at: Side, dllps: bool) -> (Vec<u128>, u64) {
    let path = Path::new("captures.toml");
    let lab = parse(&devices::models(), path, LAB).unwrap_or_else(|e| panic!("{e}"));
    let mut session = Session::new(&LabFile { lab, base: "".into() }).unwrap();
    let handle = session.capture(Vec::new(), CaptureOptions { at, dllps }).unwrap();
    assert_eq!(session.fabric.run(Limits::default()), Stop::Finished);
    let bytes = handle.finish().unwrap().unwrap();
    let mut reader = Reader::new(&bytes[..]).unwrap();
    let (mut times, mut checker) = (Vec::new(), Checker::new(Settings::default()));
    while let Some(record) = reader.next_record().unwrap() {
        times.push(record.timestamp.as_ps());
        checker.see(&record);
    }
    checker.finish();
    // Replays and TLPs out of sequence would break rules if the capture did not mark them, or leave them out.
    assert_eq!(checker.next_finding(), None, "{at:?}, DLLPs {dllps}");
    (times, session.fabric.totals().tlp_hops)
}

#[test]
fn frames_are_in_order_of_time_at_either_end() {
    for at in [Side::Root, Side::Device] {
        for dllps in [false, true] {
            let (times, hops) = times(at, dllps);
            assert!(times.len() as u64 >= hops, "{at:?}: {} frames of {hops} hops", times.len());
            assert!(times.is_sorted(), "{at:?}, DLLPs {dllps}");
            // The first InitFC1 of the fast link: 8 B on 8 lanes at 8 GT/s.
            assert_eq!(times[0] == 1015, dllps);
        }
    }
}
