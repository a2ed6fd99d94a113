// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of a design, and its other counters.

use plug::{Report, Shown};
use std::mem::Discriminant;
use thiserror::Error;
use tlp::Time;

/// Maximum number of findings that are stored as text, in total and per rule. Further findings are only counted.
const MOST_FINDINGS: usize = 32;
const MOST_OF_A_RULE: usize = 4;
/// Maximum number of a packet's bytes that a finding shows.
const MOST_BYTES: usize = 32;

/// A rule that a design broke.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub(crate) enum Rule {
    #[error("{0}: a beat changed or disappeared before it was accepted (AXI4-Stream §2.2.1)")]
    PresentedBeat(&'static str),
    #[error(
        "{0}_tkeep of {1:#x}; expected whole double-words from the first lane, and all of them except in the last beat"
    )]
    Keep(&'static str, u64),
    #[error("{0}: a packet that is longer than any TLP")]
    TooLong(&'static str),
    #[error("{0}_tuser: {1}")]
    Straddle(&'static str, &'static str),
    #[error("{stream}: {sent} double-words of data; the descriptor says {said}")]
    Dwords { stream: &'static str, sent: usize, said: u32 },
    #[error("a Dword Count of {0}; expected 1 to 1024, or 0 in completions without data")]
    DwordCount(u32),
    #[error(
        "s_axis_rq: a request of type {0:#06b}; riser's block sends only memory, I/O and atomic requests (types 0b0000 to 0b0111)"
    )]
    RequestType(u32),
    #[error("{0}: function {1} does not exist in the design, or is not enabled")]
    Function(&'static str, u8),
    #[error("s_axis_rq: tag {0} is in use by an earlier request")]
    TagInUse(u8),
    #[error("s_axis_rq: tag {tag}; expected 0 to {last}, {of}")]
    TagRange { tag: u8, last: u16, of: TagsOf },
    #[error("cfg_interrupt_msi_int of {0:#x}; expected one bit at a time")]
    Vectors(u32),
    #[error("an interrupt of function {0}, which does not exist in the design, or is not enabled")]
    InterruptFunction(u32),
    #[error("an interrupt before the block answered the previous one (sent, or fail)")]
    InterruptEarly,
    #[error("a TLP of {sent} B with a header for {said} B; the block drops it")]
    Length { sent: usize, said: usize },
    #[error("a TLP with an incomplete header, or with prefixes that break a rule; the block drops it")]
    Header,
    #[error(
        "its header is sent as {leaves}: reserved bits are zero, and an address below 4 GiB takes a header of 3 double-words (PCIe 6.0 §2.2.4.1)"
    )]
    Altered { leaves: String },
    #[error("TD is set, and the digest is not its ECRC (PCIe 6.0 §2.7.1)")]
    Digest,
    #[error("the TLP was not sent: {0}")]
    Refused(String),
    #[error("the TLP was sent unchanged: {0}")]
    SentWrong(String),
    #[error("a write through cfg_mgmt; riser's block ignores a design's writes to configuration registers")]
    RegisterWrite,
    #[error("{0}: riser's block does not support this input")]
    Error(&'static str),
}

/// Limit of the number of tags.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub(crate) enum TagsOf {
    #[error("the number of tags that the block has")]
    Block,
    #[error("by `tags` of the slot")]
    Slot,
}

/// State and counters of a running design.
#[derive(Clone, Default, Debug)]
pub struct DesignStatus {
    pub(crate) cycles: u64,
    pub(crate) packets_in: u64,
    pub(crate) packets_out: u64,
    pub(crate) interrupts: u64,
    pub(crate) wrong: u64,
    pub(crate) findings: Vec<String>,
    /// Rule of each finding.
    kinds: Vec<Discriminant<Rule>>,
    pub(crate) failure: Option<String>,
    /// True if findings make the run fail.
    pub(crate) denied: bool,
}

impl DesignStatus {
    /// Creates an empty report. If `denied` is true, findings make the run fail.
    pub(crate) fn denying(denied: bool) -> DesignStatus {
        DesignStatus { denied, ..DesignStatus::default() }
    }

    /// Returns the number of errors and the first one, if there is any.
    pub(crate) fn wrong(&self) -> Option<String> {
        let first = self.findings.first()?;
        Some(match self.wrong {
            1 => format!("1 error of the design: {first}"),
            count => format!("{count} errors of the design, the first: {first}"),
        })
    }

    /// Records an error, with its cycle and the packet's bytes.
    pub(crate) fn found(&mut self, now: Time, cycle: u64, rule: &Rule, bytes: &[u8]) {
        self.wrong += 1;
        let kind = std::mem::discriminant(rule);
        let of_it = self.kinds.iter().filter(|other| **other == kind).count();
        if of_it < MOST_OF_A_RULE && self.findings.len() < MOST_FINDINGS {
            self.kinds.push(kind);
            let shown = hex(&bytes[..bytes.len().min(MOST_BYTES)]);
            let more = if bytes.len() > MOST_BYTES { ".." } else { "" };
            let bytes = if bytes.is_empty() { String::new() } else { format!(": {shown}{more}") };
            let ns = now.as_ps() / 1000;
            self.findings.push(format!("cycle {cycle}, {ns} ns: {rule}{bytes}"));
        }
    }
}

/// Formats bytes for findings.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Report for DesignStatus {
    fn shown(&self, _: Time) -> Shown {
        let mut shown = Shown::new().with_counts([
            ("cycles", self.cycles),
            ("packets_in", self.packets_in),
            ("packets_out", self.packets_out),
            ("interrupts", self.interrupts),
            ("wrong", self.wrong),
        ]);
        for (n, text) in self.findings.iter().enumerate() {
            shown = shown.with(format!("finding_{}", n + 1), text.clone());
        }
        match &self.failure {
            Some(why) => shown.with("failure", why.clone()),
            None => shown,
        }
    }

    fn failure(&self) -> Option<String> {
        self.failure.clone()
    }

    fn findings(&self, from: usize) -> Vec<String> {
        self.findings.get(from..).map_or(Vec::new(), <[String]>::to_vec)
    }

    fn wrong(&self) -> Option<String> {
        self.wrong()
    }

    fn verdict(&self) -> Option<String> {
        let wrong = self.wrong().filter(|_| self.denied)?;
        Some(wrong.replacen("of the design", "of the design (deny_findings)", 1))
    }
}
