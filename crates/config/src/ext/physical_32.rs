// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Physical Layer 32.0 GT/s extended capability (`PCIe 5.0 §7.7.6`). Only registers: equalization
//! is not modelled.

use super::lane_presets;
use crate::register::{Register, structure};

structure! {
    extended 0x002a, 1, "Physical Layer 32.0 GT/s", "PCIe 5.0 §7.7.6";

    0x04 CAPABILITIES "32.0 GT/s Capabilities" {
        0 hwinit BYPASS_SUPPORTED "Equalization bypass to highest rate Supported";
        1 hwinit NO_EQUALIZATION_NEEDED "No Equalization Needed Supported";
        8 hwinit MODIFIED_TS_0_SUPPORTED "Modified TS Usage Mode 0 Supported";
    }
    0x08 CONTROL "32.0 GT/s Control" {
        0    rws.inert BYPASS_DISABLE "Equalization bypass to highest rate Disable", super::NO_EQUALIZATION;
        10:8 ro        MODIFIED_TS_SELECTED "Modified TS Usage Mode Selected";
    }
    0x0c STATUS "32.0 GT/s Status" {
        3:0 ros         EQUALIZED "Equalization Complete, Phases 1 to 3 Successful";
        5   rw1cs.inert EQUALIZATION_REQUEST "Link Equalization Request", "equalization is not modelled";
    }
    0x20 LANE_EQUALIZATION "32.0 GT/s Lane Equalization Control" (super::LANE_PRESETS)
}

/// Equalization bypass and Modified TS Usage Mode 0 (PCI Express), which every port supports.
const SUPPORTED: u32 = BYPASS_SUPPORTED | MODIFIED_TS_0_SUPPORTED;

/// The capability's registers for a link of this many lanes; `equalized` if it runs at 32 GT/s.
pub fn registers(lanes: u8, equalized: bool) -> Vec<Register> {
    let status = if equalized { EQUALIZED } else { 0 };
    let mut all = TABLE.registers(&[(CAPABILITIES, SUPPORTED), (STATUS, status)]);
    all.truncate(usize::from(LANE_EQUALIZATION));
    all.extend(lane_presets(lanes));
    all
}
