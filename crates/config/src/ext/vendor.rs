// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Vendor-Specific extended capability (`PCIe 5.0 §7.9.5`): registers whose meaning is the vendor's. Never knows it.
//!
//! ```text
//! +0   31:20 Next, 19:16 version 1, ID 000Bh
//! +4   31:20 VSEC Length (bytes), 19:16 VSEC Rev, 15:0 VSEC ID
//! +8   .. vendor's registers
//! ```

use super::HEADER;
use crate::register::{Field, Register, Structure, Word};

/// Extended capability ID.
pub const ID: u16 = 0x000b;
/// Capability version.
pub const VERSION: u8 = 1;

const HEADER_FIELDS: &[Field] =
    &[Field::ro(0xffff, "VSEC ID"), Field::ro(0xf << 16, "VSEC Rev"), Field::ro(0xfff << 20, "VSEC Length")];

/// The registers.
pub const TABLE: Structure = Structure {
    name: "Vendor-Specific Extended Capability",
    source: "PCIe 5.0 §7.9.5",
    words: &[HEADER, Word { dw: 1, name: "Vendor-Specific Header", fields: HEADER_FIELDS }],
};

/// A vendor's registers as a function wants them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VsecLayout {
    /// VSEC ID, the vendor's choice.
    pub id: u16,
    /// VSEC Rev, 0 to 15.
    pub revision: u8,
    /// The registers behind the header.
    pub registers: Vec<Register>,
}

impl VsecLayout {
    /// Bytes of the whole capability.
    #[must_use]
    pub fn bytes(&self) -> usize {
        8 + 4 * self.registers.len()
    }

    /// The capability's registers.
    #[must_use]
    pub fn registers(&self) -> Vec<Register> {
        let length = self.bytes() as u32 & 0xfff;
        let header = u32::from(self.id) | u32::from(self.revision & 0xf) << 16 | length << 20;
        let mut all = TABLE.registers(&[(1, header)]);
        all.extend_from_slice(&self.registers);
        all
    }
}
