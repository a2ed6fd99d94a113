// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes the dissector's tables, `tools/wireshark/riser/tables.lua`, from the tables of `tlp`.

use std::fmt::Write;
use tlp::FORMATS;
use tlp::message::{MESSAGES, MessageData, MessageType};
use tlp::rules::{RULES, Rule, RuleId, Unit};

const HEAD: &str = "\
-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Generated from the tables of crates/tlp by `make reference`. Do not edit.

local tables = {}
";

/// Rules about the first byte, about missing bytes and about the size. Other expert items of the dissector report
/// them.
const NOT_OF_THE_HEADER: [RuleId; 5] =
    [RuleId::ReservedFmt, RuleId::ReservedType, RuleId::PrefixedHeader, RuleId::Length, RuleId::Digest];

/// Rules about a completion and its request.
pub(crate) const OF_COMPLETIONS: [RuleId; 9] = [
    RuleId::LowerAddress,
    RuleId::ByteCount,
    RuleId::CompletionBoundary,
    RuleId::CompletionLength,
    RuleId::CompletionType,
    RuleId::CompletionTc,
    RuleId::CompletionAttr,
    RuleId::CompletionLocked,
    RuleId::CompletionRetry,
];

pub(crate) fn is_of_header(rule: &&Rule) -> bool {
    !rule.is_of_receiver() && !rule.is_of_several() && !NOT_OF_THE_HEADER.contains(&rule.id)
}

fn format_row(row: &tlp::Format) -> String {
    format!(
        "fmt = {}, type = {:#04x}, mask = {:#04x}, name = \"{}\", header_dw = {}, data = {}, class = \"{}\", family = \"{}\"",
        row.fmt,
        row.type_bits,
        row.type_mask,
        row.name,
        row.header_dw,
        row.has_data,
        riser_capture::render::class_name(row.class),
        row.family.name(),
    )
}

fn message_row(row: &MessageType) -> String {
    let mut text = format!("code = {:#04x}", row.code);
    if let Some(subtype) = row.subtype {
        write!(text, ", subtype = {subtype:#04x}").unwrap();
    }
    let data = match row.data {
        MessageData::Never => "0".to_owned(),
        MessageData::Dw(dw) => dw.to_string(),
        MessageData::Free => "\"free\"".to_owned(),
    };
    write!(text, ", name = \"{}\", routings = {:#04x}, data_dw = {data}", row.name, row.routings).unwrap();
    if let Some(rule) = row.tc0 {
        write!(text, ", tc0 = \"{}\"", Rule::get(rule).name).unwrap();
    }
    text
}

fn rule_row(rule: &Rule) -> String {
    let unit = match rule.unit {
        Unit::Hex => "\"0x%x\"".to_owned(),
        Unit::Dw => "\"0x%08x\"".to_owned(),
        Unit::Binary(digits) => digits.to_string(),
        Unit::Count => "\"%d\"".to_owned(),
        Unit::Bytes => "\"%d bytes\"".to_owned(),
        Unit::DwCount => "\"%d DW\"".to_owned(),
        Unit::Transaction => "\"%s\"".to_owned(),
        unit => unreachable!("no header has a field in {unit:?}"),
    };
    let Rule { name, section, field, legal, .. } = rule;
    let source = format!("{} {section}", rule.specification());
    format!(
        "id = \"{name}\", section = \"{source}\", field = \"{field}\", unit = {unit},\n      legal = \"{legal}\""
    )
}

/// The contents of the file.
pub(crate) fn lua() -> String {
    let (tolerated, malformed): (Vec<&Rule>, Vec<&Rule>) =
        RULES.iter().filter(is_of_header).partition(|rule| rule.is_tolerated());
    let rules = |rules: Vec<&Rule>| rules.into_iter().map(rule_row).collect::<Vec<_>>();
    let of_several = [RuleId::TagInUse, RuleId::UnexpectedCompletion].into_iter().chain(OF_COMPLETIONS);
    let of_several = of_several.map(Rule::get).collect();
    let tables = [
        (
            "tlp",
            "Formats of TLPs (PCIe 5.0 Table 2-3). The column fmt is Fmt[2:0]. The column type is Type[4:0], of which\n\
             -- mask selects the bits. The column class is P (posted), NP (non-posted) or Cpl (completion). The column family is the\n\
             -- layout of the header.",
            FORMATS.iter().map(format_row).collect(),
        ),
        (
            "messages",
            "Messages (PCIe 5.0 Table F-1) by Message Code. If several messages have the same code, they differ in their data,\n\
             -- or in the subtype of PCI-SIG's Vendor_Defined messages (Vendor ID 0001h, header byte 12). Bit n of the column\n\
             -- routings is set if routing n is legal. The column data_dw is the length of the data, or \"free\" if the vendor\n\
             -- chooses the length. The column tc0 is the rule that requires TC 0.",
            MESSAGES.iter().map(message_row).collect(),
        ),
        (
            "malformed",
            "Rules whose violation makes a TLP malformed. unit is the format of a value, or the number of its binary digits.",
            rules(malformed),
        ),
        ("tolerated", "Rules for senders that receivers do not enforce.", rules(tolerated)),
        ("of_several", "Rules that relate several TLPs.", rules(of_several)),
    ];
    let mut file = HEAD.to_owned();
    for (name, comment, rows) in tables {
        let rows: String = rows.iter().map(|row| format!("    {{ {row} }},\n")).collect();
        write!(file, "\n-- {comment}\ntables.{name} = {{\n{rows}}}\n").unwrap();
    }
    file + "\nreturn tables\n"
}
