// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Configuration requests (`PCIe 5.0 §2.3.1`, §7.2.2): reads and writes registers, and follows the settings of
//! software. Does not know the meaning of registers: [`config`] determines the effect of a write.

use super::answers::{Answer, without_data};
use super::claim::Claim;
use super::requests::Completer;
use super::requests::Question;
use super::{Front, FunctionBackend};
use crate::port::CreditReturn;
use config::register::byte_mask;
use config::{Effects, PowerState};
use device::seam::ResetKind;
use tlp::rules::Head;
use tlp::rules::reasons::request_type;
use tlp::{Access, Attributes, Bdf, ConfigKind, ConfigRequest, Data, RuleId, Status, Time, Tlp, Violation};

impl<B: FunctionBackend> Front<B> {
    pub(super) fn config_request(&mut self, now: Time, tlp: &Tlp, request: &ConfigRequest) -> Claim {
        let question = Question::of_config(tlp, request);
        let credit = CreditReturn::of(tlp);
        let Some(index) = self.configured(request) else {
            if request.kind == ConfigKind::Type1 {
                return self.unsupported(None, tlp, request_type(&tlp.repr));
            }
            self.refuse_absent(tlp, request, &question);
            return Claim::Nothing;
        };
        let own = self.functions[index].config.register(request.register_dw).is_device();
        match request.op {
            Access::Read if own => return Claim::Register(index),
            Access::Read => self.config_read(credit, index, request, question),
            Access::Write if tlp.repr.ep => return self.refuse_poisoned(index, tlp),
            // A write whose data is only counted cannot be executed.
            Access::Write => match config_value(request.first_be, &tlp.data) {
                None => return self.abort(index, tlp),
                Some(_) if own => {
                    self.capture(request);
                    return Claim::Register(index);
                }
                Some(value) => {
                    self.capture(request);
                    self.shared.counters.config_requests += 1;
                    self.configure(now, index, request.register_dw, request.first_be, value);
                    let completer = self.functions[index].completer(&self.shared);
                    self.queue_own(Some(index), credit, without_data(completer, &question, Status::Success));
                }
            },
        }
        Claim::Nothing
    }

    /// Answers UR in the name of an absent function (`PCIe 5.0 §2.3.1`). Software uses this to enumerate functions, so it is not
    /// an error.
    fn refuse_absent(&mut self, tlp: &Tlp, request: &ConfigRequest, question: &Question) {
        let why = Violation::new(RuleId::UnclaimedId, request.completer.bits().into());
        self.shared.refused(|c| &mut c.unsupported_requests, None, why, Head::of(tlp));
        let distance = request.completer.bits().wrapping_sub(self.first_id(request.completer));
        let id = Bdf::from_bits(self.shared.bus_device.wrapping_add(distance));
        let absent = Completer { id, attributes: Attributes::COMPLETED };
        let credit = CreditReturn::of(tlp);
        self.queue_own(None, credit, without_data(absent, question, Status::UnsupportedRequest));
    }

    fn config_read(
        &mut self,
        credit: CreditReturn,
        index: usize,
        request: &ConfigRequest,
        question: Question,
    ) {
        self.shared.counters.config_requests += 1;
        let function = &mut self.functions[index];
        function.config.set_transactions_pending(function.behind.is_pending());
        let value = function.config.read(request.register_dw);
        let data = Data::Carried(self.shared.pool.copy(&value.to_le_bytes()));
        let completer = function.completer(&self.shared);
        let tlp = Answer::new(question, data).next(completer, function.settings.mps, self.shared.limits.rcb);
        self.queue_own(Some(index), credit, tlp);
    }

    /// Captures bus and device number from each write of type 0 (`PCIe 5.0 §2.2.6.2`).
    fn capture(&mut self, request: &ConfigRequest) {
        if request.kind == ConfigKind::Type0 {
            self.shared.bus_device = self.first_id(request.completer);
        }
    }

    /// Has the effect of a type 0 configuration write with `id`, without a TLP. The function captures `id` too.
    pub(crate) fn write_config(
        &mut self,
        now: Time,
        id: Bdf,
        register_dw: u16,
        byte_enables: u8,
        value: u32,
    ) {
        if let Some(index) = self.function_on_bus(id) {
            self.shared.bus_device = self.first_id(id);
            self.configure(now, index, register_dw, byte_enables, value);
        }
    }

    /// Writes a register of a function, and follows its effects.
    pub(super) fn configure(
        &mut self,
        now: Time,
        index: usize,
        register_dw: u16,
        byte_enables: u8,
        value: u32,
    ) {
        let Some(function) = self.functions.get_mut(index) else { return };
        let soft_reset = !function.settings.in_d0 && !function.config.no_soft_reset();
        let pme = function.config.pme_asserted();
        let effects = function.config.write(register_dw, byte_enables, value);
        if effects.contains(Effects::PME) && !pme && function.config.pme_asserted() {
            function.pme_enabled(&mut self.shared);
        }
        if soft_reset && function.config.power_state() == PowerState::D0 {
            self.shared.counters.power_state_resets += 1;
            self.reset_function(now, index);
        } else if effects.contains(Effects::FUNCTION_LEVEL_RESET) {
            self.shared.counters.function_level_resets += 1;
            self.reset_function(now, index);
        } else if !effects.is_empty() {
            self.refresh_function(now, index);
            self.refresh_routes();
        }
        self.refresh_common();
        self.changed.push(index);
    }

    /// Resets one function, and the virtual functions of a physical function.
    fn reset_function(&mut self, now: Time, index: usize) {
        self.functions[index].reset(now, &mut self.shared, ResetKind::FunctionLevel);
        self.refresh_function(now, index);
        self.refresh_routes();
    }
}

/// Returns the value that a configuration write carries. Its data begins at the first enabled byte, or is the complete
/// DW.
pub(crate) fn config_value(first_be: u8, data: &Data) -> Option<u32> {
    let bytes = data.bytes().unwrap_or(&[]);
    let lane = if bytes.len() == 4 { 0 } else { first_be.trailing_zeros().min(4) as usize };
    let mut word = [0; 4];
    word.get_mut(lane..lane + bytes.len())?.copy_from_slice(bytes);
    let held = byte_mask((((1u32 << bytes.len()) - 1) << lane) as u8 & 0xf);
    (byte_mask(first_be & 0xf) & !held == 0).then(|| u32::from_le_bytes(word))
}
