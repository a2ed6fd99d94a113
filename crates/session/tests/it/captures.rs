// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Contents of a lab's capture: every TLP once at each tap, in order of time.

use capture::check::{Checker, FunctionOverrides};
use capture::reader::Reader;
use fabric::{Limits, Side, Stop};
use lab::{LabFile, parse};
use riser_session::{CaptureOptions, Session};
use std::path::Path;
use tlp::Time;

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
    let (mut times, mut checker) = (Vec::new(), Checker::new(FunctionOverrides::default()));
    while let Some(record) = reader.next_record().unwrap() {
        times.push(record.timestamp.as_ps());
        checker.see(&record);
    }
    checker.finish();
    // Replays and TLPs out of sequence would break rules if the capture neither marked nor omitted them.
    assert_eq!(checker.next_finding(), None, "{at:?}, DLLPs {dllps}");
    (times, session.fabric.totals().tlp_hops)
}

#[test]
fn frames_are_in_time_order_at_both_ends() {
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

/// A header that is changed on the link is not a valid TLP, but its frame is intact. The receiver's end of the link captures the
/// changed header, and no later TLP is out of sequence.
#[test]
fn tap_shows_flipped_header_as_received() {
    let text = "version = 1\n[[slot]]\nname = \"card\"\ndevice = \"pcie-bench\"\n[slot.pcie-bench]\ntest = \"BW_RD\"\n\
                size_bytes = 64\ntransfers = 100\n[[fault]]\nslot = \"card\"\ndirection = \"upstream\"\nframes = \"non-posted\"\n\
                nth = 30\naction = \"flip-header\"\nheader_dw = 1\nheader_bits = 0xf0\n";
    for (at, due) in [(Side::Root, &["byte-enables"][..]), (Side::Device, &[])] {
        for dllps in [false, true] {
            let lab =
                parse(&devices::models(), Path::new("flip.toml"), text).unwrap_or_else(|e| panic!("{e}"));
            let mut session = Session::new(&LabFile { lab, base: "".into() }).unwrap();
            let handle = session.capture(Vec::new(), CaptureOptions { at, dllps }).unwrap();
            session.fabric.run(Limits { until: Time::from_ps(100_000_000), ..Limits::default() });
            let bytes = handle.finish().unwrap().unwrap();
            let (mut reader, mut checker) =
                (Reader::new(&bytes[..]).unwrap(), Checker::new(FunctionOverrides::default()));
            while let Some(record) = reader.next_record().unwrap() {
                checker.see(&record);
            }
            checker.finish();
            let found = std::iter::from_fn(|| checker.next_finding());
            let rules: Vec<_> = found.map(|finding| finding.violation.rule().name).collect();
            assert_eq!(rules, due, "{at:?}, DLLPs {dllps}");
        }
    }
}
