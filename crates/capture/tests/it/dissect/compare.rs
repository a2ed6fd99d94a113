// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the fields that `tshark` shows of a capture with riser's decoder, renderer and matcher, record by record.

use super::tables::OF_COMPLETIONS;
use super::tshark::Values;
use riser_capture::check::{Checker, FunctionOverrides};
use riser_capture::decode::{Other, decode};
use riser_capture::encap::{EncapError, HEADER_LEN, NETTLP_LEN};
use riser_capture::matcher::{Match, Matcher};
use riser_capture::sequence::way;
use riser_capture::{Bad, Item, Kind, Origin, Reader, Record, TlpRecord, render};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Cursor;
use tlp::rules::{Rule, tolerated};
use tlp::{Body, Dllp, Header, ParseError, RuleId};

/// Numeric fields: name in the dissector, and key in riser's JSON.
pub(crate) const NUMBERS: &[(&str, &str)] = &[
    ("nettlp.sequence", "nettlp_sequence"),
    ("nettlp.timestamp", "nettlp_timestamp"),
    ("tlp.tc", "tc"),
    ("tlp.attr", "attr"),
    ("tlp.td", "td"),
    ("tlp.ep", "ep"),
    ("tlp.tag", "tag"),
    ("tlp.address", "address"),
    ("tlp.length_dw", "length_dw"),
    ("tlp.first_be", "first_be"),
    ("tlp.last_be", "last_be"),
    ("tlp.request_bytes", "request_bytes"),
    ("tlp.operand_bytes", "operand_bytes"),
    ("tlp.bcm", "bcm"),
    ("tlp.byte_count", "byte_count"),
    ("tlp.lower_address", "lower_address"),
    ("tlp.register", "register"),
    ("tlp.message_code", "message_code"),
    ("tlp.routing", "routing"),
    ("tlp.payload_bytes", "payload_bytes"),
    ("tlp.captured_bytes", "captured_bytes"),
    ("dllp.sequence", "ack_sequence"),
    ("dllp.vc", "vc"),
    ("dllp.header_credits", "header_credits"),
    ("dllp.data_credits", "data_credits"),
];

/// Text fields: name in the dissector, and key in riser's JSON.
pub(crate) const TEXTS: &[(&str, &str)] = &[
    ("nettlp.origin", "origin"),
    ("tlp.requester", "requester"),
    ("tlp.completer", "completer"),
    ("tlp.status", "status"),
    ("tlp.ecrc_status", "ecrc"),
    ("tlp.message_header", "message_header"),
    ("dllp.name", "dllp"),
    ("dllp.class", "class"),
];

/// Expert items for errors that riser reports too. A TLP that riser can read has none of them.
const TLP_ERRORS: [&str; 4] =
    ["tlp.expert.malformed", "tlp.expert.unknown_type", "tlp.expert.truncated", "tlp.expert.length"];

/// The matcher's result for a record, in the terms of the dissector's fields.
#[derive(PartialEq, Eq, Debug)]
struct Matched {
    word: &'static str,
    request_in: Option<u64>,
    response_ns: Option<u128>,
}

/// Compares every record of `file` with its row.
pub(crate) fn compare(file: &[u8], rows: &[Values]) {
    let mut reader = Reader::new(Cursor::new(file)).unwrap();
    let (mut matcher, mut responses) = (Matcher::new(), BTreeMap::new());
    let mut checker = Checker::new(FunctionOverrides::default());
    let mut count = 0;
    while let Some(record) = reader.next_record().unwrap() {
        let row = &rows[count];
        count += 1;
        assert_eq!(row.number("frame.number"), Some(record.number));
        compare_record(&record, row);
        checker.see(&record);
        compare_violations(&mut checker, &record, row);
        if let Kind::Tlp(tlp) = &record.kind {
            compare_match(&record, tlp, row, &mut matcher, &mut responses);
        }
    }
    assert_eq!(count, rows.len());
    compare_responses(rows, &responses);
}

/// Compares the rules about a completion and its request, for the latest record, which is a completion. If a tag is
/// in use twice, the dissector and the checker may match the completion with different requests. Then the rules are
/// not compared. The Read Completion Boundary depends on the completer. The dissector determines it by the port,
/// the checker by the direction.
fn compare_violations(checker: &mut Checker, record: &Record<'_>, row: &Values) {
    let messages = row.get("_ws.expert.message").unwrap_or_default();
    let has_direction = record.tlp().is_some_and(|tlp| {
        let direction = record.interface.and_then(|interface| interface.direction);
        direction.is_none_or(|way| Origin::of(way, tlp.repr.class()) == tlp.origin)
    });
    let is_compared = |rule: &str| has_direction || rule != "completion-boundary";
    let mut rules = Vec::new();
    while let Some(found) = checker.next_finding() {
        let Rule { id, name, .. } = found.violation.rule();
        if !OF_COMPLETIONS.contains(id) || !is_compared(name) {
            continue;
        }
        if found.request != row.number("tlp.request_in") {
            return;
        }
        assert!(messages.contains(&found.violation.to_string()), "{}: {row:?}", found.violation);
        rules.push(*name);
    }
    if !rules.is_empty() {
        let shown = row.all("tlp.completion_rule").filter(|rule| is_compared(rule));
        assert_eq!(shown.collect::<Vec<_>>(), rules, "{row:?}");
    }
}

/// Compares the rules that bind only senders, for every TLP of `file` that can be read. The frames have no 802.1Q
/// tags.
pub(crate) fn compare_tolerated(file: &[u8], rows: &[Values]) {
    let mut reader = Reader::new(Cursor::new(file)).unwrap();
    while let Some(item) = reader.next_item().unwrap() {
        let Item::Frame(frame) = item else { panic!("{item:?}") };
        let Kind::Tlp(_) = decode(&frame).kind else { continue };
        let header = Header::new(&frame.bytes[HEADER_LEN..]).unwrap();
        let row = &rows[frame.number as usize - 1];
        let messages = row.get("_ws.expert.message").unwrap_or_default();
        // The request of a completion determines the correct amount of data.
        let is_answer = row.has("tlp.request_in");
        let broken: Vec<&str> = tolerated(&header)
            .filter(|broken| !is_answer || broken.rule != RuleId::CompletionByteCount)
            .map(|broken| {
                assert!(messages.contains(&broken.to_string()), "{broken}: {messages}");
                broken.rule().name
            })
            .collect();
        assert_eq!(row.get("tlp.tolerated_rule").unwrap_or_default(), broken.join(","), "{row:?}");
    }
}

fn compare_record(record: &Record<'_>, row: &Values) {
    let mut text = String::new();
    render::json(record, &mut text);
    let json: Value = serde_json::from_str(&text).unwrap();
    match &record.kind {
        Kind::Tlp(tlp) => compare_tlp(tlp, &json, row),
        Kind::Dllp(dllp) => compare_dllp(dllp, &json, row),
        Kind::Bad(bad) => compare_bad(bad, row),
        // If no byte of the payload was captured, UDP calls no dissector.
        Kind::Other(Other::Nettlp(_)) if record.captured_len == HEADER_LEN - NETTLP_LEN => {}
        Kind::Other(Other::Nettlp(what)) => assert_eq!(row.get("nettlp.what"), Some(*what), "{row:?}"),
        Kind::Other(_) => assert!(!row.has("tlp.type_name") && !row.has("dllp.type"), "{row:?}"),
    }
}

fn compare_fields(json: &Value, row: &Values) {
    for (field, key) in NUMBERS {
        let expected = json.get(*key).map(|value| value.as_u64().or(value.as_bool().map(u64::from)).unwrap());
        if expected.is_some() {
            assert_eq!(row.number(field), expected, "{field} of {json}: {row:?}");
        }
    }
    for (field, key) in TEXTS {
        let Some(expected) = json.get(*key) else { continue };
        let shown = row.get(field).map(|text| text.replace(':', ""));
        assert_eq!(shown, expected.as_str().map(|text| text.replace(':', "")), "{field} of {json}: {row:?}");
    }
}

fn compare_tlp(tlp: &TlpRecord<'_>, json: &Value, row: &Values) {
    assert_eq!(row.get("tlp.type_name"), json["type"].as_str(), "{row:?}");
    compare_fields(json, row);
    let data: String = tlp.data.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(row.get("tlp.data").unwrap_or_default().replace(':', ""), data, "{json}");
    if matches!(tlp.repr.body, Body::Memory(_) | Body::Atomic(_)) {
        assert_eq!(row.number("tlp.at"), json["at"].as_u64(), "{json}");
        assert_eq!(row.number("tlp.th"), json["th"].as_bool().map(u64::from), "{json}");
        let hint = tlp.repr.th.map(|hint| (u64::from(hint.ph), u64::from(hint.st)));
        assert_eq!(row.number("tlp.ph").zip(row.number("tlp.st")), hint, "{json}");
    }
    let prefixes: Vec<String> =
        tlp.prefixes.as_slice().iter().map(|prefix| format!("{:#010x}", prefix.0)).collect();
    assert_eq!(row.get("tlp.prefix").unwrap_or_default(), prefixes.join(","), "{json}");
    let is_long = tlp.header_bytes() != tlp.repr.header_len();
    let line = format!("{}{}", tlp.repr, if is_long { ", 4-DW header below 4 GiB" } else { "" });
    assert_eq!(row.get("_ws.col.Info"), Some(line.as_str()));
    for field in TLP_ERRORS {
        assert!(!row.has(field), "{field} of {json}: {row:?}");
    }
}

fn compare_dllp(dllp: &Dllp, json: &Value, row: &Values) {
    compare_fields(json, row);
    assert_eq!(row.get("_ws.col.Info"), Some(dllp.to_string().as_str()));
    assert_eq!(row.get("dllp.crc_status"), Some("good"));
}

pub(crate) fn compare_bad(bad: &Bad, row: &Values) {
    let field = match bad {
        Bad::Tlp(ParseError::Truncated { .. }) => "tlp.expert.truncated",
        Bad::Tlp(ParseError::UnknownType { .. }) => "tlp.expert.unknown_type",
        Bad::Tlp(ParseError::Malformed(malformed)) => {
            let rule = malformed.rule().name;
            if rule == "reserved-fmt" {
                "tlp.expert.unknown_type"
            } else {
                let shown = row.get("tlp.malformed_rule").unwrap_or_default();
                assert_eq!(shown.split(',').next(), Some(rule), "{bad}: {row:?}");
                let messages = row.get("_ws.expert.message").unwrap_or_default();
                assert!(messages.contains(&malformed.to_string()), "{malformed}: {messages}");
                "tlp.expert.malformed"
            }
        }
        Bad::TlpLength { .. } => "tlp.expert.length",
        _ => return compare_bad_layer(bad, row),
    };
    assert!(row.has(field), "{bad}: {row:?}");
}

fn compare_bad_layer(bad: &Bad, row: &Values) {
    match bad.kind() {
        "CRC" => assert_eq!(row.get("dllp.crc_status"), Some("bad"), "{bad}: {row:?}"),
        "length" => assert!(row.has("dllp.expert.length"), "{bad}: {row:?}"),
        "header cut short" if matches!(bad, Bad::Encap(EncapError::Short { have: 0, .. })) => {}
        "header cut short" => assert!(row.has("nettlp.expert.truncated"), "{bad}: {row:?}"),
        // The dissector also decodes DLLPs that riser's decoder does not: other types, and scaled credits.
        _ => assert!(row.has("dllp.type") && row.get("dllp.crc_status") == Some("good"), "{bad}: {row:?}"),
    }
}

fn compare_match(
    record: &Record<'_>,
    tlp: &TlpRecord<'_>,
    row: &Values,
    matcher: &mut Matcher,
    responses: &mut BTreeMap<u64, u64>,
) {
    let matched = matcher.see(record.number, record.timestamp, way(record), &tlp.repr);
    let shown = shown_match(tlp, row);
    let plain = |word| Matched { word, request_in: shown.request_in, response_ns: None };
    let expected = match matched {
        Match::Posted => Matched { word: "posted", request_in: None, response_ns: None },
        Match::Request => plain("request"),
        Match::Repeat => plain("repeat"),
        Match::TagReuse => plain("reuse"),
        Match::Untracked => plain("untracked"),
        Match::Partial => plain("partial"),
        Match::Unmatched => plain("unmatched"),
        Match::Complete(transaction) => {
            responses.insert(transaction.request_number, record.number);
            assert_eq!(row.number("tlp.completions"), Some(transaction.completions.into()), "{row:?}");
            // The dissector gets times in whole nanoseconds.
            let response_ns = transaction.end.as_ps() / 1000 - transaction.start.as_ps() / 1000;
            Matched {
                word: "complete",
                request_in: Some(transaction.request_number),
                response_ns: Some(response_ns),
            }
        }
    };
    assert_eq!(shown, expected, "{}: {row:?}", tlp.repr);
}

fn shown_match(tlp: &TlpRecord<'_>, row: &Values) -> Matched {
    let request_in = row.number("tlp.request_in");
    let response_ns = row.nanoseconds("tlp.response_time");
    let is_completion = matches!(tlp.repr.body, Body::Completion(_));
    let word = match (is_completion, request_in, response_ns) {
        (true, ..) if row.has("tlp.expert.repeat") => "repeat",
        (true, Some(_), Some(_)) => "complete",
        (true, Some(_), None) => "partial",
        (true, None, _) if row.has("tlp.expert.unexpected") => "unmatched",
        (false, ..) if tlp.repr.format().class == tlp::Class::Posted => "posted",
        (false, ..) if row.has("tlp.expert.repeat") => "repeat",
        (false, ..) if row.has("tlp.expert.tag_reuse") => "reuse",
        (false, ..) if row.has("tlp.response_in") || row.has("tlp.expert.unanswered") => "request",
        _ => "nothing",
    };
    Matched { word, request_in, response_ns }
}

/// Each completed request has the frame number of its last completion. No other request has one.
fn compare_responses(rows: &[Values], responses: &BTreeMap<u64, u64>) {
    for (number, row) in (1..).zip(rows) {
        assert_eq!(row.number("tlp.response_in"), responses.get(&number).copied(), "frame {number}: {row:?}");
    }
}
