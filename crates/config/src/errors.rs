// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Handling of errors that a function detects or receives (`PCIe 5.0 §6.2`): Status, Device Status, Advanced Error
//! Reporting, the message to send, a root port's interrupt. This module neither detects errors nor sends messages.
//!
//! The order follows `PCIe 5.0 Figure 6-2`:
//!
//! ```text
//! correctable ──── Correctable Error Detected ─ status bit ─ masked? ─ enabled? ─ ERR_COR
//! uncorrectable ┬─ fatal by severity ──── Fatal Error Detected ─────┐
//!               ├─ non-fatal ──────────── Non-Fatal Error Detected ─┴ masked? ─ header ─ status ─ DPC? ─ enabled? ─ ERR_*
//!               └─ non-fatal, advisory ── Correctable Error Detected ─ Advisory Non-Fatal status ─ masked? ─ header,
//!                                         status ─ enabled? ─ ERR_COR
//! ```

use crate::cap::pcie::{self, device_control};
use crate::ext::aer::{self, AerLayout, AerRole, control, root_command, root_status as root};
use crate::header::{self, bridge_control, command, status, type1};
use crate::register::{Register, get};
use crate::{ConfigSpace, Correctable, DpcReason, ErrorMessage, Uncorrectable};
use std::collections::VecDeque;
use tlp::Bdf;

/// An error of either kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DetectedError {
    /// An uncorrectable error; its severity makes it fatal or non-fatal.
    Uncorrectable(Uncorrectable),
    /// A correctable error: no information was lost.
    Correctable(Correctable),
}

impl From<Uncorrectable> for DetectedError {
    fn from(error: Uncorrectable) -> DetectedError {
        DetectedError::Uncorrectable(error)
    }
}

impl From<Correctable> for DetectedError {
    fn from(error: Correctable) -> DetectedError {
        DetectedError::Correctable(error)
    }
}

/// Interface of a bridge. Other functions have only a primary one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Side {
    /// Towards the root complex.
    #[default]
    Primary,
    /// Away from the root complex.
    Secondary,
}

/// An error, with the information to log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct ErrorReport {
    /// The error.
    pub error: DetectedError,
    /// True for the cases that are advisory if their severity is non-fatal (`PCIe 5.0 §6.2.3.2.4`).
    pub advisory: bool,
    /// Header of the TLP, byte 0 in bits 31:24 of the first word, as in the Header Log; zero without a TLP.
    pub header: [u32; 4],
    /// The TLP's first four End-End TLP prefixes in the same format; zero if absent.
    pub prefixes: [u32; 4],
    /// Side of a bridge on which the error occurred.
    pub side: Side,
}

impl ErrorReport {
    /// Returns a report without a TLP, on the primary side, not advisory.
    pub fn new(error: impl Into<DetectedError>) -> ErrorReport {
        let (header, prefixes) = ([0; 4], [0; 4]);
        ErrorReport { error: error.into(), advisory: false, header, prefixes, side: Side::Primary }
    }

    /// Sets whether the error is advisory.
    pub const fn advisory(self, advisory: bool) -> ErrorReport {
        ErrorReport { advisory, ..self }
    }

    /// Sets the header of the offending TLP.
    pub const fn header(self, header: [u32; 4]) -> ErrorReport {
        ErrorReport { header, ..self }
    }

    /// Sets the End-End TLP prefixes of the offending TLP.
    pub const fn prefixes(self, prefixes: [u32; 4]) -> ErrorReport {
        ErrorReport { prefixes, ..self }
    }

    /// Sets the side of a bridge.
    pub const fn on(self, side: Side) -> ErrorReport {
        ErrorReport { side, ..self }
    }

    /// True if the TLP has data (Fmt x1xb) and its EP bit marks it as poisoned (`PCIe 5.0 §2.2.1`).
    const fn is_poisoned(&self) -> bool {
        self.header[0] >> 30 & 1 == 1 && self.header[0] >> 14 & 1 == 1
    }

    /// True if the TLP is a completion with data: Type 0 1010b or, locked, 0 1011b (`PCIe 5.0 Table 2-3`).
    const fn is_completion(&self) -> bool {
        self.header[0] >> 25 & 0b1111 == 0b0101
    }

    /// True if the TLP is a non-posted request (`PCIe 5.0 Table 2-3`): not a write (Fmt 01xb, Type 0 0000b), not a message
    /// (Type 1 0xxxb), not a completion (Type 0 101xb).
    fn is_non_posted(&self) -> bool {
        let (with_data, kind) = (self.header[0] >> 30 & 1 == 1, self.header[0] >> 24 & 0x1f);
        let is_posted = with_data && kind == 0 || kind & 0b1_1000 == 0b1_0000;
        let is_completion = kind & 0b1_1110 == 0b0_1010;
        self.header != [0; 4] && !is_posted && !is_completion
    }
}

/// A recorded header that waits until the Header Log is free (`PCIe 5.0 §6.2.4.2`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Record {
    error: Uncorrectable,
    header: [u32; 4],
    prefixes: [u32; 4],
}

/// State of error logging outside the registers.
#[derive(Clone, Debug, Default)]
pub(crate) struct ErrorState {
    /// Number of headers that can be recorded in total.
    headers: u8,
    prefix_log: bool,
    /// Headers that wait for the Header Log.
    waiting: VecDeque<Record>,
    /// ERR_COR of a Header Log Overflow is still to be sent.
    overflow_message: bool,
    /// Last known state of the root port's interrupt condition.
    root_asserted: bool,
}

impl ErrorState {
    pub(crate) fn new(layout: Option<AerLayout>) -> ErrorState {
        let Some(layout) = layout else { return ErrorState::default() };
        ErrorState { headers: layout.headers, prefix_log: layout.prefix_log, ..ErrorState::default() }
    }
}

/// Registers that decide how an error is reported: the function's own registers, or for a VF the registers of its PF
/// (`PCIe 5.0 §9.4.2`).
#[derive(Clone, Copy)]
struct Reporting {
    severity: u32,
    uncorrectable_mask: u32,
    correctable_mask: u32,
    device_control: u32,
    serr: bool,
}

impl Reporting {
    const fn class_of(&self, error: Uncorrectable, advisory: bool) -> ErrorMessage {
        match (self.severity & error.mask() != 0, advisory) {
            (true, _) => ErrorMessage::Fatal,
            (false, false) => ErrorMessage::NonFatal,
            (false, true) => ErrorMessage::Correctable,
        }
    }

    /// True if Device Control or SERR# Enable allows the message (`PCIe 5.0 §6.2.6`).
    fn enabled(&self, error: DetectedError, class: ErrorMessage) -> bool {
        let unsupported = error == DetectedError::Uncorrectable(Uncorrectable::UnsupportedRequest);
        let quiet = unsupported && self.device_control & device_control::UNSUPPORTED_REPORTING == 0;
        let bit = match class {
            ErrorMessage::Correctable => device_control::CORRECTABLE_REPORTING,
            ErrorMessage::NonFatal => device_control::NON_FATAL_REPORTING,
            ErrorMessage::Fatal => device_control::FATAL_REPORTING,
        };
        let serr = self.serr && class != ErrorMessage::Correctable;
        !quiet && self.device_control & bit != 0 || serr
    }
}

impl ConfigSpace {
    /// Logs an error (`PCIe 5.0 §6.2`) and returns the message to send, if any. No message is due if the error triggers
    /// Downstream Port Containment (`§6.2.10`); see [`ConfigSpace::poll_dpc`]. Call [`ConfigSpace::poll_error_message`] for
    /// a further message.
    #[must_use = "the message is to be sent"]
    pub fn log(&mut self, report: ErrorReport) -> Option<ErrorMessage> {
        let reporting = self.reporting();
        self.log_as(report, reporting)
    }

    /// Logs an error of a VF. The masks, severities and enables are its PF's (`PCIe 5.0 §9.4.2`).
    #[must_use = "the message is to be sent"]
    pub fn log_virtual(&mut self, pf: &ConfigSpace, report: ErrorReport) -> Option<ErrorMessage> {
        self.log_as(report, pf.reporting())
    }

    /// Takes the message that is due in addition to the one returned by [`ConfigSpace::log`]: ERR_COR of a Header Log
    /// Overflow (`§6.2.4.2`).
    pub fn poll_error_message(&mut self) -> Option<ErrorMessage> {
        std::mem::take(&mut self.errors.overflow_message).then_some(ErrorMessage::Correctable)
    }

    /// Records that the function sent, or a bridge forwarded, a poisoned request out of this side. Sets Master Data Parity
    /// Error if Parity Error Response is enabled (`PCIe 5.0 §7.5.1.1.4, §7.5.1.3.7`).
    pub fn note_poisoned_sent(&mut self, side: Side) {
        if self.parity_error_response(side) {
            self.set_status_of(side, status::MASTER_DATA_PARITY_ERROR);
        }
    }

    /// Sets bits of Status or, for the secondary side, of Secondary Status. The same errors have the same bits in both.
    pub fn set_status_of(&mut self, side: Side, bits: u32) {
        let dw = match side {
            Side::Primary => header::COMMAND_STATUS,
            Side::Secondary => type1::IO_SECONDARY_STATUS,
        };
        let bits = bits & status::RW1C;
        if side == Side::Primary || self.is_bridge() {
            self.set_bits(dw, bits, bits);
        }
    }

    /// Handles an error message received on a bridge's secondary side. Returns true if it is forwarded upstream, or in a
    /// root port to the root registers. Sets Received System Error (`PCIe 5.0 §6.2.6, §7.5.1.3.7`).
    ///
    /// SERR# Enable of Bridge Control lets all messages pass. An uncorrectable error message leaves a switch port only
    /// if SERR# Enable of Command or the class's enable bit of Device Control is set. The former also sets Signaled
    /// System Error.
    pub fn forwards_error(&mut self, message: ErrorMessage) -> bool {
        let uncorrectable = message != ErrorMessage::Correctable;
        if uncorrectable {
            self.set_status_of(Side::Secondary, status::SIGNALED_SYSTEM_ERROR);
        }
        if self.read(header::INTERRUPT) & bridge_control::SERR_ENABLE == 0 {
            return false;
        }
        if !uncorrectable || self.aer_root_word(aer::ROOT_COMMAND).is_some() {
            return true;
        }
        let reporting = self.reporting();
        if reporting.serr {
            self.set_status(status::SIGNALED_SYSTEM_ERROR);
        }
        reporting.enabled(Uncorrectable::DataLinkProtocol.into(), message)
    }

    /// Records an error message that a root port received or sent to itself in Root Error Status and Error Source
    /// Identification. Returns the Advanced Error Interrupt Message Number if an interrupt is due (`PCIe 5.0 §6.2.4.1.2`).
    pub fn root_error(&mut self, message: ErrorMessage, source: Bdf) -> Option<u8> {
        let was = self.aer_root_word(aer::ROOT_STATUS)?;
        let (first, again, more) = match message {
            ErrorMessage::Correctable => (root::CORRECTABLE_RECEIVED, root::MULTIPLE_CORRECTABLE, 0),
            ErrorMessage::NonFatal => {
                (root::UNCORRECTABLE_RECEIVED, root::MULTIPLE_UNCORRECTABLE, root::NON_FATAL_RECEIVED)
            }
            ErrorMessage::Fatal => {
                (root::UNCORRECTABLE_RECEIVED, root::MULTIPLE_UNCORRECTABLE, root::FATAL_RECEIVED)
            }
        };
        let mut bits = more | if was & first == 0 { first } else { again };
        if was & first == 0 {
            let shift = if first == root::CORRECTABLE_RECEIVED { 0 } else { 16 };
            self.set_aer(aer::ERROR_SOURCE, 0xffff << shift, u32::from(source.bits()) << shift);
            bits |= if message == ErrorMessage::Fatal { root::FIRST_FATAL } else { 0 };
        }
        self.set_aer(aer::ROOT_STATUS, bits, bits);
        self.poll_root_interrupt()
    }

    /// True if the condition of a root port's error interrupt holds: an enabled message was received and not cleared.
    pub fn root_interrupt(&self) -> bool {
        let command = self.aer_root_word(aer::ROOT_COMMAND).unwrap_or(0);
        let status = self.aer_root_word(aer::ROOT_STATUS).unwrap_or(0);
        let pairs = [
            (root_command::CORRECTABLE_REPORTING, root::CORRECTABLE_RECEIVED),
            (root_command::NON_FATAL_REPORTING, root::NON_FATAL_RECEIVED),
            (root_command::FATAL_REPORTING, root::FATAL_RECEIVED),
        ];
        pairs.into_iter().any(|(enable, received)| command & enable != 0 && status & received != 0)
    }

    /// Returns the interrupt's message number each time its condition becomes true. Call it after a write whose effects
    /// contain [`AER`](crate::Effects::AER).
    pub fn poll_root_interrupt(&mut self) -> Option<u8> {
        let asserted = self.root_interrupt();
        let before = std::mem::replace(&mut self.errors.root_asserted, asserted);
        let number = get(self.aer_root_word(aer::ROOT_STATUS)?, root::INTERRUPT_MESSAGE);
        (asserted && !before).then_some(number as u8)
    }

    fn log_as(&mut self, report: ErrorReport, reporting: Reporting) -> Option<ErrorMessage> {
        match report.error {
            DetectedError::Correctable(error) => self.log_correctable(error, reporting),
            DetectedError::Uncorrectable(error) => {
                self.note_status(error, &report);
                match reporting.class_of(error, report.advisory) {
                    ErrorMessage::Correctable => self.log_advisory(error, &report, reporting),
                    class => self.log_uncorrectable(error, class, &report, reporting),
                }
            }
        }
    }

    fn log_correctable(&mut self, error: Correctable, reporting: Reporting) -> Option<ErrorMessage> {
        self.set_device_status(device_control::CORRECTABLE_DETECTED);
        self.set_aer(aer::CORRECTABLE_STATUS, error.mask(), !0);
        let masked = reporting.correctable_mask & error.mask() != 0;
        let sent = !masked && reporting.enabled(error.into(), ErrorMessage::Correctable);
        sent.then_some(ErrorMessage::Correctable)
    }

    /// Logs an advisory error. Without Advanced Error Reporting it sends no message (`PCIe 5.0 §6.2.3.2.4`).
    fn log_advisory(
        &mut self,
        error: Uncorrectable,
        report: &ErrorReport,
        reporting: Reporting,
    ) -> Option<ErrorMessage> {
        self.set_device_status(device_control::CORRECTABLE_DETECTED | unsupported_detected(error));
        self.aer_capability()?;
        let advisory = Correctable::AdvisoryNonFatal.mask();
        self.set_aer(aer::CORRECTABLE_STATUS, advisory, advisory);
        if reporting.correctable_mask & advisory != 0 {
            return None;
        }
        if reporting.uncorrectable_mask & error.mask() == 0 {
            self.record(error, report, reporting);
        }
        self.set_aer(aer::UNCORRECTABLE_STATUS, error.mask(), !0);
        let sent = reporting.enabled(error.into(), ErrorMessage::Correctable);
        sent.then_some(ErrorMessage::Correctable)
    }

    fn log_uncorrectable(
        &mut self,
        error: Uncorrectable,
        class: ErrorMessage,
        report: &ErrorReport,
        reporting: Reporting,
    ) -> Option<ErrorMessage> {
        let detected = match class {
            ErrorMessage::Fatal => device_control::FATAL_DETECTED,
            _ => device_control::NON_FATAL_DETECTED,
        };
        self.set_device_status(detected | unsupported_detected(error));
        let masked = reporting.uncorrectable_mask & error.mask() != 0;
        if !masked {
            self.record(error, report, reporting);
        }
        self.set_aer(aer::UNCORRECTABLE_STATUS, error.mask(), !0);
        let contained = !masked && self.dpc_trigger(DpcReason::Uncorrectable);
        if masked || contained || !reporting.enabled(error.into(), class) {
            return None;
        }
        if reporting.serr {
            self.set_status(status::SIGNALED_SYSTEM_ERROR);
        }
        Some(class)
    }

    /// Sets the status bits that do not depend on masks or enables (`PCIe 5.0 §7.5.1.1.4, §7.5.1.3.7`). A poisoned TLP
    /// counts as received even if it has other errors.
    fn note_status(&mut self, error: Uncorrectable, report: &ErrorReport) {
        let poisoned = match error {
            Uncorrectable::PoisonedTlp => true,
            // Refused because of its request or reply. The EP bit of a malformed TLP is meaningless.
            Uncorrectable::UnsupportedRequest
            | Uncorrectable::CompleterAbort
            | Uncorrectable::UnexpectedCompletion
            | Uncorrectable::AcsViolation => report.is_poisoned(),
            _ => false,
        };
        let parity = if poisoned { status::DETECTED_PARITY_ERROR } else { 0 };
        let bits = match error {
            Uncorrectable::CompleterAbort => status::SIGNALED_TARGET_ABORT,
            // The request is completed with CA (`PCIe 5.0 §6.12.4`).
            Uncorrectable::AcsViolation if report.is_non_posted() => status::SIGNALED_TARGET_ABORT,
            Uncorrectable::PoisonedTlp
                if report.is_completion() && self.parity_error_response(report.side) =>
            {
                status::MASTER_DATA_PARITY_ERROR
            }
            _ => 0,
        };
        if parity | bits != 0 {
            self.set_status_of(report.side, parity | bits);
        }
    }

    fn parity_error_response(&self, side: Side) -> bool {
        let (dw, bit) = match side {
            Side::Primary => (header::COMMAND_STATUS, command::PARITY_ERROR_RESPONSE),
            Side::Secondary => (header::INTERRUPT, bridge_control::PARITY_ERROR_RESPONSE),
        };
        self.read(dw) & bit != 0
    }

    fn reporting(&self) -> Reporting {
        let word = |at: u16| self.aer_word(at).unwrap_or(0);
        Reporting {
            severity: self.aer_word(aer::SEVERITY).unwrap_or(aer::DEFAULT_SEVERITY),
            uncorrectable_mask: word(aer::UNCORRECTABLE_MASK),
            correctable_mask: word(aer::CORRECTABLE_MASK),
            device_control: self.pcie_word(pcie::DEVICE_CONTROL),
            serr: self.read(header::COMMAND_STATUS) & command::SERR_ENABLE != 0,
        }
    }

    fn set_device_status(&mut self, bits: u32) {
        self.set_pcie_bits(pcie::DEVICE_CONTROL, bits, bits);
    }

    /// Sets the bits of `mask` in an AER register, if this function implements them.
    fn set_aer(&mut self, at: u16, mask: u32, value: u32) {
        let Some(start) = self.aer_capability() else { return };
        if let Some(register) = self.registers.get_mut(usize::from(start + at)) {
            register.set(mask & implemented(register), value);
        }
    }

    /// Returns a register that only root ports have.
    fn aer_root_word(&self, at: u16) -> Option<u32> {
        let layout = self.capabilities.layouts.aer?;
        if layout.role == AerRole::RootPort { self.aer_word(at) } else { None }
    }

    /// Records an error's header. The First Error Pointer and its header stay until software clears the bit that the
    /// pointer names ([`ConfigSpace::follow_aer`]). Later headers wait in a queue, or overflow (`PCIe 5.0 §6.2.4.2`).
    fn record(&mut self, error: Uncorrectable, report: &ErrorReport, reporting: Reporting) {
        let Some(start) = self.aer_capability() else { return };
        let (header, prefixes) =
            if error.logs_header() { (report.header, report.prefixes) } else { ([0; 4], [0; 4]) };
        let record = Record { error, header, prefixes };
        let control = self.read(start + aer::CONTROL);
        let several = control & control::MULTIPLE_HEADERS != 0;
        if !self.first_error_is_valid(start) {
            self.show(start, record);
        } else if several && self.errors.waiting.len() + 1 < usize::from(self.errors.headers) {
            self.errors.waiting.push_back(record);
        } else if error.logs_header() {
            let message = self.log_correctable(Correctable::HeaderLogOverflow, reporting);
            self.errors.overflow_message |= message.is_some();
        }
    }

    fn first_error_is_valid(&self, start: u16) -> bool {
        let pointed = self.read(start + aer::CONTROL) & control::FIRST_ERROR_POINTER;
        self.read(start + aer::UNCORRECTABLE_STATUS) >> pointed & 1 == 1
    }

    fn show(&mut self, start: u16, record: Record) {
        let prefixed = self.errors.prefix_log && record.prefixes[0] != 0;
        let present = if prefixed { control::PREFIX_LOG_PRESENT } else { 0 };
        let mask = control::FIRST_ERROR_POINTER | control::PREFIX_LOG_PRESENT;
        self.set_bits(start + aer::CONTROL, mask, record.error as u32 | present);
        for (at, word) in (start + aer::HEADER_LOG..).zip(record.header) {
            self.set_bits(at, !0, word);
        }
        if prefixed {
            for (at, word) in (start + aer::PREFIX_LOG..).zip(record.prefixes) {
                self.set_bits(at, !0, word);
            }
        }
    }

    /// Handles a write to Uncorrectable Error Status or Control. If it cleared the error that the pointer names, the
    /// next waiting header appears in the log, and its status bit is set again. If no header waits, the pointer has
    /// the value zero, as after reset. Zero names no error, because bit 0 of the status is never set. The previously named bit may be set
    /// again without a header, for example by a masked error.
    pub(crate) fn follow_aer(&mut self, start: u16) {
        let several = self.read(start + aer::CONTROL) & control::MULTIPLE_HEADERS != 0;
        if !several {
            self.errors.waiting.clear();
        }
        if self.first_error_is_valid(start) {
            return;
        }
        let Some(next) = self.errors.waiting.pop_front() else {
            let pointer = control::FIRST_ERROR_POINTER | control::PREFIX_LOG_PRESENT;
            return self.set_bits(start + aer::CONTROL, pointer, 0);
        };
        let recorded = self.errors.waiting.iter().fold(next.error.mask(), |all, r| all | r.error.mask());
        self.set_aer(aer::UNCORRECTABLE_STATUS, recorded, recorded);
        self.show(start, next);
    }

    /// Resets error logging. Waiting headers are lost only by a fundamental reset, like sticky registers.
    pub(crate) fn forget_errors(&mut self, fundamental: bool) {
        if fundamental {
            self.errors.waiting.clear();
        }
        self.errors.overflow_message = false;
        self.errors.root_asserted = self.root_interrupt();
    }
}

fn unsupported_detected(error: Uncorrectable) -> u32 {
    match error {
        Uncorrectable::UnsupportedRequest => device_control::UNSUPPORTED_DETECTED,
        _ => 0,
    }
}

/// Returns the bits that a status register of this function implements: the bits that hardware sets and software can clear.
fn implemented(register: &Register) -> u32 {
    register.access.rw1c | if register.access.rw1c == 0 { register.access.sticky } else { 0 }
}
