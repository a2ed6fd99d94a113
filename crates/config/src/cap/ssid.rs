// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Subsystem ID and Subsystem Vendor ID capability of bridges (`PCIe 5.0 §7.9.24`), whose header has no room for them.

use crate::register::{Register, structure};

structure! {
    capability 0x0d, "Subsystem ID and Subsystem Vendor ID", "PCIe 5.0 §7.9.24";

    0x04 SUBSYSTEM "Subsystem Vendor ID, Subsystem ID" {
        15:0  hwinit SUBSYSTEM_VENDOR_ID "Subsystem Vendor ID";
        31:16 hwinit SUBSYSTEM_ID "Subsystem ID";
    }
}

pub(crate) fn registers(vendor: u16, subsystem: u16) -> Vec<Register> {
    TABLE.registers(&[(SUBSYSTEM, u32::from(vendor) | u32::from(subsystem) << 16)])
}
