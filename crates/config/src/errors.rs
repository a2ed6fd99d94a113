// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What becomes of an error that a function detects or hears of (`PCIe 5.0 §6.2`): Status, Device Status, Advanced Error
//! Reporting, the message to send, a root port's interrupt. Never detects one, and never sends anything.
//!
//! The order is that of `PCIe 5.0 Figure 6-2`:
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
    /// One that severity makes fatal or not.
    Uncorrectable(Uncorrectable),
    /// One that lost nothing.
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

/// Which interface of a bridge; all else has a primary one only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Side {
    /// Towards the root complex.
    #[default]
    Primary,
    /// Away from it.
    Secondary,
}

/// An error, with what is to be logged of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct ErrorReport {
    /// Which error.
    pub error: DetectedError,
    /// It is one of the cases that are advisory where their severity is non-fatal (`PCIe 5.0 §6.2.3.2.4`).
    pub advisory: bool,
    /// Header of the TLP, byte 0 in bits 31:24 of the first word as the Header Log has it; zero where there is none.
    pub header: [u32; 4],
    /// Its first four End-End TLP prefixes, the same way; zero where there are fewer.
    pub prefixes: [u32; 4],
    /// Where a bridge met it.
    pub side: Side,
}

impl ErrorReport {
    /// An error without a TLP, on the primary side, not advisory.
    pub fn new(error: impl Into<DetectedError>) -> ErrorReport {
        let (header, prefixes) = ([0; 4], [0; 4]);
        ErrorReport { error: error.into(), advisory: false, header, prefixes, side: Side::Primary }
    }

    /// The same, advisory or not.
    pub const fn advisory(self, advisory: bool) -> ErrorReport {
        ErrorReport { advisory, ..self }
    }

    /// The same, with the header of a TLP.
    pub const fn header(self, header: [u32; 4]) -> ErrorReport {
        ErrorReport { header, ..self }
    }

    /// The same, with the End-End TLP prefixes of that TLP.
    pub const fn prefixes(self, prefixes: [u32; 4]) -> ErrorReport {
        ErrorReport { prefixes, ..self }
    }

    /// The same, on that side of a bridge.
    pub const fn on(self, side: Side) -> ErrorReport {
        ErrorReport { side, ..self }
    }

    /// True where the TLP has data, Fmt x1xb, and EP says that it is poisoned (`PCIe 5.0 §2.2.1`).
    const fn is_poisoned(&self) -> bool {
        self.header[0] >> 30 & 1 == 1 && self.header[0] >> 14 & 1 == 1
    }

    /// True where the TLP is a completion with data: Type 0 1010b or, locked, 0 1011b (`PCIe 5.0 Table 2-3`).
    const fn is_completion(&self) -> bool {
        self.header[0] >> 25 & 0b1111 == 0b0101
    }

    /// True where the TLP is a request that a completion answers (`PCIe 5.0 Table 2-3`): neither a write, Fmt 01xb and Type 0
    /// 0000b, nor a message, Type 1 0xxxb, nor a completion, Type 0 101xb.
    fn is_non_posted(&self) -> bool {
        let (with_data, kind) = (self.header[0] >> 30 & 1 == 1, self.header[0] >> 24 & 0x1f);
        let is_posted = with_data && kind == 0 || kind & 0b1_1000 == 0b1_0000;
        let is_completion = kind & 0b1_1110 == 0b0_1010;
        self.header != [0; 4] && !is_posted && !is_completion
    }
}

/// A header that waits behind the first one (`PCIe 5.0 §6.2.4.2`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Record {
    error: Uncorrectable,
    header: [u32; 4],
    prefixes: [u32; 4],
}

/// What error logging keeps beside the registers.
#[derive(Clone, Debug, Default)]
pub(crate) struct ErrorState {
    /// Headers that can be recorded in all.
    headers: u8,
    prefix_log: bool,
    /// Those behind the one that the Header Log shows.
    waiting: VecDeque<Record>,
    /// ERR_COR of a Header Log Overflow is owed.
    overflow_message: bool,
    /// The root port's interrupt condition held when last looked at.
    root_asserted: bool,
}

impl ErrorState {
    pub(crate) fn new(layout: Option<AerLayout>) -> ErrorState {
        let Some(layout) = layout else { return ErrorState::default() };
        ErrorState { headers: layout.headers, prefix_log: layout.prefix_log, ..ErrorState::default() }
    }
}

/// What decides how an error is reported: a function's own registers, or a VF's PF's (`PCIe 5.0 §9.4.2`).
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

    /// Whether Device Control, or SERR# Enable, lets the message out (`PCIe 5.0 §6.2.6`).
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
    /// Logs an error (`PCIe 5.0 §6.2`) and returns the message to send, where one is. Where Downstream Port Containment
    /// is triggered by it, there is none (`§6.2.10`); see [`ConfigSpace::poll_dpc`]. Ask
    /// [`ConfigSpace::poll_error_message`] for a further one.
    #[must_use = "the message is to be sent"]
    pub fn log(&mut self, report: ErrorReport) -> Option<ErrorMessage> {
        let reporting = self.reporting();
        self.log_as(report, reporting)
    }

    /// Logs an error of a VF, whose masks, severities and enables are those of its PF (`PCIe 5.0 §9.4.2`).
    #[must_use = "the message is to be sent"]
    pub fn log_virtual(&mut self, pf: &ConfigSpace, report: ErrorReport) -> Option<ErrorMessage> {
        self.log_as(report, pf.reporting())
    }

    /// A message owed beside what [`ConfigSpace::log`] returned: ERR_COR of a Header Log Overflow (`§6.2.4.2`).
    pub fn poll_error_message(&mut self) -> Option<ErrorMessage> {
        std::mem::take(&mut self.errors.overflow_message).then_some(ErrorMessage::Correctable)
    }

    /// The function sent a poisoned request, or a bridge passed one on, out of this side: Master Data Parity Error,
    /// where Parity Error Response is enabled (`PCIe 5.0 §7.5.1.1.4, §7.5.1.3.7`).
    pub fn note_poisoned_sent(&mut self, side: Side) {
        if self.parity_error_response(side) {
            self.set_status_of(side, status::MASTER_DATA_PARITY_ERROR);
        }
    }

    /// Sets bits of Status, or of Secondary Status, where the same errors have the same bits.
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

    /// A bridge's secondary side got this error message: whether it goes on upwards, or, in a root port, to the root
    /// registers. Sets Received System Error (`PCIe 5.0 §6.2.6, §7.5.1.3.7`).
    ///
    /// SERR# Enable of Bridge Control lets all of them pass. Uncorrectable ones leave a switch's port where Command's
    /// SERR# Enable or the class's enable of Device Control is set, and set Signaled System Error by the former.
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

    /// A root port got this error message, or sent it to itself: Root Error Status and Error Source Identification.
    /// Returns the Advanced Error Interrupt Message Number, where an interrupt is due (`PCIe 5.0 §6.2.4.1.2`).
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

    /// Whether the condition of a root port's error interrupt holds: an enabled message was received and not cleared.
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

    /// The interrupt's message number, each time that its condition has come true. To be asked after a write whose
    /// effects hold [`AER`](crate::Effects::AER).
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

    /// Without Advanced Error Reporting, an advisory error sends nothing (`PCIe 5.0 §6.2.3.2.4`).
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

    /// Status bits that an error sets whatever becomes of it (`PCIe 5.0 §7.5.1.1.4, §7.5.1.3.7`). A poisoned TLP has been received
    /// whatever else is wrong with it.
    fn note_status(&mut self, error: Uncorrectable, report: &ErrorReport) {
        let poisoned = match error {
            Uncorrectable::PoisonedTlp => true,
            // Refused for what it asks or answers. Of what is malformed, EP says nothing.
            Uncorrectable::UnsupportedRequest
            | Uncorrectable::CompleterAbort
            | Uncorrectable::UnexpectedCompletion
            | Uncorrectable::AcsViolation => report.is_poisoned(),
            _ => false,
        };
        let parity = if poisoned { status::DETECTED_PARITY_ERROR } else { 0 };
        let bits = match error {
            Uncorrectable::CompleterAbort => status::SIGNALED_TARGET_ABORT,
            // It is completed with CA (`PCIe 5.0 §6.12.4`).
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

    /// Sets the bits of `mask` of an AER register that this function implements.
    fn set_aer(&mut self, at: u16, mask: u32, value: u32) {
        let Some(start) = self.aer_capability() else { return };
        if let Some(register) = self.registers.get_mut(usize::from(start + at)) {
            register.set(mask & implemented(register), value);
        }
    }

    /// A register that only root ports have.
    fn aer_root_word(&self, at: u16) -> Option<u32> {
        let layout = self.capabilities.layouts.aer?;
        if layout.role == AerRole::RootPort { self.aer_word(at) } else { None }
    }

    /// The First Error Pointer and its header stay until software clears the bit pointed to, and then point to none
    /// ([`ConfigSpace::follow_aer`]); what comes meanwhile waits behind it or overflows (`PCIe 5.0 §6.2.4.2`).
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

    /// Software wrote Uncorrectable Error Status or Control: where it cleared what the pointer names, the next header
    /// that waits is shown, and the status says again what is recorded. Where none waits, the pointer names no error, as after
    /// reset: bit 0 of the status is never set, while the bit that it named may come to be without a header, as one that is
    /// masked.
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

    /// A reset: what waits goes with a fundamental one, as the sticky registers do.
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

/// The bits that a status register of this function has: those that software can clear, and logs.
fn implemented(register: &Register) -> u32 {
    register.access.rw1c | if register.access.rw1c == 0 { register.access.sticky } else { 0 }
}
