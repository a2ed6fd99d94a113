// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completions and their requests. The cases are in files: layouts follow `PCIe 5.0 §2.2`, and values follow §2.2.9 and
//! §2.3.1.1.

use super::rules;

/// Checks each case of a file: a name, then TLPs. The comment of a TLP names the rules that it breaks.
fn check(cases: &str) {
    for case in testkit::cases(cases) {
        let tlps = case.text.lines().filter(|line| !line.starts_with('#'));
        let broken = |(line, number)| {
            let (_, names): (&str, &str) = str::split_once(line, '#')?;
            Some(names.split(',').map(move |name| (number, name.trim())))
        };
        let expected: Vec<_> = tlps.zip(1..).filter_map(broken).flatten().collect();
        assert_eq!(rules(case.text), expected, "{}", case.text);
    }
}

#[test]
fn accepts_legal_completions() {
    check(include_str!("../../cases/completions-legal.txt"));
}

#[test]
fn finds_wrong_completions() {
    check(include_str!("../../cases/completions-wrong.txt"));
}

/// The trace may begin and end at any time.
#[test]
fn does_not_check_tlps_whose_request_is_not_in_trace() {
    check(include_str!("../../cases/completions-of-parts.txt"));
}
