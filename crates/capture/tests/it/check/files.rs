// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of hand-written TLPs, read as `riser trace --check` reads them.

use riser_capture::Reader;
use riser_capture::check::{Checker, Settings};

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
