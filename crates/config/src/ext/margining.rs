// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lane Margining at the Receiver extended capability (`PCIe 5.0 §7.7.7`). Only registers:
//! margining is not modelled.

use crate::register::{Register, put, structure};

const NO_MARGIN: &str = "links have no eye that could be measured: Margining Ready stays clear";

structure! {
    extended 0x0027, 1, "Lane Margining at the Receiver", "PCIe 5.0 §7.7.7";

    0x04 PORT "Margining Port Capabilities, Margining Port Status" {
        0  hwinit USES_SOFTWARE "Margining uses Driver Software";
        16 ro     READY "Margining Ready";
        17 ro     SOFTWARE_READY "Margining Software Ready";
    }
    0x08 LANE "Margining Lane Control, Margining Lane Status" {
        2:0   rw.inert RECEIVER "Receiver Number", NO_MARGIN;
        5:3   rw.inert TYPE "Margin Type", NO_MARGIN;
        6     rw.inert USAGE_MODEL "Usage Model", NO_MARGIN;
        15:8  rw.inert PAYLOAD "Margin Payload", NO_MARGIN;
        31:16 ro       LANE_STATUS "Margining Lane Status";
    }
}

/// No Command: receiver 0, type 111b, payload 9Ch (`PCIe 5.0 Table 4-26`).
const NO_COMMAND: u32 = put(TYPE, 0b111) | put(PAYLOAD, 0x9c);

/// The capability's registers for a link of this many lanes.
pub fn registers(lanes: u8) -> Vec<Register> {
    let mut all = TABLE.registers(&[]);
    all.truncate(usize::from(LANE));
    all.extend((0..lanes).map(|_| TABLE.register(LANE, NO_COMMAND)));
    all
}
