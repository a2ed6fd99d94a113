// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds instances of a module in Verilog sources: name, parameters and connections by name, each with its line. Parses no
//! expressions, and expands no macros.

use std::ops::Range;
use thiserror::Error;

/// An instance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instance {
    /// Line number, from 1.
    pub line: usize,
    /// Name of the instance.
    pub name: String,
    /// Its parameters, in order.
    pub parameters: Vec<Connection>,
    /// Its connections, in order.
    pub connections: Vec<Connection>,
}

/// A connection of a port or parameter by name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Connection {
    /// Line number, from 1.
    pub line: usize,
    /// Name of the port or parameter.
    pub port: String,
}

/// Reason why an instance cannot be parsed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("line {line}: {why}")]
pub struct SourceError {
    /// Line number, from 1.
    pub line: usize,
    /// The error, and the text that was expected.
    pub why: String,
}

/// A word or sign of the source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Token<'a> {
    line: usize,
    text: &'a str,
}

/// Returns all instances of `module`, in order.
///
/// # Errors
/// If an instance is not connected by names, or does not end.
pub fn instances(text: &str, module: &str) -> Result<Vec<Instance>, SourceError> {
    let tokens = tokens(text);
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        let is_defined = at > 0 && ["module", "endmodule", "."].contains(&tokens[at - 1].text);
        if tokens[at].text == module && !is_defined {
            found.extend(instance(&tokens[at..])?);
        }
    }
    Ok(found)
}

/// Returns the instance that begins with the module's name; `None` if this is no instance.
fn instance(tokens: &[Token<'_>]) -> Result<Option<Instance>, SourceError> {
    let wrong = |line, why: &str| SourceError { line, why: why.to_owned() };
    let (line, mut at) = (tokens[0].line, 1);
    let mut parameters = Ok(Vec::new());
    if text(tokens, at) == "#" {
        let Some(group) = group(tokens, at + 1..tokens.len()) else { return Ok(None) };
        at = group.end + 1;
        parameters = by_name(tokens, group);
    }
    let (Some(name), "(") = (tokens.get(at), text(tokens, at + 1)) else { return Ok(None) };
    if !is_word(name.text) {
        return Ok(None);
    }
    let ports =
        group(tokens, at + 1..tokens.len()).ok_or_else(|| wrong(line, "the instance does not end"))?;
    let connections = by_name(tokens, ports)?;
    Ok(Some(Instance { line, name: name.text.to_owned(), parameters: parameters?, connections }))
}

/// Parses connections by name.
fn by_name(tokens: &[Token<'_>], range: Range<usize>) -> Result<Vec<Connection>, SourceError> {
    let mut connections = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let Token { line, text: sign } = tokens[at];
        match (sign, text(tokens, at + 1)) {
            (",", _) => at += 1,
            (".", port) if is_word(port) => {
                connections.push(Connection { line, port: port.to_owned() });
                at += 2;
                if text(tokens, at) == "(" {
                    at = group(tokens, at..range.end).map_or(range.end, |group| group.end + 1);
                }
            }
            _ => {
                let why = "expected connections by name: .port(signal)".to_owned();
                return Err(SourceError { line, why });
            }
        }
    }
    Ok(connections)
}

/// Returns the range between the parenthesis at the beginning of `range` and the parenthesis that closes it.
fn group(tokens: &[Token<'_>], range: Range<usize>) -> Option<Range<usize>> {
    let mut depth = 0;
    for at in range.clone() {
        match tokens[at].text {
            "(" => depth += 1,
            ")" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return (at > range.start).then_some(range.start + 1..at);
        }
    }
    None
}

fn text<'a>(tokens: &[Token<'a>], at: usize) -> &'a str {
    tokens.get(at).map_or("", |token| token.text)
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '\\')
}

/// Returns words and signs, without comments, strings, attributes and directives.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let (mut tokens, mut line, mut at) = (Vec::new(), 1, 0);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let (len, is_token) = token(rest);
        if is_token {
            let text = rest[..len].trim_start_matches('\\');
            tokens.push(Token { line, text });
        }
        line += rest[..len].matches('\n').count();
        at += len;
    }
    tokens
}

/// Returns the length of the first token, and whether it is a word or a sign.
fn token(rest: &str) -> (usize, bool) {
    let until = |end: &str, from: usize| rest[from..].find(end).map_or(rest.len(), |n| from + n + end.len());
    let first = rest.chars().next().unwrap_or_default();
    let word =
        |from: usize, is: fn(char) -> bool| rest[from..].find(|c| !is(c)).map_or(rest.len(), |n| from + n);
    match first {
        '/' if rest.starts_with("//") => (until("\n", 2), false),
        '/' if rest.starts_with("/*") => (until("*/", 2), false),
        // An attribute, but not `@(*)`.
        '(' if rest.starts_with("(*") && !rest[2..].trim_start().starts_with(')') => (until("*)", 2), false),
        '"' => (string(rest), false),
        '`' => (word(1, is_part), false),
        '\\' => (word(1, |c| !c.is_whitespace()), true),
        c if is_part(c) => (word(0, is_part), true),
        c => (c.len_utf8(), !c.is_whitespace()),
    }
}

fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$'
}

/// Returns the length of a string including both quotes.
fn string(rest: &str) -> usize {
    let mut escaped = false;
    let end = rest.char_indices().skip(1).find(|(_, c)| {
        let is_end = *c == '"' && !escaped;
        escaped = *c == '\\' && !escaped;
        is_end
    });
    end.map_or(rest.len(), |(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_an_instance_with_its_lines() {
        let text = "// pcie_7x a (.b(c));\nmodule pcie_7x (input x); endmodule\n\
            module top; /* pcie_7x\n*/ (* keep = \"pcie_7x b (\" *)\n\
            always @(*) x = 1;\n\
            pcie_7x #(.A(1), .B((2)))\n\\core+1 (\n  .tx(a ? (b) : {c, d}), // .no(x)\n  .rx(), .both\n);\n\
            `pcie_7x pcie_7x_other i (.q(r));\nendmodule\n";
        let connection = |line, port: &str| Connection { line, port: port.to_owned() };
        let expected = Instance {
            line: 6,
            name: "core+1".to_owned(),
            parameters: vec![connection(6, "A"), connection(6, "B")],
            connections: vec![connection(8, "tx"), connection(9, "rx"), connection(9, "both")],
        };
        assert_eq!(instances(text, "pcie_7x").unwrap(), [expected]);
        assert_eq!(instances(text, "pcie_s7").unwrap(), []);
    }

    #[test]
    fn error_names_the_line() {
        for (text, line) in
            [("\npcie_7x i (a, b);", 2), ("pcie_7x i (\n.*);", 2), ("\n\npcie_7x i (.a(b)", 3)]
        {
            assert_eq!(instances(text, "pcie_7x").unwrap_err().line, line, "{text}");
        }
    }
}
