// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A [`Schema`] as JSON Schema for editors and validators. They read draft 7, and know none of the extensions of
//! [`schema`](super::schema); this module replaces both. taplo, the language server of most editors, completes keys from `properties`
//! and `$ref` alone, and never returns from a key whose schema has `allOf`. So a key has its type's schema in it, unless the type is a table.

use super::schema::{Schema, flat, is_figure};
use serde_json::{Map, Value, json};

/// The draft of the output.
const DRAFT: &str = "http://json-schema.org/draft-07/schema#";
/// Integer types, each with its largest value, which is the limit if a key declares none.
const LARGEST: [(&str, u64); 2] = [("uint32", u32::MAX as u64), ("uint64", u64::MAX)];
/// Limits of a number, which a figure has for its value.
const LIMITS: [&str; 4] = ["minimum", "maximum", "enum", "powerOfTwo"];

impl Schema {
    /// Returns the schema as JSON Schema, draft 7, with this title.
    #[must_use]
    pub fn json(&self, title: &str) -> Value {
        let mut schema = self.converted("#");
        (schema["$schema"], schema["title"]) = (DRAFT.into(), title.into());
        schema
    }

    /// Returns one JSON Schema for files of two kinds, which the value of their key `key` distinguishes.
    #[must_use]
    pub fn json_of_kinds(title: &str, key: &str, kinds: [(&str, Schema); 2]) -> Value {
        let [first, second] = [kinds[0].0, kinds[1].0];
        let place = |name: &str| format!("#/definitions/{name}");
        // Editors complete the keys of both kinds. The rule below refuses those of the other one.
        let keys = kinds.iter().flat_map(|(name, schema)| {
            schema.keys("").into_iter().map(move |key| (key, format!("{}/properties/{key}", place(name))))
        });
        let mut keys: Map<String, Value> =
            keys.map(|(key, of)| (key.to_owned(), json!({ "$ref": of }))).collect();
        keys.insert(key.to_owned(), json!({ "enum": [first, second] }));
        let all: Map<String, Value> =
            kinds.iter().map(|(name, schema)| ((*name).to_owned(), schema.converted(&place(name)))).collect();
        json!({
            "$schema": DRAFT,
            "title": title,
            "type": "object",
            "properties": keys,
            "required": [key],
            "if": { "properties": { key: { "const": second } } },
            "then": { "$ref": place(second) },
            "else": { "$ref": place(first) },
            "definitions": all,
        })
    }

    /// Returns the schema in draft 7, for the place `root` of a document.
    fn converted(&self, root: &str) -> Value {
        let Value::Object(mut schema) = self.root().clone() else { return Value::Null };
        let Some(Value::Object(all)) = schema.remove("$defs").or_else(|| Some(json!({}))) else {
            return Value::Null;
        };
        schema.retain(|key, _| key != "$schema" && key != "title");
        let types = Types { all: &all, root };
        let tables = all.iter().filter(|(name, of)| !is_inline(name, of));
        let tables: Map<String, Value> = tables.map(|(name, of)| (name.clone(), types.draft_7(of))).collect();
        let mut schema = types.draft_7(&Value::Object(schema));
        if !tables.is_empty() {
            schema["definitions"] = Value::Object(tables);
        }
        schema
    }
}

/// True for a type whose schema stands in each key of the type.
fn is_inline(name: &str, of: &Value) -> bool {
    let is_table = ["properties", "items", "additionalProperties"].iter().any(|key| of.get(key).is_some());
    is_figure(name) || !is_table
}

/// The types of a schema. Types that are tables are definitions of the schema.
struct Types<'a> {
    all: &'a Map<String, Value>,
    root: &'a str,
}

impl Types<'_> {
    /// Converts the schema of a value, and those in it.
    fn draft_7(&self, schema: &Value) -> Value {
        let Some(schema) = schema.as_object() else { return schema.clone() };
        let mut own = self.with_type(without_null(schema));
        limit(&mut own);
        name_values(&mut own);
        keep_simple_default(&mut own);
        let own = own.into_iter().map(|(key, of)| {
            let of = self.below(&key, &of);
            (key, of)
        });
        Value::Object(own.collect())
    }

    /// Converts the schemas in the value of keyword `key`.
    fn below(&self, key: &str, of: &Value) -> Value {
        match (key, of) {
            ("properties", Value::Object(all)) => {
                all.iter().map(|(name, of)| (name.clone(), self.draft_7(of))).collect()
            }
            ("items" | "additionalProperties" | "if" | "then" | "else", of) => self.draft_7(of),
            ("anyOf" | "oneOf", Value::Array(all)) => all.iter().map(|of| self.draft_7(of)).collect(),
            ("description", of) => flat(of).into(),
            (_, of) => of.clone(),
        }
    }

    /// Replaces the reference to a type by its schema, in which the key's own keywords have precedence. A reference to a table stays.
    fn with_type(&self, mut own: Map<String, Value>) -> Map<String, Value> {
        let Some(target) = own.remove("$ref") else { return own };
        let name = target.as_str().and_then(|target| target.strip_prefix("#/$defs/")).unwrap_or_default();
        let Some(of) = self.all.get(name).filter(|of| is_inline(name, of)).and_then(Value::as_object) else {
            own.insert("$ref".to_owned(), format!("{}/definitions/{name}", self.root).into());
            return own;
        };
        let mut of = without_null(of);
        if is_figure(name) {
            let limits = LIMITS.into_iter().filter_map(|key| Some((key, own.remove(key)?)));
            limits.for_each(|(key, limit)| of["properties"]["value"][key] = limit);
        }
        of.extend(own);
        // The referenced type may itself be a reference.
        self.with_type(of)
    }
}

/// Removes null, which TOML does not have.
fn without_null(schema: &Map<String, Value>) -> Map<String, Value> {
    let mut own = schema.clone();
    if let Some(Value::Array(all)) = own.get_mut("anyOf") {
        all.retain(|one| one["type"] != "null");
        if let [Value::Object(only)] = all.as_slice() {
            let only = only.clone();
            own.remove("anyOf");
            only.into_iter().for_each(|(key, of)| _ = own.entry(key).or_insert(of));
        }
    }
    if let Some(Value::Array(types)) = own.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            own.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = own.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    own
}

/// Replaces integer types, powers of two and limits that another key raises by limits of draft 7.
fn limit(own: &mut Map<String, Value>) {
    let format = own.remove("format");
    let format = format.as_ref().and_then(Value::as_str);
    let largest = LARGEST.iter().find(|(name, _)| Some(*name) == format);
    if let (Some((_, largest)), false) = (largest, own.contains_key("enum")) {
        own.entry("maximum").or_insert_with(|| (*largest).into());
    }
    if let Some(raised) = own.remove("scaledMaximum") {
        own.insert("maximum".to_owned(), raised);
    }
    if own.remove("powerOfTwo").is_some() {
        let [least, most] = ["minimum", "maximum"].map(|key| own.remove(key).and_then(|of| of.as_u64()));
        let within = |n: &u64| least.is_none_or(|least| *n >= least) && most.is_none_or(|most| *n <= most);
        let powers = (0..u64::BITS).map(|bit| 1_u64 << bit).filter(within);
        own.insert("enum".to_owned(), powers.collect());
    }
}

/// Replaces the choices of an enumeration by a list of values, which has better messages, with their meanings for taplo.
fn name_values(own: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = own.get("oneOf") else { return };
    let values: Option<Vec<Value>> = choices.iter().map(|one| one.get("const").cloned()).collect();
    let Some(values) = values else { return };
    let meanings: Vec<String> = choices.iter().map(|one| flat(&one["description"])).collect();
    own.remove("oneOf");
    own.insert("enum".to_owned(), values.into());
    own.insert("x-taplo".to_owned(), json!({ "docs": { "enumValues": meanings } }));
}

/// Removes defaults that a line of TOML cannot show.
fn keep_simple_default(own: &mut Map<String, Value>) {
    let is_simple = |value: &Value| !value.is_null() && !value.is_object();
    let is_shown = |value: &Value| match value {
        Value::Array(all) => all.iter().all(is_simple),
        value => is_simple(value),
    };
    if own.get("default").is_some_and(|value| !is_shown(value)) {
        own.remove("default");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Figure;
    use schemars::JsonSchema;

    /// Kind of a part.
    #[derive(JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    #[expect(dead_code, reason = "only its schema is used")]
    enum Kind {
        /// The first kind.
        First,
        /// The second kind.
        Second,
    }

    /// An inner table.
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Inner {
        /// A name.
        name: String,
    }

    /// A file.
    #[derive(JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct File {
        /// A size.
        #[schemars(range(min = 4, max = 32), extend("powerOfTwo" = true))]
        size: u32,
        /// A count.
        count: Option<u32>,
        /// A credit.
        #[schemars(range(min = 0, max = 127), extend("scaledMaximum" = 2032))]
        credits: Option<u16>,
        /// A kind of
        /// two lines.
        kind: Option<Kind>,
        /// A table.
        table: Inner,
        /// A figure.
        #[schemars(extend("minimum" = 1, "maximum" = 8))]
        figure: Figure<u32>,
    }

    #[test]
    fn keys_become_draft_7() {
        let schema = Schema::of::<File>().json("file");
        let rows = [
            ("size", json!({ "type": "integer", "enum": [4, 8, 16, 32], "description": "A size." })),
            (
                "count",
                json!({ "type": "integer", "minimum": 0, "maximum": 4_294_967_295_u32, "description": "A count." }),
            ),
            (
                "credits",
                json!({ "type": "integer", "minimum": 0, "maximum": 2032, "description": "A credit." }),
            ),
            (
                "kind",
                json!({
                    "enum": ["first", "second"],
                    "x-taplo": { "docs": { "enumValues": ["The first kind.", "The second kind."] } },
                    "description": "A kind of two lines.",
                }),
            ),
            ("table", json!({ "$ref": "#/definitions/Inner", "description": "A table." })),
        ];
        for (key, expected) in rows {
            assert_eq!(schema["properties"][key], expected, "{key}: {schema:#}");
        }
        let figure = &schema["properties"]["figure"];
        assert_eq!(
            (&figure["required"], &figure["additionalProperties"]),
            (&json!(["value", "source"]), &json!(false))
        );
        let value = &figure["properties"]["value"];
        assert_eq!(
            (&value["type"], &value["minimum"], &value["maximum"]),
            (&json!("integer"), &json!(1), &json!(8))
        );
        assert_eq!(schema["definitions"].as_object().unwrap().keys().collect::<Vec<_>>(), ["Inner"]);
        assert_eq!((&schema["additionalProperties"], &schema["title"]), (&json!(false), &json!("file")));
    }

    #[test]
    fn kinds_of_files_refer_to_their_own_definitions() {
        let schema = Schema::json_of_kinds(
            "files",
            "kind",
            [("a", Schema::of::<File>()), ("b", Schema::of::<Inner>())],
        );
        let table = schema.pointer("/definitions/a/properties/table/$ref").and_then(Value::as_str).unwrap();
        assert_eq!(table, "#/definitions/a/definitions/Inner");
        assert_eq!(schema.pointer(table.trim_start_matches('#')).unwrap()["required"], json!(["name"]));
        assert_eq!(schema["properties"]["name"]["$ref"], "#/definitions/b/properties/name");
        assert_eq!(schema["properties"]["kind"]["enum"], json!(["a", "b"]));
        assert_eq!(schema["else"]["$ref"], "#/definitions/a");
    }
}
