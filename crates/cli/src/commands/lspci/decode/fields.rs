// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every field of every register by its name in the specification, from the tables of `riser-config`. Never shows what no
//! table names.

use super::space::{Lines, Space};
use super::{Head, errors, heads};
use config::reference::{bit_ranges, capability, extended_capability};
use config::register::{Structure, Word};
use config::{cap, ext, header};

/// DW of Message Upper Address, which MSI of 32 bits has not.
const MSI_UPPER: u16 = 2;
/// DWs of Advanced Error Reporting that only root ports have (`PCIe 5.0 §7.8.4.9` to `§7.8.4.11`).
const ROOT_ERRORS: [u16; 3] = [11, 12, 13];
/// 64-bit Address Capable, of Message Control in place in its DW.
const MSI_64_BIT: u32 = 1 << 23;

/// Shows the fields of the header.
pub(super) fn show_header(space: &Space<'_>, lines: &mut Lines) {
    let table = if space.is_bridge() { header::TYPE_1_HEADER } else { header::TYPE_0_HEADER };
    for word in table.words {
        show_word(space, word, word.dw * 4, lines);
    }
}

/// Shows the fields of a capability, up to where another one begins.
pub(super) fn show(space: &Space<'_>, head: Head, lines: &mut Lines) {
    let Some(table) = table(head) else { return };
    let end = space.0.len() as u16;
    let next = heads(space).into_iter().map(|h| h.at).filter(|at| *at > head.at).min().unwrap_or(end);
    // Above the others, extended ones begin anew.
    let next = if head.version.is_none() { next.min(0x100) } else { next };
    let short =
        head.version.is_none() && head.id == u16::from(cap::msi::ID) && space.dw(head.at) & MSI_64_BIT == 0;
    let is_root = errors::is_root(space);
    let roots = |w: &&Word| is_root || !is_extended(head, ext::aer::ID) || !ROOT_ERRORS.contains(&w.dw);
    for word in table.words.iter().filter(|w| !short || w.dw != MSI_UPPER).filter(roots) {
        let dw = if short && word.dw > MSI_UPPER { word.dw - 1 } else { word.dw };
        let at = head.at.saturating_add(dw * 4);
        if at < next {
            show_word(space, word, at, lines);
        }
    }
}

fn is_extended(head: Head, id: u16) -> bool {
    head.version.is_some() && head.id == id
}

fn show_word(space: &Space<'_>, word: &Word, at: u16, lines: &mut Lines) {
    let value = space.dw(at);
    lines.line(2, format!("[{at:03x}] {} = {value:08x}", word.name));
    for field in word.fields {
        let low = field.bits.trailing_zeros().min(31);
        let (bits, shown) = (bit_ranges(field.bits), (value & field.bits) >> low);
        lines.line(3, format!("{bits} {} = {shown:x} ({})", field.name, field.attribute));
    }
}

/// The table of a capability, where there is one.
fn table(head: Head) -> Option<Structure> {
    match head.version {
        Some(_) => extended_capability(head.id),
        None => capability(u8::try_from(head.id).ok()?),
    }
}
