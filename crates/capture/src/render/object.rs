// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes JSON objects field by field.

use serde::ser::{Serialize, SerializeMap, Serializer};
use std::fmt::Display;

/// Appends `value` as JSON.
pub(crate) fn append(value: &impl Serialize, out: &mut String) {
    // Only strings, integers and lists of them are serialized, which cannot fail.
    out.push_str(&serde_json::to_string(value).unwrap_or_default());
}

/// A JSON object that is being written.
pub(crate) struct Object<M>(pub(crate) M);

impl<M: SerializeMap> Object<M> {
    /// Writes a field.
    pub(crate) fn put(&mut self, key: &'static str, value: impl Serialize) -> Result<(), M::Error> {
        self.0.serialize_entry(key, &value)
    }

    /// Writes a field if it has a value.
    pub(crate) fn some(&mut self, key: &'static str, value: Option<impl Serialize>) -> Result<(), M::Error> {
        value.map_or(Ok(()), |value| self.put(key, value))
    }

    /// Writes a field if it is true.
    pub(crate) fn flag(&mut self, key: &'static str, value: bool) -> Result<(), M::Error> {
        self.some(key, value.then_some(true))
    }
}

/// Serializes a value as the text that its `Display` prints.
pub(crate) struct Text<T>(pub(crate) T);

impl<T: Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}
