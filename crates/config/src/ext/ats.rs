// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Address Translation Services extended capability (`PCIe 5.0 §10.5.1`). Only registers: no
//! address is translated.

use super::NO_TRANSLATION;
use crate::register::{Register, put, structure, those};

structure! {
    extended 0x000f, 1, "Address Translation Services", "PCIe 5.0 §10.5.1";

    0x04 CONTROL "ATS Capability, ATS Control" {
        4:0   ro       QUEUE_DEPTH "Invalidate Queue Depth";
        5     ro       PAGE_ALIGNED "Page Aligned Request";
        6     ro       GLOBAL_INVALIDATE "Global Invalidate Supported";
        20:16 rw.inert SMALLEST_UNIT "Smallest Translation Unit", NO_TRANSLATION;
        31    rw.inert ENABLE "Enable", NO_TRANSLATION => TRANSLATION;
    }
}

/// Declaration of a function's Address Translation Services.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtsLayout {
    /// Number of invalidate requests that the function can accept before it stops the sender, 1 to
    /// 32.
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
    pub fn registers(&self) -> Vec<Register> {
        let depth = put(QUEUE_DEPTH, self.invalidate_queue_depth.into());
        let able = those([(self.page_aligned, PAGE_ALIGNED), (self.global_invalidate, GLOBAL_INVALIDATE)]);
        TABLE.registers(&[(CONTROL, depth | able)])
    }
}
