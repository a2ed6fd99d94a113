// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses the text of an expression into a tree.

use super::terms::{self, Field, Op, Term};
use super::{FilterError, FilterErrorKind, MAX_DEPTH, MAX_TERMS, Node};

#[derive(Clone, PartialEq, Eq, Debug)]
enum Token {
    Word(String),
    Quoted(String),
    Op(Op),
    And,
    Or,
    Not,
    Open,
    Close,
    End,
}

struct Parser<'a> {
    expression: &'a str,
    /// Tokens with their columns, from 1; the last token is the end.
    tokens: Vec<(usize, Token)>,
    at: usize,
    depth: usize,
    terms: Vec<Term>,
}

pub(super) fn parse(expression: &str) -> Result<(Node, Vec<Term>), FilterError> {
    let tokens = tokens(expression)?;
    let mut parser = Parser { expression, tokens, at: 0, depth: 0, terms: Vec::new() };
    let root = parser.expression()?;
    match parser.peek() {
        Token::End => Ok((root, parser.terms)),
        _ => Err(parser.error(FilterErrorKind::NoOperator)),
    }
}

fn error(expression: &str, column: usize, kind: FilterErrorKind) -> FilterError {
    FilterError { expression: expression.to_owned(), column, kind }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_.:+-/*".contains(c)
}

fn tokens(expression: &str) -> Result<Vec<(usize, Token)>, FilterError> {
    let mut tokens = Vec::new();
    let chars: Vec<char> = expression.chars().collect();
    let mut at = 0;
    while let Some(c) = chars.get(at) {
        let next = chars.get(at + 1).copied();
        let (token, len) = match (c, next) {
            (c, _) if c.is_whitespace() => {
                at += 1;
                continue;
            }
            ('(', _) => (Token::Open, 1),
            (')', _) => (Token::Close, 1),
            ('&', Some('&')) => (Token::And, 2),
            ('|', Some('|')) => (Token::Or, 2),
            ('!', Some('=')) => (Token::Op(Op::Ne), 2),
            ('!', _) => (Token::Not, 1),
            ('=', Some('=')) => (Token::Op(Op::Eq), 2),
            ('=', _) => (Token::Op(Op::Eq), 1),
            ('<', Some('=')) => (Token::Op(Op::Le), 2),
            ('<', _) => (Token::Op(Op::Lt), 1),
            ('>', Some('=')) => (Token::Op(Op::Ge), 2),
            ('>', _) => (Token::Op(Op::Gt), 1),
            ('"', _) => quoted(expression, &chars, at)?,
            (c, _) if is_word(*c) => word(&chars[at..]),
            (c, _) => {
                return Err(error(expression, at + 1, FilterErrorKind::Character(*c)));
            }
        };
        tokens.push((at + 1, token));
        at += len;
    }
    tokens.push((chars.len() + 1, Token::End));
    Ok(tokens)
}

fn quoted(expression: &str, chars: &[char], at: usize) -> Result<(Token, usize), FilterError> {
    let text: String = chars[at + 1..].iter().take_while(|c| **c != '"').collect();
    let len = text.chars().count() + 2;
    if at + len > chars.len() {
        return Err(error(expression, at + 1, FilterErrorKind::OpenQuotation));
    }
    Ok((Token::Quoted(text), len))
}

fn word(chars: &[char]) -> (Token, usize) {
    let word: String = chars.iter().take_while(|c| is_word(**c)).collect();
    let len = word.len();
    let token = match word.as_str() {
        "and" => Token::And,
        "or" => Token::Or,
        "not" => Token::Not,
        _ => Token::Word(word),
    };
    (token, len)
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        // `next` stays at the end token.
        self.tokens.get(self.at).map_or(&Token::End, |(_, token)| token)
    }

    fn column(&self) -> usize {
        self.tokens.get(self.at).map_or(1, |(column, _)| *column)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn error(&self, kind: FilterErrorKind) -> FilterError {
        error(self.expression, self.column(), kind)
    }

    fn expression(&mut self) -> Result<Node, FilterError> {
        let mut node = self.conjunction()?;
        while *self.peek() == Token::Or {
            self.next();
            node = Node::Or(Box::new(node), Box::new(self.conjunction()?));
        }
        Ok(node)
    }

    fn conjunction(&mut self) -> Result<Node, FilterError> {
        let mut node = self.negation()?;
        while *self.peek() == Token::And {
            self.next();
            node = Node::And(Box::new(node), Box::new(self.negation()?));
        }
        Ok(node)
    }

    fn negation(&mut self) -> Result<Node, FilterError> {
        if self.depth == MAX_DEPTH {
            return Err(self.error(FilterErrorKind::TooDeep));
        }
        match self.peek() {
            Token::Not => {
                self.next();
                self.depth += 1;
                let node = self.negation()?;
                self.depth -= 1;
                Ok(Node::Not(Box::new(node)))
            }
            Token::Open => {
                self.next();
                self.depth += 1;
                let node = self.expression()?;
                self.depth -= 1;
                match self.peek() {
                    Token::Close => self.next(),
                    _ => return Err(self.error(FilterErrorKind::OpenParenthesis)),
                };
                Ok(node)
            }
            _ => self.term(),
        }
    }

    fn term(&mut self) -> Result<Node, FilterError> {
        if self.terms.len() == MAX_TERMS {
            return Err(self.error(FilterErrorKind::TooManyTerms));
        }
        let column = self.column();
        let Token::Word(name) = self.peek().clone() else {
            return Err(self.error(FilterErrorKind::NoTerm(terms::names())));
        };
        self.next();
        let term = match *self.peek() {
            Token::Op(op) => self.comparison(&name, column, op)?,
            _ => Term::flag(&name).map_err(|kind| error(self.expression, column, kind))?,
        };
        self.terms.push(term);
        Ok(Node::Term(self.terms.len() - 1))
    }

    fn comparison(&mut self, name: &str, column: usize, op: Op) -> Result<Term, FilterError> {
        let field = Field::compared(name).map_err(|kind| error(self.expression, column, kind))?;
        field.check(op).map_err(|kind| self.error(kind))?;
        self.next();
        let (Token::Word(value) | Token::Quoted(value)) = self.peek().clone() else {
            return Err(self.error(FilterErrorKind::NoValue { name: field.name, legal: field.legal() }));
        };
        let term = Term::compare(&field, op, &value).map_err(|kind| self.error(kind))?;
        self.next();
        Ok(term)
    }
}
