// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The data link layer of `rtl/pcie_stack` under Verilator below a device of a lab: the driver of the device checks every
//! byte, whatever happens to frames, and the TLPs are those of riser's own link.

use crate::rtl_rig::{copy, has_verilator};
use fabric::{Direction, Limits, LinkId, PortId, Side, Stop, Tap, TapRecord};
use lab::{BuildOptions, LabFile, parse};
use link::{Counters, Frame};
use plug::site::NativeCode;
use riser_worlds::models;
use session::Session;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use tempfile::TempDir;

/// A copy of the RTL in `folder`, with its library for a lab.
fn build(folder: &Path) {
    copy(folder);
    let file = folder.join("lab/frame_link.toml");
    // Two channels, for the lab that has two.
    let text = fs::read_to_string(&file).unwrap() + "\n[parameters]\n";
    let text = text.replace("parameters.DATA_WIDTH = \"256\"", "").replace(
        "\n[parameters]\n",
        "\n[parameters]\nDATA_WIDTH = \"256\"\nNUM_VCS = \"2\"\nREPLAY_TLPS = \"32\"\n",
    );
    fs::write(&file, text).unwrap();
    rtl::build(&file, &rtl::Options::default(), &mut |_| {}).unwrap_or_else(|e| panic!("{e}"));
}

/// TLPs as text, by direction and class.
type TlpLines = BTreeMap<(Direction, usize), Vec<TlpLine>>;

/// A TLP as text, and its data if the simulation carries them.
#[derive(Clone, Debug)]
struct TlpLine(String, Option<Vec<u8>>);

/// riser's own link may only count data that the RTL carries as bytes.
impl PartialEq for TlpLine {
    fn eq(&self, other: &TlpLine) -> bool {
        self.0 == other.0 && (self.1 == other.1 || self.1.is_none() || other.1.is_none())
    }
}

/// TLPs that arrive intact and in order, and the next sequence number of each direction.
#[derive(Clone, Default)]
struct Tlps(Rc<RefCell<TlpLines>>, Rc<RefCell<[u16; 2]>>);

impl Tap for Tlps {
    fn frame(&mut self, r: &TapRecord<'_>) {
        let Frame::Tlp { sequence, tlp } = r.frame else { return };
        let next = &mut self.1.borrow_mut()[r.direction as usize];
        if r.direction == Direction::of_sender(r.at) || r.damaged || r.dropped || sequence != *next {
            return;
        }
        *next = (*next + 1) % 4096;
        let line = TlpLine(tlp.to_string(), tlp.data.bytes().map(<[u8]>::to_vec));
        self.0.borrow_mut().entry((r.direction, tlp.class().index())).or_default().push(line);
    }
}

/// Runs a lab with the RTL, or with riser's own link; returns the counters of both ends and the TLPs.
fn run(folder: &Path, is_rtl: bool, extra: &str) -> (Session, [Counters; 2], TlpLines) {
    let link = "data_link = \"rtl-link\"\n[slot.rtl-link]\ndesign = \"lab/frame_link.toml\"\n";
    let text = format!(
        "version = 1\nlimit_us = 20000\n{extra}\n[[slot]]\nname = \"device\"\ndevice = \"endpoint-test\"\n{}\n\
         [slot.endpoint-test]\nsizes_bytes = [1, 1024, 1025, 9001]\n",
        if is_rtl { link } else { "" }
    );
    let path = folder.join("lab.toml");
    let lab = parse(&models(), &path, &text).unwrap_or_else(|e| panic!("{e}"));
    let file = LabFile { lab, base: folder.into() };
    let mut session = Session::with(&file, BuildOptions::native(NativeCode::Allowed)).unwrap();
    let tlps = Tlps::default();
    session.fabric.set_tap(Box::new(tlps.clone()));
    let stop = session.fabric.run(Limits::default());
    assert_eq!(stop, Stop::Finished, "{extra}: {:?}", session.fabric.slot_counts(0));
    let counters =
        [Side::Root, Side::Device].map(|side| *session.fabric.port_counters(PortId::new(LinkId(0), side)));
    for end in &counters {
        assert_eq!(end.classified_bytes(), end.wire_bytes, "{extra}");
    }
    let errors = counters[0];
    assert_eq!(
        (errors.receiver_overflows, errors.flow_control_protocol_errors, errors.malformed_tlps),
        (0, 0, 0),
        "{extra}"
    );
    let seen = tlps.0.borrow().clone();
    (session, counters, seen)
}

fn count(session: &Session, name: &str) -> u64 {
    let counts = session.fabric.slot_counts(0);
    counts.iter().find(|(counted, _)| *counted == name).map_or(0, |(_, n)| *n)
}

fn fault(direction: &str, frames: &str, kind: &str, rest: &str) -> String {
    format!(
        "[[fault]]\nslot = \"device\"\ndirection = \"{direction}stream\"\nframes = \"{frames}\"\naction = \"{kind}\"\nnth = 9\n{rest}\n"
    )
}

/// Builds the RTL in a new folder. Returns the folder, with counters and TLPs of riser's own link. Prints that the test is skipped and returns `None`
/// without Verilator.
fn built() -> Option<(TempDir, [Counters; 2], TlpLines)> {
    if !has_verilator() {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    build(folder.path());
    let (_, counters, expected) = run(folder.path(), false, "");
    assert!(expected.values().map(Vec::len).sum::<usize>() > 400);
    Some((folder, counters, expected))
}

#[test]
fn rtl_and_riser_judge_each_other() {
    let Some((folder, plain, expected)) = built() else { return };
    let folder = folder.path();
    let (session, [root, device], seen) = run(folder, true, "");
    assert_eq!(seen, expected, "the TLPs of riser's own link");
    assert_eq!((root.tlps, device.tlps), (plain[0].tlps, plain[1].tlps));
    assert_eq!((root.replayed_tlps, device.replayed_tlps, count(&session, "rtl_bad_lcrc")), (0, 0, 0));
    assert_eq!((root.bad_dllp_crc, root.duplicate_tlps, root.data_link_protocol_errors), (0, 0, 0));
}

#[test]
#[ignore = "of .ci/long stack"]
fn every_fault_of_frames_is_repaired() {
    let Some((folder, _, expected)) = built() else { return };
    let folder = folder.path();
    let (session, [root, device], seen) = run(folder, true, "[link]\nbit_error_rate = 2e-5\n");
    assert_eq!(seen, expected);
    assert!(root.bad_lcrc > 0 && device.replayed_tlps > 0 && root.replayed_tlps > 0);
    assert!(count(&session, "rtl_bad_lcrc") > 0 && count(&session, "rtl_naks_sent") > 0);

    let channels = "[link]\nvc = [{ id = 0, tcs = [0] }, { id = 1, tcs = [1, 2, 3, 4, 5, 6, 7] }]\n";
    let (_, [root, device], seen) = run(folder, true, channels);
    // Firmware also configures the channels.
    let (_, _, own) = run(folder, false, channels);
    assert_eq!(seen, own);
    assert!(root.dllps.init_fc >= 9 && device.dllps.init_fc >= 9);

    for direction in ["up", "down"] {
        // A period could hit the same TLP in each replay.
        let every = "every = 1\nprobability = 0.16";
        for (frames, kind) in [
            ("tlp", "drop"),
            ("tlp", "double"),
            ("tlp", "corrupt"),
            ("dllp", "drop"),
            ("dllp", "double"),
            ("dllp", "corrupt"),
            ("any", "break-framing"),
        ] {
            let (session, [root, device], seen) = run(folder, true, &fault(direction, frames, kind, every));
            let what = format!("{kind} of {frames} {direction}");
            assert_eq!(seen, expected, "{what}");
            let rtl = |name| count(&session, name);
            let is_seen = match (frames, kind, direction) {
                ("tlp", "drop", "up") => root.out_of_sequence > 0 && device.replayed_tlps > 0,
                ("tlp", "drop", _) => rtl("rtl_sequence_gaps") > 0 && root.replayed_tlps > 0,
                ("tlp", "double", "up") => root.duplicate_tlps > 0,
                ("tlp", "double", _) => rtl("rtl_duplicates") > 0,
                ("tlp", "corrupt", "up") => root.bad_lcrc > 0 && rtl("rtl_naks_received") > 0,
                ("tlp", "corrupt", _) => rtl("rtl_bad_lcrc") > 0 && root.nak_received > 0,
                ("dllp", "corrupt", "up") => root.bad_dllp_crc > 0,
                ("dllp", "corrupt", _) => rtl("rtl_bad_dllps") > 0,
                ("any", _, "up") => root.receiver_errors > 0,
                ("any", ..) => rtl("rtl_receiver_errors") + rtl("rtl_bad_dllps") > 0,
                _ => root.data_link_protocol_errors + rtl("rtl_protocol_errors") == 0,
            };
            assert!(is_seen, "{what}: {:?}\n{root:#?}", session.fabric.slot_counts(0));
        }
    }

    // As few credits as the specification allows.
    let starved = "[link]\nroot_credits = { posted_header = 1, posted_data = 16, non_posted_header = 1, non_posted_data = 2 }\n\
                   device_credits = { posted_header = 1, posted_data = 16, non_posted_header = 1, non_posted_data = 1 }\n";
    let (session, [root, device], seen) = run(folder, true, starved);
    assert_eq!(seen, expected);
    assert!(root.dllps.update_fc > 100 && device.dllps.update_fc > 20);
    assert_eq!(count(&session, "rtl_overflows"), 0);

    // Every TLP is lost for a while: REPLAY_NUM rolls over at either end.
    for (direction, is_up) in [("up", true), ("down", false)] {
        let storm = fault(direction, "tlp", "drop", "every = 1\ncount = 60");
        let (session, [root, _], seen) = run(folder, true, &storm);
        assert_eq!(seen, expected);
        assert_eq!(
            (count(&session, "rtl_replay_rollovers") > 0, root.replay_num_rollovers > 0),
            (is_up, !is_up)
        );
    }
}
