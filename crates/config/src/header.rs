// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The configuration header's registers (`PCIe 5.0 §7.5.1`), as DW numbers, bit masks and tables. Never holds state.
//!
//! ```text
//! DW  31          24 23          16 15           8 7            0
//!  0  Device ID                     Vendor ID
//!  1  Status                        Command
//!  2  Class Code                                   Revision ID
//!  3  BIST           Header Type    Latency Timer  Cache Line Size
//!
//!     type 0                                         type 1
//!  4  Base Address Registers 0 .. 5 (to DW 9)        Base Address Registers 0, 1
//!  6                                                 Secondary Latency Timer | Subordinate | Secondary | Primary
//!  7                                                 Secondary Status      | I/O Limit | I/O Base
//!  8                                                 Memory Limit          | Memory Base
//!  9                                                 Prefetchable Limit    | Prefetchable Base
//! 10  Cardbus CIS Pointer: zero                      Prefetchable Base Upper 32 Bits
//! 11  Subsystem ID | Subsystem Vendor ID             Prefetchable Limit Upper 32 Bits
//! 12  Expansion ROM Base Address                     I/O Limit Upper 16 Bits | I/O Base Upper 16 Bits
//! 13  Capabilities Pointer                           the same
//! 14  reserved                                       Expansion ROM Base Address
//! 15  Max_Lat, Min_Gnt: zero | Pin | Line            Bridge Control | Interrupt Pin | Interrupt Line
//! ```

use crate::Effects;
use crate::register::{Field, Structure, Word};

/// Device ID and Vendor ID (`§7.5.1.1.1`, `§7.5.1.1.2`).
pub const ID: u16 = 0;
/// What a read of Vendor and Device ID gives while a function is not ready, from a root port that shows it: Vendor ID 0001h,
/// and all ones behind it (`PCIe 5.0 §2.3.2`).
pub const NOT_READY: u32 = 0xffff_0001;
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
    /// All that software may write.
    pub const WRITABLE: u32 =
        IO_SPACE | MEMORY_SPACE | BUS_MASTER | PARITY_ERROR_RESPONSE | SERR_ENABLE | INTERRUPT_DISABLE;
}

/// Bits of the Status register (`PCIe 5.0 Table 7-4`), in place in the DW that it shares with Command.
pub mod status {
    /// Immediate Readiness: read-only zero here.
    pub const IMMEDIATE_READINESS: u32 = 1 << 16;
    /// Interrupt Status: INTx would be asserted, but for Interrupt Disable.
    pub const INTERRUPT_STATUS: u32 = 1 << 19;
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

/// Header Type bit 0, in place: the layout of a bridge (`PCIe 5.0 §7.5.1.1.9`).
pub const TYPE_1: u32 = 1 << 16;

/// What only the type 0 header has (`PCIe 5.0 §7.5.1.2`).
pub mod type0 {
    /// The first of six Base Address Registers (`§7.5.1.2.1`).
    pub const BAR0: u16 = 0x10 / 4;
    /// How many Base Address Registers.
    pub const BARS: u8 = 6;
    /// Subsystem ID (31:16) and Subsystem Vendor ID (15:0) (`§7.5.1.2.3`).
    pub const SUBSYSTEM: u16 = 0x2c / 4;
    /// Expansion ROM Base Address (`§7.5.1.2.4`).
    pub const EXPANSION_ROM: u16 = 0x30 / 4;
}

/// What only the type 1 header has (`PCIe 5.0 §7.5.1.3`).
pub mod type1 {
    /// The first of two Base Address Registers (`§7.5.1.3.1`).
    pub const BAR0: u16 = 0x10 / 4;
    /// How many Base Address Registers.
    pub const BARS: u8 = 2;
    /// Primary (7:0), Secondary (15:8), Subordinate (23:16) Bus Number (`§7.5.1.3.2` to `§7.5.1.3.4`).
    pub const BUS_NUMBERS: u16 = 0x18 / 4;
    /// I/O Base (7:0), I/O Limit (15:8), Secondary Status (31:16) (`§7.5.1.3.6`, `§7.5.1.3.7`).
    pub const IO_SECONDARY_STATUS: u16 = 0x1c / 4;
    /// Memory Base (15:0), Memory Limit (31:16) (`§7.5.1.3.8`).
    pub const MEMORY: u16 = 0x20 / 4;
    /// Prefetchable Memory Base (15:0), Limit (31:16) (`§7.5.1.3.9`).
    pub const PREFETCHABLE: u16 = 0x24 / 4;
    /// Prefetchable Base Upper 32 Bits (`§7.5.1.3.10`).
    pub const PREFETCHABLE_BASE_UPPER: u16 = 0x28 / 4;
    /// Prefetchable Limit Upper 32 Bits (`§7.5.1.3.10`).
    pub const PREFETCHABLE_LIMIT_UPPER: u16 = 0x2c / 4;
    /// I/O Base Upper 16 Bits (15:0), I/O Limit Upper 16 Bits (31:16) (`§7.5.1.3.11`).
    pub const IO_UPPER: u16 = 0x30 / 4;
    /// Expansion ROM Base Address (`§7.5.1.3.12`).
    pub const EXPANSION_ROM: u16 = 0x38 / 4;
    /// I/O Base and Limit: 32-bit addressing (0001b in each byte's low half); zero is 16-bit.
    pub const IO_32_BIT: u32 = 0x0101;
    /// Prefetchable Base and Limit: 64-bit addressing; zero is 32-bit.
    pub const PREFETCHABLE_64_BIT: u32 = 0x0001_0001;
}

/// Bits of Bridge Control, in place in the DW that it shares with Interrupt Pin (`PCIe 5.0 Table 7-12`).
pub mod bridge_control {
    /// Parity Error Response Enable: Master Data Parity Error of Secondary Status is set.
    pub const PARITY_ERROR_RESPONSE: u32 = 1 << 16;
    /// SERR# Enable: error messages of the secondary side are forwarded.
    pub const SERR_ENABLE: u32 = 1 << 17;
    /// ISA Enable: of each KiB of I/O below 64 KiB, the upper 768 bytes are not forwarded.
    pub const ISA_ENABLE: u32 = 1 << 18;
    /// VGA Enable: forwards memory A0000h to BFFFFh and the I/O ports of VGA.
    pub const VGA_ENABLE: u32 = 1 << 19;
    /// VGA 16-bit Decode: all 16 bits of those ports count.
    pub const VGA_16_BIT: u32 = 1 << 20;
    /// Secondary Bus Reset.
    pub const SECONDARY_BUS_RESET: u32 = 1 << 22;
}

const fn command(bits: u32, name: &'static str, does: &'static str) -> Field {
    Field::rw(bits, name, does).tells(Effects::COMMAND)
}

const COMMAND_FIELDS: &[Field] = &[
    command(command::IO_SPACE, "I/O Space Enable", "decodes I/O BARs"),
    command(command::MEMORY_SPACE, "Memory Space Enable", "decodes memory BARs"),
    command(command::BUS_MASTER, "Bus Master Enable", "issues requests, MSI"),
    PARITY_ERROR_RESPONSE,
    SERR_ENABLE,
    INTERRUPT_DISABLE,
    Field::ro(status::IMMEDIATE_READINESS, "Immediate Readiness"),
    Field::ro(status::INTERRUPT_STATUS, "Interrupt Status"),
    Field::ro(status::CAPABILITIES_LIST, "Capabilities List"),
    Field::rw1c(status::MASTER_DATA_PARITY_ERROR, "Master Data Parity Error", "event"),
    Field::rw1c(status::SIGNALED_TARGET_ABORT, "Signaled Target Abort", "event"),
    Field::rw1c(status::RECEIVED_TARGET_ABORT, "Received Target Abort", "event"),
    Field::rw1c(status::RECEIVED_MASTER_ABORT, "Received Master Abort", "event"),
    Field::rw1c(status::SIGNALED_SYSTEM_ERROR, "Signaled System Error", "event"),
    Field::rw1c(status::DETECTED_PARITY_ERROR, "Detected Parity Error", "event"),
];

const PARITY_ERROR_RESPONSE: Field =
    command(command::PARITY_ERROR_RESPONSE, "Parity Error Response", "Master Data Parity Error is set");
const SERR_ENABLE: Field = command(
    command::SERR_ENABLE,
    "SERR# Enable",
    "ERR_FATAL and ERR_NONFATAL are sent; Signaled System Error is set",
);
const INTERRUPT_DISABLE: Field =
    command(command::INTERRUPT_DISABLE, "Interrupt Disable", "INTx is not asserted");

const NO_REQUESTS: &str = "a bridge asks nothing of what is above, and aborts nothing that comes from there";

const BRIDGE_COMMAND_FIELDS: &[Field] = &[
    command(command::IO_SPACE, "I/O Space Enable", "forwards I/O downstream"),
    command(command::MEMORY_SPACE, "Memory Space Enable", "forwards memory downstream"),
    command(command::BUS_MASTER, "Bus Master Enable", "forwards requests upstream; MSI"),
    PARITY_ERROR_RESPONSE,
    SERR_ENABLE,
    INTERRUPT_DISABLE,
    Field::ro(status::IMMEDIATE_READINESS, "Immediate Readiness"),
    Field::ro(status::INTERRUPT_STATUS, "Interrupt Status"),
    Field::ro(status::CAPABILITIES_LIST, "Capabilities List"),
    Field::rw1c(status::MASTER_DATA_PARITY_ERROR, "Master Data Parity Error", "event"),
    Field::inert_event(status::SIGNALED_TARGET_ABORT, "Signaled Target Abort", NO_REQUESTS),
    Field::inert_event(status::RECEIVED_TARGET_ABORT, "Received Target Abort", NO_REQUESTS),
    Field::inert_event(status::RECEIVED_MASTER_ABORT, "Received Master Abort", NO_REQUESTS),
    Field::rw1c(status::SIGNALED_SYSTEM_ERROR, "Signaled System Error", "event"),
    Field::rw1c(status::DETECTED_PARITY_ERROR, "Detected Parity Error", "event"),
];

const ID_WORD: Word = Word {
    dw: ID,
    name: "Vendor ID, Device ID",
    fields: &[Field::hwinit(0xffff, "Vendor ID"), Field::hwinit(0xffff_0000, "Device ID")],
};

const COMMAND_WORD: Word = Word { dw: COMMAND_STATUS, name: "Command, Status", fields: COMMAND_FIELDS };
const BRIDGE_COMMAND_WORD: Word =
    Word { dw: COMMAND_STATUS, name: "Command, Status", fields: BRIDGE_COMMAND_FIELDS };

const CLASS_WORD: Word = Word {
    dw: CLASS_REVISION,
    name: "Revision ID, Class Code",
    fields: &[Field::hwinit(0xff, "Revision ID"), Field::hwinit(0xffff_ff00, "Class Code")],
};

const MISC_WORD: Word = Word {
    dw: MISC,
    name: "Cache Line Size, Latency Timer, Header Type, BIST",
    fields: &[
        Field::inert(0xff, "Cache Line Size", "PCI Express gives it no meaning (§7.5.1.1.7)"),
        Field::ro(0xff00, "Latency Timer"),
        Field::hwinit(0x7f << 16, "Header Layout"),
        Field::hwinit(MULTI_FUNCTION, "Multi-Function Device"),
        Field::ro(0xff00_0000, "BIST"),
    ],
};

const POINTER_WORD: Word = Word {
    dw: CAPABILITIES_POINTER,
    name: "Capabilities Pointer",
    fields: &[Field::hwinit(0xff, "Capabilities Pointer")],
};

const INTERRUPT_LINE: Field =
    Field::inert(0xff, "Interrupt Line", "a note of software to itself (§7.5.1.1.12)");
const INTERRUPT_PIN: Field = Field::hwinit(0xff00, "Interrupt Pin");

/// A Base Address Register; which bits are address bits, its size says.
pub(crate) const BAR_FIELDS: &[Field] =
    &[Field::rw(!0, "Base Address", "moves the window; bits below its size are read-only")
        .tells(Effects::BAR)];

/// The same of a bridge, which has nothing in memory that would be read there.
pub(crate) const BRIDGE_BAR_FIELDS: &[Field] = &[Field::inert(
    !0,
    "Base Address",
    "a bridge has no registers in memory: requests there are not its own",
)
.tells(Effects::BAR)];

const NO_ROM: &str = "sized and placed, but without contents: requests there are Unsupported Requests";

/// An Expansion ROM Base Address.
pub(crate) const ROM_FIELDS: &[Field] = &[
    Field::inert(1, "Expansion ROM Enable", NO_ROM).tells(Effects::BAR),
    Field::inert(!0x7ff, "Expansion ROM Base Address", NO_ROM).tells(Effects::BAR),
];

/// The type 0 header.
pub const TYPE_0_HEADER: Structure = Structure {
    name: "Type 0 configuration header",
    source: "PCIe 5.0 §7.5.1.2",
    words: &[
        ID_WORD,
        COMMAND_WORD,
        CLASS_WORD,
        MISC_WORD,
        Word { dw: type0::BAR0, name: "Base Address Registers (six)", fields: BAR_FIELDS },
        Word {
            dw: type0::SUBSYSTEM,
            name: "Subsystem Vendor ID, Subsystem ID",
            fields: &[
                Field::hwinit(0xffff, "Subsystem Vendor ID"),
                Field::hwinit(0xffff_0000, "Subsystem ID"),
            ],
        },
        Word { dw: type0::EXPANSION_ROM, name: "Expansion ROM Base Address", fields: ROM_FIELDS },
        POINTER_WORD,
        Word {
            dw: INTERRUPT,
            name: "Interrupt Line, Interrupt Pin",
            fields: &[INTERRUPT_LINE, INTERRUPT_PIN],
        },
    ],
};

/// The header of a Virtual Function (`PCIe 5.0 §9.3.4.1`): of Command, only Bus Master Enable is there.
pub const VIRTUAL_FUNCTION_HEADER: Structure = Structure {
    name: "Type 0 configuration header of a Virtual Function",
    source: "PCIe 5.0 §9.3.4.1",
    words: &[
        ID_WORD,
        Word {
            dw: COMMAND_STATUS,
            name: "Command, Status",
            fields: &[
                Field::rw(command::BUS_MASTER, "Bus Master Enable", "issues requests, MSI")
                    .tells(Effects::COMMAND),
                Field::ro(status::CAPABILITIES_LIST, "Capabilities List"),
                Field::inert_event(
                    status::MASTER_DATA_PARITY_ERROR,
                    "Master Data Parity Error",
                    "a VF has no Parity Error Response, without which it is never set",
                ),
                Field::rw1c(status::SIGNALED_TARGET_ABORT, "Signaled Target Abort", "event"),
                Field::rw1c(status::RECEIVED_TARGET_ABORT, "Received Target Abort", "event"),
                Field::rw1c(status::RECEIVED_MASTER_ABORT, "Received Master Abort", "event"),
                Field::rw1c(status::SIGNALED_SYSTEM_ERROR, "Signaled System Error", "event"),
                Field::rw1c(status::DETECTED_PARITY_ERROR, "Detected Parity Error", "event"),
            ],
        },
        CLASS_WORD,
        Word {
            dw: MISC,
            name: "Cache Line Size, Latency Timer, Header Type, BIST",
            fields: &[Field::hwinit(0x7f << 16, "Header Layout")],
        },
        Word {
            dw: type0::SUBSYSTEM,
            name: "Subsystem Vendor ID, Subsystem ID",
            fields: &[
                Field::hwinit(0xffff, "Subsystem Vendor ID"),
                Field::hwinit(0xffff_0000, "Subsystem ID"),
            ],
        },
        POINTER_WORD,
    ],
};

const BUS_NUMBER_FIELDS: &[Field] = &[
    Field::inert(0xff, "Primary Bus Number", "PCI Express routes nothing by it (§7.5.1.3.2)")
        .tells(Effects::BRIDGE),
    Field::rw(0xff << 8, "Secondary Bus Number", "claims configuration requests and completions")
        .tells(Effects::BRIDGE),
    Field::rw(0xff << 16, "Subordinate Bus Number", "claims configuration requests and completions")
        .tells(Effects::BRIDGE),
    Field::ro(0xff << 24, "Secondary Latency Timer"),
];

const IO_FIELDS: &[Field] = &[
    Field::ro(0x0f0f, "I/O Addressing Capability"),
    Field::rw(0xf0, "I/O Base", "claims I/O requests").tells(Effects::BRIDGE),
    Field::rw(0xf000, "I/O Limit", "claims I/O requests").tells(Effects::BRIDGE),
    Field::rw1c(status::MASTER_DATA_PARITY_ERROR, "Secondary: Master Data Parity Error", "event"),
    Field::rw1c(status::SIGNALED_TARGET_ABORT, "Secondary: Signaled Target Abort", "event"),
    Field::rw1c(status::RECEIVED_TARGET_ABORT, "Secondary: Received Target Abort", "event"),
    Field::rw1c(status::RECEIVED_MASTER_ABORT, "Secondary: Received Master Abort", "event"),
    Field::rw1c(status::SIGNALED_SYSTEM_ERROR, "Secondary: Received System Error", "event"),
    Field::rw1c(status::DETECTED_PARITY_ERROR, "Secondary: Detected Parity Error", "event"),
];

const BRIDGE_CONTROL_FIELDS: &[Field] = &[
    INTERRUPT_LINE,
    INTERRUPT_PIN,
    Field::rw(
        bridge_control::PARITY_ERROR_RESPONSE,
        "Parity Error Response Enable",
        "Master Data Parity Error of Secondary Status is set",
    )
    .tells(Effects::BRIDGE),
    Field::rw(bridge_control::SERR_ENABLE, "SERR# Enable", "forwards error messages").tells(Effects::BRIDGE),
    Field::rw(bridge_control::ISA_ENABLE, "ISA Enable", "leaves ISA aliases out of the I/O window")
        .tells(Effects::BRIDGE),
    Field::rw(bridge_control::VGA_ENABLE, "VGA Enable", "claims the addresses of VGA").tells(Effects::BRIDGE),
    Field::rw(bridge_control::VGA_16_BIT, "VGA 16-bit Decode", "claims no aliases of the ports of VGA")
        .tells(Effects::BRIDGE),
    Field::rw(bridge_control::SECONDARY_BUS_RESET, "Secondary Bus Reset", "hot reset of what is below")
        .tells(Effects::SECONDARY_BUS_RESET.union(Effects::BRIDGE)),
];

/// The type 1 header.
pub const TYPE_1_HEADER: Structure = Structure {
    name: "Type 1 configuration header",
    source: "PCIe 5.0 §7.5.1.3",
    words: &[
        ID_WORD,
        BRIDGE_COMMAND_WORD,
        CLASS_WORD,
        MISC_WORD,
        Word { dw: type1::BAR0, name: "Base Address Registers (two)", fields: BRIDGE_BAR_FIELDS },
        Word { dw: type1::BUS_NUMBERS, name: "Bus Numbers", fields: BUS_NUMBER_FIELDS },
        Word {
            dw: type1::IO_SECONDARY_STATUS,
            name: "I/O Base, I/O Limit, Secondary Status",
            fields: IO_FIELDS,
        },
        Word {
            dw: type1::MEMORY,
            name: "Memory Base, Memory Limit",
            fields: &[
                Field::rw(0xfff0, "Memory Base", "claims memory requests").tells(Effects::BRIDGE),
                Field::rw(0xfff0_0000, "Memory Limit", "claims memory requests").tells(Effects::BRIDGE),
            ],
        },
        Word {
            dw: type1::PREFETCHABLE,
            name: "Prefetchable Memory Base, Limit",
            fields: &[
                Field::ro(0x000f_000f, "64-bit addressing"),
                Field::rw(0xfff0, "Prefetchable Memory Base", "claims memory requests")
                    .tells(Effects::BRIDGE),
                Field::rw(0xfff0_0000, "Prefetchable Memory Limit", "claims memory requests")
                    .tells(Effects::BRIDGE),
            ],
        },
        Word {
            dw: type1::PREFETCHABLE_BASE_UPPER,
            name: "Prefetchable Base Upper 32 Bits",
            fields: &[Field::rw(!0, "Prefetchable Base Upper 32 Bits", "claims memory requests")
                .tells(Effects::BRIDGE)],
        },
        Word {
            dw: type1::PREFETCHABLE_LIMIT_UPPER,
            name: "Prefetchable Limit Upper 32 Bits",
            fields: &[Field::rw(!0, "Prefetchable Limit Upper 32 Bits", "claims memory requests")
                .tells(Effects::BRIDGE)],
        },
        Word {
            dw: type1::IO_UPPER,
            name: "I/O Base Upper 16 Bits, I/O Limit Upper 16 Bits",
            fields: &[
                Field::rw(0xffff, "I/O Base Upper 16 Bits", "claims I/O requests").tells(Effects::BRIDGE),
                Field::rw(0xffff_0000, "I/O Limit Upper 16 Bits", "claims I/O requests")
                    .tells(Effects::BRIDGE),
            ],
        },
        POINTER_WORD,
        Word { dw: type1::EXPANSION_ROM, name: "Expansion ROM Base Address", fields: ROM_FIELDS },
        Word {
            dw: INTERRUPT,
            name: "Interrupt Line, Interrupt Pin, Bridge Control",
            fields: BRIDGE_CONTROL_FIELDS,
        },
    ],
};
