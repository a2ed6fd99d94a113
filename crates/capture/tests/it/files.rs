// SPDX-License-Identifier: Apache-2.0 OR MIT
//! pcap and pcapng files as other programs write them, and damaged files.

use crate::common::{hex, kept, lines, mrd_frame, objects, reader, report, sample};
use riser_capture::{Item, OpenError, Reader, Timestamp};
use std::io::Cursor;

#[derive(Clone, Copy)]
enum Order {
    Big,
    Little,
}

impl Order {
    fn u32(self, value: u32) -> [u8; 4] {
        match self {
            Order::Big => value.to_be_bytes(),
            Order::Little => value.to_le_bytes(),
        }
    }

    fn u16(self, value: u16) -> [u8; 2] {
        match self {
            Order::Big => value.to_be_bytes(),
            Order::Little => value.to_le_bytes(),
        }
    }
}

fn pcap(order: Order, magic: u32, link_type: u32) -> Vec<u8> {
    let mut file = order.u32(magic).to_vec();
    file.extend([order.u16(2), order.u16(4)].concat());
    file.extend([[0; 4], [0; 4], order.u32(128), order.u32(link_type)].concat());
    file
}

fn record(order: Order, second: u32, fraction: u32, original: u32, bytes: &[u8]) -> Vec<u8> {
    let head = [second, fraction, bytes.len() as u32, original].map(|field| order.u32(field));
    [head.concat(), bytes.to_vec()].concat()
}

fn block(order: Order, kind: u32, body: &[u8]) -> Vec<u8> {
    let mut padded = body.to_vec();
    padded.resize(body.len().next_multiple_of(4), 0);
    let len = order.u32(padded.len() as u32 + 12);
    [&order.u32(kind)[..], &len, &padded, &len].concat()
}

fn section(order: Order) -> Vec<u8> {
    let body = [&order.u32(0x1a2b_3c4d)[..], &order.u16(1), &order.u16(0), &[0xff; 8]].concat();
    block(order, 0x0a0d_0d0a, &body)
}

fn interface(order: Order, link_type: u16, options: Options<'_>) -> Vec<u8> {
    let mut body = [&order.u16(link_type)[..], &[0, 0], &order.u32(0)].concat();
    for (code, value) in options {
        body.extend([order.u16(*code), order.u16(value.len() as u16)].concat());
        body.extend_from_slice(value);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    block(order, 1, &body)
}

fn packet(order: Order, interface: u32, units: u64, bytes: &[u8]) -> Vec<u8> {
    let len = bytes.len() as u32;
    let head = [interface, (units >> 32) as u32, units as u32, len, len].map(|field| order.u32(field));
    block(order, 6, &[head.concat(), bytes.to_vec()].concat())
}

/// Options of an interface: codes and values.
type Options<'a> = &'a [(u16, &'a [u8])];
/// A change of a block.
type Change = dyn Fn(&mut Vec<u8>);

/// Times in picoseconds, and the kind of each record.
fn times(file: &[u8]) -> Vec<(u128, &'static str)> {
    let mut reader = reader(file);
    let mut times = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        times.push((record.timestamp.as_ps(), record.kind.type_name()));
    }
    times
}

#[test]
fn reads_pcap_in_both_byte_orders_and_units() {
    for order in [Order::Big, Order::Little] {
        for (magic, unit_ps) in [(0xa1b2_c3d4, 1_000_000), (0xa1b2_3c4d, 1_000)] {
            let frame = mrd_frame();
            let file = [pcap(order, magic, 1), record(order, 1_785_542_400, 123_456, 60, &frame)].concat();
            // 2026-08-01 in picoseconds needs more than 64 bits.
            let ps = 1_785_542_400 * 1_000_000_000_000 + 123_456 * unit_ps;
            assert_eq!(times(&file), [(ps, "MRd")]);
        }
    }
}

#[test]
fn reads_pcapng_in_both_byte_orders_with_any_unit() {
    for order in [Order::Big, Order::Little] {
        let offset = match order {
            Order::Big => 7u64.to_be_bytes(),
            Order::Little => 7u64.to_le_bytes(),
        };
        let rows: [(Options<'_>, u64, u128); 6] = [
            (&[], 5, 5_000_000),
            (&[(9, &[9])], 5, 5_000),
            (&[(9, &[12])], 5, 5),
            (&[(9, &[0x8a])], 1, 976_562_500),
            (&[(9, &[0]), (14, &offset)], 1, 8_000_000_000_000),
            (&[(2, b"eth0"), (3, b"what it is"), (9, &[12]), (0, b"")], 1 << 40, 1 << 40),
        ];
        for (options, units, ps) in rows {
            let file = [section(order), interface(order, 1, options), packet(order, 0, units, &mrd_frame())]
                .concat();
            assert_eq!(times(&file), [(ps, "MRd")]);
        }
    }
}

#[test]
fn sections_have_their_own_interfaces_and_byte_order() {
    let file = [
        section(Order::Little),
        interface(Order::Little, 1, &[(2, b"link3:upstream"), (9, &[12])]),
        interface(Order::Little, 1, &[(2, b"link4:downstream")]),
        packet(Order::Little, 1, 1, &mrd_frame()),
        // Name resolution, statistics and a private block, which the reader skips.
        block(Order::Little, 4, &[0; 4]),
        block(Order::Little, 5, &[0; 12]),
        block(Order::Little, 0x8000_0001, b"private"),
        section(Order::Big),
        interface(Order::Big, 1, &[(2, b"link4:upstream"), (9, &[9])]),
        packet(Order::Big, 0, 1, &mrd_frame()),
        packet(Order::Big, 1, 1, &mrd_frame()),
    ]
    .concat();
    let mut reader = reader(&file);
    let mut seen = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        let interface = record.interface.map(|i| (i.name.clone(), i.link, i.direction.map(|d| d.name())));
        seen.push((record.number, record.timestamp, interface));
    }
    let named = |name: &str, direction| Some((name.to_owned(), 1, Some(direction)));
    assert_eq!(seen[0], (1, Timestamp::from_ps(1_000_000), named("link4:downstream", "downstream")));
    assert_eq!(seen[1], (2, Timestamp::from_ps(1_000), named("link4:upstream", "upstream")));
    assert_eq!(seen[2], (0, Timestamp::ZERO, None), "packet of an unknown interface");
    assert_eq!(seen.len(), 3);
}

#[test]
fn reads_simple_and_obsolete_packets() {
    let frame = mrd_frame();
    let simple = [&Order::Little.u32(60)[..], &frame].concat();
    let obsolete = [[0u32, 0, 9, 60, 60].map(|f| Order::Little.u32(f)).concat(), frame.clone()].concat();
    let file = [
        section(Order::Little),
        interface(Order::Little, 1, &[(9, &[12])]),
        block(Order::Little, 3, &simple),
        block(Order::Little, 2, &obsolete),
    ]
    .concat();
    assert_eq!(times(&file), [(0, "MRd"), (9, "MRd")]);
}

/// `epb_flags` bits 1:0 (option 2), with an interface without a name: 2 is outbound, which is upstream for
/// LINKTYPE_PCI_EXP.
#[test]
fn shows_and_filters_by_the_direction_of_a_packet() {
    let order = Order::Little;
    let tlp = hex("00000001 0100070f 00001000");
    let head = [0, 0, 1000, 12, 12].map(|field| order.u32(field)).concat();
    let options = [&order.u16(2)[..], &order.u16(4), &order.u32(2), &[0; 4]].concat();
    let file = [section(order), interface(order, 125, &[]), block(order, 6, &[head, tlp, options].concat())]
        .concat();
    assert!(lines(&file)[0].contains(" upstream TLP: MRd"), "{:?}", lines(&file));
    assert_eq!([kept(&file, "dir=up"), kept(&file, "dir=down")], [vec![1], vec![]]);
}

#[test]
fn reports_other_link_types() {
    let order = Order::Little;
    let file = [
        section(order),
        interface(order, 1, &[]),
        interface(order, 147, &[]),
        packet(order, 1, 0, &mrd_frame()),
        packet(order, 0, 0, &mrd_frame()),
    ]
    .concat();
    assert_eq!(times(&file), [(0, "error"), (0, "MRd")]);
    assert!(
        lines(&file)[0]
            .ends_with("error in link type: link type 147: expected 1 (Ethernet) or 125 (PCI Express); --dlt USER0=tlp reads it as TLPs")
    );
    let file = [pcap(order, 0xa1b2_c3d4, 113), record(order, 0, 0, 60, &mrd_frame())].concat();
    assert_eq!(objects(&file)[0]["layer"], "link");
}

#[test]
fn rejects_files_that_are_not_captures() {
    let rows: [(&[u8], &str); 6] = [
        (b"", "input: not a capture: it holds 0 bytes; riser reads:\n  pcap "),
        (b"\xd4\xc3\xb2\xa1", "input: not a capture: it holds 4 bytes, a pcap header needs 24"),
        (
            b"#!/bin/sh ...and so on.................",
            "input: not a capture: it starts with 23 21 2f 62; riser reads:\n  pcap ",
        ),
        (
            &[0xd4, 0xc3, 0xb2, 0xa1, 9, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0],
            "input: not a capture: pcap of version 9: expected 2",
        ),
        (
            &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0],
            "input: not a capture: it starts with 1f 8b 08 00; this is compressed by gzip: zcat FILE | riser trace -; riser reads:\n  pcap ",
        ),
        (&[0; 3], "input: not a capture: it holds 3 bytes; riser reads:\n  pcap "),
    ];
    for (bytes, text) in rows {
        let error = Reader::new(Cursor::new(bytes)).err().map(|e: OpenError| e.to_string()).unwrap();
        assert!(error.starts_with(text), "{error}");
    }
    let missing = riser_capture::open("/nonexistent/capture.pcap").err().map(|e| e.to_string()).unwrap();
    assert!(missing.starts_with("/nonexistent/capture.pcap: "), "{missing}");
}

fn three_records(order: Order) -> Vec<u8> {
    let records = (0..3).map(|i| record(order, 1_560_000_000, i, 60, &mrd_frame()));
    [pcap(order, 0xa1b2_c3d4, 1), records.collect::<Vec<_>>().concat()].concat()
}

/// The lines of a damaged file, without times.
fn damaged(file: &[u8]) -> Vec<String> {
    lines(file)
        .iter()
        .map(|line| line.split_once("IP ").map_or(line.clone(), |(_, rest)| rest.to_owned()))
        .collect()
}

const MRD: &str = "192.168.10.3.12291 > 192.168.10.1.12291: NetTLP: MRd, len 4, requester 1b:00.0, tag 0x03, last 0xf, \
                   first 0xf, Addr 0x2f001000";

#[test]
fn reports_truncated_pcap_and_reads_rest() {
    let whole = three_records(Order::Little);
    let cut = damaged(&whole[..whole.len() - 7]);
    let fault =
        "error in capture file: at byte 176: the file ends within a record that needs 76 bytes; 69 are left";
    assert_eq!(cut, [MRD, MRD, fault]);
    let cut = damaged(&whole[..24 + 76 + 5]);
    let fault =
        "error in capture file: at byte 100: the file ends within a record that needs 16 bytes; 5 are left";
    assert_eq!(cut, [MRD, fault]);
}

#[test]
fn reports_wrong_pcap_record_length_and_reads_rest() {
    for order in [Order::Big, Order::Little] {
        let at = 24 + 76 + 8;
        let rows: [(u32, u32, &str); 3] = [
            // Longer than a record may be, longer than the frame was, longer than the file.
            (
                0xffff_0000,
                0xffff_0000,
                "record of 4294901760 bytes captured of 4294901760: expected at most 262144",
            ),
            (61, 60, "record of 61 bytes captured of 60: expected at most 262144"),
            (5000, 5000, "record of 5000 bytes captured of 5000: expected at most 262144"),
        ];
        for (captured, original, text) in rows {
            let mut file = three_records(order);
            file[at..at + 4].copy_from_slice(&order.u32(captured));
            file[at + 4..at + 8].copy_from_slice(&order.u32(original));
            let lines = damaged(&file);
            let fault = format!(
                "error in capture file: at byte 100: {text}, and at most the length on the wire; 76 bytes skipped"
            );
            assert_eq!(lines, [MRD, &fault, MRD]);
        }
    }
}

#[test]
fn skips_garbage_between_pcap_records() {
    let mut file = three_records(Order::Little);
    file.splice(100..100, vec![0xee; 1000]);
    let fault = "error in capture file: at byte 100: record of 4008636142 bytes captured of 4008636142: expected at \
                 most 262144, and at most the length on the wire; 1000 bytes skipped";
    assert_eq!(damaged(&file), [MRD, fault, MRD, MRD]);
}

#[test]
fn reports_damaged_pcapng_blocks_and_reads_rest() {
    let order = Order::Little;
    let good = packet(order, 0, 1, &mrd_frame());
    let head = [section(order), interface(order, 1, &[])].concat();
    let at = head.len() + good.len();
    let with = |change: &Change| {
        let mut middle = good.clone();
        change(&mut middle);
        damaged(&[head.clone(), good.clone(), middle, good.clone()].concat())
    };
    let rows: [(&Change, &str); 6] = [
        (&|b| b[4] = 93, "block of 93 bytes: expected a multiple of 4 from 12 to 16777216; 92 bytes skipped"),
        (
            &|b| b[5] = 0xff,
            "block of 65372 bytes: expected a multiple of 4 from 12 to 16777216; 92 bytes skipped",
        ),
        (&|b| b[88] = 96, "block whose lengths disagree: 92 at its start, 96 at its end; 92 bytes skipped"),
        (&|b| b[8] = 1, "packet of interface 1, expected one of the 1 described"),
        (&|b| b[20] = 0xff, "block of type 6: too short for its fields"),
        (
            &|b| *b = vec![0xee; 36],
            "block of 4008636142 bytes: expected a multiple of 4 from 12 to 16777216; 36 bytes skipped",
        ),
    ];
    for (change, text) in rows {
        let fault = format!("error in capture file: at byte {at}: {text}");
        assert_eq!(with(change), [MRD, &fault, MRD]);
    }
    let whole = [head.clone(), good.clone(), good.clone()].concat();
    let cut = damaged(&whole[..whole.len() - 3]);
    let fault = format!(
        "error in capture file: at byte {at}: the file ends within a record that needs 92 bytes; 89 are left"
    );
    assert_eq!(cut, [MRD, &fault]);
}

#[test]
fn json_has_object_for_fault_of_file() {
    let whole = three_records(Order::Little);
    let objects = objects(&whole[..whole.len() - 1]);
    let fault = serde_json::json!({
        "type": "error", "layer": "file", "error": "truncated record", "offset": 176,
        "reason": "at byte 176: the file ends within a record that needs 76 bytes; 75 are left",
    });
    assert_eq!(objects[2], fault);
}

/// An independent reader finds the same packets. It reads picoseconds as nanoseconds, so the numbers agree.
#[test]
fn pcap_file_crate_reads_the_same_packets() {
    use pcap_file::pcapng::{Block, PcapNgReader};
    let file = sample();
    let mut theirs = PcapNgReader::new(Cursor::new(&file)).unwrap();
    let mut packets = Vec::new();
    let mut names = Vec::new();
    while let Some(block) = theirs.next_block() {
        match block.unwrap() {
            Block::EnhancedPacket(p) => {
                packets.push((p.timestamp.as_nanos(), p.original_len, p.data.to_vec()))
            }
            Block::InterfaceDescription(i) => names.push(format!("{:?}", i.options)),
            other => panic!("{other:?}"),
        }
    }
    let mut ours = reader(&file);
    for (time, original_len, data) in &packets {
        let Some(Item::Frame(frame)) = ours.next_item().unwrap() else { panic!("a frame") };
        assert_eq!((frame.timestamp.as_ps(), frame.original_len as u32), (*time, *original_len));
        assert_eq!(frame.bytes, data);
    }
    assert!(ours.next_item().unwrap().is_none());
    assert_eq!(packets.len(), 5);
    assert!(names[0].contains("link0:upstream") && names[1].contains("link0:downstream"));
}

/// A reader that returns one byte at a time, like a slow pipe.
#[test]
fn reads_file_byte_by_byte() {
    struct Dribble<'a>(&'a [u8]);
    impl std::io::Read for Dribble<'_> {
        fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
            let n = self.0.len().min(buf.len()).min(1);
            buf[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }
    let file = sample();
    let report = report(Reader::new(Dribble(&file)).unwrap());
    assert_eq!((report.frames, report.error_total), (5, 0));
}

#[test]
fn sample_frame_is_valid() {
    assert_eq!(mrd_frame().len(), 60);
    assert_eq!(riser_capture::encap::internet_checksum(&mrd_frame()[14..34]), 0);
    assert_eq!(hex("0a 0B"), [10, 11]);
}
