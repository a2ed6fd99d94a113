// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Overrides of a file's keys, such as `--set slot.nic.link.gen=4`. The reader of the file checks them like keys of the file.

use super::error::{FileError, FileErrors};
use std::borrow::Cow;
use std::ops::Range;
use thiserror::Error;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// Overrides of the form `KEY=VALUE`; later ones replace earlier ones. KEY is a TOML path of keys separated by dots,
/// with quotes around keys that are not bare. An element of a list is given by its `name` or by its index from 0; the
/// index after the last element adds one. VALUE is a TOML value; any other text is a string.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// The overrides as given.
    given: Vec<String>,
    /// The overrides as TOML: the key, and a line `v = VALUE`.
    lines: Vec<[String; 2]>,
}

impl Overrides {
    /// Returns the overrides of `given`, in this order. Errors are reported when they are applied.
    pub fn new(given: &[String]) -> Overrides {
        let line = |one: &String| {
            let at = end_of_key(one);
            let value = at.map_or("", |at| one[at + 1..].trim());
            [format!("{} = 0", &one[..at.unwrap_or(one.len())]), format!("v = {value}")]
        };
        Overrides { given: given.to_vec(), lines: given.iter().map(line).collect() }
    }

    /// The overrides as given.
    pub fn given(&self) -> &[String] {
        &self.given
    }

    /// Returns the override at position `start`. Overrides are numbered from the end of a text of `len` bytes.
    pub(super) fn at(&self, start: usize, len: usize) -> Option<&str> {
        self.given.get(start.checked_sub(len + 1)?).map(String::as_str)
    }

    /// Applies the overrides to `root`, the file whose text has `len` bytes.
    pub(super) fn apply<'a>(&'a self, root: &mut DeTable<'a>, len: usize) -> Result<(), FileErrors> {
        let mut errors = Vec::new();
        for (n, (given, lines)) in self.given.iter().zip(&self.lines).enumerate() {
            let place = len + 1 + n..len + 2 + n;
            if let Err(error) = set(root, given, lines, &place) {
                errors.push(FileError::setting(given, error.to_string()));
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors.into_iter().collect()) }
    }
}

/// Reason why an override cannot be applied.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
enum OverrideError {
    /// There is no `=`.
    #[error("expected KEY=VALUE, such as link.gen=4")]
    NoValue,
    /// The key is no path.
    #[error("key `{0}`, expected keys separated by dots, such as slot.0.link.gen")]
    Key(String),
    /// The path does not exist. Has the part of the path that does.
    #[error("{}: {why}", if path.is_empty() { "the file".to_owned() } else { format!("`{}`", path.join(".")) })]
    At { path: Vec<String>, why: PathError },
}

/// Reason why a path of keys does not exist.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
enum PathError {
    /// The path goes through a value.
    #[error("is a value, not a table with `{0}`")]
    Value(String),
    /// The table has no such key.
    #[error("no `{0}`")]
    Missing(String),
    /// The list has no such element.
    #[error(
        "no element `{name}`, expected {}0 to {len}, the last of which adds one",
        names.iter().map(|n| format!("`{n}`")).reduce(|all, n| all + ", " + &n).map_or_else(String::new, |all| all + ", or ")
    )]
    Element { name: String, names: Vec<String>, len: usize },
}

/// Position of the `=` after the key.
fn end_of_key(setting: &str) -> Option<usize> {
    let mut quote = None;
    setting.char_indices().find_map(|(at, c)| {
        match (c, quote) {
            ('=', None) => return Some(at),
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            _ => {}
        }
        None
    })
}

fn set<'a>(
    root: &mut DeTable<'a>,
    given: &'a str,
    [key, value]: &'a [String; 2],
    place: &Range<usize>,
) -> Result<(), OverrideError> {
    let Some(end) = end_of_key(given) else { return Err(OverrideError::NoValue) };
    let path = path_of(key).ok_or_else(|| OverrideError::Key(given[..end].to_owned()))?;
    let value = match DeTable::parse(value).map(Spanned::into_inner) {
        Ok(mut table) if table.len() == 1 => table.remove("v").map(Spanned::into_inner),
        _ => None,
    };
    let value = value.unwrap_or_else(|| DeValue::String(Cow::Borrowed(given[end + 1..].trim())));
    let mut file = DeValue::Table(std::mem::take(root));
    let done = put(&mut file, &path, 0, marked(value, place), place);
    if let DeValue::Table(table) = file {
        *root = table;
    }
    done
}

/// Puts `value`, whose span is `place`, at the path `path[depth..]` below `at`. Creates missing tables and lists.
fn put<'a>(
    at: &mut DeValue<'a>,
    path: &[String],
    depth: usize,
    value: Spanned<DeValue<'a>>,
    place: &Range<usize>,
) -> Result<(), OverrideError> {
    let error = |why| OverrideError::At { path: path[..depth].to_vec(), why };
    let (name, next) = (&path[depth], path.get(depth + 1));
    // Created tables have another span than the value that is set.
    let made = next.map_or_else(|| place.clone(), |_| place.start..place.end + 1 + depth);
    let new = match next {
        Some(next) if next.parse::<usize>().is_ok() => DeValue::Array(DeArray::new()),
        _ => DeValue::Table(DeTable::new()),
    };
    let below = match at {
        DeValue::Table(table) => {
            if next.is_none() {
                // Its key has a span too.
                table.remove(name.as_str());
            }
            if !table.contains_key(name.as_str()) {
                table.insert(Spanned::new(made.clone(), name.clone().into()), Spanned::new(made, new));
            }
            table.get_mut(name.as_str())
        }
        DeValue::Array(list) => {
            let n = element(list, name).map_err(error)?;
            if n == list.len() {
                list.push(Spanned::new(made, new));
            }
            list.get_mut(n)
        }
        _ => return Err(error(PathError::Value(name.clone()))),
    };
    match (below, next) {
        (None, _) => Err(error(PathError::Missing(name.clone()))),
        (Some(below), Some(_)) => put(below.get_mut(), path, depth + 1, value, place),
        (Some(below), None) => {
            *below = value;
            Ok(())
        }
    }
}

/// Splits a TOML path at its dots: `slot.\"a.b\".gen` has three keys. `None` if it is not a path.
pub fn key_path(path: &str) -> Option<Vec<String>> {
    path_of(&format!("{path} = 0"))
}

/// Returns the keys of `line`, which is a path of keys and a number.
fn path_of(line: &str) -> Option<Vec<String>> {
    let mut path = Vec::new();
    let mut table = DeTable::parse(line).ok()?.into_inner();
    loop {
        let (key, value) = table.into_iter().next()?;
        path.push(key.into_inner().into_owned());
        match value.into_inner() {
            DeValue::Table(below) => table = below,
            DeValue::Integer(_) => return Some(path),
            _ => return None,
        }
    }
}

/// Returns `value` with `place` as the span of all its parts.
fn marked<'a>(value: DeValue<'a>, place: &Range<usize>) -> Spanned<DeValue<'a>> {
    let value = match value {
        DeValue::Table(table) => {
            let entry = |(key, value): (Spanned<Cow<'a, str>>, Spanned<DeValue<'a>>)| {
                (Spanned::new(place.clone(), key.into_inner()), marked(value.into_inner(), place))
            };
            DeValue::Table(table.into_iter().map(entry).collect())
        }
        DeValue::Array(list) => {
            DeValue::Array(list.into_iter().map(|v| marked(v.into_inner(), place)).collect())
        }
        value => value,
    };
    Spanned::new(place.clone(), value)
}

/// Returns the index of an element, which is given by its name or its index.
fn element(list: &DeArray<'_>, name: &str) -> Result<usize, PathError> {
    let name_of = |v: &Spanned<DeValue<'_>>| -> Option<String> {
        Some(v.get_ref().as_table()?.get("name")?.get_ref().as_str()?.to_owned())
    };
    let number = || name.parse().ok().filter(|n| *n <= list.len());
    list.iter().position(|v| name_of(v).as_deref() == Some(name)).or_else(number).ok_or_else(|| {
        let names = list.iter().filter_map(name_of).collect();
        PathError::Element { name: name.to_owned(), names, len: list.len() }
    })
}
