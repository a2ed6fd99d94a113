// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads files of hand-written TLPs in the same way as `riser trace --check`.

use riser_capture::check::{Checker, FunctionOverrides};
use riser_capture::{Bad, Direction, Interface, Kind, Origin, Reader, Record, Timestamp};
use tlp::rules::Rule;
use tlp::{Mps, RuleId};

/// Line and rule of each violation in a file.
fn rules(text: &str) -> Vec<(u64, &'static str)> {
    let mut reader = Reader::new(text.as_bytes()).unwrap();
    let mut checker = Checker::new(FunctionOverrides::default());
    while let Some(record) = reader.next_record().unwrap() {
        checker.see(&record);
    }
    checker.finish();
    let found = std::iter::from_fn(|| checker.next_finding());
    found.map(|finding| (finding.number, finding.violation.rule().name)).collect()
}

#[test]
fn checks_files_of_hexadecimal_tlps() {
    let completions = rules(include_str!("../../cases/completions.txt"));
    let due = [
        (3, "lower-address"),
        (5, "lower-address"),
        (10, "completion-boundary"),
        (13, "completion-boundary"),
    ];
    assert_eq!(completions, due);
    // Two reads in an error log, three seconds apart, without completions.
    let log = "[ 1.5] pcieport 0000:00:01.0: AER:   TLP Header: 00000001 0100040f 00002000 00000000\n\
               [ 4.5] pcieport 0000:00:01.0: AER:   TLP Header: 20000001 0100040f 00000000 00002000\n";
    assert_eq!(rules(log), [(2, "address-format")]);
    let headers = rules(include_str!("../../cases/headers.txt"));
    assert_eq!(headers, [(7, "address-format"), (8, "byte-enables"), (8, "crosses-4k")]);
}

/// A header of flit mode in a kernel log, and a frame of an unknown link type.
#[test]
fn counts_unread_records() {
    let log = "pcieport 0000:00:1c.0: AER:   TLP Header (Flit): 0x03010001 0x01000005 0x00001000 0x000000ff 0x00000000";
    let mut checker = Checker::new(FunctionOverrides::default());
    let mut reader = Reader::new(log.as_bytes()).unwrap();
    checker.see(&reader.next_record().unwrap().unwrap());
    let interface = Interface::of_link(0, Direction::Upstream, "");
    let frame = Record::of_tlp(&interface, Timestamp::ZERO, &[], Origin::Device);
    checker.see(&Record { kind: Kind::Bad(Bad::LinkType(147)), ..frame });
    let summary = checker.summary().to_string();
    let due = "not judged:\n         1 records that could not be read\n         1 headers of flit mode";
    assert!(summary.ends_with(due), "{summary}");
}

/// The examples with times, a digest or settings, as `riser rules` reads them.
#[test]
fn finds_violation_in_examples_of_rules() {
    let examples = [
        (RuleId::CompletionTimeout, 1),
        (RuleId::LateCompletion, 2),
        (RuleId::Ecrc, 1),
        (RuleId::MaxPayloadSize, 1),
        (RuleId::TagRange, 1),
    ];
    for (id, number) in examples {
        let rule = Rule::get(id);
        assert_eq!(rules(rule.example), [(number, rule.name)], "{}", rule.example);
    }
}

/// Comments with and without settings. Options of the user override the settings in the file.
#[test]
fn settings_in_file_apply_to_lines_below() {
    let tlp = "up 60000021 010000ff 00000001 00000000";
    let text =
        format!("# seed=7\n{tlp}\n# mps=128 tags=32\n{tlp}\n# mps=100\n# mrrs=128 x=1\n# mps=256 for all\n");
    let judged = |settings: FunctionOverrides| {
        let mut reader = Reader::new(text.as_bytes()).unwrap();
        let (mut checker, mut errors) = (Checker::new(settings), Vec::new());
        while let Some(record) = reader.next_record().unwrap() {
            checker.see(&record);
            if let Kind::Bad(bad) = &record.kind {
                errors.push(bad.to_string());
            }
        }
        let found = std::iter::from_fn(|| checker.next_finding());
        let found: Vec<_> =
            found.map(|finding| (finding.line, finding.applied.unwrap().to_string())).collect();
        (reader.taken_for(), found, errors)
    };
    let (taken_for, found, errors) = judged(FunctionOverrides::default());
    assert_eq!(found, [(Some(4), "Max_Payload_Size 128 bytes (file)".to_owned())]);
    assert_eq!(
        errors,
        [
            "line 5: Max_Payload_Size of 100 bytes: expected 128, 256, 512, 1024, 2048, 4096",
            "line 6: unknown setting \"x\"; known settings: rcb, mps, mrrs, tags",
        ]
    );
    assert!(taken_for.contains("settings mps=128 tags=32): 2 TLPs"), "{taken_for}");
    let (_, found, _) =
        judged(FunctionOverrides { mps: Some(Mps::new(256).unwrap()), ..FunctionOverrides::default() });
    assert_eq!(found, []);
}
