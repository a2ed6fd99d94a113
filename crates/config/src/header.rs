// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The configuration header's registers (`PCIe 5.0 §7.5.1`), as DW numbers and bit masks. Never holds state.
//!
//! ```text
//! DW  31          24 23          16 15           8 7            0
//!  0  Device ID                     Vendor ID
//!  1  Status                        Command
//!  2  Class Code                                   Revision ID
//!  3  BIST           Header Type    Latency Timer  Cache Line Size
//! ```

/// Device ID and Vendor ID (`§7.5.1.1.1`, `§7.5.1.1.2`).
pub const ID: u16 = 0;
/// Command (15:0) and Status (31:16) (`§7.5.1.1.3`, `§7.5.1.1.4`).
pub const COMMAND_STATUS: u16 = 1;
/// Class Code and Revision ID (`§7.5.1.1.5`, `§7.5.1.1.6`).
pub const CLASS_REVISION: u16 = 2;
/// BIST, Header Type, Latency Timer, Cache Line Size (`§7.5.1.1.7` to `§7.5.1.1.9`).
pub const MISC: u16 = 3;
/// Capabilities Pointer, in bits 7:0, of both header types (`§7.5.1.1.11`).
pub const CAPABILITIES_POINTER: u16 = 0x34 / 4;
/// Interrupt Pin (15:8) and Interrupt Line (7:0) (`§7.5.1.1.12`, `§7.5.1.1.13`).
pub const INTERRUPT: u16 = 0x3c / 4;

/// Bits of the Command register (`PCIe 5.0 Table 7-3`).
pub mod command {
    /// I/O Space Enable.
    pub const IO_SPACE: u32 = 1 << 0;
    /// Memory Space Enable.
    pub const MEMORY_SPACE: u32 = 1 << 1;
    /// Bus Master Enable.
    pub const BUS_MASTER: u32 = 1 << 2;
    /// Parity Error Response.
    pub const PARITY_ERROR_RESPONSE: u32 = 1 << 6;
    /// SERR# Enable.
    pub const SERR_ENABLE: u32 = 1 << 8;
    /// Interrupt Disable.
    pub const INTERRUPT_DISABLE: u32 = 1 << 10;
    /// All that software may write in an endpoint.
    pub const WRITABLE: u32 =
        IO_SPACE | MEMORY_SPACE | BUS_MASTER | PARITY_ERROR_RESPONSE | SERR_ENABLE | INTERRUPT_DISABLE;
}

/// Bits of the Status register (`PCIe 5.0 Table 7-4`), in place in the DW that it shares with Command.
pub mod status {
    /// Capabilities List: read-only one.
    pub const CAPABILITIES_LIST: u32 = 1 << 20;
    /// Master Data Parity Error: a poisoned completion came, and Parity Error Response is set.
    pub const MASTER_DATA_PARITY_ERROR: u32 = 1 << 24;
    /// Signaled Target Abort: the function completed a request with CA.
    pub const SIGNALED_TARGET_ABORT: u32 = 1 << 27;
    /// Received Target Abort: a request of the function was completed with CA.
    pub const RECEIVED_TARGET_ABORT: u32 = 1 << 28;
    /// Received Master Abort: a request of the function was completed with UR.
    pub const RECEIVED_MASTER_ABORT: u32 = 1 << 29;
    /// Signaled System Error: ERR_FATAL or ERR_NONFATAL was sent, and SERR# Enable is set.
    pub const SIGNALED_SYSTEM_ERROR: u32 = 1 << 30;
    /// Detected Parity Error: a poisoned TLP came.
    pub const DETECTED_PARITY_ERROR: u32 = 1 << 31;
    /// All RW1C bits.
    pub const RW1C: u32 = MASTER_DATA_PARITY_ERROR
        | SIGNALED_TARGET_ABORT
        | RECEIVED_TARGET_ABORT
        | RECEIVED_MASTER_ABORT
        | SIGNALED_SYSTEM_ERROR
        | DETECTED_PARITY_ERROR;
}

/// Header Type bit 7, in place: the device has more than one function (`PCIe 5.0 §7.5.1.1.9`).
pub const MULTI_FUNCTION: u32 = 1 << 23;

/// What only the type 0 header has (`PCIe 5.0 §7.5.1.2`).
pub mod type0 {
    /// The first of six Base Address Registers (`§7.5.1.2.1`).
    pub const BAR0: u16 = 0x10 / 4;
    /// How many Base Address Registers.
    pub const BARS: u8 = 6;
    /// Subsystem ID (31:16) and Subsystem Vendor ID (15:0) (`§7.5.1.2.3`).
    pub const SUBSYSTEM: u16 = 0x2c / 4;
}
