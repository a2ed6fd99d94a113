// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Physical Layer 16.0 GT/s extended capability (`PCIe 5.0 §7.7.5`). Never equalizes.
//!
//! ```text
//! +0   31:20 Next, 19:16 version 1, ID 0026h
//! +4   16.0 GT/s Capabilities (zero)
//! +8   16.0 GT/s Control (zero)
//! +c   16.0 GT/s Status: 4 Link Equalization Request RW1CS, 3:1 Phase 3, 2, 1 Successful, 0 Equalization Complete
//! +10  Local Data Parity Mismatch Status, a bit for each lane, RW1CS
//! +14, +18 the same of the first and the second retimer
//! +20  .. Lane Equalization Control, 8 bits for each lane: 7:4 upstream, 3:0 downstream port's preset
//! ```

use super::{HEADER, beyond, lane_presets};
use crate::register::{Field, Register, Structure, Word};

/// Extended capability ID.
pub const ID: u16 = 0x0026;
/// Capability version.
pub const VERSION: u8 = 1;
/// DW of 16.0 GT/s Status.
pub const STATUS: u16 = 3;
/// DW of Local Data Parity Mismatch Status.
pub const LOCAL_PARITY: u16 = 4;
/// DW of the first four lanes' Lane Equalization Control.
pub const LANE_EQUALIZATION: u16 = 8;

/// Equalization Complete and all phases successful: a link in L0 at this rate has been equalized.
const EQUALIZED: u32 = 0b1111;
const PARITY: &[Field] = &[Field::inert_event_sticky(
    !0,
    "Data Parity Mismatch Status",
    "the parity of SKP ordered sets is not modelled",
)];

/// The registers.
pub const TABLE: Structure = Structure {
    name: "Physical Layer 16.0 GT/s",
    source: "PCIe 5.0 §7.7.5",
    words: &[
        HEADER,
        Word {
            dw: STATUS,
            name: "16.0 GT/s Status",
            fields: &[
                Field::ros(EQUALIZED, "Equalization Complete, Phases 1 to 3 Successful"),
                Field::inert_event_sticky(
                    1 << 4,
                    "Link Equalization Request",
                    "equalization is not modelled",
                ),
            ],
        },
        Word { dw: LOCAL_PARITY, name: "Local Data Parity Mismatch Status", fields: PARITY },
        Word { dw: 5, name: "First Retimer Data Parity Mismatch Status", fields: PARITY },
        Word { dw: 6, name: "Second Retimer Data Parity Mismatch Status", fields: PARITY },
        Word {
            dw: LANE_EQUALIZATION,
            name: "16.0 GT/s Lane Equalization Control",
            fields: &[Field::hwinit(!0, "Transmitter Presets of four lanes")],
        },
    ],
};

/// The capability's registers for a link of this many lanes; `equalized` where it runs at 16 GT/s or more.
#[must_use]
pub fn registers(lanes: u8, equalized: bool) -> Vec<Register> {
    let mut all = TABLE.registers(&[(STATUS, if equalized { EQUALIZED } else { 0 })]);
    for dw in LOCAL_PARITY..LOCAL_PARITY + 3 {
        all[usize::from(dw)] = Register::of(PARITY, 0).without(beyond(lanes));
    }
    all.truncate(usize::from(LANE_EQUALIZATION));
    all.extend(lane_presets(lanes));
    all
}
