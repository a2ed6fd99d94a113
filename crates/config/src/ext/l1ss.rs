// SPDX-License-Identifier: Apache-2.0 OR MIT
//! L1 PM Substates extended capability (`PCIe 5.0 §7.8.3`). Never enters one.
//!
//! ```text
//! +0   31:20 Next, 19:16 version 1, ID 001Eh
//! +4   23:19 Port T_POWER_ON Value, 17:16 ..Scale, 15:8 Port Common_Mode_Restore_Time (us),
//!      4 L1 PM Substates Supported, 3 ASPM L1.1, 2 ASPM L1.2, 1 PCI-PM L1.1, 0 PCI-PM L1.2 Supported
//! +8   31:29 LTR_L1.2_THRESHOLD_Scale, 25:16 ..Value, 15:8 Common_Mode_Restore_Time, 3:0 enables
//! +c   7:3 T_POWER_ON Value, 1:0 ..Scale
//! ```

use super::HEADER;
use crate::register::{Field, Register, Structure, Word};

/// Extended capability ID.
pub const ID: u16 = 0x001e;
/// Capability version.
pub const VERSION: u8 = 1;
/// DW of L1 PM Substates Capabilities.
pub const CAPABILITIES: u16 = 1;
/// DW of L1 PM Substates Control 1.
pub const CONTROL_1: u16 = 2;
/// DW of L1 PM Substates Control 2.
pub const CONTROL_2: u16 = 3;

/// T_POWER_ON after reset: 5 times 2 us (`PCIe 5.0 Table 7-42`).
const T_POWER_ON: u32 = 5;
const NO_L1: &str = "links stay in L0: L1 and its substates are not modelled";

/// The registers.
pub const TABLE: Structure = Structure {
    name: "L1 PM Substates",
    source: "PCIe 5.0 §7.8.3",
    words: &[
        HEADER,
        Word {
            dw: CAPABILITIES,
            name: "L1 PM Substates Capabilities",
            fields: &[
                Field::hwinit(0b1_1111, "L1 PM Substates Supported"),
                Field::hwinit(0xff << 8, "Port Common_Mode_Restore_Time"),
                Field::hwinit(0b11 << 16, "Port T_POWER_ON Scale"),
                Field::hwinit(0x1f << 19, "Port T_POWER_ON Value"),
            ],
        },
        Word {
            dw: CONTROL_1,
            name: "L1 PM Substates Control 1",
            fields: &[
                Field::inert(0b1111, "PCI-PM and ASPM L1.1, L1.2 Enable", NO_L1),
                Field::inert(0xff << 8, "Common_Mode_Restore_Time", NO_L1),
                Field::inert(0x3ff << 16, "LTR_L1.2_THRESHOLD_Value", NO_L1),
                Field::inert(0b111 << 29, "LTR_L1.2_THRESHOLD_Scale", NO_L1),
            ],
        },
        Word {
            dw: CONTROL_2,
            name: "L1 PM Substates Control 2",
            fields: &[
                Field::inert(0b11, "T_POWER_ON Scale", NO_L1),
                Field::inert(0x1f << 3, "T_POWER_ON Value", NO_L1),
            ],
        },
    ],
};

/// The capability's registers: all substates supported, Common_Mode_Restore_Time in us.
#[must_use]
pub fn registers(common_mode_restore_us: u8) -> Vec<Register> {
    let power_on = T_POWER_ON << 19;
    let capabilities = 0b1_1111 | u32::from(common_mode_restore_us) << 8 | power_on;
    TABLE.registers(&[(CAPABILITIES, capabilities), (CONTROL_2, T_POWER_ON << 3)])
}
