// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MSI-X capability (`PCIe 5.0 §7.7.2`). The table and the Pending Bit Array stand in a BAR, not here.
//!
//! ```text
//! +0   Message Control                   Next           ID 11h
//!      31 Enable, 30 Function Mask, 26:16 Table Size - 1
//! +4   Table Offset 31:3                                Table BIR 2:0
//! +8   PBA Offset 31:3                                  PBA BIR 2:0
//! ```

use crate::Effects;
use crate::register::{Field, Register, Structure, Word};

/// Capability ID.
pub const ID: u8 = 0x11;

/// MSI-X Enable.
pub const ENABLE: u32 = 1 << 31;
pub(crate) const FUNCTION_MASK: u32 = 1 << 30;

/// The registers.
pub const TABLE: Structure = Structure {
    name: "MSI-X",
    source: "PCIe 5.0 §7.7.2",
    words: &[
        Word {
            dw: 0,
            name: "Message Control",
            fields: &[
                Field::hwinit(0x7ff << 16, "Table Size"),
                Field::rw(FUNCTION_MASK, "Function Mask", "holds all vectors back").tells(Effects::MSIX),
                Field::rw(ENABLE, "MSI-X Enable", "interrupts are the writes of the table")
                    .tells(Effects::MSIX),
            ],
        },
        Word {
            dw: 1,
            name: "Table Offset, Table BIR",
            fields: &[Field::hwinit(0b111, "Table BIR"), Field::hwinit(!0b111, "Table Offset")],
        },
        Word {
            dw: 2,
            name: "PBA Offset, PBA BIR",
            fields: &[Field::hwinit(0b111, "PBA BIR"), Field::hwinit(!0b111, "PBA Offset")],
        },
    ],
};

/// Bytes of a table entry: address (8), data (4), vector control (4) (`PCIe 5.0 §6.1.4.2`).
pub const ENTRY_BYTES: u64 = 16;

/// MSI-X as a function wants it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MsixLayout {
    /// Vectors, 1 to 2048.
    pub vectors: u16,
    /// BAR of the table, and its offset there, a multiple of 8 B.
    pub table: (u8, u32),
    /// BAR of the Pending Bit Array, and its offset there, a multiple of 8 B.
    pub pending: (u8, u32),
}

/// Message Control as software has set it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MsixControl {
    /// MSI-X Enable.
    pub enabled: bool,
    /// Function Mask: all vectors are masked.
    pub function_mask: bool,
}

impl MsixLayout {
    pub(crate) fn registers(self) -> Vec<Register> {
        TABLE.registers(&[
            (0, u32::from(self.vectors.wrapping_sub(1) & 0x7ff) << 16),
            (1, self.table.1 | u32::from(self.table.0)),
            (2, self.pending.1 | u32::from(self.pending.0)),
        ])
    }

    /// Bytes of the table.
    #[must_use]
    pub const fn table_bytes(&self) -> u64 {
        self.vectors as u64 * ENTRY_BYTES
    }

    /// Bytes of the Pending Bit Array: whole QWs.
    #[must_use]
    pub const fn pending_bytes(&self) -> u64 {
        (self.vectors as u64).div_ceil(64) * 8
    }
}
