// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of a bridge (`PCIe 5.0 §6.2`): logged in its registers, and the messages that report them; Downstream Port
//! Containment (§6.2.10). Its owner detects errors and sends messages.

use super::Bridge;
use config::{DetectedError, ErrorMessage, ErrorReport, Side, Uncorrectable};
use tlp::message::{LTR, PM_ACTIVE_STATE_NAK, SET_SLOT_POWER_LIMIT, plain};
use tlp::{Bdf, Body, Message, MessageRouting, Status, Tlp};

/// How the bridge handles a TLP for a link that is down.
#[must_use]
pub(crate) struct DeadEnd {
    /// Completion Status, if it needs a completion.
    pub(crate) status: Status,
    /// True if the bridge logs an error.
    pub(crate) is_error: bool,
    /// The message to send.
    pub(crate) message: Option<Tlp>,
}

impl Bridge {
    /// Logs an error of `tlp`, which came in on `side`; `advisory` means that a completion informs the requester (`PCIe
    /// 5.0 §6.2.3.2.4`). Returns the message to send.
    pub(crate) fn log(&mut self, error: Uncorrectable, advisory: bool, side: Side, tlp: &Tlp) -> Option<Tlp> {
        let mut prefixes = [0; 4];
        let end_to_end = tlp.prefixes.as_slice().iter().filter(|prefix| prefix.is_end_to_end());
        for (word, prefix) in prefixes.iter_mut().zip(end_to_end) {
            *word = prefix.0;
        }
        let header = link::header_log(tlp);
        self.report(ErrorReport::new(error).advisory(advisory).header(header).prefixes(prefixes).on(side))
    }

    /// Handles a TLP that came in on `side` for the link on the other side, which is down (`PCIe 5.0 §2.9.1`). A
    /// request is unsupported, and an error of the bridge even if it needs no completion. A request that containment
    /// blocks is no error (§2.9.3). Completions, and messages that name no function, are silently discarded.
    #[cold]
    pub(crate) fn dead_end(&mut self, side: Side, tlp: &Tlp) -> DeadEnd {
        if self.is_contained() {
            return DeadEnd { status: self.contained_status(), is_error: false, message: None };
        }
        let is_error = is_addressed_request(tlp);
        let message = match is_error {
            true => self.log(Uncorrectable::UnsupportedRequest, tlp.refusal_is_advisory(), side, tlp),
            false => None,
        };
        DeadEnd { status: Status::UnsupportedRequest, is_error, message }
    }

    /// Logs an error that the link on `side` has found, with the header of the TLP if there is one.
    pub(crate) fn log_link(&mut self, error: DetectedError, side: Side, header: [u32; 4]) -> Option<Tlp> {
        self.report(ErrorReport::new(error).header(header).on(side))
    }

    fn report(&mut self, report: ErrorReport) -> Option<Tlp> {
        let message = self.space.log(report);
        self.error_message(message)
    }

    /// Returns the next message that the last error has caused.
    pub(crate) fn poll_error_message(&mut self) -> Option<Tlp> {
        let message = self.space.poll_error_message();
        self.error_message(message)
    }

    fn error_message(&self, message: Option<ErrorMessage>) -> Option<Tlp> {
        message.map(|message| plain(self.id(), MessageRouting::ToRootComplex, message as u8))
    }

    /// Whether the bridge itself consumes a message of this code that came in on `side`. From above these are the power
    /// limit of its slot, and PM_Active_State_Nak, because no port requests L1. From below it is LTR if enabled (`PCIe
    /// 5.0 §6.18`), which has no effect. OBFF and PTM are not supported.
    pub(crate) fn consumes_message(&self, side: Side, code: u8) -> bool {
        match side {
            Side::Primary => matches!(code, SET_SLOT_POWER_LIMIT | PM_ACTIVE_STATE_NAK),
            Side::Secondary => code == LTR && self.space.ltr_enable(),
        }
    }

    /// Whether an error message with this code passes from the secondary side to the primary one.
    pub(crate) fn forwards_error(&mut self, code: u8) -> bool {
        ErrorMessage::from_code(code).is_none_or(|message| self.space.forwards_error(message))
    }

    /// Whether an error message with this code, from the secondary side, triggers containment and ends here.
    pub(crate) fn contains_for(&mut self, code: u8, source: Bdf) -> bool {
        ErrorMessage::from_code(code).is_some_and(|message| self.space.dpc_message(message, source))
    }

    /// True while Downstream Port Containment keeps the link below down.
    pub(crate) fn is_contained(&self) -> bool {
        self.space.dpc().is_some_and(|dpc| dpc.triggered)
    }

    /// Completion Status of requests to the contained link (`PCIe 5.0 §2.9.3`, DPC Completion Control).
    pub(crate) fn contained_status(&self) -> Status {
        match self.space.dpc() {
            Some(dpc) if !dpc.completes_unsupported => Status::CompleterAbort,
            _ => Status::UnsupportedRequest,
        }
    }

    /// Returns the ERR_COR that a trigger requests. The caller polls the requested interrupt together with the others.
    pub(crate) fn poll_containment_message(&mut self) -> Option<Tlp> {
        let signal = self.space.poll_dpc()?;
        self.error_message(signal.correctable.then_some(ErrorMessage::Correctable))
    }

    /// Returns the ERR_COR for a link that has come up (DL_Active ERR_COR Enable, `PCIe 5.0 §6.2.10.5`).
    pub(crate) fn link_active_message(&self) -> Option<Tlp> {
        self.error_message(self.space.dpc_link_active().then_some(ErrorMessage::Correctable))
    }
}

/// True for a request to an address or a function, but not for a message to an implied receiver.
fn is_addressed_request(tlp: &Tlp) -> bool {
    match tlp.repr.body {
        Body::Completion(_) => false,
        Body::Message(Message { routing, .. }) => {
            matches!(routing, MessageRouting::ByAddress | MessageRouting::ById)
        }
        _ => true,
    }
}
