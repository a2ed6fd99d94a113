// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Headers as bytes. Each row has its source, and is parsed, printed and emitted.

use riser_tlp::{
    Access, Attributes, Bdf, Body, Completion, ConfigKind, ConfigRequest, Hint, MemoryOp, MemoryRequest,
    Message, MessageRouting, PayloadPool, ProcessingHint, Repr, Span, Status, Tag, Tlp, TrafficClass, crc,
};

struct Row {
    source: &'static str,
    bytes: &'static [u8],
    /// The text that `{}` prints.
    line: &'static str,
}

const fn row(source: &'static str, bytes: &'static [u8], line: &'static str) -> Row {
    Row { source, bytes, line }
}

/// Headers from captures and from the paper.
const SEEN: &[Row] = &[
    row(
        "NSDI'20 Figure 15(a) line 2; simple-nic-ping.pcap frame 2",
        &[0x00, 0x00, 0x00, 0x04, 0x1b, 0x00, 0x03, 0xff, 0x2f, 0x00, 0x10, 0x00],
        "MRd, len 4, requester 1b:00.0, tag 0x03, last 0xf, first 0xf, Addr 0x2f001000",
    ),
    row(
        "NSDI'20 Figure 15(a) line 1; simple-nic-ping.pcap frame 1",
        &[0x40, 0x00, 0x00, 0x01, 0x00, 0x00, 0x03, 0x0f, 0xa0, 0x00, 0x00, 0x10],
        "MWr, len 1, requester 00:00.0, tag 0x03, last 0x0, first 0xf, Addr 0xa0000010",
    ),
    row(
        "NSDI'20 Figure 15(a) line 3; simple-nic-ping.pcap frame 3",
        &[0x4a, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x10, 0x1b, 0x00, 0x03, 0x00],
        "CplD, len 4, completer 00:00.0, success, bc 16, requester 1b:00.0, tag 0x03, lowaddr 0x00",
    ),
    row(
        "NSDI'20 Figure 15(a) line 4; simple-nic-ping.pcap frame 4",
        &[0x00, 0x00, 0x00, 0x19, 0x1b, 0x00, 0x03, 0x3f, 0x3b, 0xb2, 0x68, 0x00],
        "MRd, len 25, requester 1b:00.0, tag 0x03, last 0x3, first 0xf, Addr 0x3bb26800",
    ),
    row(
        "NSDI'20 Figure 15(a) line 5; simple-nic-ping.pcap frame 5",
        &[0x4a, 0x00, 0x00, 0x19, 0x00, 0x00, 0x00, 0x62, 0x1b, 0x00, 0x03, 0x00],
        "CplD, len 25, completer 00:00.0, success, bc 98, requester 1b:00.0, tag 0x03, lowaddr 0x00",
    ),
    row(
        "NSDI'20 Figure 15(b) line 1; simple-nic-ping.pcap frame 7",
        &[0x40, 0x00, 0x00, 0x19, 0x1b, 0x00, 0x02, 0x3f, 0x2f, 0x00, 0x30, 0x00],
        "MWr, len 25, requester 1b:00.0, tag 0x02, last 0x3, first 0xf, Addr 0x2f003000",
    ),
    row(
        "x520-1500B-1pkt.pcap frame 1",
        &[0x00, 0x00, 0x20, 0x80, 0x19, 0x00, 0x02, 0xff, 0x90, 0x00, 0x00, 0x00],
        "MRd, len 128, requester 19:00.0, tag 0x02, last 0xf, first 0xf, Addr 0x90000000, RO",
    ),
    row(
        "x520-1500B-1pkt.pcap frame 9: 220 of 476 B remain",
        &[0x4a, 0x00, 0x20, 0x37, 0x1b, 0x00, 0x00, 0xdc, 0x19, 0x00, 0x04, 0x00],
        "CplD, len 55, completer 1b:00.0, success, bc 220, requester 19:00.0, tag 0x04, lowaddr 0x00, RO",
    ),
    row(
        "mrd-512byte-rc.pcap frame 15",
        &[0x4a, 0x00, 0x00, 0x10, 0x68, 0x00, 0x00, 0x40, 0x64, 0x00, 0x05, 0x40],
        "CplD, len 16, completer 68:00.0, success, bc 64, requester 64:00.0, tag 0x05, lowaddr 0x40",
    ),
    row(
        "p4600-read-1blk.pcap frame 1",
        &[0x40, 0x00, 0x20, 0x40, 0x19, 0x00, 0x00, 0xff, 0xa0, 0x00, 0x00, 0x00],
        "MWr, len 64, requester 19:00.0, tag 0x00, last 0xf, first 0xf, Addr 0xa0000000, RO",
    ),
];

/// Headers built from the layouts of `PCIe 5.0 §2.2`, one for each field.
const MADE: &[Row] = &[
    row(
        "§2.2.7 64-bit address, Length 0 = 1024 DW",
        &[0x20, 0, 0x00, 0x00, 0x01, 0x00, 0x07, 0xff, 0, 0, 0x00, 0x12, 0x34, 0x56, 0x70, 0x00],
        "MRd, len 1024, requester 01:00.0, tag 0x07, last 0xf, first 0xf, Addr 0x1234567000",
    ),
    row(
        "§2.2.5 zero-length read",
        &[0x00, 0, 0x00, 0x01, 0x01, 0x00, 0x07, 0x00, 0x80, 0x00, 0x00, 0x00],
        "MRd, len 1, requester 01:00.0, tag 0x07, last 0x0, first 0x0, Addr 0x80000000",
    ),
    row(
        "§2.2.5 holes in one DW",
        &[0x40, 0, 0x00, 0x01, 0x01, 0x00, 0x07, 0x05, 0x80, 0x00, 0x00, 0x00],
        "MWr, len 1, requester 01:00.0, tag 0x07, last 0x0, first 0x5, Addr 0x80000000",
    ),
    row(
        "§2.2.5 holes in two DW, QW-aligned",
        &[0x40, 0, 0x00, 0x02, 0x01, 0x00, 0x07, 0xa5, 0x80, 0x00, 0x00, 0x08],
        "MWr, len 2, requester 01:00.0, tag 0x07, last 0xa, first 0x5, Addr 0x80000008",
    ),
    row(
        "§2.2.6.2 10-bit tag, T9 and T8; §2.2.6.6 TC 5; §2.2.6.4 all attributes; §10.2.1 AT 10b; §2.2.3 TD; §2.7.2 EP",
        &[0x00, 0xdc, 0xf8, 0x01, 0x01, 0x02, 0x55, 0x0f, 0x80, 0x00, 0x00, 0x00],
        "MRd, len 1, requester 01:00.2, tag 0x355, last 0x0, first 0xf, Addr 0x80000000, \
         TC 5, NS, RO, IDO, AT 2, TD, EP (poisoned)",
    ),
    row(
        "§2.2.7.1 read with TH: PH 10b, ST in the Byte Enables' place",
        &[0x00, 0x01, 0x00, 0x04, 0x01, 0x00, 0x07, 0x21, 0x80, 0x00, 0x00, 0x02],
        "MRd, len 4, requester 01:00.0, tag 0x07, last 0xf, first 0xf, Addr 0x80000000, PH 2, ST 0x21",
    ),
    row(
        "§2.2.7.1 write with TH, 64-bit: PH 01b, ST in the Tag's place",
        &[0x60, 0x01, 0x00, 0x01, 0x01, 0x00, 0x99, 0x0c, 0, 0, 0, 1, 0x00, 0x00, 0x00, 0x01],
        "MWr, len 1, requester 01:00.0, tag 0x00, last 0x0, first 0xc, Addr 0x100000000, PH 1, ST 0x99",
    ),
    row(
        "§2.2.9 Byte Count 0 = 4096, BCM",
        &[0x4a, 0, 0x00, 0x20, 0x02, 0x08, 0x10, 0x00, 0x01, 0x00, 0x07, 0x7c],
        "CplD, len 32, completer 02:01.0, success, bc 4096, requester 01:00.0, tag 0x07, lowaddr 0x7c",
    ),
    row(
        "§2.2.9.1 UR, a 10-bit tag",
        &[0x0a, 0x08, 0x00, 0x00, 0x02, 0x00, 0x20, 0x04, 0x01, 0x00, 0x07, 0x00],
        "Cpl, len 0, completer 02:00.0, unsupported request, bc 4, requester 01:00.0, tag 0x107, lowaddr 0x00",
    ),
    row(
        "§2.2.9.1 CRS",
        &[0x0a, 0x00, 0x00, 0x00, 0x02, 0x00, 0x40, 0x04, 0x01, 0x00, 0x07, 0x00],
        "Cpl, len 0, completer 02:00.0, configuration retry, bc 4, requester 01:00.0, tag 0x07, lowaddr 0x00",
    ),
    row(
        "§2.2.9.1 CA",
        &[0x0a, 0x00, 0x00, 0x00, 0x02, 0x00, 0x80, 0x04, 0x01, 0x00, 0x07, 0x00],
        "Cpl, len 0, completer 02:00.0, completer abort, bc 4, requester 01:00.0, tag 0x07, lowaddr 0x00",
    ),
    row(
        "§2.2.7 CfgRd0 of register 0",
        &[0x04, 0x00, 0x00, 0x01, 0x00, 0x00, 0x01, 0x0f, 0x01, 0x00, 0x00, 0x00],
        "CfgRd0, len 1, requester 00:00.0, tag 0x01, last 0x0, first 0xf, completer 01:00.0, register 0x000",
    ),
    row(
        "§2.2.7 CfgWr0 of the Command register",
        &[0x44, 0x00, 0x00, 0x01, 0x00, 0x00, 0x01, 0x03, 0x01, 0x00, 0x00, 0x04],
        "CfgWr0, len 1, requester 00:00.0, tag 0x01, last 0x0, first 0x3, completer 01:00.0, register 0x004",
    ),
    row(
        "§2.2.7 CfgRd1, Extended Register Number",
        &[0x05, 0x00, 0x00, 0x01, 0x00, 0x00, 0x01, 0x0f, 0x05, 0x0b, 0x0f, 0xfc],
        "CfgRd1, len 1, requester 00:00.0, tag 0x01, last 0x0, first 0xf, completer 05:01.3, register 0xffc",
    ),
    row(
        "§2.2.7 CfgWr1",
        &[0x45, 0x00, 0x00, 0x01, 0x00, 0x00, 0x01, 0x0c, 0x05, 0x00, 0x01, 0x00],
        "CfgWr1, len 1, requester 00:00.0, tag 0x01, last 0x0, first 0xc, completer 05:00.0, register 0x100",
    ),
    row(
        "§6.21 LN read",
        &[0x00, 0x02, 0, 0x10, 1, 0, 7, 0xff, 0x80, 0, 0, 0x40],
        "MRd, len 16, requester 01:00.0, tag 0x07, last 0xf, first 0xf, Addr 0x80000040, LN",
    ),
    row(
        "Table 2-3 MRdLk, 64-bit address",
        &[0x21, 0, 0, 0x01, 0, 0, 7, 0x0f, 0, 0, 0, 1, 0x80, 0, 0, 0x40],
        "MRdLk, len 1, requester 00:00.0, tag 0x07, last 0x0, first 0xf, Addr 0x180000040",
    ),
    row(
        "Table 2-3 (ECN Deferrable Memory Write) DMWr of 64 B",
        &[0x5b, 0, 0, 0x10, 0, 0, 7, 0xff, 0x80, 0, 0, 0x40],
        "DMWr, len 16, requester 00:00.0, tag 0x07, last 0xf, first 0xf, Addr 0x80000040",
    ),
    row(
        "§2.2.7 IORd",
        &[0x02, 0, 0, 1, 0, 0, 7, 0x04, 0, 0, 0xcf, 0xf8],
        "IORd, len 1, requester 00:00.0, tag 0x07, last 0x0, first 0x4, Addr 0x0000cff8",
    ),
    row(
        "§2.2.7 IOWr",
        &[0x42, 0, 0, 1, 0, 0, 7, 0x0f, 0, 0, 0xcf, 0xfc],
        "IOWr, len 1, requester 00:00.0, tag 0x07, last 0x0, first 0xf, Addr 0x0000cffc",
    ),
    row(
        "§2.2.7 FetchAdd of 32 bits",
        &[0x4c, 0, 0, 1, 1, 0, 7, 0, 0x80, 0, 0, 0x04],
        "FetchAdd, len 1, requester 01:00.0, tag 0x07, operand 4 B, Addr 0x80000004",
    ),
    row(
        "§2.2.7 Swap of 64 bits, §2.2.7.1 TH: ST in the Byte Enables' place",
        &[0x6d, 1, 0, 2, 1, 0, 7, 0x5a, 0, 0, 0, 2, 0x80, 0, 0, 0x09],
        "Swap, len 2, requester 01:00.0, tag 0x07, operand 8 B, Addr 0x280000008, PH 1, ST 0x5a",
    ),
    row(
        "§2.2.7 CAS of 128 bits",
        &[0x4e, 0, 0, 8, 1, 0, 7, 0, 0x80, 0, 0, 0x10],
        "CAS, len 8, requester 01:00.0, tag 0x07, operand 16 B, Addr 0x80000010",
    ),
    row(
        "Table 2-3 CplLk, UR",
        &[0x0b, 0, 0, 0, 2, 0, 0x20, 4, 0, 0, 7, 0],
        "CplLk, len 0, completer 02:00.0, unsupported request, bc 4, requester 00:00.0, tag 0x07, lowaddr 0x00",
    ),
    row(
        "Table 2-3 CplDLk",
        &[0x4b, 0, 0, 1, 2, 0, 0x00, 4, 0, 0, 7, 0x40],
        "CplDLk, len 1, completer 02:00.0, success, bc 4, requester 00:00.0, tag 0x07, lowaddr 0x40",
    ),
    row(
        "§2.2.8.6.3 DRS",
        &[0x34, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x7f, 0, 0, 0, 1, 8, 0, 0, 0],
        "Msg, len 0, requester 01:00.0, tag 0x00, code 0x7f DRS, routing local, header 0x0000000108000000",
    ),
    row(
        "§2.2.8.1 Assert_INTA",
        &[0x34, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x20, 0, 0, 0, 0, 0, 0, 0, 0],
        "Msg, len 0, requester 01:00.0, tag 0x00, code 0x20 Assert_INTA, routing local, header 0x0000000000000000",
    ),
    row(
        "§2.2.8.5 Set_Slot_Power_Limit",
        &[0x74, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x50, 0, 0, 0, 0, 0, 0, 0, 0],
        "MsgD, len 1, requester 00:00.0, tag 0x00, code 0x50 Set_Slot_Power_Limit, routing local, header 0x0000000000000000",
    ),
    row(
        "§2.2.8.8, §6.18 LTR: no-snoop 70 x 1024 ns; no snoop requirement",
        &[0x34, 0, 0, 0, 0x70, 0, 0, 0x10, 0, 0, 0, 0, 0x88, 0x46, 0x08, 0x46],
        "Msg, len 0, requester 70:00.0, tag 0x00, code 0x10 LTR, routing local, header 0x0000000088460846, \
         no snoop requirement, no-snoop latency 71680 ns",
    ),
    row(
        "§2.2.8.6 Vendor_Defined Type 1 by ID",
        &[0x72, 0x00, 0x00, 0x02, 0x01, 0x00, 0x09, 0x7f, 0x02, 0x00, 0x1a, 0xb4, 0xde, 0xad, 0xbe, 0xef],
        "MsgD, len 2, requester 01:00.0, tag 0x09, code 0x7f Vendor_Defined_Type_1, routing by ID, header 0x02001ab4deadbeef",
    ),
];

#[test]
fn parses_prints_and_emits_headers() {
    for Row { source, bytes, line } in SEEN.iter().chain(MADE) {
        let parsed = Repr::parse_header(bytes).unwrap_or_else(|e| panic!("{source}: {e}"));
        assert_eq!(parsed.repr.to_string(), *line, "{source}");
        assert_eq!(parsed.header_len, bytes.len(), "{source}");
        let mut out = [0xee; 16];
        let len = parsed.repr.emit(&mut out);
        assert_eq!(out[..len], **bytes, "{source}");
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
        locked: false,
        completer: B,
        requester: A,
        tag: Tag::from_bits(0x2aa),
        status: Status::Success,
        bcm: false,
        byte_count: 1,
        lower_address: 3,
        length_dw: Some(1024),
    };
    let config = ConfigRequest {
        op: Access::Write,
        kind: ConfigKind::Type1,
        requester: A,
        tag: Tag::from_bits(0x100),
        completer: B,
        register_dw: 0x3ff,
        first_be: 0b1001,
    };
    let message = Message {
        routing: MessageRouting::Gathered,
        requester: A,
        tag: Tag::default(),
        code: 0x1b,
        header: [1, 2, 3, 4, 5, 6, 7, 8],
        length_dw: None,
    };
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
