// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rules. `cases/rules.txt` has, for each rule, the smallest TLP that breaks only this rule, and a legal version of it.

use crate::common::hex;
use riser_tlp::rules::{RULES, Rule, check_received, tolerated};
use riser_tlp::{
    Data, Header, Limits, Mps, ParseError, Part, PayloadPool, Prefix, Prefixes, Repr, RuleId, TcSet, Tlp,
    Violation,
};

const LIMITS: Limits = match Mps::new(128) {
    Ok(mps) => Limits {
        mps,
        tc_mapped: TcSet::from_bits(0b0000_0111),
        local_prefixes: false,
        end_to_end_prefixes: 4,
    },
    Err(_) => panic!(),
};

struct Row {
    rule: RuleId,
    found: u64,
    broken: Vec<u8>,
    legal: Vec<u8>,
}

const READ: [u8; 12] = [0x00, 0, 0, 1, 1, 0, 7, 0x0f, 0, 0, 0x10, 0];

/// The rows of `cases/rules.txt`.
fn rows() -> Vec<Row> {
    let lines =
        include_str!("../cases/rules.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let parse = |lines: &[&str]| {
        let (name, found) = lines[0].split_once(" 0x").unwrap();
        let [broken, legal] =
            [(1, "  broken "), (2, "  legal  ")].map(|(n, key)| hex(lines[n].strip_prefix(key).unwrap()));
        Row {
            rule: Rule::named(name).unwrap().id,
            found: u64::from_str_radix(found, 16).unwrap(),
            broken,
            legal,
        }
    };
    lines.collect::<Vec<_>>().chunks(3).map(parse).collect()
}

/// All rules that the bytes break: rules of the parser, of a receiver with `limits`, and of senders.
fn broken(bytes: &[u8], limits: &Limits) -> Vec<Violation> {
    let tlp = match Tlp::parse(bytes, &PayloadPool::new()) {
        Ok(tlp) => tlp,
        Err(error) => return vec![error.on_a_link()],
    };
    let received = check_received(&tlp, limits).err();
    received.into_iter().chain(tolerated(&Header::new(bytes).unwrap())).collect()
}

#[test]
fn each_rule_is_broken_by_its_row_only() {
    for Row { rule, found, broken: bytes, legal } in rows() {
        let found_here: Vec<_> = broken(&bytes, &LIMITS).iter().map(|v| (v.rule, v.found)).collect();
        assert_eq!(found_here, [(rule, found)], "{rule:?}");
        assert_eq!(broken(&legal, &LIMITS), [], "{rule:?}");
    }
}

#[test]
fn id_of_rule_is_its_index_and_has_row() {
    let rows = rows();
    for (place, rule) in RULES.iter().enumerate() {
        assert_eq!(rule.id as usize, place);
        let has_row = rows.iter().any(|row| row.rule == rule.id) || rule.id == RuleId::EndToEndSupported;
        assert_ne!(has_row, rule.is_of_several(), "{:?}", rule.id);
        assert!(rule.section.starts_with('§') && rule.text.ends_with('.'), "{:?}", rule.id);
        assert_eq!(Rule::named(rule.name).map(|found| found.id), Some(rule.id));
        let text = Violation::new(rule.id, 0x2a).to_string();
        assert!(text.contains(rule.section) && text.contains(rule.name), "{text}");
    }
}

#[test]
fn violation_prints_field_value_expected_value_section_and_rule() {
    let rows = [
        (Violation::new(RuleId::IoLength, 2), "Length 2 DW, expected 1 DW (PCIe 5.0 §2.2.7, rule io-length)"),
        (
            Violation::expecting(RuleId::LowerAddress, 0, 0x40),
            "Lower Address 0x0, expected 0x40 (PCIe 6.0 §2.2.9.1, rule lower-address)",
        ),
        (
            Violation::new(RuleId::ReservedFmt, 7),
            "Fmt 111b, expected 000b to 100b (PCIe 5.0 §2.2.1, rule reserved-fmt)",
        ),
    ];
    for (violation, text) in rows {
        assert_eq!(violation.to_string(), text);
    }
}

/// Rows: Length, address, byte enables, and the broken clause.
#[test]
fn violation_of_byte_enables_prints_broken_clause() {
    let rows = [
        (1, 0x1000, 0xff, "Last BE 0000b for Length 1"),
        (2, 0x1000, 0x0f, "Last BE not 0000b for Length over 1"),
        (2, 0x1000, 0xf0, "First BE not 0000b for Length over 1"),
        (3, 0x1000, 0xf0, "First BE not 0000b for Length over 1"),
        (2, 0x1004, 0xf5, "no gaps for Length 2 if Address is not a multiple of 8"),
        (3, 0x1000, 0xaf, "no gaps for Length over 2"),
    ];
    for (dw, address, enables, legal) in rows {
        let [high, low] = u16::to_be_bytes(address);
        let bytes = [0x00, 0, 0, dw, 1, 0, 7, enables, 0, 0, high, low];
        let text = Repr::parse(&bytes).unwrap_err().on_a_link().to_string();
        let expected = format!(
            "Last and First DW BE {enables:08b}b, expected {legal} (PCIe 5.0 §2.2.5, rule byte-enables)"
        );
        assert_eq!(text, expected);
    }
}

/// The bytes of an example with one TLP, which may follow a line with a setting. Omitted data bytes are zero.
fn example(rule: &Rule) -> Vec<u8> {
    let dws = rule.example.lines().last().unwrap().split(' ').map(|dw| u32::from_str_radix(dw, 16).unwrap());
    let mut bytes: Vec<u8> = dws.flat_map(u32::to_be_bytes).collect();
    if rule.id == RuleId::MaxPayloadSize || rule.id == RuleId::DeferrableLength {
        bytes.resize(bytes.len() + 33 * 4, 0);
    }
    bytes
}

#[test]
fn each_example_breaks_only_its_rule() {
    let limits = Limits { end_to_end_prefixes: 3, ..LIMITS };
    for rule in RULES.iter().filter(|rule| !rule.is_of_several()) {
        let limits = if rule.id == RuleId::EndToEndSupported { &limits } else { &LIMITS };
        let found: Vec<RuleId> = broken(&example(rule), limits).iter().map(|found| found.rule).collect();
        assert_eq!(found, [rule.id], "{}", rule.example);
    }
}

/// Rows: prefixes, the receiver's limits, and the broken rule.
#[test]
fn receiver_accepts_prefixes_within_its_limits() {
    let (local, one, four) = ([0x80, 0, 0, 0], [0x91, 0, 0, 7], [0x9e, 0, 0, 0].repeat(4));
    let taking =
        |local_prefixes, end_to_end_prefixes| Limits { local_prefixes, end_to_end_prefixes, ..LIMITS };
    type Row<'a> = (&'a [&'a [u8]], Limits, Option<(RuleId, u64)>);
    let rows: [Row<'_>; 8] = [
        (&[], taking(false, 0), None),
        (&[&local], taking(true, 0), None),
        (&[&local], taking(false, 4), Some((RuleId::LocalSupported, 1))),
        (&[&one], taking(true, 0), Some((RuleId::EndToEndSupported, 1))),
        (&[&one], taking(false, 1), None),
        (&[&four], taking(false, 3), Some((RuleId::EndToEndSupported, 4))),
        (&[&four], taking(false, 4), None),
        (&[&local, &one], taking(true, 1), None),
    ];
    for (prefixes, limits, rule) in rows {
        let bytes = [&prefixes.concat()[..], &READ].concat();
        let expected: Vec<Violation> =
            rule.into_iter().map(|(rule, found)| Violation::new(rule, found)).collect();
        assert_eq!(broken(&bytes, &limits), expected, "{prefixes:x?}");
    }
}

/// A TLP built by hand can break rules that its types do not exclude. `check_received` must find the same violation
/// as the parser finds in the bytes.
#[test]
fn checks_values_like_bytes() {
    let mut checked = 0;
    for row in rows().iter().filter(|row| !Rule::get(row.rule).is_tolerated()) {
        let Ok(legal) = Tlp::parse(&row.legal, &PayloadPool::new()) else { panic!("{:?}", row.rule) };
        assert_eq!(check_received(&legal, &LIMITS), Ok(()), "{:?}", row.rule);
        let Some(value) = as_value(row, &legal) else { continue };
        let found = check_received(&value, &LIMITS).map_err(|wrong| (wrong.rule, wrong.found));
        assert_eq!(found, Err((row.rule, row.found)), "{:?}", row.rule);
        checked += 1;
    }
    assert_eq!(checked, 26);
}

/// The `broken` TLP of a row as a value, made from the legal one; `None` if the types exclude it.
fn as_value(row: &Row, legal: &Tlp) -> Option<Tlp> {
    use riser_tlp::{AddressType, Attributes, Body, OperandSize, TrafficClass};
    let mut tlp = legal.clone();
    let prefixes = |dws: &[u32]| Prefixes::new(&dws.iter().map(|&dw| Prefix(dw)).collect::<Vec<_>>());
    match (row.rule, &mut tlp.repr.body) {
        (RuleId::PciSigTc, Body::Message(m)) => m.header[3] = 1,
        (RuleId::SlotPowerLength, Body::Message(m)) => (m.length_dw, tlp.data) = (None, Data::NONE),
        (RuleId::AtomicLength, Body::Atomic(a)) => {
            (a.op, a.operand) = (riser_tlp::AtomicOp::FetchAdd, OperandSize::Bits128);
        }
        (RuleId::AtomicAddress, Body::Atomic(a)) => a.address = 0x1004,
        (RuleId::DeferrableLength, Body::Memory(m)) => {
            m.span = riser_tlp::Span::covering(0, 132).unwrap();
            tlp.data = Data::Counted(132);
        }
        (RuleId::MaxPayloadSize, Body::Memory(m)) => {
            m.span = riser_tlp::Span::covering(0, 132).unwrap();
            tlp.data = Data::Counted(132);
        }
        (RuleId::Length, _) if legal.repr.data_dw() == 1 => {
            tlp.data = Data::Counted(2);
        }
        (RuleId::PrefixOrder, _) => tlp.prefixes = prefixes(&[0x9100_0001, 0x8e00_0001])?,
        (RuleId::LocalPrefix, _) => tlp.prefixes = prefixes(&[0x8100_0000])?,
        (RuleId::LocalSupported, _) => tlp.prefixes = prefixes(&[0x8000_0000])?,
        (RuleId::EndToEndCount, _) => tlp.prefixes = prefixes(&[0x9e00_0000; 5])?,
        (RuleId::IoAttr | RuleId::ConfigAttr, _) => {
            tlp.repr.attr = Attributes::from_bits_truncate(row.found as u8)
        }
        (RuleId::IoAt | RuleId::ConfigAt, _) => tlp.repr.at = AddressType::from_bits(row.found as u8),
        (rule, _) if format!("{rule:?}").ends_with("Tc") || rule == RuleId::TcMapped => {
            tlp.repr.tc = TrafficClass::from_bits(row.found as u8);
        }
        _ => return None,
    }
    Some(tlp)
}

#[test]
fn parses_tlps_that_break_only_sender_rules() {
    for row in rows().iter().filter(|row| Rule::get(row.rule).is_tolerated()) {
        assert!(Repr::parse(&row.broken).is_ok(), "{:?}", row.rule);
    }
}

#[test]
fn reports_truncated_bytes() {
    let tlp = [0x40, 0, 0x80, 2, 1, 0, 7, 0xff, 0, 0, 0x10, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0];
    for have in 0..tlp.len() {
        let (part, needed) = match have {
            0..12 => (Part::Header, 12),
            12..20 => (Part::Data, 20),
            _ => (Part::Digest, 24),
        };
        assert_eq!(Repr::parse(&tlp[..have]), Err(ParseError::Truncated { part, needed, have }));
        let header_alone = Repr::parse_header(&tlp[..have]);
        assert_eq!(header_alone.is_ok(), have >= 12);
    }
    let whole = Repr::parse(&tlp).unwrap();
    assert_eq!((whole.data.clone(), whole.digest.clone(), whole.tlp_len()), (12..20, Some(20..24), 24));
    let long = [0x20, 0, 0, 1, 1, 0, 7, 0x0f, 0, 0, 0x10, 0];
    let error = ParseError::Truncated { part: Part::Header, needed: 16, have: 12 };
    assert_eq!(Repr::parse_header(&long), Err(error));
    assert_eq!(error.to_string(), "truncated TLP: 12 bytes, expected 16 up to the end of its header");
}

/// All first bytes of headers: a known type, a reserved Fmt, or an error with both fields.
#[test]
fn reports_unknown_types() {
    for byte in (0..=255u8).filter(|byte| byte >> 5 != 0b100) {
        let mut tlp = [0; 16];
        tlp[0] = byte;
        tlp[3] = 1;
        let (fmt, ty) = (byte >> 5, byte & 0x1f);
        match Header::new(&tlp) {
            Ok(header) => assert!(header.format().matches(byte)),
            Err(ParseError::Malformed(m)) => assert_eq!((m.rule, fmt > 4), (RuleId::ReservedFmt, true)),
            Err(error) => assert_eq!(error, ParseError::UnknownType { fmt, ty }),
        }
    }
    let error = Repr::parse(&[0x1b; 16]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown TLP type: Fmt 000b, Type 11011b; known types: MRd MWr MRdLk DMWr IORd IOWr FetchAdd Swap CAS \
         CfgRd0 CfgWr0 CfgRd1 CfgWr1 Msg MsgD Cpl CplD CplLk CplDLk"
    );
}
