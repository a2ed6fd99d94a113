// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Capabilities below 100h, but for that of PCI Express: power, interrupts, subsystem, vendor's own.

use super::space::{Lines, Space, field, hex, sign, signs};
use super::{Head, express, title};
use config::cap::{msi, msix, pcie, pm, ssid, vendor};

/// mA that a function may draw in D3cold, by Aux_Current (`PCI PM 1.2 §3.2.3`).
const AUX_CURRENT: [u16; 8] = [0, 55, 100, 160, 220, 270, 320, 375];

/// Shows a capability.
pub(super) fn show(space: &Space<'_>, head: Head, lines: &mut Lines) {
    match u8::try_from(head.id) {
        Ok(pm::ID) => power_management(space, head, lines),
        Ok(msi::ID) => message_signalled(space, head, lines),
        Ok(vendor::ID) => vendor_specific(space, head, lines),
        Ok(ssid::ID) => {
            let at = head.at;
            let text = format!("Subsystem: {:04x}:{:04x}", space.half(at + 4), space.half(at + 6));
            lines.capability(head, text);
        }
        Ok(pcie::ID) => express::show(space, head, lines),
        Ok(msix::ID) => table_of_vectors(space, head, lines),
        _ => lines.capability(head, title(head)),
    }
}

fn power_management(space: &Space<'_>, head: Head, lines: &mut Lines) {
    let capabilities = space.dw(head.at) >> 16;
    lines.capability(head, format!("Power Management version {}", capabilities & 0b111));
    let flags = signs(capabilities, &[("PMEClk", 3), ("DSI", 5), ("D1", 9), ("D2", 10)]);
    let current = AUX_CURRENT[field(capabilities, 8, 6) as usize];
    let pme = signs(capabilities, &[("D0", 11), ("D1", 12), ("D2", 13), ("D3hot", 14), ("D3cold", 15)]);
    lines.line(2, format!("Flags: {flags} AuxCurrent={current}mA PME({})", pme.replace(' ', ",")));
    let status = space.dw(head.at + 4);
    let set = signs(status, &[("NoSoftRst", 3), ("PME-Enable", 8)]);
    let (select, scale, pme) = (field(status, 12, 9), field(status, 14, 13), sign(status, 15));
    lines.line(2, format!("Status: D{} {set} DSel={select} DScale={scale} PME{pme}", status & 0b11));
}

fn message_signalled(space: &Space<'_>, head: Head, lines: &mut Lines) {
    let at = head.at;
    let control = u32::from(space.half(at + 2));
    let (enabled, capable) = (1 << field(control, 6, 4), 1 << field(control, 3, 1));
    let end = signs(control, &[("Maskable", 8), ("64bit", 7)]);
    lines.capability(head, format!("MSI: Enable{} Count={enabled}/{capable} {end}", sign(control, 0)));
    let wide = control >> 7 & 1 == 1;
    let data_at = if wide { at + 0xc } else { at + 8 };
    let address = match wide {
        true => format!("{:08x}{:08x}", space.dw(at + 8), space.dw(at + 4)),
        false => format!("{:08x}", space.dw(at + 4)),
    };
    lines.line(2, format!("Address: {address}  Data: {:04x}", space.half(data_at)));
    if control >> 8 & 1 == 1 {
        let (mask, pending) = (space.dw(data_at + 4), space.dw(data_at + 8));
        lines.line(2, format!("Masking: {mask:08x}  Pending: {pending:08x}"));
    }
}

fn table_of_vectors(space: &Space<'_>, head: Head, lines: &mut Lines) {
    let control = u32::from(space.half(head.at + 2));
    let count = (control & 0x7ff) + 1;
    let (enable, mask) = (sign(control, 15), sign(control, 14));
    lines.capability(head, format!("MSI-X: Enable{enable} Count={count} Masked{mask}"));
    for (what, at) in [("Vector table", 4), ("PBA", 8)] {
        let place = space.dw(head.at + at);
        lines.line(2, format!("{what}: BAR={} offset={:08x}", place & 0b111, place & !0b111));
    }
}

fn vendor_specific(space: &Space<'_>, head: Head, lines: &mut Lines) {
    let len = u16::from(space.byte(head.at + 2));
    lines.capability(head, format!("Vendor Specific Information: Len={len:02x}"));
    if len > 3 {
        lines.line(2, format!("Data: {}", hex((3..len).map(|i| space.byte(head.at + i)))));
    }
}
