// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Downstream Port Containment extended capability (`PCIe 5.0 §7.9.15`). The port's owner keeps the link down while DPC
//! Trigger Status is set.

use crate::register::{Field, Register, put, structure};

/// Configuration, I/O and memory requests of the root port, each completed with UR or CA, or not completed.
const RP_PIO: u32 = 0x0007_0707;
const RP_PIO_NAME: &str = "Cfg, I/O, Mem: UR, CA, Completion Timeout";
const NO_SYSTEM_ERROR: &str = "the root complex signals errors only by AER interrupts, not by a system error";
const NO_EXCEPTION: &str =
    "host programs get an error for each failed request; there is no processor to take an exception";
const LOG: &[Field] = &[Field::ros(!0, "RP PIO log")];

structure! {
    extended 0x001d, 1, "Downstream Port Containment", "PCIe 5.0 §7.9.15";

    0x04 CONTROL in control "DPC Capability, DPC Control" {
        4:0   ro      INTERRUPT_MESSAGE "DPC Interrupt Message Number";
        5     ro      RP_EXTENSIONS "RP Extensions for DPC";
        6     ro      POISONED_EGRESS_SUPPORTED "Poisoned TLP Egress Blocking Supported";
        7     ro      SOFTWARE_TRIGGER_SUPPORTED "DPC Software Triggering Supported";
        11:8  ro      LOG_SIZE "RP PIO Log Size";
        12    ro      DL_ACTIVE_SUPPORTED "DL_Active ERR_COR Signaling Supported";
        17:16 rw      TRIGGER "DPC Trigger Enable", "errors that trigger DPC" => DPC;
        18    rw      COMPLETION_UR "DPC Completion Control",
            "completion status (UR or CA) of requests to components below a contained port" => DPC;
        19    rw      INTERRUPT "DPC Interrupt Enable", "a trigger interrupts" => DPC;
        20    rw      ERR_COR "DPC ERR_COR Enable", "a trigger sends ERR_COR" => DPC;
        21    rw      POISONED_EGRESS "Poisoned TLP Egress Blocking Enable",
            "poisoned TLPs are not sent downstream" => DPC;
        22    trigger SOFTWARE_TRIGGER "DPC Software Trigger", "triggers DPC if it is enabled" => DPC;
        23    rw      DL_ACTIVE_ERR_COR "DL_Active ERR_COR Enable", "a link that comes up sends ERR_COR" => DPC;
    }
    0x08 STATUS in status "DPC Status, DPC Error Source ID" {
        0     rw1cs TRIGGERED "DPC Trigger Status", "clearing releases the link" => DPC;
        2:1   ros   REASON "DPC Trigger Reason";
        3     rw1cs INTERRUPT "DPC Interrupt Status", "ends the interrupt" => DPC;
        4     ro    RP_BUSY "DPC RP Busy";
        6:5   ros   REASON_EXTENSION "DPC Trigger Reason Extension";
        // All ones (no error) after reset, and after the named error was cleared.
        12:8  ros   FIRST_ERROR "RP PIO First Error Pointer";
        31:16 ros   SOURCE "DPC Error Source ID";
    }
    // Only root ports have the registers from here on.
    0x0c RP_PIO_STATUS "RP PIO Status" (&[Field::rw1cs(RP_PIO, RP_PIO_NAME, "event")])
    0x10 RP_PIO_MASK "RP PIO Mask" (&[Field::rws(RP_PIO, RP_PIO_NAME, "set: the error is only recorded")])
    0x14 RP_PIO_SEVERITY "RP PIO Severity" (&[Field::rws(RP_PIO, RP_PIO_NAME, "set: triggers DPC")])
    0x18 RP_PIO_SYS_ERROR "RP PIO SysError" (&[Field::rws(RP_PIO, RP_PIO_NAME, NO_SYSTEM_ERROR).inert()])
    0x1c RP_PIO_EXCEPTION "RP PIO Exception" (&[Field::rws(RP_PIO, RP_PIO_NAME, NO_EXCEPTION).inert()])
    0x20 RP_PIO_HEADER_LOG "RP PIO Header Log 1" (LOG)
    0x24 _ "RP PIO Header Log 2" (LOG)
    0x28 _ "RP PIO Header Log 3" (LOG)
    0x2c _ "RP PIO Header Log 4" (LOG)
    0x30 _ "RP PIO ImpSpec Log" (LOG)
    0x34 RP_PIO_PREFIX_LOG "RP PIO TLP Prefix Log 1" (LOG)
    0x38 _ "RP PIO TLP Prefix Log 2" (LOG)
    0x3c _ "RP PIO TLP Prefix Log 3" (LOG)
    0x40 _ "RP PIO TLP Prefix Log 4" (LOG)
}

/// Declaration of a port's Downstream Port Containment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DpcLayout {
    /// DPC Interrupt Message Number, 0 to 31.
    pub interrupt_message: u8,
    /// True for a root port, which has the RP PIO registers.
    pub root_port: bool,
}

impl DpcLayout {
    /// The capability's registers.
    pub fn registers(&self) -> Vec<Register> {
        /// Four DWs of header, one of ImpSpec log, four of prefixes.
        const LOG_DWS: u32 = 9;
        use control::*;
        let extensions = RP_EXTENSIONS | put(LOG_SIZE, LOG_DWS);
        let (root, no_error) = if self.root_port { (extensions, status::FIRST_ERROR) } else { (0, 0) };
        let able = POISONED_EGRESS_SUPPORTED | SOFTWARE_TRIGGER_SUPPORTED | DL_ACTIVE_SUPPORTED;
        let capability = put(INTERRUPT_MESSAGE, self.interrupt_message.into()) | able | root;
        let mut all = TABLE.registers(&[(CONTROL, capability), (STATUS, no_error), (RP_PIO_MASK, RP_PIO)]);
        if !self.root_port {
            all.truncate(usize::from(RP_PIO_STATUS));
        }
        all
    }
}
