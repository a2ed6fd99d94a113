// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces that break rules, and traces that do not.

mod cases;
mod completions;
mod files;
mod limits;
mod links;
mod oracle;
mod settings;

use riser_capture::check::{Checker, Finding, FunctionOverrides, Summary};
use riser_capture::{Direction, Interface, Origin, Record, Timestamp};
use tlp::{Class, Header};

/// A trace as hexadecimal text, with one line per TLP: its direction and its DWs. A line `# name=value` gives a
/// setting. A time precedes the direction, as `@NS` or `NUMBERus`. Omitted data is zero.
pub(super) struct Trace {
    settings: FunctionOverrides,
    tlps: Vec<(Option<u64>, Direction, Vec<u8>)>,
}

pub(super) fn trace(text: &str) -> Trace {
    let mut trace = Trace { settings: FunctionOverrides::default(), tlps: Vec::new() };
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            if let Some((name, value)) = comment.split_once('=').filter(|(name, _)| !name.contains(' ')) {
                trace.settings.set(name, value).unwrap_or_else(|error| panic!("{line}: {error}"));
            }
            continue;
        }
        let line = line.split('#').next().unwrap();
        let mut words = line.split_whitespace().peekable();
        let ns = words.next_if(|word| word.starts_with('@')).map(|ns| ns[1..].parse().unwrap());
        let us = words.next_if(|word| word.ends_with("us"));
        let ns = ns.or(us.map(|us| us.trim_end_matches("us").parse::<u64>().unwrap() * 1000));
        let direction = match words.next() {
            Some("up") => Direction::Upstream,
            Some("down") => Direction::Downstream,
            None => continue,
            Some(other) => panic!("direction {other:?}"),
        };
        let bytes = words.flat_map(|dw| u32::from_str_radix(dw, 16).unwrap().to_be_bytes()).collect();
        trace.tlps.push((ns, direction, whole(bytes)));
    }
    trace
}

/// Completes a TLP: adds zeros for omitted data and the ECRC for an omitted digest. Removes the undefined fourth DW
/// of a header of 3 DW.
fn whole(mut bytes: Vec<u8>) -> Vec<u8> {
    let Ok(header) = Header::new(&bytes) else { return bytes };
    let (len, header_len) = (header.tlp_len(), header.prefix_bytes().len() + header.bytes().len());
    if bytes.len() <= header_len + 4 && bytes.len() != len {
        let digest_len = if header.td() { 4 } else { 0 };
        bytes.resize(len - digest_len, 0);
        let ecrc = tlp::crc::ecrc(&bytes).to_be_bytes();
        bytes.extend(&ecrc[..digest_len]);
    }
    bytes
}

pub(super) fn judge(trace: &Trace) -> (Vec<Finding>, Summary) {
    let mut checker = Checker::new(trace.settings);
    let links = [Direction::Upstream, Direction::Downstream].map(|way| Interface::of_link(0, way, ""));
    for ((ns, direction, bytes), number) in trace.tlps.iter().zip(1..) {
        let interface = &links[usize::from(*direction == Direction::Downstream)];
        let class = Header::new(bytes).map_or(Class::Posted, |header| header.format().class);
        let origin = Origin::of(*direction, class);
        let time = Timestamp::from_ps(u128::from(ns.unwrap_or(0)) * 1000);
        let has_time = ns.is_some();
        let record = Record { number, has_time, ..Record::of_tlp(interface, time, bytes, origin) };
        checker.see(&record);
    }
    checker.finish();
    let findings = std::iter::from_fn(|| checker.next_finding()).collect();
    (findings, checker.summary())
}

/// For each violation of a trace: record number, field, value and expected value.
pub(super) fn verdicts(text: &str) -> Vec<(u64, String)> {
    let (findings, _) = judge(&trace(text));
    let verdict = |finding: &Finding| {
        let text = finding.violation.to_string();
        (finding.number, text.split(" (PCIe").next().unwrap().to_owned())
    };
    findings.iter().map(verdict).collect()
}

/// Record number and rule of each violation of a trace.
pub(super) fn rules(text: &str) -> Vec<(u64, &'static str)> {
    let (findings, _) = judge(&trace(text));
    findings.iter().map(|finding| (finding.number, finding.violation.rule().name)).collect()
}
