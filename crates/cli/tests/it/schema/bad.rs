// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bad files, made from the schemas and from the files of the repository: for each key of each table, a value of a wrong type and
//! values outside its limits; for each table, an unknown key.

use super::{File, Kind, Riser};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use testkit::root;

/// A file with one bad key.
pub(super) struct Case {
    pub(super) kind: Kind,
    /// The file that it was made from.
    pub(super) path: PathBuf,
    contents: Value,
    /// Place of the bad key.
    place: String,
    /// Riser's answer to the file without the bad key. Some labs of the repository name libraries that are not built.
    before: Result<(), String>,
}

impl Case {
    /// True if riser refuses the bad key.
    pub(super) fn is_refused(&self, riser: &Riser) -> bool {
        let now = riser.read(self.kind, &self.path, &self.toml());
        now.is_err() && now != self.before
    }

    pub(super) fn toml(&self) -> String {
        toml::to_string(&self.contents).unwrap_or_else(|e| panic!("{self}: {e}"))
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bad = self.contents.pointer(&self.place).unwrap_or(&Value::Null);
        write!(
            f,
            "{} {} in {}",
            self.place,
            bad,
            self.path.strip_prefix(root()).unwrap_or(&self.path).display()
        )
    }
}

/// A table of a good file.
struct Table<'a> {
    file: &'a File,
    place: String,
    keys: BTreeMap<String, Map<String, Value>>,
}

/// Returns the bad files, made from `files` and from labs of this module. Every key of the schemas must be in one of them.
pub(super) fn cases(files: &[File], riser: &Riser) -> Vec<Case> {
    let mut more = own_labs();
    more.push(own_profile(files));
    let mut cases = Vec::new();
    for kind in Kind::ALL {
        let schema = kind.schema();
        let mut tables = BTreeMap::new();
        let own = more.iter().chain(files).filter(|file| file.kind == kind);
        own.for_each(|file| {
            let kind = file.contents["kind"].as_str().unwrap_or_default();
            let of = schema["definitions"].get(kind).unwrap_or(&schema);
            visit(&schema, of, file, &file.contents, "", &mut tables);
        });
        assert_all_tables_seen(kind, &schema, &tables);
        for table in tables.values() {
            let keys =
                table.keys.iter().flat_map(|(key, of)| bad_values(of).map(|value| (key.clone(), value)));
            let unknown = ("no_such_key".to_owned(), json!(1));
            let before = riser.read(kind, &table.file.path, &table.file.toml());
            cases.extend(keys.chain([unknown]).map(|(key, value)| case(table, &key, value, before.clone())));
        }
    }
    assert!(cases.len() > 1000, "{}", cases.len());
    cases
}

/// A lab of one slot for each model that needs no settings, and one with the tables that no file of the repository has.
fn own_labs() -> Vec<File> {
    let models = riser_cli::models();
    let plain = models.names().filter(|name| models.schema(name).is_some_and(|of| of.required().is_empty()));
    let lab = |name: &str| json!({ "version": 1, "slot": [{ "name": "a", "device": name, name: {} }] });
    let slot = |name: &str, parent: &str| json!({ "name": name, "device": "memory", "parent": parent });
    let hosts = json!({
        "version": 1,
        "external_host": [{ "name": "far" }],
        "host": {
            "profile": "xeon-e5-2637v3",
            "iommu": "4k",
            "iommu_window": [{ "function": "01:00.0", "address": 0, "bytes": 4096 }],
        },
        "slot": [slot("a", "root"), slot("b", "far")],
    });
    let data_link = json!({
        "version": 1,
        "slot": [{ "name": "a", "device": "memory", "data_link": "rtl-link", "rtl-link": { "design": "x.toml" } }],
    });
    let path = root().join("labs/own.toml");
    let all = plain.map(lab).chain([hosts, data_link]);
    all.map(|contents| File { kind: Kind::Lab, path: path.clone(), contents }).collect()
}

/// The profile of a server, with the tables that no shipped profile has.
fn own_profile(files: &[File]) -> File {
    let shipped = files.iter().find(|file| file.path.ends_with("xeon-e5-2637v3.toml")).unwrap();
    let mut contents = shipped.contents.clone();
    let figures = |all: &[(&str, Value)]| -> Value {
        let figure = |value: &Value| json!({ "value": value, "source": "assumed" });
        all.iter().map(|(key, value)| ((*key).to_owned(), figure(value))).collect()
    };
    contents["dram"]["banks"] = figures(&[
        ("count", json!(16)),
        ("row_bytes", json!(4096)),
        ("line_service_ps", json!(1000)),
        ("speculative_reads", json!(true)),
    ]);
    contents["iommu"]["page_walk_cache"] =
        figures(&[("entries", json!(16)), ("pages_per_entry", json!(512)), ("saves_ps", json!(0))]);
    File { kind: Kind::Profile, path: shipped.path.clone(), contents }
}

fn case(table: &Table<'_>, key: &str, value: Value, before: Result<(), String>) -> Case {
    let mut contents = table.file.contents.clone();
    contents.pointer_mut(&table.place).unwrap()[key] = value;
    let place = format!("{}/{key}", table.place);
    Case { kind: table.file.kind, path: table.file.path.clone(), contents, place, before }
}

/// Finds the tables of a file. The first one with the same keys represents all.
fn visit<'a>(
    root: &Value,
    schema: &Value,
    file: &'a File,
    value: &Value,
    place: &str,
    tables: &mut BTreeMap<String, Table<'a>>,
) {
    let of = whole(root, schema, value);
    match value {
        Value::Object(all) => {
            let keys = of.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
            let other = of.get("additionalProperties").cloned().unwrap_or(Value::Bool(false));
            for (key, value) in all {
                let of = keys.get(key).unwrap_or(&other);
                visit(root, of, file, value, &format!("{place}/{}", escaped(key)), tables);
            }
            if !keys.is_empty() && other == Value::Bool(false) {
                let resolved = |(key, of): (String, Value)| (key, whole(root, &of, &Value::Null));
                let name = keys.keys().cloned().collect::<Vec<_>>().join(" ");
                tables.entry(name).or_insert_with(|| Table {
                    file,
                    place: place.to_owned(),
                    keys: keys.into_iter().map(resolved).collect(),
                });
            }
        }
        Value::Array(all) => {
            let items = of.get("items").cloned().unwrap_or_default();
            all.iter()
                .enumerate()
                .for_each(|(n, one)| visit(root, &items, file, one, &format!("{place}/{n}"), tables));
        }
        _ => {}
    }
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Returns a schema with everything that it refers to. A choice is made by `value`.
fn whole(root: &Value, schema: &Value, value: &Value) -> Map<String, Value> {
    let Some(own) = schema.as_object() else { return Map::new() };
    let mut all = Map::new();
    let mut add = |more: Map<String, Value>| {
        for (key, of) in more {
            match (all.get_mut(&key), of) {
                (Some(Value::Object(known)), Value::Object(of)) => known.extend(of),
                (_, of) => _ = all.insert(key, of),
            }
        }
    };
    if let Some(target) = own.get("$ref").and_then(Value::as_str) {
        let target = root.pointer(target.trim_start_matches('#')).unwrap_or_else(|| panic!("{target}"));
        add(whole(root, target, value));
    }
    if let (Some(condition), true) = (own.get("if"), !value.is_null()) {
        let chosen = if holds(condition, value) { "then" } else { "else" };
        add(own.get(chosen).map_or_else(Map::new, |chosen| whole(root, chosen, value)));
    }
    add(own.clone());
    all
}

/// Evaluates a condition of the schemas.
fn holds(condition: &Value, value: &Value) -> bool {
    let required = condition["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let constant = |(key, of): (&String, &Value)| value.get(key).is_none_or(|value| *value == of["const"]);
    let is_type = match condition["type"].as_str() {
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        _ => true,
    };
    let any = condition["anyOf"].as_array().is_none_or(|all| all.iter().any(|one| holds(one, value)));
    let mut properties = condition["properties"].as_object().into_iter().flatten();
    is_type && any && required.into_iter().all(|key| value.get(key).is_some()) && properties.all(constant)
}

/// Checks that a file has each of the schema's tables.
fn assert_all_tables_seen(kind: Kind, schema: &Value, tables: &BTreeMap<String, Table<'_>>) {
    fn keys_of(schema: &Value, found: &mut BTreeSet<String>) {
        match schema {
            Value::Object(all) => {
                if let (Some(keys), Some(Value::Bool(false))) =
                    (schema["properties"].as_object(), all.get("additionalProperties"))
                {
                    found.insert(keys.keys().cloned().collect::<Vec<_>>().join(" "));
                }
                all.values().for_each(|of| keys_of(of, found));
            }
            Value::Array(all) => all.iter().for_each(|of| keys_of(of, found)),
            _ => {}
        }
    }
    let mut wanted = BTreeSet::new();
    keys_of(schema, &mut wanted);
    let missing: Vec<_> = wanted.iter().filter(|keys| !tables.contains_key(*keys)).collect();
    assert!(missing.is_empty(), "{kind:?}: no file has a table with these keys: {missing:#?}");
}

/// Returns values that a key of this schema must not have: of a wrong type, and outside the limits.
fn bad_values(of: &Map<String, Value>) -> impl Iterator<Item = Value> + use<> {
    let kind = of.get("type").and_then(Value::as_str).unwrap_or_default();
    let values = of.get("enum").and_then(Value::as_array);
    let wrong_type = match kind {
        "string" => json!(17),
        _ if values.is_some_and(|values| values[0].is_string()) => json!(17),
        "boolean" => json!("yes"),
        "object" => json!("x"),
        "array" => json!(true),
        _ => json!("x"),
    };
    let integer = |name: &str| of.get(name).and_then(Value::as_i64);
    let float = |name: &str| of.get(name).and_then(Value::as_f64);
    let mut bad = vec![wrong_type];
    match (kind, values) {
        (_, Some(values)) if values[0].is_string() => bad.push(json!("no-such-value")),
        (_, Some(values)) => {
            let last = values.iter().filter_map(Value::as_i64).max().unwrap_or_default();
            bad.extend([last + 1, last * 2, -1].map(Value::from));
        }
        ("integer", _) => {
            bad.push(json!(1.5));
            bad.extend(integer("minimum").map(|least| json!(least - 1)));
            // A TOML file cannot hold a greater value than the largest integer.
            bad.extend(integer("maximum").and_then(|most| most.checked_add(1)).map(Value::from));
            let step = integer("multipleOf").zip(integer("minimum"));
            bad.extend(step.map(|(_, least)| json!(least + 1)));
        }
        ("number", _) => {
            bad.extend(float("minimum").map(|least| json!(least - 0.5)));
            bad.extend(float("maximum").map(|most| json!(most + 0.5)));
        }
        ("array", _) => {
            let element = of.get("items").and_then(|items| items["maximum"].as_i64());
            bad.extend(element.map(|most| json!([most + 1])));
        }
        _ => {}
    }
    bad.into_iter()
}
