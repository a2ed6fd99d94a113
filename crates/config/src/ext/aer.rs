// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Advanced Error Reporting extended capability (`PCIe 5.0 §7.8.4`): registers and the names of errors. Never logs one:
//! see [`errors`](crate::errors).
//!
//! ```text
//! +0   31:20 Next, 19:16 version 2, ID 0001h
//! +4   Uncorrectable Error Status        RW1CS
//! +8   Uncorrectable Error Mask          RWS
//! +c   Uncorrectable Error Severity      RWS, set is fatal
//! +10  Correctable Error Status          RW1CS
//! +14  Correctable Error Mask            RWS
//! +18  Advanced Error Capabilities and Control: 12 Completion Timeout Prefix/Header Log Capable,
//!      11 TLP Prefix Log Present ROS, 10 Multiple Header Recording Enable RWS, 9 ..Capable, 8 ECRC Check Enable RWS,
//!      7 ..Capable, 6 ECRC Generation Enable RWS, 5 ..Capable, 4:0 First Error Pointer ROS
//! +1c  .. +28 Header Log                 ROS
//! +2c  Root Error Command                RW    root ports only, as the next two
//! +30  Root Error Status                 RW1CS; 31:27 Advanced Error Interrupt Message Number
//! +34  Error Source Identification       ROS: 31:16 ERR_FATAL/NONFATAL, 15:0 ERR_COR
//! +38  .. +44 TLP Prefix Log             ROS
//! ```

use super::HEADER;
use crate::Effects;
use crate::register::{Attribute, Field, Register, Structure, Word};

/// Extended capability ID.
pub const ID: u16 = 0x0001;
/// Capability version.
pub const VERSION: u8 = 2;

/// DW of Uncorrectable Error Status.
pub const UNCORRECTABLE_STATUS: u16 = 1;
/// DW of Uncorrectable Error Mask.
pub const UNCORRECTABLE_MASK: u16 = 2;
/// DW of Uncorrectable Error Severity.
pub const SEVERITY: u16 = 3;
/// DW of Correctable Error Status.
pub const CORRECTABLE_STATUS: u16 = 4;
/// DW of Correctable Error Mask.
pub const CORRECTABLE_MASK: u16 = 5;
/// DW of Advanced Error Capabilities and Control.
pub const CONTROL: u16 = 6;
/// First DW of the Header Log.
pub const HEADER_LOG: u16 = 7;
/// DW of Root Error Command.
pub const ROOT_COMMAND: u16 = 11;
/// DW of Root Error Status.
pub const ROOT_STATUS: u16 = 12;
/// DW of Error Source Identification.
pub const ERROR_SOURCE: u16 = 13;
/// First DW of the TLP Prefix Log.
pub const PREFIX_LOG: u16 = 14;

/// DWs with the prefix log, of a root port without it, and of others without it.
const LEN_WITH_PREFIXES: usize = 18;
const LEN_ROOT: usize = 14;
const LEN: usize = 11;

/// Bits of Advanced Error Capabilities and Control (`PCIe 5.0 §7.8.4.7`).
pub mod control {
    /// First Error Pointer.
    pub const FIRST_ERROR_POINTER: u32 = 0x1f;
    /// ECRC Generation Capable and ECRC Check Capable: read-only ones.
    pub const ECRC_CAPABLE: u32 = 1 << 5 | 1 << 7;
    /// ECRC Generation Enable.
    pub const ECRC_GENERATION: u32 = 1 << 6;
    /// ECRC Check Enable.
    pub const ECRC_CHECK: u32 = 1 << 8;
    /// Multiple Header Recording Capable.
    pub const MULTIPLE_HEADERS_CAPABLE: u32 = 1 << 9;
    /// Multiple Header Recording Enable.
    pub const MULTIPLE_HEADERS: u32 = 1 << 10;
    /// TLP Prefix Log Present.
    pub const PREFIX_LOG_PRESENT: u32 = 1 << 11;
    /// Completion Timeout Prefix/Header Log Capable.
    pub const TIMEOUT_HEADER_CAPABLE: u32 = 1 << 12;
}

/// Bits of Root Error Command and Root Error Status (`PCIe 5.0 §7.8.4.9, §7.8.4.10`).
pub mod root {
    /// Correctable Error Reporting Enable, of the command.
    pub const CORRECTABLE_REPORTING: u32 = 1 << 0;
    /// Non-Fatal Error Reporting Enable, of the command.
    pub const NON_FATAL_REPORTING: u32 = 1 << 1;
    /// Fatal Error Reporting Enable, of the command.
    pub const FATAL_REPORTING: u32 = 1 << 2;
    /// ERR_COR Received, of the status.
    pub const CORRECTABLE_RECEIVED: u32 = 1 << 0;
    /// Multiple ERR_COR Received.
    pub const MULTIPLE_CORRECTABLE: u32 = 1 << 1;
    /// ERR_FATAL/NONFATAL Received.
    pub const UNCORRECTABLE_RECEIVED: u32 = 1 << 2;
    /// Multiple ERR_FATAL/NONFATAL Received.
    pub const MULTIPLE_UNCORRECTABLE: u32 = 1 << 3;
    /// First Uncorrectable Fatal.
    pub const FIRST_FATAL: u32 = 1 << 4;
    /// Non-Fatal Error Messages Received.
    pub const NON_FATAL_RECEIVED: u32 = 1 << 5;
    /// Fatal Error Messages Received.
    pub const FATAL_RECEIVED: u32 = 1 << 6;
    /// Advanced Error Interrupt Message Number, a shift.
    pub const INTERRUPT_SHIFT: u32 = 27;
}

/// The uncorrectable errors; the discriminant is the bit in the registers (`PCIe 5.0 §7.8.4.2`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Uncorrectable {
    /// Data Link Protocol Error: an Ack or Nak of a sequence number that was not sent.
    DataLinkProtocol = 4,
    /// Surprise Down Error: the link went down unasked; of downstream ports.
    SurpriseDown = 5,
    /// Poisoned TLP Received.
    PoisonedTlp = 12,
    /// Flow Control Protocol Error.
    FlowControlProtocol = 13,
    /// Completion Timeout.
    CompletionTimeout = 14,
    /// Completer Abort: this function aborted a request.
    CompleterAbort = 15,
    /// Unexpected Completion.
    UnexpectedCompletion = 16,
    /// Receiver Overflow: a TLP came for which no credits were granted.
    ReceiverOverflow = 17,
    /// Malformed TLP.
    MalformedTlp = 18,
    /// ECRC Error.
    Ecrc = 19,
    /// Unsupported Request: this function did not support a request.
    UnsupportedRequest = 20,
    /// ACS Violation.
    AcsViolation = 21,
    /// Uncorrectable Internal Error.
    UncorrectableInternal = 22,
    /// MC Blocked TLP. Multicast is not offered, so that this bit reads zero.
    McBlockedTlp = 23,
    /// AtomicOp Egress Blocked; of ports that route.
    AtomicOpEgressBlocked = 24,
    /// TLP Prefix Blocked; of ports that route.
    TlpPrefixBlocked = 25,
    /// Poisoned TLP Egress Blocked; of downstream ports.
    PoisonedTlpEgressBlocked = 26,
}

impl Uncorrectable {
    /// Every error, by its bit.
    pub const ALL: [Uncorrectable; 17] = [
        Uncorrectable::DataLinkProtocol,
        Uncorrectable::SurpriseDown,
        Uncorrectable::PoisonedTlp,
        Uncorrectable::FlowControlProtocol,
        Uncorrectable::CompletionTimeout,
        Uncorrectable::CompleterAbort,
        Uncorrectable::UnexpectedCompletion,
        Uncorrectable::ReceiverOverflow,
        Uncorrectable::MalformedTlp,
        Uncorrectable::Ecrc,
        Uncorrectable::UnsupportedRequest,
        Uncorrectable::AcsViolation,
        Uncorrectable::UncorrectableInternal,
        Uncorrectable::McBlockedTlp,
        Uncorrectable::AtomicOpEgressBlocked,
        Uncorrectable::TlpPrefixBlocked,
        Uncorrectable::PoisonedTlpEgressBlocked,
    ];

    /// Its bit in the uncorrectable registers.
    #[must_use]
    pub const fn mask(self) -> u32 {
        1 << self as u32
    }

    /// The specification's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Uncorrectable::DataLinkProtocol => "Data Link Protocol Error",
            Uncorrectable::SurpriseDown => "Surprise Down Error",
            Uncorrectable::PoisonedTlp => "Poisoned TLP Received",
            Uncorrectable::FlowControlProtocol => "Flow Control Protocol Error",
            Uncorrectable::CompletionTimeout => "Completion Timeout",
            Uncorrectable::CompleterAbort => "Completer Abort",
            Uncorrectable::UnexpectedCompletion => "Unexpected Completion",
            Uncorrectable::ReceiverOverflow => "Receiver Overflow",
            Uncorrectable::MalformedTlp => "Malformed TLP",
            Uncorrectable::Ecrc => "ECRC Error",
            Uncorrectable::UnsupportedRequest => "Unsupported Request Error",
            Uncorrectable::AcsViolation => "ACS Violation",
            Uncorrectable::UncorrectableInternal => "Uncorrectable Internal Error",
            Uncorrectable::McBlockedTlp => "MC Blocked TLP",
            Uncorrectable::AtomicOpEgressBlocked => "AtomicOp Egress Blocked",
            Uncorrectable::TlpPrefixBlocked => "TLP Prefix Blocked Error",
            Uncorrectable::PoisonedTlpEgressBlocked => "Poisoned TLP Egress Blocked",
        }
    }

    /// Whether the offending TLP's header is logged (`PCIe 5.0 Table 6-3 to 6-5`); the others are errors of no one TLP.
    #[must_use]
    pub const fn logs_header(self) -> bool {
        use Uncorrectable::*;
        !matches!(
            self,
            DataLinkProtocol | SurpriseDown | FlowControlProtocol | ReceiverOverflow | UncorrectableInternal
        )
    }
}

/// The correctable errors; the discriminant is the bit in the registers (`PCIe 5.0 §7.8.4.5`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Correctable {
    /// Receiver Error: symbols that cannot be.
    Receiver = 0,
    /// Bad TLP: wrong LCRC, or a sequence number out of turn.
    BadTlp = 6,
    /// Bad DLLP: wrong CRC.
    BadDllp = 7,
    /// REPLAY_NUM Rollover.
    ReplayNumRollover = 8,
    /// Replay Timer Timeout.
    ReplayTimerTimeout = 12,
    /// Advisory Non-Fatal Error.
    AdvisoryNonFatal = 13,
    /// Corrected Internal Error.
    CorrectedInternal = 14,
    /// Header Log Overflow.
    HeaderLogOverflow = 15,
}

impl Correctable {
    /// Every error, by its bit.
    pub const ALL: [Correctable; 8] = [
        Correctable::Receiver,
        Correctable::BadTlp,
        Correctable::BadDllp,
        Correctable::ReplayNumRollover,
        Correctable::ReplayTimerTimeout,
        Correctable::AdvisoryNonFatal,
        Correctable::CorrectedInternal,
        Correctable::HeaderLogOverflow,
    ];

    /// Its bit in the correctable registers.
    #[must_use]
    pub const fn mask(self) -> u32 {
        1 << self as u32
    }

    /// The specification's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Correctable::Receiver => "Receiver Error",
            Correctable::BadTlp => "Bad TLP",
            Correctable::BadDllp => "Bad DLLP",
            Correctable::ReplayNumRollover => "REPLAY_NUM Rollover",
            Correctable::ReplayTimerTimeout => "Replay Timer Timeout",
            Correctable::AdvisoryNonFatal => "Advisory Non-Fatal Error",
            Correctable::CorrectedInternal => "Corrected Internal Error",
            Correctable::HeaderLogOverflow => "Header Log Overflow",
        }
    }
}

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

impl ErrorMessage {
    /// The error message with this Message Code.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<ErrorMessage> {
        match code {
            0x30 => Some(ErrorMessage::Correctable),
            0x31 => Some(ErrorMessage::NonFatal),
            0x33 => Some(ErrorMessage::Fatal),
            _ => None,
        }
    }
}

/// Severity after reset (`PCIe 5.0 Table 7-109`): these are fatal.
pub const DEFAULT_SEVERITY: u32 = Uncorrectable::DataLinkProtocol.mask()
    | Uncorrectable::SurpriseDown.mask()
    | Uncorrectable::FlowControlProtocol.mask()
    | Uncorrectable::ReceiverOverflow.mask()
    | Uncorrectable::MalformedTlp.mask()
    | Uncorrectable::UncorrectableInternal.mask();
/// Masked after reset, of the uncorrectable errors (`PCIe 5.0 Table 7-108`).
pub const DEFAULT_UNCORRECTABLE_MASK: u32 =
    Uncorrectable::UncorrectableInternal.mask() | Uncorrectable::PoisonedTlpEgressBlocked.mask();
/// Masked after reset, of the correctable errors (`PCIe 5.0 Table 7-111`).
pub const DEFAULT_CORRECTABLE_MASK: u32 = Correctable::AdvisoryNonFatal.mask()
    | Correctable::CorrectedInternal.mask()
    | Correctable::HeaderLogOverflow.mask();

/// A field like `pattern` for each uncorrectable error.
const fn uncorrectable_fields(pattern: Field) -> [Field; Uncorrectable::ALL.len()] {
    let mut all = [pattern; Uncorrectable::ALL.len()];
    let mut i = 0;
    while i < all.len() {
        let error = Uncorrectable::ALL[i];
        let own = match error {
            Uncorrectable::UncorrectableInternal => inert(pattern, NO_INTERNAL_ERRORS),
            Uncorrectable::McBlockedTlp => inert(pattern, "multicast is not modelled"),
            _ => pattern,
        };
        all[i] = Field { bits: error.mask(), name: error.name(), ..own };
        i += 1;
    }
    all
}

const NO_INTERNAL_ERRORS: &str = "nothing makes an internal error";

const fn inert(field: Field, why: &'static str) -> Field {
    Field { does: "", inert: Some(why), ..field }
}

/// A field like `pattern` for each correctable error.
const fn correctable_fields(pattern: Field) -> [Field; Correctable::ALL.len()] {
    let mut all = [pattern; Correctable::ALL.len()];
    let mut i = 0;
    while i < all.len() {
        let error = Correctable::ALL[i];
        let own = match error {
            Correctable::CorrectedInternal => inert(pattern, NO_INTERNAL_ERRORS),
            _ => pattern,
        };
        all[i] = Field { bits: error.mask(), name: error.name(), ..own };
        i += 1;
    }
    all
}

const fn pattern(attribute: Attribute, does: &'static str) -> Field {
    Field { does, ..Field::new(0, attribute, "").tells(Effects::AER) }
}

const STATUS_DOES: &str = "clearing what the First Error Pointer names shows the next recorded header";
static UNCORRECTABLE_STATUS_FIELDS: [Field; 17] =
    uncorrectable_fields(pattern(Attribute::Rw1cs, STATUS_DOES));
static UNCORRECTABLE_MASK_FIELDS: [Field; 17] = uncorrectable_fields(pattern(
    Attribute::Rws,
    "set: logged in the status alone, without header or message",
));
static SEVERITY_FIELDS: [Field; 17] =
    uncorrectable_fields(pattern(Attribute::Rws, "set: ERR_FATAL, clear: ERR_NONFATAL"));
static CORRECTABLE_STATUS_FIELDS: [Field; 8] = correctable_fields(pattern(Attribute::Rw1cs, "event"));
static CORRECTABLE_MASK_FIELDS: [Field; 8] =
    correctable_fields(pattern(Attribute::Rws, "set: logged in the status alone, without message"));

const CONTROL_FIELDS: &[Field] = &[
    Field::ros(control::FIRST_ERROR_POINTER, "First Error Pointer"),
    Field::ro(1 << 5, "ECRC Generation Capable"),
    Field::rws(control::ECRC_GENERATION, "ECRC Generation Enable", "the function's TLPs bear an ECRC")
        .tells(Effects::ECRC),
    Field::ro(1 << 7, "ECRC Check Capable"),
    Field::rws(control::ECRC_CHECK, "ECRC Check Enable", "a wrong ECRC is an error").tells(Effects::ECRC),
    Field::ro(control::MULTIPLE_HEADERS_CAPABLE, "Multiple Header Recording Capable"),
    Field::rws(
        control::MULTIPLE_HEADERS,
        "Multiple Header Recording Enable",
        "headers queue behind the first",
    )
    .tells(Effects::AER),
    Field::ros(control::PREFIX_LOG_PRESENT, "TLP Prefix Log Present"),
    Field::ro(control::TIMEOUT_HEADER_CAPABLE, "Completion Timeout Prefix/Header Log Capable"),
];
const LOG: &[Field] = &[Field::ros(!0, "TLP Header or Prefix")];
const ROOT_COMMAND_FIELDS: &[Field] = &[
    Field::rw(root::CORRECTABLE_REPORTING, "Correctable Error Reporting Enable", "ERR_COR interrupts")
        .tells(Effects::AER),
    Field::rw(root::NON_FATAL_REPORTING, "Non-Fatal Error Reporting Enable", "ERR_NONFATAL interrupts")
        .tells(Effects::AER),
    Field::rw(root::FATAL_REPORTING, "Fatal Error Reporting Enable", "ERR_FATAL interrupts")
        .tells(Effects::AER),
];
const ROOT_STATUS_FIELDS: &[Field] = &[
    Field::rw1cs(1 << 0, "ERR_COR Received", "clear: the next ERR_COR leaves its source").tells(Effects::AER),
    Field::rw1cs(1 << 1, "Multiple ERR_COR Received", "event").tells(Effects::AER),
    Field::rw1cs(1 << 2, "ERR_FATAL/NONFATAL Received", "clear: the next one leaves its source")
        .tells(Effects::AER),
    Field::rw1cs(1 << 3, "Multiple ERR_FATAL/NONFATAL Received", "event").tells(Effects::AER),
    Field::rw1cs(1 << 4, "First Uncorrectable Fatal", "event").tells(Effects::AER),
    Field::rw1cs(1 << 5, "Non-Fatal Error Messages Received", "ends the interrupt").tells(Effects::AER),
    Field::rw1cs(1 << 6, "Fatal Error Messages Received", "ends the interrupt").tells(Effects::AER),
    Field::ro(0x1f << root::INTERRUPT_SHIFT, "Advanced Error Interrupt Message Number"),
];

/// The registers.
pub const TABLE: Structure = Structure {
    name: "Advanced Error Reporting",
    source: "PCIe 5.0 §7.8.4",
    words: &[
        HEADER,
        Word { dw: 1, name: "Uncorrectable Error Status", fields: &UNCORRECTABLE_STATUS_FIELDS },
        Word { dw: 2, name: "Uncorrectable Error Mask", fields: &UNCORRECTABLE_MASK_FIELDS },
        Word { dw: 3, name: "Uncorrectable Error Severity", fields: &SEVERITY_FIELDS },
        Word { dw: 4, name: "Correctable Error Status", fields: &CORRECTABLE_STATUS_FIELDS },
        Word { dw: 5, name: "Correctable Error Mask", fields: &CORRECTABLE_MASK_FIELDS },
        Word { dw: 6, name: "Advanced Error Capabilities and Control", fields: CONTROL_FIELDS },
        Word { dw: 7, name: "Header Log 1", fields: LOG },
        Word { dw: 8, name: "Header Log 2", fields: LOG },
        Word { dw: 9, name: "Header Log 3", fields: LOG },
        Word { dw: 10, name: "Header Log 4", fields: LOG },
        Word { dw: 11, name: "Root Error Command", fields: ROOT_COMMAND_FIELDS },
        Word { dw: 12, name: "Root Error Status", fields: ROOT_STATUS_FIELDS },
        Word {
            dw: 13,
            name: "Error Source Identification",
            fields: &[Field::ros(!0, "Source Identification")],
        },
        Word { dw: 14, name: "TLP Prefix Log 1", fields: LOG },
        Word { dw: 15, name: "TLP Prefix Log 2", fields: LOG },
        Word { dw: 16, name: "TLP Prefix Log 3", fields: LOG },
        Word { dw: 17, name: "TLP Prefix Log 4", fields: LOG },
    ],
};

/// Whose errors are logged: decides which bits there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AerRole {
    /// An endpoint's function.
    Endpoint,
    /// A switch's upstream port.
    UpstreamPort,
    /// A switch's downstream port.
    DownstreamPort,
    /// A root port: with the root registers.
    RootPort,
}

/// Advanced Error Reporting as a function wants it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AerLayout {
    /// Whose it is.
    pub role: AerRole,
    /// Headers that can be recorded, 1 to 8; more than one makes it Multiple Header Recording Capable.
    pub headers: u8,
    /// With a TLP Prefix Log, as functions have that support End-End TLP Prefixes.
    pub prefix_log: bool,
    /// Advanced Error Interrupt Message Number of a root port, 0 to 31.
    pub interrupt_message: u8,
}

impl AerLayout {
    /// Most headers that can be recorded.
    pub const MAX_HEADERS: u8 = 8;

    /// One header, no prefix log.
    #[must_use]
    pub const fn new(role: AerRole) -> AerLayout {
        AerLayout { role, headers: 1, prefix_log: false, interrupt_message: 0 }
    }

    /// The uncorrectable errors that this role can have.
    #[must_use]
    pub const fn uncorrectable(&self) -> u32 {
        use Uncorrectable::*;
        let routing = AtomicOpEgressBlocked.mask() | TlpPrefixBlocked.mask();
        let downstream = SurpriseDown.mask() | PoisonedTlpEgressBlocked.mask();
        let absent = McBlockedTlp.mask()
            | match self.role {
                AerRole::Endpoint => routing | downstream,
                AerRole::UpstreamPort => downstream,
                AerRole::DownstreamPort | AerRole::RootPort => 0,
            };
        let mut all = 0;
        let mut i = 0;
        while i < Uncorrectable::ALL.len() {
            all |= Uncorrectable::ALL[i].mask();
            i += 1;
        }
        all & !absent
    }

    const fn len(&self) -> usize {
        match (self.prefix_log, self.role) {
            (true, _) => LEN_WITH_PREFIXES,
            (false, AerRole::RootPort) => LEN_ROOT,
            (false, _) => LEN,
        }
    }

    /// The capability's registers.
    #[must_use]
    pub fn registers(&self) -> Vec<Register> {
        let several = if self.headers > 1 { control::MULTIPLE_HEADERS_CAPABLE } else { 0 };
        let mut all = TABLE.registers(&[
            (UNCORRECTABLE_MASK, DEFAULT_UNCORRECTABLE_MASK),
            (SEVERITY, DEFAULT_SEVERITY),
            (CORRECTABLE_MASK, DEFAULT_CORRECTABLE_MASK),
            (CONTROL, control::ECRC_CAPABLE | control::TIMEOUT_HEADER_CAPABLE | several),
            (ROOT_STATUS, u32::from(self.interrupt_message & 0x1f) << root::INTERRUPT_SHIFT),
        ]);
        for dw in UNCORRECTABLE_STATUS..=SEVERITY {
            let register = &mut all[usize::from(dw)];
            *register = register.without(!self.uncorrectable());
        }
        if several == 0 {
            let register = &mut all[usize::from(CONTROL)];
            *register = register.without(control::MULTIPLE_HEADERS);
        }
        if self.role != AerRole::RootPort {
            all[usize::from(ROOT_COMMAND)..usize::from(PREFIX_LOG)].fill(Register::default());
        }
        all.truncate(self.len());
        all
    }
}
