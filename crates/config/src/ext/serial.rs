// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Device Serial Number extended capability (`PCIe 5.0 §7.9.3`). Never changes.
//!
//! ```text
//! +0   31:20 Next, 19:16 version 1, ID 0003h
//! +4   Serial Number, lower DW
//! +8   Serial Number, upper DW
//! ```

use super::HEADER;
use crate::register::{Field, Register, Structure, Word};

/// Extended capability ID.
pub const ID: u16 = 0x0003;
/// Capability version.
pub const VERSION: u8 = 1;

/// The registers.
pub const TABLE: Structure = Structure {
    name: "Device Serial Number",
    source: "PCIe 5.0 §7.9.3",
    words: &[
        HEADER,
        Word { dw: 1, name: "Serial Number (Lower DW)", fields: &[Field::ro(!0, "Serial Number 31:0")] },
        Word { dw: 2, name: "Serial Number (Upper DW)", fields: &[Field::ro(!0, "Serial Number 63:32")] },
    ],
};

/// The capability's registers; `eui64` is an IEEE EUI-64.
#[must_use]
pub fn registers(eui64: u64) -> Vec<Register> {
    TABLE.registers(&[(1, eui64 as u32), (2, (eui64 >> 32) as u32)])
}
