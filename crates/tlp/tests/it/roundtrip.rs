// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Properties: each TLP survives emit and parse unchanged, and any bytes are a TLP or an error.

use crate::common::cases;
use proptest::prelude::*;
use riser_tlp::{
    Access, AddressType, AtomicOp, AtomicRequest, Attributes, Bdf, Body, Completion, ConfigKind,
    ConfigRequest, Data, Hint, IoRequest, MemoryOp, MemoryRequest, Message, MessageRouting, PayloadPool,
    Prefix, Prefixes, ProcessingHint, Repr, Span, Status, Tag, Tlp, TrafficClass, crc,
};

use crate::checks;

fn bdf() -> impl Strategy<Value = Bdf> {
    any::<u16>().prop_map(Bdf::from_bits)
}

fn tag() -> impl Strategy<Value = Tag> {
    (0..Tag::COUNT).prop_map(Tag::from_bits)
}

fn op() -> impl Strategy<Value = MemoryOp> {
    prop_oneof![
        Just(MemoryOp::Read),
        Just(MemoryOp::Write),
        Just(MemoryOp::ReadLocked),
        Just(MemoryOp::WriteDeferrable)
    ]
}

fn address() -> impl Strategy<Value = u64> {
    prop_oneof![0..1u64 << 32, any::<u64>()]
}

/// Contiguous bytes, one DW with any Byte Enables, or a QW with gaps.
fn span() -> impl Strategy<Value = Span> {
    prop_oneof![
        (address(), 0..4096u64, 1..=4096u32).prop_map(|(page, offset, len)| {
            let room = 4096 - offset as u32;
            Span::covering(page & !0xfff | offset, len.min(room)).unwrap()
        }),
        (address(), 0..16u8).prop_map(|(address, be)| Span::from_fields(address & !3, 1, be, 0).unwrap()),
        (address(), 1..16u8, 1..16u8).prop_map(|(address, first, last)| Span::from_fields(
            address & !7,
            2,
            first,
            last
        )
        .unwrap()),
    ]
}

fn length() -> impl Strategy<Value = Option<u16>> {
    prop::option::of(1..=1024u16)
}

fn memory() -> impl Strategy<Value = Body> {
    (op(), bdf(), tag(), span()).prop_map(|(op, requester, tag, span)| {
        // At most 32 DW (ECN "Deferrable Memory Write").
        let short = || Span::covering(span.first_byte(), span.byte_count().min(64)).unwrap();
        let span = if op == MemoryOp::WriteDeferrable && span.length_dw() > 32 { short() } else { span };
        Body::Memory(MemoryRequest { op, requester, tag, span })
    })
}

fn io() -> impl Strategy<Value = Body> {
    (access(), bdf(), tag(), any::<u32>(), 0..16u8).prop_map(|(op, requester, tag, address, first_be)| {
        Body::Io(IoRequest { op, requester, tag, address: address & !3, first_be })
    })
}

fn atomic() -> impl Strategy<Value = Body> {
    use AtomicOp::{CompareSwap, FetchAdd, Swap};
    let kinds = [
        (FetchAdd, 1),
        (FetchAdd, 2),
        (Swap, 1),
        (Swap, 2),
        (CompareSwap, 2),
        (CompareSwap, 4),
        (CompareSwap, 8),
    ];
    (prop::sample::select(kinds.to_vec()), bdf(), tag(), address()).prop_map(
        |((op, length), requester, tag, address)| {
            let operand = op.operand_of_length(length).unwrap();
            let address = address & !u64::from(operand.bytes() - 1);
            Body::Atomic(AtomicRequest { op, operand, requester, tag, address })
        },
    )
}

/// Up to four local prefixes of known types, then up to four end-to-end prefixes of any type.
fn prefixes() -> impl Strategy<Value = Prefixes> {
    let local = (prop::sample::select(&[0x80u32, 0x8e, 0x8f][..]), 0..1u32 << 24);
    let end_to_end = (prop_oneof![Just(0x91u32), 0x90..0xa0u32], 0..1u32 << 24);
    let list = (prop::collection::vec(local, 0..=4), prop::collection::vec(end_to_end, 0..=4));
    prop_oneof![
        2 => Just(Prefixes::NONE),
        1 => list.prop_map(|(local, end_to_end)| {
            let dws: Vec<Prefix> =
                local.into_iter().chain(end_to_end).map(|(first, rest)| Prefix(first << 24 | rest)).collect();
            Prefixes::new(&dws).unwrap()
        }),
    ]
}

fn completion() -> impl Strategy<Value = Body> {
    let status = prop_oneof![
        Just(Status::Success),
        Just(Status::UnsupportedRequest),
        Just(Status::ConfigRetry),
        Just(Status::CompleterAbort)
    ];
    (bdf(), bdf(), tag(), status, any::<(bool, bool)>(), 1..=4096u16, 0..128u8, length()).prop_map(
        |(completer, requester, tag, status, (bcm, locked), byte_count, lower_address, length_dw)| {
            Body::Completion(Completion {
                locked,
                completer,
                requester,
                tag,
                status,
                bcm,
                byte_count,
                lower_address,
                length_dw,
            })
        },
    )
}

fn access() -> impl Strategy<Value = Access> {
    prop_oneof![Just(Access::Read), Just(Access::Write)]
}

fn config() -> impl Strategy<Value = Body> {
    let kind = prop_oneof![Just(ConfigKind::Type0), Just(ConfigKind::Type1)];
    (access(), kind, bdf(), tag(), bdf(), 0..1024u16, 0..16u8).prop_map(
        |(op, kind, requester, tag, completer, register_dw, first_be)| {
            Body::Config(ConfigRequest { op, kind, requester, tag, completer, register_dw, first_be })
        },
    )
}

/// Vendor-defined codes, whose TC and data are free, except for those of the PCI-SIG.
fn message() -> impl Strategy<Value = Body> {
    (0..8u8, bdf(), tag(), 0x7e..=0x7fu8, any::<[u8; 8]>(), length()).prop_map(
        |(routing, requester, tag, code, header, length_dw)| {
            let routing = MessageRouting::from_bits(routing);
            let header = if header[2..4] == [0, 1] { [0; 8] } else { header };
            Body::Message(Message { routing, requester, tag, code, header, length_dw })
        },
    )
}

fn hint() -> impl Strategy<Value = Option<Hint>> {
    prop::option::weighted(
        0.1,
        (0..4u8, any::<u8>()).prop_map(|(ph, st)| Hint { ph: ProcessingHint::from_bits(ph), st }),
    )
}

/// Any legal header.
fn repr() -> impl Strategy<Value = Repr> {
    let body = prop_oneof![memory(), completion(), config(), message(), io(), atomic()];
    (body, 0..8u8, 0..8u8, 0..4u8, hint(), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(body, tc, attr, at, th, ln, td, ep)| {
            let mut repr = Repr { td, ep, ..Repr::new(body) };
            repr.ln = ln && matches!(repr.name(), "MRd" | "MWr" | "Cpl" | "CplD");
            if !matches!(repr.body, Body::Config(_) | Body::Io(_)) {
                repr.tc = TrafficClass::from_bits(tc);
                repr.attr = Attributes::from_bits_truncate(attr);
            }
            if let Body::Memory(m) = &mut repr.body {
                repr.at = AddressType::from_bits(at);
                repr.th = th;
                hold_what_a_hint_leaves(m, th);
            }
            if let Body::Atomic(_) = repr.body {
                (repr.at, repr.th) = (AddressType::from_bits(at), th);
            }
            repr
        },
    )
}

// The steering tag replaces a write's Tag and a read's Byte Enables, so these fields have fixed values.
fn hold_what_a_hint_leaves(m: &mut MemoryRequest, th: Option<Hint>) {
    match (th, m.op) {
        (Some(_), op) if op.is_posted() => m.tag = Tag::default(),
        (Some(_), _) => {
            let last = if m.span.length_dw() == 1 { 0 } else { 0xf };
            m.span = Span::from_fields(m.span.address(), m.span.length_dw(), 0xf, last).unwrap();
        }
        (None, _) => {}
    }
}

fn tlp(repr: Repr, pool: &PayloadPool, seed: u8) -> Tlp {
    let len = repr.data_lanes().len();
    let bytes =
        |out: &mut [u8]| out.iter_mut().enumerate().for_each(|(i, b)| *b = seed.wrapping_add(i as u8));
    let data = if len == 0 { Data::NONE } else { Data::Carried(pool.fill(len, bytes)) };
    Tlp::new(repr, data).with_carry(true)
}

proptest! {
    #![proptest_config(cases())]

    /// `Tlp::class` does not use the table of formats, for speed. It must give the same result.
    #[test]
    fn class_matches_table_of_formats(repr in repr()) {
        let class = repr.format().class;
        let tlp = riser_tlp::Tlp::new(repr, riser_tlp::Data::NONE);
        prop_assert_eq!(tlp.class(), class);
    }

    #[test]
    fn parses_every_emitted_header(repr in repr()) {
        let mut bytes = [0xee; 16];
        let len = repr.emit(&mut bytes);
        prop_assert_eq!(len, repr.header_len());
        let parsed = Repr::parse_header(&bytes[..len]).map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(&parsed.repr, &repr);
        prop_assert_eq!((parsed.header_len, parsed.tlp_len()), (len, repr.tlp_len()));
    }

    #[test]
    fn parses_every_emitted_tlp(repr in repr(), prefixes in prefixes(), seed in any::<u8>(), wrong in any::<bool>()) {
        let pool = PayloadPool::new();
        let flaw = if wrong && repr.td { riser_tlp::Flaw::WrongEcrc } else { riser_tlp::Flaw::None };
        let tlp = Tlp { prefixes, flaw, ..tlp(repr, &pool, seed) };
        let mut bytes = vec![0xee; tlp.wire_len()];
        prop_assert_eq!(tlp.emit(&mut bytes), repr.tlp_len() + tlp.prefixes.wire_len());
        prop_assert_eq!(crc::check_ecrc(&bytes), repr.td.then_some(!wrong));
        prop_assert_eq!(Tlp::parse(&bytes, &pool), Ok(tlp));
        checks::tlp(&bytes);
    }

    #[test]
    fn reports_every_truncation(repr in repr(), prefixes in prefixes(), cut in any::<prop::sample::Index>()) {
        let tlp = Tlp { prefixes, ..tlp(repr, &PayloadPool::new(), 0) };
        let mut bytes = vec![0; tlp.wire_len()];
        tlp.emit(&mut bytes);
        let short = cut.index(bytes.len());
        prop_assert!(Repr::parse(&bytes[..short]).is_err());
        bytes.push(0);
        prop_assert!(Repr::parse(&bytes).is_err());
    }

    #[test]
    fn parses_or_rejects_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        checks::tlp(&bytes);
    }

        /// Like the test above, with a known type and the length that the header gives. So most frames pass the
        /// first checks.
    #[test]
    fn parses_or_rejects_any_fields(
        format in prop::sample::select(&riser_tlp::FORMATS[..]),
        mut bytes in prop::collection::vec(any::<u8>(), 16..64),
        length in 0..8u8,
    ) {
        bytes[0] = format.fmt << 5 | format.type_bits | bytes[0] & 0x1f & !format.type_mask;
        bytes[2] &= 0xfc;
        bytes[3] = length;
        if let Ok(header) = riser_tlp::Header::new(&bytes) {
            let len = header.tlp_len();
            bytes.resize(len, 0x5a);
        }
        checks::tlp(&bytes);
    }

        /// Like the test above, with any prefixes.
    #[test]
    fn parses_or_rejects_any_bytes_after_prefixes(
        mut bytes in prop::collection::vec(any::<u8>(), 20..64),
        count in 1..=10usize,
        format in prop::sample::select(&riser_tlp::FORMATS[..]),
    ) {
        bytes.resize(bytes.len() + count * 4, 0);
        for dw in 0..count {
            bytes[dw * 4] = 0x80 | bytes[dw * 4] & 0x1f;
        }
        let header = count * 4;
        bytes[header] = format.fmt << 5 | format.type_bits;
        bytes[header + 2] &= 0xfc;
        bytes[header + 3] &= 7;
        if let Ok(header) = riser_tlp::Header::new(&bytes) {
            let len = header.tlp_len();
            bytes.resize(len, 0x5a);
        }
        checks::tlp(&bytes);
    }
}
