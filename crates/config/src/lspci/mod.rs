// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Configuration space as text, in the format of `lspci -vv`. The lines and words are those of `lspci`, so the two
//! outputs can be compared. The bytes are the only input.
//!
//! - `space`: bytes as registers; `own`: fields by the names of their constants.
//! - `header`: the header; `standard`, `express`: capabilities; `errors`, `extended`: extended capabilities.
//! - `fields`: every field of every register by its name in the specification, from [`structures`](crate::structures); `channels`: the
//!   registers that repeat for each virtual channel.
//! - `class`: names of classes; `select`: selection of functions to show.

mod channels;
mod class;
mod errors;
mod express;
mod extended;
mod fields;
mod header;
mod own;
mod select;
mod space;
mod standard;

pub use class::class_name;
pub use express::{LinkRegisters, link};
pub use select::{Selection, SelectionError};
pub use space::Space;

use crate::header::{CAPABILITIES_POINTER, COMMAND_STATUS, status};
use crate::space::{ConfigSpace, REGISTERS};
use crate::{cap, ext};
use own::Own;
use space::Lines;
use std::fmt::Write;

/// Maximum length of the capability list: one DW each between 40h and FFh. A longer list is a loop.
const MAX_CAPABILITIES: usize = 48;
/// Maximum length of the extended capability list: one DW each between 100h and FFFh.
const MAX_EXTENDED: usize = 960;
/// Offset of the first extended capability.
const FIRST_EXTENDED: u16 = 0x100;

/// Level of detail of [`function`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Detail {
    /// Adds every field of every register.
    pub fields: bool,
}

/// The header of a capability.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Capability ID.
    pub id: u16,
    /// Version of an extended capability; `None` for the others.
    pub version: Option<u8>,
    /// Offset of its first byte.
    pub at: u16,
}

impl Head {
    /// True for the PCI Express capability.
    pub fn is_express(&self) -> bool {
        self.version.is_none() && self.id == u16::from(cap::pcie::ID)
    }
}

/// Describes one function, without the line that names it. `sizes` are the bytes of BARs 0 to 5 and of the expansion
/// ROM: they are needed because a BAR that software has set no longer contains its size.
pub fn function(space: &Space<'_>, sizes: &[u64; 7], detail: Detail) -> String {
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

/// Lists the capabilities, then the extended capabilities, each in the order of its list.
pub fn heads(space: &Space<'_>) -> Vec<Head> {
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

/// Returns the name that `lspci` gives a capability.
pub fn title(head: Head) -> String {
    let Some(table) = own::table(head) else {
        let extended = if head.version.is_some() { "Extended " } else { "" };
        return format!("{extended}Capability ID {:#04x}", head.id);
    };
    let otherwise = TITLES.iter().find(|(name, _)| *name == table.name);
    otherwise.map_or(table.name, |(_, title)| title).to_owned()
}

/// Capabilities whose names in `lspci` differ from the specification's.
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

/// Formats a configuration space for `lspci -F`: a line that starts with the function's ID, then 16 bytes per line, then an empty
/// line.
pub fn hexdump(name: &str, space: &[u8]) -> String {
    let mut text = format!("{name}\n");
    for (line, bytes) in space.chunks(16).enumerate() {
        let _ = writeln!(text, "{:02x}: {}", line * 16, space::hex(bytes.iter().copied()));
    }
    text.push('\n');
    text
}

impl ConfigSpace {
    /// Returns the space as `lspci -x` prints it and `lspci -F` reads it. The first line has `bdf` ("00:01.0") and
    /// `what`. Then follow 256 bytes, or 4096 if there are extended capabilities, 16 per line, and an empty line.
    pub fn hexdump(&self, bdf: &str, what: &str) -> String {
        let words = if self.capabilities.extended.is_empty() { 64 } else { REGISTERS as u16 };
        let bytes: Vec<u8> = (0..words).flat_map(|dw| self.read(dw).to_le_bytes()).collect();
        hexdump(&format!("{bdf} {what}"), &bytes)
    }
}
