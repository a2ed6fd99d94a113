// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Data Link Feature extended capability (`PCIe 5.0 §7.7.4`). Never exchanges features: the link does.
//!
//! ```text
//! +0   31:20 Next, 19:16 version 1, ID 0025h
//! +4   31 Data Link Feature Exchange Enable, 0 Local Scaled Flow Control Supported
//! +8   31 Remote Data Link Feature Supported Valid, 22:0 Remote Data Link Feature Supported
//! ```

use super::HEADER;
use crate::register::{Field, Register, Structure, Word};

/// Extended capability ID.
pub const ID: u16 = 0x0025;
/// Capability version.
pub const VERSION: u8 = 1;
/// DW of Data Link Feature Capabilities.
pub const CAPABILITIES: u16 = 1;
/// DW of Data Link Feature Status.
pub const STATUS: u16 = 2;
/// Remote Data Link Feature Supported Valid, of the status.
pub const REMOTE_VALID: u32 = 1 << 31;

/// The registers.
pub const TABLE: Structure = Structure {
    name: "Data Link Feature",
    source: "PCIe 5.0 §7.7.4",
    words: &[
        HEADER,
        Word {
            dw: CAPABILITIES,
            name: "Data Link Feature Capabilities",
            fields: &[
                Field::ro(1 << 0, "Local Scaled Flow Control Supported"),
                Field::hwinit(1 << 31, "Data Link Feature Exchange Enable"),
            ],
        },
        Word {
            dw: STATUS,
            name: "Data Link Feature Status",
            fields: &[
                Field::ro(0x7f_ffff, "Remote Data Link Feature Supported"),
                Field::ro(REMOTE_VALID, "Remote Data Link Feature Supported Valid"),
            ],
        },
    ],
};

/// The capability's registers. `remote` is what the port at the other end supports, where features were exchanged.
#[must_use]
pub fn registers(scaled_flow_control: bool, remote: Option<bool>) -> Vec<Register> {
    let local = u32::from(scaled_flow_control) | 1 << 31;
    TABLE.registers(&[(CAPABILITIES, local), (STATUS, remote.map_or(0, |r| REMOTE_VALID | u32::from(r)))])
}
