// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the completer's answers byte by byte. The requester has its own tests and is not used here.

use super::*;
use proptest::prelude::*;
use std::sync::Arc;
use tlp::{Access, Format, FormatId, IoRequest, MemoryRequest, Tag};

/// Sent completions as bytes, up to a limit.
struct Sent {
    room: usize,
    tlps: Vec<Vec<u8>>,
}

impl Completions for Sent {
    fn room(&self) -> usize {
        self.room - self.tlps.len()
    }

    fn send(&mut self, len: usize, fill: &mut dyn FnMut(&mut [u8])) {
        assert!(self.room() > 0);
        // Bytes that the slot held before must not remain.
        let mut slot = vec![0xee; len];
        fill(&mut slot);
        self.tlps.push(slot);
    }
}

const PEER: Bdf = Bdf::from_bits(0x1a00);
const SELF: Bdf = Bdf::from_bits(0x0100);

/// Returns the byte stored at an address: never zero, and equal only at addresses whose distance is a multiple of 251.
fn byte(address: u64) -> u8 {
    (address % 251) as u8 + 1
}

fn memory(bytes: u64) -> Arc<Image> {
    let mut image = Arc::new(Image::zeroes(bytes).unwrap());
    let data: Vec<u8> = (0..bytes).map(byte).collect();
    image.write(0, &data).unwrap();
    image
}

fn completer(mps: u32, rcb: u32) -> Completer {
    Completer::new(SELF, Mps::new(mps).unwrap(), Rcb::new(rcb).unwrap())
}

fn request(op: MemoryOp, span: Span) -> Repr {
    Repr::new(Body::Memory(MemoryRequest { op, requester: PEER, tag: Tag::from_bits(7), span }))
}

/// Returns the answers to a TLP.
fn answers(completer: &mut Completer, repr: &Repr, data: &[u8], memory: &mut Arc<Image>) -> Vec<Vec<u8>> {
    let mut sent = Sent { room: COMPLETIONS_MAX, tlps: Vec::new() };
    completer.handle(repr, data, memory, &mut sent).unwrap();
    assert_eq!(sent.tlps.len() as u64, completer.counters.completions);
    sent.tlps
}

// PCIe 5.0 §2.2.9, §2.3.1.1. The literal bytes were written by hand.
#[test]
fn splits_completions_with_byte_count_and_lower_address() {
    let mut image = memory(8192);
    let read = |span| request(MemoryOp::Read, span);
    // Eight bytes at 0x1000: one CplD of 2 DW, Byte Count 8, Lower Address 0.
    let got = answers(&mut completer(256, 64), &read(Span::covering(0x1000, 8).unwrap()), &[], &mut image);
    let head = [0x4a, 0, 0, 2, 0x01, 0, 0, 8, 0x1a, 0, 7, 0];
    assert_eq!(got, [[&head[..], &(0x1000..0x1008).map(byte).collect::<Vec<_>>()].concat()]);
    // Three bytes at 0x1045: Lower Address 0x45, Byte Count 3; bytes that were not requested are zero.
    let got = answers(&mut completer(256, 64), &read(Span::covering(0x1045, 3).unwrap()), &[], &mut image);
    let data = [0, byte(0x1045), byte(0x1046), byte(0x1047)];
    assert_eq!(got, [[&[0x4a, 0, 0, 1, 0x01, 0, 0, 3, 0x1a, 0, 7, 0x45][..], &data].concat()]);
    // Zero-length: one DW, Byte Count 1 (§2.3.1.1).
    let got = answers(&mut completer(256, 64), &read(Span::zero_length(0x1048)), &[], &mut image);
    assert_eq!(got.len(), 1);
    assert_eq!(got[0][..12], [0x4a, 0, 0, 1, 0x01, 0, 0, 1, 0x1a, 0, 7, 0x48]);
    // 4096 bytes at 0x1000: Byte Count 0 means 4096. Length 0 would mean 1024 DW, which upstream's programs read as no data, so
    // the read is split into 1008 and 16. A read one DW shorter gets one completion, of 1023 DW.
    let got =
        answers(&mut completer(4096, 64), &read(Span::covering(0x1000, 4096).unwrap()), &[], &mut image);
    let heads: Vec<(usize, &[u8])> = got.iter().map(|tlp| (tlp.len(), &tlp[..12])).collect();
    let first = (12 + 4032, &[0x4a, 0, 3, 0xf0, 0x01, 0, 0, 0, 0x1a, 0, 7, 0][..]);
    let last = (12 + 64, &[0x4a, 0, 0, 16, 0x01, 0, 0, 64, 0x1a, 0, 7, 0x40][..]);
    assert_eq!(heads, [first, last]);
    // Byte Counts of the completions.
    for (address, bytes, counts) in
        [(0x1004, 4092, &[4092][..]), (0x1001, 4092, &[4092, 61]), (0x1001, 4091, &[4091])]
    {
        let span = Span::covering(address, bytes).unwrap();
        let got = answers(&mut completer(4096, 64), &read(span), &[], &mut image);
        let found: Vec<u16> = got.iter().map(|tlp| u16::from_be_bytes([tlp[6] & 0xf, tlp[7]])).collect();
        assert_eq!(found, counts, "{bytes} bytes at {address:#x}");
    }
    // Outside the memory: Cpl, UR, with the Byte Count of the whole request.
    let mut refusing = completer(256, 64);
    let got = answers(&mut refusing, &read(Span::covering(0x1fff_fffd, 2).unwrap()), &[], &mut image);
    assert_eq!(got, [[0x0a, 0, 0, 0, 0x01, 0, 0x20, 2, 0x1a, 0, 7, 0x7d]]);
    assert_eq!(refusing.counters.reads_out_of_range, 1);
}

#[test]
fn refuses_or_counts_tlps_other_than_memory_reads() {
    let mut image = memory(4096);
    let io = IoRequest { op: Access::Read, requester: PEER, tag: Tag::from_bits(7), address: 0, first_be: 1 };
    let mut ats = request(MemoryOp::Read, Span::covering(0, 8).unwrap());
    ats.at = AddressType::TranslationRequest;
    for (what, repr, fmt_type, byte_count) in [
        ("IORd", Repr::new(Body::Io(io)), 0x0a, 4),
        ("MRdLk", request(MemoryOp::ReadLocked, Span::covering(0, 8).unwrap()), 0x0b, 8),
        ("DMWr", request(MemoryOp::WriteDeferrable, Span::covering(0, 4).unwrap()), 0x0a, 4),
        ("ATS", ats, 0x0a, 8),
    ] {
        let mut completer = completer(128, 64);
        let got = answers(&mut completer, &repr, &[0; 4][..repr.data_dw() as usize * 4], &mut image);
        let expected = [fmt_type, 0, 0, 0, 0x01, 0, 0x20, byte_count, 0x1a, 0, 7, 0];
        assert_eq!(got, [expected], "{what}");
        assert_eq!(completer.counters.unsupported, 1, "{what}");
    }
    let stray = CompletedRequest::of(&ats).unwrap().without_data(PEER, Status::Success);
    let mut completer = completer(128, 64);
    assert_eq!(answers(&mut completer, &stray, &[], &mut image), Vec::<Vec<u8>>::new());
    assert_eq!(completer.counters.stray_completions, 1);
}

#[test]
fn write_changes_only_enabled_bytes() {
    for (span, data, expected) in [
        (Span::in_dw(0x10, 0b0110), vec![1, 2, 3, 4], vec![(0x11, 2), (0x12, 3)]),
        (Span::in_dw(0x10, 0b1001), vec![1, 2, 3, 4], vec![(0x10, 1), (0x13, 4)]),
        (Span::in_dw(0x10, 0), vec![1, 2, 3, 4], vec![]),
        (
            Span::from_fields(0x10, 2, 0b0101, 0b1010).unwrap(),
            vec![1, 2, 3, 4, 5, 6, 7, 8],
            vec![(0x10, 1), (0x12, 3), (0x15, 6), (0x17, 8)],
        ),
    ] {
        let mut image = memory(64);
        let mut completer = completer(128, 64);
        answers(&mut completer, &request(MemoryOp::Write, span), &data, &mut image);
        let mut model: Vec<u8> = (0..64).map(byte).collect();
        expected.iter().for_each(|(at, value)| model[*at] = *value);
        let mut now = vec![0; 64];
        image.read(0, &mut now);
        assert_eq!(now, model, "{span:?}");
        assert_eq!((completer.counters.writes, completer.counters.written_bytes), (1, expected.len() as u64));
    }
}

#[test]
fn counts_rejected_writes() {
    let mut image = memory(64);
    let mut poisoned = request(MemoryOp::Write, Span::in_dw(0, 0xf));
    poisoned.ep = true;
    let beyond = request(MemoryOp::Write, Span::covering(62, 4).unwrap());
    let mut completer = completer(128, 64);
    answers(&mut completer, &poisoned, &[9; 4], &mut image);
    answers(&mut completer, &beyond, &[9; 8], &mut image);
    let counted: Vec<_> = completer.counters.rows().filter(|row| row.1 > 0).collect();
    assert_eq!(counted, [("writes_out_of_range", 1), ("poisoned", 1)]);
    let mut now = vec![0; 64];
    image.read(0, &mut now);
    assert_eq!(now, (0..64).map(byte).collect::<Vec<_>>());
}

#[test]
fn handles_no_read_without_room_for_all_completions() {
    let mut image = memory(8192);
    let mut completer = completer(128, 64);
    // 512 bytes starting 4 bytes after a boundary: 124, 3 x 128, 4.
    let read = request(MemoryOp::Read, Span::covering(0x1004, 512).unwrap());
    for (room, outcome) in [(0, Err(Full)), (4, Err(Full)), (5, Ok(()))] {
        let mut sent = Sent { room, tlps: Vec::new() };
        assert_eq!(completer.handle(&read, &[], &mut image, &mut sent), outcome, "{room}");
        assert_eq!(sent.tlps.len(), if outcome.is_ok() { 5 } else { 0 });
    }
    assert_eq!(completer.counters.reads, 1);
}

/// Reassembles completions as a strict requester does, and checks each one against the rules.
fn gather(tlps: &[Vec<u8>], span: Span, mps: u32, rcb: u64) -> Vec<u8> {
    let (mut address, mut remaining) = (span.first_byte(), span.byte_count());
    let mut data = Vec::new();
    for (n, bytes) in tlps.iter().enumerate() {
        let parsed = Repr::parse(bytes).unwrap();
        let Body::Completion(c) = parsed.repr.body else { panic!("no completion") };
        assert_eq!(Format::of_first_byte(bytes[0]).unwrap().id, FormatId::CplD);
        assert_eq!((c.completer, c.requester, c.tag), (SELF, PEER, Tag::from_bits(7)));
        assert_eq!(u32::from(c.byte_count), remaining);
        assert_eq!(u64::from(c.lower_address), address & 0x7f);
        assert!(parsed.repr.data_dw() * 4 <= mps);
        let lanes = parsed.repr.data_lanes();
        let payload = &bytes[parsed.data][lanes];
        data.extend(payload);
        address += payload.len() as u64;
        remaining -= payload.len() as u32;
        assert_eq!(c.is_last(), n + 1 == tlps.len());
        assert!(address % rcb == 0 || remaining == 0, "cut at {address:#x}");
    }
    data
}

#[test]
fn reads_of_every_alignment_are_exact_near_boundaries() {
    let mut image = memory(16384);
    for mps in [128, 256, 4096] {
        for lead in 0..4 {
            for len in (1..=260).chain([511, 512, 513, 1023, 1024, 2047, 4092 - 4, 4096 - lead as u32]) {
                for start in [0x1000, 0x1000 + 60, 0x1000 + 124] {
                    let Ok(span) = Span::covering(start + lead, len) else { continue };
                    let mut completer = completer(mps, 64);
                    let tlps = answers(&mut completer, &request(MemoryOp::Read, span), &[], &mut image);
                    let expected: Vec<u8> = (span.first_byte()..).take(len as usize).map(byte).collect();
                    assert_eq!(gather(&tlps, span, mps, 64), expected, "{len} at {:#x}", start + lead);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn any_read_is_exact(at in 0..4096_u64, len in 1..=4096_u32, mps in 7..13_u32, rcb in 6..8_u32) {
        let mut image = memory(8192);
        let len = len.min(4096 - at as u32);
        let span = Span::covering(4096 + at, len).unwrap();
        let mut completer = completer(1 << mps, 1 << rcb);
        let tlps = answers(&mut completer, &request(MemoryOp::Read, span), &[], &mut image);
        prop_assert!(tlps.len() <= COMPLETIONS_MAX);
        let expected: Vec<u8> = (4096 + at..).take(len as usize).map(byte).collect();
        prop_assert_eq!(gather(&tlps, span, 1 << mps, 1 << rcb), expected);
    }
}

/// Rows: a TLP sent to 4 KiB of memory, and the rule that it breaks.
#[test]
fn refused_tlps_have_a_rule() {
    let span = |address| Span::covering(address, 4).unwrap();
    let poisoned = Repr { ep: true, ..request(MemoryOp::Write, span(0)) };
    let completion = {
        let read = request(MemoryOp::Read, span(0));
        CompletedRequest::of(&read).unwrap().without_data(SELF, Status::Success)
    };
    let new = Violation::new;
    let rows = [
        (request(MemoryOp::Read, span(0x2000)), new(RuleId::UnclaimedAddress, 0x2000)),
        (request(MemoryOp::Write, span(0x2000)), new(RuleId::UnclaimedAddress, 0x2000)),
        (request(MemoryOp::ReadLocked, span(0)), new(RuleId::RequestType, 0x01)),
        (poisoned, new(RuleId::Poisoned, 1)),
        (completion, new(RuleId::UnexpectedCompletion, 0x1a00_0007)),
    ];
    for (repr, why) in rows {
        let (mut image, mut completer) = (memory(4096), completer(256, 64));
        for n in 1..=2 {
            completer.set_time(Time::from_ps(n));
            let mut sent = Sent { room: 1, tlps: Vec::new() };
            completer.handle(&repr, &[0; 4], &mut image, &mut sent).unwrap();
        }
        let found: Vec<_> = completer.refusals().iter().map(|r| (r.violation, r.at, r.count)).collect();
        assert_eq!(found, [(why, Time::from_ps(1), 2)], "{repr}");
        assert_eq!(completer.refusals()[0].tlp.to_string(), repr.to_string());
    }
}
