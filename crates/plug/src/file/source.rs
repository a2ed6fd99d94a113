// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a TOML file as a type, and reports all errors of TOML syntax and of the type.

use super::error::{FileError, FileErrors, MAX_ERRORS};
use super::overrides::Overrides;
use super::schema::Schema;
use schemars::JsonSchema;
use serde::Deserialize;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue, Deserializer, Error};

/// A file, its text, and its overrides.
pub struct Source<'a> {
    /// The file.
    pub path: &'a Path,
    /// The text of the file.
    pub text: &'a str,
    /// Overrides of the file's keys.
    pub overrides: &'a Overrides,
}

/// A table that could not be read as its type.
#[derive(Debug)]
pub struct Unread<T> {
    /// Errors of the table.
    pub errors: Vec<FileError>,
    /// The rest of the table, if it can be read without the wrong keys and without tables that lack a key.
    pub rest: Option<T>,
}

/// The tables of a file, with the spans of their keys.
pub type Tree<'a> = Spanned<DeTable<'a>>;

impl<'a> Source<'a> {
    /// Returns an error at `span`: a place in the text, or of an override after the text's end.
    pub fn error(&self, span: Range<usize>, message: impl Into<String>) -> FileError {
        match self.overrides.at(span.start, self.text.len()) {
            Some(setting) => FileError::setting(setting, message),
            None => FileError::at(self.path, self.text, span, message),
        }
    }

    /// Returns the tables of the file with the overrides applied.
    ///
    /// # Errors
    /// All syntax errors. If there are none, the errors of the overrides.
    pub fn tree(&self) -> Result<Tree<'a>, FileErrors> {
        let (mut root, errors) = DeTable::parse_recoverable(self.text);
        if !errors.is_empty() {
            return Err(errors.iter().map(|e| FileError::toml(self.path, self.text, e)).collect());
        }
        self.overrides.apply(root.get_mut(), self.text.len())?;
        Ok(root)
    }

    /// Reads `table`, the file or one of its tables, as a type that `schema` describes.
    ///
    /// # Errors
    /// All errors of the types of its keys.
    pub fn read<T>(&self, table: Tree<'a>, schema: &Schema) -> Result<T, Unread<T>>
    where
        T: for<'de> Deserialize<'de>,
    {
        let mut errors = Vec::new();
        let mut left = Left { root: table, without: Vec::new() };
        while errors.len() < MAX_ERRORS {
            match T::deserialize(Deserializer::from(left.root.clone())) {
                Ok(value) if errors.is_empty() => return Ok(value),
                Ok(value) => return Err(Unread { errors, rest: Some(value) }),
                Err(error) => {
                    // A key that the file as a whole lacks is reported at its first line.
                    let (span, path) = match error.span().filter(|span| !span.is_empty()) {
                        Some(span) => (span.clone(), left.take(&span)),
                        None => (0..1, left.supply(&error, schema)),
                    };
                    if !left.is_of_own_making(&error) {
                        errors.push(self.error(span, message(&error, path.as_deref(), schema)));
                    }
                    if path.is_none() {
                        break;
                    }
                }
            }
        }
        Err(Unread { errors, rest: None })
    }
}

impl Source<'_> {
    /// Reads `table`, the file or one of its tables, and checks the limits of its keys.
    ///
    /// # Errors
    /// All errors of types and limits of single keys.
    pub fn read_within<T>(&self, table: Tree<'_>) -> Result<T, Vec<FileError>>
    where
        T: for<'de> Deserialize<'de> + JsonSchema + 'static,
    {
        let schema = Schema::shared::<T>();
        // A value that is not JSON has an illegal type, which is reported below.
        let json = serde_json::Value::deserialize(Deserializer::from(table.clone())).unwrap_or_default();
        let limits = schema.check(&json).into_iter().map(|fault| {
            let path: Vec<&str> = fault.key.iter().map(String::as_str).collect();
            self.error(place_of(&table, &path).unwrap_or(table.span()), fault.message)
        });
        let limits: Vec<FileError> = limits.collect();
        match self.read::<T>(table.clone(), &schema) {
            Ok(value) if limits.is_empty() => Ok(value),
            Ok(_) => Err(limits),
            Err(Unread { errors, .. }) => {
                // A value of the wrong type is outside the limits as well; report it once.
                let more = limits.into_iter().filter(|limit| errors.iter().all(|e| e.place != limit.place));
                Err(errors.iter().cloned().chain(more).collect())
            }
        }
    }
}

/// Returns the missing key, if the error is about one.
fn missing(error: &Error) -> Option<&str> {
    error.message().trim().strip_prefix("missing field `")?.strip_suffix('`')
}

/// Message of [`toml`] for a value that is not in an enumeration.
const NO_VARIANT: &str = "wanted string or table";

/// Text of `error` at `path`. Adds the legal values of the key if the type does not name them.
fn message(error: &Error, path: Option<&[String]>, schema: &Schema) -> String {
    let text = error.message().trim().replace('\n', ": ");
    if let Some(key) = missing(error) {
        let path: Vec<String> = path.unwrap_or_default().iter().cloned().chain([key.to_owned()]).collect();
        return match schema.legal(&path) {
            Some(legal) => format!("{text}, expected {legal}"),
            None => text,
        };
    }
    let wrong_type = text.strip_prefix("invalid type: ").or_else(|| text.strip_prefix("invalid value: "));
    // The value of a figure with a source has the legal values of the figure.
    let path = path.map(|path| match path {
        [figure @ .., last] if last == "value" && schema.legal(path).is_none() => figure,
        _ => path,
    });
    let key = path.and_then(<[String]>::last);
    match (wrong_type, key, path.and_then(|path| schema.legal(path))) {
        (Some(wrong), Some(key), Some(legal)) => {
            let found = wrong.split_once(", expected").map_or(wrong, |(found, _)| found);
            let found = match found {
                "map" => "a table",
                "sequence" => "a list",
                found => found,
            };
            match path.filter(|_| legal == "tables") {
                Some(path) => format!("{key} is {found}, expected [[{}]]", path.join(".")),
                None => format!("{key} is {found}, expected {legal}"),
            }
        }
        (None, Some(key), Some(legal)) if text == NO_VARIANT => {
            format!("{key} is neither a string nor a table, expected {legal}")
        }
        // A list that serde would accept as a table, by the order of fields.
        (None, Some(key), Some(_)) if text.starts_with("invalid length") => {
            format!("{key} is a list, expected tables")
        }
        // A value with its unit, without the key.
        (None, Some(key), _)
            if text.starts_with(|c: char| c == '-' || c.is_ascii_digit()) && !text.contains(key) =>
        {
            format!("{key} of {text}")
        }
        _ => text,
    }
}

/// The rest of a file, without the values with errors.
struct Left<'a> {
    root: Spanned<DeTable<'a>>,
    /// The removed values: span of the table, and key.
    without: Vec<(Range<usize>, String)>,
}

impl Left<'_> {
    /// Removes the value at `span`; returns its path without list indexes. `None` for the file as a whole.
    fn take(&mut self, span: &Range<usize>) -> Option<Vec<String>> {
        let mut path = Vec::new();
        let place = self.root.span();
        let found = take_of(self.root.get_mut(), &place, span, &mut path)?;
        self.without.push(found);
        Some(path)
    }

    /// Adds a missing key that has only one legal value (the version), so that other errors are found. Returns the
    /// path of its table.
    fn supply(&mut self, error: &Error, schema: &Schema) -> Option<Vec<String>> {
        let key = missing(error)?.to_owned();
        if schema.legal(std::slice::from_ref(&key))? != "1" || self.root.get_ref().contains_key(key.as_str())
        {
            return None;
        }
        let one = DeTable::parse("n = 1").ok()?.into_inner().remove("n")?.into_inner();
        self.root.get_mut().insert(Spanned::new(0..0, key.into()), Spanned::new(0..0, one));
        Some(Vec::new())
    }

    /// True if `error` reports a missing key that was removed from its table before.
    fn is_of_own_making(&self, error: &Error) -> bool {
        let span = error.span().unwrap_or_else(|| self.root.span());
        self.without.iter().any(|(table, key)| *table == span && missing(error) == Some(key))
    }
}

/// Removes the value at `span` from `table`, which is at `place`, or from a table below. Returns the span of that
/// table, and the key.
fn take_of(
    table: &mut DeTable<'_>,
    place: &Range<usize>,
    span: &Range<usize>,
    path: &mut Vec<String>,
) -> Option<(Range<usize>, String)> {
    // Inner tables are checked first, because a list of tables has the span of its first table.
    for (key, value) in table.iter_mut() {
        path.push(key.get_ref().to_string());
        if let Some(found) = take_below(value, span, path) {
            return Some(found);
        }
        path.pop();
    }
    let is_it = |key: &Spanned<_>, value: &Spanned<DeValue<'_>>| key.span() == *span || value.span() == *span;
    let own = table.iter().find(|(key, value)| is_it(key, value)).map(|(key, _)| key.get_ref().to_string());
    let key = own.or_else(|| list_with(table, span))?;
    table.remove(key.as_str());
    path.push(key.clone());
    Some((place.clone(), key))
}

fn take_below(
    value: &mut Spanned<DeValue<'_>>,
    span: &Range<usize>,
    path: &mut Vec<String>,
) -> Option<(Range<usize>, String)> {
    let place = value.span();
    match value.get_mut() {
        DeValue::Table(table) => take_of(table, &place, span, path),
        DeValue::Array(list) => {
            if let Some(found) = list.iter_mut().find_map(|element| take_below(element, span, path)) {
                return Some(found);
            }
            let is_it = |v: &Spanned<DeValue<'_>>| v.span() == *span && v.get_ref().as_table().is_some();
            if let Some(n) = list.iter().position(is_it) {
                let all = std::mem::replace(list, DeArray::new()).into_iter().enumerate();
                *list = all.filter(|(i, _)| *i != n).map(|(_, element)| element).collect();
                return Some((place, n.to_string()));
            }
            None
        }
        _ => None,
    }
}

/// Returns the key of a list of values (not of tables) with an error at `span`; the whole list is treated as wrong.
fn list_with(table: &DeTable<'_>, span: &Range<usize>) -> Option<String> {
    let has = |value: &DeValue<'_>| {
        let wrong = |v: &Spanned<DeValue<'_>>| v.span() == *span && v.get_ref().as_table().is_none();
        value.as_array().is_some_and(|list| list.iter().any(wrong))
    };
    table.iter().find(|(_, value)| has(value.get_ref())).map(|(key, _)| key.get_ref().to_string())
}

/// Returns the span of the value at `path` of `tree`. An index selects an element of a list.
pub fn place_of(tree: &Tree<'_>, path: &[&str]) -> Option<Range<usize>> {
    let (first, rest) = path.split_first()?;
    let mut at = tree.get_ref().get(*first)?;
    for key in rest {
        at = match at.get_ref() {
            DeValue::Table(table) => table.get(*key)?,
            DeValue::Array(list) => list.get(key.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(at.span())
}
