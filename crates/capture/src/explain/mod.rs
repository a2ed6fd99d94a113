// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explains one TLP: the fields of its header, its meaning, and the rules that it breaks.
//!
//! An explanation needs only the bytes of a record. A TLP that breaks a rule is explained in the same way. In
//! headers of flit mode, only fields have names whose position at least two published sources agree on.

mod fields;
mod flit;
mod meaning;
mod rule;
mod text;

pub use rule::explanation;

use crate::check::header::judge;
use crate::decode::{Bad, Ecrc, Kind, Record};
use crate::names::Meaning;
use serde::Serialize;
use tlp::rules::{self, Violation};
use tlp::{Header, ParseError};

/// A field of a header.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FieldValue {
    /// The specification's name.
    pub name: &'static str,
    /// The value of the field.
    pub value: u64,
    /// The value as text, and its meaning.
    pub text: String,
}

/// Appends the type and the fields of a malformed header in one line. Appends nothing for other records.
pub fn append_broken_header(record: &Record<'_>, out: &mut String) {
    let is_broken =
        matches!(record.kind, Kind::Bad(Bad::Tlp(ParseError::Malformed(_)) | Bad::TlpLength { .. }));
    if let Ok(header) = Header::new(record.tlp_bytes).as_ref()
        && is_broken
    {
        fields::append_line(header, out);
    }
}

/// The explanation of a TLP.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Explanation {
    /// The fields of prefixes and header, in order.
    pub fields: Vec<FieldValue>,
    /// The meaning, in sentences.
    pub means: Vec<String>,
    /// The rules that prefixes, header and length break.
    pub broken: Vec<Violation>,
    /// Reason why some or all fields are missing.
    pub error: Option<String>,
}

impl Explanation {
    /// Explains a record; `None` if it is not a TLP. `meaning` comes from [`Names`](crate::Names).
    pub fn of(record: &Record<'_>, meaning: Option<&Meaning>) -> Option<Explanation> {
        let bytes = record.tlp_bytes;
        if bytes.is_empty() {
            return None;
        }
        if record.text.is_some_and(|text| text.is_flit) {
            return Some(flit::explain(bytes));
        }
        let header = Header::new(bytes);
        let mut broken: Vec<Violation> = header.iter().flat_map(rules::broken).collect();
        judge(record, &mut |violation| {
            if !broken.contains(&violation) {
                broken.push(violation);
            }
        });
        let header = match header {
            Ok(header) => header,
            Err(error) => {
                return Some(Explanation {
                    error: Some(error.to_string()),
                    broken,
                    ..Explanation::default()
                });
            }
        };
        let mut error = None;
        match &record.kind {
            Kind::Bad(Bad::Tlp(ParseError::Malformed(violation))) if !broken.contains(violation) => {
                broken.push(*violation);
            }
            Kind::Bad(Bad::Tlp(ParseError::Malformed(_))) => {}
            Kind::Bad(bad) => error = Some(bad.to_string()),
            _ => {}
        }
        let mut means: Vec<String> = meaning.map(ToString::to_string).into_iter().collect();
        meaning::append(&header, record.tlp(), &mut means);
        if record.tlp().is_some_and(|tlp| tlp.ecrc == Some(Ecrc::Bad)) {
            means.push("the digest is not the ECRC of this TLP".to_owned());
        }
        Some(Explanation { fields: fields::of(&header), means, broken, error })
    }

    /// Returns true if the TLP could be read. A TLP that breaks rules can be read.
    #[must_use]
    pub const fn is_read(&self) -> bool {
        self.error.is_none()
    }
}
