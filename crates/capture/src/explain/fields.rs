// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fields of a header, in the order of their position.

use super::FieldValue;
use crate::render::{prefix_name, status_name};
use std::fmt::Write;
use tlp::format::Family;
use tlp::message::MessageType;
use tlp::wire::field;
use tlp::{AddressType, Attributes, Bdf, Header, MessageRouting, ProcessingHint, Status};

type Fields = Vec<FieldValue>;

/// The fields of the prefixes and of the header.
pub(super) fn of(header: &Header<'_>) -> Fields {
    let mut fields = Fields::new();
    for prefix in header.prefixes() {
        put(&mut fields, "Prefix", prefix.0, format!("{:#010x} {}", prefix.0, prefix_name(prefix)));
    }
    common(header, &mut fields);
    match header.format().family {
        Family::Memory | Family::Io | Family::Atomic => address(header, &mut fields),
        Family::Config => config(header, &mut fields),
        Family::Message => message(header, &mut fields),
        Family::Completion => completion(header, &mut fields),
    }
    fields
}

/// Appends the type and the fields of a header in one line. Leaves out Fmt, which the type implies, and flags that
/// are 0.
pub(super) fn append_line(header: &Header<'_>, out: &mut String) {
    const IF_SET: [&str; 8] = ["TC", "Attr", "LN", "TH", "TD", "EP", "AT", "BCM"];
    out.push_str(header.format().name);
    for FieldValue { name, value, text } in of(header) {
        if !matches!(name, "Fmt" | "Type") && (value != 0 || !IF_SET.contains(&name)) {
            // Writing to a string cannot fail.
            let _ = write!(out, "; {name} {text}");
        }
    }
}

pub(super) fn put(fields: &mut Fields, name: &'static str, value: impl Into<u64>, text: impl Into<String>) {
    fields.push(FieldValue { name, value: value.into(), text: text.into() });
}

pub(super) fn function(fields: &mut Fields, name: &'static str, bits: u32) {
    put(fields, name, bits, Bdf::from_bits(bits as u16).to_string());
}

pub(super) fn flag(fields: &mut Fields, name: &'static str, is_set: bool, meaning: &str) {
    put(fields, name, is_set, if is_set { format!("1 {meaning}") } else { "0".to_owned() });
}

fn common(header: &Header<'_>, fields: &mut Fields) {
    let format = header.format();
    let data = if format.has_data { "with data" } else { "no data" };
    let fmt = header.get(field::FMT);
    put(fields, "Fmt", fmt, format!("{fmt:03b}b {} DW header, {data}", format.header_dw));
    let ty = header.get(field::TYPE);
    put(fields, "Type", ty, format!("{ty:05b}b {}", format.name));
    put(fields, "TC", header.tc().bits(), header.tc().bits().to_string());
    put(fields, "Attr", header.attr().bits(), attributes(header.attr()));
    flag(fields, "LN", header.ln(), "lightweight notification");
    flag(fields, "TH", header.th(), "processing hint");
    flag(fields, "TD", header.td(), "a digest (ECRC) follows the data");
    flag(fields, "EP", header.ep(), "the data is poisoned");
    let at = match header.at() {
        AddressType::Untranslated => "untranslated",
        AddressType::TranslationRequest => "translation request",
        AddressType::Translated => "translated",
        AddressType::Reserved => "reserved",
    };
    put(fields, "AT", header.at().bits(), format!("{:02b}b {at}", header.at().bits()));
    let length = header.get(field::LENGTH);
    let has_length = format.has_data || matches!(format.family, Family::Memory | Family::Io | Family::Config);
    let text = match has_length {
        true => format!("{} DW, {} bytes", header.length_dw(), header.length_dw() * 4),
        false => format!("{length} reserved"),
    };
    put(fields, "Length", length, text);
}

pub(super) fn attributes(attr: Attributes) -> String {
    let names = [
        (Attributes::ID_BASED_ORDERING, "ID-based ordering"),
        (Attributes::RELAXED_ORDERING, "relaxed ordering"),
        (Attributes::NO_SNOOP, "no snoop"),
    ];
    let set: Vec<&str> = names.iter().filter(|(bit, _)| attr.contains(*bit)).map(|(_, name)| *name).collect();
    let bits = attr.bits();
    if set.is_empty() { format!("{bits:03b}b") } else { format!("{bits:03b}b {}", set.join(", ")) }
}

fn requester(header: &Header<'_>, fields: &mut Fields) {
    function(fields, "Requester ID", header.get(field::REQUESTER));
    let tag = header.tag(field::TAG).bits();
    put(fields, "Tag", tag, format!("{tag:#04x}"));
}

fn byte_enables(header: &Header<'_>, fields: &mut Fields) {
    for (name, enables) in [("Last DW BE", field::LAST_BE), ("First DW BE", field::FIRST_BE)] {
        let bits = header.get(enables);
        put(fields, name, bits, format!("{bits:04b}b"));
    }
}

fn address(header: &Header<'_>, fields: &mut Fields) {
    requester(header, fields);
    if header.format().family != Family::Atomic {
        byte_enables(header, fields);
    }
    let width = if header.format().header_dw == 4 { "64-bit" } else { "32-bit" };
    put(fields, "Address", header.address(), format!("{:#010x} {width}", header.address()));
    if header.th() {
        let last = header.bytes().last().copied().unwrap_or_default();
        let hint = ProcessingHint::from_bits(last);
        put(fields, "PH", hint.bits(), format!("{:02b}b", hint.bits()));
    }
}

fn config(header: &Header<'_>, fields: &mut Fields) {
    requester(header, fields);
    byte_enables(header, fields);
    function(fields, "Completer ID", header.get(field::CONFIG_COMPLETER));
    let register = header.get(field::REGISTER_DW) * 4;
    put(fields, "Register", register, format!("{register:#05x}"));
}

fn message(header: &Header<'_>, fields: &mut Fields) {
    requester(header, fields);
    let code = header.get(field::BYTE_ENABLES);
    let last = header.bytes().last_chunk::<8>().copied().unwrap_or_default();
    let row = MessageType::of(code as u8, &last, header.format().has_data);
    let name = row.map_or("", |row| row.name);
    put(fields, "Message Code", code, format!("{code:#04x} {name}").trim_end().to_owned());
    let routing = MessageRouting::from_bits(header.get(field::ROUTING) as u8);
    put(fields, "Routing", routing.bits(), format!("{:03b}b {routing}", routing.bits()));
    let [high, low] =
        [0, 4].map(|at| u32::from_be_bytes([last[at], last[at + 1], last[at + 2], last[at + 3]]));
    if routing == MessageRouting::ById {
        function(fields, "Target ID", high >> 16);
    }
    put(fields, "Header DW 2", high, format!("{high:#010x}"));
    put(fields, "Header DW 3", low, format!("{low:#010x}"));
}

fn completion(header: &Header<'_>, fields: &mut Fields) {
    function(fields, "Completer ID", header.get(field::COMPLETER));
    let bits = header.get(field::STATUS);
    let status = Status::from_bits(bits as u8);
    let short = if u32::from(status.bits()) == bits { status_name(status) } else { "reserved, taken as UR" };
    put(fields, "Status", bits, format!("{bits:03b}b {short}"));
    flag(fields, "BCM", header.get(field::BCM) != 0, "byte count modified");
    let count = header.get(field::BYTE_COUNT);
    put(fields, "Byte Count", count, format!("{} bytes remain", if count == 0 { 4096 } else { count }));
    function(fields, "Requester ID", header.get(field::ANSWERED_REQUESTER));
    let tag = header.tag(field::ANSWERED_TAG).bits();
    put(fields, "Tag", tag, format!("{tag:#04x}"));
    let lower = header.get(field::LOWER_ADDRESS);
    put(fields, "Lower Address", lower, format!("{lower:#04x}"));
}
