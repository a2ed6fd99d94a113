// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Filters that select records or transactions: `type=MRd and (tag=0x12 or time>1us)`.
//!
//! ```text
//! expression  = conjunction { ("or" | "||") conjunction }
//! conjunction = negation { ("and" | "&&") negation }
//! negation    = ("not" | "!") negation | "(" expression ")" | term
//! term        = flag | field operator value
//! operator    = "=" | "==" | "!=" | "<" | "<=" | ">" | ">="
//! ```
//!
//! [`terms::FIELDS`] lists fields and flags. A term matches a record that has the field with a matching value. If
//! the record does not have the field, neither `=` nor `!=` matches, but `not` negates the result. A term matches a
//! transaction if it matches its request or one of its completions. `time` and `latency` refer to the whole
//! transaction.
//!
//! [`terms::FIELDS`] defines each field only once; the trace page uses it as JSON.
//!
//! An expression is compiled to a tree of at most [`MAX_TERMS`] terms. Evaluation never allocates. Parsing never panics.

mod error;
mod parse;
mod sieve;
pub mod terms;
mod values;

pub use error::{FilterError, FilterErrorKind, MAX_DEPTH, MAX_TERMS};
pub use sieve::Sieve;

use crate::decode::Record;
use crate::matcher::Transaction;
use crate::reader::Interface;
use crate::transactions::Outcome;
use std::fmt;
use std::str::FromStr;
use terms::Term;

/// An expression as a tree; its leaves are indices into the list of terms.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Node {
    Term(usize),
    Not(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
}

/// A compiled expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filter {
    root: Node,
    terms: Vec<Term>,
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(expression: &str) -> Result<Filter, FilterError> {
        let (root, terms) = parse::parse(expression)?;
        Ok(Filter { root, terms })
    }
}

impl Filter {
    /// Returns true if the filter matches a record. `outcome` is the record's effect on the transactions of the
    /// capture ([`Tracker::see`](crate::transactions::Tracker::see)).
    pub fn holds(&self, record: &Record<'_>, outcome: &Outcome) -> bool {
        self.root.holds(&|n| self.terms[n].holds(record, outcome))
    }

    /// Returns true if a term depends on the transactions of a capture: `time`, `latency`, `error`, `probe`, `replay`.
    pub fn asks_for_outcome(&self) -> bool {
        self.terms.iter().any(Term::asks_for_outcome)
    }

    /// Returns one bit for each term that matches the record by itself. Bits of terms that need the whole
    /// transaction are 0.
    pub fn terms(&self, record: &Record<'_>) -> u64 {
        let outcome = Outcome::default();
        let holds = |term: &Term| !term.asks_for_outcome() && term.holds(record, &outcome);
        let bit = |(n, term): (usize, &Term)| u64::from(holds(term)) << n;
        self.terms.iter().enumerate().map(bit).sum()
    }

    /// Returns a message for each term whose slot, link or interface is not in `known`.
    pub fn unknown_names(&self, known: &[Interface]) -> Vec<String> {
        self.terms.iter().filter_map(|term| term.unknown_name(known)).collect()
    }

    /// Returns true if the filter matches a transaction. The transaction has the [`terms`](Self::terms) of its TLPs.
    pub fn holds_for(&self, transaction: &Transaction) -> bool {
        self.root.holds(&|n| transaction.terms >> n & 1 == 1 || self.terms[n].holds_for(transaction))
    }
}

impl Node {
    fn holds(&self, term: &impl Fn(usize) -> bool) -> bool {
        match self {
            Node::Term(n) => term(*n),
            Node::Not(node) => !node.holds(term),
            Node::And(a, b) => a.holds(term) && b.holds(term),
            Node::Or(a, b) => a.holds(term) || b.holds(term),
        }
    }
}

/// The expression with parentheses around each part. Parsing it returns the same filter.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_node(&self.root, f)
    }
}

impl Filter {
    fn fmt_node(&self, node: &Node, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (a, word, b) = match node {
            Node::Term(n) => return fmt::Display::fmt(&self.terms[*n], f),
            Node::Not(node) => {
                f.write_str("not (")?;
                self.fmt_node(node, f)?;
                return f.write_str(")");
            }
            Node::And(a, b) => (a, "and", b),
            Node::Or(a, b) => (a, "or", b),
        };
        f.write_str("(")?;
        self.fmt_node(a, f)?;
        write!(f, ") {word} (")?;
        self.fmt_node(b, f)?;
        f.write_str(")")
    }
}
