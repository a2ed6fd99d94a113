// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser rules`: the table of rules that TLPs must follow, from `riser-tlp`.

use crate::failure::Failure;
use crate::output;
use clap::builder::PossibleValuesParser;
use serde::Serialize;
use tlp::rules::{RULES, Rule};

const EXAMPLE: &str = "\
Examples:
  riser rules
  riser rules lower-address
  riser rules --json

riser names one of these rules for each TLP that it refuses, and for each violation that `riser trace --check` and `riser decode` find.
--json prints one object, rules: [{name, section (of PCIe 5.0), side (sender, receiver, switch), field, legal (its legal values), \
text, example (TLPs in hex, one on each line, or a sentence)}].";

/// List the rules that TLPs must follow, or explain some with an example
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Explain these rules
    #[arg(value_name = "RULE", hide_possible_values = true, value_parser = PossibleValuesParser::new(RULES.iter().map(|rule| rule.name)))]
    names: Vec<String>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
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
        names => names.iter().filter_map(|name| Rule::named(name)).collect(),
    };
    if args.json {
        return output::json_of("rules", &rules.into_iter().map(Row::of).collect::<Vec<_>>());
    }
    if args.names.is_empty() {
        return list();
    }
    let texts: Vec<String> = rules.into_iter().map(explanation).collect();
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

fn explanation(rule: &Rule) -> String {
    let Rule { name, section, field, legal, text, example, side, .. } = rule;
    let example: String = example.lines().map(|line| format!("\n    {line}")).collect();
    format!(
        "{name} (PCIe 5.0 {section})\n  {text}\n  binds:    the {}\n  field:    {field}\n  expected: {legal}\n  example that breaks it:{example}",
        side.name()
    )
}
