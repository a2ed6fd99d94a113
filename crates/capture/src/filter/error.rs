// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits of filter expressions, and errors in them.

use std::fmt;

/// Maximum number of terms of an expression.
pub const MAX_TERMS: usize = 64;
/// Maximum depth of nested parentheses and `not`s.
pub const MAX_DEPTH: usize = 64;

/// Error in an expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilterError {
    /// The expression.
    pub expression: String,
    /// Column of the error, in characters from 1.
    pub column: usize,
    /// The error, and what was expected.
    pub kind: FilterErrorKind,
}

/// The message, then the expression with a mark under the column.
impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FilterError { expression, column, kind } = self;
        let line: String = expression.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        write!(f, "filter, column {column}: {kind}\n  {line}\n  {:>column$}", "^")
    }
}

impl std::error::Error for FilterError {}

/// The kind of an error in an expression.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilterErrorKind {
    /// A field that is compared with a value is unknown.
    #[error("unknown field {name:?}: expected {legal}")]
    UnknownField {
        /// The name.
        name: String,
        /// The known names, and a suggestion.
        legal: String,
    },
    /// A term without a value is unknown.
    #[error("unknown term {name:?}: expected {legal}")]
    UnknownTerm {
        /// The name.
        name: String,
        /// The known names, and a suggestion.
        legal: String,
    },
    /// A flag is compared with a value.
    #[error("{0} is a flag: it has no value")]
    Flag(String),
    /// A field that is not a number is compared by size.
    #[error("{0} is not a number: expected = or !=")]
    NotNumber(&'static str),
    /// A field has no value.
    #[error("{name} needs a value: expected {legal}")]
    NeedsValue {
        /// The field.
        name: &'static str,
        /// Its legal values.
        legal: &'static str,
    },
    /// A value is illegal.
    #[error("{value:?} is not a value of {name}: expected {legal}")]
    Value {
        /// The value.
        value: String,
        /// The field.
        name: &'static str,
        /// Its legal values.
        legal: &'static str,
    },
    /// A comparison ends before its value.
    #[error("expected a value for {name}: {legal}")]
    NoValue {
        /// The field.
        name: &'static str,
        /// Its legal values.
        legal: &'static str,
    },
    /// A term is missing. Has the known names.
    #[error("expected a term: {0}")]
    NoTerm(String),
    /// A term follows a term.
    #[error("expected and, or, && or ||")]
    NoOperator,
    /// A parenthesis is not closed.
    #[error("expected and, or, or a closing parenthesis")]
    OpenParenthesis,
    /// A quotation mark is not closed.
    #[error("a quotation mark is not closed")]
    OpenQuotation,
    /// A character is not part of any term.
    #[error("unexpected {0:?}: expected terms such as type=MRd, and, or, not, or parentheses")]
    Character(char),
    /// Too many nested parentheses.
    #[error("more than {MAX_DEPTH} nested parentheses and nots")]
    TooDeep,
    /// Too many terms.
    #[error("more than {MAX_TERMS} terms")]
    TooManyTerms,
}
