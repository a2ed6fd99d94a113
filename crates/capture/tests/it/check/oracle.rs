// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random traces with injected errors, checked by riser and by `tools/oracle/check_trace.py`, which shares no code
//! with riser. `RISER_ORACLE_TRACES` sets the number of traces of each kind.

use riser_capture::check::{Checker, FunctionOverrides};
use riser_capture::{Direction, Interface, Origin, Record, Timestamp};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use tlp::{Class, Header};

/// Default number of traces of each kind.
const TRACES: u32 = 400;

/// Runs a script with this input and returns its output. `None` if there is no python3.
fn run(script: &str, arguments: &[&str], input: &str) -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/oracle").join(script);
    let mut command = Command::new("python3");
    command.arg(path).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        println!("skipped: no python3");
        return None;
    };
    let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_owned());
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{script}");
    writer.join().unwrap().unwrap();
    Some(String::from_utf8(output.stdout).unwrap())
}

/// The directions of links 0 to 3.
fn interfaces(has_others: bool) -> Vec<[Interface; 2]> {
    let of = |link, way| Interface { has_others, ..Interface::of_link(link, way, "") };
    (0..4).map(|link| [Direction::Upstream, Direction::Downstream].map(|way| of(link, way))).collect()
}

/// Violations of a trace, as the oracle prints them.
fn judge(trace: &str) -> Vec<String> {
    let mut settings = FunctionOverrides::default();
    let mut lines = Vec::new();
    for line in trace.lines() {
        match line.strip_prefix("# ").map(|setting| setting.split_once('=').unwrap()) {
            Some((name, value)) => settings.set(name, value).unwrap(),
            None => lines.push(line),
        }
    }
    let interfaces = interfaces(lines.iter().any(|line| !line.starts_with("0 ")));
    let mut checker = Checker::new(settings);
    for (line, number) in lines.iter().zip(1..) {
        let words: Vec<&str> = line.split(' ').collect();
        let bytes = crate::common::hex(words.get(2).unwrap_or(&""));
        let link: usize = words[0].parse().unwrap();
        let interface = &interfaces[link][usize::from(words[1] == "down")];
        let class = Header::new(&bytes).map_or(Class::Posted, |header| header.format().class);
        let origin = Origin::of(interface.direction.unwrap(), class);
        let has_time = false;
        checker.see(&Record {
            number,
            has_time,
            ..Record::of_tlp(interface, Timestamp::ZERO, &bytes, origin)
        });
    }
    checker.finish();
    let found = std::iter::from_fn(|| checker.next_finding());
    let mut found: Vec<_> = found.map(|f| (f.number, f.violation.rule().name)).collect();
    found.sort_unstable();
    found.iter().map(|(number, rule)| format!("{number}:{rule}")).collect()
}

/// Compares the results on random traces. Returns how often each rule was broken.
fn compare(kind: &str) -> Option<BTreeMap<String, u32>> {
    let count = std::env::var("RISER_ORACLE_TRACES").ok().map_or(TRACES, |count| count.parse().unwrap());
    let traces = run("make_traces.py", &[kind, &count.to_string()], "")?;
    let due = run("check_trace.py", &[], &traces)?;
    let mut broken = BTreeMap::new();
    let mut compared = 0;
    for (trace, due) in traces.split("\n\n").filter(|trace| !trace.is_empty()).zip(due.lines()) {
        let found = judge(trace);
        assert_eq!(found.join(" "), due, "trace:\n{trace}");
        for rule in found.iter().filter_map(|found| found.split(':').nth(1)) {
            *broken.entry(rule.to_owned()).or_default() += 1;
        }
        compared += 1;
    }
    assert_eq!(compared, count);
    println!("{compared} {kind}: {broken:?}");
    Some(broken)
}

#[test]
fn finds_same_violations_as_oracle_in_random_tlps() {
    let Some(broken) = compare("tlps") else { return };
    assert!(broken.len() > 25, "{broken:?}");
}

#[test]
fn finds_same_violations_as_oracle_in_random_transactions() {
    let Some(broken) = compare("transactions") else { return };
    assert!(broken.len() > 12, "{broken:?}");
}

/// Traffic of cocotbext-pcie, from `tools/oracle/cocotb_traffic.py`. Its completions without data, for
/// configuration and I/O requests, have Byte Count 4096 (0 on the wire), but `PCIe 5.0 §2.2.9` requires 4. It
/// breaks no other rule.
#[test]
fn finds_only_the_byte_count_of_cpl_in_cocotb_traffic() {
    let traffic = include_str!("../../cases/cocotbext-pcie.txt");
    let whole = |line: &str| {
        let (place, header) = line.rsplit_once(' ').unwrap();
        let bytes = super::whole(crate::common::hex(header));
        let bytes: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{place} {bytes}\n")
    };
    let trace: String = traffic.lines().map(whole).collect();
    // Cpl with Byte Count 0.
    let is_without_count = |line: &str| {
        line.split(' ').nth(2).is_some_and(|tlp| &tlp[..8] == "0a000000" && &tlp[13..16] == "000")
    };
    let due: Vec<String> = (1..)
        .zip(traffic.lines())
        .filter(|(_, line)| is_without_count(line))
        .map(|(number, _)| format!("{number}:byte-count"))
        .collect();
    assert!(due.len() > 100);
    assert_eq!(judge(&trace), due);
}
