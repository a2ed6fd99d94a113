// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Latency Tolerance Reporting extended capability (`PCIe 5.0 §7.8.2`). Never sends the message.
//!
//! ```text
//! +0   31:20 Next, 19:16 version 1, ID 0018h
//! +4   28:26 Max No-Snoop LatencyScale, 25:16 ..Value, 12:10 Max Snoop LatencyScale, 9:0 ..Value
//! ```

use super::HEADER;
use crate::Effects;
use crate::register::{Field, Register, Structure, Word};

/// Extended capability ID.
pub const ID: u16 = 0x0018;
/// Capability version.
pub const VERSION: u8 = 1;
/// DW of Max Snoop Latency and Max No-Snoop Latency.
pub const LATENCY: u16 = 1;

const NO_POWER_STATES: &str = "no part of the platform enters a state from which latency would depend";

/// The registers.
pub const TABLE: Structure = Structure {
    name: "Latency Tolerance Reporting",
    source: "PCIe 5.0 §7.8.2",
    words: &[
        HEADER,
        Word {
            dw: LATENCY,
            name: "Max Snoop Latency, Max No-Snoop Latency",
            fields: &[
                Field::inert(0x3ff, "Max Snoop LatencyValue", NO_POWER_STATES).tells(Effects::LTR),
                Field::inert(0b111 << 10, "Max Snoop LatencyScale", NO_POWER_STATES).tells(Effects::LTR),
                Field::inert(0x3ff << 16, "Max No-Snoop LatencyValue", NO_POWER_STATES).tells(Effects::LTR),
                Field::inert(0b111 << 26, "Max No-Snoop LatencyScale", NO_POWER_STATES).tells(Effects::LTR),
            ],
        },
    ],
};

/// The capability's registers.
#[must_use]
pub fn registers() -> Vec<Register> {
    TABLE.registers(&[])
}
