// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every structure, register and field that this crate knows, as data for a reference page. Never holds state.

use crate::cap::{msi, msix, pcie, pm, ssid, vendor};
use crate::register::Structure;
use crate::{ext, header};
use std::fmt::Write;

/// Every capability below 100h.
const CAPABILITIES: [Structure; 6] =
    [pm::TABLE, msi::TABLE, vendor::TABLE, ssid::TABLE, pcie::TABLE, msix::TABLE];

/// Every structure, headers first, then capabilities and extended ones in the order of their IDs.
pub fn structures() -> Vec<Structure> {
    let headers = [header::TYPE_0_HEADER, header::TYPE_1_HEADER, header::VIRTUAL_FUNCTION_HEADER];
    headers.into_iter().chain(CAPABILITIES).chain(ext::TABLES).collect()
}

/// The structure of a capability, by its ID; `None` where no table names it.
pub fn capability(id: u8) -> Option<Structure> {
    CAPABILITIES.into_iter().find(|table| table.id == u16::from(id))
}

/// The structure of an extended capability, by its ID; `None` where no table names it.
pub fn extended_capability(id: u16) -> Option<Structure> {
    ext::TABLES.into_iter().find(|table| table.id == id)
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
    /// The bits, in place in their DW.
    pub bits: u32,
    /// Why nothing changes with them.
    pub why: &'static str,
}

/// Every writable field without effect, and why.
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

/// The bits of a mask as the specification writes them: "15:8, 3".
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

/// A page in Markdown: a table for each structure, with every field, its attribute, and what it changes.
pub fn markdown() -> String {
    let mut page = String::new();
    for structure in structures() {
        let _ = writeln!(page, "## {}\n\n`{}`\n", structure.name, structure.source);
        page.push_str(
            "| offset | register | bits | field | attribute | what it changes |\n|---|---|---|---|---|---|\n",
        );
        for word in structure.words {
            for field in word.fields {
                let what = match field.inert {
                    Some(why) => format!("inert: {why}"),
                    None => field.does.to_owned(),
                };
                let (offset, bits) = (word.dw * 4, bit_ranges(field.bits));
                let _ = writeln!(
                    page,
                    "| {offset:02x}h | {} | {bits} | {} | {} | {what} |",
                    word.name, field.name, field.attribute
                );
            }
        }
        page.push('\n');
    }
    page
}
