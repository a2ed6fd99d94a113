// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--check`: prints a line, or a JSON object, for each violation, and a summary. Never judges itself.

use super::records::append_json;
use super::{Args, for_each_record, shown, stdout};
use crate::commands::rules::RuleName;
use crate::failure::Failure;
use crate::output;
use capture::check::{Checker, Finding, FunctionOverrides, JsonFinding, Summary, TAGS, append_line};
use capture::{Bad, Kind};
use clap::builder::TypedValueParser;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use tlp::rules::{RULES, Rule};
use tlp::{Mps, Mrrs, Rcb, RuleId};

/// Options of `--check`.
#[derive(clap::Args)]
pub(super) struct CheckArgs {
    /// Judge the trace: print each broken rule and a summary; exit with status 1 if a rule is broken
    #[arg(long)]
    pub(super) check: bool,

    /// Read Completion Boundary in bytes: 64 or 128, of root complexes; needs --check
    #[arg(long, value_name = "BYTES", requires = "check", value_parser = size(Rcb::new))]
    rcb: Option<Rcb>,

    /// Max_Payload_Size in bytes; overrides the capture's configuration; needs --check
    #[arg(long, value_name = "BYTES", requires = "check", value_parser = size(Mps::new))]
    mps: Option<Mps>,

    /// Max_Read_Request_Size in bytes; overrides the capture's configuration; needs --check
    #[arg(long, value_name = "BYTES", requires = "check", value_parser = size(Mrrs::new))]
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
    #[arg(long, value_name = "COUNT", requires = "check")]
    limit: Option<u64>,
}

fn size<T, E>(new: fn(u32) -> Result<T, E>) -> impl TypedValueParser<Value = T>
where
    T: Clone + Send + Sync + 'static,
    E: std::fmt::Display + 'static,
{
    clap::builder::StringValueParser::new().try_map(move |text| {
        text.parse()
            .map_err(|_| NOT_A_NUMBER.to_owned())
            .and_then(|bytes| new(bytes).map_err(|error| error.to_string()))
    })
}

const NOT_A_NUMBER: &str = "expected a decimal number of bytes";

fn tags(text: &str) -> Result<u16, String> {
    let legal = text.parse().ok().filter(|tags| TAGS.contains(tags));
    legal.ok_or_else(|| "expected 32, 256 or 1024".to_owned())
}

fn timeout(text: &str) -> Result<u64, String> {
    let ps = capture::time::duration_ps(text).and_then(|ps| u64::try_from(ps).ok()).filter(|ps| *ps > 0);
    ps.ok_or_else(|| "expected a time above 0 in ps, ns, us, ms or s, such as 10ms".to_owned())
}

impl CheckArgs {
    fn checker(&self) -> Checker {
        let CheckArgs { rcb, mps, mrrs, tags, timeout, .. } = *self;
        let mut checker = Checker::new(FunctionOverrides { rcb, mps, mrrs, tags, timeout_ps: timeout });
        if !self.only.is_empty() {
            checker.only(&self.only);
        }
        self.ignore.iter().for_each(|id| checker.ignore(*id));
        checker
    }

    /// Returns true if the options leave a rule to judge by.
    fn has_rules(&self) -> bool {
        let is_asked = |id| self.only.is_empty() || self.only.contains(id);
        RULES.iter().any(|rule| is_asked(&rule.id) && !self.ignore.contains(&rule.id))
    }

    /// Maximum number of lines for one rule.
    fn limit(&self, json: bool) -> u64 {
        match (self.limit, json) {
            (Some(0), _) | (None, true) => u64::MAX,
            (Some(limit), _) => limit,
            (None, false) => 20,
        }
    }
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    if !args.check.has_rules() {
        return Err(Failure::usage("--rule and --ignore: no rule left to judge by"));
    }
    let mut out = stdout(args);
    let mut has_failed = false;
    for file in &args.files {
        if args.names_files() && !args.json {
            writeln!(out, "==> {} <==", file.display())?;
        }
        let (summary, holes) = write_findings(args, file, &mut out)?;
        if args.json {
            let mut line = String::new();
            append_json(&args.of_file(file, BTreeMap::from([("summary", &summary)])), &mut line);
            writeln!(out, "{line}")?;
        } else {
            writeln!(out, "{summary}")?;
        }
        out.flush()?;
        let why = why_incomplete(&summary, holes);
        has_failed |= summary.violations > 0 || why.is_some();
        why.into_iter().for_each(|why| output::note(format_args!("{}: {why}", shown(file))));
    }
    if has_failed { Err(Failure::Command(1)) } else { Ok(()) }
}

/// Describes why a check without violations does not prove that the trace is correct.
fn why_incomplete(summary: &Summary, holes: u64) -> Option<&'static str> {
    match (summary.tlps, holes) {
        (0, _) => Some("no TLP was judged"),
        (_, 0) => None,
        _ => Some("the file is cut or damaged: only the TLPs that could be read were judged"),
    }
}

/// Writes the findings of a file. Returns its summary, and the number of places where the file could not be read.
fn write_findings(args: &Args, file: &Path, out: &mut impl Write) -> Result<(Summary, u64), Failure> {
    let mut checker = args.check.checker();
    let (mut printed, limit) = (BTreeMap::new(), args.check.limit(args.json));
    let mut line = String::new();
    let mut show = |finding: &Finding, out: &mut dyn Write| -> Result<(), Failure> {
        let count: &mut u64 = printed.entry(finding.violation.rule).or_default();
        *count += 1;
        if *count > limit {
            return Ok(());
        }
        line.clear();
        if args.json {
            append_json(&args.of_file(file, JsonFinding(finding)), &mut line);
        } else {
            append_line(finding, &mut line);
        }
        line.push('\n');
        Ok(out.write_all(line.as_bytes())?)
    };
    let mut holes = 0;
    for_each_record(args, file, |record| {
        holes += u64::from(matches!(record.kind, Kind::Bad(Bad::File(_))));
        checker.see(record);
        while let Some(finding) = checker.next_finding() {
            show(&finding, out)?;
        }
        Ok(())
    })?;
    checker.finish();
    while let Some(finding) = checker.next_finding() {
        show(&finding, out)?;
    }
    for (rule, count) in printed.into_iter().filter(|(_, count)| *count > limit && !args.json) {
        writeln!(out, "{} more violations of {}; --limit 0 prints all", count - limit, Rule::get(rule).name)?;
    }
    Ok((checker.summary(), holes))
}
