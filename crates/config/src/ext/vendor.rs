// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Vendor-Specific extended capability (`PCIe 5.0 §7.9.5`): registers with a meaning that only the vendor defines.

use crate::register::{Register, put, structure};

structure! {
    extended 0x000b, 1, "Vendor-Specific Extended Capability", "PCIe 5.0 §7.9.5";

    0x04 HEADER "Vendor-Specific Header" {
        15:0  ro VSEC_ID "VSEC ID";
        19:16 ro VSEC_REVISION "VSEC Rev";
        31:20 ro VSEC_LENGTH "VSEC Length";
    }
}

/// Declaration of a vendor-specific capability.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VsecLayout {
    /// VSEC ID, the vendor's choice.
    pub id: u16,
    /// VSEC Rev, 0 to 15.
    pub revision: u8,
    /// The registers after the header.
    pub registers: Vec<Register>,
}

impl VsecLayout {
    /// Bytes of the whole capability.
    pub fn bytes(&self) -> usize {
        8 + 4 * self.registers.len()
    }

    /// The capability's registers.
    pub fn registers(&self) -> Vec<Register> {
        let (revision, length) = (self.revision.into(), self.bytes() as u32);
        let header = u32::from(self.id) | put(VSEC_REVISION, revision) | put(VSEC_LENGTH, length);
        let mut all = TABLE.registers(&[(HEADER, header)]);
        all.extend_from_slice(&self.registers);
        all
    }
}
