// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arriving messages (`PCIe 5.0 §2.2.8`): the front handles the messages that every endpoint has to support. Devices
//! handle the codes that they declare. This module does not send messages; it queues them.

use super::claim::{Claim, Drop};
use super::{Front, FunctionBackend};
use crate::port::CreditReturn;
use tlp::message::{
    MessageCodes, PM_ACTIVE_STATE_NAK, PME_TURN_OFF, SET_SLOT_POWER_LIMIT, UNLOCK, is_ignored,
};
use tlp::rules::reasons::{beyond_mps, wrong_length};
use tlp::{Bdf, Data, Message, MessageRouting, RuleId, Tlp, Violation};

/// The receiver of a message.
enum Taker {
    Function(usize),
    /// No function, and this is not an error.
    None,
    /// No function takes the message. This is an error of the given function, or of no single function.
    Refused(Option<usize>),
}

impl<B: FunctionBackend> Front<B> {
    pub(super) fn message(&mut self, tlp: &Tlp, message: &Message) -> Claim {
        let dw = usize::from(message.length_dw.unwrap_or(0));
        if tlp.data.len() != dw * 4 {
            return self.dropped(None, tlp, Drop::Malformed(wrong_length(tlp)));
        }
        let mps = self.functions[0].settings.mps.bytes();
        if dw * 4 > mps as usize {
            return self.dropped(None, tlp, Drop::Malformed(beyond_mps(tlp, mps)));
        }
        let index = match self.taker(message) {
            Taker::Function(index) => index,
            Taker::None => {
                self.shared.counters.messages_ignored += 1;
                self.shared.requests.give_back(CreditReturn::of(tlp));
                return Claim::Nothing;
            }
            Taker::Refused(index) => {
                let why = Violation::new(RuleId::MessageSupported, message.code.into());
                return self.dropped(index, tlp, Drop::Unsupported(why));
            }
        };
        if tlp.repr.ep {
            return self.dropped(Some(index), tlp, Drop::Poisoned);
        }
        if self.consumes(index, message, &tlp.data) {
            self.shared.counters.messages_consumed += 1;
            self.shared.requests.give_back(CreditReturn::of(tlp));
            return Claim::Nothing;
        }
        Claim::Message(index)
    }

    /// Returns the target function of a message: the function with its ID if it is routed by ID, otherwise the first
    /// function that takes its code. A message that no function takes is an Unsupported Request (`PCIe 5.0 §2.3.1`). It
    /// is logged in all functions if it is not addressed to one (§6.2.4).
    fn taker(&self, message: &Message) -> Taker {
        let takes = |index: &usize| self.takes(*index, message.code);
        let addressed = (message.routing == MessageRouting::ById)
            .then(|| Bdf::from_bits(u16::from_be_bytes([message.header[0], message.header[1]])));
        let index = match addressed {
            Some(id) => self.function_of(id),
            None => (0..self.functions.len()).find(takes),
        };
        match index.filter(takes) {
            Some(index) => Taker::Function(index),
            None if is_ignored(message.code) => Taker::None,
            None => Taker::Refused(index),
        }
    }

    /// Returns the function that takes a message, or to which the error belongs if no function takes it.
    pub(super) fn message_for(&self, message: &Message) -> Option<usize> {
        match self.taker(message) {
            Taker::Function(index) => Some(index),
            Taker::Refused(index) => index,
            Taker::None => None,
        }
    }

    /// Returns whether a function takes messages of `code`: codes that every endpoint takes, and codes that its device
    /// declares.
    fn takes(&self, index: usize, code: u8) -> bool {
        MessageCodes::OF_ENDPOINTS.or(self.functions[index].behind.messages()).contains(code)
    }

    /// Handles messages that do not reach the device: PME_Turn_Off, which is acknowledged (`PCIe 5.0 §5.3.3.2.1`);
    /// Unlock, which concerns legacy endpoints only (§6.5.6); PM_Active_State_Nak, because no endpoint requests L1.
    fn consumes(&mut self, index: usize, message: &Message, data: &Data) -> bool {
        match message.code {
            SET_SLOT_POWER_LIMIT => {
                self.capture_slot_power_limit(data);
                true
            }
            UNLOCK => !self.functions[index].settings.legacy,
            PM_ACTIVE_STATE_NAK => true,
            PME_TURN_OFF => {
                self.shared.queue_turn_off_ack();
                true
            }
            _ => false,
        }
    }

    /// Captures a Set_Slot_Power_Limit in all functions: bits 7:0 are the value, 9:8 the scale (`PCIe 5.0 §2.2.8.5`).
    fn capture_slot_power_limit(&mut self, data: &Data) {
        let Some(&[value, scale, ..]) = data.bytes() else { return };
        for function in &mut self.functions {
            function.config.set_slot_power_limit(value, scale & 0b11);
        }
    }
}
