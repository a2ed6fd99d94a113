// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser rules`: prints the table of rules that TLPs must follow, from `riser-tlp`, with examples that `riser-capture` decodes and judges.

use crate::{Failure, output};
use capture::explain::explanation;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use serde::Serialize;
use std::ffi::OsStr;
use tlp::RuleId;
use tlp::rules::{RULES, Rule};

const EXAMPLE: &str = "\
Examples:
  riser rules
  riser rules lower-address
  riser rules --json

Lists the rules of the specification that riser checks. If riser refuses a TLP, or `riser trace --check` or `riser decode` finds a violation, it names the rule.
--json prints one object, rules: [{name, section (of PCIe 5.0; §2.2.9.1 of 6.0), side (sender, receiver, switch), field, legal (its legal values), \
text, example (TLPs in hex, one on each line, or a sentence)}].";

/// List the rules that TLPs must follow, or explain rules with examples
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Explain these rules
    #[arg(value_name = "RULE", hide_possible_values = true, value_parser = RuleName::new())]
    names: Vec<RuleId>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Parses the name of a rule. Its errors name the nearest rule and do not list all of them.
#[derive(Clone)]
pub(super) struct RuleName(PossibleValuesParser);

impl RuleName {
    pub(super) fn new() -> RuleName {
        RuleName(PossibleValuesParser::new(RULES.iter().map(|rule| rule.name)))
    }
}

impl TypedValueParser for RuleName {
    type Value = RuleId;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<RuleId, clap::Error> {
        let names = self.0.clone().try_map(|name| Rule::named(&name).map(|rule| rule.id).ok_or(name));
        names.parse_ref(command, arg, value).map_err(|mut error| {
            error.remove(ContextKind::ValidValue);
            let tip = "`riser rules` lists the rules".into();
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
            error
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        self.0.possible_values()
    }
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    section: &'static str,
    side: &'static str,
    field: &'static str,
    legal: &'static str,
    text: &'static str,
    example: &'static str,
}

impl Row {
    fn of(rule: &Rule) -> Row {
        let Rule { name, section, side, field, legal, text, example, .. } = *rule;
        Row { name, section, side: side.name(), field, legal, text, example }
    }
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let rules: Vec<&Rule> = match &args.names[..] {
        [] => RULES.iter().collect(),
        ids => ids.iter().map(|id| Rule::get(*id)).collect(),
    };
    if args.json {
        return output::json_of("rules", &rules.into_iter().map(Row::of).collect::<Vec<_>>());
    }
    if args.names.is_empty() {
        return list();
    }
    let texts: Vec<String> =
        rules.into_iter().map(explanation).collect::<Result<_, _>>().map_err(Failure::run)?;
    output::text(&texts.join("\n\n"))
}

fn list() -> Result<(), Failure> {
    let width = |of: fn(&Rule) -> &str| RULES.iter().map(|rule| of(rule).chars().count()).max().unwrap_or(0);
    let (names, sections) = (width(|rule| rule.name), width(|rule| rule.section));
    for Rule { name, section, side, text, .. } in &RULES {
        output::text(&format!("{name:names$}  {section:sections$}  {:8}  {text}", side.name()))?;
    }
    Ok(())
}
