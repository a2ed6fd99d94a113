// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Advanced Error Reporting extended capability (`PCIe 5.0 §7.8.4`), minimal: no TLP prefix log.
//!
//! ```text
//! +0   31:20 Next, 19:16 version 2, ID 0001h
//! +4   Uncorrectable Error Status        RW1CS
//! +8   Uncorrectable Error Mask          RWS
//! +c   Uncorrectable Error Severity      RWS, set is fatal
//! +10  Correctable Error Status          RW1CS
//! +14  Correctable Error Mask            RWS
//! +18  Capabilities and Control          8 ECRC Check Enable RWS, 7 ECRC Check Capable, 6 ECRC Generation Enable
//!                                        RWS, 5 ECRC Generation Capable, 4:0 First Error Pointer ROS
//! +1c  .. +28 Header Log                 ROS
//! ```

use crate::register::{Access, Register};

/// Extended capability ID.
pub const ID: u16 = 0x0001;
/// Capability version.
pub const VERSION: u8 = 2;

pub(crate) const LEN_DW: usize = 11;
pub(crate) const UNCORRECTABLE_STATUS: u16 = 1;
pub(crate) const UNCORRECTABLE_MASK: u16 = 2;
pub(crate) const SEVERITY: u16 = 3;
pub(crate) const CORRECTABLE_STATUS: u16 = 4;
pub(crate) const CORRECTABLE_MASK: u16 = 5;
/// DW of Advanced Error Capabilities and Control.
pub const CONTROL: u16 = 6;
pub(crate) const HEADER_LOG: u16 = 7;

/// Bits of Advanced Error Capabilities and Control (`PCIe 5.0 §7.8.4.7`).
pub mod control {
    /// ECRC Generation Capable and ECRC Check Capable: read-only ones.
    pub const ECRC_CAPABLE: u32 = 1 << 5 | 1 << 7;
    /// ECRC Generation Enable.
    pub const ECRC_GENERATION: u32 = 1 << 6;
    /// ECRC Check Enable.
    pub const ECRC_CHECK: u32 = 1 << 8;
}

/// Advisory Non-Fatal Error, of the correctable registers; masked after reset.
pub(crate) const ADVISORY_NON_FATAL: u32 = 1 << 13;
const CORRECTABLE: u32 = 0xf1c1; // bits 0, 6, 7, 8, 12, 13, 14, 15
/// Severity after reset (`PCIe 5.0 Table 7-109`): Data Link Protocol, Surprise Down, Flow Control Protocol, Receiver
/// Overflow, Malformed TLP and Uncorrectable Internal errors are fatal.
pub(crate) const DEFAULT_SEVERITY: u32 = 1 << 4 | 1 << 5 | 1 << 13 | 1 << 17 | 1 << 18 | 1 << 22;

/// The uncorrectable errors that a transaction layer finds; the discriminant is the bit in the registers
/// (`PCIe 5.0 §7.8.4.2`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Uncorrectable {
    /// Poisoned TLP Received.
    PoisonedTlp = 12,
    /// Completion Timeout.
    CompletionTimeout = 14,
    /// Completer Abort: this function aborted a request.
    CompleterAbort = 15,
    /// Unexpected Completion.
    UnexpectedCompletion = 16,
    /// Malformed TLP.
    MalformedTlp = 18,
    /// ECRC Error.
    Ecrc = 19,
    /// Unsupported Request: this function did not support a request.
    UnsupportedRequest = 20,
}

impl Uncorrectable {
    /// Every error, by its bit.
    pub const ALL: [Uncorrectable; 7] = [
        Uncorrectable::PoisonedTlp,
        Uncorrectable::CompletionTimeout,
        Uncorrectable::CompleterAbort,
        Uncorrectable::UnexpectedCompletion,
        Uncorrectable::MalformedTlp,
        Uncorrectable::Ecrc,
        Uncorrectable::UnsupportedRequest,
    ];

    /// Its bit in the uncorrectable registers.
    #[must_use]
    pub const fn mask(self) -> u32 {
        1 << self as u32
    }
}

const UNCORRECTABLE: u32 = {
    let mut mask = 0;
    let mut i = 0;
    while i < Uncorrectable::ALL.len() {
        mask |= Uncorrectable::ALL[i].mask();
        i += 1;
    }
    mask
};

/// A message that an error leads to (`PCIe 5.0 §2.2.8.3`); the discriminant is its Message Code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ErrorMessage {
    /// ERR_COR.
    Correctable = 0x30,
    /// ERR_NONFATAL.
    NonFatal = 0x31,
    /// ERR_FATAL.
    Fatal = 0x33,
}

const fn rws(reset: u32, bits: u32) -> Register {
    Register::new(reset, Access { rw: bits, rw1c: 0, sticky: bits, kept_by_flr: 0 })
}

const fn rw1cs(bits: u32) -> Register {
    Register::new(0, Access { rw: 0, rw1c: bits, sticky: bits, kept_by_flr: 0 })
}

const fn ros(bits: u32) -> Register {
    Register::new(0, Access { rw: 0, rw1c: 0, sticky: bits, kept_by_flr: 0 })
}

pub(crate) fn registers() -> [Register; LEN_DW] {
    let mut all = [ros(!0); LEN_DW];
    all[0] = ros(0);
    all[usize::from(UNCORRECTABLE_STATUS)] = rw1cs(UNCORRECTABLE);
    all[usize::from(UNCORRECTABLE_MASK)] = rws(0, UNCORRECTABLE);
    all[usize::from(SEVERITY)] = rws(DEFAULT_SEVERITY, UNCORRECTABLE);
    all[usize::from(CORRECTABLE_STATUS)] = rw1cs(CORRECTABLE);
    all[usize::from(CORRECTABLE_MASK)] = rws(ADVISORY_NON_FATAL, CORRECTABLE);
    let ecrc = control::ECRC_GENERATION | control::ECRC_CHECK;
    let sticky = Access { rw: ecrc, rw1c: 0, sticky: ecrc | 0x1f, kept_by_flr: 0 };
    all[usize::from(CONTROL)] = Register::new(control::ECRC_CAPABLE, sticky);
    all
}
