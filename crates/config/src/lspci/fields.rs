// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every field of every register by its name in the specification, from the tables of `riser-config`. Registers without a
//! table are not shown.

use super::own::table;
use super::space::{Lines, Space};
use super::{Head, channels, errors, heads};
use crate::cap::msi;
use crate::ext::{aer, vc};
use crate::header;
use crate::reference::bit_ranges;
use crate::register::{Field, Word, get};

/// DWs of Advanced Error Reporting that only root ports have (`PCIe 5.0 §7.8.4.9` to `§7.8.4.11`).
const ROOT_ERRORS: [u16; 3] = [aer::ROOT_COMMAND, aer::ROOT_STATUS, aer::ERROR_SOURCE];

/// Shows the fields of the header.
pub(super) fn show_header(space: &Space<'_>, lines: &mut Lines) {
    let table = if space.is_bridge() { header::TYPE_1_HEADER } else { header::TYPE_0_HEADER };
    for word in table.words {
        show_word(space, word.name, word.fields, word.dw * 4, lines);
    }
}

/// Shows the fields of a capability, up to the start of the next one.
pub(super) fn show(space: &Space<'_>, head: Head, lines: &mut Lines) {
    let Some(table) = table(head) else { return };
    let end = space.0.len() as u16;
    let next = heads(space).into_iter().map(|h| h.at).filter(|at| *at > head.at).min().unwrap_or(end);
    // Extended capabilities start a new list after the others.
    let next = if head.version.is_none() { next.min(0x100) } else { next };
    if head.version.is_some() && head.id == vc::ID {
        let at = |dw: u16| head.at.saturating_add(dw * 4);
        let registers = channels::registers(|dw| space.dw(at(dw)));
        for register in registers.iter().filter(|register| at(register.dw) < next) {
            show_word(space, &register.name, &register.fields, at(register.dw), lines);
        }
        return;
    }
    // MSI of 32 bits has no Message Upper Address.
    let is_msi = head.version.is_none() && head.id == u16::from(msi::ID);
    let short = is_msi && space.dw(head.at) & msi::CAPABLE_64_BIT == 0;
    let is_root = errors::is_root(space);
    let roots =
        |w: &&Word| is_root || head.version.is_none() || head.id != aer::ID || !ROOT_ERRORS.contains(&w.dw);
    for word in table.words.iter().filter(|w| !short || w.dw != msi::UPPER_ADDRESS).filter(roots) {
        let dw = if short && word.dw > msi::UPPER_ADDRESS { word.dw - 1 } else { word.dw };
        let at = head.at.saturating_add(dw * 4);
        if at < next {
            show_word(space, word.name, word.fields, at, lines);
        }
    }
}

fn show_word(space: &Space<'_>, name: &str, fields: &[Field], at: u16, lines: &mut Lines) {
    let value = space.dw(at);
    lines.line(2, format!("[{at:03x}] {name} = {value:08x}"));
    for field in fields {
        let (bits, shown) = (bit_ranges(field.bits), get(value, field.bits));
        lines.line(3, format!("{bits} {} = {shown:x} ({})", field.name, field.attribute));
    }
}
