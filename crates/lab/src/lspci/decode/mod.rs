// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A configuration space in words, from its bytes alone, in the manner of `lspci -vv`: the same lines with the same words, so
//! that the two can be compared. Never knows what was built: what it shows was read.
//!
//! - [`space`]: bytes as registers; [`own`]: what fields say, by the names of their constants;
//! - [`header`]: what all functions have; [`standard`], [`express`]: capabilities; [`errors`], [`extended`]: extended
//!   capabilities;
//! - [`fields`]: every field of every register by its name in the specification, from the tables of `riser-config`.

mod errors;
mod express;
mod extended;
mod fields;
mod header;
mod own;
pub(crate) mod space;
mod standard;

pub(crate) use express::{Link, LinkFacts, link};

use config::header::{CAPABILITIES_POINTER, COMMAND_STATUS, status};
use config::{cap, ext};
use own::Own;
use space::{Lines, Space};

/// Capabilities in a list at most, a DW each between 40h and FFh: more would be a loop.
const MAX_CAPABILITIES: usize = 48;
/// Extended capabilities at most, a DW each between 100h and FFFh.
const MAX_EXTENDED: usize = 960;
/// Where the first extended capability stands.
const FIRST_EXTENDED: u16 = 0x100;

/// How much is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Detail {
    /// Every field of every register, besides.
    pub(crate) fields: bool,
}

/// A capability, as its head says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    /// Its ID.
    pub(crate) id: u16,
    /// Version of an extended one; `None` of the others.
    pub(crate) version: Option<u8>,
    /// Offset of its first byte.
    pub(crate) at: u16,
}

impl Head {
    /// True for that of PCI Express.
    pub(crate) fn is_express(&self) -> bool {
        self.version.is_none() && self.id == u16::from(cap::pcie::ID)
    }
}

/// The lines of one function, below the one that names it. `sizes` are bytes of BARs 0 to 5 and of the ROM, which no
/// register shows once it is set.
pub(crate) fn function(space: &Space<'_>, sizes: &[u64; 7], detail: Detail) -> String {
    let mut lines = Lines::default();
    header::show(space, sizes, &mut lines);
    if detail.fields {
        fields::show_header(space, &mut lines);
    }
    for head in heads(space) {
        show(space, head, &mut lines);
        if detail.fields {
            fields::show(space, head, &mut lines);
        }
    }
    lines.text()
}

/// All capabilities in the order of their lists, extended ones behind the others.
pub(crate) fn heads(space: &Space<'_>) -> Vec<Head> {
    let mut all = Vec::new();
    let has_list = space.dw(COMMAND_STATUS * 4) & status::CAPABILITIES_LIST != 0;
    let mut at = if has_list { u16::from(space.byte(CAPABILITIES_POINTER * 4)) & 0xfc } else { 0 };
    while at >= 0x40 && all.len() < MAX_CAPABILITIES {
        all.push(Head { id: u16::from(space.byte(at)), version: None, at });
        at = u16::from(space.byte(at + 1)) & 0xfc;
    }
    let mut at = if space.is_extended() { FIRST_EXTENDED } else { 0 };
    let first = all.len();
    while at >= FIRST_EXTENDED && all.len() - first < MAX_EXTENDED {
        let head = space.dw(at);
        if head == 0 || head == u32::MAX {
            break;
        }
        all.push(Head { id: head as u16, version: Some((head >> 16) as u8 & 0xf), at });
        at = (head >> 20) as u16 & 0xffc;
    }
    all
}

/// What `lspci` calls a capability: as the specification does, or otherwise.
pub(crate) fn title(head: Head) -> String {
    let Some(table) = own::table(head) else {
        let extended = if head.version.is_some() { "Extended " } else { "" };
        return format!("{extended}Capability ID {:#04x}", head.id);
    };
    let otherwise = TITLES.iter().find(|(name, _)| *name == table.name);
    otherwise.map_or(table.name, |(_, title)| title).to_owned()
}

/// What it calls otherwise.
const TITLES: [(&str, &str); 10] = [
    (cap::vendor::TABLE.name, "Vendor Specific Information"),
    (cap::ssid::TABLE.name, "Subsystem"),
    (cap::pcie::TABLE.name, "Express"),
    (ext::vendor::TABLE.name, "Vendor Specific Information"),
    (ext::ari::TABLE.name, "Alternative Routing-ID Interpretation (ARI)"),
    (ext::ats::TABLE.name, "Address Translation Service (ATS)"),
    (ext::sriov::TABLE.name, "Single Root I/O Virtualization (SR-IOV)"),
    (ext::pri::TABLE.name, "Page Request Interface (PRI)"),
    (ext::resizable::TABLE.name, "Physical Resizable BAR"),
    (ext::pasid::TABLE.name, "Process Address Space ID (PASID)"),
];

fn show(space: &Space<'_>, head: Head, lines: &mut Lines) {
    match head.version {
        None => lines.line(1, format!("Capabilities: [{:02x}] {}", head.at, title(head))),
        Some(version) => lines.line(1, format!("Capabilities: [{:x} v{version}] {}", head.at, title(head))),
    }
    let mut own = Own::of(space, head, lines);
    match head.version {
        None => standard::show(&mut own, head),
        Some(_) => extended::show(&mut own, head),
    }
}
