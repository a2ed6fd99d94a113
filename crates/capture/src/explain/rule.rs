// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explains a rule, with its examples decoded and judged.

use crate::check::{Checker, FunctionOverrides, SettingError};
use crate::{ByteOrder, FileFormat, OpenError, ReadOptions, Reader, render};
use std::io;
use thiserror::Error;
use tlp::rules::Rule;

/// Reason why the example of a rule cannot be shown.
#[derive(Debug, Error)]
pub enum ExampleError {
    /// A setting of the example is invalid.
    #[error("{0}: {1}")]
    Setting(String, SettingError),
    /// The example is not readable.
    #[error("the example of {0}: {1}")]
    Open(&'static str, OpenError),
    /// A TLP of the example is not readable.
    #[error("the example of {0}: {1}")]
    Read(&'static str, io::Error),
}

/// Returns the text of a rule: its place in the specification, its values, and its example in hex and decoded, with the rules that each TLP breaks.
///
/// # Errors
/// The example is invalid.
pub fn explanation(rule: &Rule) -> Result<String, ExampleError> {
    let Rule { name, section, field, legal, text, side, .. } = rule;
    Ok(format!(
        "{name} ({} {section})\n  {text}\n  binds:    the {}\n  field:    {field}\n  expected: {legal}\n  example:{}",
        rule.specification(),
        side.name(),
        example(rule)?
    ))
}

/// Returns the TLPs of an example in hex and decoded, with the rules that each breaks. Some examples are sentences instead.
fn example(rule: &Rule) -> Result<String, ExampleError> {
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
        settings.set(name, value).map_err(|error| ExampleError::Setting(name.to_owned(), error))?;
    }
    let options = ReadOptions {
        format: Some(FileFormat::Hex),
        byte_order: Some(ByteOrder::Big),
        ..ReadOptions::default()
    };
    let mut reader = Reader::with_options(rule.example.as_bytes(), "example", &options)
        .map_err(|e| ExampleError::Open(rule.name, e))?;
    let mut checker = Checker::new(settings);
    while let Some(record) = reader.next_record().map_err(|e| ExampleError::Read(rule.name, e))? {
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
