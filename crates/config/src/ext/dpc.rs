// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Downstream Port Containment extended capability (`PCIe 5.0 §7.9.15`). Never takes a link down: the port's owner does,
//! for as long as DPC Trigger Status is set.
//!
//! ```text
//! +0   31:20 Next, 19:16 version 1, ID 001Dh
//! +4   DPC Control: 23 DL_Active ERR_COR Enable, 22 Software Trigger, 21 Poisoned TLP Egress Blocking Enable,
//!      20 ERR_COR Enable, 19 Interrupt Enable, 18 Completion Control, 17:16 Trigger Enable
//!      DPC Capability: 12 DL_Active ERR_COR Signaling Supported, 11:8 RP PIO Log Size,
//!      7 Software Triggering, 6 Poisoned TLP Egress Blocking, 5 RP Extensions, 4:0 Interrupt Message Number
//! +8   31:16 DPC Error Source ID;  DPC Status: 12:8 RP PIO First Error Pointer, 6:5 Trigger Reason Extension,
//!      4 RP Busy, 3 Interrupt Status, 2:1 Trigger Reason, 0 Trigger Status
//! +c   RP PIO Status RW1CS               root ports only, as all that follows
//! +10  RP PIO Mask, +14 Severity, +18 SysError, +1c Exception
//! +20  .. +2c RP PIO Header Log,  +30 ImpSpec Log,  +34 .. +40 TLP Prefix Log
//! ```

use super::HEADER;
use crate::Effects;
use crate::register::{Field, Register, Structure, Word};

/// Extended capability ID.
pub const ID: u16 = 0x001d;
/// Capability version.
pub const VERSION: u8 = 1;
/// DW of DPC Capability (15:0) and DPC Control (31:16).
pub const CONTROL: u16 = 1;
/// DW of DPC Status (15:0) and DPC Error Source ID (31:16).
pub const STATUS: u16 = 2;
/// DW of RP PIO Status.
pub const RP_PIO_STATUS: u16 = 3;
/// DW of RP PIO Mask.
pub const RP_PIO_MASK: u16 = 4;
/// DW of RP PIO Severity: set is uncorrectable.
pub const RP_PIO_SEVERITY: u16 = 5;
/// DW of RP PIO SysError.
pub const RP_PIO_SYS_ERROR: u16 = 6;
/// DW of RP PIO Exception.
pub const RP_PIO_EXCEPTION: u16 = 7;
/// First DW of the RP PIO Header Log.
pub const RP_PIO_HEADER_LOG: u16 = 8;
/// First DW of the RP PIO TLP Prefix Log.
pub const RP_PIO_PREFIX_LOG: u16 = 13;

/// Bits of DPC Capability and DPC Control, in place in their DW (`PCIe 5.0 Table 7-236, 7-237`).
pub mod control {
    /// DPC Interrupt Message Number.
    pub const INTERRUPT_MESSAGE: u32 = 0x1f;
    /// RP Extensions for DPC.
    pub const RP_EXTENSIONS: u32 = 1 << 5;
    /// Poisoned TLP Egress Blocking, Software Triggering and DL_Active ERR_COR Signaling Supported.
    pub const SUPPORTED: u32 = 1 << 6 | 1 << 7 | 1 << 12;
    /// RP PIO Log Size, a shift: DWs of header, ImpSpec and prefix log.
    pub const LOG_SIZE_SHIFT: u32 = 8;
    /// DPC Trigger Enable, a shift.
    pub const TRIGGER_SHIFT: u32 = 16;
    /// DPC Trigger Enable.
    pub const TRIGGER: u32 = 0b11 << TRIGGER_SHIFT;
    /// DPC Completion Control: set, requests are answered with UR, else with CA.
    pub const COMPLETION_UR: u32 = 1 << 18;
    /// DPC Interrupt Enable.
    pub const INTERRUPT: u32 = 1 << 19;
    /// DPC ERR_COR Enable.
    pub const ERR_COR: u32 = 1 << 20;
    /// Poisoned TLP Egress Blocking Enable.
    pub const POISONED_EGRESS: u32 = 1 << 21;
    /// DPC Software Trigger.
    pub const SOFTWARE_TRIGGER: u32 = 1 << 22;
    /// DL_Active ERR_COR Enable.
    pub const DL_ACTIVE_ERR_COR: u32 = 1 << 23;
}

/// Bits of DPC Status (`PCIe 5.0 Table 7-238`).
pub mod status {
    /// DPC Trigger Status.
    pub const TRIGGERED: u32 = 1 << 0;
    /// DPC Trigger Reason and its extension.
    pub const REASON: u32 = 0b11 << 1 | 0b11 << 5;
    /// DPC Interrupt Status.
    pub const INTERRUPT: u32 = 1 << 3;
    /// DPC RP Busy.
    pub const RP_BUSY: u32 = 1 << 4;
    /// RP PIO First Error Pointer, a shift.
    pub const FIRST_ERROR_SHIFT: u32 = 8;
    /// RP PIO First Error Pointer, which after reset, and when what it named is cleared, names nothing: all ones.
    pub const FIRST_ERROR: u32 = 0x1f << FIRST_ERROR_SHIFT;
    /// DPC Error Source ID, a shift.
    pub const SOURCE_SHIFT: u32 = 16;
}

const CONTROL_FIELDS: &[Field] = &[
    Field::ro(control::INTERRUPT_MESSAGE, "DPC Interrupt Message Number"),
    Field::ro(control::RP_EXTENSIONS, "RP Extensions for DPC"),
    Field::ro(1 << 6, "Poisoned TLP Egress Blocking Supported"),
    Field::ro(1 << 7, "DPC Software Triggering Supported"),
    Field::ro(0xf << control::LOG_SIZE_SHIFT, "RP PIO Log Size"),
    Field::ro(1 << 12, "DL_Active ERR_COR Signaling Supported"),
    Field::rw(control::TRIGGER, "DPC Trigger Enable", "which errors trigger").tells(Effects::DPC),
    Field::rw(control::COMPLETION_UR, "DPC Completion Control", "UR or CA for requests to what is contained")
        .tells(Effects::DPC),
    Field::rw(control::INTERRUPT, "DPC Interrupt Enable", "a trigger interrupts").tells(Effects::DPC),
    Field::rw(control::ERR_COR, "DPC ERR_COR Enable", "a trigger sends ERR_COR").tells(Effects::DPC),
    Field::rw(
        control::POISONED_EGRESS,
        "Poisoned TLP Egress Blocking Enable",
        "poisoned TLPs do not go down",
    )
    .tells(Effects::DPC),
    Field::trigger(control::SOFTWARE_TRIGGER, "DPC Software Trigger", "triggers, where DPC is enabled")
        .tells(Effects::DPC),
    Field::rw(control::DL_ACTIVE_ERR_COR, "DL_Active ERR_COR Enable", "a link that comes up sends ERR_COR")
        .tells(Effects::DPC),
];
const STATUS_FIELDS: &[Field] = &[
    Field::rw1cs(status::TRIGGERED, "DPC Trigger Status", "clearing releases the link").tells(Effects::DPC),
    Field::ros(0b11 << 1, "DPC Trigger Reason"),
    Field::rw1cs(status::INTERRUPT, "DPC Interrupt Status", "ends the interrupt").tells(Effects::DPC),
    Field::ro(status::RP_BUSY, "DPC RP Busy"),
    Field::ros(0b11 << 5, "DPC Trigger Reason Extension"),
    Field::ros(status::FIRST_ERROR, "RP PIO First Error Pointer"),
    Field::ros(0xffff << status::SOURCE_SHIFT, "DPC Error Source ID"),
];

/// Configuration, I/O and memory requests of the root port: each completed UR, with CA, or not at all.
const RP_PIO: u32 = 0x0007_0707;
const LOG: &[Field] = &[Field::ros(!0, "RP PIO log")];

/// The registers.
pub const TABLE: Structure = Structure {
    name: "Downstream Port Containment",
    source: "PCIe 5.0 §7.9.15",
    words: &[
        HEADER,
        Word { dw: CONTROL, name: "DPC Capability, DPC Control", fields: CONTROL_FIELDS },
        Word { dw: STATUS, name: "DPC Status, DPC Error Source ID", fields: STATUS_FIELDS },
        Word {
            dw: RP_PIO_STATUS,
            name: "RP PIO Status",
            fields: &[Field::rw1cs(RP_PIO, "Cfg, I/O, Mem: UR, CA, Completion Timeout", "event")],
        },
        Word {
            dw: RP_PIO_MASK,
            name: "RP PIO Mask",
            fields: &[Field::rws(RP_PIO, "Cfg, I/O, Mem: UR, CA, Completion Timeout", "set: logged alone")],
        },
        Word {
            dw: RP_PIO_SEVERITY,
            name: "RP PIO Severity",
            fields: &[Field::rws(RP_PIO, "Cfg, I/O, Mem: UR, CA, Completion Timeout", "set: triggers DPC")],
        },
        Word {
            dw: RP_PIO_SYS_ERROR,
            name: "RP PIO SysError",
            fields: &[Field::inert_sticky(
                RP_PIO,
                "Cfg, I/O, Mem: UR, CA, Completion Timeout",
                "the root complex has no system error line beside the interrupts of AER",
            )],
        },
        Word {
            dw: RP_PIO_EXCEPTION,
            name: "RP PIO Exception",
            fields: &[Field::inert_sticky(
                RP_PIO,
                "Cfg, I/O, Mem: UR, CA, Completion Timeout",
                "a host program hears of every request that fails; there is no processor to take an exception",
            )],
        },
        Word { dw: 8, name: "RP PIO Header Log 1", fields: LOG },
        Word { dw: 9, name: "RP PIO Header Log 2", fields: LOG },
        Word { dw: 10, name: "RP PIO Header Log 3", fields: LOG },
        Word { dw: 11, name: "RP PIO Header Log 4", fields: LOG },
        Word { dw: 12, name: "RP PIO ImpSpec Log", fields: LOG },
        Word { dw: 13, name: "RP PIO TLP Prefix Log 1", fields: LOG },
        Word { dw: 14, name: "RP PIO TLP Prefix Log 2", fields: LOG },
        Word { dw: 15, name: "RP PIO TLP Prefix Log 3", fields: LOG },
        Word { dw: 16, name: "RP PIO TLP Prefix Log 4", fields: LOG },
    ],
};

/// Downstream Port Containment as a port wants it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DpcLayout {
    /// DPC Interrupt Message Number, 0 to 31.
    pub interrupt_message: u8,
    /// A root port's: with the RP PIO registers.
    pub root_port: bool,
}

impl DpcLayout {
    /// The capability's registers.
    #[must_use]
    pub fn registers(&self) -> Vec<Register> {
        /// Four DWs of header, one of ImpSpec log, four of prefixes.
        const LOG_SIZE: u32 = 9;
        let extensions = control::RP_EXTENSIONS | LOG_SIZE << control::LOG_SIZE_SHIFT;
        let (root, no_error) = if self.root_port { (extensions, status::FIRST_ERROR) } else { (0, 0) };
        let capability = u32::from(self.interrupt_message & 0x1f) | control::SUPPORTED | root;
        let mut all = TABLE.registers(&[(CONTROL, capability), (STATUS, no_error), (RP_PIO_MASK, RP_PIO)]);
        if !self.root_port {
            all.truncate(usize::from(RP_PIO_STATUS));
        }
        all
    }
}
