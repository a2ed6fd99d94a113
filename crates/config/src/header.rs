// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The configuration header's registers (`PCIe 5.0 §7.5.1`), as DW numbers, bit masks and tables.
//!
//! Items that both header types share are here; [`type0`] and [`type1`] have the others.

use crate::Effects;
use crate::register::{Access, Field, structure};

pub use type0::{
    CAPABILITIES_POINTER, CLASS_REVISION, COMMAND_STATUS, ID, INTERRUPT, MISC, MULTI_FUNCTION, TYPE_0_HEADER,
};
pub use type0::{command, status};
pub use type1::{TYPE_1_HEADER, bridge_control};

/// Value of Vendor ID and Device ID that a root port returns while a function is not ready: Vendor ID 0001h, then all ones
/// (`PCIe 5.0 §2.3.2`).
pub const NOT_READY: u32 = 0xffff_0001;

/// Header Layout of a bridge, in place (`PCIe 5.0 §7.5.1.1.9`).
pub const TYPE_1: u32 = 1 << 16;

const NO_ROM: &str = "has a size and an address, but no contents: accesses are Unsupported Requests";

/// The type 0 header (`PCIe 5.0 §7.5.1.2`), including the registers that type 1 shares.
pub mod type0 {
    use super::{NO_ROM, structure};

    structure! {
        header TYPE_0_HEADER, "Type 0 configuration header", "PCIe 5.0 §7.5.1.2";

        0x00 ID "Vendor ID, Device ID" {
            15:0  hwinit VENDOR_ID "Vendor ID";
            31:16 hwinit DEVICE_ID "Device ID";
        }
        0x04 COMMAND_STATUS in command_status "Command, Status" {
            0  rw   IO_SPACE "I/O Space Enable", "decodes I/O BARs" => COMMAND;
            1  rw   MEMORY_SPACE "Memory Space Enable", "decodes memory BARs" => COMMAND;
            2  rw   BUS_MASTER "Bus Master Enable", "issues requests, MSI" => COMMAND;
            6  rw   PARITY_ERROR_RESPONSE "Parity Error Response",
                "Master Data Parity Error is set" => COMMAND;
            8  rw   SERR_ENABLE "SERR# Enable",
                "ERR_FATAL and ERR_NONFATAL are sent; Signaled System Error is set" => COMMAND;
            10 rw   INTERRUPT_DISABLE "Interrupt Disable", "INTx is not asserted" => COMMAND;
            16 ro   IMMEDIATE_READINESS "Immediate Readiness";
            19 ro   INTERRUPT_STATUS "Interrupt Status";
            20 ro   CAPABILITIES_LIST "Capabilities List";
            24 rw1c MASTER_DATA_PARITY_ERROR "Master Data Parity Error", "event";
            27 rw1c SIGNALED_TARGET_ABORT "Signaled Target Abort", "event";
            28 rw1c RECEIVED_TARGET_ABORT "Received Target Abort", "event";
            29 rw1c RECEIVED_MASTER_ABORT "Received Master Abort", "event";
            30 rw1c SIGNALED_SYSTEM_ERROR "Signaled System Error", "event";
            31 rw1c DETECTED_PARITY_ERROR "Detected Parity Error", "event";
        }
        0x08 CLASS_REVISION "Revision ID, Class Code" {
            7:0  hwinit REVISION_ID "Revision ID";
            31:8 hwinit CLASS_CODE "Class Code";
        }
        0x0c MISC "Cache Line Size, Latency Timer, Header Type, BIST" {
            7:0   rw.inert CACHE_LINE_SIZE "Cache Line Size", "PCI Express gives it no meaning (§7.5.1.1.7)";
            15:8  ro       LATENCY_TIMER "Latency Timer";
            22:16 hwinit   HEADER_LAYOUT "Header Layout";
            23    hwinit   MULTI_FUNCTION "Multi-Function Device";
            31:24 ro       BIST "BIST";
        }
        // The BAR's size decides which of these are address bits.
        0x10 BAR0 "Base Address Registers (six)" {
            31:0 rw BASE_ADDRESS "Base Address", "moves the window; bits below its size are read-only" => BAR;
        }
        0x2c SUBSYSTEM "Subsystem Vendor ID, Subsystem ID" {
            15:0  hwinit SUBSYSTEM_VENDOR_ID "Subsystem Vendor ID";
            31:16 hwinit SUBSYSTEM_ID "Subsystem ID";
        }
        0x30 EXPANSION_ROM "Expansion ROM Base Address" {
            0     rw.inert ROM_ENABLE "Expansion ROM Enable", NO_ROM => BAR;
            31:11 rw.inert ROM_ADDRESS "Expansion ROM Base Address", NO_ROM => BAR;
        }
        0x34 CAPABILITIES_POINTER "Capabilities Pointer" {
            7:0 hwinit FIRST_CAPABILITY "Capabilities Pointer";
        }
        0x3c INTERRUPT "Interrupt Line, Interrupt Pin" {
            7:0  rw.inert INTERRUPT_LINE "Interrupt Line", "scratch space for software (§7.5.1.1.12)";
            15:8 hwinit   INTERRUPT_PIN "Interrupt Pin";
        }
    }

    /// Number of Base Address Registers.
    pub const BARS: u8 = 6;

    pub use command_status as command;

    /// Bits of the Status register, in their positions in the DW that it shares with Command.
    pub mod status {
        pub use super::command_status::*;

        /// All RW1C bits.
        pub const RW1C: u32 =
            super::super::Access::of(super::TYPE_0_HEADER.fields(super::COMMAND_STATUS)).rw1c;
    }
}

const fn command(bits: u32, name: &'static str, does: &'static str) -> Field {
    Field::rw(bits, name, does).tells(Effects::COMMAND)
}

/// Returns a field of Command or Status of the type 0 header.
const fn same(bits: u32) -> Field {
    let fields = TYPE_0_HEADER.fields(COMMAND_STATUS);
    let mut i = 0;
    while fields[i].bits != bits {
        i += 1;
    }
    fields[i]
}

const NO_REQUESTS: &str = "a bridge itself sends no requests upstream, and aborts no requests from there";

const BRIDGE_COMMAND: &[Field] = &[
    command(command::IO_SPACE, "I/O Space Enable", "forwards I/O downstream"),
    command(command::MEMORY_SPACE, "Memory Space Enable", "forwards memory downstream"),
    command(command::BUS_MASTER, "Bus Master Enable", "forwards requests upstream; MSI"),
    same(command::PARITY_ERROR_RESPONSE),
    same(command::SERR_ENABLE),
    same(command::INTERRUPT_DISABLE),
    same(status::IMMEDIATE_READINESS),
    same(status::INTERRUPT_STATUS),
    same(status::CAPABILITIES_LIST),
    same(status::MASTER_DATA_PARITY_ERROR),
    Field::rw1c(status::SIGNALED_TARGET_ABORT, "Signaled Target Abort", NO_REQUESTS).inert(),
    Field::rw1c(status::RECEIVED_TARGET_ABORT, "Received Target Abort", NO_REQUESTS).inert(),
    Field::rw1c(status::RECEIVED_MASTER_ABORT, "Received Master Abort", NO_REQUESTS).inert(),
    same(status::SIGNALED_SYSTEM_ERROR),
    same(status::DETECTED_PARITY_ERROR),
];

const NO_PARITY: &str = "never set: a VF has no Parity Error Response";

/// Command has only Bus Master Enable.
const VIRTUAL_COMMAND: &[Field] = &[
    same(command::BUS_MASTER),
    same(status::CAPABILITIES_LIST),
    Field::rw1c(status::MASTER_DATA_PARITY_ERROR, "Master Data Parity Error", NO_PARITY).inert(),
    same(status::SIGNALED_TARGET_ABORT),
    same(status::RECEIVED_TARGET_ABORT),
    same(status::RECEIVED_MASTER_ABORT),
    same(status::SIGNALED_SYSTEM_ERROR),
    same(status::DETECTED_PARITY_ERROR),
];

structure! {
    header VIRTUAL_FUNCTION_HEADER, "Type 0 configuration header of a Virtual Function", "PCIe 5.0 §9.3.4.1";

    0x00 _ "Vendor ID, Device ID" (TYPE_0_HEADER.fields(ID))
    0x04 _ "Command, Status" (VIRTUAL_COMMAND)
    0x08 _ "Revision ID, Class Code" (TYPE_0_HEADER.fields(CLASS_REVISION))
    0x0c _ "Cache Line Size, Latency Timer, Header Type, BIST" (&[Field::hwinit(0x7f << 16, "Header Layout")])
    0x2c _ "Subsystem Vendor ID, Subsystem ID" (TYPE_0_HEADER.fields(type0::SUBSYSTEM))
    0x34 _ "Capabilities Pointer" (TYPE_0_HEADER.fields(CAPABILITIES_POINTER))
}

/// Registers that only the type 1 header has (`PCIe 5.0 §7.5.1.3`).
pub mod type1 {
    use super::{
        BRIDGE_COMMAND, CAPABILITIES_POINTER, CLASS_REVISION, ID, MISC, TYPE_0_HEADER, structure, type0,
    };

    structure! {
        header TYPE_1_HEADER, "Type 1 configuration header", "PCIe 5.0 §7.5.1.3";

        0x00 _ "Vendor ID, Device ID" (TYPE_0_HEADER.fields(ID))
        0x04 _ "Command, Status" (BRIDGE_COMMAND)
        0x08 _ "Revision ID, Class Code" (TYPE_0_HEADER.fields(CLASS_REVISION))
        0x0c _ "Cache Line Size, Latency Timer, Header Type, BIST" (TYPE_0_HEADER.fields(MISC))
        0x10 BAR0 "Base Address Registers (two)" {
            31:0 rw.inert BASE_ADDRESS "Base Address",
                "a bridge has no memory-mapped registers that these BARs could map" => BAR;
        }
        0x18 BUS_NUMBERS "Bus Numbers" {
            7:0   rw.inert PRIMARY_BUS "Primary Bus Number",
                "PCI Express does not route by it (§7.5.1.3.2)" => BRIDGE;
            15:8  rw       SECONDARY_BUS "Secondary Bus Number",
                "claims configuration requests and completions" => BRIDGE;
            23:16 rw       SUBORDINATE_BUS "Subordinate Bus Number",
                "claims configuration requests and completions" => BRIDGE;
            31:24 ro       SECONDARY_LATENCY_TIMER "Secondary Latency Timer";
        }
        // Granules of 4 KiB.
        0x1c IO_SECONDARY_STATUS in io_secondary_status "I/O Base, I/O Limit, Secondary Status" {
            (0x0f0f) ro   ADDRESSING "I/O Addressing Capability";
            7:4      rw   BASE "I/O Base", "claims I/O requests" => BRIDGE;
            15:12    rw   LIMIT "I/O Limit", "claims I/O requests" => BRIDGE;
            24       rw1c MASTER_DATA_PARITY_ERROR "Secondary: Master Data Parity Error", "event";
            27       rw1c SIGNALED_TARGET_ABORT "Secondary: Signaled Target Abort", "event";
            28       rw1c RECEIVED_TARGET_ABORT "Secondary: Received Target Abort", "event";
            29       rw1c RECEIVED_MASTER_ABORT "Secondary: Received Master Abort", "event";
            30       rw1c RECEIVED_SYSTEM_ERROR "Secondary: Received System Error", "event";
            31       rw1c DETECTED_PARITY_ERROR "Secondary: Detected Parity Error", "event";
        }
        // Granules of 1 MiB, like the granules of the prefetchable window.
        0x20 MEMORY in memory "Memory Base, Memory Limit" {
            15:4  rw BASE "Memory Base", "claims memory requests" => BRIDGE;
            31:20 rw LIMIT "Memory Limit", "claims memory requests" => BRIDGE;
        }
        0x24 PREFETCHABLE in prefetchable "Prefetchable Memory Base, Limit" {
            (0x000f_000f) ro ADDRESSING "64-bit addressing";
            15:4          rw BASE "Prefetchable Memory Base", "claims memory requests" => BRIDGE;
            31:20         rw LIMIT "Prefetchable Memory Limit", "claims memory requests" => BRIDGE;
        }
        0x28 PREFETCHABLE_BASE_UPPER "Prefetchable Base Upper 32 Bits" {
            31:0 rw BASE_UPPER "Prefetchable Base Upper 32 Bits", "claims memory requests" => BRIDGE;
        }
        0x2c PREFETCHABLE_LIMIT_UPPER "Prefetchable Limit Upper 32 Bits" {
            31:0 rw LIMIT_UPPER "Prefetchable Limit Upper 32 Bits", "claims memory requests" => BRIDGE;
        }
        0x30 IO_UPPER "I/O Base Upper 16 Bits, I/O Limit Upper 16 Bits" {
            15:0  rw IO_BASE_UPPER "I/O Base Upper 16 Bits", "claims I/O requests" => BRIDGE;
            31:16 rw IO_LIMIT_UPPER "I/O Limit Upper 16 Bits", "claims I/O requests" => BRIDGE;
        }
        0x34 _ "Capabilities Pointer" (TYPE_0_HEADER.fields(CAPABILITIES_POINTER))
        0x38 EXPANSION_ROM "Expansion ROM Base Address" (TYPE_0_HEADER.fields(type0::EXPANSION_ROM))
        0x3c _ in bridge_control "Interrupt Line, Interrupt Pin, Bridge Control" {
            7:0  rw.inert INTERRUPT_LINE "Interrupt Line", "scratch space for software (§7.5.1.1.12)";
            15:8 hwinit   INTERRUPT_PIN "Interrupt Pin";
            16   rw       PARITY_ERROR_RESPONSE "Parity Error Response Enable",
                "Master Data Parity Error of Secondary Status is set" => BRIDGE;
            17   rw       SERR_ENABLE "SERR# Enable", "forwards error messages" => BRIDGE;
            18   rw       ISA_ENABLE "ISA Enable", "leaves ISA aliases out of the I/O window" => BRIDGE;
            19   rw       VGA_ENABLE "VGA Enable", "claims VGA addresses" => BRIDGE;
            20   rw       VGA_16_BIT "VGA 16-bit Decode", "does not claim aliases of the VGA ports" => BRIDGE;
            22   rw       SECONDARY_BUS_RESET "Secondary Bus Reset",
                "hot reset of everything below" => BRIDGE | SECONDARY_BUS_RESET;
        }
    }

    /// Number of Base Address Registers.
    pub const BARS: u8 = 2;
    /// I/O Base and Limit: 32-bit addressing (0001b in each byte's low half); zero is 16-bit.
    pub const IO_32_BIT: u32 = 0x0101;
    /// Prefetchable Base and Limit: 64-bit addressing; zero is 32-bit.
    pub const PREFETCHABLE_64_BIT: u32 = 0x0001_0001;
}
