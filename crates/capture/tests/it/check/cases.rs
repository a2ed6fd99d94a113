// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of hand-written TLPs with their expected violations, and the examples in the table of rules.

use super::{judge, rules, trace, verdicts};
use riser_capture::check::append_line;
use tlp::RuleId;
use tlp::rules::RULES;

const COMPLETIONS: &str = include_str!("../../cases/completions.txt");
const HEADERS: &str = include_str!("../../cases/headers.txt");

/// The expected violations are in the comments at the start of the file.
#[test]
fn finds_wrong_completions_of_host() {
    let found = verdicts(COMPLETIONS);
    let due = [
        (3, "Lower Address 0x0, expected 0x40"),
        (5, "Lower Address 0x0, expected 0x4"),
        (10, "Address after the last byte 0x4060, expected a multiple of the Read Completion Boundary"),
        (13, "Address after the last byte 0x5020, expected a multiple of the Read Completion Boundary"),
    ];
    assert_eq!(found, due.map(|(number, text)| (number, text.to_owned())));
    let (findings, summary) = judge(&trace(COMPLETIONS));
    assert_eq!((summary.tlps, summary.violations), (14, 4));
    let line = |n: usize| {
        let mut line = String::new();
        append_line(&findings[n], &mut line);
        line
    };
    assert_eq!(
        line(0),
        "#3 link0:downstream Lower Address 0x0, expected 0x40 (PCIe 6.0 §2.2.9.1, rule lower-address): \
         CplD, len 16, completer 00:00.0, success, bc 64, requester 01:00.0, tag 0x04, lowaddr 0x00; answers #1"
    );
    assert!(line(2).ends_with("; answers #9; RCB of root complexes 64 bytes (default)"), "{}", line(2));
}

/// The comment of each line names its error, if it has one.
#[test]
fn finds_wrong_headers_in_kernel_logs() {
    let byte_enables = "Last and First DW BE 00001111b, expected Last BE not 0000b for Length over 1";
    let due = [
        (7, "Address 0x1000, expected a 3-DW header below 4 GiB"),
        (8, byte_enables),
        // 128 bytes from 0xfc0 on also cross 4 KiB.
        (8, "Address 0xfc0, expected a request within one naturally aligned 4 KiB block"),
    ];
    assert_eq!(verdicts(HEADERS), due.map(|(number, text)| (number, text.to_owned())));
}

/// The examples of rules about several links or about a component are sentences, and are not checked here.
#[test]
fn every_example_breaks_its_rule() {
    for rule in RULES.iter().filter(|rule| rule.is_of_several() && !rule.is_of_component()) {
        if matches!(rule.id, RuleId::PostedOrder | RuleId::Credits) {
            continue;
        }
        let found = rules(rule.example);
        assert!(found.iter().any(|(_, name)| *name == rule.name), "{}: {found:?}", rule.name);
        assert!(found.iter().all(|(_, name)| *name == rule.name), "{}: {found:?}", rule.name);
    }
}
