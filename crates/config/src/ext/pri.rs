// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Page Request Interface extended capability (`PCIe 5.0 §10.5.2`). Never asks for a page.
//!
//! ```text
//! +0   31:20 Next, 19:16 version 1, ID 0013h
//! +4   Page Request Status: 31 PRG Response PASID Required, 24 Stopped, 17 Unexpected PRG Index RW1C,
//!      16 Response Failure RW1C;  Page Request Control: 1 Reset, 0 Enable
//! +8   Outstanding Page Request Capacity
//! +c   Outstanding Page Request Allocation
//! ```

use super::HEADER;
use crate::Effects;
use crate::register::{Field, Register, Structure, Word};

/// Extended capability ID.
pub const ID: u16 = 0x0013;
/// Capability version.
pub const VERSION: u8 = 1;
/// DW of Page Request Control (15:0) and Page Request Status (31:16).
pub const CONTROL: u16 = 1;
const STOPPED: u32 = 1 << 24;

/// The registers.
pub const TABLE: Structure = Structure {
    name: "Page Request Interface",
    source: "PCIe 5.0 §10.5.2",
    words: &[
        HEADER,
        Word {
            dw: CONTROL,
            name: "Page Request Control, Page Request Status",
            fields: &[
                Field::inert(1 << 0, "Enable", super::NO_TRANSLATION).tells(Effects::TRANSLATION),
                Field {
                    inert: Some("nothing is outstanding, so it has nothing to clear"),
                    ..Field::trigger(1 << 1, "Reset", "")
                },
                Field::inert_event(1 << 16, "Response Failure", super::NO_TRANSLATION),
                Field::inert_event(1 << 17, "Unexpected Page Request Group Index", super::NO_TRANSLATION),
                Field::ro(STOPPED, "Stopped"),
                Field::ro(1 << 31, "PRG Response PASID Required"),
            ],
        },
        Word { dw: 2, name: "Outstanding Page Request Capacity", fields: &[Field::ro(!0, "Capacity")] },
        Word {
            dw: 3,
            name: "Outstanding Page Request Allocation",
            fields: &[Field::inert(!0, "Allocation", super::NO_TRANSLATION)],
        },
    ],
};

/// The capability's registers; `capacity` is the number of page requests that could be outstanding.
#[must_use]
pub fn registers(capacity: u32) -> Vec<Register> {
    TABLE.registers(&[(CONTROL, STOPPED), (2, capacity)])
}
