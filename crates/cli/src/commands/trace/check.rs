// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of `--check`.

use crate::commands::rules::RuleName;
use crate::commands::sizes::{mps, mrrs, rcb, whole};
use capture::check::{Checker, FunctionOverrides, TAGS};
use tlp::rules::RULES;
use tlp::{Mps, Mrrs, Rcb, RuleId};

/// Options of `--check`.
#[derive(clap::Args)]
pub(super) struct CheckArgs {
    /// Judge the trace: print each broken rule and a summary; exit with status 1 if a rule is broken
    #[arg(long)]
    pub(super) check: bool,

    /// Read Completion Boundary in bytes: 64 or 128, of root complexes; needs --check
    #[arg(long, value_name = "BYTES", requires = "check", value_parser = rcb)]
    rcb: Option<Rcb>,

    /// Max_Payload_Size in bytes; overrides the capture's configuration; needs --check
    #[arg(long, value_name = "BYTES", requires = "check", value_parser = mps)]
    mps: Option<Mps>,

    /// Max_Read_Request_Size in bytes; overrides the capture's configuration; needs --check
    #[arg(long, value_name = "BYTES", requires = "check", value_parser = mrrs)]
    mrrs: Option<Mrrs>,

    /// Number of tags of a requester: 32, 256 or 1024; overrides the capture's configuration; needs --check
    #[arg(long = "tag-count", alias = "tags", value_name = "COUNT", requires = "check", value_parser = tags)]
    tags: Option<u16>,

    /// Completion timeout, such as 10ms; needs --check [default: 50ms]
    #[arg(long, value_name = "TIME", requires = "check", value_parser = timeout)]
    timeout: Option<u64>,

    /// Use only these rules; needs --check; riser rules lists them
    #[arg(long = "rule", value_name = "RULE", requires = "check", hide_possible_values = true, value_parser = RuleName::new())]
    only: Vec<RuleId>,

    /// Do not judge by these rules; needs --check
    #[arg(long, value_name = "RULE", requires = "check", hide_possible_values = true, value_parser = RuleName::new())]
    ignore: Vec<RuleId>,

    /// Print at most COUNT violations of each rule, 0 for all; needs --check [default: 20, all with --json]
    #[arg(long, value_name = "COUNT", requires = "check", value_parser = whole(0..=u64::MAX))]
    limit: Option<u64>,
}

fn tags(text: &str) -> Result<u16, String> {
    let legal = text.parse().ok().filter(|tags| TAGS.contains(tags));
    legal.ok_or_else(|| "expected 32, 256 or 1024".to_owned())
}

fn timeout(text: &str) -> Result<u64, String> {
    let ps = capture::time::duration_ps(text).and_then(|ps| u64::try_from(ps).ok()).filter(|ps| *ps > 0);
    ps.ok_or_else(|| "expected a time above 0 in ps, ns, us, ms or s, such as 10ms".to_owned())
}

impl CheckArgs {
    pub(super) fn checker(&self) -> Checker {
        let CheckArgs { rcb, mps, mrrs, tags, timeout, .. } = *self;
        let mut checker = Checker::new(FunctionOverrides { rcb, mps, mrrs, tags, timeout_ps: timeout });
        if !self.only.is_empty() {
            checker.only(&self.only);
        }
        self.ignore.iter().for_each(|id| checker.ignore(*id));
        checker
    }

    /// Returns true if the options leave a rule to judge by.
    pub(super) fn has_rules(&self) -> bool {
        let is_asked = |id| self.only.is_empty() || self.only.contains(id);
        RULES.iter().any(|rule| is_asked(&rule.id) && !self.ignore.contains(&rule.id))
    }

    /// Maximum number of lines for one rule.
    pub(super) fn limit(&self, json: bool) -> u64 {
        match (self.limit, json) {
            (Some(0), _) | (None, true) => u64::MAX,
            (Some(limit), _) => limit,
            (None, false) => 20,
        }
    }
}
