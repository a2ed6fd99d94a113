// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Precision Time Measurement extended capability (`PCIe 5.0 §7.9.16`). Never holds a dialog.
//!
//! ```text
//! +0   31:20 Next, 19:16 version 1, ID 001Fh
//! +4   15:8 Local Clock Granularity (ns), 2 Root Capable, 1 Responder Capable, 0 Requester Capable
//! +8   15:8 Effective Granularity, 1 Root Select, 0 PTM Enable
//! ```

use super::HEADER;
use crate::Effects;
use crate::register::{Field, Register, Structure, Word};

/// Extended capability ID.
pub const ID: u16 = 0x001f;
/// Capability version.
pub const VERSION: u8 = 1;
/// DW of PTM Capability.
pub const CAPABILITY: u16 = 1;
/// DW of PTM Control.
pub const CONTROL: u16 = 2;

const ONE_CLOCK: &str = "all of a fabric has one clock: no PTM dialog takes place";
const CONTROL_FIELDS: &[Field] = &[
    Field::inert(1 << 0, "PTM Enable", ONE_CLOCK).tells(Effects::PTM),
    Field::inert(1 << 1, "Root Select", ONE_CLOCK).tells(Effects::PTM),
    Field::inert(0xff << 8, "Effective Granularity", ONE_CLOCK).tells(Effects::PTM),
];

/// The registers.
pub const TABLE: Structure = Structure {
    name: "Precision Time Measurement",
    source: "PCIe 5.0 §7.9.16",
    words: &[
        HEADER,
        Word {
            dw: CAPABILITY,
            name: "PTM Capability",
            fields: &[
                Field::hwinit(1 << 0, "PTM Requester Capable"),
                Field::hwinit(1 << 1, "PTM Responder Capable"),
                Field::hwinit(1 << 2, "PTM Root Capable"),
                Field::hwinit(0xff << 8, "Local Clock Granularity"),
            ],
        },
        Word { dw: CONTROL, name: "PTM Control", fields: CONTROL_FIELDS },
    ],
};

/// PTM as a function wants it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PtmLayout {
    /// PTM Requester Capable.
    pub requester: bool,
    /// PTM Responder Capable.
    pub responder: bool,
    /// PTM Root Capable.
    pub root: bool,
    /// Local Clock Granularity in ns; 255 is more than 254.
    pub granularity_ns: u8,
}

impl PtmLayout {
    /// The capability's registers. Root Select is there for what can be a root.
    #[must_use]
    pub fn registers(&self) -> Vec<Register> {
        let roles = u32::from(self.requester) | u32::from(self.responder) << 1 | u32::from(self.root) << 2;
        let mut all = TABLE.registers(&[(CAPABILITY, roles | u32::from(self.granularity_ns) << 8)]);
        if !self.root {
            all[usize::from(CONTROL)] = CONTROL_REGISTER.without(1 << 1);
        }
        all
    }
}

const CONTROL_REGISTER: Register = Register::of(CONTROL_FIELDS, 0);
