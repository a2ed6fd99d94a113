// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Properties: written captures are read back, damage is reported, and no input causes a panic.

use crate::common::{mrd_frame, reader, sample};
use crate::{checks_capture as checks, checks_foreign};
use proptest::prelude::*;
use riser_capture::{Direction, Kind, Origin, Reader, Writer, encap, hex_text};
use std::io::Cursor;
use tlp::{
    Access, Attributes, Bdf, Body, Completion, ConfigKind, ConfigRequest, Data, Dllp, MemoryOp,
    MemoryRequest, Message, MessageRouting, PayloadPool, Repr, Span, Status, Tag, Time, Tlp, TrafficClass,
};

/// Reads a capture in every way. Returns the number of frames, and the number of errors and skipped blocks.
fn read_all(bytes: &[u8]) -> (u64, u64) {
    let Ok(mut reader) = Reader::new(Cursor::new(bytes)) else { return (0, 1) };
    while reader.next_record().unwrap().is_some() {}
    let skipped = reader.skipped_blocks();
    checks::capture(bytes).map_or((0, 1), |(frames, errors)| (frames, errors + skipped))
}

fn memory() -> impl Strategy<Value = Body> {
    (any::<bool>(), any::<u16>(), 0..1024u16, any::<u64>(), 1..=4096u32).prop_map(
        |(write, id, tag, address, len)| {
            let address = address & 0x3f_ffff_ffff;
            let len = len.min(4096 - (address & 0xfff) as u32);
            Body::Memory(MemoryRequest {
                op: if write { MemoryOp::Write } else { MemoryOp::Read },
                requester: Bdf::from_bits(id),
                tag: Tag::from_bits(tag),
                span: Span::covering(address, len).unwrap(),
            })
        },
    )
}

fn completion() -> impl Strategy<Value = Body> {
    (any::<u16>(), any::<u16>(), 0..1024u16, 1..=4096u16, 1..=64u16, any::<bool>()).prop_map(
        |(completer, requester, tag, byte_count, dw, data)| {
            Body::Completion(Completion {
                status: if data { Status::Success } else { Status::CompleterAbort },
                byte_count,
                lower_address: (byte_count & 0x7c) as u8,
                length_dw: data.then_some(dw),
                ..Completion::new(Bdf::from_bits(completer), Bdf::from_bits(requester), Tag::from_bits(tag))
            })
        },
    )
}

fn config() -> impl Strategy<Value = Body> {
    (any::<bool>(), any::<bool>(), any::<u16>(), 0..1024u16, 0..1024u16).prop_map(
        |(write, type1, id, tag, register_dw)| {
            Body::Config(ConfigRequest {
                kind: if type1 { ConfigKind::Type1 } else { ConfigKind::Type0 },
                ..ConfigRequest::new(
                    if write { Access::Write } else { Access::Read },
                    Bdf::from_bits(id),
                    Tag::from_bits(tag),
                    Bdf::from_bits(!id),
                    register_dw,
                )
            })
        },
    )
}

fn message() -> impl Strategy<Value = Body> {
    (any::<u16>(), 0..1024u16, any::<[u8; 8]>(), prop::option::of(1..=32u16)).prop_map(
        |(id, tag, header, length_dw)| {
            Body::Message(Message {
                routing: MessageRouting::ToRootComplex,
                requester: Bdf::from_bits(id),
                tag: Tag::from_bits(tag),
                // Vendor_Defined Type 1: all other fields are free.
                code: 0x7f,
                header,
                length_dw,
            })
        },
    )
}

/// A header, whether its data is carried, and the side that issued the request.
fn header() -> impl Strategy<Value = (Repr, bool, Origin)> {
    let body = prop_oneof![4 => memory(), 3 => completion(), 1 => config(), 1 => message()];
    (body, 0..8u8, any::<bool>(), any::<bool>()).prop_map(|(body, bits, carried, host)| {
        let mut repr = Repr::new(body);
        if !matches!(body, Body::Config(_)) {
            repr.tc = TrafficClass::from_bits(bits);
            repr.attr = Attributes::from_bits_truncate(bits);
            repr.td = bits & 1 == 1;
        }
        (repr, carried, if host { Origin::Host } else { Origin::Device })
    })
}

fn tlp_of(repr: Repr, carried: bool, pool: &PayloadPool) -> Tlp {
    let lanes: Vec<u8> = (1..=repr.data_dw() * 4).map(|i| i as u8).collect();
    let mut tlp = Tlp::from_lanes(repr, &lanes, pool);
    if !carried {
        tlp.data = Data::Counted(tlp.data.len() as u32);
    }
    tlp
}

/// Bytes, length, interface and time of each TLP, which must be the same in copies.
fn copied(file: &[u8]) -> Vec<(Vec<u8>, usize, String, u128)> {
    let mut reader = reader(file);
    let mut all = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        let name = record.interface.unwrap().name.clone();
        all.push((record.tlp_bytes.to_vec(), record.tlp_wire_len(), name, record.timestamp.as_ps()));
    }
    all
}

/// Parts of text formats.
const WORDS: [&str; 36] = [
    "\n",
    "\n",
    " ",
    "  ",
    "    ",
    ":",
    "0x",
    "4a004010 00000040 01000000",
    "34000000",
    "00",
    "ff",
    "up",
    "rx",
    "->",
    "len=20",
    "len=",
    "1.5",
    "[12.5]",
    "10ns",
    "#",
    "pcieport 0000:00:1c.0: AER:",
    "TLP Header:",
    "TLP Header (Flit):",
    "={",
    "}",
    "E-E Prefixes:",
    "HeaderLog:",
    "UESta: ECRC+",
    "severity=Fatal,",
    "[18] MalfTLP",
    "TX: MRd32: Len: 1\n",
    "0000    00 00 00 20",
    "0010    ",
    "R 4 1.5 1 0xfa000000 0x1 0x0 0",
    "W 8 1.5 1 0xffffffffffffffff 0x1 0x0 0",
    "PCIDEV c100 10de2206 7d fa000000 0 0 0 0 0 0 ffffffffffffffff 0 0 0 0 0 0",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reads_back_written_captures(headers in prop::collection::vec(header(), 1..20), start in any::<u32>()) {
        let pool = PayloadPool::new();
        let mut writer = Writer::new(Vec::new()).unwrap();
        let taps = [Direction::Upstream, Direction::Downstream].map(|d| writer.tap(3, d, "tap").unwrap());
        let time = |i: usize| Time::from_ps(u64::from(start) << 20 | i as u64);
        let tlps: Vec<Tlp> = headers.iter().map(|(repr, carried, _)| tlp_of(*repr, *carried, &pool)).collect();
        for (i, (tlp, (_, _, origin))) in tlps.iter().zip(&headers).enumerate() {
            writer.write_tlp(taps[i % 2], time(i), tlp, *origin).unwrap();
            writer.write_dllp(taps[i % 2], time(i), &Dllp::Ack { sequence: i as u16 }).unwrap();
        }
        let file = writer.finish().unwrap();
        let mut reader = reader(&file);
        for (i, (tlp, (repr, carried, origin))) in tlps.iter().zip(&headers).enumerate() {
            let record = reader.next_record().unwrap().unwrap();
            prop_assert_eq!(record.timestamp.as_ps(), u128::from(time(i).as_ps()));
            prop_assert_eq!(record.interface.and_then(|n| n.direction).is_some(), true);
            let port = riser_capture::PortScheme::Tagged.port(*origin, repr.transaction().1);
            prop_assert_eq!(record.path.map(|p| (p.source_port, p.destination_port)), Some((port, port)));
            let Kind::Tlp(read) = &record.kind else { return Err(TestCaseError::fail(format!("{record:?}"))) };
            prop_assert_eq!((&read.repr, read.origin), (repr, *origin));
            prop_assert_eq!(read.payload_bytes, repr.data_dw() as usize * 4);
            if *carried {
                let back = Tlp::from_lanes(read.repr, read.data, &pool);
                prop_assert_eq!(back.data.bytes().unwrap_or(&[]), tlp.data.bytes().unwrap_or(&[]));
            } else {
                prop_assert!(read.data.is_empty());
            }
            prop_assert_eq!(record.original_len, encap::HEADER_LEN + repr.tlp_len());
            let record = reader.next_record().unwrap().unwrap();
            let Kind::Dllp(dllp) = record.kind else { return Err(TestCaseError::fail(format!("{record:?}"))) };
            prop_assert_eq!(dllp, Dllp::Ack { sequence: i as u16 });
        }
        prop_assert!(reader.next_record().unwrap().is_none());
    }

    #[test]
    fn copies_read_back_the_same(headers in prop::collection::vec(header(), 1..20), start in any::<u32>()) {
        let pool = PayloadPool::new();
        let mut writer = Writer::new(Vec::new()).unwrap();
        let taps = [Direction::Upstream, Direction::Downstream].map(|d| writer.tap(3, d, "tap").unwrap());
        for (i, (repr, carried, origin)) in headers.iter().enumerate() {
            let time = Time::from_ps(u64::from(start) << 20 | i as u64);
            writer.write_tlp(taps[i % 2], time, &tlp_of(*repr, *carried, &pool), *origin).unwrap();
        }
        let file = writer.finish().unwrap();
        let tlps = copied(&file);
        prop_assert_eq!(tlps.len(), headers.len());
        let (mut raw, mut nettlp) = (Writer::of_tlps(Vec::new()).unwrap(), Writer::new(Vec::new()).unwrap());
        let (mut text, mut source) = (riser_capture::reader::HEX_HEADING.to_owned(), reader(&file));
        while let Some(record) = source.next_record().unwrap() {
            for writer in [&mut raw, &mut nettlp] {
                writer.copy(record.interface.unwrap(), &record).unwrap();
            }
            prop_assert!(hex_text::append_line(&record, &mut text));
        }
        for copy in [raw.finish().unwrap(), nettlp.finish().unwrap(), text.into_bytes()] {
            prop_assert_eq!(&copied(&copy), &tlps);
        }
    }

    #[test]
    fn foreign_text_never_panics(choice in any::<u8>(), words in prop::collection::vec(0..WORDS.len(), 0..60)) {
        let text: String = words.into_iter().map(|word| WORDS[word]).collect();
        let _ = checks_foreign::foreign(&[&[choice][..], text.as_bytes()].concat());
    }

    #[test]
    fn foreign_bytes_as_text_never_panic(bytes in prop::collection::vec(any::<u8>(), 1..400)) {
        let _ = checks_foreign::foreign(&bytes);
    }

    #[test]
    fn foreign_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), magic in 0..6usize) {
        let magics: [&[u8]; 6] = [
            b"",
            &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0],
            &[0xa1, 0xb2, 0x3c, 0x4d, 0, 2, 0, 4],
            &[0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0],
            &[0x0a, 0x0d, 0x0d, 0x0a, 0, 0, 0, 28, 0x1a, 0x2b, 0x3c, 0x4d, 0, 1, 0, 0],
            &sample()[..200],
        ];
        read_all(&[magics[magic], &bytes].concat());
        let _ = encap::parse(&bytes, bytes.len());
        let _ = encap::NettlpHeader::parse(&bytes);
        // The same bytes after valid headers, and cut at any byte.
        let frame = [&mrd_frame()[..48], &bytes].concat();
        let _ = encap::parse(&frame, 1500);
        // The same bytes as IPv6 extension headers.
        let ipv6 = [&frame[..12], &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 80, 0, 64], &[0; 32], &bytes].concat();
        let _ = encap::parse(&ipv6, 1500);
    }

    #[test]
    fn snap_length_truncates_only_data(snaplen in 60..400u32, carried in any::<bool>()) {
        let pool = PayloadPool::new();
        let span = Span::covering(0x1000, 256).unwrap();
        let body = Body::Memory(MemoryRequest { op: MemoryOp::Write, requester: Bdf::default(), tag: Tag::default(), span });
        let mut writer = Writer::with_snaplen(Vec::new(), snaplen).unwrap();
        let tap = writer.tap(0, Direction::Upstream, "").unwrap();
        writer.write_tlp(tap, Time::ZERO, &tlp_of(Repr::new(body), carried, &pool), Origin::Device).unwrap();
        let file = writer.finish().unwrap();
        let mut reader = reader(&file);
        let record = reader.next_record().unwrap().unwrap();
        let captured = if carried { (snaplen as usize).min(316) - 60 } else { 0 };
        prop_assert_eq!(record.tlp().map(|t| (t.data.len(), t.payload_bytes)), Some((captured, 256)));
    }
}

/// Any byte of a capture may be wrong. Each frame is still a record, or an error covers it. An error covers more
/// than one frame only if the structure of the file is damaged: the headers of the section and the interfaces, or a
/// length that includes the next block.
#[test]
fn reports_every_damaged_byte() {
    let whole = sample();
    let structure = 44 + 76 + 52;
    assert_eq!(read_all(&whole), (5, 0));
    for at in 0..whole.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut file = whole.clone();
            file[at] ^= flip;
            let (frames, errors) = read_all(&file);
            if at >= structure {
                assert!(
                    frames >= 4 && frames + errors >= 5,
                    "byte {at} ^ {flip:#x}: {frames} frames, {errors} errors"
                );
            } else {
                assert!(
                    frames == 5 || errors >= 1,
                    "byte {at} ^ {flip:#x}: {frames} frames, {errors} errors"
                );
            }
        }
    }
}

/// The same for pcap, where only the headers of the records give their positions.
#[test]
fn reports_every_damaged_byte_of_pcap() {
    let mut whole =
        vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 128, 0, 0, 0, 1, 0, 0, 0];
    for i in 0..5u32 {
        for field in [1_560_000_000, i, 60, 60] {
            whole.extend(field.to_le_bytes());
        }
        whole.extend(mrd_frame());
    }
    assert_eq!(read_all(&whole), (5, 0));
    for at in 24..whole.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut file = whole.clone();
            file[at] ^= flip;
            let (frames, errors) = read_all(&file);
            assert!(
                frames >= 4 && frames + errors >= 5,
                "byte {at} ^ {flip:#x}: {frames} frames, {errors} errors"
            );
        }
    }
}

/// A file may end after any byte.
#[test]
fn reports_every_truncation() {
    let whole = sample();
    let ends = [44, 120, 172, 264, 364, 452, 548, 644];
    for len in 44..whole.len() {
        let (_, errors) = read_all(&whole[..len]);
        assert_eq!(errors == 0, ends.contains(&len), "cut at {len}: {errors} errors");
    }
}

/// Frames of noise, cut at any byte, as many as fit into a second: bare, after valid Ethernet, IPv4 and UDP
/// headers, and after a NetTLP header too. Each is a record with a name, and none stops the reader.
#[test]
fn reads_random_frames_without_loss() {
    const FRAMES: u32 = 40_000;
    let (mut state, sound) = (0x9e37_79b9_7f4a_7c15u64, mrd_frame());
    let mut random = || {
        // xorshift64*, so that every run has the same noise.
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    };
    let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 1, 0, 0, 0];
    for n in 0..FRAMES {
        let kept = [0, 14, 34, 36, 42, 48][random() as usize % 6];
        let len = kept + random() as usize % 40;
        let mut frame = sound[..kept].to_vec();
        frame.extend((kept..len).map(|_| (random() >> 32) as u8));
        if kept == 48 {
            // Any bytes with a port for TLPs.
            frame[16..18].copy_from_slice(&(len as u16 - 14).to_be_bytes());
            frame[38..40].copy_from_slice(&(len as u16 - 34).to_be_bytes());
        }
        for field in [1_560_000_000 + n / 1000, n % 1000, frame.len() as u32, frame.len() as u32] {
            file.extend(field.to_le_bytes());
        }
        file.extend(frame);
    }
    let (frames, errors) = checks::capture(&file).unwrap();
    // Noise sometimes looks like two datagrams in one frame, and each of them counts.
    assert!((u64::from(FRAMES)..u64::from(FRAMES) + 10).contains(&frames), "{frames}");
    // Most frames are unreadable, but noise after valid headers is sometimes a TLP.
    assert!(errors > u64::from(FRAMES) / 2 && errors < u64::from(FRAMES) * 19 / 20, "{errors}");
    // If the file is cut at any byte, at most the last record is lost.
    for cut in [1, 7, 16, 40] {
        let (left, _) = checks::capture(&file[..file.len() - cut]).unwrap();
        assert!(left + 2 >= frames && left < frames, "{left}");
    }
}
