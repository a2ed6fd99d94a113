// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The origin of a fitted profile's figures: its description, its head, and the source of each figure. Changes no value except the generation of the links.

use super::{Fitted, Parameter, Profile};
use crate::configurations::SheetLink;
use toml_edit::{Item, Table, TableLike, Value, value};

/// Origin of the results that a profile was fitted to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Provenance {
    /// The server, for the profile's description.
    pub server: String,
    /// Names of the results.
    pub results: Vec<String>,
    /// Device profile of the card.
    pub device: String,
    /// Link of the results.
    pub link: SheetLink,
    /// The profile before the fit.
    pub like: String,
    /// True if that profile is this server's own, so that figures that were not fitted are this server's too.
    pub is_own: bool,
    /// Doubts about the figures, one per line.
    pub warnings: Vec<String>,
}

impl Profile {
    /// Writes the origin of the figures. Sources of unfitted figures get the name of the original profile if it belongs
    /// to another server, or if the source looks like a fit to these results. Comments of another server, and its list
    /// of effects that it does not predict, are removed.
    pub fn attribute(&mut self, of: &Provenance, fitted: &[Fitted]) {
        let table = self.document.as_table_mut();
        if !of.is_own {
            table.insert("description", value(of.server.as_str()));
            table.remove("not_predicted");
            let measured_over = value_of(table, "gen");
            set_link(table, of.link);
            keep_generation(table, of, measured_over);
        }
        let mut places: Vec<FigureKey> =
            fitted.iter().filter(|f| f.rows > 0).map(|f| f.parameter.place()).collect();
        if places.contains(&Parameter::RootComplex.place())
            && let Some(figure) = table.get_mut(IN_THE_SUM).and_then(Item::as_table_like_mut)
        {
            let source = format!(
                "fit: with root_complex_latency_ps: the rows determine only the sum of this figure and twice that latency; this part is as in {}",
                of.like
            );
            figure.insert("source", value(source));
            places.push((None, IN_THE_SUM));
        }
        Borrowed { of, fitted: places }.mark(table, None);
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

/// Place of a figure: table (or none) and key.
type FigureKey = (Option<&'static str>, &'static str);

impl Provenance {
    /// Returns the comment above the figures.
    fn head(&self) -> String {
        let Provenance { results, device, like, .. } = self;
        let others = match self.is_own {
            true => format!(
                "sources of figures of an earlier fit begin with \"as {like}:\"; the other figures are looked up, or equal on all servers"
            ),
            false => format!("the sources of the others name {like}"),
        };
        // Names are untrusted. A line break in one would add a line to the profile.
        let shown = |name: &str| name.escape_debug().to_string();
        let (results, device) = (results.iter().map(|name| shown(name)).collect::<Vec<_>>(), shown(device));
        let others = shown(&others);
        let warnings = self.warnings.iter().map(|line| format!("# Warning: {}\n", shown(line)));
        let warnings: String = warnings.collect();
        format!(
            "# Fitted by `riser fit` to the results {}, with device profile\n# {device}. Figures whose source begins with \"fit:\" are \
             this server's own; {others}.\n{warnings}",
            results.join(", ")
        )
    }
}

/// The rows determine only the sum of this figure and twice the root complex's latency, so a fit of that latency also
/// fits this figure.
const IN_THE_SUM: &str = "memory_read_latency_ps";

fn value_of(table: &Table, key: &str) -> Option<i64> {
    table.get(key)?.as_table_like()?.get("value")?.as_integer()
}

/// The kept figures of another server were measured over links of some generation. Records this generation if it
/// differs from the results' generation, so that riser still reports the figures as extrapolated.
fn keep_generation(table: &mut Table, of: &Provenance, measured_over: Option<i64>) {
    let Some(kept) = measured_over.filter(|kept| *kept != i64::from(of.link.generation)) else { return };
    let mut figure = toml_edit::InlineTable::new();
    figure.insert("value", Value::from(kept));
    figure.insert("source", Value::from(format!("the links of {}", of.like)));
    table.insert("kept_gen", value(figure));
}

/// The keys of the link.
const LINK: [&str; 5] = ["gen", "lanes", "mps_bytes", "mrrs_bytes", "kept_gen"];

/// Sets the generation, and the other values if the profile has them.
fn set_link(table: &mut Table, link: SheetLink) {
    let values = [link.generation.into(), link.lanes.into(), link.mps_bytes.into(), link.mrrs_bytes.into()];
    for (key, number) in LINK.into_iter().zip::<[i64; 4]>(values) {
        if key == "gen" || table.contains_key(key) {
            let mut figure = toml_edit::InlineTable::new();
            figure.insert("value", Value::from(number));
            figure.insert("source", Value::from("the links of the results"));
            table.insert(key, value(figure));
        }
    }
}

/// Marks the sources of figures that were not fitted.
struct Borrowed<'a> {
    of: &'a Provenance,
    /// The fitted figures.
    fitted: Vec<FigureKey>,
}

impl Borrowed<'_> {
    /// Marks the figures of table `name`, including those of tables within it.
    fn mark(&self, table: &mut dyn TableLike, name: Option<&str>) {
        for (key, item) in table.iter_mut() {
            let is_fitted = self.fitted.iter().any(|(table, own)| *table == name && *own == key.get());
            if !is_fitted && !LINK.contains(&key.get()) {
                let key = key.get().to_owned();
                self.mark_item(item, &key);
            }
        }
    }

    fn mark_item(&self, item: &mut Item, key: &str) {
        if let Some(tables) = item.as_array_of_tables_mut() {
            tables.iter_mut().for_each(|table| self.mark(table, Some(key)));
            return;
        }
        if let Some(rows) = item.as_array_mut() {
            for row in rows.iter_mut().filter_map(Value::as_inline_table_mut) {
                self.mark(row, Some(key));
            }
            return;
        }
        let Some(table) = item.as_table_like_mut() else { return };
        match table.get("source").and_then(Item::as_str).map(str::to_owned) {
            Some(source) if self.is_borrowed(&source) => {
                table.insert("source", value(format!("as {}: {source}", self.of.like)));
            }
            Some(_) => {}
            None => self.mark(table, Some(key)),
        }
    }

    /// Returns true if a source must be marked: in a profile of the same server, only sources that look like this fit.
    fn is_borrowed(&self, source: &str) -> bool {
        !self.of.is_own || source.starts_with("fit")
    }
}

/// Returns the keys of the outermost table with a comment above them, each after its comment. The licence is above `version`, which is left out.
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

/// Returns a comment without the paragraphs about earlier fits.
fn without_fits(text: &str) -> String {
    let kept = text.split("\n\n").filter(|part| !part.contains("Fitted"));
    let kept: Vec<&str> = kept.map(str::trim_start).filter(|part| !part.trim().is_empty()).collect();
    if kept.is_empty() { String::new() } else { format!("\n{}", kept.join("\n\n")) }
}

/// Returns the key of the first figure, after the keys that describe the profile.
fn first_figure(table: &Table) -> Option<String> {
    let head = ["version", "kind", "description", "not_predicted"];
    table.iter().map(|(key, _)| key).find(|key| !head.contains(key) && !LINK.contains(key)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::Evidence;

    const TEXT: &str = r#"# SPDX-License-Identifier: Apache-2.0 OR MIT
version = 1
kind = "host"
description = "Its own server"
gen = { value = 3, source = "records" }
lanes = { value = 8, source = "records" }
not_predicted = "the tide"

# Fitted by `riser fit` to results of its own.

# The sum shows.
root_complex_latency_ps = { value = 5, source = "fit: 9 rows" }
memory_read_latency_ps = { value = 9, source = "guess" }
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
            link: SheetLink { generation: 4, lanes: 16, mps_bytes: 128, mrrs_bytes: 4096 },
            like: "its-own".into(),
            is_own,
            warnings: vec!["dram.latency_ps: not determined".into()],
        };
        profile.set(Parameter::RootComplex, 6, "fit: 2 rows").unwrap();
        let figure = |parameter, evidence, rows| Fitted {
            parameter,
            value_ps: 6,
            evidence,
            rows,
            last_step_ns: 0.0,
            is_at_bound: false,
        };
        let fitted = [
            figure(Parameter::RootComplex, Evidence::Rows, 2),
            figure(Parameter::Dram, Evidence::Missing, 0),
        ];
        profile.attribute(&of, &fitted);
        profile.text()
    }

    #[test]
    fn sources_name_server_of_kept_figures() {
        assert_eq!(
            attributed(false),
            r#"# SPDX-License-Identifier: Apache-2.0 OR MIT
version = 1
kind = "host"
description = "Another server"
gen = { value = 4, source = "the links of the results" }
lanes = { value = 16, source = "the links of the results" }

# Fitted by `riser fit` to the results one, two, with device profile
# nfp6000. Figures whose source begins with "fit:" are this server's own; the sources of the others name its-own.
# Warning: dram.latency_ps: not determined
root_complex_latency_ps = { value = 6, source = "fit: 2 rows" }
memory_read_latency_ps = { value = 9, source = "fit: with root_complex_latency_ps: the rows determine only the sum of this figure and twice that latency; this part is as in its-own" }
rcb_bytes = { value = 64, source = "as its-own: records" }
kept_gen = { value = 3, source = "the links of its-own" }

[dram]
latency_ps = { value = 7, source = "as its-own: fit: 3 rows" }
"#
        );
    }

    #[test]
    fn names_cannot_add_lines_to_the_profile() {
        let text = attributed_to("two\nrcb_bytes = 7\u{0}", true);
        assert!(text.contains("results one, two\\nrcb_bytes = 7\\0, with"), "{text}");
        assert!(Profile::parse(&text).is_ok(), "{text}");
    }

    /// Sources of earlier fits to other results must not pass for this fit.
    #[test]
    fn own_profile_keeps_sources_except_earlier_fits() {
        let text = attributed(true);
        assert!(text.contains("description = \"Its own server\"\ngen = { value = 3"), "{text}");
        assert!(text.contains("not_predicted = \"the tide\""), "{text}");
        assert!(text.contains("# Fitted by `riser fit` to the results one, two"), "{text}");
        assert!(!text.contains("results of its own") && text.contains("# The sum shows.\n"), "{text}");
        assert!(text.contains("rcb_bytes = { value = 64, source = \"records\" }"), "{text}");
        assert!(text.contains("latency_ps = { value = 7, source = \"as its-own: fit: 3 rows\" }"), "{text}");
    }
}
