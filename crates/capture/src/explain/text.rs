// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An explanation as text and as JSON.

use super::{Explanation, FieldValue};
use crate::decode::Record;
use crate::render::{self, JsonRecord};
use serde::Serialize;
use std::fmt::Write;
use tlp::rules::Violation;

/// JSON object of a TLP.
#[derive(Serialize)]
struct JsonTlp<'a> {
    #[serde(flatten)]
    record: JsonRecord<'a>,
    dwords: Vec<String>,
    fields: &'a [FieldValue],
    meaning: &'a [String],
    broken: Vec<JsonViolation>,
}

#[derive(Serialize)]
struct JsonViolation {
    rule: &'static str,
    section: &'static str,
    side: &'static str,
    field: &'static str,
    found: u64,
    expected: String,
    text: String,
}

impl JsonViolation {
    fn of(violation: &Violation) -> JsonViolation {
        let rule = violation.rule();
        let mut expected = String::new();
        // Writing to a string cannot fail.
        let _ = violation.write_expected(&mut expected);
        JsonViolation {
            rule: rule.name,
            section: rule.section,
            side: rule.side.name(),
            field: rule.field,
            found: violation.found,
            expected,
            text: violation.to_string(),
        }
    }
}

impl Explanation {
    /// Appends the line of the record, then a line for each field, sentence and broken rule, and an empty line.
    pub fn append_text(&self, record: &Record<'_>, text: &mut String) {
        render::line(record, text);
        text.push('\n');
        // Writing to a string cannot fail.
        let mut row = |name: &str, value: &str| _ = writeln!(text, "  {name:<16} {value}");
        self.fields.iter().for_each(|FieldValue { name, text, .. }| row(name, text));
        if let Some(undefined) = record.text.and_then(|text| text.undefined) {
            row("undefined", &format!("{undefined:#010x}, fourth dword of the log, not part of the header"));
        }
        if let Some(note) = record.text.map(|text| text.note).filter(|note| !note.is_empty()) {
            row("logged with", note);
        }
        self.means.iter().for_each(|sentence| row("means", sentence));
        self.broken.iter().for_each(|violation| row("breaks", &violation.to_string()));
        if let Some(error) = &self.error {
            row("not read", error);
        }
        text.push('\n');
    }

    /// Appends a JSON object and a newline.
    ///
    /// # Errors
    /// A value that JSON cannot express, which no explanation has.
    pub fn append_json(&self, record: &Record<'_>, text: &mut String) -> serde_json::Result<()> {
        let hex = |bytes: &[u8]| bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        let object = JsonTlp {
            record: JsonRecord::new(record),
            dwords: record.tlp_bytes.chunks(4).map(hex).collect(),
            fields: &self.fields,
            meaning: &self.means,
            broken: self.broken.iter().map(JsonViolation::of).collect(),
        };
        text.push_str(&serde_json::to_string(&object)?);
        text.push('\n');
        Ok(())
    }
}
