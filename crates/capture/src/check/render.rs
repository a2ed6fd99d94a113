// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A finding as a line of text and as a JSON object.
//!
//! # The JSON object of a violation
//!
//! | field | unit, form | present |
//! |---|---|---|
//! | `rule` | name of the rule, such as `lower-address` | all |
//! | `section` | section of PCIe 5.0; §2.2.9.1 is of 6.0 | all |
//! | `field`, `found` | the field or quantity, and its value | all |
//! | `expected` | the one legal value | if there is one |
//! | `legal` | the legal values, as a phrase | all |
//! | `text` | field, value and expected value as a sentence with units | all |
//! | `number` | number of the TLP's frame in the file, from 1 | all |
//! | `timestamp_ps` | picoseconds since 1970, in riser's captures since the start of the run | if the trace has times |
//! | `line` | line of the file, from 1 | text |
//! | `place` | link and direction | if the capture names them |
//! | `tlp` | the TLP in one line | all |
//! | `request` | number of the request that the TLP answers, that already uses its tag, or that passed it | if there is one |
//! | `setting` | object: `setting`, `value`, `origin` (`option`, `file`, `capture`, `default`, `inferred`) | rules that depend on a setting |

use super::Finding;
use crate::decode::{Kind, Record};
use crate::render::object::{self, Object, Text};
use crate::render::write_tlp;
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::fmt::Write;
use tlp::RuleId;

/// Maximum number of DWs that are printed of an unreadable TLP.
const MAX_DWS: usize = 8;

/// Appends one line for `finding` to `out`, without a line end.
pub fn append_line(finding: &Finding, out: &mut String) {
    match (finding.digits, finding.line) {
        (0, Some(line)) => _ = write!(out, "line {line} "),
        (0, None) => {}
        (digits, _) => {
            finding.timestamp.append_to(out, digits);
            out.push(' ');
        }
    }
    // Writing to a string cannot fail.
    let _ = write_rest(finding, out);
}

fn write_rest(finding: &Finding, out: &mut String) -> std::fmt::Result {
    write!(out, "#{} ", finding.number)?;
    if !finding.place.is_empty() {
        write!(out, "{} ", finding.place)?;
    }
    write!(out, "{}: {}", finding.violation, finding.tlp)?;
    if let Some(request) = finding.request {
        let relation = match finding.violation.rule {
            RuleId::TagInUse => "tag in use by",
            RuleId::PostedOrder => "passed by",
            _ => "answers",
        };
        write!(out, "; {relation} #{request}")?;
    }
    finding.applied.map_or(Ok(()), |applied| write!(out, "; {applied}"))
}

/// The TLP of a record in one line; its first DWs if it is unreadable.
pub(super) fn tlp_line(record: &Record<'_>) -> String {
    let mut line = String::new();
    if let Kind::Tlp(tlp) = &record.kind {
        let _ = write_tlp(tlp, &mut line);
        return line;
    }
    line.push_str("TLP");
    let dws = record.tlp_bytes.chunks(4).take(MAX_DWS);
    dws.fold(line, |mut line, dw| {
        line.push(' ');
        dw.iter().for_each(|byte| _ = write!(line, "{byte:02x}"));
        line
    })
}

/// Appends the JSON object of `finding` to `out`, without a line end.
pub fn append_json(finding: &Finding, out: &mut String) {
    object::append(&JsonFinding(finding), out);
}

/// The JSON object of a finding. The documentation of this module lists its fields.
#[derive(Clone, Copy)]
pub struct JsonFinding<'a>(pub &'a Finding);

impl Serialize for JsonFinding<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let finding = self.0;
        let (violation, rule) = (&finding.violation, finding.violation.rule());
        let mut o = Object(serializer.serialize_map(None)?);
        o.put("rule", rule.name)?;
        o.put("section", rule.section)?;
        o.put("field", rule.field)?;
        o.put("found", violation.found)?;
        o.some("expected", violation.expected)?;
        o.put("legal", violation.legal())?;
        o.put("text", Text(violation))?;
        o.put("number", finding.number)?;
        o.some("timestamp_ps", Some(finding.timestamp).filter(|_| finding.digits > 0))?;
        o.some("line", finding.line)?;
        o.some("place", Some(&*finding.place).filter(|place| !place.is_empty()))?;
        o.put("tlp", &finding.tlp)?;
        o.some("request", finding.request)?;
        o.some("setting", finding.applied)?;
        o.0.end()
    }
}
