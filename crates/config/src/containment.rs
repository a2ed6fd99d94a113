// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Downstream Port Containment (`PCIe 5.0 §6.2.10`): its triggers, signals and logs. This module never takes a link
//! down: the port's owner keeps it down while [`DpcState::triggered`] holds.

use crate::ext::dpc::{self, control, status};
use crate::register::{get, put};
use crate::{ConfigSpace, ErrorMessage};
use tlp::Bdf;

/// Cause of containment (`PCIe 5.0 Table 7-238`, DPC Trigger Reason).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DpcReason {
    /// The port itself found an unmasked uncorrectable error.
    Uncorrectable,
    /// ERR_NONFATAL from this requester was received from below.
    NonFatalMessage(Bdf),
    /// ERR_FATAL from this requester was received from below.
    FatalMessage(Bdf),
    /// An RP PIO error: a request of the root complex through this root port failed.
    RpPio,
    /// DPC Software Trigger.
    Software,
}

impl DpcReason {
    /// DPC Trigger Reason, its extension and DPC Error Source ID, in their positions in the DW of DPC Status.
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

/// Containment state, as set by software and errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DpcState {
    /// DPC Trigger Enable is not 00b.
    pub enabled: bool,
    /// DPC Trigger Status: the link below must be down.
    pub triggered: bool,
    /// DPC Completion Control: requests to the contained part are completed with UR if set, with CA if clear.
    pub completes_unsupported: bool,
    /// Poisoned TLP Egress Blocking Enable.
    pub poisoned_egress_blocking: bool,
}

/// Signals that a trigger makes the port send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DpcSignal {
    /// DPC Interrupt Message Number, if an interrupt is due.
    pub interrupt: Option<u8>,
    /// ERR_COR is due.
    pub correctable: bool,
}

/// Kind of a failed request of the root complex.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RpPioRequest {
    /// A configuration request.
    Configuration = 0,
    /// An I/O request.
    Io = 8,
    /// A memory request.
    Memory = 16,
}

/// Kind of failure of a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RpPioFailure {
    /// The request was completed with UR.
    UnsupportedRequest = 0,
    /// The request was completed with CA.
    CompleterAbort = 1,
    /// The request was not completed.
    CompletionTimeout = 2,
}

/// Further consequences of an RP PIO error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RpPioOutcome {
    /// DPC was triggered.
    pub triggered: bool,
    /// A System Error is due (RP PIO SysError).
    pub system_error: bool,
    /// A read must end in a synchronous exception instead of returning all ones (RP PIO Exception).
    pub exception: bool,
}

impl ConfigSpace {
    /// Returns the Downstream Port Containment state; `None` without the capability.
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

    /// Handles an error message from below: triggers containment if DPC Trigger Enable selects the message's class.
    /// Returns true if it triggered containment. The message is then not forwarded.
    pub fn dpc_message(&mut self, message: ErrorMessage, source: Bdf) -> bool {
        match message {
            ErrorMessage::Correctable => false,
            ErrorMessage::NonFatal => self.dpc_trigger(DpcReason::NonFatalMessage(source)),
            ErrorMessage::Fatal => self.dpc_trigger(DpcReason::FatalMessage(source)),
        }
    }

    /// Triggers containment if it is enabled for this reason and not yet triggered. Returns true if this call triggered
    /// it.
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

    /// Takes the signals of the last trigger. Call it after [`ConfigSpace::log`], after [`ConfigSpace::dpc_message`],
    /// and after a write whose effects contain [`DPC`](crate::Effects::DPC).
    pub fn poll_dpc(&mut self) -> Option<DpcSignal> {
        self.dpc_signal.take()
    }

    /// True if ERR_COR is due when the link below comes up (DL_Active ERR_COR Enable).
    pub fn dpc_link_active(&self) -> bool {
        let control = self.extended_word(dpc::ID, dpc::CONTROL).unwrap_or(0);
        control & control::DL_ACTIVE_ERR_COR != 0 && self.reports_correctable()
    }

    /// Sets DPC RP Busy: the root port is still finishing requests that were outstanding at the trigger. Software waits
    /// for it.
    pub fn set_dpc_busy(&mut self, busy: bool) {
        self.set_extended_bits(dpc::ID, dpc::STATUS, status::RP_BUSY, if busy { !0 } else { 0 });
    }

    /// Logs an RP PIO error (`PCIe 5.0 §6.2.10.3`): status, and the first error with header and prefixes. Triggers
    /// containment if its severity is uncorrectable. An advisory error signals ERR_COR.
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

    /// Logs only the first error, until software clears the status of that error.
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

    /// Signals the interrupt and ERR_COR of a trigger, if these bits of DPC Control enable them. An interrupt is not
    /// repeated while its status is set.
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

    /// Handles a write to DPC Control (Software Trigger) or to RP PIO Status. If the latter cleared the error that the
    /// First Error Pointer names, the pointer returns to its reset value (`PCIe 5.0 §7.9.15.4`).
    pub(crate) fn follow_dpc(&mut self, at: u16, changed: u32) {
        if at == dpc::RP_PIO_STATUS && !self.first_rp_pio_is_valid() {
            self.set_extended_bits(dpc::ID, dpc::STATUS, status::FIRST_ERROR, !0);
        }
        if at == dpc::CONTROL && changed & control::SOFTWARE_TRIGGER != 0 {
            self.dpc_trigger(DpcReason::Software);
        }
    }
}
