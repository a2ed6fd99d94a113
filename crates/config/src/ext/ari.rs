// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Alternative Routing-ID Interpretation extended capability (`PCIe 5.0 §7.8.7`): the function after this one. Never
//! routes anything; no function groups.
//!
//! ```text
//! +0   31:20 Next, 19:16 version 1, ID 000Eh
//! +4   31:16 ARI Control (zero)                15:8 Next Function Number, 1:0 function group capabilities (zero)
//! ```

use super::HEADER;
use crate::register::{Field, Register, Structure, Word};

/// Extended capability ID.
pub const ID: u16 = 0x000e;
/// Capability version.
pub const VERSION: u8 = 1;
/// DW of ARI Capability and ARI Control.
pub const CAPABILITY: u16 = 1;

/// The registers.
pub const TABLE: Structure = Structure {
    name: "Alternative Routing-ID Interpretation",
    source: "PCIe 5.0 §7.8.7",
    words: &[
        HEADER,
        Word {
            dw: CAPABILITY,
            name: "ARI Capability, ARI Control",
            fields: &[Field::hwinit(0xff00, "Next Function Number")],
        },
    ],
};

/// The capability's registers.
#[must_use]
pub fn registers(next_function: u8) -> Vec<Register> {
    TABLE.registers(&[(CAPABILITY, u32::from(next_function) << 8)])
}
