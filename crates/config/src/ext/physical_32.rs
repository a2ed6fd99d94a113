// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Physical Layer 32.0 GT/s extended capability (`PCIe 5.0 §7.7.6`). Never equalizes.
//!
//! ```text
//! +0   31:20 Next, 19:16 version 1, ID 002Ah
//! +4   32.0 GT/s Capabilities: 8 Modified TS Usage Mode 0 Supported, 1 No Equalization Needed Supported,
//!      0 Equalization bypass to highest rate Supported
//! +8   32.0 GT/s Control: 10:8 Modified TS Usage Mode Selected, 1 No Equalization Needed Disable,
//!      0 Equalization bypass to highest rate Disable
//! +c   32.0 GT/s Status: 5 Link Equalization Request RW1CS, 3:1 phases, 0 Equalization Complete
//! +10, +14 Received Modified TS Data 1 and 2
//! +18, +1c Transmitted Modified TS Data 1 and 2
//! +20  .. Lane Equalization Control, 8 bits for each lane
//! ```

use super::{HEADER, NO_EQUALIZATION, lane_presets};
use crate::register::{Field, Register, Structure, Word};

/// Extended capability ID.
pub const ID: u16 = 0x002a;
/// Capability version.
pub const VERSION: u8 = 1;
/// DW of 32.0 GT/s Capabilities.
pub const CAPABILITIES: u16 = 1;
/// DW of 32.0 GT/s Control.
pub const CONTROL: u16 = 2;
/// DW of 32.0 GT/s Status.
pub const STATUS: u16 = 3;
/// DW of the first four lanes' Lane Equalization Control.
pub const LANE_EQUALIZATION: u16 = 8;

const EQUALIZED: u32 = 0b1111;
/// Equalization bypass and Modified TS Usage Mode 0 (PCI Express), which every port supports.
const SUPPORTED: u32 = 1 << 0 | 1 << 8;

/// The registers.
pub const TABLE: Structure = Structure {
    name: "Physical Layer 32.0 GT/s",
    source: "PCIe 5.0 §7.7.6",
    words: &[
        HEADER,
        Word {
            dw: CAPABILITIES,
            name: "32.0 GT/s Capabilities",
            fields: &[
                Field::hwinit(1 << 0, "Equalization bypass to highest rate Supported"),
                Field::hwinit(1 << 1, "No Equalization Needed Supported"),
                Field::hwinit(1 << 8, "Modified TS Usage Mode 0 Supported"),
            ],
        },
        Word {
            dw: CONTROL,
            name: "32.0 GT/s Control",
            fields: &[
                Field::inert_sticky(1 << 0, "Equalization bypass to highest rate Disable", NO_EQUALIZATION),
                Field::ro(0b111 << 8, "Modified TS Usage Mode Selected"),
            ],
        },
        Word {
            dw: STATUS,
            name: "32.0 GT/s Status",
            fields: &[
                Field::ros(EQUALIZED, "Equalization Complete, Phases 1 to 3 Successful"),
                Field::inert_event_sticky(
                    1 << 5,
                    "Link Equalization Request",
                    "equalization is not modelled",
                ),
            ],
        },
        Word {
            dw: LANE_EQUALIZATION,
            name: "32.0 GT/s Lane Equalization Control",
            fields: &[Field::hwinit(!0, "Transmitter Presets of four lanes")],
        },
    ],
};

/// The capability's registers for a link of this many lanes; `equalized` where it runs at 32 GT/s.
#[must_use]
pub fn registers(lanes: u8, equalized: bool) -> Vec<Register> {
    let status = if equalized { EQUALIZED } else { 0 };
    let mut all = TABLE.registers(&[(CAPABILITIES, SUPPORTED), (STATUS, status)]);
    all.truncate(usize::from(LANE_EQUALIZATION));
    all.extend(lane_presets(lanes));
    all
}
