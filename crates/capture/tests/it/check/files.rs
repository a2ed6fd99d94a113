// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of hand-written TLPs, read as `riser trace --check` reads them.

use riser_capture::check::{Checker, Settings};
use riser_capture::{Bad, Direction, Interface, Kind, Origin, Reader, Record, Timestamp};
use tlp::RuleId;
use tlp::rules::Rule;

/// Line and rule of each violation of a file.
fn rules(text: &str) -> Vec<(u64, &'static str)> {
    let mut reader = Reader::new(text.as_bytes()).unwrap();
    let mut checker = Checker::new(Settings::default());
    while let Some(record) = reader.next_record().unwrap() {
        checker.see(&record);
    }
    checker.finish();
    let found = std::iter::from_fn(|| checker.next_finding());
    found.map(|finding| (finding.number, finding.violation.rule().name)).collect()
}

#[test]
fn judges_files_of_hexadecimal_tlps() {
    let completions = rules(include_str!("../../cases/completions.txt"));
    let due = [
        (3, "lower-address"),
        (5, "lower-address"),
        (10, "completion-boundary"),
        (13, "completion-boundary"),
    ];
    assert_eq!(completions, due);
    // Two reads that an error log holds, three seconds apart, and no completion.
    let log = "[ 1.5] pcieport 0000:00:01.0: AER:   TLP Header: 00000001 0100040f 00002000 00000000\n\
               [ 4.5] pcieport 0000:00:01.0: AER:   TLP Header: 20000001 0100040f 00000000 00002000\n";
    assert_eq!(rules(log), [(2, "address-format")]);
    let headers = rules(include_str!("../../cases/headers.txt"));
    assert_eq!(headers, [(7, "address-format"), (8, "byte-enables"), (8, "crosses-4k")]);
}

/// A header of flit mode in a kernel log, and a frame of an unknown link type.
#[test]
fn counts_records_that_it_does_not_read() {
    let log = "pcieport 0000:00:1c.0: AER:   TLP Header (Flit): 0x03010001 0x01000005 0x00001000 0x000000ff 0x00000000";
    let mut checker = Checker::new(Settings::default());
    let mut reader = Reader::new(log.as_bytes()).unwrap();
    checker.see(&reader.next_record().unwrap().unwrap());
    let interface = Interface::of_link(0, Direction::Upstream, "");
    let frame = Record::of_tlp(&interface, Timestamp::ZERO, &[], Origin::Device);
    checker.see(&Record { kind: Kind::Bad(Bad::LinkType(147)), ..frame });
    let summary = checker.summary().to_string();
    let due = "not judged:\n         1 records that could not be read\n         1 headers of flit mode";
    assert!(summary.ends_with(due), "{summary}");
}

/// The examples with times or a digest, as `riser rules` reads them.
#[test]
fn reads_the_examples_of_rules() {
    for (id, number) in [(RuleId::CompletionTimeout, 1), (RuleId::LateCompletion, 2), (RuleId::Ecrc, 1)] {
        let rule = Rule::get(id);
        assert_eq!(rules(rule.example), [(number, rule.name)], "{}", rule.example);
    }
}
