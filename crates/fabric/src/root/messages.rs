// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages that reach a root port: for its function, for the host program, or for neither (`PCIe 5.0 §2.2.8`). No
//! message passes between root ports (§2.2.8.6 leaves this open).

use super::peer::Verdict;
use super::{Base, Watch};
use crate::bridge::refusals::violation;
use crate::stages::Stage;
use config::{Side, Uncorrectable};
use host::{HostInput, HostMessage};
use tlp::message::{
    DEASSERT_INTA, MessageCodes, PM_PME, PME_TO_ACK, VENDOR_DEFINED_TYPE_0, VENDOR_DEFINED_TYPE_1, is_ignored,
};
use tlp::rules::reasons::poisoned;
use tlp::{Message, MessageRouting, Time, Tlp};

/// Messages that every root complex takes (`PCIe 5.0 Table F-1`): PM_PME, PME_TO_Ack, interrupt wires, errors.
const TAKEN: MessageCodes =
    MessageCodes::of(&[PM_PME, PME_TO_ACK]).or(MessageCodes::INTERRUPTS).or(MessageCodes::ERRORS);

/// Further messages that the host program always receives; it may ask for more.
pub(super) const FOR_PROGRAM: MessageCodes = MessageCodes::of(&[VENDOR_DEFINED_TYPE_1]);

impl Base {
    /// Messages that end here go to the host program, except messages for a root port's function.
    pub(super) fn message(&mut self, port: usize, now: Time, m: &Message, tlp: &Tlp) {
        if self.ports[port].watch != Watch::Nothing && !self.lets_message(port, now, tlp) {
            return;
        }
        self.counters.messages += 1;
        let for_program = TAKEN.or(self.program_messages).contains(m.code);
        let ends_here = !matches!(
            m.routing,
            MessageRouting::ByAddress | MessageRouting::ById | MessageRouting::Broadcast
        );
        let supported = ends_here && !tlp.prefixes.has_reserved();
        if !supported || !(for_program || self.is_taken(port, m.code)) {
            return self.refuse_message(port, now, m, tlp);
        }
        if tlp.repr.ep {
            // Poisoned data must not be used (`PCIe 5.0 §2.7.2.2`).
            self.refused(|b| &mut b.counters.poisoned, port, now, poisoned(), tlp);
            return self.discard(port, now, Some(Uncorrectable::PoisonedTlp), tlp);
        }
        self.return_credits(port, tlp);
        self.effects.close(tlp, Stage::Replay, now);
        let counters = &mut self.counters;
        match m.code {
            code if MessageCodes::ERRORS.contains(code) => counters.error_messages += 1,
            PM_PME | PME_TO_ACK => counters.power_messages += 1,
            code if MessageCodes::INTERRUPTS.contains(code) => counters.legacy_interrupts += 1,
            VENDOR_DEFINED_TYPE_0 | VENDOR_DEFINED_TYPE_1 => counters.vendor_messages += 1,
            _ => {}
        }
        if !for_program || self.ports[port].function.is_some() && self.hears(port, now, m) {
            return;
        }
        let Message { requester, routing, code, header, .. } = *m;
        let message = HostMessage { requester, routing, code, header, data: tlp.data.clone() };
        self.tell_host(now + self.profile.root_complex_latency, HostInput::Message(message));
    }

    /// Whether the function of `port` takes messages of `code`.
    fn is_taken(&self, port: usize, code: u8) -> bool {
        let function = self.ports[port].function.as_ref();
        function.is_some_and(|function| function.bridge.consumes_message(Side::Secondary, code))
    }

    /// Refuses a message without a receiver: an Unsupported Request, unless every receiver may ignore it (`PCIe 5.0 §2.3.1`).
    fn refuse_message(&mut self, port: usize, now: Time, m: &Message, tlp: &Tlp) {
        let error = (!is_ignored(m.code)).then_some(Uncorrectable::UnsupportedRequest);
        if let Some(error) = error {
            let why = violation(error, tlp, None);
            self.refused(|b| &mut b.counters.unsupported_requests, port, now, why, tlp);
        }
        self.discard(port, now, error, tlp);
    }

    /// Whether a message may come in: not through a contained port, nor against ACS Source Validation.
    #[cold]
    fn lets_message(&mut self, port: usize, now: Time, tlp: &Tlp) -> bool {
        let Some(function) = &self.ports[port].function else { return true };
        let verdict = if function.is_contained() {
            Verdict::Dropped
        } else if !function.routes.lets_up(tlp) {
            Verdict::Refused(port, Uncorrectable::AcsViolation)
        } else {
            return true;
        };
        self.turn_away(port, now, tlp, verdict);
        self.discard(port, now, None, tlp);
        false
    }

    /// Handles messages for the root port's function: errors, PMEs and interrupt wires. The function's interrupts and
    /// wires report them to the host.
    fn hears(&mut self, port: usize, now: Time, m: &Message) -> bool {
        let Some(function) = &mut self.ports[port].function else { return false };
        match m.code {
            code if MessageCodes::ERRORS.contains(code) => {
                // A message that triggers containment is not forwarded (`PCIe 5.0 §6.2.10`).
                let contains = function.bridge.contains_for(m.code, m.requester);
                if !contains && function.bridge.forwards_error(m.code) {
                    function.bridge.root_error(m.code, m.requester);
                }
                self.report(port, now, None);
            }
            PM_PME => {
                function.bridge.root_pme(m.requester);
                self.apply_registers(port, now);
            }
            code if MessageCodes::INTERRUPTS.contains(code) => {
                let bit = 1 << (m.code & 3);
                let asserted = m.code < DEASSERT_INTA;
                function.wires = if asserted { function.wires | bit } else { function.wires & !bit };
                self.tell_wires(port, now, Some(m.requester));
            }
            _ => return false,
        }
        true
    }
}
