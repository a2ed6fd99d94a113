// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A partner that sends wrong frames: riser's port counts each, and goes on.

use super::data_link::SmallLink;
use super::{at_us, counters, protocol_errors};
use crate::common::link;
use crate::common::sources::write;
use crate::common::system::System;
use endpoint::{FramePort, FrameSlot, PhyEvent};
use link::{Counters, Ending, Frame, WireFrame, WireKind, tlp_frame};
use riser_fabric::{Fabric, Limits, LinkConfig, LinkId, Side, SlotConfig, Stop};
use std::collections::VecDeque;
use tlp::{Dllp, Rate, Time, crc};

/// A data link layer that initializes its link as the small one does, then sends a script.
struct Scripted {
    link: SmallLink,
    script: VecDeque<WireFrame>,
    from: Time,
    begins: bool,
}

impl Scripted {
    fn new(link: &LinkConfig, script: &[WireFrame]) -> Scripted {
        let (link, script) = (SmallLink::new(link.device.clone()), script.iter().cloned().collect());
        Scripted { link, script, from: at_us(20), begins: false }
    }
}

impl FramePort for Scripted {
    fn handle_phy(&mut self, now: Time, event: PhyEvent) {
        self.link.handle_phy(now, event);
    }

    fn handle_frame(&mut self, now: Time, frame: &WireFrame) {
        self.link.handle_frame(now, frame);
    }

    fn poll_frame(&mut self, now: Time) -> Option<WireFrame> {
        self.begins |= now >= self.from;
        let scripted = if self.begins { self.script.pop_front() } else { None };
        scripted.or_else(|| self.link.poll_frame(now))
    }

    fn poll_timeout(&self) -> Option<Time> {
        let script = Some(self.from).filter(|_| !self.begins);
        self.link.poll_timeout().into_iter().chain(script).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.begins |= now >= self.from;
        self.link.handle_timeout(now);
    }
}

/// Runs a script; returns the counters of the root's port, the writes that arrived and the frames that could not be read.
fn run(script: &[WireFrame]) -> (Counters, u64, u64) {
    let link = link(Rate::Gt2_5, 4, 256);
    let partner = Scripted::new(&link, script);
    let mut system = System::new();
    system.slots.push(SlotConfig::on_root_port(link, Box::new(FrameSlot::new(partner))));
    let mut fabric: Fabric = system.without_program();
    let stop = fabric.run(Limits { until: at_us(60), ..Limits::default() });
    assert!(matches!(stop, Stop::TimeLimit | Stop::Finished), "{stop}");
    counters(&fabric, Side::Device);
    let writes = fabric.root().counters().memory_writes;
    (counters(&fabric, Side::Root), writes, fabric.unreadable_frames(LinkId(0)))
}

fn good(sequence: u16) -> WireFrame {
    let tlp = write(0, 64);
    WireFrame::of(Frame::Tlp { sequence, tlp: &tlp })
}

fn changed(sequence: u16, change: impl Fn(&mut WireFrame)) -> WireFrame {
    let mut frame = good(sequence);
    change(&mut frame);
    frame
}

/// The bytes of the TLP in `frame`.
fn tlp_bytes(frame: &WireFrame) -> Vec<u8> {
    frame.bytes[2..frame.bytes.len() - 4].to_vec()
}

fn dllp(four: [u8; 4]) -> WireFrame {
    let [e, f] = crc::dllp(four).to_be_bytes();
    let [a, b, c, d] = four;
    WireFrame { kind: WireKind::Dllp, bytes: vec![a, b, c, d, e, f], ending: Ending::Good }
}

/// Rows: what is wrong with one of three frames; the counters of riser's port, the number of writes that arrive, and
/// of frames that the partner could not read.
#[test]
fn wrong_frames_are_counted() {
    type Seen = fn(&Counters) -> [u64; 3];
    let lcrc: Seen = |c| [c.bad_lcrc, c.dllps.nak, c.out_of_sequence];
    let errors: Seen = |c| [c.malformed_tlps, c.receiver_errors, c.bad_dllp_crc];
    let nullified = |frame: &mut WireFrame| {
        frame.ending = Ending::Nullified;
        let lcrc = frame.bytes.len() - 4;
        frame.bytes[lcrc..].iter_mut().for_each(|byte| *byte = !*byte);
    };
    let mut long = tlp_bytes(&good(1));
    long.extend([0; 8]);
    let mut short = tlp_bytes(&good(1));
    short.truncate(short.len() - 4);
    let of_bytes = |tlp: &[u8]| changed(1, |frame| frame.bytes = tlp_frame(1, tlp));
    type Row = (&'static str, WireFrame, Seen, [u64; 3], u64, u64);
    let rows: [Row; 15] = [
        ("nothing", good(1), lcrc, [0, 0, 0], 3, 0),
        ("a wrong LCRC", changed(1, |frame| frame.bytes[9] ^= 4), lcrc, [1, 1, 1], 1, 0),
        ("reserved bits", changed(1, |frame| frame.bytes[0] |= 0x40), lcrc, [1, 1, 1], 1, 0),
        ("a nullified TLP", changed(1, nullified), lcrc, [0, 1, 1], 1, 0),
        ("EDB alone", changed(1, |frame| frame.ending = Ending::Nullified), lcrc, [1, 1, 1], 1, 0),
        ("broken framing", changed(1, |frame| frame.ending = Ending::Broken), errors, [0, 1, 0], 1, 0),
        ("a TLP again", good(0), |c| [c.duplicate_tlps, c.dllps.nak, c.out_of_sequence], [1, 1, 1], 1, 0),
        ("a TLP too early", good(9), lcrc, [0, 1, 2], 1, 0),
        ("a TLP that is too long", of_bytes(&long), errors, [1, 0, 0], 2, 0),
        ("a TLP that is too short", of_bytes(&short), errors, [1, 0, 0], 2, 0),
        ("no TLP", of_bytes(&[0xff; 16]), lcrc, [0, 1, 1], 1, 1),
        ("no whole DWs", changed(1, |frame| frame.bytes.truncate(21)), lcrc, [0, 1, 1], 1, 1),
        ("nothing at all", changed(1, |frame| frame.bytes.clear()), lcrc, [0, 1, 1], 1, 1),
        ("a DLLP with a wrong CRC", changed(1, |frame| *frame = dllp([0, 0, 0, 1])), errors, [0, 0, 0], 1, 0),
        ("an unknown DLLP", dllp([0xff, 0, 0, 1]), errors, [0, 0, 0], 1, 1),
    ];
    for (what, frame, seen, expected, writes, unreadable) in rows {
        let (counters, arrived, unread) = run(&[good(0), frame, good(2)]);
        assert_eq!(
            (seen(&counters), arrived, unread),
            (expected, writes, unreadable),
            "{what}: {counters:#?}"
        );
    }
}

#[test]
fn wrong_dllps_are_counted() {
    let mut crc = dllp([0, 0, 0, 1]);
    crc.bytes[5] ^= 0x10;
    let mut unknown = dllp([0xff, 0, 0, 1]);
    unknown.bytes[4] ^= 1;
    let broken = WireFrame { ending: Ending::Broken, ..WireFrame::dllp(Dllp::Nop) };
    let edb = WireFrame { ending: Ending::Nullified, ..WireFrame::dllp(Dllp::Nop) };
    let short = WireFrame { bytes: vec![0; 5], ..dllp([0; 4]) };
    let (counters, _, unread) = run(&[crc, unknown, broken, edb, short]);
    assert_eq!((counters.bad_dllp_crc, counters.receiver_errors, unread), (2, 2, 1));
    // An Ack of a TLP that was never sent; an UpdateFC of more credits than there can be.
    let never = WireFrame::dllp(Dllp::Ack { sequence: 77 });
    let update = dllp([0x80, 0x3f, 0xc7, 0xff]);
    let (counters, ..) = run(&[never, update]);
    assert_eq!(protocol_errors(&counters), [1, 1, 0, 0, 0, 0]);
}

/// A partner that sends more than its credits: Receiver Overflow, and the TLPs after it arrive.
#[test]
fn partner_without_credits_overflows_the_receiver() {
    let mut starved = link(Rate::Gt2_5, 4, 256);
    starved.root.rx_buffer[0] = link::CreditLimit::finite(1, 16);
    // 20 units of data.
    let long = write(0, 320);
    let script = [good(0), WireFrame::of(Frame::Tlp { sequence: 1, tlp: &long }), good(2)];
    let partner = Scripted::new(&starved, &script);
    let mut system = System::new();
    system.slots.push(SlotConfig::on_root_port(starved, Box::new(FrameSlot::new(partner))));
    let mut fabric = system.without_program();
    fabric.run(Limits { until: at_us(60), ..Limits::default() });
    let root = counters(&fabric, Side::Root);
    assert_eq!((root.receiver_overflows, fabric.root().counters().memory_writes), (1, 2));
}
