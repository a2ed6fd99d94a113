// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The end of requests of the root complex: completed, refused before they are sent, repeated after CRS, or timed out.
//! This module never begins a request.

use super::{Asker, Pending};
use crate::bridge::refusals::violation;
use crate::effects::Due;
use crate::root::links::host_error;
use crate::root::{Base, ROOT_ID, RootComplex};
use crate::stages::Stage;
use config::header;
use config::{RpPioFailure, Side, Uncorrectable};
use device::CompletionError;
use host::{HostError, HostInput};
use tlp::completion::{not_repeated, repeats};
use tlp::rules::Reason;
use tlp::rules::reasons::{of_transaction, poisoned, unsupported_prefixes, wrong_length};
use tlp::{
    Access, Body, Completion, ConfigRequest, Data, Duration, IoRequest, MemoryOp, PayloadPool, Repr, RuleId,
    Status, Tag, TagState, Time, Tlp, Violation,
};

/// Time from a CRS completion to the repeated request. `PCIe 5.0 §2.3.2` leaves it open, so this is our choice.
const CRS_RETRY_INTERVAL: Duration = Duration::from_us(10);
/// The data of a configuration read after the root complex has given up.
const ALL_ONES: u32 = u32::MAX;

/// Reason why a completion does not serve its request.
#[derive(Clone, Copy)]
enum Failure {
    /// The completer refused the request.
    Refused(CompletionError),
    /// CRS.
    Retry,
    /// The data is poisoned.
    Poisoned,
    /// The completion breaks this rule, and does not match the request (`PCIe 5.0 §2.3.2`).
    Malformed(Violation),
}

impl From<Failure> for HostError {
    fn from(failure: Failure) -> HostError {
        match failure {
            Failure::Refused(error) => HostError::Completion(error),
            Failure::Retry => HostError::ConfigRetry,
            Failure::Poisoned | Failure::Malformed(_) => HostError::BadCompletion,
        }
    }
}

impl RootComplex {
    /// Handles CRS for the request with `tag`. Returns true if the request is repeated, or has ended by CRS Software
    /// Visibility or after the retry time (`PCIe 5.0 §2.3.2`). Returns false if the host gets the error, as at a bare
    /// root port.
    #[cold]
    fn come_again(&mut self, port: usize, tag: Tag, now: Time) -> bool {
        let Some(function) = &self.base.ports[port].function else { return false };
        let shows = function.bridge.space().crs_software_visibility();
        let until = now + self.base.profile.completion_timeout;
        let Some(pending) = self.base.ports[port].open_request(tag) else { return false };
        let Body::Config(c) = pending.request.body else { return false };
        let is_read = c.op == Access::Read;
        let over = *pending.retry_until.get_or_insert(until) <= now;
        let value =
            if shows && is_read && c.register_dw == header::ID { header::NOT_READY } else { ALL_ONES };
        if value == ALL_ONES && !over {
            pending.retrying = true;
            let again = now + CRS_RETRY_INTERVAL;
            self.base.ports[port].tags.postpone(tag, again);
            self.requester.watch(again, &mut self.base.effects);
            return true;
        }
        if !is_read {
            return false;
        }
        let asker = pending.asker;
        self.release(port, tag, now);
        let data = Data::Carried(self.base.payloads.copy(&value.to_le_bytes()));
        self.tell_asker(now + self.base.profile.root_complex_latency, asker, Ok(data), now);
        true
    }

    /// Frees a tag. Parts of split reads that wait for a tag continue.
    fn release(&mut self, port: usize, tag: Tag, now: Time) {
        let tags = &mut self.base.ports[port].tags;
        if let Some((_, pending)) = tags.get(tag) {
            pending.data = Data::NONE;
        }
        tags.release(tag);
        self.base.no_longer_open(port);
        if self.peers.is_waiting() {
            self.issue_waiting(now);
        }
    }

    /// Repeats the request with `tag`.
    fn ask_again(&mut self, port: usize, tag: Tag, now: Time) {
        let deadline = self.base.ports[port].deadline(now);
        let tags = &mut self.base.ports[port].tags;
        tags.postpone(tag, deadline);
        let Some((_, pending)) = tags.get(tag) else { return };
        pending.retrying = false;
        pending.begin();
        let tlp = Tlp::new(pending.request, pending.data.clone()).with_carry(true);
        self.base.note_retry();
        if self.base.ports[port].is_open() {
            self.base.send(port, now, tlp);
            self.base.effects.wake_port(port, now);
        } else {
            let status = self.base.refuse_unsent(port, now, &tlp);
            self.refuse(port, now, &tlp, status);
        }
    }

    /// Delivers the result to the requester at `at`.
    fn tell_asker(&mut self, at: Time, asker: Asker, result: Result<Data, HostError>, now: Time) {
        match asker {
            Asker::Host(id) => self.base.tell_host(at, HostInput::Done { id, result }),
            Asker::Part { split, offset } => {
                self.part_done(split, offset, result, now);
                // The program may have waited for the tag.
                self.base.effects.wake(now, Due::Host);
            }
        }
    }
}

impl Base {
    /// Refuses a request of the host that cannot be sent, because its link is down or the port blocks AtomicOps.
    #[cold]
    pub(super) fn refuse_unsent(&mut self, port: usize, now: Time, tlp: &Tlp) -> Status {
        if self.ports[port].is_open() {
            let why = violation(Uncorrectable::AtomicOpEgressBlocked, tlp, None);
            self.refused(|b| &mut b.counters.unsupported_requests, port, now, why, tlp);
            self.log(port, now, Uncorrectable::AtomicOpEgressBlocked, true, Side::Primary, tlp);
            return Status::UnsupportedRequest;
        }
        // `refuse_closed` names the rule.
        self.counters.unsupported_requests += 1;
        let status = self.refuse_closed(port, now, tlp);
        if tlp.class() != tlp::Class::Posted {
            self.request_failed(port, now, tlp.repr, failure_of(status));
        }
        status
    }

    /// A request of the root complex through `port` has failed.
    #[cold]
    fn request_failed(&mut self, port: usize, now: Time, request: Repr, failure: RpPioFailure) {
        let Some(function) = &mut self.ports[port].function else { return };
        function.bridge.request_failed(&Tlp::new(request, Data::NONE), failure);
        self.report(port, now, None);
    }

    /// Notes that a request through `port` is no longer open.
    fn no_longer_open(&mut self, port: usize) {
        if self.ports[port].function.as_ref().is_some_and(|function| function.is_contained()) {
            self.follow_busy(port);
        }
    }
}

impl RootComplex {
    /// Handles a completion for the root complex, which belongs to an open request or is unexpected.
    pub(in crate::root) fn complete(&mut self, port: usize, now: Time, tlp: &Tlp) {
        let Body::Completion(c) = tlp.repr.body else { return };
        self.base.effects.close(tlp, Stage::RootComplex, now + self.base.profile.root_complex_latency);
        if tlp.prefixes.has_reserved() {
            return self.unexpected(port, now, tlp, unsupported_prefixes(&tlp.prefixes));
        }
        if c.requester != ROOT_ID {
            return self.unexpected(port, now, tlp, of_transaction(RuleId::UnexpectedCompletion, &tlp.repr));
        }
        match self.base.ports[port].tags.get(c.tag) {
            Some((TagState::Waiting, pending)) if !pending.retrying => {
                let lenient = self.requester.lenient_completions;
                let Some(result) = pending.take(&c, tlp, &self.base.payloads, lenient) else { return };
                self.end(port, now, &c, tlp, result);
            }
            Some((TagState::Resting, _)) => {
                if c.is_last() {
                    self.release(port, c.tag, now);
                    // The program may have waited for the tag.
                    self.base.effects.wake(now, Due::Host);
                }
                self.unexpected(port, now, tlp, of_transaction(RuleId::LateCompletion, &tlp.repr));
            }
            _ => self.unexpected(port, now, tlp, of_transaction(RuleId::UnexpectedCompletion, &tlp.repr)),
        }
    }

    /// Ends an open request with its result.
    fn end(&mut self, port: usize, now: Time, c: &Completion, tlp: &Tlp, result: Result<Data, Failure>) {
        let Some(&mut Pending { asker, request, .. }) = self.base.ports[port].open_request(c.tag) else {
            return;
        };
        if let Err(failure) = &result
            && self.fail(port, now, request, tlp, *failure)
        {
            return;
        }
        if result.is_ok() || c.is_last() {
            self.release(port, c.tag, now);
        } else {
            let rested = now + self.base.ports[port].rest();
            let tags = &mut self.base.ports[port].tags;
            tags.rest(c.tag, tags.deadline(c.tag).min(rested));
            self.requester.watch(rested, &mut self.base.effects);
            self.base.no_longer_open(port);
        }
        let result = result.map_err(HostError::from);
        self.tell_asker(now + self.base.profile.root_complex_latency, asker, result, now);
    }

    /// Handles the failure of an open request by `tlp`. Returns true if the request continues nevertheless.
    #[cold]
    fn fail(&mut self, port: usize, now: Time, request: Repr, tlp: &Tlp, failure: Failure) -> bool {
        match failure {
            Failure::Retry => return self.come_again(port, request.transaction().1, now),
            Failure::Refused(CompletionError::UnsupportedRequest) => {
                self.base.request_failed(port, now, request, RpPioFailure::UnsupportedRequest);
            }
            Failure::Refused(_) => {
                self.base.request_failed(port, now, request, RpPioFailure::CompleterAbort);
            }
            // An advisory error, because the requester handles it (`PCIe 5.0 §6.2.3.2.4.3`).
            Failure::Poisoned => {
                self.base.refused(|b| &mut b.counters.poisoned, port, now, poisoned(), tlp);
                self.base.log(port, now, Uncorrectable::PoisonedTlp, true, Side::Secondary, tlp);
            }
            Failure::Malformed(why) => {
                self.base.refused(|b| &mut b.counters.malformed, port, now, why, tlp);
                self.base.log(port, now, Uncorrectable::MalformedTlp, false, Side::Secondary, tlp);
            }
        }
        false
    }

    /// Reports an unexpected completion. Advisory if it is not fatal (`PCIe 5.0 §6.2.3.2.4.5`).
    #[cold]
    fn unexpected(&mut self, port: usize, now: Time, tlp: &Tlp, why: Violation) {
        self.base.refused(|b| &mut b.counters.unexpected_completions, port, now, why, tlp);
        self.base.log(port, now, Uncorrectable::UnexpectedCompletion, true, Side::Secondary, tlp);
    }
}

const fn failure_of(status: Status) -> RpPioFailure {
    match status {
        Status::CompleterAbort => RpPioFailure::CompleterAbort,
        _ => RpPioFailure::UnsupportedRequest,
    }
}

impl RootComplex {
    /// Ends a request of the root complex that was never sent, as if the other end had completed it with `status`.
    pub(in crate::root) fn refuse(&mut self, port: usize, now: Time, tlp: &Tlp, status: Status) {
        let (requester, tag) = tlp.repr.transaction();
        self.base.effects.drop(tlp.account);
        let pending = self.base.ports[port].open_request(tag).filter(|_| requester == ROOT_ID);
        let Some(asker) = pending.map(|pending| pending.asker) else { return };
        self.release(port, tag, now);
        self.tell_asker(now, asker, Err(host_error(status)), now);
    }
}

impl Pending {
    /// Handles a completion. Returns the result if the request is complete or has failed. If `lenient`, Traffic Class
    /// and attributes may differ from the request's.
    fn take(
        &mut self,
        c: &Completion,
        tlp: &Tlp,
        pool: &PayloadPool,
        lenient: bool,
    ) -> Option<Result<Data, Failure>> {
        let refused = |error| Some(Err(Failure::Refused(error)));
        let malformed = |why| Some(Err(Failure::Malformed(why)));
        if !lenient && !repeats(&tlp.repr, self.request.tc, self.request.attr) {
            let why = not_repeated(&tlp.repr, self.request.tc, self.request.attr);
            return why.and_then(malformed);
        }
        match c.status {
            Status::Success => {}
            Status::UnsupportedRequest => return refused(CompletionError::UnsupportedRequest),
            Status::CompleterAbort => return refused(CompletionError::CompleterAbort),
            Status::ConfigRetry if self.may_be_retried() => return Some(Err(Failure::Retry)),
            Status::ConfigRetry => {
                return malformed(Violation::new(RuleId::CompletionRetry, c.status.bits().into()));
            }
        }
        let locked = self.is_memory(MemoryOp::ReadLocked);
        if c.locked != locked {
            let kind = |locked: bool| 0x0a | u64::from(locked);
            return malformed(Violation::expecting(RuleId::CompletionLocked, kind(c.locked), kind(locked)));
        }
        match (&self.request.body, c.length_dw) {
            (body, None) if !asks_for_data(body) => Some(Ok(Data::NONE)),
            (Body::Io(io), Some(1)) if io.op == Access::Read && tlp.data.len() == 4 => {
                if tlp.repr.ep {
                    return Some(Err(Failure::Poisoned));
                }
                let (first, len) = (io.first_be.trailing_zeros(), io.first_be.count_ones());
                Some(Ok(match &tlp.data {
                    Data::Carried(_) => tlp.data.slice(first as usize, len as usize),
                    Data::Counted(_) => Data::Carried(pool.fill(len as usize, |_| {})),
                }))
            }
            (Body::Io(_), _) => malformed(self.wrong_data(c, tlp)),
            (body, Some(_)) if asks_for_data(body) => self.gather(c, tlp, pool),
            _ => malformed(self.wrong_data(c, tlp)),
        }
    }

    /// Returns the rule broken by a completion with the wrong data: present but not requested, missing, or not of one DW as for
    /// I/O.
    #[cold]
    fn wrong_data(&self, c: &Completion, tlp: &Tlp) -> Violation {
        let (has, asks) = (c.length_dw.is_some(), asks_for_data(&self.request.body));
        let fmt = |has: bool| u64::from(has) << 1;
        match c.length_dw {
            _ if has != asks => Violation::expecting(RuleId::CompletionType, fmt(has), fmt(asks)),
            Some(dw) if dw != 1 => Violation::new(RuleId::CompletionLength, dw.into()),
            _ => wrong_length(tlp),
        }
    }

    fn is_memory(&self, op: MemoryOp) -> bool {
        matches!(self.request.body, Body::Memory(m) if m.op == op)
    }

    /// CRS may answer only configuration requests and deferrable writes (`PCIe 5.0 §2.3.1`).
    fn may_be_retried(&self) -> bool {
        matches!(self.request.body, Body::Config(_)) || self.is_memory(MemoryOp::WriteDeferrable)
    }

    /// Adds a part of the data. Data that the device only counts reads as zeros.
    fn gather(&mut self, c: &Completion, tlp: &Tlp, pool: &PayloadPool) -> Option<Result<Data, Failure>> {
        let here = tlp.data.len();
        match self.awaited.place_next(c) {
            Ok(bytes) if bytes as usize == here => {}
            Ok(_) => return Some(Err(Failure::Malformed(wrong_length(tlp)))),
            Err(misfit) => return Some(Err(Failure::Malformed(self.awaited.violation(c, misfit)))),
        }
        if tlp.repr.ep {
            return Some(Err(Failure::Poisoned));
        }
        self.awaited = self.awaited.behind(here as u32);
        let is_whole = self.awaited.byte_count == 0;
        match &tlp.data {
            Data::Carried(_) if is_whole && self.bytes.is_empty() => return Some(Ok(tlp.data.clone())),
            Data::Carried(bytes) => self.bytes.extend_from_slice(bytes),
            Data::Counted(_) => self.bytes.resize(self.bytes.len() + here, 0),
        }
        is_whole.then(|| Ok(Data::Carried(pool.copy(&self.bytes))))
    }
}

/// Returns whether a Successful Completion of this request has data.
const fn asks_for_data(body: &Body) -> bool {
    match body {
        Body::Memory(m) => m.op.is_read(),
        Body::Io(IoRequest { op, .. }) | Body::Config(ConfigRequest { op, .. }) => matches!(op, Access::Read),
        Body::Atomic(_) => true,
        Body::Completion(_) | Body::Message(_) => false,
    }
}

impl RootComplex {
    /// Expires the completion timers that are due by `now`.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.requester.timer.come(now);
        let mut next = Time::MAX;
        for port in 0..self.base.ports.len() {
            while let Some(tag) = self.base.ports[port].tags.due(now) {
                self.expire(now, port, tag);
            }
            next = next.min(self.base.ports[port].tags.next_deadline().unwrap_or(Time::MAX));
        }
        self.requester.watch(next, &mut self.base.effects);
    }

    fn expire(&mut self, now: Time, port: usize, tag: Tag) {
        let until = now + self.base.ports[port].rest();
        let tags = &mut self.base.ports[port].tags;
        match tags.get(tag) {
            Some((TagState::Waiting, pending)) if pending.retrying => self.ask_again(port, tag, now),
            Some((TagState::Waiting, &mut Pending { asker, request, .. })) => {
                tags.rest(tag, until);
                self.base.no_longer_open(port);
                let waited = self.base.ports[port].config.completion_timeout.unwrap_or_default();
                let (why, tlp) = (Reason::timeout(waited), Tlp::new(request, Data::NONE));
                self.base.refused(|b| &mut b.counters.completion_timeouts, port, now, why, &tlp);
                self.tell_asker(now, asker, Err(HostError::CompletionTimeout), now);
                self.base.log(port, now, Uncorrectable::CompletionTimeout, false, Side::Secondary, &tlp);
                self.base.request_failed(port, now, request, RpPioFailure::CompletionTimeout);
            }
            _ => self.release(port, tag, now),
        }
    }
}
