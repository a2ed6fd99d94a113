// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the literal tables of the dissector's Lua files.

const FORMATS_LUA: &str = include_str!("../../../../../tools/wireshark/riser/formats.lua");
const RULES_LUA: &str = include_str!("../../../../../tools/wireshark/riser/rules.lua");

/// A row of `formats.tlp`.
#[derive(PartialEq, Eq, Debug, Default)]
pub(crate) struct TlpRow {
    pub(crate) fmt: u8,
    pub(crate) type_bits: u8,
    pub(crate) mask: u8,
    pub(crate) name: String,
    pub(crate) header_dw: u8,
    pub(crate) data: bool,
    pub(crate) class: String,
    pub(crate) family: String,
}

/// What stands between the line that starts with `first` and the next line `}`.
fn section<'a>(lua: &'a str, first: &str) -> &'a str {
    let start = lua.find(first).unwrap_or_else(|| panic!("no {first}"));
    let end = lua[start..].find("\n}").unwrap_or_else(|| panic!("{first} has no end"));
    &lua[start..start + end]
}

/// The keys and values of each row of a table whose rows stand on a line each.
fn rows<'a>(first: &str) -> impl Iterator<Item = Vec<(&'a str, &'a str)>> {
    section(FORMATS_LUA, first).lines().skip(1).map(|line| {
        let pairs = line.trim().trim_start_matches('{').trim_end_matches("},").split(',');
        let pair = |pair: &'a str| pair.split_once('=').unwrap_or_else(|| panic!("{pair}"));
        pairs.map(pair).map(|(key, value)| (key.trim(), value.trim())).collect()
    })
}

fn text(value: &str) -> String {
    value.trim_matches('"').to_owned()
}

/// The rows of `formats.tlp`.
pub(crate) fn tlp_rows() -> Vec<TlpRow> {
    rows("formats.tlp = {").map(|pairs| tlp_row(&pairs)).collect()
}

fn tlp_row(pairs: &[(&str, &str)]) -> TlpRow {
    let mut row = TlpRow::default();
    for (key, value) in pairs {
        match *key {
            "fmt" => row.fmt = number(value),
            "type" => row.type_bits = number(value),
            "mask" => row.mask = number(value),
            "name" => row.name = text(value),
            "header_dw" => row.header_dw = number(value),
            "data" => row.data = *value == "true",
            "class" => row.class = text(value),
            "family" => row.family = text(value),
            other => panic!("{other}"),
        }
    }
    row
}

/// A row of `formats.messages`.
#[derive(PartialEq, Eq, Debug, Default)]
pub(crate) struct MessageRow {
    pub(crate) code: u8,
    pub(crate) subtype: Option<u8>,
    pub(crate) name: String,
    pub(crate) routings: u8,
    /// `None` stands for "free".
    pub(crate) data_dw: Option<u8>,
    pub(crate) tc0: Option<String>,
}

/// The rows of `formats.messages`.
pub(crate) fn message_rows() -> Vec<MessageRow> {
    rows("formats.messages = {").map(|pairs| message_row(&pairs)).collect()
}

fn message_row(pairs: &[(&str, &str)]) -> MessageRow {
    let mut row = MessageRow::default();
    for (key, value) in pairs {
        match *key {
            "code" => row.code = number(value),
            "subtype" => row.subtype = Some(number(value)),
            "name" => row.name = text(value),
            "routings" => row.routings = number(value),
            "data_dw" => row.data_dw = (*value != "\"free\"").then(|| number(value)),
            "tc0" => row.tc0 = Some(text(value)),
            other => panic!("{other}"),
        }
    }
    row
}

fn number(value: &str) -> u8 {
    let parsed = match value.strip_prefix("0x") {
        Some(digits) => u8::from_str_radix(digits, 16),
        None => value.parse(),
    };
    parsed.unwrap_or_else(|_| panic!("{value}"))
}

/// Name, section and text of the rows of `rules.malformed`, then of `rules.tolerated`.
pub(crate) fn rule_rows() -> Vec<[String; 3]> {
    ["rules.malformed = {", "rules.tolerated = {"]
        .into_iter()
        .flat_map(|table| section(RULES_LUA, table).split("\n    { ").skip(1))
        .map(|row| {
            let texts: Vec<&str> = row.split('"').skip(1).step_by(2).collect();
            [texts[0].to_owned(), texts[1].to_owned(), texts[3].to_owned()]
        })
        .collect()
}
