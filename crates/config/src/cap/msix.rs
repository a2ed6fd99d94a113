// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MSI-X capability (`PCIe 5.0 §7.7.2`). The table and the Pending Bit Array stand in a BAR, not here.
//!
//! ```text
//! +0   Message Control                   Next           ID 11h
//!      31 Enable, 30 Function Mask, 26:16 Table Size - 1
//! +4   Table Offset 31:3                                Table BIR 2:0
//! +8   PBA Offset 31:3                                  PBA BIR 2:0
//! ```

use super::{ro, rw};
use crate::register::Register;

/// Capability ID.
pub const ID: u8 = 0x11;

pub(crate) const ENABLE: u32 = 1 << 31;
pub(crate) const FUNCTION_MASK: u32 = 1 << 30;

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
    pub(crate) fn registers(self) -> [Register; 3] {
        [
            rw(u32::from(self.vectors.wrapping_sub(1) & 0x7ff) << 16, ENABLE | FUNCTION_MASK),
            ro(self.table.1 | u32::from(self.table.0)),
            ro(self.pending.1 | u32::from(self.pending.0)),
        ]
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
