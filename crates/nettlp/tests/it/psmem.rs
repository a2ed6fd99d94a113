// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the answers of pseudo memory to requests given as bytes. Uses a recording carrier instead of a socket.

use crate::checks_psmem::memo::Memo;
use proptest::prelude::*;
use riser_capture::encap::Origin;
use riser_nettlp::carrier::Arrival;
use riser_nettlp::completer::Image;
use riser_nettlp::psmem::{Psmem, WAITING_MAX, Window, serve};
use riser_tlp::{Bdf, Body, MemoryOp, Mps, Repr, RuleId, Status, Tag, Time};
use std::sync::Arc;

const BASE: u64 = 0xfe00_0000;

fn psmem(bytes: u64) -> Psmem<Window> {
    let image = Arc::new(Image::zeroes(bytes).unwrap());
    Psmem::new(Bdf::from_bits(0x1b00), Mps::new(256).unwrap(), Window { base: BASE, image })
}

fn handle(psmem: &mut Psmem<Window>, tlp: &[u8]) {
    psmem.handle(Time::from_ps(7), &Arrival { origin: Origin::Host, tlp, sequence: 0, timestamp: 0 });
}

fn answers(psmem: &mut Psmem<Window>) -> Vec<Vec<u8>> {
    let mut kept = Memo::with_room(1000);
    psmem.answer(&mut kept);
    kept.sent.into_iter().map(|(_, _, bytes)| bytes).collect()
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap()).collect()
}

/// Completions of an endpoint end at multiples of 128 B (`PCIe 5.0 §2.3.1.1`).
#[test]
fn completions_end_at_multiples_of_128_bytes() {
    let mut psmem = psmem(4096);
    // MRd of 120h bytes at 40h after the base.
    handle(&mut psmem, &hex("00000048 000003ff fe000040"));
    let lengths: Vec<usize> = answers(&mut psmem).iter().map(|bytes| bytes.len() - 12).collect();
    assert_eq!(lengths, [0xc0, 0x60]);
    // A read at 20h with Max_Payload_Size 256. The first completion ends at 100h.
    handle(&mut psmem, &hex("00000088 000003ff fe000020"));
    let lengths: Vec<usize> = answers(&mut psmem).iter().map(|bytes| bytes.len() - 12).collect();
    assert_eq!(lengths, [0xe0, 0x100, 0x40]);
}

/// Rows: written data, request, and answers, in cases in which upstream's `psmem` answers incorrectly. Headers from
/// `PCIe 5.0 §2.2.7` and §2.2.9.
#[test]
fn requests_get_expected_answers() {
    let rows: &[(&str, &str, &str, &[&str])] = &[
        (
            "one byte, in its lane; lanes that were not requested are 0",
            "40000001 00000004 fe000000 1111aa11",
            "00000001 00000306 fe000000",
            &["4a000001 1b000002 00000301 0000aa00"],
        ),
        ("after the end", "", "00000001 0000030f fe001000", &["0a000000 1b002004 00000300"]),
        ("below the base", "", "00000001 0000070f fdfffffc", &["0a000000 1b002004 0000077c"]),
        (
            "across 4 KiB, which no host requests",
            "",
            "00000002 00000fff fe000ffc",
            &["0a000000 1b002004 00000f7c"],
        ),
        ("zero length: one DW", "", "00000001 00000300 fe000010", &["4a000001 1b000001 00000310 00000000"]),
        (
            "old LibTLP's write of one byte, in three",
            "40000001 00000001 fe000020 000077",
            "00000001 0000030f fe000020",
            &["4a000001 1b000004 00000320 77000000"],
        ),
        ("I/O", "", "02000001 0000050f 00000080", &["0a000000 1b002004 00000500"]),
        ("no TLP", "", "ff000000", &[]),
    ];
    for (what, write, read, expected) in rows {
        let mut psmem = psmem(0x1000);
        if !write.is_empty() {
            handle(&mut psmem, &hex(write));
        }
        handle(&mut psmem, &hex(read));
        let expected: Vec<Vec<u8>> = expected.iter().map(|e| hex(e)).collect();
        assert_eq!(answers(&mut psmem), expected, "{what}");
    }
}

/// A read of 512 bytes from an odd address is split at the Read Completion Boundary, not after a fixed number of bytes.
#[test]
fn completions_of_unaligned_read_end_at_read_completion_boundary() {
    let mut psmem = psmem(0x1000);
    handle(&mut psmem, &hex("00000081 000003fe fe000004"));
    let lengths: Vec<(usize, u8)> = answers(&mut psmem).iter().map(|tlp| (tlp.len() - 12, tlp[11])).collect();
    assert_eq!(lengths, [(252, 0x05), (256, 0x00), (8, 0x00)]);
}

/// Answers for which there is no room wait in order, and no answer is sent twice.
#[test]
fn answers_wait_in_order_for_room() {
    let mut psmem = psmem(0x1000);
    for tag in 0..5_u8 {
        handle(&mut psmem, &[0, 0, 0, 1, 0, 0, tag, 0xf, 0xfe, 0, 0, 0]);
    }
    let (mut kept, mut turns) = (Memo::default(), 0);
    while psmem.waiting() > 0 {
        kept.room.set(2);
        psmem.answer(&mut kept);
        turns += 1;
    }
    let tags: Vec<_> = kept.sent.iter().map(|(origin, tag, _)| (*origin, *tag)).collect();
    assert_eq!(tags, [0, 1, 2, 3, 4].map(|tag| (Origin::Host, tag)));
    assert_eq!((turns, psmem.completer_counters().reads, psmem.counters().unanswered), (3, 5, 0));
}

/// In a session, only a TLP that psmem sends tells the adapter where the host's requests go: a Vendor_Defined
/// message of Type 1 (`PCIe 5.0 §2.2.8.6`), Msg 30h, code 7fh.
#[test]
fn announces_itself_first_in_a_session() {
    let (mut kept, mut turns) = (Memo::with_room(10), 0);
    serve(&mut kept, &mut psmem(0x1000), false, |_| {
        turns += 1;
        turns < 3
    })
    .unwrap();
    let announced = hex("30000000 1b00007f 00000000 00000000");
    assert_eq!(kept.sent, [(Origin::Device, 0, announced)]);
}

#[test]
fn requests_beyond_the_queue_limit_are_dropped_and_counted() {
    let mut psmem = psmem(0x1000);
    for _ in 0..WAITING_MAX + 3 {
        handle(&mut psmem, &[0, 0, 0, 1, 0, 0, 0, 0xf, 0xfe, 0, 0, 0]);
    }
    assert_eq!((psmem.waiting(), psmem.counters().unanswered), (WAITING_MAX, 3));
    let [refusal] = psmem.refusals() else { panic!("{:?}", psmem.refusals()) };
    assert_eq!((refusal.violation.rule, refusal.count), (RuleId::RequestLimit, 3));
}

/// Rows: a TLP, and the rule that it breaks with the value. `None`: it breaks no rule.
#[test]
fn refused_tlps_name_their_rule() {
    let rows: &[(&str, Option<(RuleId, u64)>)] = &[
        ("ff000000", Some((RuleId::ReservedFmt, 7))),
        // TD, and a digest of zeros: the CRC-32 of the TLP before it differs (`PCIe 5.0 §2.7.1`).
        ("00008001 0000030f fe000000 00000000", Some((RuleId::Ecrc, 0))),
        ("00000002 00000fff fe000ffc", Some((RuleId::Crosses4K, 0xfe00_0ffc))),
        ("00000001 0000030f fe001000", Some((RuleId::UnclaimedAddress, 0xfe00_1000))),
        ("40000001 0000000f fe001004 00000000", Some((RuleId::UnclaimedAddress, 0xfe00_1004))),
        ("02000001 0000050f 00000080", Some((RuleId::RequestType, 0x02))),
        ("4a000001 00000004 00000500 00000000", Some((RuleId::UnexpectedCompletion, 5))),
        ("40004001 0000000f fe000000 00000000", Some((RuleId::Poisoned, 1))),
        // Vendor_Defined Type 0 and Type 1, and Set_Slot_Power_Limit, which every endpoint accepts (§2.2.8.5).
        ("30000000 0000007e 00000000 00000000", Some((RuleId::MessageSupported, 0x7e))),
        ("30000000 0000007f 00000000 00000000", None),
        ("74000001 00000050 00000000 00000000 00000000", None),
        ("00000001 0000030f fe000000", None),
    ];
    for (tlp, expected) in rows {
        let mut psmem = psmem(0x1000);
        handle(&mut psmem, &hex(tlp));
        answers(&mut psmem);
        let found: Vec<_> =
            psmem.refusals().iter().map(|r| (r.violation.rule, r.violation.found, r.at, r.count)).collect();
        let expected: Vec<_> =
            expected.iter().map(|(rule, found)| (*rule, *found, Time::from_ps(7), 1)).collect();
        assert_eq!(found, expected, "{tlp}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Written data reads back at any address, and neighbouring bytes do not change.
    #[test]
    fn written_data_reads_back(offset in 0_u64..0xf00, data in proptest::collection::vec(any::<u8>(), 1..256)) {
        let mut psmem = psmem(0x1000);
        let address = BASE + offset;
        let mut expected = vec![0; 0x1000];
        expected[offset as usize..][..data.len()].copy_from_slice(&data);
        let (mut at, mut rest) = (address, &data[..]);
        while !rest.is_empty() {
            let len = tlp::split::request_piece(at, rest.len() as u32, 256) as usize;
            let span = tlp::Span::covering(at, len as u32).unwrap();
            let request = tlp::MemoryRequest {
                op: MemoryOp::Write, requester: Bdf::default(), tag: Tag::default(), span,
            };
            let repr = Repr::new(Body::Memory(request));
            let mut tlp = vec![0; repr.tlp_len()];
            let header = repr.emit(&mut tlp);
            tlp[header + span.lead() as usize..][..len].copy_from_slice(&rest[..len]);
            handle(&mut psmem, &tlp);
            (at, rest) = (at + len as u64, &rest[len..]);
        }
        // 1024 DW.
        handle(&mut psmem, &hex("00000000 000003ff fe000000"));
        let found: Vec<u8> = answers(&mut psmem).iter().flat_map(|tlp| tlp[12..].to_vec()).collect();
        prop_assert_eq!(found, expected);
    }

    /// No bytes cause a panic. The only answers are one completion, or the data of a read.
    #[test]
    fn arbitrary_bytes_never_panic(first in any::<u8>(), rest in proptest::collection::vec(any::<u8>(), 0..40)) {
        let mut psmem = psmem(0x1000);
        handle(&mut psmem, &[&[first][..], &rest].concat());
        handle(&mut psmem, &rest);
        for tlp in answers(&mut psmem) {
            let parsed = Repr::parse(&tlp).unwrap();
            let Body::Completion(c) = parsed.repr.body else { panic!("{:?}", parsed.repr) };
            prop_assert!(c.length_dw.is_some() || c.status == Status::UnsupportedRequest);
        }
    }
}
