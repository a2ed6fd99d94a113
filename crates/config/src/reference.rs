// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every structure, register and field that this crate knows, as data for a reference page. Never holds state.

use crate::cap::{msi, msix, pcie, pm, ssid, vendor};
use crate::register::Structure;
use crate::{ext, header};
use std::fmt::Write;

/// Every structure, headers first, then capabilities and extended ones in the order of their IDs.
#[must_use]
pub fn structures() -> Vec<Structure> {
    let mut all = vec![
        header::TYPE_0_HEADER,
        header::TYPE_1_HEADER,
        header::VIRTUAL_FUNCTION_HEADER,
        pm::TABLE,
        msi::TABLE,
        vendor::TABLE,
        ssid::TABLE,
        pcie::TABLE,
        msix::TABLE,
    ];
    all.extend(ext::TABLES);
    all
}

/// The structure of a capability, by its ID; `None` where no table names it.
#[must_use]
pub const fn capability(id: u8) -> Option<Structure> {
    Some(match id {
        pm::ID => pm::TABLE,
        msi::ID => msi::TABLE,
        vendor::ID => vendor::TABLE,
        ssid::ID => ssid::TABLE,
        pcie::ID => pcie::TABLE,
        msix::ID => msix::TABLE,
        _ => return None,
    })
}

/// The structure of an extended capability, by its ID; `None` where no table names it.
#[must_use]
pub const fn extended_capability(id: u16) -> Option<Structure> {
    Some(match id {
        ext::aer::ID => ext::aer::TABLE,
        ext::vc::ID => ext::vc::TABLE,
        ext::serial::ID => ext::serial::TABLE,
        ext::vendor::ID => ext::vendor::TABLE,
        ext::acs::ID => ext::acs::TABLE,
        ext::ari::ID => ext::ari::TABLE,
        ext::ats::ID => ext::ats::TABLE,
        ext::sriov::ID => ext::sriov::TABLE,
        ext::pri::ID => ext::pri::TABLE,
        ext::resizable::ID => ext::resizable::TABLE,
        ext::ltr::ID => ext::ltr::TABLE,
        ext::secondary::ID => ext::secondary::TABLE,
        ext::pasid::ID => ext::pasid::TABLE,
        ext::dpc::ID => ext::dpc::TABLE,
        ext::l1ss::ID => ext::l1ss::TABLE,
        ext::ptm::ID => ext::ptm::TABLE,
        ext::data_link_feature::ID => ext::data_link_feature::TABLE,
        ext::physical_16::ID => ext::physical_16::TABLE,
        ext::margining::ID => ext::margining::TABLE,
        ext::physical_32::ID => ext::physical_32::TABLE,
        _ => return None,
    })
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
#[must_use]
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
#[must_use]
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
#[must_use]
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
