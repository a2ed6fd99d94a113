// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors from reading bytes as a TLP.

use crate::rules::{RuleId, Violation};
use core::fmt;

/// A part of a TLP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The header, three or four DW.
    Header,
    /// The header, if the bytes end after the prefixes.
    PrefixedHeader,
    /// The data after the header, Length DWs.
    Data,
    /// The digest after the data, one DW if TD is set.
    Digest,
}

/// Reason why bytes are not a TLP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseError {
    /// The bytes end early. A capture may have cut them. On a link, the end of a TLP is known, so it is a Malformed
    /// TLP.
    Truncated {
        /// The part that is not complete.
        part: Part,
        /// Number of bytes from the start of the TLP to the end of that part.
        needed: usize,
        /// Number of bytes present.
        have: usize,
    },
    /// [`FORMATS`](crate::format::FORMATS) has no row for this Fmt and Type. The specification does not define them
    /// either, so such a TLP on a link is a Malformed TLP (`PCIe 5.0 §2.3`). The same holds for TCfgRd and TCfgWr,
    /// which Table 2-3 lists as deprecated.
    UnknownType {
        /// Fmt\[2:0\].
        fmt: u8,
        /// Type\[4:0\].
        ty: u8,
    },
    /// The TLP breaks a rule of the specification.
    Malformed(Violation),
}

impl ParseError {
    /// The rule that these bytes break if they are a complete TLP from a link, of which no part is missing.
    pub const fn on_a_link(&self) -> Violation {
        match *self {
            ParseError::Malformed(malformed) => malformed,
            ParseError::UnknownType { fmt, ty } => {
                Violation::new(RuleId::ReservedType, (fmt << 5 | ty) as u64)
            }
            ParseError::Truncated { part, have, .. } => short(part, have),
        }
    }
}

const fn short(part: Part, have: usize) -> Violation {
    let rule = match part {
        Part::Header | Part::Data => RuleId::Length,
        Part::PrefixedHeader => RuleId::PrefixedHeader,
        Part::Digest => RuleId::Digest,
    };
    Violation::new(rule, have as u64)
}

impl From<Violation> for ParseError {
    fn from(malformed: Violation) -> ParseError {
        ParseError::Malformed(malformed)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Header => "header",
            Part::PrefixedHeader => "header after the prefixes",
            Part::Data => "data",
            Part::Digest => "digest",
        })
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseError::Truncated { part, needed, have } => {
                write!(f, "truncated TLP: {have} bytes, expected {needed} up to the end of its {part}")
            }
            ParseError::UnknownType { fmt, ty } => {
                write!(f, "unknown TLP type: Fmt {fmt:03b}b, Type {ty:05b}b; known types:")?;
                let mut last = "";
                for row in &crate::format::FORMATS {
                    if row.name != last {
                        write!(f, " {}", row.name)?;
                    }
                    last = row.name;
                }
                Ok(())
            }
            ParseError::Malformed(violation) => write!(f, "malformed TLP: {violation}"),
        }
    }
}

impl core::error::Error for ParseError {}
