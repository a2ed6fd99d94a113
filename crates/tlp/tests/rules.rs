// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One row per rule: the smallest bytes that break it and nothing else, and the same bytes put right.

use riser_tlp::rules::{RULES, Rule, check_received, tolerated};
use riser_tlp::{Header, Limits, Malformed, Mps, ParseError, Part, Repr, RuleId};

const LIMITS: Limits = match Mps::new(128) {
    Ok(mps) => Limits { mps, tc_mapped: 0b0000_0001 },
    Err(_) => panic!(),
};

struct Row {
    rule: RuleId,
    found: u64,
    broken: &'static [u8],
    right: &'static [u8],
}

const fn row(rule: RuleId, found: u64, broken: &'static [u8], right: &'static [u8]) -> Row {
    Row { rule, found, broken, right }
}

const MPS_33_DW: [u8; 144] = {
    let mut tlp = [0; 144];
    tlp[0] = 0x40;
    tlp[3] = 33;
    tlp[7] = 0xff;
    tlp
};

/// Bytes by the layouts of `PCIe 5.0 §2.2`; the paragraph of each rule stands in its row of the table.
const ROWS: &[Row] = &[
    row(
        RuleId::ReservedFmt,
        0b111,
        &[0xe0, 0, 0, 1, 1, 0, 7, 0x0f, 0, 0, 0x10, 0],
        &[0x00, 0, 0, 1, 1, 0, 7, 0x0f, 0, 0, 0x10, 0],
    ),
    row(
        RuleId::Length,
        20,
        &[0x00, 0, 0, 1, 1, 0, 7, 0x0f, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0x00, 0, 0, 1, 1, 0, 7, 0x0f, 0, 0, 0x10, 0],
    ),
    row(
        RuleId::Digest,
        16,
        &[0x00, 0, 0x00, 1, 1, 0, 7, 0x0f, 0, 0, 0x10, 0, 0, 0, 0, 0],
        &[0x00, 0, 0x80, 1, 1, 0, 7, 0x0f, 0, 0, 0x10, 0, 0, 0, 0, 0],
    ),
    row(
        RuleId::ByteEnables,
        0xff,
        &[0x00, 0, 0, 1, 1, 0, 7, 0xff, 0, 0, 0x10, 0],
        &[0x00, 0, 0, 2, 1, 0, 7, 0xff, 0, 0, 0x10, 0],
    ),
    row(
        RuleId::Crosses4K,
        0x1ffc,
        &[0x00, 0, 0, 2, 1, 0, 7, 0xff, 0, 0, 0x1f, 0xfc],
        &[0x00, 0, 0, 2, 1, 0, 7, 0xff, 0, 0, 0x1f, 0xf8],
    ),
    row(
        RuleId::ConfigTc,
        1,
        &[0x04, 0x10, 0, 1, 0, 0, 1, 0x0f, 1, 0, 0, 0],
        &[0x04, 0x00, 0, 1, 0, 0, 1, 0x0f, 1, 0, 0, 0],
    ),
    row(
        RuleId::ConfigAttr,
        2,
        &[0x04, 0, 0x20, 1, 0, 0, 1, 0x0f, 1, 0, 0, 0],
        &[0x04, 0, 0x00, 1, 0, 0, 1, 0x0f, 1, 0, 0, 0],
    ),
    row(
        RuleId::ConfigAt,
        2,
        &[0x05, 0, 0x08, 1, 0, 0, 1, 0x0f, 1, 0, 0, 0],
        &[0x05, 0, 0x00, 1, 0, 0, 1, 0x0f, 1, 0, 0, 0],
    ),
    row(
        RuleId::ConfigLength,
        2,
        &[0x44, 0, 0, 2, 0, 0, 1, 0x0f, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0x44, 0, 0, 1, 0, 0, 1, 0x0f, 1, 0, 0, 0, 0, 0, 0, 0],
    ),
    row(
        RuleId::ConfigLastBe,
        0xf,
        &[0x04, 0, 0, 1, 0, 0, 1, 0xff, 1, 0, 0, 0],
        &[0x04, 0, 0, 1, 0, 0, 1, 0x0f, 1, 0, 0, 0],
    ),
    row(
        RuleId::AtomicLength,
        4,
        &[0x4c, 0, 0, 4, 1, 0, 7, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0x4e, 0, 0, 4, 1, 0, 7, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ),
    row(
        RuleId::AtomicAddress,
        0x1004,
        &[0x4d, 0, 0, 2, 1, 0, 7, 0, 0, 0, 0x10, 0x04, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0x4d, 0, 0, 2, 1, 0, 7, 0, 0, 0, 0x10, 0x08, 0, 0, 0, 0, 0, 0, 0, 0],
    ),
    row(
        RuleId::InterruptTc,
        3,
        &[0x34, 0x30, 0, 0, 1, 0, 0, 0x27, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0x34, 0x00, 0, 0, 1, 0, 0, 0x27, 0, 0, 0, 0, 0, 0, 0, 0],
    ),
    row(
        RuleId::PowerTc,
        1,
        &[0x30, 0x10, 0, 0, 1, 0, 0, 0x18, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0x30, 0x00, 0, 0, 1, 0, 0, 0x18, 0, 0, 0, 0, 0, 0, 0, 0],
    ),
    row(
        RuleId::ErrorTc,
        7,
        &[0x30, 0x70, 0, 0, 1, 0, 0, 0x33, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0x30, 0x00, 0, 0, 1, 0, 0, 0x33, 0, 0, 0, 0, 0, 0, 0, 0],
    ),
    row(
        RuleId::UnlockTc,
        1,
        &[0x33, 0x10, 0, 0, 1, 0, 0, 0x00, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0x33, 0x00, 0, 0, 1, 0, 0, 0x00, 0, 0, 0, 0, 0, 0, 0, 0],
    ),
    row(
        RuleId::SlotPowerTc,
        1,
        &[0x74, 0x10, 0, 1, 1, 0, 0, 0x50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0x74, 0x00, 0, 1, 1, 0, 0, 0x50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ),
    row(
        RuleId::SlotPowerLength,
        0,
        &[0x34, 0, 0, 0, 1, 0, 0, 0x50, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0x74, 0, 0, 1, 1, 0, 0, 0x50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ),
    row(RuleId::MaxPayloadSize, 132, &MPS_33_DW, &[0x40, 0, 0, 1, 1, 0, 7, 0x0f, 0, 0, 0, 0, 0, 0, 0, 0]),
    row(
        RuleId::TcMapped,
        1,
        &[0x00, 0x10, 0, 1, 1, 0, 7, 0x0f, 0, 0, 0x10, 0],
        &[0x00, 0x00, 0, 1, 1, 0, 7, 0x0f, 0, 0, 0x10, 0],
    ),
    row(
        RuleId::AddressFormat,
        0x1000,
        &[0x20, 0, 0, 1, 1, 0, 7, 0x0f, 0, 0, 0, 0, 0, 0, 0x10, 0],
        &[0x20, 0, 0, 1, 1, 0, 7, 0x0f, 0, 0, 0, 1, 0, 0, 0x10, 0],
    ),
    row(
        RuleId::ReservedAt,
        3,
        &[0x00, 0, 0x0c, 1, 1, 0, 7, 0x0f, 0, 0, 0x10, 0],
        &[0x00, 0, 0x08, 1, 1, 0, 7, 0x0f, 0, 0, 0x10, 0],
    ),
    row(
        RuleId::ReservedStatus,
        7,
        &[0x0a, 0, 0, 0, 2, 0, 0xe0, 4, 1, 0, 7, 0],
        &[0x0a, 0, 0, 0, 2, 0, 0x20, 4, 1, 0, 7, 0],
    ),
    row(
        RuleId::ReservedRouting,
        6,
        &[0x36, 0, 0, 0, 1, 0, 0, 0x7f, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0x34, 0, 0, 0, 1, 0, 0, 0x7f, 0, 0, 0, 0, 0, 0, 0, 0],
    ),
];

/// Every rule that the bytes break: of the parser, of a receiver with [`LIMITS`], of senders.
fn broken(bytes: &[u8]) -> Vec<Malformed> {
    let repr = match Repr::parse(bytes) {
        Ok(parsed) => parsed.repr,
        Err(ParseError::Malformed(malformed)) => return vec![malformed],
        Err(other) => panic!("{other}"),
    };
    let received = check_received(&repr, &LIMITS).err();
    received.into_iter().chain(tolerated(&Header::new(bytes).unwrap())).collect()
}

#[test]
fn every_rule_has_bytes_that_break_it_alone() {
    for Row { rule, found, broken: bytes, right } in ROWS {
        assert_eq!(broken(bytes), [Malformed { rule: *rule, found: *found }], "{rule:?}");
        assert_eq!(broken(right), [], "{rule:?}");
    }
}

#[test]
fn every_rule_stands_at_its_number_and_has_a_row() {
    for (place, rule) in RULES.iter().enumerate() {
        assert_eq!(rule.id as usize, place);
        assert!(ROWS.iter().any(|row| row.rule == rule.id), "{:?} has no row", rule.id);
        assert!(rule.section.starts_with('§'));
        let text = Malformed { rule: rule.id, found: 0x2a }.to_string();
        assert!(text.contains("0x2a") && text.contains(rule.section), "{text}");
    }
}

#[test]
fn what_is_tolerated_is_read() {
    for row in ROWS.iter().filter(|row| Rule::get(row.rule).is_tolerated()) {
        assert!(Repr::parse(row.broken).is_ok(), "{:?}", row.rule);
    }
}

#[test]
fn the_end_of_the_bytes_is_named() {
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
    assert_eq!(error.to_string(), "truncated TLP: its header ends at byte 16, there are 12");
}

/// All first bytes of headers: a known type, a reserved Fmt, or an error that names both fields.
#[test]
fn unknown_types_are_named() {
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
        "unknown TLP type: Fmt 000b, Type 11011b; known are MRd MWr MRdLk DMWr IORd IOWr FetchAdd Swap CAS \
         CfgRd0 CfgWr0 CfgRd1 CfgWr1 Msg MsgD Cpl CplD CplLk CplDLk"
    );
}
