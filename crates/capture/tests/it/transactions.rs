// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The matcher, tested with one sequence of TLPs per row.

use crate::common::{completion, memory};
use riser_capture::Timestamp;
use riser_capture::matcher::{MAX_OUTSTANDING, Match, Matcher, Target};
use tlp::{
    Access, AtomicOp, AtomicRequest, Bdf, Body, ConfigRequest, Data, IoRequest, MemoryOp, Repr, Status, Tag,
};

fn read(tag: u16, address: u64, len: u32) -> Repr {
    memory(MemoryOp::Read, 0x1900, tag, address, len, Data::NONE).repr
}

fn answer(tag: u16, byte_count: u16, dw: u16) -> Repr {
    completion(0x1900, tag, byte_count, Some(dw), Status::Success)
}

/// The result of each TLP, and the matcher afterwards.
fn story(tlps: &[Repr]) -> (Vec<&'static str>, Matcher) {
    let mut matcher = Matcher::new();
    let mut told = Vec::new();
    for (i, repr) in tlps.iter().enumerate() {
        let time = Timestamp::from_ps(1000 * i as u128);
        told.push(match matcher.see(i as u64 + 1, time, (0, None), repr) {
            Match::Posted => "posted",
            Match::Request => "request",
            Match::Repeat => "repeat",
            Match::TagReuse => "reuse",
            Match::Untracked => "untracked",
            Match::Partial => "partial",
            Match::Complete(_) => "complete",
            Match::Unmatched => "unmatched",
        });
    }
    (told, matcher)
}

/// TLPs, the result of each, and the outstanding requests of 19:00.0 afterwards: current and maximum number.
type Story<'a> = (&'a [Repr], &'a [&'a str], (u32, u32));

#[test]
fn matches_completions_with_requests() {
    let ur = completion(0x1900, 1, 4, None, Status::UnsupportedRequest);
    let rows: [Story<'_>; 13] = [
        // The same completion again, then the next one.
        (
            &[read(1, 0, 512), answer(1, 512, 64), answer(1, 512, 64), answer(1, 256, 64)],
            &["request", "partial", "repeat", "complete"],
            (0, 1),
        ),
        // A locked read, and a tag of ten bits.
        (
            &[
                memory(MemoryOp::ReadLocked, 0x1900, 1023, 0, 64, Data::NONE).repr,
                locked(answer(1023, 64, 16)),
                read(1022, 0, 64),
                answer(1022, 64, 16),
            ],
            &["request", "complete", "request", "complete"],
            (0, 1),
        ),
        // Requests with data and a completion: DMWr and IOWr with a Cpl, AtomicOps with the old value (PCIe 5.0
        // §2.2.7, §6.15).
        (
            &[
                memory(MemoryOp::WriteDeferrable, 0x1900, 1, 0, 64, Data::Counted(64)).repr,
                completion(0x1900, 1, 4, None, Status::Success),
                io(2, Access::Write),
                completion(0x1900, 2, 4, None, Status::Success),
                atomic(3),
                answer(3, 8, 2),
            ],
            &["request", "complete", "request", "complete", "request", "complete"],
            (0, 1),
        ),
        (&[io(2, Access::Read), answer(2, 4, 1)], &["request", "complete"], (0, 1)),
        (
            &[read(1, 0, 512), answer(1, 512, 64), answer(1, 256, 64)],
            &["request", "partial", "complete"],
            (0, 1),
        ),
        (
            &[read(1, 0, 64), read(2, 64, 64), answer(2, 64, 16), answer(1, 64, 16)],
            &["request", "request", "complete", "complete"],
            (0, 2),
        ),
        (&[answer(1, 64, 16)], &["unmatched"], (0, 0)),
        (&[read(1, 0, 64), ur, answer(1, 64, 16)], &["request", "complete", "unmatched"], (0, 1)),
        // A replay, or a copy of the TLP from another place.
        (&[read(1, 0, 64), read(1, 0, 64), answer(1, 64, 16)], &["request", "repeat", "complete"], (0, 1)),
        // p4600-write-64blk.pcap: the mirroring switch shows the next request before the last completion.
        (
            &[read(1, 0, 512), answer(1, 512, 64), read(1, 512, 512), answer(1, 256, 64), answer(1, 512, 64)],
            &["request", "partial", "reuse", "complete", "partial"],
            (1, 1),
        ),
        (
            &[read(1, 0, 64), read(1, 64, 128), answer(1, 128, 32), answer(1, 64, 16)],
            &["request", "reuse", "complete", "complete"],
            (0, 1),
        ),
        (
            &[read(1, 0, 64), read(1, 64, 64), read(1, 128, 64), answer(1, 64, 16)],
            &["request", "reuse", "reuse", "complete"],
            (1, 1),
        ),
        // 5 bytes from offset 3 on: the completion has 2 DW, of which 5 bytes count.
        (&[read(1, 3, 5), unaligned()], &["request", "complete"], (0, 1)),
    ];
    for (tlps, words, (now, max)) in rows {
        let (told, matcher) = story(tlps);
        assert_eq!(told, words);
        let outstanding = matcher.outstanding().map(|(_, o)| (o.now, o.max)).next().unwrap_or_default();
        assert_eq!(outstanding, (now, max), "{words:?}");
        assert_eq!(matcher.counts().byte_count_mismatches, 0, "{words:?}");
    }
}

fn locked(mut completion: Repr) -> Repr {
    if let Body::Completion(c) = &mut completion.body {
        c.locked = true;
    }
    completion
}

fn io(tag: u16, op: Access) -> Repr {
    let (requester, tag) = (Bdf::from_bits(0x1900), Tag::new(tag).unwrap());
    Repr::new(Body::Io(IoRequest { op, requester, tag, address: 0x3f8, first_be: 0xf }))
}

/// A CAS of 64 bits: two operands in the request, one value in the completion.
fn atomic(tag: u16) -> Repr {
    Repr::new(Body::Atomic(AtomicRequest {
        op: AtomicOp::CompareSwap,
        operand: AtomicOp::CompareSwap.operand_of_length(4).unwrap(),
        requester: Bdf::from_bits(0x1900),
        tag: Tag::new(tag).unwrap(),
        address: 0x1000,
    }))
}

fn unaligned() -> Repr {
    let mut repr = answer(1, 5, 2);
    if let Body::Completion(c) = &mut repr.body {
        c.lower_address = 3;
    }
    repr
}

#[test]
fn reports_fields_of_each_transaction() {
    let (_, mut matcher) = story(&[read(7, 0x1000, 512), answer(7, 512, 64)]);
    assert_eq!(matcher.waiting().count(), 1);
    let last = matcher.see(9, Timestamp::from_ps(5_000), (0, None), &answer(7, 256, 64));
    let Match::Complete(t) = last else { panic!("{last:?}") };
    let seen = (t.request_number, t.target, t.bytes, t.remaining, t.completions);
    assert_eq!(seen, (1, Target::Address(0x1000), 512, 0, 2));
    assert_eq!((t.latency_ps(), t.status), (5_000, Some(Status::Success)));
    let mut line = String::new();
    riser_capture::transactions::append_line(&t, 12, &mut line);
    let expected = "0.000000000000 MRd requester 19:00.0, tag 0x07, Addr 0x00001000, 512 bytes: 2 completions, success, \
                    first data 1.000 ns, response 5.000 ns, 819.200 Gb/s";
    assert_eq!(line, expected);
    line.clear();
    riser_capture::transactions::append_json(&t, &mut line);
    let object: serde_json::Value = serde_json::from_str(&line).unwrap();
    let expected = serde_json::json!({
        "type": "MRd", "number": 1, "timestamp_ps": 0, "link": 0, "requester": "19:00.0", "tag": 7, "tc": 0,
        "address": 4096, "request_bytes": 512, "completions": 2, "status": "SC", "data_bytes": 512,
        "latency_ps": 5000, "first_data_ps": 1000, "throughput_mbps": 819_200, "packets": 3, "retries": 0,
    });
    assert_eq!(object, expected);
    assert_eq!(matcher.waiting().count(), 0);
}

#[test]
fn counts_wrong_byte_count() {
    let (told, matcher) = story(&[read(1, 0, 512), answer(1, 256, 64), answer(1, 256, 64)]);
    assert_eq!(told, ["request", "partial", "complete"]);
    assert_eq!(matcher.counts().byte_count_mismatches, 1);
}

#[test]
fn configuration_request_ends_with_first_completion() {
    for op in [Access::Read, Access::Write] {
        let config = Repr::new(Body::Config(ConfigRequest::new(
            op,
            Bdf::from_bits(0x1900),
            Tag::new(3).unwrap(),
            Bdf::from_bits(0x0100),
            4,
        )));
        let done = completion(0x1900, 3, 4, (op == Access::Read).then_some(1), Status::Success);
        assert_eq!(story(&[config, done]).0, ["request", "complete"]);
    }
}

#[test]
fn separates_links_and_requesters() {
    let mut matcher = Matcher::new();
    for link in [0, 1] {
        assert_eq!(matcher.see(1, Timestamp::ZERO, (link, None), &read(1, 0, 64)), Match::Request);
    }
    let other = memory(MemoryOp::Read, 0x1a00, 1, 0, 64, Data::NONE).repr;
    assert_eq!(matcher.see(2, Timestamp::ZERO, (0, None), &other), Match::Request);
    assert_eq!(matcher.outstanding().count(), 3);
}

#[test]
fn limits_number_of_outstanding_requests() {
    let mut matcher = Matcher::new();
    let all = (0..65u16).flat_map(|requester| (0..1024).map(move |tag| (requester, tag)));
    for (requester, tag) in all {
        let repr = memory(MemoryOp::Read, requester, tag, 0, 64, Data::NONE).repr;
        matcher.see(1, Timestamp::ZERO, (0, None), &repr);
    }
    assert_eq!(matcher.waiting().count(), MAX_OUTSTANDING);
    assert_eq!(matcher.counts().expired, 65 * 1024 - MAX_OUTSTANDING as u64);
    // The oldest requests, those of the first requester, were given up.
    assert_eq!(matcher.waiting().map(|t| t.requester.id.bits()).min(), Some(1));
    assert_eq!(matcher.outstanding().map(|(_, o)| o.now).sum::<u32>() as usize, MAX_OUTSTANDING);
}
