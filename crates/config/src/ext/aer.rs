// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Advanced Error Reporting extended capability (`PCIe 5.0 §7.8.4`): registers and names of errors. For logging, see
//! [`errors`](crate::errors).

use crate::Effects;
use crate::register::{Attribute, Field, Register, put, structure, those, without};

/// Declares errors as bits of their registers. Each has its bit, its name in the specification, and, if riser never
/// uses the bit, the reason.
macro_rules! errors {
    ($(#[$doc:meta])* $Errors:ident {
        $($(#[$what:meta])* $bit:literal $Error:ident $name:literal $(, $inert:expr)?;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $Errors {
            $($(#[$what])* $Error = $bit,)*
        }

        impl $Errors {
            /// Every error, in the order of its bits.
            pub const ALL: [$Errors; [$($bit),*].len()] = [$($Errors::$Error),*];

            /// Returns the error's bit in the registers.
            #[must_use]
            pub const fn mask(self) -> u32 {
                1 << self as u32
            }

            /// Returns the name in the specification.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $($Errors::$Error => $name,)*
                }
            }

            /// Returns a register's fields, one for each error.
            const fn fields(attribute: Attribute, does: &'static str) -> [Field; $Errors::ALL.len()] {
                let like = Field { does, ..Field::new(0, attribute, "").tells(Effects::AER) };
                [$(Field {
                    bits: 1 << $bit,
                    name: $name,
                    constant: stringify!($Error),
                    $(does: "", inert: Some($inert),)?
                    ..like
                }),*]
            }
        }
    };
}

errors! {
    /// The uncorrectable errors; the discriminant is the bit in the registers (`PCIe 5.0 §7.8.4.2`).
    Uncorrectable {
        /// Data Link Protocol Error: an Ack or Nak of a sequence number that was not sent.
        4  DataLinkProtocol "Data Link Protocol Error";
        /// Surprise Down Error: the link went down unexpectedly; downstream ports only.
        5  SurpriseDown "Surprise Down Error";
        /// Poisoned TLP Received.
        12 PoisonedTlp "Poisoned TLP Received";
        /// Flow Control Protocol Error.
        13 FlowControlProtocol "Flow Control Protocol Error";
        /// Completion Timeout.
        14 CompletionTimeout "Completion Timeout";
        /// Completer Abort: this function aborted a request.
        15 CompleterAbort "Completer Abort";
        /// Unexpected Completion.
        16 UnexpectedCompletion "Unexpected Completion";
        /// Receiver Overflow: a TLP arrived for which no credits were granted.
        17 ReceiverOverflow "Receiver Overflow";
        /// Malformed TLP.
        18 MalformedTlp "Malformed TLP";
        /// ECRC Error.
        19 Ecrc "ECRC Error";
        /// Unsupported Request: this function did not support a request.
        20 UnsupportedRequest "Unsupported Request Error";
        /// ACS Violation.
        21 AcsViolation "ACS Violation";
        /// Uncorrectable Internal Error.
        22 UncorrectableInternal "Uncorrectable Internal Error";
        /// MC Blocked TLP. Multicast is not supported, so this bit reads zero.
        23 McBlockedTlp "MC Blocked TLP", "multicast is not modelled";
        /// AtomicOp Egress Blocked; ports that route only.
        24 AtomicOpEgressBlocked "AtomicOp Egress Blocked";
        /// TLP Prefix Blocked; ports that route only.
        25 TlpPrefixBlocked "TLP Prefix Blocked Error";
        /// Poisoned TLP Egress Blocked; downstream ports only.
        26 PoisonedTlpEgressBlocked "Poisoned TLP Egress Blocked";
    }
}

impl Uncorrectable {
    /// True if the offending TLP's header is logged (`PCIe 5.0 Table 6-3 to 6-5`). The other errors do not belong to a
    /// single TLP.
    #[must_use]
    pub const fn logs_header(self) -> bool {
        use Uncorrectable::*;
        !matches!(
            self,
            DataLinkProtocol | SurpriseDown | FlowControlProtocol | ReceiverOverflow | UncorrectableInternal
        )
    }
}

errors! {
    /// The correctable errors; the discriminant is the bit in the registers (`PCIe 5.0 §7.8.4.5`).
    Correctable {
        /// Receiver Error: invalid symbols.
        0  Receiver "Receiver Error";
        /// Bad TLP: wrong LCRC or sequence number.
        6  BadTlp "Bad TLP";
        /// Bad DLLP: wrong CRC.
        7  BadDllp "Bad DLLP";
        /// REPLAY_NUM Rollover.
        8  ReplayNumRollover "REPLAY_NUM Rollover";
        /// Replay Timer Timeout.
        12 ReplayTimerTimeout "Replay Timer Timeout";
        /// Advisory Non-Fatal Error.
        13 AdvisoryNonFatal "Advisory Non-Fatal Error";
        /// Corrected Internal Error.
        14 CorrectedInternal "Corrected Internal Error";
        /// Header Log Overflow.
        15 HeaderLogOverflow "Header Log Overflow";
    }
}

/// Message caused by an error (`PCIe 5.0 §2.2.8.3`); the discriminant is its Message Code.
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
    /// Returns the error message with this Message Code.
    pub const fn from_code(code: u8) -> Option<ErrorMessage> {
        match code {
            0x30 => Some(ErrorMessage::Correctable),
            0x31 => Some(ErrorMessage::NonFatal),
            0x33 => Some(ErrorMessage::Fatal),
            _ => None,
        }
    }
}

/// Errors whose severity is fatal after reset (`PCIe 5.0 Table 7-109`).
pub const DEFAULT_SEVERITY: u32 = Uncorrectable::DataLinkProtocol.mask()
    | Uncorrectable::SurpriseDown.mask()
    | Uncorrectable::FlowControlProtocol.mask()
    | Uncorrectable::ReceiverOverflow.mask()
    | Uncorrectable::MalformedTlp.mask()
    | Uncorrectable::UncorrectableInternal.mask();
/// Uncorrectable errors that are masked after reset (`PCIe 5.0 Table 7-108`).
pub const DEFAULT_UNCORRECTABLE_MASK: u32 =
    Uncorrectable::UncorrectableInternal.mask() | Uncorrectable::PoisonedTlpEgressBlocked.mask();
/// Correctable errors that are masked after reset (`PCIe 5.0 Table 7-111`).
pub const DEFAULT_CORRECTABLE_MASK: u32 = Correctable::AdvisoryNonFatal.mask()
    | Correctable::CorrectedInternal.mask()
    | Correctable::HeaderLogOverflow.mask();

const STATUS_DOES: &str = "clearing the first error makes the next recorded header visible";
const MASK_DOES: &str = "set: recorded only in the status register, without header or message";
const SEVERITY_DOES: &str = "set: ERR_FATAL, clear: ERR_NONFATAL";
const CORRECTABLE_MASK_DOES: &str = "set: recorded only in the status register, without message";
const LOG: &[Field] = &[Field::ros(!0, "TLP Header or Prefix")];

structure! {
    extended 0x0001, 2, "Advanced Error Reporting", "PCIe 5.0 §7.8.4";

    0x04 UNCORRECTABLE_STATUS "Uncorrectable Error Status" (&Uncorrectable::fields(Attribute::Rw1cs, STATUS_DOES))
    0x08 UNCORRECTABLE_MASK "Uncorrectable Error Mask" (&Uncorrectable::fields(Attribute::Rws, MASK_DOES))
    0x0c SEVERITY "Uncorrectable Error Severity" (&Uncorrectable::fields(Attribute::Rws, SEVERITY_DOES))
    0x10 CORRECTABLE_STATUS "Correctable Error Status" (&Correctable::fields(Attribute::Rw1cs, "event"))
    0x14 CORRECTABLE_MASK "Correctable Error Mask" (&Correctable::fields(Attribute::Rws, CORRECTABLE_MASK_DOES))
    0x18 CONTROL in control "Advanced Error Capabilities and Control" {
        4:0 ros FIRST_ERROR_POINTER "First Error Pointer";
        5   ro  ECRC_GENERATION_CAPABLE "ECRC Generation Capable";
        6   rws ECRC_GENERATION "ECRC Generation Enable", "the function's TLPs have an ECRC" => ECRC;
        7   ro  ECRC_CHECK_CAPABLE "ECRC Check Capable";
        8   rws ECRC_CHECK "ECRC Check Enable", "a wrong ECRC is an error" => ECRC;
        9   ro  MULTIPLE_HEADERS_CAPABLE "Multiple Header Recording Capable";
        10  rws MULTIPLE_HEADERS "Multiple Header Recording Enable", "further headers are queued" => AER;
        11  ros PREFIX_LOG_PRESENT "TLP Prefix Log Present";
        12  ro  TIMEOUT_HEADER_CAPABLE "Completion Timeout Prefix/Header Log Capable";
    }
    0x1c HEADER_LOG "Header Log 1" (LOG)
    0x20 _ "Header Log 2" (LOG)
    0x24 _ "Header Log 3" (LOG)
    0x28 _ "Header Log 4" (LOG)
    // Root ports only, like the next two.
    0x2c ROOT_COMMAND in root_command "Root Error Command" {
        0 rw CORRECTABLE_REPORTING "Correctable Error Reporting Enable", "ERR_COR interrupts" => AER;
        1 rw NON_FATAL_REPORTING "Non-Fatal Error Reporting Enable", "ERR_NONFATAL interrupts" => AER;
        2 rw FATAL_REPORTING "Fatal Error Reporting Enable", "ERR_FATAL interrupts" => AER;
    }
    0x30 ROOT_STATUS in root_status "Root Error Status" {
        0     rw1cs CORRECTABLE_RECEIVED "ERR_COR Received",
            "clear: the source of the next ERR_COR is recorded" => AER;
        1     rw1cs MULTIPLE_CORRECTABLE "Multiple ERR_COR Received", "event" => AER;
        2     rw1cs UNCORRECTABLE_RECEIVED "ERR_FATAL/NONFATAL Received",
            "clear: the source of the next message is recorded" => AER;
        3     rw1cs MULTIPLE_UNCORRECTABLE "Multiple ERR_FATAL/NONFATAL Received", "event" => AER;
        4     rw1cs FIRST_FATAL "First Uncorrectable Fatal", "event" => AER;
        5     rw1cs NON_FATAL_RECEIVED "Non-Fatal Error Messages Received", "ends the interrupt" => AER;
        6     rw1cs FATAL_RECEIVED "Fatal Error Messages Received", "ends the interrupt" => AER;
        31:27 ro    INTERRUPT_MESSAGE "Advanced Error Interrupt Message Number";
    }
    0x34 ERROR_SOURCE "Error Source Identification" (&[Field::ros(!0, "Source Identification")])
    0x38 PREFIX_LOG "TLP Prefix Log 1" (LOG)
    0x3c _ "TLP Prefix Log 2" (LOG)
    0x40 _ "TLP Prefix Log 3" (LOG)
    0x44 _ "TLP Prefix Log 4" (LOG)
}

/// Kind of port whose errors are logged; it decides which bits exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AerRole {
    /// An endpoint's function.
    Endpoint,
    /// A switch's upstream port.
    UpstreamPort,
    /// A switch's downstream port.
    DownstreamPort,
    /// A root port, which also has the root registers.
    RootPort,
}

/// Declaration of a function's Advanced Error Reporting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AerLayout {
    /// Kind of port.
    pub role: AerRole,
    /// Number of headers that can be recorded, 1 to 8. More than one makes the function Multiple Header Recording
    /// Capable.
    pub headers: u8,
    /// Has a TLP Prefix Log; for functions that support End-End TLP Prefixes.
    pub prefix_log: bool,
    /// Advanced Error Interrupt Message Number of a root port, 0 to 31.
    pub interrupt_message: u8,
}

impl AerLayout {
    /// Maximum number of recorded headers.
    pub const MAX_HEADERS: u8 = 8;

    /// One header, no prefix log.
    pub const fn new(role: AerRole) -> AerLayout {
        AerLayout { role, headers: 1, prefix_log: false, interrupt_message: 0 }
    }

    /// The uncorrectable errors that this role can have.
    pub const fn uncorrectable(&self) -> u32 {
        use Uncorrectable::*;
        let routing = AtomicOpEgressBlocked.mask() | TlpPrefixBlocked.mask();
        let downstream = SurpriseDown.mask() | PoisonedTlpEgressBlocked.mask() | AcsViolation.mask();
        // Ports never abort requests. A switch sends no requests that expect completions.
        let switch = CompleterAbort.mask() | CompletionTimeout.mask();
        let absent = McBlockedTlp.mask()
            | match self.role {
                AerRole::Endpoint => routing | downstream,
                AerRole::UpstreamPort => downstream | switch,
                AerRole::DownstreamPort => switch,
                AerRole::RootPort => CompleterAbort.mask(),
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
            (true, _) => PREFIX_LOG as usize + 4,
            (false, AerRole::RootPort) => PREFIX_LOG as usize,
            (false, _) => ROOT_COMMAND as usize,
        }
    }

    /// The capability's registers.
    pub fn registers(&self) -> Vec<Register> {
        let several = those([(self.headers > 1, control::MULTIPLE_HEADERS_CAPABLE)]);
        let ecrc = control::ECRC_GENERATION_CAPABLE | control::ECRC_CHECK_CAPABLE;
        let all = TABLE.registers(&[
            (UNCORRECTABLE_MASK, DEFAULT_UNCORRECTABLE_MASK),
            (SEVERITY, DEFAULT_SEVERITY),
            (CORRECTABLE_MASK, DEFAULT_CORRECTABLE_MASK),
            (CONTROL, ecrc | control::TIMEOUT_HEADER_CAPABLE | several),
            (ROOT_STATUS, put(root_status::INTERRUPT_MESSAGE, self.interrupt_message.into())),
        ]);
        let absent = !self.uncorrectable();
        let several = those([(several == 0, control::MULTIPLE_HEADERS)]);
        let errors = [UNCORRECTABLE_STATUS, UNCORRECTABLE_MASK, SEVERITY].map(|dw| (dw, absent));
        let mut all = without(without(all, errors), [(CONTROL, several)]);
        if self.role != AerRole::RootPort {
            all[usize::from(ROOT_COMMAND)..usize::from(PREFIX_LOG)].fill(Register::default());
        }
        all.truncate(self.len());
        all
    }
}
