// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages of the reference: tables of a type's keys, generated from the type and its comments.

use super::schema::{Key, Schema, flat};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A page about a type and the types in it.
pub struct Page<'s> {
    schema: &'s Schema,
    /// Headings of the tables on the page, by the name of the type.
    done: BTreeMap<String, String>,
}

/// A section of a page.
pub struct Section {
    /// The heading of the section, such as `` `[link]` ``.
    pub heading: String,
    /// Its text, heading included.
    pub text: String,
}

/// A table without a section so far: its path, heading and type.
type Below<'s> = (String, String, &'s Value);

impl<'s> Page<'s> {
    /// Returns a page about the type that `schema` describes.
    pub fn of(schema: &'s Schema) -> Page<'s> {
        Page { schema, done: BTreeMap::new() }
    }

    /// Returns the table of the whole type under `heading`, then the tables in it.
    #[must_use]
    pub fn tables(self, path: &str, heading: &str) -> String {
        self.sections(path, heading).into_iter().map(|section| section.text).collect()
    }

    /// Returns the sections of [`tables`](Self::tables), in order.
    #[must_use]
    pub fn sections(mut self, path: &str, heading: &str) -> Vec<Section> {
        let heading = if heading.is_empty() { "Keys of the file" } else { heading };
        let mut sections = Vec::new();
        self.table(self.schema.root(), path, heading, &mut sections);
        sections
    }

    /// Adds a section with the keys of `table`, which is at `path` of the file, then the sections of the tables below it.
    fn table(&mut self, table: &'s Value, path: &str, heading: &str, sections: &mut Vec<Section>) {
        let required = |key: &str| table["required"].as_array().is_some_and(|r| r.iter().any(|k| k == key));
        let all = table["properties"].as_object().into_iter().flat_map(Map::iter);
        let mut all: Vec<(&String, &Value)> = all.collect();
        all.sort_by_key(|(name, _)| !required(name));
        let mut text = format!("## {heading}\n\n{}\n\n", flat(&table["description"]));
        text += "| key | type | default | legal | meaning |\n|---|---|---|---|---|\n";
        let (mut choices, mut below) = (String::new(), Vec::new());
        for (name, own) in all {
            let key = Key::new(self.schema, own);
            let kind = self.section(&key, path, name, &mut below).unwrap_or_else(|| key.kind());
            let default = if required(name) { "required".to_owned() } else { key.default() };
            let (legal, meaning) = (key.legal(), cell(&flat(&own["description"])));
            // Writing to a string never fails.
            let _ = writeln!(text, "| `{name}` | {kind} | {default} | {legal} | {meaning} |");
            choices += &choices_of(&key, name);
        }
        let text = format!("{text}\n{choices}");
        sections.push(Section { heading: heading.to_owned(), text });
        below.iter().for_each(|(path, heading, table)| self.table(table, path, heading, sections));
    }

    /// Returns the heading of the section that documents the table at key `name`. The first such key of a type adds
    /// it to `below`.
    fn section(
        &mut self,
        key: &Key<'s>,
        path: &str,
        name: &str,
        below: &mut Vec<Below<'s>>,
    ) -> Option<String> {
        if !key.is_table() {
            return None;
        }
        let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        let (several, heading) = if key.is_list() {
            ("tables", format!("`[[{path}]]`"))
        } else {
            ("table", format!("`[{path}]`"))
        };
        let section = self.done.entry(key.type_name.to_owned()).or_insert_with(|| {
            below.push((path, heading.clone(), key.target));
            heading
        });
        Some(format!("{several}, see {section}"))
    }
}

/// Lists the values of an enumeration with their meanings, if it has more than one.
fn choices_of(key: &Key<'_>, name: &str) -> String {
    let all = key.variants();
    if all.len() < 2 {
        return String::new();
    }
    let rows: String = all.iter().map(|(value, meaning)| format!("- `{value}`: {meaning}\n")).collect();
    format!("Values of `{name}`:\n\n{rows}\n")
}

/// Formats `text` as a cell of a table.
pub fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
