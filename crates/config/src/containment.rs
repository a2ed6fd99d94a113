// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Downstream Port Containment (`PCIe 5.0 §6.2.10`): what triggers it, what it signals, what it logs. Never takes a link
//! down: while [`DpcState::triggered`] holds, the port's owner keeps it down.

use crate::ext::dpc::{self, control, status};
use crate::register::{get, put};
use crate::{ConfigSpace, ErrorMessage};
use tlp::Bdf;

/// What triggers containment (`PCIe 5.0 Table 7-238`, DPC Trigger Reason).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DpcReason {
    /// The port itself found an unmasked uncorrectable error.
    Uncorrectable,
    /// ERR_NONFATAL of this requester came from below.
    NonFatalMessage(Bdf),
    /// ERR_FATAL of this requester came from below.
    FatalMessage(Bdf),
    /// An RP PIO error: a request of the root complex through this root port failed.
    RpPio,
    /// DPC Software Trigger.
    Software,
}

impl DpcReason {
    /// DPC Trigger Reason, its extension and DPC Error Source ID, in place in the DW of DPC Status.
    const fn bits(self) -> u32 {
        match self {
            DpcReason::Uncorrectable => put(status::REASON, 0b00),
            DpcReason::NonFatalMessage(from) => {
                put(status::REASON, 0b01) | put(status::SOURCE, from.bits() as u32)
            }
            DpcReason::FatalMessage(from) => {
                put(status::REASON, 0b10) | put(status::SOURCE, from.bits() as u32)
            }
            DpcReason::RpPio => put(status::REASON, 0b11),
            DpcReason::Software => put(status::REASON, 0b11) | put(status::REASON_EXTENSION, 0b01),
        }
    }
}

/// Containment as software and errors have set it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DpcState {
    /// DPC Trigger Enable is not 00b.
    pub enabled: bool,
    /// DPC Trigger Status: the link below is to be down.
    pub triggered: bool,
    /// DPC Completion Control: requests to what is contained are completed with UR; else with CA.
    pub completes_unsupported: bool,
    /// Poisoned TLP Egress Blocking Enable.
    pub poisoned_egress_blocking: bool,
}

/// What a trigger asks the port to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DpcSignal {
    /// DPC Interrupt Message Number, where an interrupt is due.
    pub interrupt: Option<u8>,
    /// ERR_COR is due.
    pub correctable: bool,
}

/// The request of a root complex that failed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RpPioRequest {
    /// A configuration request.
    Configuration = 0,
    /// An I/O request.
    Io = 8,
    /// A memory request.
    Memory = 16,
}

/// How it failed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RpPioFailure {
    /// It was completed with UR.
    UnsupportedRequest = 0,
    /// It was completed with CA.
    CompleterAbort = 1,
    /// It was not completed.
    CompletionTimeout = 2,
}

/// What else an RP PIO error asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RpPioOutcome {
    /// DPC was triggered.
    pub triggered: bool,
    /// A System Error, by RP PIO SysError.
    pub system_error: bool,
    /// A synchronous exception for a read instead of all ones, by RP PIO Exception.
    pub exception: bool,
}

impl ConfigSpace {
    /// Downstream Port Containment; `None` where there is none.
    pub fn dpc(&self) -> Option<DpcState> {
        let control = self.extended_word(dpc::ID, dpc::CONTROL)?;
        let state = self.extended_word(dpc::ID, dpc::STATUS)?;
        Some(DpcState {
            enabled: matches!(get(control, control::TRIGGER), 0b01 | 0b10),
            triggered: state & status::TRIGGERED != 0,
            completes_unsupported: control & control::COMPLETION_UR != 0,
            poisoned_egress_blocking: control & control::POISONED_EGRESS != 0,
        })
    }

    /// An error message came from below: triggers containment where DPC Trigger Enable says so for its class, and then
    /// the message goes no further. Returns whether it did.
    pub fn dpc_message(&mut self, message: ErrorMessage, source: Bdf) -> bool {
        match message {
            ErrorMessage::Correctable => false,
            ErrorMessage::NonFatal => self.dpc_trigger(DpcReason::NonFatalMessage(source)),
            ErrorMessage::Fatal => self.dpc_trigger(DpcReason::FatalMessage(source)),
        }
    }

    /// Triggers containment, where it is enabled for this reason and not triggered already. Returns whether it did.
    pub fn dpc_trigger(&mut self, reason: DpcReason) -> bool {
        let Some(DpcState { enabled: true, triggered: false, .. }) = self.dpc() else { return false };
        let control = self.extended_word(dpc::ID, dpc::CONTROL).unwrap_or(0);
        let non_fatal_too = get(control, control::TRIGGER) == 0b10;
        if matches!(reason, DpcReason::NonFatalMessage(_)) && !non_fatal_too {
            return false;
        }
        let logged = status::REASON | status::REASON_EXTENSION | status::SOURCE | status::TRIGGERED;
        self.set_extended_bits(dpc::ID, dpc::STATUS, logged, reason.bits() | status::TRIGGERED);
        self.signal_dpc(control);
        true
    }

    /// What a trigger since the last question asks to be sent. To be asked after [`ConfigSpace::log`], after
    /// [`ConfigSpace::dpc_message`], and after a write whose effects hold [`DPC`](crate::Effects::DPC).
    pub fn poll_dpc(&mut self) -> Option<DpcSignal> {
        self.dpc_signal.take()
    }

    /// The link below came up: whether DL_Active ERR_COR Enable asks for ERR_COR.
    pub fn dpc_link_active(&self) -> bool {
        let control = self.extended_word(dpc::ID, dpc::CONTROL).unwrap_or(0);
        control & control::DL_ACTIVE_ERR_COR != 0 && self.reports_correctable()
    }

    /// DPC RP Busy: the root port still works on what was under way when it was triggered; software waits for it.
    pub fn set_dpc_busy(&mut self, busy: bool) {
        self.set_extended_bits(dpc::ID, dpc::STATUS, status::RP_BUSY, if busy { !0 } else { 0 });
    }

    /// Logs an RP PIO error (`PCIe 5.0 §6.2.10.3`): status, first error with header and prefixes, and containment where
    /// its severity is uncorrectable. An advisory one signals ERR_COR.
    pub fn rp_pio(
        &mut self,
        request: RpPioRequest,
        failure: RpPioFailure,
        header: [u32; 4],
        prefixes: [u32; 4],
    ) -> RpPioOutcome {
        let number = request as u32 + failure as u32;
        let word = |at: u16| self.extended_word(dpc::ID, at).unwrap_or(0) >> number & 1 == 1;
        let extended =
            self.extended_word(dpc::ID, dpc::CONTROL).is_some_and(|c| c & control::RP_EXTENSIONS != 0);
        if !extended {
            return RpPioOutcome::default();
        }
        let (masked, severe) = (word(dpc::RP_PIO_MASK), word(dpc::RP_PIO_SEVERITY));
        let (system_error, exception) = (word(dpc::RP_PIO_SYS_ERROR), word(dpc::RP_PIO_EXCEPTION));
        if !masked {
            self.record_rp_pio(number, header, prefixes);
        }
        self.set_extended_bits(dpc::ID, dpc::RP_PIO_STATUS, 1 << number, !0);
        if masked {
            return RpPioOutcome { exception, ..RpPioOutcome::default() };
        }
        let triggered = severe && self.dpc_trigger(DpcReason::RpPio);
        if !severe {
            self.signal_dpc(self.extended_word(dpc::ID, dpc::CONTROL).unwrap_or(0) & control::ERR_COR);
        }
        RpPioOutcome { triggered, system_error, exception }
    }

    /// The first error keeps the log until software clears its status.
    fn record_rp_pio(&mut self, number: u32, header: [u32; 4], prefixes: [u32; 4]) {
        if self.first_rp_pio_is_valid() {
            return;
        }
        self.set_extended_bits(dpc::ID, dpc::STATUS, status::FIRST_ERROR, put(status::FIRST_ERROR, number));
        for (at, word) in (dpc::RP_PIO_HEADER_LOG..).zip(header) {
            self.set_extended_bits(dpc::ID, at, !0, word);
        }
        for (at, word) in (dpc::RP_PIO_PREFIX_LOG..).zip(prefixes) {
            self.set_extended_bits(dpc::ID, at, !0, word);
        }
    }

    fn first_rp_pio_is_valid(&self) -> bool {
        let word = |at| self.extended_word(dpc::ID, at).unwrap_or(0);
        let pointed = get(word(dpc::STATUS), status::FIRST_ERROR);
        word(dpc::RP_PIO_STATUS) >> pointed & 1 == 1
    }

    /// Interrupt and ERR_COR of a trigger, as these bits of DPC Control enable them. An interrupt whose status is still
    /// set is not sent again.
    fn signal_dpc(&mut self, control: u32) {
        let state = self.extended_word(dpc::ID, dpc::STATUS).unwrap_or(0);
        let interrupts = control & control::INTERRUPT != 0;
        let number = (control & control::INTERRUPT_MESSAGE) as u8;
        let interrupt = (interrupts && state & status::INTERRUPT == 0).then_some(number);
        if interrupts {
            self.set_extended_bits(dpc::ID, dpc::STATUS, status::INTERRUPT, !0);
        }
        let correctable = control & control::ERR_COR != 0 && self.reports_correctable();
        let before = self.dpc_signal.take();
        let signal = DpcSignal {
            interrupt: interrupt.or(before.and_then(|b| b.interrupt)),
            correctable: correctable || before.is_some_and(|b| b.correctable),
        };
        self.dpc_signal = (signal.interrupt.is_some() || signal.correctable).then_some(signal);
    }

    /// Obeys a write to DPC Control, Software Trigger; and one to RP PIO Status: where it cleared what the First Error Pointer
    /// names, that goes back to what it is after reset (`PCIe 5.0 §7.9.15.4`).
    pub(crate) fn follow_dpc(&mut self, at: u16, changed: u32) {
        if at == dpc::RP_PIO_STATUS && !self.first_rp_pio_is_valid() {
            self.set_extended_bits(dpc::ID, dpc::STATUS, status::FIRST_ERROR, !0);
        }
        if at == dpc::CONTROL && changed & control::SOFTWARE_TRIGGER != 0 {
            self.dpc_trigger(DpcReason::Software);
        }
    }
}
