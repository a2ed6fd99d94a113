// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lane Margining at the Receiver extended capability (`PCIe 5.0 §7.7.7`). Never margins.
//!
//! ```text
//! +0   31:20 Next, 19:16 version 1, ID 0027h
//! +4   Margining Port Status: 17 Software Ready, 16 Ready;  Margining Port Capabilities: 0 Uses Driver Software
//! +8   .. for each lane: 31:16 Margining Lane Status, 15:0 Margining Lane Control: 15:8 Payload, 6 Usage Model,
//!      5:3 Type, 2:0 Receiver Number
//! ```

use super::HEADER;
use crate::register::{Field, Register, Structure, Word};

/// Extended capability ID.
pub const ID: u16 = 0x0027;
/// Capability version.
pub const VERSION: u8 = 1;
/// DW of lane 0's control and status.
pub const LANE: u16 = 2;

/// No Command: receiver 0, type 111b, payload 9Ch (`PCIe 5.0 Table 4-26`).
const NO_COMMAND: u32 = 0x9c38;
const NO_MARGIN: &str = "links have no eye to measure: Margining Ready stays clear";

/// The registers.
pub const TABLE: Structure = Structure {
    name: "Lane Margining at the Receiver",
    source: "PCIe 5.0 §7.7.7",
    words: &[
        HEADER,
        Word {
            dw: 1,
            name: "Margining Port Capabilities, Margining Port Status",
            fields: &[
                Field::hwinit(1 << 0, "Margining uses Driver Software"),
                Field::ro(1 << 16, "Margining Ready"),
                Field::ro(1 << 17, "Margining Software Ready"),
            ],
        },
        Word {
            dw: LANE,
            name: "Margining Lane Control, Margining Lane Status",
            fields: &[
                Field::inert(0b111, "Receiver Number", NO_MARGIN),
                Field::inert(0b111 << 3, "Margin Type", NO_MARGIN),
                Field::inert(1 << 6, "Usage Model", NO_MARGIN),
                Field::inert(0xff << 8, "Margin Payload", NO_MARGIN),
                Field::ro(0xffff << 16, "Margining Lane Status"),
            ],
        },
    ],
};

/// The capability's registers for a link of this many lanes.
#[must_use]
pub fn registers(lanes: u8) -> Vec<Register> {
    let mut all = TABLE.registers(&[]);
    all.truncate(usize::from(LANE));
    all.extend((0..lanes).map(|_| TABLE.words[2].register(NO_COMMAND)));
    all
}
