// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The byte form of frames: literal frames that riser had no part in making, any frames, and any bytes.

use crate::checks_frame;
use proptest::prelude::*;
use riser_link::{Frame, FrameError, WireKind};
use std::path::Path;
use std::process::Command;
use tlp::{
    Bdf, Body, Class, Data, Dllp, DllpError, FlowControl, FlowControlKind, MemoryOp, MemoryRequest,
    PayloadPool, Repr, Scale, Span, Tag, Tlp, TrafficClass, Vc,
};

const FRAMES: &str = include_str!("../corpus/frames.txt");

fn bytes_of(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// The value of a field of a line.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// The name of an error in the corpus.
fn name(error: FrameError) -> &'static str {
    match error {
        FrameError::Length(_) | FrameError::Dllp(DllpError::Length(_)) => "length",
        FrameError::Reserved(_) => "reserved",
        FrameError::Lcrc { .. } => "lcrc",
        FrameError::Tlp(_) => "tlp",
        FrameError::Dllp(DllpError::Crc { .. }) => "crc",
        FrameError::Dllp(DllpError::UnknownType(_)) => "type",
    }
}

#[test]
fn literal_frames_are_read_and_written() {
    let pool = PayloadPool::new();
    let (mut good, mut bad) = (0, 0);
    for line in FRAMES.lines().filter(|line| !line.starts_with('#')) {
        let bytes = bytes_of(line.split_whitespace().next().unwrap());
        let is_tlp = field(line, "kind") == Some("TLP");
        let kind = if is_tlp { WireKind::Tlp } else { WireKind::Dllp };
        let read = Frame::read(kind, &bytes, &pool);
        if let Some(error) = field(line, "error") {
            bad += 1;
            assert_eq!(read.map_err(name), Err(error), "{line}");
            continue;
        }
        good += 1;
        let expected = if is_tlp {
            let tlp = Tlp::parse(&bytes_of(field(line, "tlp").unwrap()), &pool).unwrap();
            Frame::Tlp { sequence: field(line, "sequence").unwrap().parse().unwrap(), tlp }
        } else {
            Frame::Dllp(Dllp::parse(&bytes).unwrap())
        };
        assert_eq!(read.as_ref(), Ok(&expected), "{line}");
        assert_eq!(expected.as_ref().write(), bytes, "{line}");
    }
    assert!(good > 200 && bad > 70, "{good} {bad}");
}

/// The file is what the script writes; without a python3 nothing is compared, and the test says so.
#[test]
fn corpus_of_frames_matches_the_script() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/corpus/make_corpus.py");
    let Ok(run) = Command::new("python3").arg(&script).arg("frames").output() else {
        println!("skipped: no python3 to run {}", script.display());
        return;
    };
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert!(run.stdout == FRAMES.as_bytes(), "frames.txt is not what the script writes; write it anew");
}

#[test]
fn frame_seeds_hold() {
    let seeds = testkit::seeds("frame_read");
    seeds.iter().for_each(|(_, seed)| checks_frame::frame(seed));
    assert!(seeds.len() >= 24, "{}", seeds.len());
}

fn any_tlp() -> impl Strategy<Value = Tlp> {
    let fields = (0..8_u8, any::<u16>(), 0..1024_u16, any::<u32>(), 1..600_u32, any::<bool>());
    fields.prop_map(|(tc, requester, tag, address, len, is_write)| {
        let len = len.min(4096 - address % 4096);
        let span = Span::covering(u64::from(address), len).unwrap();
        let op = if is_write { MemoryOp::Write } else { MemoryOp::Read };
        let data = (0..len).map(|n| (n ^ address) as u8).collect::<Vec<u8>>();
        let data = if is_write { Data::Carried(PayloadPool::new().copy(&data)) } else { Data::NONE };
        let (requester, tag) = (Bdf::from_bits(requester), Tag::from_bits(tag));
        let mut repr = Repr::new(Body::Memory(MemoryRequest { op, requester, tag, span }));
        repr.tc = TrafficClass::from_bits(tc);
        Tlp::new(repr, data).with_carry(true)
    })
}

fn any_dllp() -> impl Strategy<Value = Dllp> {
    let kinds = [FlowControlKind::InitFc1, FlowControlKind::InitFc2, FlowControlKind::UpdateFc];
    let credits = (0..3_usize, 0..3_usize, any::<u8>(), any::<u8>(), any::<u8>(), 0..4096_u16);
    let credits = credits.prop_map(move |(kind, class, vc, scales, header, data)| {
        Dllp::FlowControl(FlowControl {
            header_scale: Scale::from_bits(scales),
            data_scale: Scale::from_bits(scales >> 2),
            ..FlowControl::new(kinds[kind], Class::ALL[class], Vc::from_bits(vc), header, data)
        })
    });
    let acks = (any::<bool>(), 0..4096_u16).prop_map(|(ack, sequence)| match ack {
        true => Dllp::Ack { sequence },
        false => Dllp::Nak { sequence },
    });
    prop_oneof![credits, acks]
}

proptest! {
    #[test]
    fn written_frames_are_read_unchanged(sequence in 0..4096_u16, tlp in any_tlp(), dllp in any_dllp()) {
        let pool = PayloadPool::new();
        for frame in [Frame::Tlp { sequence, tlp }, Frame::Dllp(dllp)] {
            let bytes = frame.as_ref().write();
            prop_assert_eq!(bytes.len() as u32 * 8, frame.as_ref().bit_len());
            let kind = frame.as_ref().wire_kind();
            prop_assert_eq!(Frame::read(kind, &bytes, &pool), Ok(frame));
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(input in prop::collection::vec(any::<u8>(), 0..80)) {
        checks_frame::frame(&input);
    }
}
