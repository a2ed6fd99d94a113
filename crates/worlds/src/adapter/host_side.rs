// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host's requests to the BAR that leads to the device software: sends them as TLPs, and receives their
//! completions. A read that stays unanswered is given up when the host has timed out.

use super::egress::{Egress, Entry};
use device::{CompletionError, Output, Request, RequestOp, Token};
use std::collections::VecDeque;
use std::ops::Range;
use tlp::completion::transaction_value;
use tlp::{
    Awaited, Bdf, Body, Completion, Data, Duration, MemoryOp, MemoryRequest, PayloadPool, Repr, RuleId, Span,
    Status, Tag, TagState, TaggedRequests, Time, Tlp, Violation,
};

/// Maximum number of the host's reads in progress at the device software: tags of 8 bits.
pub const MAX_HOST_READS: u16 = 256;

/// A read of the host that the device software has not answered yet.
struct Open {
    function: usize,
    token: Token,
    awaited: Awaited,
    /// Bytes that have arrived so far, each at its offset.
    bytes: Vec<u8>,
    /// Received parts.
    parts: Vec<Range<u32>>,
}

/// Whether a completion was expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Match {
    /// The completion belongs to a read in progress.
    Fits,
    /// The completion breaks this rule: it answers no read in progress, or does not fit the read.
    Stray(Violation),
}

/// Replies of one function for the endpoint: accepted requests, and answers.
#[derive(Default)]
pub(crate) struct Replies {
    pub(crate) taken: VecDeque<Token>,
    pub(crate) answers: VecDeque<Output>,
}

/// The host's side of the adapter.
pub(crate) struct HostSide {
    /// Requests that wait for room, each with the function that they access; limited by the credits that the endpoint grants.
    waiting: VecDeque<(usize, Request)>,
    /// Reads in progress, and the deadline of each. A read takes the tag that has been free for longest, so a tag rests as
    /// long as possible.
    open: TaggedRequests<Option<Open>>,
    /// The host's completion timeout.
    pub(crate) timeout: Duration,
    pub(crate) replies: Vec<Replies>,
}

impl HostSide {
    /// Creates the host's side of an adapter with this many functions.
    pub(crate) fn new(functions: usize) -> HostSide {
        let mut open = TaggedRequests::default();
        open.set_range(0, MAX_HOST_READS);
        HostSide {
            waiting: VecDeque::new(),
            open,
            timeout: Duration::from_ms(100),
            replies: (0..functions).map(|_| Replies::default()).collect(),
        }
    }

    /// Takes a request to the BAR of a function.
    pub(crate) fn request(&mut self, now: Time, function: usize, request: Request, egress: &mut Egress) {
        self.waiting.push_back((function, request));
        self.proceed(now, egress);
    }

    /// Returns whether requests wait for room.
    pub(crate) fn is_held_up(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns the number of reads of a function in progress.
    pub(crate) fn open(&self, function: usize) -> usize {
        let is_of = |open: &Open| open.function == function;
        self.open.requests().filter(|(_, open)| open.as_ref().is_some_and(is_of)).count()
    }

    /// Forwards waiting requests while there is room. If no tag is free, posted requests pass the waiting reads (`PCIe
    /// 5.0 §2.4.1`).
    pub(crate) fn proceed(&mut self, now: Time, egress: &mut Egress) {
        while egress.has_room_for_request() {
            let next = if self.open.has_free() {
                Some(0)
            } else {
                self.waiting.iter().position(|(_, request)| request.op.is_posted())
            };
            let Some((function, request)) = next.and_then(|at| self.waiting.remove(at)) else { return };
            self.replies[function].taken.push_back(request.token);
            self.forward(now, function, request, egress);
        }
    }

    fn forward(&mut self, now: Time, function: usize, request: Request, egress: &mut Egress) {
        let Request { token, tc, attr, op, .. } = request;
        let (op, span, data) = match op {
            RequestOp::Read { span, locked: false, .. } => (MemoryOp::Read, span, Data::NONE),
            RequestOp::Write { span, data, .. } => (MemoryOp::Write, span, data),
            op if op.is_posted() => return,
            _ => return self.refuse(function, token),
        };
        let tag = if op == MemoryOp::Read {
            let Some((tag, open)) = self.open.take(now + self.timeout) else {
                return self.refuse(function, token);
            };
            let (first_byte, byte_count) = (span.first_byte(), span.byte_count());
            let (awaited, bytes) = (Awaited { first_byte, byte_count }, vec![0; byte_count as usize]);
            *open = Some(Open { function, token, awaited, bytes, parts: Vec::new() });
            tag
        } else {
            Tag::default()
        };
        let body = MemoryRequest { op, requester: Bdf::default(), tag, span };
        let repr = Repr { tc, attr, ..Repr::new(Body::Memory(body)) };
        egress.push(now, Entry::Request(Tlp::new(repr, data)));
    }

    fn refuse(&mut self, function: usize, token: Token) {
        let result = Err(CompletionError::UnsupportedRequest);
        self.replies[function].answers.push_back(Output::Complete { token, result });
    }

    /// Refuses a request for which there is no device software.
    pub(crate) fn no_device(&mut self, tlp: &Tlp) {
        let Body::Memory(m) = tlp.repr.body else { return };
        if m.op.is_read()
            && let Some(open) = self.close(m.tag)
        {
            self.refuse(open.function, open.token);
        }
    }

    fn close(&mut self, tag: Tag) -> Option<Open> {
        let open = self.waiting_under(tag)?.take();
        self.open.release(tag);
        open
    }

    fn waiting_under(&mut self, tag: Tag) -> Option<&mut Option<Open>> {
        self.open.get(tag).filter(|(state, _)| *state == TagState::Waiting).map(|(_, open)| open)
    }

    /// Takes a completion of the device software.
    pub(crate) fn completion(&mut self, c: &Completion, data: &[u8], ep: bool, pool: &PayloadPool) -> Match {
        let open = self.waiting_under(c.tag).and_then(Option::as_mut);
        let unexpected = Violation::new(RuleId::UnexpectedCompletion, transaction_value(c));
        let Some(open) = open.filter(|_| c.requester == Bdf::default()) else {
            return Match::Stray(unexpected);
        };
        let failed = c.status != Status::Success || ep || c.length_dw.is_none();
        if !failed && let Err(why) = open.take(c, data) {
            return Match::Stray(why);
        }
        if !failed && !open.is_whole() {
            return Match::Fits;
        }
        let Some(open) = self.close(c.tag) else { return Match::Stray(unexpected) };
        let result = match c.status {
            _ if !failed => Ok(Data::Carried(pool.copy(&open.bytes))),
            Status::UnsupportedRequest => Err(CompletionError::UnsupportedRequest),
            _ => Err(CompletionError::CompleterAbort),
        };
        self.replies[open.function].answers.push_back(Output::Complete { token: open.token, result });
        Match::Fits
    }

    /// Returns the time to call [`expire`](Self::expire).
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.open.next_deadline()
    }

    /// Ends the next read that has timed out, and returns its request.
    pub(crate) fn expire(&mut self, now: Time) -> Option<Repr> {
        let tag = self.open.due(now)?;
        let Open { function, token, awaited: Awaited { first_byte, byte_count }, .. } = self.close(tag)?;
        self.replies[function].answers.push_back(Output::Abandon { token });
        let span = Span::covering(first_byte, byte_count).ok()?;
        let read = MemoryRequest { op: MemoryOp::Read, requester: Bdf::default(), tag, span };
        Some(Repr::new(Body::Memory(read)))
    }

    /// Drops all requests to a function, and frees their tags.
    pub(crate) fn reset(&mut self, function: usize) {
        self.waiting.retain(|(of, _)| *of != function);
        self.replies[function] = Replies::default();
        for tag in (0..MAX_HOST_READS).map(Tag::from_bits) {
            let open = self.waiting_under(tag).and_then(|open| open.as_ref());
            if open.is_some_and(|open| open.function == function) {
                self.close(tag);
            }
        }
    }
}

impl Open {
    /// Puts the bytes of a completion in their place.
    fn take(&mut self, c: &Completion, data: &[u8]) -> Result<(), Violation> {
        let place = self.awaited.place(c).map_err(|misfit| self.awaited.violation(c, misfit))?;
        if self.parts.iter().any(|part| place.start < part.end && part.start < place.end) {
            return Err(Violation::new(RuleId::CompletionRepeated, c.byte_count.into()));
        }
        if place.len() != data.len() {
            return Err(Violation::new(RuleId::Length, data.len() as u64));
        }
        self.bytes[place.start as usize..place.end as usize].copy_from_slice(data);
        self.parts.push(place);
        Ok(())
    }

    fn is_whole(&self) -> bool {
        self.parts.iter().map(ExactSizeIterator::len).sum::<usize>() == self.bytes.len()
    }
}
