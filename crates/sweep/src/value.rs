// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values of settings and of metrics.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A value of a setting or of a metric.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// `true` or `false`.
    Boolean(bool),
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Float(f64),
    /// Text, or a list in TOML syntax.
    Text(String),
}

impl Value {
    /// Returns the value if it is a number; `true` is 1.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Boolean(is) => Some(f64::from(u8::from(*is))),
            Value::Integer(n) => Some(*n as f64),
            Value::Float(x) => Some(*x),
            Value::Text(_) => None,
        }
    }

    /// Converts a number, a boolean or a text of JSON; `None` for other values.
    pub fn of_json(json: &serde_json::Value) -> Option<Value> {
        match json {
            serde_json::Value::Bool(is) => Some(Value::Boolean(*is)),
            serde_json::Value::Number(n) => {
                n.as_i64().map(Value::Integer).or_else(|| n.as_f64().map(Value::Float))
            }
            serde_json::Value::String(text) => Some(Value::Text(text.clone())),
            _ => None,
        }
    }

    /// Returns the value as TOML.
    pub(crate) fn toml(&self) -> String {
        match self {
            Value::Text(text) if text.starts_with('[') => text.clone(),
            Value::Text(text) => toml::Value::String(text.clone()).to_string(),
            Value::Float(x) => format!("{x:?}"),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Boolean(is) => write!(f, "{is}"),
            Value::Integer(n) => write!(f, "{n}"),
            Value::Float(x) => write!(f, "{x}"),
            Value::Text(text) => f.write_str(text),
        }
    }
}

/// Rounds `x` to twelve significant digits, so that calculated ranges have the intended values.
pub(crate) fn tidy(x: f64) -> f64 {
    format!("{x:.11e}").parse().unwrap_or(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_values_to_toml() {
        for (value, text) in [
            (Value::Boolean(true), "true"),
            (Value::Integer(-3), "-3"),
            (Value::Float(2.0), "2.0"),
            (Value::Float(1e300), "1e300"),
            (Value::Text("4k \"x\"".into()), "'4k \"x\"'"),
            (Value::Text("3".into()), "\"3\""),
            (Value::Text("[1, 2]".into()), "[1, 2]"),
        ] {
            assert_eq!(value.toml(), text);
        }
        assert_eq!(tidy(0.1 + 0.2), 0.3);
        assert_eq!(tidy(-1.0 / 3.0), -0.333333333333);
    }
}
