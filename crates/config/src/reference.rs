// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every structure, register and field of this crate, as data for a reference page.

use crate::kinds::{FunctionKind, WritableField};
use crate::register::{Field, Structure};
use crate::{cap, ext, header};
use std::fmt::Write;

/// Returns every structure: headers first, then capabilities and extended capabilities in the order of their IDs.
pub fn structures() -> Vec<Structure> {
    let headers = [header::TYPE_0_HEADER, header::TYPE_1_HEADER, header::VIRTUAL_FUNCTION_HEADER];
    headers.into_iter().chain(cap::TABLES).chain(ext::TABLES).collect()
}

/// Bits that software may write to no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inert {
    /// The structure's name.
    pub capability: &'static str,
    /// The registers' names.
    pub register: &'static str,
    /// The field's name.
    pub field: &'static str,
    /// The bits, in their positions in the DW.
    pub bits: u32,
    /// Reason why the bits have no effect.
    pub why: &'static str,
}

/// Returns every writable field without effect.
pub fn inert() -> Vec<Inert> {
    let mut all = Vec::new();
    for structure in structures() {
        for word in structure.words {
            for field in word.fields {
                let Some(why) = field.inert else { continue };
                let (capability, register) = (structure.name, word.name);
                all.push(Inert { capability, register, field: field.name, bits: field.bits, why });
            }
        }
    }
    all
}

/// Formats the bits of a mask as in the specification: "15:8, 3".
pub fn bit_ranges(bits: u32) -> String {
    let mut text = String::new();
    let mut high = 31_i32;
    while high >= 0 {
        if bits >> high & 1 == 0 {
            high -= 1;
            continue;
        }
        let mut low = high;
        while low > 0 && bits >> (low - 1) & 1 == 1 {
            low -= 1;
        }
        let comma = if text.is_empty() { "" } else { ", " };
        let _ = if low == high { write!(text, "{comma}{high}") } else { write!(text, "{comma}{high}:{low}") };
        high = low - 1;
    }
    text
}

/// Returns a page in Markdown with one table per structure. It lists every field, its attribute, the kinds of functions in
/// which software may write it, and its effect.
pub fn markdown() -> String {
    let writable = FunctionKind::ALL.map(|kind| (kind, kind.writable()));
    let mut page = String::new();
    for structure in structures() {
        let _ = writeln!(page, "## {}\n\n`{}`\n", structure.name, structure.source);
        page.push_str(
            "| offset | register | bits | field | attribute | written in | what it changes |\n|---|---|---|---|---|---|---|\n",
        );
        for word in structure.words {
            for field in word.fields {
                let here = |f: &WritableField| {
                    (f.structure, f.register, f.field) == (structure.name, word.name, field.name)
                };
                let kinds = writable.iter().filter_map(|(kind, all)| {
                    let field = all.iter().find(|f| here(f))?;
                    Some((*kind, field.inert))
                });
                let kinds: Vec<(FunctionKind, Option<&str>)> = kinds.collect();
                let (offset, bits) = (word.dw * 4, bit_ranges(field.bits));
                let names: Vec<&str> = kinds.iter().map(|(kind, _)| kind.short()).collect();
                let _ = writeln!(
                    page,
                    "| {offset:02x}h | {} | {bits} | {} | {} | {} | {} |",
                    word.name,
                    field.name,
                    field.attribute,
                    names.join(", "),
                    what_changes(field, &kinds)
                );
            }
        }
        page.push('\n');
    }
    page
}

/// Effect of a field, or the reason for no effect, in all or in some kinds of functions.
fn what_changes(field: &Field, kinds: &[(FunctionKind, Option<&str>)]) -> String {
    if let Some(why) = field.inert {
        return format!("inert: {why}");
    }
    let mut text = field.does.to_owned();
    for (kind, why) in kinds {
        if let Some(why) = why {
            let _ = write!(text, "; inert in {}: {why}", kind.name());
        }
    }
    text
}
