// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Secondary PCI Express extended capability (`PCIe 5.0 §7.7.3`), of links of 8 GT/s and more. Never equalizes.
//!
//! ```text
//! +0   31:20 Next, 19:16 version 1, ID 0019h
//! +4   Link Control 3: 1 Link Equalization Request Interrupt Enable, 0 Perform Equalization
//! +8   Lane Error Status, a bit for each lane, RW1CS
//! +c   .. Lane Equalization Control, 16 bits for each lane: 14:12 Upstream Port Receiver Preset Hint,
//!      11:8 Upstream Port Transmitter Preset, 6:4 and 3:0 the same of the downstream port
//! ```

use super::{HEADER, NO_EQUALIZATION};
use crate::Effects;
use crate::register::{Field, Register, Structure, Word};

/// Extended capability ID.
pub const ID: u16 = 0x0019;
/// Capability version.
pub const VERSION: u8 = 1;
/// DW of Link Control 3.
pub const LINK_CONTROL_3: u16 = 1;
/// DW of Lane Error Status.
pub const LANE_ERROR_STATUS: u16 = 2;
/// DW of the first two lanes' Lane Equalization Control.
pub const LANE_EQUALIZATION: u16 = 3;

/// Transmitter preset 7 and receiver hint 7 of both ports: what says that a port may choose.
const PRESETS: u32 = 0x7f7f;
const LANE_ERRORS: &[Field] =
    &[Field::inert_event_sticky(!0, "Lane Error Status", "links do not tell which lane was wrong")];

/// The registers.
pub const TABLE: Structure = Structure {
    name: "Secondary PCI Express",
    source: "PCIe 5.0 §7.7.3",
    words: &[
        HEADER,
        Word {
            dw: LINK_CONTROL_3,
            name: "Link Control 3",
            fields: &[
                Field::inert(1 << 0, "Perform Equalization", NO_EQUALIZATION).tells(Effects::PHYSICAL_LAYER),
                Field::inert(1 << 1, "Link Equalization Request Interrupt Enable", NO_EQUALIZATION),
            ],
        },
        Word { dw: LANE_ERROR_STATUS, name: "Lane Error Status", fields: LANE_ERRORS },
        Word {
            dw: LANE_EQUALIZATION,
            name: "Lane Equalization Control",
            fields: &[Field::hwinit(
                0x7f7f_7f7f,
                "Transmitter Presets and Receiver Preset Hints of two lanes",
            )],
        },
    ],
};

/// The capability's registers for a link of this many lanes.
#[must_use]
pub fn registers(lanes: u8) -> Vec<Register> {
    let mut all = TABLE.registers(&[]);
    all.truncate(usize::from(LANE_EQUALIZATION));
    all[usize::from(LANE_ERROR_STATUS)] = Register::of(LANE_ERRORS, 0).without(super::beyond(lanes));
    for pair in 0..lanes.div_ceil(2) {
        let upper = if pair * 2 + 1 < lanes { PRESETS << 16 } else { 0 };
        all.push(TABLE.words[3].register(upper | PRESETS));
    }
    all
}
