// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every field of every register by its name in the specification, from the tables of `riser-config`. Never shows what no
//! table names.

use super::space::{Lines, Space};
use super::{Head, errors, heads};
use config::reference::bit_ranges;
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
    if head.version.is_some() { extended(head.id) } else { standard(head.id) }
}

fn standard(id: u16) -> Option<Structure> {
    Some(match u8::try_from(id).ok()? {
        cap::pm::ID => cap::pm::TABLE,
        cap::msi::ID => cap::msi::TABLE,
        cap::vendor::ID => cap::vendor::TABLE,
        cap::ssid::ID => cap::ssid::TABLE,
        cap::pcie::ID => cap::pcie::TABLE,
        cap::msix::ID => cap::msix::TABLE,
        _ => return None,
    })
}

fn extended(id: u16) -> Option<Structure> {
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
