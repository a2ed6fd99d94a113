// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares descriptors and beats with those of cocotbext-pcie's models, an independent implementation.
//! `tests/us_beats.py` generates this data, and explains how to generate more. Parity is not compared, because riser's
//! is zero. In CQ the position of byte enables is not compared if a packet begins only in the upper half. The model
//! places these bits by half of the beat, but the guide (PG213, m_axis_cq_tuser) by packet.

use super::pack::{ErrorCode, Packet, RequestTarget};
use super::show::Show;
use super::take::Take;
use super::unpack::{Came, completion, request};
use crate::block::descriptor::{Read, Stream};
use crate::block::{BlockKind, Shape};
use crate::signals::{Inputs, Layout, Outputs};
use tlp::{PayloadPool, Tlp};

/// A stream of the file: its TLPs, each with the other values of its line, and its beats.
struct Case {
    stream: Stream,
    width: u16,
    packets: usize,
    tlps: Vec<(Vec<u8>, Vec<u32>)>,
    beats: Vec<Beat>,
}

/// Data and user signals: words from bit 0.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Beat {
    data: Vec<u32>,
    keep: u32,
    last: bool,
    user: Vec<u32>,
}

fn number(text: &str) -> u32 {
    u32::from_str_radix(text, 16).unwrap()
}

/// Parses a wide number as words from bit 0.
fn words(text: &str, count: usize) -> Vec<u32> {
    let digits: Vec<u32> = text.chars().rev().map(|c| c.to_digit(16).unwrap()).collect();
    let word = |n: usize| digits.iter().skip(8 * n).take(8).enumerate().map(|(k, d)| d << (4 * k)).sum();
    (0..count).map(word).collect()
}

fn cases(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let parts: Vec<&str> = line.split(' ').collect();
        if parts[0] == "S" {
            let stream = match parts[1] {
                "rq" => Stream::Rq,
                "rc" => Stream::Rc,
                "cq" => Stream::Cq,
                _ => Stream::Cc,
            };
            let (width, packets) = (parts[2].parse().unwrap(), parts[3].parse().unwrap());
            cases.push(Case { stream, width, packets, tlps: Vec::new(), beats: Vec::new() });
            continue;
        }
        let case = cases.last_mut().unwrap();
        match parts[0] {
            "T" => {
                let wire =
                    parts[1].as_bytes().chunks(2).map(|two| number(str::from_utf8(two).unwrap()) as u8);
                case.tlps.push((wire.collect(), parts[2..].iter().map(|text| number(text)).collect()));
            }
            _ => case.beats.push(Beat {
                data: words(parts[1], usize::from(case.width / 32)),
                keep: number(parts[2]),
                last: parts[3] == "1",
                user: words(parts[4], 6),
            }),
        }
    }
    cases
}

/// Returns riser's packet of a TLP for the design.
fn packet(stream: Stream, wire: &[u8], more: &[u32]) -> Packet {
    let tlp = Tlp::parse(wire, &PayloadPool::new()).unwrap();
    let (mut packet, mut bytes) = (Packet::default(), Vec::new());
    if stream == Stream::Cq {
        let place = RequestTarget { function: more[0] as u8, bar: more[1] as u8, aperture: more[2] as u8 };
        assert!(packet.request(&tlp, place, &mut bytes));
        packet.is_non_posted = false;
    } else {
        let error = if more[1] == 2 { ErrorCode::BadStatus } else { ErrorCode::Normal };
        let (requester, _) = tlp.repr.transaction();
        packet.completion(&tlp, requester.bits(), more[0] as u16, error, more[2] == 1, &mut bytes);
    }
    packet
}

/// Clears the fields that are not compared.
fn compared(case: &Case, beat: &Beat) -> Beat {
    let mut beat = beat.clone();
    let parity = match (case.stream, case.width) {
        (Stream::Cq, 512) => 119,
        (Stream::Cq, _) => 53,
        (_, 512) => 97,
        _ => 43,
    };
    for bit in parity..192 {
        beat.user[bit / 32] &= !(1 << (bit % 32));
    }
    if case.packets > 1 {
        (beat.keep, beat.last) = (0, false);
    }
    // The only beginning packet is at lane 8.
    if case.stream == Stream::Cq && case.packets > 1 && beat.user[2] >> 16 & 0xf == 0b1001 {
        beat.user[0] &= !0xffff;
    }
    beat
}

fn hold_out(case: &Case) {
    let mut show = Show::new(case.stream, usize::from(case.width / 32), case.packets);
    for (wire, more) in &case.tlps {
        show.push(packet(case.stream, wire, more));
    }
    for (n, expected) in case.beats.iter().enumerate() {
        let (beat, _) = show.next(0, &mut 0).unwrap();
        let lanes = usize::from(case.width / 32);
        let beat = Beat {
            data: beat.lanes[..lanes].to_vec(),
            keep: beat.keep,
            last: beat.is_last,
            user: beat.user.to_vec(),
        };
        let (is, expected) = (compared(case, &beat), compared(case, expected));
        assert_eq!(is, expected, "{:?} {} {} beat {n}", case.stream, case.width, case.packets);
        show.take();
    }
    assert!(show.is_empty());
}

/// Returns the vector that riser reads at an edge with this beat.
fn vector(case: &Case, layout: &Layout, beat: &Beat) -> Vec<u32> {
    let mut words = vec![0; layout.words[0]];
    let (data, keep, last, valid, user) = match case.stream {
        Stream::Rq => (Read::RqData, Read::RqKeep, Read::RqLast, Read::RqValid, Read::RqUser),
        _ => (Read::CcData, Read::CcKeep, Read::CcLast, Read::CcValid, Read::CcUser),
    };
    let swapped = layout.swapped();
    let mut at = Outputs { layout: &swapped, words: &mut words };
    at.set_wide(data, &beat.data);
    at.set_wide(user, &beat.user);
    at.set(keep, beat.keep);
    at.set(last, beat.last.into());
    at.set(valid, 1);
    words
}

fn hold_in(case: &Case) {
    let layout =
        Layout::of(Shape { kind: BlockKind::UltraScalePlus, data_bits: case.width, lanes: 8, links: 1 });
    let mut take = Take::new(case.stream, usize::from(case.width / 32), case.packets > 1);
    let mut expected = case.tlps.iter();
    for beat in &case.beats {
        let words = vector(case, &layout, beat);
        take.take(Inputs { layout: &layout, words: &words }).unwrap();
        while let Some(packet) = take.next() {
            let (wire, more) = expected.next().unwrap();
            let (mut wire, mut bytes) = (wire.clone(), Vec::new());
            let came = Came { words: &packet.words, enables: packet.enables, gap: 0 };
            if case.stream == Stream::Rq {
                let asked = request(came, &mut bytes).unwrap();
                assert_eq!((asked.function, asked.tag), (wire[5], wire[6]));
                assert_eq!(u32::from(packet.sequence), more[2]);
                wire[4..6].fill(0);
            } else {
                assert_eq!(completion(came, &mut bytes).unwrap(), wire[5]);
            }
            assert_eq!(bytes, wire, "{:?} {} {}", case.stream, case.width, case.packets);
        }
    }
    assert!(expected.next().is_none() && take.is_empty());
}

#[test]
fn descriptors_and_beats_match_the_model() {
    let path = std::env::var("RISER_US_BEATS").unwrap_or_else(|_| "tests/us_beats.txt".to_owned());
    let text = std::fs::read_to_string(&path).unwrap();
    let mut counts = [0; 4];
    for case in cases(&text) {
        match case.stream {
            Stream::Rq | Stream::Cc => hold_in(&case),
            Stream::Rc | Stream::Cq => hold_out(&case),
        }
        counts[case.stream as usize] += case.tlps.len();
    }
    println!("{path}: RQ, RC, CQ, CC: {counts:?} TLPs");
    assert!(counts.iter().all(|count| *count >= 64), "{counts:?}");
}
