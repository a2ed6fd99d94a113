// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host's requests to the BAR that leads to the device software: as TLPs out, and their completions back. Never waits
//! for more than the host itself does: a read that stays unanswered is given up when the host has timed out.

use super::egress::{Egress, Entry};
use device::{CompletionError, Output, Request, RequestOp, Token};
use std::collections::{BTreeMap, VecDeque};
use tlp::{
    Bdf, Body, Completion, Data, Duration, MemoryOp, MemoryRequest, PayloadPool, Repr, Span, Status, Tag,
    Time, Tlp,
};

/// Reads of the host that the device software may have under way: tags of 8 bits.
pub const MAX_HOST_READS: u16 = 256;

/// A read of the host that the device software has not answered yet.
struct Open {
    token: Token,
    span: Span,
    /// The bytes so far, in their places.
    bytes: Vec<u8>,
    /// Which parts have come: offset and length.
    parts: Vec<(u32, u32)>,
}

/// What became of a completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Match {
    /// It belongs to a read under way.
    Fits,
    /// It answers nothing that is asked: late, doubled, or of another requester, address or byte count.
    Stray,
}

/// The host's side of the adapter.
pub(crate) struct HostSide {
    /// Requests that wait for room; bounded by the credits that the endpoint gives out.
    waiting: VecDeque<Request>,
    /// Free tags, the one that has been free for longest first: so a tag rests as long as it can.
    free: VecDeque<u16>,
    open: BTreeMap<u16, Open>,
    /// When reads are given up, in the order of time.
    deadlines: VecDeque<(Time, u16, Token)>,
    /// How long the host waits for an answer.
    pub(crate) patience: Duration,
    pub(crate) taken: VecDeque<Token>,
    pub(crate) answers: VecDeque<Output>,
}

impl HostSide {
    pub(crate) fn new() -> HostSide {
        HostSide {
            waiting: VecDeque::new(),
            free: (0..MAX_HOST_READS).collect(),
            open: BTreeMap::new(),
            deadlines: VecDeque::new(),
            patience: Duration::from_ms(100),
            taken: VecDeque::new(),
            answers: VecDeque::new(),
        }
    }

    /// A request to the BAR.
    pub(crate) fn request(&mut self, now: Time, request: Request, egress: &mut Egress) {
        self.waiting.push_back(request);
        self.proceed(now, egress);
    }

    /// Whether something would go on if there were room.
    pub(crate) fn is_held_up(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Reads under way.
    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    /// Takes what there is room for. Where tags are used up, posted requests pass the reads that wait
    /// (`PCIe 5.0 §2.4.1`).
    pub(crate) fn proceed(&mut self, now: Time, egress: &mut Egress) {
        while egress.has_room_for_request() {
            let next = if self.free.is_empty() {
                self.waiting.iter().position(|request| request.op.is_posted())
            } else {
                Some(0)
            };
            let Some(request) = next.and_then(|at| self.waiting.remove(at)) else { return };
            self.taken.push_back(request.token);
            self.forward(now, request, egress);
        }
    }

    fn forward(&mut self, now: Time, request: Request, egress: &mut Egress) {
        let Request { token, tc, attr, op, .. } = request;
        let (op, span, data) = match op {
            RequestOp::Read { span, locked: false, .. } => (MemoryOp::Read, span, Data::NONE),
            RequestOp::Write { span, data, .. } => (MemoryOp::Write, span, data),
            op if op.is_posted() => return,
            _ => return self.refuse(token),
        };
        let tag = match op {
            MemoryOp::Read => match self.free.pop_front() {
                Some(tag) => self.opened(now, tag, token, span),
                None => return self.refuse(token),
            },
            _ => 0,
        };
        let body = MemoryRequest { op, requester: Bdf::default(), tag: Tag::from_bits(tag), span };
        let repr = Repr { tc, attr, ..Repr::new(Body::Memory(body)) };
        egress.push(now, Entry::Request(Tlp::new(repr, data)));
    }

    fn opened(&mut self, now: Time, tag: u16, token: Token, span: Span) -> u16 {
        let bytes = vec![0; span.byte_count() as usize];
        self.open.insert(tag, Open { token, span, bytes, parts: Vec::new() });
        self.deadlines.push_back((now + self.patience, tag, token));
        tag
    }

    fn refuse(&mut self, token: Token) {
        let result = Err(CompletionError::UnsupportedRequest);
        self.answers.push_back(Output::Complete { token, result });
    }

    /// There is nobody who could answer a request: the host is told at once.
    pub(crate) fn nobody(&mut self, tlp: &Tlp) {
        let Body::Memory(m) = tlp.repr.body else { return };
        if m.op.is_read()
            && let Some(open) = self.close(m.tag.bits())
        {
            self.refuse(open.token);
        }
    }

    fn close(&mut self, tag: u16) -> Option<Open> {
        let open = self.open.remove(&tag)?;
        self.free.push_back(tag);
        Some(open)
    }

    /// A completion of the device software.
    pub(crate) fn completion(&mut self, c: &Completion, data: &[u8], ep: bool, pool: &PayloadPool) -> Match {
        let tag = c.tag.bits();
        let Some(open) = self.open.get_mut(&tag).filter(|_| c.requester == Bdf::default()) else {
            return Match::Stray;
        };
        if c.status != Status::Success || ep || c.length_dw.is_none() {
            let error = match c.status {
                Status::UnsupportedRequest => CompletionError::UnsupportedRequest,
                _ => CompletionError::CompleterAbort,
            };
            let token = open.token;
            self.close(tag);
            self.answers.push_back(Output::Complete { token, result: Err(error) });
            return Match::Fits;
        }
        if !open.take(c, data) {
            return Match::Stray;
        }
        if open.is_whole()
            && let Some(open) = self.close(tag)
        {
            let data = Data::Carried(pool.copy(&open.bytes));
            self.answers.push_back(Output::Complete { token: open.token, result: Ok(data) });
        }
        Match::Fits
    }

    /// When [`expire`](Self::expire) is to be called.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.front().map(|(at, _, _)| *at)
    }

    /// Gives up the reads whose time has come; how many there were. Entries of reads that have ended are left out.
    pub(crate) fn expire(&mut self, now: Time) -> u64 {
        let mut expired = 0;
        while let Some(&(at, tag, token)) = self.deadlines.front() {
            let ended = self.open.get(&tag).is_none_or(|open| open.token != token);
            if !ended && at > now {
                break;
            }
            self.deadlines.pop_front();
            if !ended && self.close(tag).is_some() {
                self.answers.push_back(Output::Abandon { token });
                expired += 1;
            }
        }
        expired
    }

    /// All is void; tags start anew.
    pub(crate) fn reset(&mut self) {
        *self = HostSide { patience: self.patience, ..HostSide::new() };
    }
}

impl Open {
    /// Puts the bytes of a completion in their place; false where they have none.
    fn take(&mut self, c: &Completion, data: &[u8]) -> bool {
        let total = self.span.byte_count();
        let Some(offset) = total.checked_sub(u32::from(c.byte_count)) else { return false };
        let len = data.len() as u32;
        let address = self.span.first_byte() + u64::from(offset);
        let overlaps = self.parts.iter().any(|&(at, n)| offset < at + n && at < offset + len);
        if len == 0 || u64::from(c.lower_address & 0x7f) != address & 0x7f || overlaps || offset + len > total
        {
            return false;
        }
        self.bytes[offset as usize..][..len as usize].copy_from_slice(data);
        self.parts.push((offset, len));
        true
    }

    fn is_whole(&self) -> bool {
        self.parts.iter().map(|(_, len)| len).sum::<u32>() == self.span.byte_count()
    }
}
