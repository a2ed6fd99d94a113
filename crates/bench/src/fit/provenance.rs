// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whose figures a fitted profile has: its description, its head, and the source of each figure. Never changes a value but the
//! generation of the links.

use super::{Fitted, Profile};
use toml_edit::{Item, Table, TableLike, Value, value};

/// Where the results came from that a profile was fitted to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Provenance {
    /// The server, as the profile's description has it.
    pub server: String,
    /// What the results are called.
    pub results: Vec<String>,
    /// Device profile of the card.
    pub device: String,
    /// Generation of the links.
    pub generation: u8,
    /// The profile that was begun with.
    pub like: String,
    /// True where that one is this server's own: what was not fitted anew is this server's too.
    pub is_own: bool,
}

impl Profile {
    /// Says whose figures these are. Figures that were not fitted to the results are named as those of the profile that was begun
    /// with, where that is another server's; its comments go.
    pub fn attribute(&mut self, of: &Provenance, fitted: &[Fitted]) {
        let table = self.document.as_table_mut();
        if !of.is_own {
            table.insert("description", value(of.server.as_str()));
            set_generation(table, of);
            let places: Vec<Place> =
                fitted.iter().filter(|f| f.rows > 0).map(|f| f.parameter.place()).collect();
            borrow_sources(table, None, &of.like, &places);
        }
        for (name, key) in comments(table) {
            let kept = if of.is_own { without_fits(&name) } else { String::new() };
            set_comment(table, &key, &kept);
        }
        if let Some(first) = first_figure(table) {
            let kept = comment(table, &first);
            set_comment(table, &first, &format!("\n{}{kept}", of.head()));
        }
    }
}

/// Where a figure stands: table (or none) and key.
type Place = (Option<&'static str>, &'static str);

impl Provenance {
    /// The comment above the figures.
    fn head(&self) -> String {
        let Provenance { results, device, like, .. } = self;
        let others = match self.is_own {
            true => "the others are looked up, or the same on all servers".to_owned(),
            false => format!("the others are those of {like}, and say so"),
        };
        // Names come from outside; a line of them would be one of the profile.
        let shown = |name: &str| name.escape_debug().to_string();
        let (results, device) = (results.iter().map(|name| shown(name)).collect::<Vec<_>>(), shown(device));
        let others = shown(&others);
        format!(
            "# Fitted by `riser fit` to the results {}, with device profile\n# {device}. Figures whose source begins with \"fit:\" are \
             this server's own; {others}.\n",
            results.join(", ")
        )
    }
}

fn set_generation(table: &mut Table, of: &Provenance) {
    let mut figure = toml_edit::InlineTable::new();
    figure.insert("value", Value::from(i64::from(of.generation)));
    figure.insert("source", Value::from("the links of the results"));
    match table.get_mut("gen") {
        Some(item) => *item = value(figure),
        None => {
            table.insert("gen", value(figure));
        }
    }
}

/// Marks the sources of figures that were not fitted.
fn borrow_sources(table: &mut dyn TableLike, name: Option<&str>, like: &str, fitted: &[Place]) {
    for (key, item) in table.iter_mut() {
        let is_fitted = fitted.iter().any(|(table, own)| *table == name && *own == key.get());
        if is_fitted || key.get() == "gen" {
            continue;
        }
        let key = key.get().to_owned();
        borrow_source(item, &key, like, fitted);
    }
}

fn borrow_source(item: &mut Item, key: &str, like: &str, fitted: &[Place]) {
    if let Some(tables) = item.as_array_of_tables_mut() {
        tables.iter_mut().for_each(|table| borrow_sources(table, Some(key), like, fitted));
        return;
    }
    if let Some(rows) = item.as_array_mut() {
        for row in rows.iter_mut().filter_map(Value::as_inline_table_mut) {
            borrow_sources(row, Some(key), like, fitted);
        }
        return;
    }
    let Some(table) = item.as_table_like_mut() else { return };
    match table.get("source").and_then(Item::as_str).map(str::to_owned) {
        Some(source) => {
            table.insert("source", value(format!("as {like}: {source}")));
        }
        None => borrow_sources(table, Some(key), like, fitted),
    }
}

/// Keys of the outermost table that have a comment above them, each behind the comment; that of the licence is above the version.
fn comments(table: &Table) -> Vec<(String, String)> {
    let keys = table.iter().map(|(key, _)| key.to_owned()).filter(|key| key != "version");
    keys.map(|key| (comment(table, &key), key)).filter(|(text, _)| text.contains('#')).collect()
}

fn comment(table: &Table, key: &str) -> String {
    let decor = table.key(key).map(|key| key.leaf_decor());
    decor.and_then(|decor| decor.prefix()?.as_str()).unwrap_or_default().to_owned()
}

fn set_comment(table: &mut Table, key: &str, text: &str) {
    if let Some(mut key) = table.key_mut(key) {
        key.leaf_decor_mut().set_prefix(text);
    }
}

/// A comment without its paragraphs that say what was fitted before.
fn without_fits(text: &str) -> String {
    let kept = text.split("\n\n").filter(|part| !part.contains("Fitted"));
    let kept: Vec<&str> = kept.map(str::trim_start).filter(|part| !part.trim().is_empty()).collect();
    if kept.is_empty() { String::new() } else { format!("\n{}", kept.join("\n\n")) }
}

/// The key of the first figure, behind what says what the profile is.
fn first_figure(table: &Table) -> Option<String> {
    let head = ["version", "kind", "description", "gen"];
    table.iter().map(|(key, _)| key).find(|key| !head.contains(key)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::Parameter;

    const TEXT: &str = r#"# SPDX-License-Identifier: Apache-2.0 OR MIT
version = 1
kind = "host"
description = "Its own server"
gen = { value = 3, source = "records" }

# Fitted by `riser fit` to results of its own.

# The sum shows.
root_complex_latency_ps = { value = 5, source = "fit: 9 rows" }
rcb_bytes = { value = 64, source = "records" }

[dram]
latency_ps = { value = 7, source = "fit: 3 rows" }
"#;

    fn attributed(is_own: bool) -> String {
        attributed_to("two", is_own)
    }

    fn attributed_to(second: &str, is_own: bool) -> String {
        let mut profile = Profile::parse(TEXT).unwrap();
        let of = Provenance {
            server: "Another server".into(),
            results: vec!["one".into(), second.into()],
            device: "nfp6000".into(),
            generation: 4,
            like: "its-own".into(),
            is_own,
        };
        profile.set(Parameter::RootComplex, 6, 2).unwrap();
        let parameter = |parameter, rows| Fitted { parameter, value_ps: 6, rows, last_step_ns: 0.0 };
        profile.attribute(&of, &[parameter(Parameter::RootComplex, 2), parameter(Parameter::Dram, 0)]);
        profile.text()
    }

    #[test]
    fn another_servers_figures_are_named_as_such() {
        assert_eq!(
            attributed(false),
            r#"# SPDX-License-Identifier: Apache-2.0 OR MIT
version = 1
kind = "host"
description = "Another server"
gen = { value = 4, source = "the links of the results" }

# Fitted by `riser fit` to the results one, two, with device profile
# nfp6000. Figures whose source begins with "fit:" are this server's own; the others are those of its-own, and say so.
root_complex_latency_ps = { value = 6, source = "fit: 2 rows, reads of lines that the device wrote, windows up to 256 KiB" }
rcb_bytes = { value = 64, source = "as its-own: records" }

[dram]
latency_ps = { value = 7, source = "as its-own: fit: 3 rows" }
"#
        );
    }

    #[test]
    fn a_name_is_one_line_of_a_comment() {
        let text = attributed_to("two\nrcb_bytes = 7\u{0}", true);
        assert!(text.contains("results one, two\\nrcb_bytes = 7\\0, with"), "{text}");
        assert!(Profile::parse(&text).is_ok(), "{text}");
    }

    #[test]
    fn what_is_its_own_stays() {
        let text = attributed(true);
        assert!(text.contains("description = \"Its own server\"\ngen = { value = 3"), "{text}");
        assert!(text.contains("# Fitted by `riser fit` to the results one, two"), "{text}");
        assert!(!text.contains("results of its own") && text.contains("# The sum shows.\n"), "{text}");
        assert!(text.contains("latency_ps = { value = 7, source = \"fit: 3 rows\" }"), "{text}");
    }
}
