// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Address Translation Services extended capability (`PCIe 5.0 §10.5.1`). Never translates.
//!
//! ```text
//! +0   31:20 Next, 19:16 version 1, ID 000Fh
//! +4   ATS Control: 31 Enable, 20:16 Smallest Translation Unit
//!      ATS Capability: 6 Global Invalidate Supported, 5 Page Aligned Request, 4:0 Invalidate Queue Depth
//! ```

use super::HEADER;
use crate::Effects;
use crate::register::{Field, Register, Structure, Word};

/// Extended capability ID.
pub const ID: u16 = 0x000f;
/// Capability version.
pub const VERSION: u8 = 1;
/// DW of ATS Capability (15:0) and ATS Control (31:16).
pub const CONTROL: u16 = 1;
/// Enable, of ATS Control.
pub const ENABLE: u32 = 1 << 31;

/// The registers.
pub const TABLE: Structure = Structure {
    name: "Address Translation Services",
    source: "PCIe 5.0 §10.5.1",
    words: &[
        HEADER,
        Word {
            dw: CONTROL,
            name: "ATS Capability, ATS Control",
            fields: &[
                Field::ro(0x1f, "Invalidate Queue Depth"),
                Field::ro(1 << 5, "Page Aligned Request"),
                Field::ro(1 << 6, "Global Invalidate Supported"),
                Field::inert(0x1f << 16, "Smallest Translation Unit", super::NO_TRANSLATION),
                Field::inert(ENABLE, "Enable", super::NO_TRANSLATION).tells(Effects::TRANSLATION),
            ],
        },
    ],
};

/// Address Translation Services as a function wants them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtsLayout {
    /// Invalidate requests that the function can take before it holds back, 1 to 32.
    pub invalidate_queue_depth: u8,
    /// Page Aligned Request: untranslated addresses are always 4 KiB aligned.
    pub page_aligned: bool,
    /// Global Invalidate Supported.
    pub global_invalidate: bool,
}

impl Default for AtsLayout {
    fn default() -> AtsLayout {
        AtsLayout { invalidate_queue_depth: 32, page_aligned: true, global_invalidate: true }
    }
}

impl AtsLayout {
    /// The capability's registers. A queue of 32 is written as zero.
    #[must_use]
    pub fn registers(&self) -> Vec<Register> {
        let capability = u32::from(self.invalidate_queue_depth & 0x1f)
            | u32::from(self.page_aligned) << 5
            | u32::from(self.global_invalidate) << 6;
        TABLE.registers(&[(CONTROL, capability)])
    }
}
