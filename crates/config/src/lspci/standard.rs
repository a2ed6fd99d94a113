// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Capabilities below 100h except PCI Express: power, interrupts, subsystem, vendor-specific.

use super::own::Own;
use super::space::hex;
use super::{Head, express};
use crate::cap::{msi, msix, pcie, pm, ssid, vendor};

/// Shows the contents of a capability after its title.
pub(super) fn show(own: &mut Own<'_>, head: Head) {
    match u8::try_from(head.id) {
        Ok(pm::ID) => power_management(own),
        Ok(msi::ID) => message_signalled(own),
        Ok(vendor::ID) => vendor_specific(own),
        Ok(ssid::ID) => {
            own.at(ssid::SUBSYSTEM).show(&[": {SUBSYSTEM_VENDOR_ID:04x}:{SUBSYSTEM_ID:04x}"]);
        }
        Ok(pcie::ID) => express::show(own),
        Ok(msix::ID) => table_of_vectors(own),
        _ => {}
    }
}

/// Power management. Aux_Current is the current that a function may draw in D3cold (`PCI PM 1.2
/// §3.2.3`).
fn power_management(own: &mut Own<'_>) {
    own.at(pm::CAPABILITIES).show(&[
        " version {VERSION}",
        "\t\tFlags: PMEClk{PME_CLOCK+} DSI{DEVICE_SPECIFIC_INITIALIZATION+} D1{D1_SUPPORT+} D2{D2_SUPPORT+} ",
        "AuxCurrent={AUX_CURRENT|0|55|100|160|220|270|320|375}mA ",
        "PME(D0{27+},D1{28+},D2{29+},D3hot{30+},D3cold{31+})",
    ]);
    own.at(pm::CONTROL).show(&[
        "\t\tStatus: D{POWER_STATE} NoSoftRst{NO_SOFT_RESET+} PME-Enable{PME_ENABLE+} ",
        "DSel={DATA_SELECT} DScale={DATA_SCALE} PME{PME_STATUS+}",
    ]);
}

fn message_signalled(own: &mut Own<'_>) {
    own.at(msi::CONTROL).show(&[
        ": Enable{ENABLE+} Count={MULTIPLE_ENABLE^1}/{MULTIPLE_CAPABLE^1} ",
        "Maskable{PER_VECTOR_MASKING+} 64bit{CAPABLE_64_BIT+}",
    ]);
    let control = own.dw(msi::CONTROL);
    let data = msi::data_dw(control);
    let upper = match control & msi::CAPABLE_64_BIT {
        0 => String::new(),
        _ => format!("{:08x}", own.dw(msi::UPPER_ADDRESS)),
    };
    let (address, low) = (own.dw(1), own.dw(data) & msi::DATA);
    own.lines.line(2, format!("Address: {upper}{address:08x}  Data: {low:04x}"));
    if control & msi::PER_VECTOR_MASKING != 0 {
        let (mask, pending) = (own.dw(data + 1), own.dw(data + 2));
        own.lines.line(2, format!("Masking: {mask:08x}  Pending: {pending:08x}"));
    }
}

fn table_of_vectors(own: &mut Own<'_>) {
    let vectors = crate::register::get(own.dw(msix::CONTROL), msix::TABLE_SIZE) + 1;
    let count = format!(" Count={vectors} ");
    own.at(msix::CONTROL).show(&[": Enable{ENABLE+}", &count, "Masked{FUNCTION_MASK+}"]);
    for (what, dw) in [("Vector table", msix::TABLE_PLACE), ("PBA", msix::PENDING_PLACE)] {
        let place = own.dw(dw);
        let (bar, offset) = (place & msix::TABLE_BIR, place & msix::TABLE_OFFSET);
        own.lines.line(2, format!("{what}: BAR={bar} offset={offset:08x}"));
    }
}

fn vendor_specific(own: &mut Own<'_>) {
    own.at(0).show(&[": Len={LENGTH:02x}"]);
    let len = u16::from(own.space.byte(own.at + 2));
    if len > 3 {
        own.lines.line(2, format!("Data: {}", hex((3..len).map(|i| own.space.byte(own.at + i)))));
    }
}
