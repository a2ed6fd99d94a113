// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Legacy interrupts: the levels of the four INTx pins of an endpoint, and the messages that report them (`PCIe 5.0
//! §6.1.2`, §2.2.8.1). Never sends: returns the message that is due.
//!
//! Functions with the same Interrupt Pin share it: it is asserted while any of them asserts it. Messages report levels.
//! If a pin changes and changes back before its message can be sent, no message is sent.

use super::{Front, Function, FunctionBackend, Shared};
use tlp::message::{ASSERT_INTA, DEASSERT_INTA, plain};
use tlp::{Bdf, MessageRouting, TcSet, Time, Tlp, TrafficClass};

/// One pin.
#[derive(Clone, Copy, Default)]
struct Pin {
    /// Number of functions that assert the pin.
    asserted_by: u16,
    /// The level reported last.
    told: bool,
    /// The stamp of the last change of the pin, and the function that caused it.
    stamp: u64,
    function: u16,
}

impl Pin {
    fn is_due(&self) -> bool {
        (self.asserted_by > 0) != self.told
    }
}

/// The pins of an endpoint.
#[derive(Default)]
pub(crate) struct Pins {
    pins: [Pin; 4],
    /// Whether a message is due.
    due: bool,
}

impl Pins {
    /// Returns whether a message is due.
    pub(crate) fn is_due(&self) -> bool {
        self.due
    }

    fn refresh(&mut self) {
        self.due = self.pins.iter().any(Pin::is_due);
    }
}

impl<B: FunctionBackend> Function<B> {
    /// Sets the level of the device's interrupt.
    pub(crate) fn set_intx(&mut self, now: Time, shared: &mut Shared, asserted: bool) {
        self.intx = asserted;
        self.refresh_intx(now, shared);
    }

    /// Handles changes of the level, or of the settings that gate it: Interrupt Disable, the enable bits of MSI and
    /// MSI-X, the power state. Interrupt Status shows the level even while it is gated (`PCIe 5.0 §7.5.1.1.4`).
    pub(crate) fn refresh_intx(&mut self, now: Time, shared: &mut Shared) {
        let pin = self.settings.interrupt_pin;
        self.config.set_interrupt_status(self.intx && pin != 0);
        let may = self.settings.intx_allowed;
        let asserts = self.intx && may;
        let Some(pin) = pin.checked_sub(1).and_then(|p| shared.own.pins.pins.get_mut(usize::from(p))) else {
            shared.counters.interrupts_not_enabled += u64::from(std::mem::take(&mut self.intx));
            return;
        };
        if asserts == std::mem::replace(&mut self.asserts_intx, asserts) {
            return;
        }
        pin.asserted_by = if asserts { pin.asserted_by + 1 } else { pin.asserted_by.saturating_sub(1) };
        (pin.stamp, pin.function) = (shared.stamps + 1, self.number);
        shared.own.pins.refresh();
        shared.own.refresh();
        if shared.own.pins.is_due() {
            shared.wake_at(now);
        }
    }
}

impl<B: FunctionBackend> Front<B> {
    /// Returns the next message of a pin. Its function number is reserved (`PCIe 5.0 §2.2.8.1`).
    pub(crate) fn next_intx(&mut self, room: TcSet) -> Option<Tlp> {
        let tc = TrafficClass::default();
        let functions = &self.functions;
        let may_go = |p: &Pin| {
            let function = functions.get(usize::from(p.function));
            p.is_due() && function.is_none_or(|f| f.precedes_posted(tc, p.stamp))
        };
        let Pins { pins, .. } = &mut self.shared.own.pins;
        let index = pins.iter().position(may_go).filter(|_| room.contains(tc))?;
        let pin = &mut pins[index];
        pin.told = !pin.told;
        let first = if pin.told { ASSERT_INTA } else { DEASSERT_INTA };
        self.shared.own.pins.refresh();
        self.shared.counters.intx_messages += 1;
        let endpoint = Bdf::from_bits(self.shared.bus_device);
        Some(plain(endpoint, MessageRouting::Local, first + index as u8))
    }
}
