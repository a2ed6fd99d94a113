// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The legal values of a table. [`schemars`] generates the schema from the fields, comments and attributes of its type. In addition
//! to JSON Schema (such as `extend("multipleOf" = 8)`), `extend("powerOfTwo" = true)` allows only powers of two.

use crate::model::Fault;
use schemars::{JsonSchema, schema_for};
use serde_json::{Map, Number, Value};
use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Description of a type and of the types in it.
#[derive(Clone, Debug)]
pub struct Schema(Value);

impl Schema {
    /// Returns the schema of `T`.
    pub fn of<T: JsonSchema>() -> Schema {
        Schema(schema_for!(T).to_value())
    }

    /// Returns the schema of `T`, which is generated once.
    pub fn shared<T: JsonSchema + 'static>() -> Arc<Schema> {
        static MADE: Mutex<BTreeMap<TypeId, Arc<Schema>>> = Mutex::new(BTreeMap::new());
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(made.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(Schema::of::<T>())))
    }

    pub(super) fn root(&self) -> &Value {
        &self.0
    }

    /// Returns the first sentence of the type's description.
    pub fn about(&self) -> String {
        let text = flat(&self.0["description"]);
        text.find(". ").map_or(text.clone(), |end| text[..=end].to_owned())
    }

    /// Adds a key `name` with a table of type `of` to the type `at`; its description is `meaning`.
    pub fn add_table(&mut self, at: &str, name: &str, of: &Schema, meaning: &str) {
        let own = format!("{at}.{name}");
        // Types of the same name may differ in the added schema.
        let text = of.0.to_string().replace("\"#/$defs/", &format!("\"#/$defs/{own}."));
        let mut table: Value = serde_json::from_str(&text).unwrap_or_default();
        let below = table.as_object_mut().and_then(|t| t.remove("$defs"));
        let all = &mut self.0["$defs"];
        if let Some(Value::Object(below)) = below {
            below.into_iter().for_each(|(name, of)| all[format!("{own}.{name}")] = of);
        }
        all[at]["properties"][name] =
            serde_json::json!({ "$ref": format!("#/$defs/{own}"), "description": meaning });
        all[&own] = table;
    }

    /// Returns the keys of the type `at`, or of the whole schema if there is no such type.
    pub fn keys(&self, at: &str) -> Vec<&str> {
        let table = self.0.get("$defs").and_then(|all| all.get(at)).unwrap_or(&self.0);
        table["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect()
    }

    /// Returns the required keys.
    pub fn required(&self) -> Vec<&str> {
        self.0["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// Restricts key `name` of the type `at` to these values, each with its meaning.
    pub fn set_values(&mut self, at: &str, name: &str, values: impl Iterator<Item = (String, String)>) {
        let one = |(value, meaning)| serde_json::json!({ "const": value, "description": meaning });
        self.0["$defs"][at]["properties"][name]["oneOf"] = values.map(one).collect();
    }

    /// Returns the type that `schema` refers to, by name and definition.
    fn target<'s>(&'s self, schema: &'s Value) -> Option<(&'s str, &'s Value)> {
        let name = schema.get("$ref").or_else(|| schema.pointer("/anyOf/0/$ref"))?;
        let name = name.as_str()?.rsplit('/').next()?;
        Some((name, self.0.get("$defs")?.get(name)?))
    }

    fn key_of<'s>(&'s self, table: &'s Value, name: &str) -> Option<Key<'s>> {
        Some(Key::new(self, table.get("properties")?.get(name)?))
    }

    /// Returns the legal values of the key at `path`, or its kind. `None` if there is no key of this name.
    pub fn legal(&self, path: &[String]) -> Option<String> {
        let (last, above) = path.split_last()?;
        let mut table = &self.0;
        for name in above.iter().filter(|name| name.parse::<usize>().is_err()) {
            table = self.key_of(table, name)?.target;
        }
        let key = self.key_of(table, last)?;
        Some(match (key.is_table(), key.legal().as_str(), key.kind().as_str()) {
            (true, ..) => if key.is_list() { "tables" } else { "a table" }.to_owned(),
            (false, "-", "boolean") => "true, false".to_owned(),
            (false, "-", kind) => match kind.split_once(" of ") {
                Some((one, what)) => format!("{one}s of {what}"),
                None => format!("{kind}s"),
            },
            (false, legal, _) => legal.to_owned(),
        })
    }

    /// Returns the values in `value` that are outside the limits of their keys, and lists in place of tables, which serde would
    /// accept by the order of fields. Other type errors are not checked.
    pub fn check(&self, value: &Value) -> Vec<Fault> {
        let mut found = Vec::new();
        self.check_table(&self.0, value, &mut Vec::new(), &mut found);
        found
    }

    fn check_table(&self, table: &Value, value: &Value, path: &mut Vec<String>, found: &mut Vec<Fault>) {
        for (name, value) in value.as_object().into_iter().flat_map(Map::iter) {
            let Some(key) = self.key_of(table, name) else { continue };
            path.push(name.clone());
            let elements = value.as_array().filter(|_| key.is_list());
            if let Some(message) = key.refuses(name, value) {
                found.push(Fault { key: path.clone(), message });
            }
            for (n, element) in elements.into_iter().flatten().enumerate() {
                path.push(n.to_string());
                if element.is_array() && key.is_table() {
                    let message = format!("{name} has a list for an element, expected tables");
                    found.push(Fault { key: path.clone(), message });
                }
                self.check_table(key.target, element, path, found);
                path.pop();
            }
            self.check_table(key.target, value, path, found);
            path.pop();
        }
    }
}

/// A key: its own schema, and its type's schema.
pub(super) struct Key<'s> {
    own: &'s Value,
    pub(super) type_name: &'s str,
    pub(super) target: &'s Value,
    /// True for a [`Figure`](crate::profile::Figure): a value with its source.
    is_figure: bool,
}

impl<'s> Key<'s> {
    pub(super) fn new(schema: &'s Schema, own: &'s Value) -> Key<'s> {
        let one = own.get("items").unwrap_or(own);
        let (type_name, mut target) = schema.target(one).unwrap_or(("", one));
        let is_figure = type_name.starts_with("Figure");
        if is_figure {
            target = &target["properties"]["value"];
            target = schema.target(target).map_or(target, |(_, value)| value);
        }
        Key { own, type_name, target, is_figure }
    }

    /// The key's own schema has precedence over its type's.
    fn get(&self, what: &str) -> Option<&Value> {
        self.own.get(what).or_else(|| self.target.get(what)).filter(|v| !v.is_null())
    }

    pub(super) fn is_table(&self) -> bool {
        self.target.get("properties").is_some()
    }

    pub(super) fn is_list(&self) -> bool {
        self.own.get("items").is_some()
    }

    pub(super) fn kind(&self) -> String {
        let is = |name: &str, v: &Value| {
            v == name || v.as_array().is_some_and(|all| all.iter().any(|t| t == name))
        };
        let kind = self.target.get("type").or_else(|| self.get("type"));
        if let Some(Value::Object(values)) = self.get("additionalProperties") {
            return format!("table of {}s", values.get("type").and_then(Value::as_str).unwrap_or("value"));
        }
        let name = ["integer", "number", "string"]
            .into_iter()
            .find(|name| kind.is_some_and(|v| is(name, v)))
            .unwrap_or(if self.get("oneOf").is_some() { "string" } else { "boolean" });
        match (self.is_figure, self.is_list()) {
            (true, _) => format!("figure: {name}"),
            (false, true) => format!("list of {name}s"),
            (false, false) => name.to_owned(),
        }
    }

    pub(super) fn default(&self) -> String {
        match self.get("default") {
            _ if self.is_table() => "none needed".to_owned(),
            Some(value) => format!("`{value}`"),
            None => "see meaning".to_owned(),
        }
    }

    /// The legal values, or a dash if the type alone defines them.
    pub(super) fn legal(&self) -> String {
        let names = self.variants();
        if !names.is_empty() {
            return names.into_iter().map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        }
        if let Some(values) = self.get("enum").and_then(Value::as_array) {
            return values.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
        }
        let limits = [["minItems", "maxItems"], ["minimum", "maximum"]];
        let limits = limits.map(|names| names.map(|name| self.get(name).map(Value::to_string)));
        let [min, max] = if limits[0][0].is_some() { &limits[0] } else { &limits[1] };
        let which = match self.multiple_of() {
            _ if self.is_power_of_two() => "powers of two, ".to_owned(),
            Some(step) => format!("multiples of {step}, "),
            None => String::new(),
        };
        match (min, max.as_deref().or_else(|| self.largest())) {
            (Some(min), Some(max)) if min == max => min.clone(),
            (Some(min), Some(max)) => format!("{which}{min} to {max}"),
            _ => "-".to_owned(),
        }
    }

    /// The largest value of the integer type, if there is no other limit.
    fn largest(&self) -> Option<&'static str> {
        match self.get("format")?.as_str()? {
            "uint32" => Some("2^32 - 1"),
            "uint64" => Some("2^64 - 1"),
            _ => None,
        }
    }

    fn is_power_of_two(&self) -> bool {
        self.get("powerOfTwo") == Some(&Value::Bool(true))
    }

    fn multiple_of(&self) -> Option<u64> {
        self.get("multipleOf")?.as_u64()
    }

    /// Names and meanings of an enumeration's values.
    pub(super) fn variants(&self) -> Vec<(String, String)> {
        let one = |v: &Value| Some((v["const"].as_str()?.to_owned(), flat(&v["description"])));
        let all = self.get("oneOf").and_then(Value::as_array);
        all.map(|all| all.iter().filter_map(one).collect()).unwrap_or_default()
    }

    /// Returns an error if `value` is illegal for this key, which is called `name`.
    fn refuses(&self, name: &str, value: &Value) -> Option<String> {
        let (given, within) = match value {
            Value::Array(_) if self.is_table() && !self.is_list() => {
                return Some(format!("{name} is a list, expected tables"));
            }
            Value::Number(n) => {
                let power = !self.is_power_of_two() || n.as_u64().is_some_and(u64::is_power_of_two);
                let step = self.multiple_of().is_none_or(|s| n.as_u64().is_some_and(|n| n.is_multiple_of(s)));
                (n.to_string(), power && step && self.holds(n, ["minimum", "maximum"]))
            }
            Value::Array(all) if let Some(element) = self.refused_element(all) => {
                let [min, max] = ["minimum", "maximum"].map(|name| self.get(name).unwrap_or(&Value::Null));
                return Some(format!("{name} has an element {element}, expected {min} to {max}"));
            }
            Value::Array(all) => {
                (format!("{} elements", all.len()), self.holds(&all.len().into(), ["minItems", "maxItems"]))
            }
            _ => return None,
        };
        (!within).then(|| format!("{name} of {given}, expected {}", self.legal()))
    }

    /// Returns the first number of a list that is outside the limits of its elements.
    fn refused_element<'v>(&self, all: &'v [Value]) -> Option<&'v Number> {
        all.iter().filter_map(Value::as_number).find(|n| !self.holds(n, ["minimum", "maximum"]))
    }

    fn holds(&self, n: &Number, [min, max]: [&str; 2]) -> bool {
        let limit = |name| self.get(name).and_then(Value::as_number);
        limit(min).is_none_or(|min| !is_less(n, min)) && limit(max).is_none_or(|max| !is_less(max, n))
    }
}

/// Compares numbers, integers exactly.
fn is_less(a: &Number, b: &Number) -> bool {
    match (a.as_i128(), b.as_i128()) {
        (Some(a), Some(b)) => a < b,
        _ => a.as_f64() < b.as_f64(),
    }
}

/// Joins a comment to one line.
pub(super) fn flat(text: &Value) -> String {
    text.as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}
