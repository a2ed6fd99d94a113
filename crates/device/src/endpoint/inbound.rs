// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLPs that arrive (`PCIe 5.0 §2.3`): whom they are for, and what the specification says of those that are for nobody.
//! Never sends: what is to be sent is queued.

use super::Endpoint;
use super::answers::{Answer, Completer, without_data};
use super::errors::{LoggedTlp, Refused};
use super::reads::Finding;
use super::requests::{Question, Reply};
use crate::port::CreditReturn;
use crate::seam::{BarIndex, CompletionError, Input, Request, RequestOp, ResetKind};
use config::header::status;
use config::register::byte_mask;
use config::{Effects, PowerState, Uncorrectable};
use tlp::{
    Access, Attributes, Bdf, Body, Class, Completion, ConfigKind, ConfigRequest, Data, Limits, MemoryOp,
    MemoryRequest, Repr, Span, Status, TcSet, Time, Tlp, rules,
};

impl Endpoint {
    pub(super) fn receive(&mut self, now: Time, tlp: Tlp) {
        if !self.shared.own.virtual_errors.is_empty() {
            self.log_virtual_errors();
        }
        // In this order where both are so (`PCIe 5.0 §6.2.3.2.3`).
        if rules::check_received(&tlp, &self.limits_for(&tlp)).is_err() {
            return self.drop_request(None, &tlp, Drop::Malformed);
        }
        if tlp.repr.td && tlp.ecrc_wrong && self.drops_wrong_ecrc(&tlp) {
            return;
        }
        if !tlp.prefixes.is_empty() && self.refuses_prefixes(&tlp) {
            return;
        }
        match &tlp.repr.body {
            // It stays in its place.
            Body::Completion(completion) => self.completion(now, &tlp, completion),
            _ => self.request(now, tlp),
        }
    }

    // Apart from completions, so that neither pays for the registers of the other.
    #[inline(never)]
    fn request(&mut self, now: Time, tlp: Tlp) {
        match tlp.repr.body {
            Body::Memory(request) => match request.op {
                MemoryOp::Read | MemoryOp::ReadLocked => self.memory_read(now, &tlp, request),
                MemoryOp::Write => self.memory_write(now, tlp, request),
                MemoryOp::WriteDeferrable => self.deferrable_write(now, tlp, request),
            },
            Body::Io(request) => self.io(now, tlp, request),
            Body::Atomic(request) => self.atomic(now, tlp, request),
            Body::Completion(_) => {}
            Body::Config(request) => self.config_request(now, &tlp, &request),
            Body::Message(message) => self.message(now, tlp, &message),
        }
    }

    /// What an endpoint takes: no local prefixes, and of end-to-end ones and of data as much as that of its functions that takes most
    /// (`PCIe 5.0 §2.2.2`, §2.2.10.2). A link hands on no TLP of a Traffic Class that it does not map.
    fn limits_for(&self, tlp: &Tlp) -> Limits {
        let mut mps = self.functions[0].settings.mps;
        if tlp.repr.data_dw() * 4 > mps.bytes() {
            mps = self.functions.iter().map(|f| f.settings.mps).max().unwrap_or(mps);
        }
        let end_to_end_prefixes = if tlp.prefixes.is_empty() { 0 } else { self.end_end_prefixes() };
        Limits { mps, tc_mapped: TcSet::ALL, local_prefixes: false, end_to_end_prefixes }
    }

    #[cold]
    fn end_end_prefixes(&self) -> u8 {
        self.functions.iter().map(|f| f.settings.end_end_prefixes).max().unwrap_or(0)
    }

    /// Refuses a TLP with a prefix of a reserved type, or with more prefixes than the function takes that it is addressed to, where
    /// another function of the device takes as many: a request is unsupported, a completion unexpected (`PCIe 5.0
    /// §2.2.10.2`). What no function claims is left to those who look for one.
    #[cold]
    fn refuses_prefixes(&mut self, tlp: &Tlp) -> bool {
        let Some(index) = self.addressee(tlp) else { return false };
        let most = usize::from(self.functions[index].settings.end_end_prefixes);
        if !tlp.prefixes.has_reserved() && tlp.prefixes.end_to_end() <= most {
            return false;
        }
        match Question::of_any(tlp) {
            Some(question) => self.refuse(Some(index), tlp, &question, CompletionError::UnsupportedRequest),
            None if tlp.class() == Class::Completion => {
                self.shared.requests.give_back(credit_of(tlp));
                self.finding(Some(index), Finding::Unexpected, tlp);
            }
            None => self.drop_request(Some(index), tlp, Drop::Unsupported),
        }
        true
    }

    /// A TLP whose ECRC is wrong is dropped, by a function that checks it (`PCIe 5.0 §2.7.1`, §6.2.3.2): nobody can say
    /// whom it was for, so the first that checks takes note.
    fn drops_wrong_ecrc(&mut self, tlp: &Tlp) -> bool {
        if !self.functions[..self.physical].iter().any(|f| f.settings.ecrc_check) {
            return false;
        }
        self.shared.counters.ecrc_errors += 1;
        self.shared.requests.give_back(credit_of(tlp));
        self.log_in_all(LoggedTlp::of(tlp).report(Uncorrectable::Ecrc));
        true
    }

    /// The function whose memory BAR holds all of `span`, which BAR, and the offset there.
    pub(super) fn decode(&self, span: Span) -> Option<(usize, BarIndex, u64)> {
        let (first, len) = (span.first_byte(), u64::from(span.byte_count()));
        match &self.functions[..] {
            [lone] => lone.settings.decode(first, len).map(|(bar, offset)| (0, BarIndex(bar), offset)),
            _ => self.routes.memory(first, len).filter(|(index, ..)| self.functions[*index].settings.in_d0),
        }
    }

    /// The same of an I/O BAR.
    pub(super) fn decode_io(&self, span: Span) -> Option<(usize, BarIndex, u64)> {
        let (first, len) = (span.first_byte(), u64::from(span.byte_count()));
        match &self.functions[..] {
            [lone] => lone.settings.decode_io(first, len).map(|(bar, offset)| (0, BarIndex(bar), offset)),
            _ => self.routes.io(first, len),
        }
    }

    // ---- memory ----

    /// Only legacy endpoints know locked reads (`PCIe 5.0 §6.5.6`, §6.5.7).
    fn memory_read(&mut self, now: Time, tlp: &Tlp, request: MemoryRequest) {
        let locked = request.op == MemoryOp::ReadLocked;
        let reply = if locked { Reply::Locked } else { Reply::Bytes };
        let (credit, question) = (credit_of(tlp), Question::of(tlp, request.span, reply));
        let Some((index, bar, offset)) = self.decode(request.span) else {
            return self.refuse(None, tlp, &question, CompletionError::UnsupportedRequest);
        };
        if locked && !self.functions[index].settings.legacy {
            return self.refuse(Some(index), tlp, &question, CompletionError::UnsupportedRequest);
        }
        if self.msix_holds(index, bar, offset, request.span) {
            return self.msix_read(index, credit, question, bar, offset);
        }
        let op = RequestOp::Read { bar, offset, span: request.span, locked };
        self.hand_on_non_posted(now, index, credit, question, op);
    }

    pub(super) fn hand_on_non_posted(
        &mut self,
        now: Time,
        index: usize,
        credit: CreditReturn,
        question: Question,
        op: RequestOp,
    ) {
        let function = &mut self.functions[index];
        let Some(token) = self.shared.requests.admit(function.number, credit, Some(question)) else {
            self.shared.counters.request_overflows += 1;
            let report = question.refused();
            let tlp = function.refusal(&mut self.shared, &question, CompletionError::CompleterAbort, report);
            return self.queue_own(Some(index), credit, tlp);
        };
        self.shared.counters.requests += 1;
        let request = Request { token, tc: question.tc, attr: question.attr, op };
        function.device.handle(now, Input::Request(request));
        self.touch(index);
    }

    fn memory_write(&mut self, now: Time, tlp: Tlp, request: MemoryRequest) {
        let credit = credit_of(&tlp);
        if tlp.data.len() != request.span.byte_count() as usize && !request.span.is_zero_length() {
            return self.drop_request(None, &tlp, Drop::Malformed);
        }
        let Some((index, bar, offset)) = self.decode(request.span) else {
            return self.drop_request(None, &tlp, Drop::Unsupported);
        };
        if request.span.length_dw() * 4 > self.functions[index].settings.mps.bytes() {
            return self.drop_request(Some(index), &tlp, Drop::Malformed);
        }
        if tlp.repr.ep {
            return self.drop_request(Some(index), &tlp, Drop::Poisoned);
        }
        if self.msix_holds(index, bar, offset, request.span) {
            return self.msix_write(index, credit, bar, offset, request.span, &tlp.data);
        }
        let op = RequestOp::Write { bar, offset, span: request.span, data: tlp.data };
        self.hand_on_posted(now, index, credit, &tlp.repr, op);
    }

    pub(super) fn hand_on_posted(
        &mut self,
        now: Time,
        index: usize,
        credit: CreditReturn,
        repr: &Repr,
        op: RequestOp,
    ) {
        let function = &mut self.functions[index];
        let Some(token) = self.shared.requests.admit(function.number, credit, None) else {
            self.shared.counters.request_overflows += 1;
            return self.shared.requests.give_back(credit);
        };
        self.shared.counters.requests += 1;
        let request = Request { token, tc: repr.tc, attr: repr.attr, op };
        function.device.handle(now, Input::Request(request));
        self.touch(index);
    }

    // ---- MSI-X structures ----

    pub(super) fn msix_holds(&self, index: usize, bar: BarIndex, offset: u64, span: Span) -> bool {
        let msix = self.functions[index].msix.as_ref();
        msix.is_some_and(|m| m.holds(bar.0, offset, u64::from(span.byte_count())))
    }

    fn msix_read(
        &mut self,
        index: usize,
        credit: CreditReturn,
        question: Question,
        bar: BarIndex,
        offset: u64,
    ) {
        let function = &self.functions[index];
        let Some(msix) = &function.msix else { return };
        let data = msix.read(bar.0, offset, question.span.byte_count(), &self.shared.pool);
        let completer = function.completer(&self.shared);
        let (mps, rcb) = (function.settings.mps, self.shared.limits.rcb);
        let mut answer = Answer::new(question, data);
        self.shared.requests.answering(credit);
        while !answer.is_done() {
            let tlp = answer.next(completer, mps, rcb);
            self.shared.queue_completion(Some(index), tlp, answer.is_done());
        }
    }

    /// Bytes that are not carried write nothing.
    fn msix_write(
        &mut self,
        index: usize,
        credit: CreditReturn,
        bar: BarIndex,
        offset: u64,
        span: Span,
        data: &Data,
    ) {
        self.shared.requests.give_back(credit);
        let (Some(msix), Some(bytes)) = (&mut self.functions[index].msix, data.bytes()) else { return };
        for (i, &byte) in (0..).zip(bytes) {
            if span.is_enabled(i) {
                msix.write_byte(bar.0, offset + u64::from(i), byte);
            }
        }
        self.touch(index);
    }

    // ---- refusals ----

    /// Queues a completion without data for a request that reaches no device; `None` where no function claims it.
    pub(super) fn refuse(
        &mut self,
        index: Option<usize>,
        tlp: &Tlp,
        question: &Question,
        error: CompletionError,
    ) {
        let (credit, refused) = (credit_of(tlp), Refused::of(tlp));
        let completion = match index {
            Some(index) => self.functions[index].refusal(&mut self.shared, question, error, refused),
            None => {
                self.shared.counters.unsupported_requests += 1;
                let report = refused.tlp.report(Uncorrectable::UnsupportedRequest);
                self.log_in_all(report.advisory(refused.advisory));
                without_data(self.functions[0].completer(&self.shared), question, Status::UnsupportedRequest)
            }
        };
        self.queue_own(index.or(Some(0)), credit, completion);
    }

    /// A poisoned request that asks for an answer changes nothing, and is answered with UR. What is behind a BAR may be
    /// registers, so that the error is never advisory (`PCIe 5.0 §2.7.2.2`).
    pub(super) fn refuse_poisoned(&mut self, index: usize, tlp: &Tlp, question: &Question) {
        self.shared.counters.poisoned_requests += 1;
        let function = &mut self.functions[index];
        function.log(&mut self.shared, Uncorrectable::PoisonedTlp, false, LoggedTlp::of(tlp));
        let refusal = without_data(function.completer(&self.shared), question, Status::UnsupportedRequest);
        self.queue_own(Some(index), credit_of(tlp), refusal);
    }

    /// Queues the only completion of a request, of this function or of none.
    fn queue_own(&mut self, index: Option<usize>, credit: CreditReturn, tlp: Tlp) {
        self.shared.requests.answering(credit);
        self.shared.queue_completion(index, tlp, true);
    }

    /// A request that no completion answers: a posted one, or a malformed one; `None` where it belongs to no function.
    #[cold]
    pub(super) fn drop_request(&mut self, index: Option<usize>, tlp: &Tlp, why: Drop) {
        self.shared.requests.give_back(credit_of(tlp));
        let counters = &mut self.shared.counters;
        let error = match why {
            Drop::Malformed => {
                counters.malformed += 1;
                Uncorrectable::MalformedTlp
            }
            Drop::Unsupported => {
                counters.unsupported_posted += 1;
                Uncorrectable::UnsupportedRequest
            }
            Drop::Poisoned => {
                counters.poisoned_requests += 1;
                Uncorrectable::PoisonedTlp
            }
        };
        match index {
            Some(index) => self.functions[index].log(&mut self.shared, error, false, LoggedTlp::of(tlp)),
            None => self.log_in_all(LoggedTlp::of(tlp).report(error)),
        }
    }

    // ---- configuration ----

    fn config_request(&mut self, now: Time, tlp: &Tlp, request: &ConfigRequest) {
        let question = Question::of_config(tlp, request);
        let credit = credit_of(tlp);
        let Some(index) = self.configured(request) else {
            return match request.kind {
                ConfigKind::Type0 => self.refuse_absent(credit, request, &question),
                ConfigKind::Type1 => self.refuse(None, tlp, &question, CompletionError::UnsupportedRequest),
            };
        };
        let status = match request.op {
            Access::Read => return self.config_read(credit, index, request, question),
            Access::Write if tlp.repr.ep => return self.refuse_poisoned(index, tlp, &question),
            Access::Write => self.config_write(now, index, tlp, request),
        };
        let completer = self.functions[index].completer(&self.shared);
        match status {
            Status::Success => {
                self.queue_own(Some(index), credit, without_data(completer, &question, Status::Success));
            }
            Status::CompleterAbort => {
                self.refuse(Some(index), tlp, &question, CompletionError::CompleterAbort)
            }
            _ => self.refuse(Some(index), tlp, &question, CompletionError::UnsupportedRequest),
        }
    }

    /// No such function: UR in its name (`PCIe 5.0 §2.3.1`), which is how software finds that out: no error.
    fn refuse_absent(&mut self, credit: CreditReturn, request: &ConfigRequest, question: &Question) {
        self.shared.counters.unsupported_requests += 1;
        let distance = request.completer.bits().wrapping_sub(self.first_id(request.completer));
        let id = Bdf::from_bits(self.shared.bus_device.wrapping_add(distance));
        let absent = Completer { id, attributes: Attributes::COMPLETED };
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
        function.config.set_transactions_pending(function.reads.tags.in_use() > 0);
        let value = function.config.read(request.register_dw);
        let data = Data::Carried(self.shared.pool.copy(&value.to_le_bytes()));
        let completer = function.completer(&self.shared);
        let tlp = Answer::new(question, data).next(completer, function.settings.mps, self.shared.limits.rcb);
        self.queue_own(Some(index), credit, tlp);
    }

    /// One whose bytes are not carried cannot be carried out.
    fn config_write(&mut self, now: Time, index: usize, tlp: &Tlp, request: &ConfigRequest) -> Status {
        let Some(value) = config_value(request.first_be, &tlp.data) else { return Status::CompleterAbort };
        self.shared.counters.config_requests += 1;
        if request.kind == ConfigKind::Type0 {
            self.shared.bus_device = self.first_id(request.completer);
        }
        self.configure(now, index, request.register_dw, request.first_be, value);
        Status::Success
    }

    /// Writes a register of a function, and obeys.
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
        self.refresh_ecrc();
        self.touch(index);
    }

    /// Resets one function, and with it its virtual ones.
    fn reset_function(&mut self, now: Time, index: usize) {
        self.functions[index].reset(now, &mut self.shared, ResetKind::FunctionLevel);
        self.refresh_function(now, index);
        self.refresh_routes();
    }

    // ---- completions ----

    fn completion(&mut self, now: Time, tlp: &Tlp, completion: &Completion) {
        self.shared.requests.give_back(credit_of(tlp));
        let index = self.function_of(completion.requester);
        let Some(index) = index.or_else(|| self.former_function(completion.requester)) else {
            return self.finding(None, Finding::Unexpected, tlp);
        };
        let function = &mut self.functions[index];
        let timeout = function.settings.completion_timeout.unwrap_or(self.shared.limits.completion_timeout);
        let mps = function.settings.mps.bytes();
        let (finding, done) = function.reads.complete(completion, tlp, mps, now + timeout, &self.shared.pool);
        self.finding(Some(index), finding, tlp);
        if let Some(done) = done {
            self.functions[index].done(now, &mut self.shared, done);
        }
        self.touch(index);
    }

    #[inline]
    fn finding(&mut self, index: Option<usize>, finding: Finding, tlp: &Tlp) {
        match finding {
            Finding::Good => self.shared.counters.completions += 1,
            other => self.bad_finding(index, other, tlp),
        }
    }

    #[cold]
    fn bad_finding(&mut self, index: Option<usize>, finding: Finding, tlp: &Tlp) {
        let counters = &mut self.shared.counters;
        let config = &mut self.functions[index.unwrap_or(0)].config;
        match finding {
            Finding::Good => {}
            Finding::Swallowed => counters.swallowed_completions += 1,
            Finding::Unsupported => {
                counters.received_unsupported += 1;
                config.set_status(status::RECEIVED_MASTER_ABORT);
            }
            Finding::Aborted => {
                counters.received_abort += 1;
                config.set_status(status::RECEIVED_TARGET_ABORT);
            }
            Finding::Poisoned => {
                counters.poisoned_completions += 1;
                // Advisory: the transfer fails, as with UR or CA, and all else goes on (`PCIe 5.0 §6.2.3.2.4.3`).
                self.log_completion(index, Uncorrectable::PoisonedTlp, true, tlp);
            }
            Finding::Malformed => {
                counters.malformed += 1;
                self.log_completion(index, Uncorrectable::MalformedTlp, false, tlp);
            }
            Finding::Late | Finding::Unexpected => {
                counters.unexpected_completions += 1;
                counters.late_completions += u64::from(finding == Finding::Late);
                self.log_completion(index, Uncorrectable::UnexpectedCompletion, true, tlp);
            }
        }
    }

    #[cold]
    fn log_completion(&mut self, index: Option<usize>, error: Uncorrectable, advisory: bool, tlp: &Tlp) {
        let logged = LoggedTlp::of(tlp);
        match index {
            Some(index) => self.functions[index].log(&mut self.shared, error, advisory, logged),
            None => self.log_in_all(logged.report(error).advisory(advisory)),
        }
    }
}

/// Why a request goes no further, without an answer.
#[derive(Clone, Copy)]
pub(super) enum Drop {
    Malformed,
    Unsupported,
    Poisoned,
}

pub(super) fn credit_of(tlp: &Tlp) -> CreditReturn {
    CreditReturn::of(tlp)
}

/// The value that a configuration write carries: its data begin at the first enabled byte, or are the whole DW.
fn config_value(first_be: u8, data: &Data) -> Option<u32> {
    let bytes = data.bytes().unwrap_or(&[]);
    let lane = if bytes.len() == 4 { 0 } else { first_be.trailing_zeros().min(4) as usize };
    let mut word = [0; 4];
    word.get_mut(lane..lane + bytes.len())?.copy_from_slice(bytes);
    let held = byte_mask((((1u32 << bytes.len()) - 1) << lane) as u8 & 0xf);
    (byte_mask(first_be & 0xf) & !held == 0).then(|| u32::from_le_bytes(word))
}
