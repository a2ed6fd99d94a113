// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arriving TLPs (`PCIe 5.0 §2.3`): finds the target function of each TLP, and handles TLPs without target function as
//! specified. This module does not deliver TLPs; the caller does.

use super::answers::{Answer, without_data};
use super::errors::{LoggedTlp, Refused};
use super::requests::{MAX_UNDER_WAY, Question, Reply};
use super::settings::BarOffset;
use super::{Front, FunctionBackend};
use crate::port::CreditReturn;
use config::Uncorrectable;
use device::seam::{CompletionError, Token};
use tlp::rules::Head;
use tlp::rules::reasons::{
    aborted, beyond_mps, poisoned, request_type, unclaimed, unsupported_prefixes, wrong_length,
};
use tlp::{
    Body, Class, Data, Limits, MemoryOp, MemoryRequest, RuleId, Span, Status, TcSet, Time, Tlp, Violation,
    rules,
};

/// Target of a request that has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Claim {
    /// No target: the request was answered, refused or dropped.
    Nothing,
    /// A BAR.
    Bar(BarOffset),
    /// A register that the device of this function implements.
    Register(usize),
    /// A message that this function takes.
    Message(usize),
}

impl<B: FunctionBackend> Front<B> {
    /// Returns whether a TLP is processed further: it is not malformed, its ECRC is not wrong, and its prefixes are supported.
    pub(crate) fn admits(&mut self, tlp: &Tlp) -> bool {
        if !self.shared.own.virtual_errors.is_empty() {
            self.log_virtual_errors();
        }
        // A TLP with both errors is reported as malformed (`PCIe 5.0 §6.2.3.2.3`).
        if let Err(why) = rules::check_received(tlp, &self.limits_for(tlp)) {
            self.drop_request(None, tlp, Drop::Malformed(why));
            return false;
        }
        if tlp.has_wrong_ecrc() && self.drops_wrong_ecrc(tlp) {
            return false;
        }
        tlp.prefixes.is_empty() || !self.refuses_prefixes(tlp)
    }

    /// Returns the target of a request that was [admitted](Self::admits).
    pub(crate) fn claim(&mut self, now: Time, tlp: &Tlp) -> Claim {
        match &tlp.repr.body {
            Body::Memory(request) => match request.op {
                MemoryOp::Read | MemoryOp::ReadLocked => self.memory_read(tlp, request),
                MemoryOp::Write => self.memory_write(tlp, request),
                MemoryOp::WriteDeferrable => self.deferrable_write(tlp, request),
            },
            Body::Io(request) => self.io(tlp, request),
            Body::Atomic(request) => self.atomic(tlp, request),
            Body::Completion(_) => Claim::Nothing,
            Body::Config(request) => self.config_request(now, tlp, request),
            Body::Message(message) => self.message(tlp, message),
        }
    }

    /// Returns a token for a request to function `index`; `None` if there are too many.
    pub(crate) fn take_in(&mut self, index: usize, tlp: &Tlp) -> Option<Token> {
        let (credit, question) = (CreditReturn::of(tlp), Question::of_any(tlp));
        let token = self.shared.requests.admit(self.functions[index].number, credit, question);
        match token {
            Some(_) => self.shared.counters.requests += 1,
            None => self.overflow(index, tlp),
        }
        token
    }

    #[cold]
    fn overflow(&mut self, index: usize, tlp: &Tlp) {
        let why = Violation::new(RuleId::RequestLimit, MAX_UNDER_WAY);
        match Question::of_any(tlp) {
            Some(question) => self.refuse(Some(index), tlp, &question, CompletionError::CompleterAbort, why),
            None => {
                self.shared.refused(|c| &mut c.request_overflows, Some(index), why, Head::of(tlp));
                self.shared.requests.give_back(CreditReturn::of(tlp));
            }
        }
    }

    /// Returns the limits of the endpoint: no local prefixes, and the most end-to-end prefixes and data that any of its
    /// functions accepts (`PCIe 5.0 §2.2.2`, §2.2.10.2). A link does not deliver TLPs of a Traffic Class that it does
    /// not map.
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

    /// Refuses a TLP with a prefix of a reserved type. Also refuses a TLP with more prefixes than its function supports
    /// if another function of the device supports that many. A request is unsupported, a completion unexpected (`PCIe
    /// 5.0 §2.2.10.2`). A TLP that no function claims is not refused here.
    #[cold]
    fn refuses_prefixes(&mut self, tlp: &Tlp) -> bool {
        let Some(index) = self.addressee(tlp) else { return false };
        let most = usize::from(self.functions[index].settings.end_end_prefixes);
        if !tlp.prefixes.has_reserved() && tlp.prefixes.end_to_end() <= most {
            return false;
        }
        let why = unsupported_prefixes(&tlp.prefixes);
        match Question::of_any(tlp) {
            Some(question) => {
                self.refuse(Some(index), tlp, &question, CompletionError::UnsupportedRequest, why);
            }
            None if tlp.class() == Class::Completion => {
                self.shared.requests.give_back(CreditReturn::of(tlp));
                self.unexpected(Some(index), why, tlp);
            }
            None => self.drop_request(Some(index), tlp, Drop::Unsupported(why)),
        }
        true
    }

    /// Drops a TLP whose ECRC is wrong, if a function checks it (`PCIe 5.0 §2.7.1`, §6.2.3.2). The target of such a TLP
    /// is unknown, so the error is logged in all functions.
    fn drops_wrong_ecrc(&mut self, tlp: &Tlp) -> bool {
        if !self.functions[..self.physical].iter().any(|f| f.settings.ecrc_check) {
            return false;
        }
        self.shared.refused(|c| &mut c.ecrc_errors, None, tlp.ecrc_violation(), Head::of(tlp));
        self.shared.requests.give_back(CreditReturn::of(tlp));
        self.log_in_all(LoggedTlp::of(tlp).report(Uncorrectable::Ecrc));
        true
    }

    /// Returns the function whose memory BAR holds all of `span`, the BAR, and the offset in it.
    pub(super) fn decode(&self, span: Span) -> Option<BarOffset> {
        let (first, len) = (span.first_byte(), u64::from(span.byte_count()));
        match &self.functions[..] {
            [lone] => lone.settings.decode(first, len),
            _ => self.routes.memory(first, len).filter(|at| self.functions[at.index].settings.in_d0),
        }
    }

    /// Like [`decode`](Self::decode), for I/O BARs.
    pub(super) fn decode_io(&self, span: Span) -> Option<BarOffset> {
        let (first, len) = (span.first_byte(), u64::from(span.byte_count()));
        match &self.functions[..] {
            [lone] => lone.settings.decode_io(first, len),
            _ => self.routes.io(first, len),
        }
    }

    // ---- memory ----

    /// Claims a memory read. Only legacy endpoints support locked reads (`PCIe 5.0 §6.5.6`, §6.5.7).
    fn memory_read(&mut self, tlp: &Tlp, request: &MemoryRequest) -> Claim {
        let locked = request.op == MemoryOp::ReadLocked;
        let Some(at) = self.decode(request.span) else {
            return self.unsupported(None, tlp, unclaimed(request.span.first_byte()));
        };
        if locked && !self.functions[at.index].settings.legacy {
            return self.unsupported(Some(at.index), tlp, request_type(&tlp.repr));
        }
        if self.msix_holds(at, request.span) {
            let question = Question::of(tlp, request.span, if locked { Reply::Locked } else { Reply::Bytes });
            self.msix_read(at, CreditReturn::of(tlp), question);
            return Claim::Nothing;
        }
        Claim::Bar(at)
    }

    fn memory_write(&mut self, tlp: &Tlp, request: &MemoryRequest) -> Claim {
        let span = request.span;
        if tlp.data.len() != span.byte_count() as usize && !span.is_zero_length() {
            return self.dropped(None, tlp, Drop::Malformed(wrong_length(tlp)));
        }
        let Some(at) = self.decode(span) else {
            return self.dropped(None, tlp, Drop::Unsupported(unclaimed(span.first_byte())));
        };
        let mps = self.functions[at.index].settings.mps.bytes();
        if span.length_dw() * 4 > mps {
            return self.dropped(Some(at.index), tlp, Drop::Malformed(beyond_mps(tlp, mps)));
        }
        if tlp.repr.ep {
            return self.dropped(Some(at.index), tlp, Drop::Poisoned);
        }
        if self.msix_holds(at, span) {
            self.msix_write(at, CreditReturn::of(tlp), span, &tlp.data);
            return Claim::Nothing;
        }
        Claim::Bar(at)
    }

    // ---- MSI-X structures ----

    pub(super) fn msix_holds(&self, at: BarOffset, span: Span) -> bool {
        let msix = self.functions[at.index].msix.as_ref();
        msix.is_some_and(|m| m.holds(at.bar.0, at.offset, u64::from(span.byte_count())))
    }

    fn msix_read(&mut self, at: BarOffset, credit: CreditReturn, question: Question) {
        let function = &self.functions[at.index];
        let Some(msix) = &function.msix else { return };
        let data = msix.read(at.bar.0, at.offset, question.span.byte_count(), &self.shared.pool);
        let completer = function.completer(&self.shared);
        let (mps, rcb) = (function.settings.mps, self.shared.limits.rcb);
        let mut answer = Answer::new(question, data);
        self.shared.requests.answering(credit);
        while !answer.is_done() {
            let tlp = answer.next(completer, mps, rcb);
            self.shared.queue_completion(Some(at.index), tlp, answer.is_done());
        }
    }

    /// Writes the MSI-X table. Data that is only counted has no effect.
    fn msix_write(&mut self, at: BarOffset, credit: CreditReturn, span: Span, data: &Data) {
        self.shared.requests.give_back(credit);
        let (Some(msix), Some(bytes)) = (&mut self.functions[at.index].msix, data.bytes()) else { return };
        for (i, &byte) in (0..).zip(bytes) {
            if span.is_enabled(i) {
                msix.write_byte(at.bar.0, at.offset + u64::from(i), byte);
            }
        }
        self.changed.push(at.index);
    }

    // ---- refusals ----

    /// Answers a non-posted request that reaches no device with UR.
    #[cold]
    pub(super) fn unsupported(&mut self, index: Option<usize>, tlp: &Tlp, why: Violation) -> Claim {
        if let Some(question) = Question::of_any(tlp) {
            self.refuse(index, tlp, &question, CompletionError::UnsupportedRequest, why);
        }
        Claim::Nothing
    }

    /// Answers a non-posted request that a function cannot carry out with CA.
    #[cold]
    pub(super) fn abort(&mut self, index: usize, tlp: &Tlp) -> Claim {
        if let Some(question) = Question::of_any(tlp) {
            self.refuse(Some(index), tlp, &question, CompletionError::CompleterAbort, aborted());
        }
        Claim::Nothing
    }

    /// Drops a request that no completion answers, see [`drop_request`](Self::drop_request).
    #[cold]
    pub(super) fn dropped(&mut self, index: Option<usize>, tlp: &Tlp, why: Drop) -> Claim {
        self.drop_request(index, tlp, why);
        Claim::Nothing
    }

    /// Queues a completion without data for a request that reaches no device; `index` is `None` if no function claims it.
    pub(super) fn refuse(
        &mut self,
        index: Option<usize>,
        tlp: &Tlp,
        question: &Question,
        error: CompletionError,
        why: Violation,
    ) {
        let (credit, refused) = (CreditReturn::of(tlp), Refused::of(tlp, why));
        let completion = match index {
            Some(index) => self.functions[index].refusal(&mut self.shared, question, error, refused),
            None => {
                self.shared.refused(|c| &mut c.unsupported_requests, None, why, Head::of(tlp));
                let report = refused.tlp.report(Uncorrectable::UnsupportedRequest);
                self.log_in_all(report.advisory(refused.advisory));
                without_data(self.functions[0].completer(&self.shared), question, Status::UnsupportedRequest)
            }
        };
        self.queue_own(index.or(Some(0)), credit, completion);
    }

    /// Answers a poisoned non-posted request with UR. The request has no effect. A BAR may map registers, so the error
    /// is never advisory (`PCIe 5.0 §2.7.2.2`).
    #[cold]
    pub(super) fn refuse_poisoned(&mut self, index: usize, tlp: &Tlp) -> Claim {
        let Some(question) = Question::of_any(tlp) else { return Claim::Nothing };
        self.shared.refused(|c| &mut c.poisoned_requests, Some(index), poisoned(), Head::of(tlp));
        let function = &mut self.functions[index];
        function.log(&mut self.shared, Uncorrectable::PoisonedTlp, false, LoggedTlp::of(tlp));
        let completer = function.completer(&self.shared);
        let refusal = without_data(completer, &question, Status::UnsupportedRequest);
        self.queue_own(Some(index), CreditReturn::of(tlp), refusal);
        Claim::Nothing
    }

    /// Queues the only completion of a request to this function, or to no function.
    pub(super) fn queue_own(&mut self, index: Option<usize>, credit: CreditReturn, tlp: Tlp) {
        self.shared.requests.answering(credit);
        self.shared.queue_completion(index, tlp, true);
    }

    /// Drops a request without a completion: a posted one, or a malformed one; `index` is `None` if it belongs to no function.
    #[cold]
    pub(super) fn drop_request(&mut self, index: Option<usize>, tlp: &Tlp, why: Drop) {
        self.shared.requests.give_back(CreditReturn::of(tlp));
        let (shared, head) = (&mut self.shared, Head::of(tlp));
        let error = match why {
            Drop::Malformed(why) => {
                shared.refused(|c| &mut c.malformed, index, why, head);
                Uncorrectable::MalformedTlp
            }
            Drop::Unsupported(why) => {
                shared.refused(|c| &mut c.unsupported_posted, index, why, head);
                Uncorrectable::UnsupportedRequest
            }
            Drop::Poisoned => {
                shared.refused(|c| &mut c.poisoned_requests, index, poisoned(), head);
                Uncorrectable::PoisonedTlp
            }
        };
        match index {
            Some(index) => self.functions[index].log(&mut self.shared, error, false, LoggedTlp::of(tlp)),
            None => self.log_in_all(LoggedTlp::of(tlp).report(error)),
        }
    }
}

/// Reason for dropping a request without an answer.
#[derive(Clone, Copy)]
pub(super) enum Drop {
    Malformed(Violation),
    Unsupported(Violation),
    Poisoned,
}
