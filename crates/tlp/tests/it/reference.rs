// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reference page of rules is generated from the table.

use riser_tlp::rules::{RULES, Rule};

const HEAD: &str = "\
# Rules

Each TLP that riser refuses, and each violation that `riser trace --check` and `riser decode` report, names a rule of this page. `riser rules NAME` explains
one, with an example that breaks it. Sections are those of PCIe 5.0; §2.2.9.1 is of 6.0. The page is generated from the table in `crates/tlp/src/rules`.

| rule | section | binds the | field | legal values | rule as a sentence |
|---|---|---|---|---|---|
";

fn row(rule: &Rule) -> String {
    let Rule { name, section, side, field, legal, text, .. } = rule;
    format!("| `{name}` | {section} | {} | {field} | {legal} | {text} |\n", side.name())
}

#[test]
fn page_of_rules_has_every_rule() {
    let rows: String = RULES.iter().map(row).collect();
    testkit::generated("docs/reference/rules.md", &(HEAD.to_owned() + &rows));
}
