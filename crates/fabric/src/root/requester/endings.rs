// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How requests of the root complex end: with a completion, refused before they leave, repeated after CRS, or timed
//! out. It never begins one.

use super::{Asker, Expects, REGISTER_BYTES, TagSlot, TagState};
use crate::root::effects::Due;
use crate::root::links::host_error;
use crate::root::{Base, ROOT_ID, RootComplex};
use crate::stages::Stage;
use config::header;
use config::{RpPioFailure, Side, Uncorrectable};
use device::CompletionError;
use host::{HostError, HostInput};
use tlp::{Access, Body, Completion, Data, Duration, PayloadPool, Repr, Status, Time, Tlp};

/// Time from a CRS completion to the repeated request (`PCIe 5.0 §2.3.2` leaves it open); riser's own figure.
const CRS_RETRY_INTERVAL: Duration = Duration::from_us(10);
/// The data of a configuration read after the root complex has given up.
const ALL_ONES: u32 = u32::MAX;

impl RootComplex {
    /// CRS has answered the request with `tag`. True if it is repeated, or has ended by CRS Software Visibility or
    /// patience (`PCIe 5.0 §2.3.2`); false if the host must be told, as behind a bare root port.
    #[cold]
    fn come_again(&mut self, port: usize, tag: u16, now: Time) -> bool {
        let Some(function) = &self.base.ports[port].function else { return false };
        let shows = function.bridge.shows_retry();
        let until = now + self.requester.timeout;
        let slot = &mut self.base.ports[port].tags.tags[usize::from(tag)];
        let Body::Config(c) = slot.request.body else { return false };
        let is_read = c.op == Access::Read;
        let over = *slot.retry_until.get_or_insert(until) <= now;
        let value =
            if shows && is_read && c.register_dw == header::ID { header::NOT_READY } else { ALL_ONES };
        if value == ALL_ONES && !over {
            slot.state = TagState::Retrying;
            slot.deadline = now + CRS_RETRY_INTERVAL;
            let deadline = slot.deadline;
            self.requester.watch(deadline, &mut self.base.effects);
            return true;
        }
        if !is_read {
            return false;
        }
        let asker = slot.asker;
        self.release(port, tag, now);
        let data = Data::Carried(self.base.payloads.copy(&value.to_le_bytes()));
        self.tell_asker(now + self.base.profile.root_complex_latency, asker, Ok(data), now);
        true
    }

    /// A tag is free: parts of split reads that wait for one go on.
    #[inline]
    fn release(&mut self, port: usize, tag: u16, now: Time) {
        self.base.ports[port].tags.release(tag);
        self.base.no_longer_open(port);
        if self.peers.is_waiting() {
            self.issue_waiting(now);
        }
    }

    /// Repeats the request with `tag`.
    fn ask_again(&mut self, port: usize, tag: usize, now: Time) {
        let deadline = now + self.requester.timeout;
        let slot = &mut self.base.ports[port].tags.tags[tag];
        (slot.state, slot.deadline) = (TagState::Open, deadline);
        let tlp = Tlp::new(slot.request, slot.data.clone()).with_carry(true);
        slot.bytes.clear();
        self.base.note_retry();
        if self.base.ports[port].is_open() {
            self.base.send(port, now, tlp);
            self.base.effects.wake_port(port, now);
        } else {
            let status = self.base.refuse_unsent(port, now, &tlp);
            refuse(self, port, now, &tlp, status);
        }
    }

    /// Gives the result to the asker at `at`.
    fn tell_asker(&mut self, at: Time, asker: Asker, result: Result<Data, HostError>, now: Time) {
        match asker {
            Asker::Host(id) => self.base.tell_host(at, HostInput::Done { id, result }),
            Asker::Part { split, offset } => {
                self.part_done(split, offset, result, now);
            }
        }
    }
}

impl Base {
    /// A request of the host cannot leave: its link is down, or it is an AtomicOp that is blocked there.
    #[cold]
    pub(super) fn refuse_unsent(&mut self, port: usize, now: Time, tlp: &Tlp) -> Status {
        self.counters.unsupported_requests += 1;
        if self.ports[port].is_open() {
            let error = (Uncorrectable::AtomicOpEgressBlocked, true);
            self.log(port, now, error, Side::Primary, tlp);
            return Status::UnsupportedRequest;
        }
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

    /// A request through `port` is no longer open.
    #[inline]
    fn no_longer_open(&mut self, port: usize) {
        if self.ports[port].function.as_ref().is_some_and(|function| function.is_contained()) {
            self.follow_busy(port);
        }
    }
}

/// A completion for the root complex has come in: it belongs to an open request, or is unexpected.
pub(in crate::root) fn complete(root: &mut RootComplex, port: usize, now: Time, tlp: &Tlp) {
    let Body::Completion(c) = tlp.repr.body else { return };
    root.base.effects.close(tlp, Stage::RootComplex, now + root.base.profile.root_complex_latency);
    let (tag, ours) = (c.tag.bits(), c.requester == ROOT_ID);
    if tlp.prefixes.has_reserved() {
        return unexpected(root, port, now, tlp);
    }
    match root.base.ports[port].tags.tags.get_mut(usize::from(tag)).filter(|_| ours) {
        Some(slot) if slot.state == TagState::Open => {
            let Some(result) = slot.take(&c, tlp, &root.base.payloads) else { return };
            end(root, port, now, (tlp, &c), result);
        }
        Some(slot) if slot.state == TagState::Resting => {
            if c.is_last() {
                root.release(port, tag, now);
                // The program may have waited for the tag.
                root.base.effects.wake(now, Due::Host);
            }
            unexpected(root, port, now, tlp);
        }
        _ => unexpected(root, port, now, tlp),
    }
}

/// An open request has its answer.
fn end(
    root: &mut RootComplex,
    port: usize,
    now: Time,
    (tlp, c): (&Tlp, &Completion),
    result: Result<Data, HostError>,
) {
    let tag = c.tag.bits();
    if let Err(error) = &result
        && fail(root, port, now, (tlp, tag), *error)
    {
        return;
    }
    let slot = &mut root.base.ports[port].tags.tags[usize::from(tag)];
    let (asker, over) = (slot.asker, result.is_ok() || c.is_last());
    slot.state = TagState::Resting;
    if over {
        root.release(port, tag, now);
    } else {
        root.base.no_longer_open(port);
    }
    root.tell_asker(now + root.base.profile.root_complex_latency, asker, result, now);
}

/// An open request has failed with `error`. True if it goes on nevertheless.
#[cold]
fn fail(root: &mut RootComplex, port: usize, now: Time, (tlp, tag): (&Tlp, u16), error: HostError) -> bool {
    let request = root.base.ports[port].tags.tags[usize::from(tag)].request;
    match error {
        HostError::ConfigRetry => return root.come_again(port, tag, now),
        HostError::Completion(CompletionError::UnsupportedRequest) => {
            root.base.request_failed(port, now, request, RpPioFailure::UnsupportedRequest);
        }
        HostError::Completion(CompletionError::CompleterAbort) => {
            root.base.request_failed(port, now, request, RpPioFailure::CompleterAbort);
        }
        // Advisory, since the requester learns of it (`PCIe 5.0 §6.2.3.2.4.3`).
        _ if tlp.repr.ep => {
            root.base.log(port, now, (Uncorrectable::PoisonedTlp, true), Side::Secondary, tlp);
        }
        _ => {}
    }
    false
}

/// Advisory if it is not fatal (`PCIe 5.0 §6.2.3.2.4.5`).
#[cold]
fn unexpected(root: &mut RootComplex, port: usize, now: Time, tlp: &Tlp) {
    root.base.counters.unexpected_completions += 1;
    root.base.log(port, now, (Uncorrectable::UnexpectedCompletion, true), Side::Secondary, tlp);
}

const fn failure_of(status: Status) -> RpPioFailure {
    match status {
        Status::CompleterAbort => RpPioFailure::CompleterAbort,
        _ => RpPioFailure::UnsupportedRequest,
    }
}

/// A request of the root complex was never sent: it ends as if the other end had completed it with `status`.
pub(in crate::root) fn refuse(root: &mut RootComplex, port: usize, now: Time, tlp: &Tlp, status: Status) {
    let (requester, tag) = tlp.repr.transaction();
    root.base.effects.drop(tlp.account);
    let slot =
        root.base.ports[port].tags.tags.get_mut(usize::from(tag.bits())).filter(|_| requester == ROOT_ID);
    let Some(asker) = slot.filter(|slot| slot.state == TagState::Open).map(|slot| slot.asker) else { return };
    root.release(port, tag.bits(), now);
    root.tell_asker(now, asker, Err(host_error(status)), now);
}

impl TagSlot {
    /// Takes a completion; returns the result once the request is served or has failed.
    fn take(&mut self, c: &Completion, tlp: &Tlp, pool: &PayloadPool) -> Option<Result<Data, HostError>> {
        match c.status {
            Status::Success => {}
            Status::UnsupportedRequest => {
                return Some(Err(HostError::Completion(CompletionError::UnsupportedRequest)));
            }
            Status::CompleterAbort => {
                return Some(Err(HostError::Completion(CompletionError::CompleterAbort)));
            }
            // CRS may answer only configuration requests and deferrable writes (`PCIe 5.0 §2.3.1`).
            Status::ConfigRetry if matches!(self.expects, Expects::Register | Expects::NothingOrRetry) => {
                return Some(Err(HostError::ConfigRetry));
            }
            Status::ConfigRetry => return Some(Err(HostError::BadCompletion)),
        }
        if tlp.repr.ep || c.locked != matches!(self.expects, Expects::Locked(_)) {
            return Some(Err(HostError::BadCompletion));
        }
        match (self.expects, c.length_dw) {
            (Expects::Nothing | Expects::NothingOrRetry, None) => Some(Ok(Data::NONE)),
            (Expects::Bytes(len) | Expects::Locked(len) | Expects::Value(len), Some(_)) => {
                self.gather(c, &tlp.data, len, pool)
            }
            (Expects::Register, Some(_)) => self.gather(c, &tlp.data, REGISTER_BYTES, pool),
            (Expects::Lanes(first, len), Some(1)) if tlp.data.len() == 4 => Some(Ok(match &tlp.data {
                Data::Carried(_) => tlp.data.slice(first.into(), len.into()),
                Data::Counted(_) => Data::Carried(pool.fill(len.into(), |_| {})),
            })),
            _ => Some(Err(HostError::BadCompletion)),
        }
    }

    /// Adds a part of the data. Data that the device only counts reads as zeros.
    fn gather(
        &mut self,
        c: &Completion,
        data: &Data,
        len: u32,
        pool: &PayloadPool,
    ) -> Option<Result<Data, HostError>> {
        let (left, here) = (len - self.bytes.len() as u32, data.len() as u32);
        if u32::from(c.byte_count) != left || here == 0 || here > left {
            return Some(Err(HostError::BadCompletion));
        }
        match data {
            Data::Carried(_) if here == len => return Some(Ok(data.clone())),
            Data::Carried(bytes) => self.bytes.extend_from_slice(bytes),
            Data::Counted(_) => self.bytes.resize(self.bytes.len() + data.len(), 0),
        }
        (here == left).then(|| Ok(Data::Carried(pool.copy(&self.bytes))))
    }
}

/// Expires the completion timers that are due by `now`.
pub(in crate::root) fn timeout(root: &mut RootComplex, now: Time) {
    root.requester.timer_at = Time::MAX;
    let mut next = Time::MAX;
    for port in 0..root.base.ports.len() {
        for tag in 0..root.base.ports[port].tags.tags.len() {
            expire(root, now, port, tag);
            let slot = &root.base.ports[port].tags.tags[tag];
            if slot.state != TagState::Free {
                next = next.min(slot.deadline);
            }
        }
    }
    root.requester.watch(next, &mut root.base.effects);
}

fn expire(root: &mut RootComplex, now: Time, port: usize, tag: usize) {
    let timeout = root.requester.timeout;
    let slot = &mut root.base.ports[port].tags.tags[tag];
    match slot.state {
        _ if slot.deadline > now => {}
        TagState::Open => {
            slot.state = TagState::Resting;
            slot.deadline = now + timeout;
            let (asker, request) = (slot.asker, slot.request);
            root.base.no_longer_open(port);
            root.base.counters.completion_timeouts += 1;
            root.tell_asker(now, asker, Err(HostError::CompletionTimeout), now);
            let tlp = Tlp::new(request, Data::NONE);
            root.base.log(port, now, (Uncorrectable::CompletionTimeout, false), Side::Secondary, &tlp);
            root.base.request_failed(port, now, request, RpPioFailure::CompletionTimeout);
        }
        TagState::Retrying => root.ask_again(port, tag, now),
        TagState::Resting => root.release(port, tag as u16, now),
        TagState::Free => {}
    }
}
