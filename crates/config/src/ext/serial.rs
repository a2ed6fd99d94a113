// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Device Serial Number extended capability (`PCIe 5.0 §7.9.3`).

use crate::register::{Register, structure};

structure! {
    extended 0x0003, 1, "Device Serial Number", "PCIe 5.0 §7.9.3";

    0x04 LOWER "Serial Number (Lower DW)" {
        31:0 ro SERIAL_31_0 "Serial Number 31:0";
    }
    0x08 UPPER "Serial Number (Upper DW)" {
        31:0 ro SERIAL_63_32 "Serial Number 63:32";
    }
}

/// The capability's registers; `eui64` is an IEEE EUI-64.
pub fn registers(eui64: u64) -> Vec<Register> {
    TABLE.registers(&[(LOWER, eui64 as u32), (UPPER, (eui64 >> 32) as u32)])
}
