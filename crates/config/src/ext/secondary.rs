// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Secondary PCI Express extended capability (`PCIe 5.0 §7.7.3`), for links of 8 GT/s and more. Only registers: equalization is not
//! modelled.

use super::NO_EQUALIZATION;
use crate::register::{Register, structure};

structure! {
    extended 0x0019, 1, "Secondary PCI Express", "PCIe 5.0 §7.7.3";

    0x04 LINK_CONTROL_3 "Link Control 3" {
        0 rw.inert PERFORM_EQUALIZATION "Perform Equalization", NO_EQUALIZATION => PHYSICAL_LAYER;
        1 rw.inert INTERRUPT "Link Equalization Request Interrupt Enable", NO_EQUALIZATION;
    }
    0x08 LANE_ERROR_STATUS "Lane Error Status" {
        31:0 rw1cs.inert LANE_ERRORS "Lane Error Status", "links do not report the lane of an error";
    }
    0x0c LANE_EQUALIZATION "Lane Equalization Control" {
        (0x7f7f_7f7f) hwinit LANE_PRESETS "Transmitter Presets and Receiver Preset Hints of two lanes";
    }
}

/// Transmitter preset 7 and receiver hint 7 for both ports: the port may choose.
const PRESETS: u32 = 0x7f7f;

/// The capability's registers for a link of this many lanes. In the port below the link, Link Control 3 is reserved, as there are no
/// crosslinks (`PCIe 5.0 §7.7.3.2`).
pub fn registers(lanes: u8, is_above_link: bool) -> Vec<Register> {
    let mut all = TABLE.registers(&[]);
    all.truncate(usize::from(LANE_EQUALIZATION));
    if !is_above_link {
        all[usize::from(LINK_CONTROL_3)] = Register::of(&[], 0);
    }
    all[usize::from(LANE_ERROR_STATUS)] = TABLE.register(LANE_ERROR_STATUS, 0).without(super::beyond(lanes));
    for pair in 0..lanes.div_ceil(2) {
        let upper = if pair * 2 + 1 < lanes { PRESETS << 16 } else { 0 };
        all.push(TABLE.register(LANE_EQUALIZATION, upper | PRESETS));
    }
    all
}
