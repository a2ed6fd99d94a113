// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The summary of a check: counts, settings with their origin, and the number of TLPs that were not checked.

use super::limits::{Applied, Origin};
use crate::count::counted;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use tlp::RuleId;
use tlp::rules::Rule;

/// Reason why a TLP or record was not checked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NotJudged {
    /// A TLP that did not arrive, or that had already arrived before.
    NotTaken,
    /// A TLP of which not enough was captured.
    CutShort,
    /// A header in an error log. The log has no other TLPs of the link, so only the rules of one TLP were checked.
    Logged,
    /// A record that could not be read.
    Unread,
    /// A header of flit mode.
    FlitHeader,
    /// A completion whose request may be from before the trace, or was not tracked.
    BeforeRequest,
    /// A completion of an ATS translation request.
    Translation,
    /// A request that was outstanding at an unreadable part of the file, or when its link came up again.
    LinkDown,
    /// A request above a limit: too many were outstanding in total, or more than two with one tag.
    Untracked,
    /// A request that was outstanding at the end of the trace and had not timed out.
    OutstandingAtEnd,
}

impl NotJudged {
    const fn text(self) -> &'static str {
        match self {
            NotJudged::NotTaken => "TLPs that were lost, damaged or sent again",
            NotJudged::CutShort => "TLPs of which too little was captured",
            NotJudged::Logged => "headers of error logs, judged by themselves",
            NotJudged::Unread => "records that could not be read",
            NotJudged::FlitHeader => "headers of flit mode",
            NotJudged::BeforeRequest => "completions whose requests may be from before the trace",
            NotJudged::Translation => "completions of translation requests",
            NotJudged::LinkDown => "requests that waited at a hole in the file or when a link came up again",
            NotJudged::Untracked => "requests beyond the limit of outstanding requests",
            NotJudged::OutstandingAtEnd => "requests outstanding at the end that had not timed out",
        }
    }
}

/// The number of violations of one rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct OfRule {
    /// Name of the rule.
    pub rule: &'static str,
    /// Number of violations.
    pub count: u64,
}

/// A setting, and how many functions have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct InForce {
    /// The setting.
    #[serde(flatten)]
    pub applied: Applied,
    /// Number of functions that have this setting in the capture; 0 for other origins.
    pub functions: usize,
}

/// The number of TLPs that were not checked for one reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Unjudged {
    /// The reason.
    pub reason: NotJudged,
    /// Their number.
    pub count: u64,
}

/// The summary of a check. Displays as several lines.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Summary {
    /// TLPs of the trace.
    pub tlps: u64,
    /// Violations of all rules.
    pub violations: u64,
    /// Violations by rule, in the order of the table of rules.
    pub by_rule: Vec<OfRule>,
    /// The settings that rules depend on.
    pub settings: Vec<InForce>,
    /// TLPs that were not checked, by reason.
    pub not_judged: Vec<Unjudged>,
    /// Names of the rules that the user selected and that the trace cannot show.
    pub cannot_be_judged: Vec<&'static str>,
}

impl Summary {
    pub(super) fn new(
        tlps: u64,
        by_rule: &BTreeMap<RuleId, u64>,
        settings: Vec<(Applied, usize)>,
        not_judged: &BTreeMap<NotJudged, u64>,
        cannot_be_judged: impl Iterator<Item = RuleId>,
    ) -> Summary {
        let of_rule = |(id, count): (&RuleId, &u64)| OfRule { rule: Rule::get(*id).name, count: *count };
        let in_force = |(applied, count): (Applied, usize)| {
            let functions = if applied.origin == Origin::Capture { count } else { 0 };
            InForce { applied, functions }
        };
        let unjudged = |(reason, count): (&NotJudged, &u64)| Unjudged { reason: *reason, count: *count };
        Summary {
            tlps,
            violations: by_rule.values().sum(),
            by_rule: by_rule.iter().map(of_rule).collect(),
            settings: settings.into_iter().map(in_force).collect(),
            not_judged: not_judged.iter().map(unjudged).collect(),
            cannot_be_judged: cannot_be_judged.map(|id| Rule::get(id).name).collect(),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", counted(self.tlps, "TLP"), counted(self.violations, "violation"))?;
        for OfRule { rule, count } in &self.by_rule {
            write!(f, "\n  {count:>8} {rule}")?;
        }
        write!(f, "\nsettings:")?;
        for InForce { applied, functions } in &self.settings {
            write!(f, "\n  {applied}")?;
            match (applied.origin, *functions) {
                (Origin::Capture, functions) => write!(f, ", of {}", counted(functions as u64, "function"))?,
                (Origin::Inferred, _) => {
                    f.write_str(": not checked; the smallest value that fits the trace")?
                }
                _ => {}
            }
        }
        if !self.not_judged.is_empty() {
            write!(f, "\nnot judged:")?;
        }
        for Unjudged { reason, count } in &self.not_judged {
            write!(f, "\n  {count:>8} {}", reason.text())?;
        }
        if !self.cannot_be_judged.is_empty() {
            write!(f, "\ncannot be judged here: {}", self.cannot_be_judged.join(", "))?;
        }
        Ok(())
    }
}
