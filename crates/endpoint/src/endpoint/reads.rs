// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DMA reads of one function: splits them into MRds, matches their completions and assembles the data. This module also
//! handles AtomicOps, which are answered like reads. Never calls the device.
//!
//! Completions of one request arrive in address order. Completions of different requests arrive in any order (`PCIe 5.0
//! §2.4.1`). A read fails as soon as any part of it fails. Later completions of the read are dropped, and its tags are
//! freed as if it had not failed.

use super::assembly::Assembly;
use super::outbox::{MAX_PARKED, Outbox};
use super::tags::{Part, Sent};
use crate::front::findings::{Finding, judge};
use crate::front::settings::FunctionSettings;
use device::seam::{DmaAtomic, DmaError, DmaId, DmaOptions, DmaRead};
use tlp::split::request_piece;
use tlp::{
    AtomicRequest, Awaited, Bdf, Body, Completion, Data, Duration, MemoryOp, MemoryRequest, OperandSize,
    PayloadPool, Repr, Span, Tag, TagState, TaggedRequests, TcSet, Time, Tlp,
};

/// Result of a read, for the device.
pub(crate) type Done = (DmaId, Result<Data, DmaError>);

/// A tag whose deadline has passed or is now.
pub(crate) struct Expired {
    /// True for a Completion Timeout of its request; false if the tag has been unused long enough.
    pub(crate) timed_out: bool,
    /// The request and its tag.
    pub(crate) request: Option<(Sent, Tag)>,
    /// The result of the transfer, if this completion ended it.
    pub(crate) done: Option<Done>,
}

struct Dma {
    id: DmaId,
    len: u32,
    received: u32,
    /// Tags in use for this read.
    tags: u16,
    carry: bool,
    state: DmaState,
    assembly: Assembly,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DmaState {
    Free,
    Running,
    /// The device has the result. Tags may still wait for completions to drop.
    Ended,
}

/// A read that is being split.
pub(super) struct Cursor {
    dma: u16,
    address: u64,
    remaining: u32,
    offset: u32,
    options: DmaOptions,
    carry: bool,
}

/// The request being sent: a read, which is split, or an AtomicOp. The discriminant is a separate word, as in
/// [`Output`](device::seam::Output).
#[repr(u64)]
pub(super) enum NonPosted {
    Read(Cursor),
    Atomic(DmaAtomic, OperandSize),
}

/// The DMA reads of one function. At most one more read is outstanding than there are tags.
pub(crate) struct ReadEngine {
    pub(crate) tags: TaggedRequests<Part>,
    dmas: Vec<Dma>,
    free: Vec<u16>,
    pub(super) outbox: Outbox<NonPosted>,
}

impl ReadEngine {
    pub(crate) fn new() -> ReadEngine {
        ReadEngine {
            tags: TaggedRequests::default(),
            dmas: Vec::new(),
            free: Vec::new(),
            outbox: Outbox::new(MAX_PARKED),
        }
    }

    /// Returns the number of outstanding reads, without reads that have ended and only wait for completions to drop.
    pub(crate) fn under_way(&self) -> usize {
        self.dmas.iter().filter(|d| d.state == DmaState::Running).count()
    }

    /// Returns whether a request is neither completed, timed out nor void.
    pub(crate) fn is_pending(&self) -> bool {
        let pending = |(state, part): (TagState, &Part)| state == TagState::Waiting && part.owner.is_some();
        self.tags.requests().any(pending)
    }

    /// Begins to split a read, either after earlier entries or immediately.
    pub(crate) fn begin(&mut self, read: DmaRead, settings: &FunctionSettings, stamp: u64, at_once: bool) {
        let tc = read.options.tc;
        let cursor = self.cursor(read, settings);
        self.outbox.accept(stamp, tc, NonPosted::Read(cursor), at_once);
    }

    /// Begins to split a read at once. No other read may be waiting. Returns its first TLP. Usually this is the only
    /// piece of the read, which then never enters the outbox.
    #[inline(always)]
    pub(crate) fn begin_now(
        &mut self,
        now: Time,
        requester: Bdf,
        read: DmaRead,
        settings: &FunctionSettings,
        stamp: u64,
    ) -> Option<Tlp> {
        let mut cursor = self.cursor(read, settings);
        let (span, tag) = cursor.ask(&mut self.tags, &mut self.dmas, now, settings)?;
        if cursor.remaining == 0 {
            let Cursor { options, carry, .. } = cursor;
            return Some(read_request(requester, span, tag, options, carry));
        }
        let (options, carry) = (cursor.options.clone(), cursor.carry);
        self.outbox.accept(stamp, options.tc, NonPosted::Read(cursor), true);
        Some(read_request(requester, span, tag, options, carry))
    }

    #[inline(always)]
    fn cursor(&mut self, read: DmaRead, settings: &FunctionSettings) -> Cursor {
        let DmaRead { id, address, len, carry, mut options, .. } = read;
        options.attr &= settings.attributes;
        Cursor { dma: self.allocate(id, len, carry), address, remaining: len, offset: 0, options, carry }
    }

    /// Accepts an AtomicOp, which is sent immediately or after earlier entries.
    pub(crate) fn begin_atomic(
        &mut self,
        mut atomic: DmaAtomic,
        operand: OperandSize,
        settings: &FunctionSettings,
        stamp: u64,
        at_once: bool,
    ) {
        let tc = atomic.options.tc;
        atomic.options.attr &= settings.attributes;
        self.outbox.accept(stamp, tc, NonPosted::Atomic(atomic, operand), at_once);
    }

    /// Returns the next TLP of the selected entry if there is a tag for it.
    pub(crate) fn next_request(
        &mut self,
        now: Time,
        requester: Bdf,
        settings: &FunctionSettings,
    ) -> Option<Tlp> {
        match self.outbox.current()? {
            NonPosted::Read(_) => self.next_read(now, requester, settings),
            NonPosted::Atomic(..) => self.next_atomic(now, requester, settings),
        }
    }

    /// Returns the request of an AtomicOp. Its completion has Lower Address zero (`PCIe 5.0 §2.2.9`).
    fn next_atomic(&mut self, now: Time, requester: Bdf, settings: &FunctionSettings) -> Option<Tlp> {
        if !self.tags.has_free() {
            return None;
        }
        let NonPosted::Atomic(atomic, operand) = self.outbox.finish()? else { return None };
        let DmaAtomic { id, address, op, operands, options, .. } = atomic;
        let deadline = settings.completion_timeout.map_or(Time::MAX, |t| now + t);
        let dma = self.allocate(id, operand.bytes(), true);
        let DmaOptions { attr, tc, hint, prefixes, .. } = options;
        let awaited = Awaited { first_byte: 0, byte_count: operand.bytes() };
        let span = Span::covering(address, operand.bytes()).ok();
        let sent = span.map(|span| Sent { span, atomic: Some((op, operand)), tc, attr, hint });
        let (tag, part) = self.tags.take(deadline)?;
        *part = Part { owner: Some(dma), awaited, offset: 0, sent };
        self.dmas[usize::from(dma)].tags = 1;
        let body = Body::Atomic(AtomicRequest { op, operand, requester, tag, address });
        let repr = Repr { tc, attr, th: hint, ..Repr::new(body) };
        Some(Tlp { prefixes, ..Tlp::new(repr, operands).with_carry(true) })
    }

    fn allocate(&mut self, id: DmaId, len: u32, carry: bool) -> u16 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.dmas.push(Dma {
                id,
                len: 0,
                received: 0,
                tags: 0,
                carry: false,
                state: DmaState::Free,
                assembly: Assembly::default(),
            });
            self.dmas.len() as u16 - 1
        });
        let dma = &mut self.dmas[usize::from(index)];
        (dma.id, dma.len, dma.received) = (id, len, 0);
        (dma.tags, dma.carry, dma.state) = (0, carry, DmaState::Running);
        index
    }

    fn next_read(&mut self, now: Time, requester: Bdf, settings: &FunctionSettings) -> Option<Tlp> {
        let NonPosted::Read(cursor) = self.outbox.current()? else { return None };
        let (span, tag) = cursor.ask(&mut self.tags, &mut self.dmas, now, settings)?;
        let (options, carry) = (cursor.options.clone(), cursor.carry);
        if cursor.remaining == 0 {
            self.outbox.finish();
        }
        Some(read_request(requester, span, tag, options, carry))
    }

    /// Takes a completion with the Requester ID of this function.
    pub(crate) fn complete(
        &mut self,
        completion: &Completion,
        tlp: &Tlp,
        settings: &FunctionSettings,
        quarantine_until: Time,
        pool: &PayloadPool,
    ) -> (Finding, Option<Done>) {
        let finding = judge(&mut self.tags, Part::expected, completion, tlp, settings);
        match finding {
            Finding::Unexpected | Finding::Late => (finding, None),
            Finding::Good | Finding::Poisoned => self.data(completion, tlp, finding, pool),
            _ => self.without_data(completion.tag, finding, quarantine_until),
        }
    }

    /// Takes a completion that is malformed or refuses its request.
    #[cold]
    fn without_data(
        &mut self,
        tag: Tag,
        finding: Finding,
        quarantine_until: Time,
    ) -> (Finding, Option<Done>) {
        let owner = self.tags.get(tag).and_then(|(_, part)| part.owner);
        match (finding, owner) {
            (Finding::Malformed(_), _) => (finding, self.malformed(tag, owner, quarantine_until)),
            (_, Some(owner)) => (finding, self.refused(tag, owner, finding)),
            (_, None) => {
                self.tags.release(tag);
                (Finding::Swallowed, None)
            }
        }
    }

    /// Ends a read whose completion is malformed. The rest of the request may or may not still arrive.
    fn malformed(&mut self, tag: Tag, owner: Option<u16>, quarantine_until: Time) -> Option<Done> {
        self.quarantine(tag, quarantine_until);
        owner.and_then(|owner| self.lose_tag(owner, DmaError::Malformed))
    }

    fn refused(&mut self, tag: Tag, owner: u16, finding: Finding) -> Option<Done> {
        self.tags.release(tag);
        let aborted = finding == Finding::Aborted;
        self.lose_tag(owner, if aborted { DmaError::CompleterAbort } else { DmaError::UnsupportedRequest })
    }

    fn data(
        &mut self,
        completion: &Completion,
        tlp: &Tlp,
        finding: Finding,
        pool: &PayloadPool,
    ) -> (Finding, Option<Done>) {
        let Some((_, part)) = self.tags.get(completion.tag) else { return (Finding::Unexpected, None) };
        // The data fits what is awaited.
        let (bytes, offset, owner) = (tlp.data.len() as u32, part.offset, part.owner);
        part.awaited = part.awaited.behind(bytes);
        part.offset += bytes;
        let last = part.awaited.byte_count == 0;
        if last {
            self.tags.release(completion.tag);
        }
        // The transfer no longer needs the completion, but a poisoned one is still reported.
        let swallowed = if finding == Finding::Poisoned { finding } else { Finding::Swallowed };
        let Some(owner) = owner else { return (swallowed, None) };
        let dma = &mut self.dmas[usize::from(owner)];
        dma.tags -= u16::from(last);
        if dma.state != DmaState::Running {
            self.free_if_done(owner);
            return (swallowed, None);
        }
        if finding == Finding::Poisoned {
            return (finding, self.fail(owner, DmaError::Poisoned));
        }
        if dma.carry && dma.len > 0 {
            dma.assembly.add(offset, tlp.data.clone());
        }
        dma.received += bytes;
        (finding, self.finish_if_whole(owner, pool))
    }

    fn finish_if_whole(&mut self, owner: u16, pool: &PayloadPool) -> Option<Done> {
        let dma = &mut self.dmas[usize::from(owner)];
        // A zero-length read counts one byte on the wire.
        if dma.received < dma.len.max(1) {
            return None;
        }
        let done = (dma.id, Ok(dma.assembly.finish(dma.len, pool)));
        dma.state = DmaState::Ended;
        self.free_if_done(owner);
        Some(done)
    }

    fn lose_tag(&mut self, owner: u16, error: DmaError) -> Option<Done> {
        self.dmas[usize::from(owner)].tags -= 1;
        self.fail(owner, error).or_else(|| {
            self.free_if_done(owner);
            None
        })
    }

    /// Ends a read with an error, once.
    fn fail(&mut self, owner: u16, error: DmaError) -> Option<Done> {
        if !self.outbox.is_empty() {
            self.outbox.retain(|item| !matches!(item, NonPosted::Read(c) if c.dma == owner));
        }
        let dma = &mut self.dmas[usize::from(owner)];
        let running = dma.state == DmaState::Running;
        if running {
            dma.state = DmaState::Ended;
        }
        dma.assembly.clear();
        let done = running.then_some((dma.id, Err(error)));
        self.free_if_done(owner);
        done
    }

    /// Frees a read that has ended, if it has no tag left.
    fn free_if_done(&mut self, owner: u16) {
        let dma = &mut self.dmas[usize::from(owner)];
        if dma.state == DmaState::Ended && dma.tags == 0 {
            dma.state = DmaState::Free;
            self.free.push(owner);
        }
    }

    /// Ends the selected transfer after Bus Master Enable was cleared: the function may not request
    /// the rest.
    pub(crate) fn stop_sending(&mut self, error: DmaError) -> Option<Done> {
        match self.outbox.finish()? {
            NonPosted::Read(cursor) => self.fail(cursor.dma, error),
            NonPosted::Atomic(atomic, _) => Some((atomic.id, Err(error))),
        }
    }

    /// Handles the next tag whose deadline has passed or is now: a request that timed out is quarantined for another
    /// `quarantine`; a quarantined tag becomes free.
    pub(crate) fn expire(&mut self, now: Time, quarantine: Duration) -> Option<Expired> {
        let tag = self.tags.due(now)?;
        let (state, &mut Part { owner, sent, .. }) = self.tags.get(tag)?;
        if state == TagState::Resting {
            self.tags.release(tag);
            return Some(Expired { timed_out: false, request: None, done: None });
        }
        self.quarantine(tag, now + quarantine);
        let done = owner.and_then(|owner| self.lose_tag(owner, DmaError::CompletionTimeout));
        Some(Expired { timed_out: owner.is_some(), request: sent.map(|sent| (sent, tag)), done })
    }

    /// Ends all reads and AtomicOps with this error; their tags stay as they are.
    #[cold]
    pub(crate) fn fail_all(&mut self, error: DmaError) -> Vec<Done> {
        let mut ended = Vec::new();
        while self.outbox.select(TcSet::ALL, |_, _| true) {
            if let Some(NonPosted::Atomic(atomic, _)) = self.outbox.finish() {
                ended.push((atomic.id, Err(error)));
            }
        }
        for dma in self.dmas.iter_mut().filter(|d| d.state == DmaState::Running) {
            dma.state = DmaState::Ended;
            ended.push((dma.id, Err(error)));
        }
        ended
    }

    /// Drops all reads. Their tags stay out of use until their completions have arrived or cannot arrive any more.
    pub(crate) fn void_all(&mut self, until: Time) {
        self.outbox.clear(|_| {});
        self.tags.void(until, |part| part.owner = None);
        self.free.clear();
        for (index, dma) in self.dmas.iter_mut().enumerate() {
            dma.state = DmaState::Free;
            dma.tags = 0;
            dma.assembly.clear();
            self.free.push(index as u16);
        }
    }
}

impl ReadEngine {
    /// Keeps the tag out of use until `until`, or until its last completion has arrived.
    fn quarantine(&mut self, tag: Tag, until: Time) {
        if let Some((_, part)) = self.tags.get(tag) {
            part.owner = None;
        }
        self.tags.rest(tag, until);
    }
}

impl Cursor {
    /// Returns the span of the next request, and the bytes by which the read advances.
    #[inline(always)]
    fn span(&self, settings: &FunctionSettings) -> Option<(Span, u32)> {
        if self.remaining == 0 {
            return Some((Span::zero_length(self.address), 0));
        }
        let limit = settings.mrrs.bytes();
        let mut piece = request_piece(self.address, self.remaining, limit);
        if settings.align_reads {
            let to_boundary = u64::from(limit) - self.address % u64::from(limit);
            piece = piece.min(to_boundary as u32);
        }
        Some((Span::covering(self.address, piece).ok()?, piece))
    }

    /// Takes a tag for the next request, and advances the read by this request. Returns the span and the tag.
    #[inline(always)]
    fn ask(
        &mut self,
        tags: &mut TaggedRequests<Part>,
        dmas: &mut [Dma],
        now: Time,
        settings: &FunctionSettings,
    ) -> Option<(Span, Tag)> {
        let (span, piece) = self.span(settings)?;
        let deadline = settings.completion_timeout.map_or(Time::MAX, |t| now + t);
        let (tag, part) = tags.take(deadline)?;
        let DmaOptions { attr, tc, hint, .. } = self.options;
        let hint = hint.filter(|_| is_whole(span));
        (part.owner, part.offset) = (Some(self.dma), self.offset);
        part.awaited = Awaited { first_byte: span.first_byte(), byte_count: span.byte_count() };
        part.sent = Some(Sent { span, atomic: None, tc, attr, hint });
        dmas[usize::from(self.dma)].tags += 1;
        self.address = self.address.wrapping_add(u64::from(piece));
        self.remaining -= piece;
        self.offset += piece;
        Some((span, tag))
    }
}

/// Returns whether all Byte Enables of the span are ones.
fn is_whole(span: Span) -> bool {
    !span.is_zero_length() && (span.first_byte() | u64::from(span.byte_count())) & 3 == 0
}

/// Returns the MRd of a span. A hint implies Byte Enables of all ones (`PCIe 5.0 §2.2.7.1`). For other Byte Enables the
/// hint is omitted.
#[inline]
fn read_request(requester: Bdf, span: Span, tag: Tag, options: DmaOptions, carry: bool) -> Tlp {
    let request = MemoryRequest { op: MemoryOp::Read, requester, tag, span };
    let DmaOptions { attr, tc, hint, prefixes, .. } = options;
    let th = hint.filter(|_| is_whole(span));
    let repr = Repr { tc, attr, th, ..Repr::new(Body::Memory(request)) };
    Tlp { prefixes, ..Tlp::new(repr, Data::NONE).with_carry(carry) }
}
