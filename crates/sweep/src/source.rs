// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sweep file while it is read: its values, its tables, and errors with their places.

use crate::value::Value;
use plug::file::{FileError, Source};
use schemars::JsonSchema;
use serde::Deserialize;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The file being read.
pub(crate) struct File<'a> {
    pub(crate) source: Source<'a>,
}

impl File<'_> {
    pub(crate) fn error(&self, span: Range<usize>, message: impl Into<String>) -> FileError {
        self.source.error(span, message)
    }

    /// Returns a value of a setting; `None` if a setting cannot have this type.
    pub(crate) fn value(&self, value: &Spanned<DeValue<'_>>) -> Option<Value> {
        match value.get_ref() {
            DeValue::Boolean(is) => Some(Value::Boolean(*is)),
            DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix()).ok().map(Value::Integer),
            DeValue::Float(x) => x.as_str().parse().ok().filter(|x: &f64| x.is_finite()).map(Value::Float),
            DeValue::String(text) => Some(Value::Text(text.to_string())),
            DeValue::Array(list) if list.iter().all(|v| self.value(v).is_some()) => {
                Some(Value::Text(self.source.text.get(value.span())?.to_owned()))
            }
            _ => None,
        }
    }

    /// Reads a table of the file as type `T`, and checks its limits.
    pub(crate) fn read<T>(&self, table: Spanned<DeTable<'_>>) -> Result<T, Vec<FileError>>
    where
        T: for<'de> Deserialize<'de> + JsonSchema + 'static,
    {
        self.source.read_within(table)
    }
}
