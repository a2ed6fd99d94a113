// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Process Address Space ID extended capability (`PCIe 5.0 §7.8.8`). Never tags a request.
//!
//! ```text
//! +0   31:20 Next, 19:16 version 1, ID 001Bh
//! +4   PASID Control: 18 Privileged Mode Enable, 17 Execute Permission Enable, 16 PASID Enable
//!      PASID Capability: 12:8 Max PASID Width, 2 Privileged Mode Supported, 1 Execute Permission Supported
//! ```

use super::HEADER;
use crate::Effects;
use crate::register::{Field, Register, Structure, Word};

/// Extended capability ID.
pub const ID: u16 = 0x001b;
/// Capability version.
pub const VERSION: u8 = 1;
/// DW of PASID Capability (15:0) and PASID Control (31:16).
pub const CONTROL: u16 = 1;

const FIELDS: &[Field] = &[
    Field::ro(1 << 1, "Execute Permission Supported"),
    Field::ro(1 << 2, "Privileged Mode Supported"),
    Field::ro(0x1f << 8, "Max PASID Width"),
    Field::inert(1 << 16, "PASID Enable", NO_PASID).tells(Effects::TRANSLATION),
    Field::inert(1 << 17, "Execute Permission Enable", NO_PASID).tells(Effects::TRANSLATION),
    Field::inert(1 << 18, "Privileged Mode Enable", NO_PASID).tells(Effects::TRANSLATION),
];
const NO_PASID: &str =
    "devices attach PASID prefixes themselves; no request is held back for want of the bit";

/// The registers.
pub const TABLE: Structure = Structure {
    name: "Process Address Space ID",
    source: "PCIe 5.0 §7.8.8",
    words: &[HEADER, Word { dw: CONTROL, name: "PASID Capability, PASID Control", fields: FIELDS }],
};

/// PASID as a function wants it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PasidLayout {
    /// Max PASID Width in bits, 0 to 20.
    pub width: u8,
    /// Execute Permission Supported.
    pub execute: bool,
    /// Privileged Mode Supported.
    pub privileged: bool,
}

impl PasidLayout {
    /// The capability's registers.
    #[must_use]
    pub fn registers(&self) -> Vec<Register> {
        let modes = u32::from(self.execute) << 1 | u32::from(self.privileged) << 2;
        let absent = !modes << 16 & 0b110 << 16;
        let control = Register::of(FIELDS, modes | u32::from(self.width) << 8).without(absent);
        vec![HEADER.register(0), control]
    }
}
