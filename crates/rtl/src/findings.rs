// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a design has done wrongly, and what else is to be told of it.

use plug::{Report, Shown};
use std::mem::Discriminant;
use thiserror::Error;
use tlp::Time;

/// Findings that are told by name, in all and of one rule; those beyond are counted.
const MOST_FINDINGS: usize = 32;
const MOST_OF_A_RULE: usize = 4;
/// Bytes of a packet that are shown.
const MOST_BYTES: usize = 32;

/// A rule that a design has broken.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub(crate) enum Rule {
    #[error("{0}: a beat that was shown has changed or gone before it was taken (AXI4-Stream §2.2.1)")]
    Kept(&'static str),
    #[error(
        "{0}_tkeep of {1:#x}: legal are whole double-words from the first lane on, all of them but in the last beat"
    )]
    Keep(&'static str, u64),
    #[error("{0}: a packet that is longer than any TLP")]
    TooLong(&'static str),
    #[error("{0}_tuser: {1}")]
    Straddle(&'static str, &'static str),
    #[error("{stream}: {sent} double-words of data, of which the descriptor says {said}")]
    Dwords { stream: &'static str, sent: usize, said: u32 },
    #[error("a Dword Count of {0}: legal are 1 to 1024, and 0 in completions without data")]
    DwordCount(u32),
    #[error(
        "s_axis_rq: a request of type {0:#06b}: riser's block sends memory, I/O and atomic requests (types 0b0000 to 0b0111)"
    )]
    RequestType(u32),
    #[error("s_axis_rq: function {0} is none of the design's, or is not enabled")]
    Function(u8),
    #[error("s_axis_rq: tag {0} is in use by an earlier request")]
    TagInUse(u8),
    #[error("s_axis_rq: tag {tag}: legal are 0 to {last}, {of}")]
    TagRange { tag: u8, last: u16, of: TagsOf },
    #[error("cfg_interrupt_msi_int of {0:#x}: legal is one bit at a time")]
    Vectors(u32),
    #[error("an interrupt of function {0}, which is none of the design's, or is not enabled")]
    InterruptFunction(u32),
    #[error("an interrupt before the block has answered the one before it (sent, or fail)")]
    InterruptEarly,
    #[error("a TLP of {sent} B, whose header says {said} B: the block drops it")]
    Length { sent: usize, said: usize },
    #[error("a TLP whose header is not whole, or with prefixes that break a rule: the block drops it")]
    Header,
    #[error(
        "its header leaves as {leaves}: reserved bits are zero, and an address below 4 GiB takes 3 double-words (PCIe 6.0 §2.2.4.1)"
    )]
    Altered { leaves: String },
    #[error("TD is set, and the digest is not its ECRC (PCIe 6.0 §2.7.1)")]
    Digest,
    #[error("the TLP was not sent: {0}")]
    Refused(String),
    #[error("the TLP was sent as it is: {0}")]
    SentWrong(String),
    #[error("a write by cfg_mgmt: riser's block writes no configuration register for a design")]
    RegisterWrite,
    #[error("{0}: riser's block does nothing for this input of a design")]
    Error(&'static str),
}

/// Who says how many tags there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub(crate) enum TagsOf {
    #[error("as many as the block has")]
    Block,
    #[error("by `tags` of the slot")]
    Slot,
}

/// What is known of a design that runs.
#[derive(Clone, Default, Debug)]
pub struct Told {
    pub(crate) cycles: u64,
    pub(crate) packets_in: u64,
    pub(crate) packets_out: u64,
    pub(crate) interrupts: u64,
    pub(crate) wrong: u64,
    pub(crate) findings: Vec<String>,
    /// The rule of each.
    kinds: Vec<Discriminant<Rule>>,
    pub(crate) failure: Option<String>,
    /// A run with findings has failed.
    pub(crate) denied: bool,
}

impl Told {
    /// Nothing yet; `denied`: a run with findings has failed.
    pub(crate) fn denying(denied: bool) -> Told {
        Told { denied, ..Told::default() }
    }

    /// How much is wrong, if anything is, and what was first.
    pub(crate) fn wrong(&self) -> Option<String> {
        let first = self.findings.first()?;
        Some(match self.wrong {
            1 => format!("1 thing that the design does wrongly: {first}"),
            count => format!("{count} things that the design does wrongly, the first: {first}"),
        })
    }

    /// Keeps what is wrong, with its cycle and the packet's bytes.
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

/// Bytes, as findings show them.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Report for Told {
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

    fn findings(&self, told: usize) -> Vec<String> {
        self.findings.get(told..).map_or(Vec::new(), <[String]>::to_vec)
    }

    fn wrong(&self) -> Option<String> {
        self.wrong()
    }

    fn verdict(&self) -> Option<String> {
        let wrong = self.wrong().filter(|_| self.denied)?;
        Some(wrong.replacen("wrongly", "wrongly (deny_findings)", 1))
    }
}
