// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explains a rule, with its examples decoded and judged.

use crate::check::{Checker, FunctionOverrides};
use crate::{ByteOrder, FileFormat, ReadOptions, Reader, render};
use std::fmt::Display;
use std::io;
use tlp::rules::Rule;

/// Returns the text of a rule: its place in the specification, its values, and its example in hex and decoded, with the rules that each TLP breaks.
///
/// # Errors
/// The example is invalid.
pub fn explanation(rule: &Rule) -> io::Result<String> {
    let Rule { name, section, field, legal, text, side, .. } = rule;
    Ok(format!(
        "{name} ({} {section})\n  {text}\n  binds:    the {}\n  field:    {field}\n  expected: {legal}\n  example:{}",
        rule.specification(),
        side.name(),
        example(rule)?
    ))
}

/// Returns the TLPs of an example in hex and decoded, with the rules that each breaks. Some examples are sentences instead.
fn example(rule: &Rule) -> io::Result<String> {
    if rule.example.ends_with('.') {
        return Ok(format!(" {}", rule.example));
    }
    let mut settings = FunctionOverrides::default();
    let shown = |line: &str| match line.strip_prefix("# ") {
        Some(setting) => format!("\n    with --{}", setting.replace('=', " ")),
        None => format!("\n    {line}"),
    };
    let mut text: String = rule.example.lines().map(shown).collect();
    for (name, value) in rule.example.lines().filter_map(|line| line.strip_prefix("# ")?.split_once('=')) {
        settings.set(name, value).map_err(|error| invalid(name, &error))?;
    }
    let place = format!("the example of {}", rule.name);
    let options = ReadOptions {
        format: Some(FileFormat::Hex),
        byte_order: Some(ByteOrder::Big),
        ..ReadOptions::default()
    };
    let mut reader = Reader::with_options(rule.example.as_bytes(), "example", &options)
        .map_err(|error| invalid(&place, &error))?;
    let mut checker = Checker::new(settings);
    while let Some(record) = reader.next_record().map_err(|error| invalid(&place, &error))? {
        text += "\n    ";
        render::line(&record, &mut text);
        checker.see(&record);
        append_findings(&mut checker, &mut text);
    }
    checker.finish();
    append_findings(&mut checker, &mut text);
    Ok(text)
}

fn append_findings(checker: &mut Checker, text: &mut String) {
    while let Some(found) = checker.next_finding() {
        *text += &format!("\n      breaks: {}", found.violation);
    }
}

fn invalid(place: &str, error: &dyn Display) -> io::Error {
    io::Error::other(format!("{place}: {error}"))
}
