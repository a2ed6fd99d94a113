// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Error reporting (`PCIe 5.0 §6.2`): the functions that log an error, the header they log, and the message sent. This
//! module does not detect errors; the code that examines a TLP and the port of the link do.

use super::requests::{Question, Reply};
use super::{Front, Function, FunctionBackend, Shared};
use config::{DetectedError, ErrorMessage, ErrorReport, Uncorrectable};
use link::header_log;
use tlp::rules::{Head, Reason};
use tlp::{
    Access, AtomicRequest, Bdf, Body, ConfigKind, ConfigRequest, IoRequest, MemoryOp, MemoryRequest,
    OperandSize, Prefixes, Repr, Tlp, Violation,
};

/// The Header Log and TLP Prefix Log of a TLP (`PCIe 5.0 §7.8.4.8`, §7.8.4.12): byte 0 in bits 31:24; absent DWs are
/// zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct LoggedTlp {
    pub(crate) header: [u32; 4],
    /// End-to-end prefixes.
    pub(crate) prefixes: [u32; 4],
}

impl LoggedTlp {
    /// Returns the log of a TLP of which only the header is known.
    #[cold]
    pub(crate) fn of_header(repr: &Repr) -> LoggedTlp {
        LoggedTlp { header: words(repr), prefixes: [0; 4] }
    }

    #[cold]
    pub(crate) fn of(tlp: &Tlp) -> LoggedTlp {
        LoggedTlp { header: header_log(tlp), prefixes: prefix_words(&tlp.prefixes) }
    }

    /// Returns the logged bytes of the TLP.
    #[cold]
    pub(crate) fn head(&self) -> Head {
        let header_dw = if self.header[0] >> 29 & 1 == 1 { 4 } else { 3 };
        let prefixes = self.prefixes.iter().take_while(|prefix| **prefix != 0);
        let dws = prefixes.chain(&self.header[..header_dw]);
        Head::of_bytes(&dws.flat_map(|dw| dw.to_be_bytes()).collect::<Vec<u8>>())
    }
}

/// A request that is completed with UR or CA, in the form for the completer's log.
#[derive(Clone, Copy)]
pub(crate) struct Refused {
    pub(crate) tlp: LoggedTlp,
    /// The rule that the request breaks.
    pub(crate) why: Violation,
    /// See [`Tlp::refusal_is_advisory`].
    pub(crate) advisory: bool,
}

impl Refused {
    #[cold]
    pub(crate) fn of(tlp: &Tlp, why: Violation) -> Refused {
        Refused { tlp: LoggedTlp::of(tlp), why, advisory: tlp.refusal_is_advisory() }
    }
}

fn words(repr: &Repr) -> [u32; 4] {
    let mut bytes = [0; 16];
    repr.emit(&mut bytes);
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = bytes.iter().fold(0, |word, &byte| word << 8 | u32::from(byte));
    }
    words
}

fn prefix_words(prefixes: &Prefixes) -> [u32; 4] {
    let mut words = [0; 4];
    let end_to_end = prefixes.as_slice().iter().filter(|p| p.is_end_to_end());
    for (word, prefix) in words.iter_mut().zip(end_to_end) {
        *word = prefix.0;
    }
    words
}

impl Question {
    /// Returns the request to a function of this ID on the captured bus, with the fields that are stored until it is
    /// answered, so without TD, hint and prefixes. A request that was handed on is not poisoned.
    #[cold]
    pub(crate) fn refused(&self, id: Bdf, shared: &Shared, why: Violation) -> Refused {
        let on_bus = id.bits() & 0xff00 == shared.bus_device & 0xff00;
        let kind = if on_bus { ConfigKind::Type0 } else { ConfigKind::Type1 };
        Refused { tlp: self.logged(id, kind), why, advisory: true }
    }

    fn logged(&self, completer: Bdf, kind: ConfigKind) -> LoggedTlp {
        let Question { requester, tag, span, .. } = *self;
        let memory = |op| Body::Memory(MemoryRequest { op, requester, tag, span });
        let io = |op| {
            let (address, first_be) = (span.address() as u32, span.first_be());
            Body::Io(IoRequest { op, requester, tag, address, first_be })
        };
        let body = match self.reply {
            Reply::Bytes => memory(MemoryOp::Read),
            Reply::Locked => memory(MemoryOp::ReadLocked),
            Reply::NothingOrRetry => memory(MemoryOp::WriteDeferrable),
            Reply::Dw => io(Access::Read),
            Reply::Nothing => io(Access::Write),
            Reply::Register(op) => {
                let (register_dw, first_be) = ((span.address() / 4) as u16, span.first_be());
                Body::Config(ConfigRequest { op, kind, requester, tag, completer, register_dw, first_be })
            }
            Reply::Value(op) => {
                let operand = OperandSize::of_bytes(span.byte_count());
                Body::Atomic(AtomicRequest { op, operand, requester, tag, address: span.address() })
            }
        };
        let repr = Repr { tc: self.tc, attr: self.attr, ..Repr::new(body) };
        LoggedTlp { header: words(&repr), prefixes: [0; 4] }
    }
}

impl<B: FunctionBackend> Function<B> {
    /// Logs an error and queues its message; `advisory` in the cases of `PCIe 5.0 §6.2.3.2.4`. An error of a virtual
    /// function waits for the endpoint's next step, which reads the registers of its physical function.
    #[cold]
    pub(crate) fn log(&mut self, shared: &mut Shared, error: Uncorrectable, advisory: bool, tlp: LoggedTlp) {
        let report = tlp.report(error).advisory(advisory);
        if self.is_physical() {
            let message = self.config.log(report);
            self.queue_messages(shared, message);
        } else {
            shared.own.virtual_errors.push((self.number, report));
            shared.own.refresh();
        }
    }

    /// Counts and logs the Completion Timeout of a request (`PCIe 5.0 §2.8`).
    #[cold]
    pub(crate) fn timed_out(&mut self, shared: &mut Shared, request: LoggedTlp) {
        let (place, waited) = (Some(usize::from(self.number)), self.settings.completion_timeout);
        let why = Reason::timeout(waited.unwrap_or_default());
        shared.refused(|c| &mut c.completion_timeouts, place, why, request.head());
        self.log(shared, Uncorrectable::CompletionTimeout, false, request);
    }

    fn queue_messages(&mut self, shared: &mut Shared, message: Option<ErrorMessage>) {
        for message in message.into_iter().chain(self.config.poll_error_message()) {
            shared.queue_error_message(self.number, message);
        }
    }
}

impl LoggedTlp {
    pub(crate) fn report(&self, error: impl Into<DetectedError>) -> ErrorReport {
        ErrorReport::new(error).header(self.header).prefixes(self.prefixes)
    }
}

impl<B: FunctionBackend> Front<B> {
    /// Logs an error that belongs to no function in all physical functions. One message is sent for each severity, by
    /// the first function whose registers enable it (`PCIe 5.0 §6.2.4`).
    #[cold]
    pub(crate) fn log_in_all(&mut self, report: ErrorReport) {
        let mut sent = Vec::new();
        for function in &mut self.functions[..self.physical] {
            let message = function.config.log(report).filter(|m| !sent.contains(m));
            sent.extend(message);
            function.queue_messages(&mut self.shared, message);
        }
    }

    /// Logs the errors that virtual functions have found, with the masks, severities and enables of their physical
    /// functions (`PCIe 5.0 §9.4.2`).
    #[cold]
    pub(crate) fn log_virtual_errors(&mut self) {
        let (physicals, virtuals) = self.functions.split_at_mut(self.physical);
        for (number, report) in std::mem::take(&mut self.shared.own.virtual_errors) {
            let Some(function) = virtuals.get_mut(usize::from(number) - physicals.len()) else { continue };
            let Some(physical) = function.physical.and_then(|p| physicals.get(usize::from(p))) else {
                continue;
            };
            let message = function.config.log_virtual(&physical.config, report);
            function.queue_messages(&mut self.shared, message);
        }
        self.shared.own.refresh();
    }
}
