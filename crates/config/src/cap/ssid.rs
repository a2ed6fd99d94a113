// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Subsystem ID and Subsystem Vendor ID capability of bridges (`PCIe 5.0 §7.9.24`), whose header has no room for them.
//!
//! ```text
//! +0   -                                 Next           ID 0Dh
//! +4   Subsystem ID                      Subsystem Vendor ID
//! ```

use crate::register::{Field, Register, Structure, Word};

/// Capability ID.
pub const ID: u8 = 0x0d;

/// The registers.
pub const TABLE: Structure = Structure {
    name: "Subsystem ID and Subsystem Vendor ID",
    source: "PCIe 5.0 §7.9.24",
    words: &[Word {
        dw: 1,
        name: "Subsystem Vendor ID, Subsystem ID",
        fields: &[Field::hwinit(0xffff, "Subsystem Vendor ID"), Field::hwinit(0xffff_0000, "Subsystem ID")],
    }],
};

pub(crate) fn registers(vendor: u16, subsystem: u16) -> Vec<Register> {
    TABLE.registers(&[(1, u32::from(vendor) | u32::from(subsystem) << 16)])
}
