// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The further duties of a bridge that is a root port (`PCIe 5.0 §6.2.4.1`, §6.1.6, §6.2.10.3): it receives error
//! messages and PMEs, and logs failed requests of the root complex. The ports of switches do not use them.

use super::Bridge;
use config::cap::pcie::{
    DEVICE_CONTROL, DEVICE_CONTROL_2, device_control::MPS, device_control_2::ATOMIC_REQUESTER,
};
use config::ext::aer;
use config::header::{COMMAND_STATUS, command, status};
use config::register::{get, put};
use config::{ErrorMessage, RpPioFailure, RpPioRequest, Side};
use tlp::{Bdf, Body, Mps, Tlp};

impl Bridge {
    /// Sets the registers as firmware leaves them, for devices that are not enumerated: Memory Space, I/O Space and Bus
    /// Master Enable, AtomicOp Requester Enable, and this Max_Payload_Size if the port supports it.
    pub(crate) fn preset(&mut self, mps: Mps) {
        let enables = command::IO_SPACE | command::MEMORY_SPACE | command::BUS_MASTER;
        let _ = self.space.write(COMMAND_STATUS, 0b0011, enables);
        if let Some(at) = self.space.pcie_capability() {
            let mut set = |dw: u16, bits: u32, value: u32| {
                let others = self.space.read(at + dw) & !bits;
                let _ = self.space.write(at + dw, 0b0011, others | value);
            };
            set(DEVICE_CONTROL, MPS, put(MPS, mps.encoding().into()));
            set(DEVICE_CONTROL_2, ATOMIC_REQUESTER, ATOMIC_REQUESTER);
        }
        self.refresh();
    }

    /// Handles an error message that has reached the root port, or that it has sent to itself (`PCIe 5.0 §6.2.4.1.2`).
    /// The caller polls interrupts afterwards.
    pub(crate) fn root_error(&mut self, code: u8, source: Bdf) {
        if let Some(message) = ErrorMessage::from_code(code) {
            // If the error interrupts, the interrupt level changes.
            let _ = self.space.root_error(message, source);
        }
    }

    /// Handles a PM_PME message that has reached the root port (`PCIe 5.0 §6.1.6`). The caller polls interrupts afterwards.
    pub(crate) fn root_pme(&mut self, requester: Bdf) {
        // If the PME interrupts, the interrupt level changes.
        let _ = self.space.root_pme(requester.bits());
    }

    /// Number and level of the interrupt of Root Error Command.
    pub(super) fn error_interrupt(&self) -> Option<u8> {
        let at = self.space.aer_capability()? + aer::ROOT_STATUS;
        let number = get(self.space.read(at), aer::root_status::INTERRUPT_MESSAGE) as u8;
        self.space.root_interrupt().then_some(number)
    }

    /// Number and level of the interrupt for PMEs.
    pub(super) fn pme_interrupt(&self) -> Option<u8> {
        self.space.root_pme_interrupt().then(|| self.space.message_number())
    }

    /// Handles a failed request of the root complex through this port: sets Secondary Status, and logs an RP PIO error.
    /// The caller polls containment, messages and interrupts afterwards.
    pub(crate) fn request_failed(&mut self, request: &Tlp, failure: RpPioFailure) {
        let kind = match request.repr.body {
            Body::Config(_) => RpPioRequest::Configuration,
            Body::Io(_) => RpPioRequest::Io,
            _ => RpPioRequest::Memory,
        };
        match failure {
            RpPioFailure::UnsupportedRequest => {
                self.space.set_status_of(Side::Secondary, status::RECEIVED_MASTER_ABORT);
            }
            RpPioFailure::CompleterAbort => {
                self.space.set_status_of(Side::Secondary, status::RECEIVED_TARGET_ABORT);
            }
            RpPioFailure::CompletionTimeout => {}
        }
        // System errors and exceptions of a processor are not modelled.
        let _ = self.space.rp_pio(kind, failure, link::header_log(request), [0; 4]);
    }
}
