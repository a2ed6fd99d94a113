// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arithmetic expressions of metrics and settings: `+ - * /`, parentheses, `min`, `max`, `log2`, `exp2`.

use crate::value::Value;
use std::fmt::Display;

/// Deepest nesting of parentheses and signs.
const MAX_DEPTH: u32 = 32;
/// Most characters of an expression.
const MAX_TEXT: usize = 4_096;

/// Reason why an expression is invalid.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum ExprError {
    /// An unknown name: neither an earlier metric nor a setting.
    #[error("no earlier metric and no key of [over] is `{name}`; known names: {}", known.join(", "))]
    UnknownName { name: String, known: Vec<String> },
    #[error("{0}")]
    Syntax(String),
}

/// Names that an expression may use.
pub(crate) struct Names<'a> {
    pub(crate) metrics: &'a [&'a str],
    pub(crate) settings: &'a [&'a str],
}

/// An expression.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Expr {
    Number(f64),
    /// Number of a metric.
    Metric(usize),
    /// Number of a setting.
    Setting(usize),
    Of(Operator, Box<[Expr]>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Min,
    Max,
    Log2,
    Exp2,
}

impl Expr {
    /// # Errors
    /// The fault, and the text that was expected.
    pub(crate) fn parse(text: &str, names: &Names<'_>) -> Result<Expr, ExprError> {
        if text.len() > MAX_TEXT {
            return Err(ExprError::Syntax(format!(
                "an expression of {} characters: expected at most {MAX_TEXT}",
                text.len()
            )));
        }
        let tokens = tokens(text)?;
        let mut parser = Parser { tokens: &tokens, names, at: 0, depth: 0 };
        let expr = parser.sum()?;
        match parser.tokens.get(parser.at) {
            None => Ok(expr),
            Some(token) => token.unexpected("+ - * / or the end"),
        }
    }

    /// Returns the value; `None` if a part has no value, or if the result is not a finite number.
    pub(crate) fn value(&self, metrics: &[Option<Value>], settings: &[Value]) -> Option<f64> {
        let value = match self {
            Expr::Number(x) => *x,
            Expr::Metric(n) => metrics.get(*n)?.as_ref()?.number()?,
            Expr::Setting(n) => settings.get(*n)?.number()?,
            Expr::Of(operator, parts) => {
                let value = |n: usize| parts.get(n)?.value(metrics, settings);
                match (operator, parts.len()) {
                    (Operator::Log2, _) => value(0)?.log2(),
                    (Operator::Exp2, _) => value(0)?.exp2(),
                    (_, 1) => -value(0)?,
                    _ => operator.apply(value(0)?, value(1)?),
                }
            }
        };
        value.is_finite().then_some(value)
    }
}

impl Operator {
    fn apply(self, a: f64, b: f64) -> f64 {
        match self {
            Operator::Add => a + b,
            Operator::Subtract => a - b,
            Operator::Multiply => a * b,
            Operator::Divide => a / b,
            Operator::Min => a.min(b),
            Operator::Max | Operator::Log2 | Operator::Exp2 => a.max(b),
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
enum Token {
    Number(f64),
    Name(String),
    /// A name between quotes, which is never a function.
    Quoted(String),
    Sign(char),
}

impl Token {
    /// Returns the error of a token in the wrong place.
    fn unexpected<T>(&self, legal: &str) -> Result<T, ExprError> {
        let token: &dyn Display = match self {
            Token::Number(x) => x,
            Token::Name(name) | Token::Quoted(name) => name,
            Token::Sign(sign) => sign,
        };
        Err(ExprError::Syntax(format!("`{token}` in an expression: expected {legal}")))
    }
}

fn ended<T>(legal: &str) -> Result<T, ExprError> {
    Err(ExprError::Syntax(format!("an expression that ends early: expected {legal}")))
}

fn tokens(text: &str) -> Result<Vec<Token>, ExprError> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let until = |is: fn(char) -> bool| rest.find(|c| !is(c)).unwrap_or(rest.len());
        let (token, len) = match first {
            '+' | '-' | '*' | '/' | '(' | ')' | ',' => (Token::Sign(first), 1),
            '0'..='9' => {
                let len = until(|c| c.is_ascii_alphanumeric() || c == '.' || c == '_');
                let digits = rest[..len].replace('_', "");
                let number = digits.parse().ok().filter(|x: &f64| x.is_finite());
                let wrong = || {
                    ExprError::Syntax(format!("number `{}`: expected one such as 1.5 or 2e9", &rest[..len]))
                };
                let number = number.ok_or_else(wrong)?;
                (Token::Number(number), len)
            }
            '\'' | '"' | '`' => {
                let end = rest[1..]
                    .find(first)
                    .ok_or_else(|| ExprError::Syntax(format!("a {first} without its partner")))?;
                (Token::Quoted(rest[1..1 + end].to_owned()), end + 2)
            }
            c if c.is_ascii_alphabetic() || c == '_' => {
                let len = until(|c| c.is_ascii_alphanumeric() || c == '.' || c == '_');
                (Token::Name(rest[..len].to_owned()), len)
            }
            other => {
                let why = format!("`{other}` in an expression: expected names, numbers, + - * / ( ) or ,");
                return Err(ExprError::Syntax(why));
            }
        };
        found.push(token);
        rest = rest[len..].trim_start();
    }
    Ok(found)
}

struct Parser<'t> {
    tokens: &'t [Token],
    names: &'t Names<'t>,
    at: usize,
    depth: u32,
}

impl Parser<'_> {
    fn take(&mut self, signs: &[char]) -> Option<char> {
        match self.tokens.get(self.at) {
            Some(Token::Sign(sign)) if signs.contains(sign) => {
                self.at += 1;
                Some(*sign)
            }
            _ => None,
        }
    }

    fn expect(&mut self, sign: char) -> Result<(), ExprError> {
        let legal = format!("`{sign}`");
        match self.take(&[sign]) {
            Some(_) => Ok(()),
            None => self.tokens.get(self.at).map_or_else(|| ended(&legal), |token| token.unexpected(&legal)),
        }
    }

    fn sum(&mut self) -> Result<Expr, ExprError> {
        let mut left = self.product()?;
        while let Some(sign) = self.take(&['+', '-']) {
            let operator = if sign == '+' { Operator::Add } else { Operator::Subtract };
            left = Expr::Of(operator, Box::new([left, self.product()?]));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Expr, ExprError> {
        let mut left = self.operand()?;
        while let Some(sign) = self.take(&['*', '/']) {
            let operator = if sign == '*' { Operator::Multiply } else { Operator::Divide };
            left = Expr::Of(operator, Box::new([left, self.operand()?]));
        }
        Ok(left)
    }

    fn operand(&mut self) -> Result<Expr, ExprError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(ExprError::Syntax(format!(
                "an expression deeper than {MAX_DEPTH} parentheses and signs"
            )));
        }
        let operand = self.operand_here();
        self.depth -= 1;
        operand
    }

    fn operand_here(&mut self) -> Result<Expr, ExprError> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        match token {
            Some(Token::Number(x)) => Ok(Expr::Number(x)),
            Some(Token::Name(name)) if self.take(&['(']).is_some() => self.call(&name),
            Some(Token::Name(name) | Token::Quoted(name)) => self.name(&name),
            Some(Token::Sign('-')) => Ok(Expr::Of(Operator::Subtract, Box::new([self.operand()?]))),
            Some(Token::Sign('(')) => {
                let inner = self.sum()?;
                self.expect(')')?;
                Ok(inner)
            }
            Some(other) => other.unexpected("a name, a number, - or ("),
            None => ended("a name, a number, - or ("),
        }
    }

    fn call(&mut self, name: &str) -> Result<Expr, ExprError> {
        let operator = match name {
            "min" => Operator::Min,
            "max" => Operator::Max,
            "log2" => Operator::Log2,
            "exp2" => Operator::Exp2,
            _ => {
                let why = format!("function `{name}`: expected min(a, b), max(a, b), log2(a) or exp2(a)");
                return Err(ExprError::Syntax(why));
            }
        };
        let first = self.sum()?;
        if matches!(operator, Operator::Log2 | Operator::Exp2) {
            self.expect(')')?;
            return Ok(Expr::Of(operator, Box::new([first])));
        }
        self.expect(',')?;
        let second = self.sum()?;
        self.expect(')')?;
        Ok(Expr::Of(operator, Box::new([first, second])))
    }

    fn name(&self, name: &str) -> Result<Expr, ExprError> {
        let at = |all: &[&str]| all.iter().position(|one| *one == name);
        let metric = at(self.names.metrics).map(Expr::Metric);
        metric.or_else(|| at(self.names.settings).map(Expr::Setting)).ok_or_else(|| {
            let known =
                self.names.metrics.iter().chain(self.names.settings).map(|s| (*s).to_owned()).collect();
            ExprError::UnknownName { name: name.to_owned(), known }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: Names<'static> = Names { metrics: &["gbps", "ns"], settings: &["link.gen", "slot.a-b.n"] };

    fn value(text: &str) -> Result<Option<f64>, ExprError> {
        let metrics = [Some(Value::Float(50.0)), None];
        let settings = [Value::Integer(4), Value::Text("x".into())];
        Expr::parse(text, &NAMES).map(|expr| expr.value(&metrics, &settings))
    }

    #[test]
    fn evaluates_arithmetic() {
        for (text, result) in [
            ("1 + 2 * 3", Some(7.0)),
            ("(1 + 2) * 3 - 4 / 2", Some(7.0)),
            ("7 - 2 - 1", Some(4.0)),
            ("-2 * -(3)", Some(6.0)),
            ("gbps / link.gen", Some(12.5)),
            ("'link.gen'*1e3", Some(4000.0)),
            ("min(gbps, 3) + max(1, 2) + log2(8)", Some(8.0)),
            ("ns + 1", None),
            ("'slot.a-b.n' + 1", None),
            ("1 / (4 - link.gen)", None),
            ("exp2(link.gen)", Some(16.0)),
            ("log2(0 - 1)", None),
        ] {
            assert_eq!(value(text), Ok(result), "{text}");
        }
    }

    #[test]
    fn rejects_invalid_expressions() {
        let deep = "(".repeat(40);
        for (text, why) in [
            ("", "an expression that ends early"),
            ("1 +", "an expression that ends early"),
            ("1 2", "`2` in an expression: expected + - * / or the end"),
            ("(1", "an expression that ends early: expected `)`"),
            (
                "lanes",
                "no earlier metric and no key of [over] is `lanes`; known names: gbps, ns, link.gen, slot.a-b.n",
            ),
            ("sin(1)", "function `sin`: expected min(a, b), max(a, b), log2(a) or exp2(a)"),
            ("1.2.3", "number `1.2.3`"),
            ("'a", "a ' without its partner"),
            ("1 ? 2", "`?` in an expression"),
            (&deep, "an expression deeper than 32"),
        ] {
            let error = value(text).unwrap_err().to_string();
            assert!(error.starts_with(why), "{text}: {error}");
        }
    }
}
