// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Headers as bytes. Each case has its source, and is parsed, printed and emitted.

use crate::common::hex;
use riser_tlp::{
    Access, Attributes, Bdf, Body, Completion, ConfigKind, ConfigRequest, Hint, MemoryOp, MemoryRequest,
    Message, MessageRouting, PayloadPool, ProcessingHint, Repr, Span, Tag, Tlp, TrafficClass, crc,
};

/// The cases of `cases/headers.txt`: the source, the bytes, and the printed text of each header.
#[test]
fn parses_prints_and_emits_headers() {
    for case in testkit::cases(include_str!("../cases/headers.txt")) {
        let [source, dws, line] = case.text.lines().collect::<Vec<_>>()[..] else { panic!("{}", case.text) };
        let bytes = hex(dws);
        let parsed = Repr::parse_header(&bytes).unwrap_or_else(|e| panic!("{source}: {e}"));
        assert_eq!(parsed.repr.to_string(), line, "{source}");
        assert_eq!(parsed.header_len, bytes.len(), "{source}");
        let mut out = [0xee; 16];
        let len = parsed.repr.emit(&mut out);
        assert_eq!(out[..len], bytes, "{source}");
    }
}

const A: Bdf = Bdf::from_bits(0x0100);
const B: Bdf = Bdf::from_bits(0x020b);

/// Complete TLPs: bytes, and the text that `{}` prints. Prefixes follow `PCIe 5.0 §2.2.10`, §2.2.7.1 and §6.20. The
/// digest of the last TLP is computed with zlib's CRC-32.
#[test]
fn parses_prints_and_emits_prefixes() {
    const READ: [u8; 12] = [0x00, 0, 0, 1, 1, 0, 7, 0x0f, 0x80, 0, 0, 0];
    const LINE: &str = "MRd, len 1, requester 01:00.0, tag 0x07, last 0x0, first 0xf, Addr 0x80000000";
    let rows: [(&[u8], &str); 7] = [
        (&[], ""),
        (&[0x91, 0x31, 0x23, 0x45], ", PASID 0x12345 PMR EXE"),
        (&[0x91, 0x00, 0x00, 0x07], ", PASID 0x00007"),
        (&[0x90, 0x12, 0, 0], ", ST[15:8] 0x12"),
        (&[0x80, 0xab, 0xcd, 0xef, 0x8f, 0, 0, 1], ", MR-IOV 0xabcdef, VendPrefixL1 0x000001"),
        (
            &[0x8e, 0, 0, 2, 0x9e, 0, 0, 3, 0x9f, 0, 0, 4],
            ", VendPrefixL0 0x000002, VendPrefixE0 0x000003, VendPrefixE1 0x000004",
        ),
        (&[0x92, 0, 0, 1], ", reserved prefix 0x92000001"),
    ];
    let pool = PayloadPool::new();
    for (prefixes, tail) in rows {
        let bytes = [prefixes, &READ].concat();
        let tlp = Tlp::parse(&bytes, &pool).unwrap();
        assert_eq!(tlp.to_string(), format!("{LINE}{tail}"));
        let mut out = [0xee; 64];
        let len = tlp.emit(&mut out);
        assert_eq!(out[..len], bytes);
    }
}

/// A digest is right for changes of bits that ECRC does not cover, and wrong for others. A wrong digest is emitted
/// wrong.
#[test]
fn detects_and_emits_wrong_digest() {
    let pool = PayloadPool::new();
    // MR-IOV, Extended TPH, then an MRd with TH and TD. The ECRC is the one in `crc.rs`, since local prefixes
    // are not covered.
    let mut bytes = vec![0x80, 0xff, 0xff, 0xff, 0x90, 0x11, 0, 0];
    bytes.extend([0x00, 0x00, 0x80, 0x04, 0x1b, 0x00, 0x03, 0xff, 0x2f, 0x00, 0x10, 0x00]);
    bytes.extend(0x3cfa_bcca_u32.to_be_bytes());
    assert_eq!(crc::check_ecrc(&bytes), Some(true));
    assert!(!Tlp::parse(&bytes, &pool).unwrap().has_wrong_ecrc());
    let rows = [
        (1, Some(true)),
        (5, Some(false)),
        (8, Some(true)),
        (10, Some(true)),
        (19, Some(false)),
        (23, Some(false)),
    ];
    for (byte, fits) in rows {
        let mut changed = bytes.clone();
        // Flips EP in byte 10, and bit 0 of all other bytes. In byte 8 this is bit 0 of Type.
        changed[byte] ^= if byte == 10 { 0x40 } else { 0x01 };
        assert_eq!(crc::check_ecrc(&changed), fits, "byte {byte}");
    }
    let mut wrong = Tlp::parse(&bytes, &pool).unwrap();
    wrong.flaw = riser_tlp::Flaw::WrongEcrc;
    assert!(wrong.to_string().contains(", TD, wrong ECRC, MR-IOV"));
    let mut out = [0; 24];
    wrong.emit(&mut out);
    assert_eq!((crc::check_ecrc(&out), Tlp::parse(&out, &pool)), (Some(false), Ok(wrong)));
    assert_eq!((crc::check_ecrc(&bytes[..23]), crc::check_ecrc(&[0; 12])), (None, None));
}

/// The same headers, emitted from plain values.
#[test]
fn emits_values_in_layouts_of_specification() {
    let read = MemoryRequest {
        op: MemoryOp::Read,
        requester: A,
        tag: Tag::from_bits(0x3ff),
        span: Span::covering(0x1_0000_0003, 6).unwrap(),
    };
    let mut repr = Repr::new(Body::Memory(read));
    repr.tc = TrafficClass::new(7).unwrap();
    repr.attr = Attributes::ID_BASED_ORDERING;
    repr.th = Some(Hint { ph: ProcessingHint::TargetWithPriority, st: 0 });
    repr.td = true;
    let completion = Completion {
        byte_count: 1,
        lower_address: 3,
        length_dw: Some(1024),
        ..Completion::new(B, A, Tag::from_bits(0x2aa))
    };
    let config = ConfigRequest {
        kind: ConfigKind::Type1,
        first_be: 0b1001,
        ..ConfigRequest::new(Access::Write, A, Tag::from_bits(0x100), B, 0x3ff)
    };
    let message =
        Message { header: [1, 2, 3, 4, 5, 6, 7, 8], ..Message::new(MessageRouting::Gathered, A, 0x1b) };
    let rows: [(Repr, &[u8]); 4] = [
        (repr, &[0x20, 0xfd, 0x80, 0x03, 0x01, 0x00, 0xff, 0x00, 0, 0, 0, 1, 0, 0, 0, 0x03]),
        (
            Repr::new(Body::Completion(completion)),
            &[0x4a, 0x80, 0x00, 0x00, 0x02, 0x0b, 0x00, 0x01, 0x01, 0x00, 0xaa, 0x03],
        ),
        (
            Repr::new(Body::Config(config)),
            &[0x45, 0x08, 0x00, 0x01, 0x01, 0x00, 0x00, 0x09, 0x02, 0x0b, 0x0f, 0xfc],
        ),
        (Repr::new(Body::Message(message)), &[0x35, 0, 0, 0, 0x01, 0x00, 0x00, 0x1b, 1, 2, 3, 4, 5, 6, 7, 8]),
    ];
    // The first row has Length 3, because 6 bytes from byte 3 on are in 3 DWs.
    for (repr, bytes) in rows {
        let mut out = [0; 16];
        let len = repr.emit(&mut out);
        assert_eq!(&out[..len], bytes, "{repr}");
    }
}

/// Some peers send a 4-DW header for an address below 4 GiB, which §2.2.4.1 leaves undefined. riser normalizes it.
#[test]
fn normalizes_4_dw_header_for_address_below_4_gib() {
    let bytes = [0x60, 0, 0, 1, 0x01, 0x00, 0, 0x0f, 0, 0, 0, 0, 0xfe, 0xe0, 0x00, 0x00, 1, 2, 3, 4];
    let parsed = Repr::parse(&bytes).unwrap();
    assert_eq!((parsed.header_len, parsed.data.clone(), parsed.repr.header_len()), (16, 16..20, 12));
    let mut out = [0; 12];
    parsed.repr.emit(&mut out);
    assert_eq!(out, [0x40, 0, 0, 1, 0x01, 0x00, 0, 0x0f, 0xfe, 0xe0, 0x00, 0x00]);
}

/// Fields that a receiver must ignore are not in the value: LN in a TLP without LN, PH without TH, AT and TH of a
/// completion, Attr[2] of a configuration request, reserved register bits, and Length without data.
#[test]
fn ignores_reserved_bits() {
    let rows: [(&str, &[u8], &[u8]); 4] = [
        (
            "MRdLk: LN, address bits 1:0",
            &[0x01, 0x02, 0, 1, 1, 0, 7, 0x0f, 0x80, 0, 0, 0x03],
            &[0x01, 0x00, 0, 1, 1, 0, 7, 0x0f, 0x80, 0, 0, 0x00],
        ),
        (
            "Cpl: TH, AT, Length, bit 7 of the last byte",
            &[0x0a, 0x01, 0x0c, 1, 2, 0, 0x20, 4, 1, 0, 7, 0x80],
            &[0x0a, 0x00, 0x00, 0, 2, 0, 0x20, 4, 1, 0, 7, 0x00],
        ),
        (
            "CfgRd0: Attr[2], LN, TH, reserved register bits",
            &[0x04, 0x07, 0, 1, 0, 0, 1, 0x0f, 1, 0, 0xf0, 0x03],
            &[0x04, 0x00, 0, 1, 0, 0, 1, 0x0f, 1, 0, 0x00, 0x00],
        ),
        (
            "Msg: LN, TH, AT, Length",
            &[0x34, 0x03, 0x0c, 9, 1, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0x34, 0x00, 0x00, 0, 1, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0],
        ),
    ];
    for (what, bytes, plain) in rows {
        let repr = Repr::parse(bytes).unwrap_or_else(|e| panic!("{what}: {e}")).repr;
        assert_eq!(repr, Repr::parse(plain).unwrap().repr, "{what}");
    }
}
