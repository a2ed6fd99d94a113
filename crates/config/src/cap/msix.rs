// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MSI-X capability (`PCIe 5.0 §7.7.2`). The table and the Pending Bit Array are in a BAR, not in configuration space.

use crate::register::{Register, put, structure};

structure! {
    capability 0x11, "MSI-X", "PCIe 5.0 §7.7.2";

    0x00 CONTROL "Message Control" {
        26:16 hwinit TABLE_SIZE "Table Size";
        30    rw     FUNCTION_MASK "Function Mask", "masks all vectors" => MSIX;
        31    rw     ENABLE "MSI-X Enable", "interrupts are sent as the writes that the table defines" => MSIX;
    }
    0x04 TABLE_PLACE "Table Offset, Table BIR" {
        2:0  hwinit TABLE_BIR "Table BIR";
        31:3 hwinit TABLE_OFFSET "Table Offset";
    }
    0x08 PENDING_PLACE "PBA Offset, PBA BIR" {
        2:0  hwinit PENDING_BIR "PBA BIR";
        31:3 hwinit PENDING_OFFSET "PBA Offset";
    }
}

/// Bytes of a table entry: address (8), data (4), vector control (4) (`PCIe 5.0 §6.1.4.2`).
pub const ENTRY_BYTES: u64 = 16;

/// Declaration of a function's MSI-X capability.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MsixLayout {
    /// Vectors, 1 to 2048.
    pub vectors: u16,
    /// BAR of the table, and its offset in the BAR, a multiple of 8 B.
    pub table: (u8, u32),
    /// BAR of the Pending Bit Array, and its offset in the BAR, a multiple of 8 B.
    pub pending: (u8, u32),
}

/// Message Control, as set by software.
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
            (CONTROL, put(TABLE_SIZE, self.vectors.wrapping_sub(1).into())),
            (TABLE_PLACE, self.table.1 | u32::from(self.table.0)),
            (PENDING_PLACE, self.pending.1 | u32::from(self.pending.0)),
        ])
    }

    /// Bytes of the table.
    pub const fn table_bytes(&self) -> u64 {
        self.vectors as u64 * ENTRY_BYTES
    }

    /// Bytes of the Pending Bit Array, rounded up to whole QWs.
    pub const fn pending_bytes(&self) -> u64 {
        (self.vectors as u64).div_ceil(64) * 8
    }
}
