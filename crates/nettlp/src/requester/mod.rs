// SPDX-License-Identifier: Apache-2.0 OR MIT
//! LibTLP's requester, sans-IO: memory reads and writes of any address and length, as TLPs over many tags.
//!
//! ```text
//!   read, write ──▶ requests ──▶ pieces (MRRS, MPS, 4 KiB) ──▶ poll_transmit, emit, sent ──▶ carrier
//!   poll_done   ◀── requests ◀── bytes, in place           ◀── handle                    ◀── carrier
//!                                 tags: free → busy → at rest → free       handle_timeout ◀── clock
//! ```
//!
//! A completion is accepted if its requester, tag, Lower Address and Byte Count match an outstanding read that waits for exactly
//! these bytes. All others are counted by kind; their data is never used.
//!
//! An unanswered read TLP is retried under another tag, a bounded number of times. The old tag rests (stays unused)
//! until no completion for it can arrive any more ([`Rest`]). If the peer is stopped for longer than that,
//! completions can still arrive later. So after the rest, such a tag is used only for reads that end at another
//! Lower Address, because old completions cannot match such reads. A read is split if needed.
//!
//! Reads and writes are sent in request order. Exception: a write does not wait for a read that has no free tag
//! (`PCIe 5.0 §2.4.1`). Over a carrier that is not reliable, datagrams of different tags can be reordered.
//!
//! Never opens sockets, reads a clock, allocates per TLP, or panics on received bytes.

mod answer;
mod counters;
mod outgoing;
mod progress;
mod refused;
mod settings;
mod tags;

#[cfg(test)]
mod tests;

pub use counters::{Counters, Stray, Strays};
pub use outgoing::{Buffers, Nowhere, Outgoing};
pub use settings::{RequesterSettings, Rest};

use answer::{Answer, Read};
use outgoing::Queue;
use refused::{Refused, locked};
use std::collections::VecDeque;
use std::ops::Range;
use tags::{Piece, TagState, Tags};
use tlp::rules::reasons::{aborted, poisoned, unsupported};
use tlp::rules::{Head, Reason, Refusal, Refusals};
use tlp::{Awaited, RuleId, Status, Tag, Time, Violation, split};

/// How long after a given-up read its tag is used only for reads that the completions of that read cannot match.
/// This is needed because a peer may have been stopped for longer than tags rest.
const SUSPICION: tlp::Duration = tlp::Duration::from_ms(10_000);

/// Identifies a request until it has ended. No later request has the same identifier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RequestId {
    index: u32,
    generation: u32,
}

/// Reason why a request was rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RequestError {
    /// [`RequesterSettings::requests`] requests are in progress.
    #[error("{0} requests are in progress, the maximum")]
    NoRoom(usize),
    /// The length is 0.
    #[error("a request of 0 bytes; expected at least 1")]
    Empty,
    /// The bytes reach beyond 2^64.
    #[error("{len} bytes at {address:#x} exceed the end of the address space")]
    BeyondEnd {
        /// First address.
        address: u64,
        /// Length in bytes.
        len: u64,
    },
}

/// Reason why a request failed. After a failed read, the content of its buffer is undefined. Parts of a failed
/// write may have arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// Unsupported Request: the address is not assigned, or the completer refuses.
    #[error("read at {0:#x} was refused: Unsupported Request")]
    UnsupportedRequest(u64),
    /// Completer Abort.
    #[error("read at {0:#x} failed: Completer Abort")]
    CompleterAbort(u64),
    /// Configuration Request Retry Status, which no memory read should receive.
    #[error("read at {0:#x} was deferred: Configuration Request Retry Status")]
    ConfigRetry(u64),
    /// The data is marked as wrong (EP).
    #[error("read at {0:#x} was answered with poisoned data")]
    Poisoned(u64),
    /// No completion for any attempt.
    #[error("read of {len} bytes at {address:#x} was not answered, sent {attempts} times")]
    TimedOut {
        /// Address of the read TLP.
        address: u64,
        /// Length of the read TLP in bytes.
        len: u16,
        /// Number of times that the TLP was sent.
        attempts: u32,
    },
    /// The caller cancelled the request.
    #[error("the request was cancelled")]
    Cancelled,
}

/// A request that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done {
    /// Identifier of the request.
    pub id: RequestId,
    /// The token passed with the request.
    pub token: u64,
    /// Time when its first TLP was sent. If no TLP was sent, time when the request ended.
    pub sent: Time,
    /// Number of bytes that were read, or passed to the carrier: all bytes of the request.
    pub result: Result<u64, Fault>,
}

/// Outcome of received bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Handled {
    /// A completion of a request: data, or an error.
    Answer,
    /// A completion for a resting tag. It is counted.
    Late,
    /// A completion that answers no request, or bytes that are not a TLP. It is counted.
    Stray(Stray),
    /// A request or message of the peer. It is not for the requester, and is not counted.
    Request,
}

#[derive(Clone, Copy, Default)]
struct Request {
    generation: u32,
    is_live: bool,
    is_write: bool,
    token: u64,
    /// Order of the requests: the older of two requests has the lower number.
    order: u64,
    address: u64,
    len: u64,
    /// Number of bytes for which a TLP was sent.
    issued: u64,
    /// Number of read TLPs that are not fully answered, including read TLPs that wait to be retried.
    pending: u32,
    /// Time when its first TLP was sent.
    sent: Option<Time>,
}

/// See the [module](self).
pub struct Requester {
    settings: RequesterSettings,
    tags: Tags,
    requests: Vec<Request>,
    free: Vec<u32>,
    reads: VecDeque<u32>,
    writes: VecDeque<u32>,
    again: VecDeque<Piece>,
    done: VecDeque<Done>,
    order: u64,
    counters: Counters,
    refusals: Refusals,
}

impl Requester {
    /// Creates a requester without requests.
    ///
    /// # Panics
    /// If [`RequesterSettings::tags`] is empty or exceeds tag 1023.
    pub fn new(settings: RequesterSettings) -> Requester {
        let (first, last) = (*settings.tags.start(), *settings.tags.end());
        assert!(
            first <= last && last < Tag::COUNT,
            "tags {first} to {last}; expected a range within 0 to 1023"
        );
        Requester {
            tags: Tags::new(settings.tags.clone()),
            requests: Vec::new(),
            free: Vec::new(),
            reads: VecDeque::new(),
            writes: VecDeque::new(),
            again: VecDeque::with_capacity(settings.tags.len()),
            done: VecDeque::new(),
            order: 0,
            counters: Counters::default(),
            refusals: Refusals::default(),
            settings,
        }
    }

    /// Returns the settings of the requester.
    pub const fn settings(&self) -> &RequesterSettings {
        &self.settings
    }

    /// Returns the counters of the requester.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the number of requests that have not ended, or that have ended and were not polled.
    pub fn under_way(&self) -> usize {
        self.requests.len() - self.free.len() + self.done.len()
    }

    /// Returns the number of read TLPs whose completions are outstanding.
    pub fn outstanding(&self) -> usize {
        self.tags.count(TagState::Busy)
    }

    /// Returns the number of resting tags.
    pub fn resting(&self) -> usize {
        self.tags.count(TagState::Clean) + self.tags.count(TagState::Lost)
    }

    /// Requests `len` bytes from `address`. `token` identifies the buffer, and is returned when the read ends.
    ///
    /// # Errors
    /// If there is no room, `len` is 0, or the address is out of range.
    pub fn read(&mut self, address: u64, len: u64, token: u64) -> Result<RequestId, RequestError> {
        self.take(address, len, token, false)
    }

    /// Writes `len` bytes from `address`. The write ends when its last TLP was passed to the carrier: writes are posted.
    ///
    /// # Errors
    /// If there is no room, `len` is 0, or the address is out of range.
    pub fn write(&mut self, address: u64, len: u64, token: u64) -> Result<RequestId, RequestError> {
        self.take(address, len, token, true)
    }

    /// Cancels a request: the request ends at once with [`Fault::Cancelled`], and its tags rest. Has no effect if
    /// the request has already ended.
    pub fn cancel(&mut self, now: Time, id: RequestId) {
        let request = self.requests.get(id.index as usize);
        if request.is_some_and(|r| r.is_live && r.generation == id.generation) {
            self.fail(now, id.index, Fault::Cancelled);
        }
    }

    /// Cancels all requests.
    pub fn cancel_all(&mut self, now: Time) {
        for index in 0..self.requests.len() as u32 {
            let generation = self.requests[index as usize].generation;
            self.cancel(now, RequestId { index, generation });
        }
    }

    /// Returns the next TLP to send, or `None` if no TLP waits or no tag is free. Call this again after
    /// [`sent`](Self::sent), [`handle`](Self::handle), [`handle_timeout`](Self::handle_timeout), and every new
    /// request.
    pub fn poll_transmit(&self) -> Option<Outgoing> {
        if let Some((tag, piece)) = self.again.front().and_then(|piece| self.tags.free_for(piece)) {
            return Some(self.outgoing(Queue::Again, piece, tag));
        }
        let read = self.reads.front().and_then(|&read| {
            let (tag, piece) = self.tags.free_for(&self.next_piece(read))?;
            Some((read, tag, piece))
        });
        match (read, self.writes.front()) {
            (Some((read, tag, piece)), write) if write.is_none_or(|&w| self.order(read) < self.order(w)) => {
                Some(self.outgoing(Queue::Reads, piece, tag))
            }
            // The tag of a write only selects the port. All writes use one tag, which keeps them in order.
            (_, Some(&write)) => Some(self.outgoing(Queue::Writes, self.next_piece(write), 0)),
            _ => None,
        }
    }

    /// Records that the TLP returned by [`poll_transmit`](Self::poll_transmit) was sent.
    pub fn sent(&mut self, now: Time, outgoing: &Outgoing) {
        let piece = outgoing.piece;
        match outgoing.queue {
            Queue::Writes => return self.sent_write(now, piece),
            Queue::Reads => self.sent_first(now, piece),
            Queue::Again => {
                // If the tag is suspect, only the first part was sent.
                if let Some(rest) = self.again.pop_front().and_then(|whole| whole.behind(piece.len)) {
                    self.again.push_front(rest);
                    self.request(piece.request).pending += 1;
                }
                self.counters.retried += 1;
            }
        }
        self.counters.read_tlps += 1;
        if let Some(index) = self.tags.index(outgoing.tag().bits()) {
            self.tags.begin(index, piece, now);
        }
    }

    /// Handles a received TLP: header and data, without the NetTLP header. Its data goes to `buffers`.
    pub fn handle(&mut self, now: Time, tlp: &[u8], buffers: &mut impl Buffers) -> Handled {
        let handled = match answer::read(tlp) {
            Read::Completion(answer) => self.handle_completion(now, &answer, buffers),
            Read::Locked => Err(locked()),
            Read::Malformed(why) => Err(Refused { stray: Stray::Malformed, why }),
            Read::Request => return Handled::Request,
        };
        handled.unwrap_or_else(|Refused { stray, why }| {
            self.counters.strays.count(stray);
            self.refusals.record(now, None, why, Head::of_bytes(tlp));
            Handled::Stray(stray)
        })
    }

    /// Returns the reasons why completions were refused and requests failed, one reason of each kind.
    pub fn refusals(&self) -> &[Refusal] {
        self.refusals.kinds()
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is due; `None`: no timer runs.
    pub fn poll_timeout(&self) -> Option<Time> {
        let rest = self.settings.rest;
        let busy = self.tags.next_due(TagState::Busy, self.settings.timeout);
        // Resting tags matter only if a read waits for a tag.
        let waits = !self.again.is_empty() || !self.reads.is_empty();
        let starved = waits && self.tags.count(TagState::Free) == 0;
        let clean = self.tags.next_due(TagState::Clean, rest.duplicate).filter(|_| starved);
        let lost = self.tags.next_due(TagState::Lost, rest.lost).filter(|_| starved);
        let suspect = self.tags.oldest_suspect().filter(|_| waits).map(|(_, since)| since + SUSPICION);
        [busy, clean, lost, suspect].into_iter().flatten().min()
    }

    /// Times out overdue reads, and frees tags whose rest is over.
    pub fn handle_timeout(&mut self, now: Time) {
        self.end_rests(now);
        while let Some(index) = self.tags.due(TagState::Busy, self.settings.timeout, now) {
            self.time_out(now, index);
        }
    }

    /// Returns the next request that has ended.
    pub fn poll_done(&mut self) -> Option<Done> {
        self.done.pop_front()
    }

    /// Returns true if [`poll_done`](Self::poll_done) would return a request.
    pub fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    fn take(
        &mut self,
        address: u64,
        len: u64,
        token: u64,
        is_write: bool,
    ) -> Result<RequestId, RequestError> {
        if len == 0 {
            return Err(RequestError::Empty);
        }
        if address.checked_add(len - 1).is_none() {
            return Err(RequestError::BeyondEnd { address, len });
        }
        if self.under_way() >= self.settings.requests {
            return Err(RequestError::NoRoom(self.settings.requests));
        }
        let index = self.place();
        let request = &mut self.requests[index as usize];
        let generation = request.generation;
        let order = self.order;
        *request =
            Request { is_live: true, is_write, token, order, address, len, generation, ..Request::default() };
        self.order += 1;
        if is_write {
            self.writes.push_back(index)
        } else {
            self.reads.push_back(index)
        }
        Ok(RequestId { index, generation })
    }

    // Returns a free index in the table of requests.
    fn place(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.requests.push(Request::default());
            self.requests.len() as u32 - 1
        })
    }

    fn request(&mut self, index: u32) -> &mut Request {
        &mut self.requests[index as usize]
    }

    fn order(&self, index: u32) -> u64 {
        self.requests[index as usize].order
    }

    fn next_piece(&self, index: u32) -> Piece {
        let request = &self.requests[index as usize];
        let limit = if request.is_write { self.settings.mps.bytes() } else { self.settings.mrrs.bytes() };
        // The sum does not overflow, because the whole request is below 2^64.
        let address = request.address + request.issued;
        let remaining = (request.len - request.issued).min(4096) as u32;
        let len = split::request_piece(address, remaining, limit) as u16;
        Piece { request: index, offset: request.issued, address, len, attempt: 0 }
    }

    fn outgoing(&self, queue: Queue, piece: Piece, index: u16) -> Outgoing {
        let tag = self.tags.tag(index);
        let token = self.requests[piece.request as usize].token;
        Outgoing::new(queue, piece, token, self.settings.requester, tag)
    }

    fn sent_write(&mut self, now: Time, piece: Piece) {
        self.counters.write_tlps += 1;
        self.counters.written_bytes += u64::from(piece.len);
        if self.issue(now, piece) {
            self.writes.pop_front();
            self.end(now, piece.request, Ok(()));
        }
    }

    fn sent_first(&mut self, now: Time, piece: Piece) {
        self.request(piece.request).pending += 1;
        if self.issue(now, piece) {
            self.reads.pop_front();
        }
    }

    // Returns true if that was the last piece.
    fn issue(&mut self, now: Time, piece: Piece) -> bool {
        let request = self.request(piece.request);
        request.issued += u64::from(piece.len);
        request.sent.get_or_insert(now);
        request.issued == request.len
    }

    fn handle_completion(
        &mut self,
        now: Time,
        answer: &Answer<'_>,
        buffers: &mut impl Buffers,
    ) -> Result<Handled, Refused> {
        let unexpected = |stray| Refused::new(stray, RuleId::UnexpectedCompletion, answer.transaction());
        if answer.completion.requester != self.settings.requester {
            return Err(unexpected(Stray::Requester));
        }
        let index = self.tags.index(answer.completion.tag.bits());
        let index = index.ok_or_else(|| unexpected(Stray::Tag))?;
        match self.tags.state(index) {
            TagState::Free if !self.tags.is_suspect(index) => Err(unexpected(Stray::Tag)),
            TagState::Busy => self.handle_answer(now, index, answer, buffers),
            TagState::Clean => {
                self.counters.copies += 1;
                let why = Violation::new(RuleId::CompletionRepeated, answer.completion.byte_count.into());
                self.refusals.record(now, None, why, answer.head());
                Ok(Handled::Late)
            }
            TagState::Lost | TagState::Free => {
                self.handle_late(now, index, answer);
                Ok(Handled::Late)
            }
        }
    }

    fn handle_answer(
        &mut self,
        now: Time,
        index: u16,
        answer: &Answer<'_>,
        buffers: &mut impl Buffers,
    ) -> Result<Handled, Refused> {
        let piece = self.tags.piece(index);
        if let Some((fault, why)) = fault(answer, piece.address) {
            self.counters.completions += 1;
            self.refusals.record(now, None, why, answer.head());
            let is_last = answer.data.is_none() || self.note(index, answer).is_ok_and(|(_, last)| last);
            // An error completion has no reliable Lower Address and Byte Count: it may answer an older read.
            let is_last = is_last && !self.tags.is_suspect(index);
            self.release(now, index, if is_last { TagState::Clean } else { TagState::Lost });
            self.fail(now, piece.request, fault);
            return Ok(Handled::Answer);
        }
        let (range, is_last) = self.note(index, answer)?;
        let data = answer.data.unwrap_or_default();
        let (lead, len) = (usize::from(answer.completion.lower_address & 3), range.len());
        let token = self.request(piece.request).token;
        if let Some(place) = buffers.place(token, piece.offset + u64::from(range.start), len) {
            place.copy_from_slice(&data[lead..lead + len]);
        }
        self.counters.completions += 1;
        self.counters.read_bytes += len as u64;
        if is_last {
            self.release(now, index, TagState::Clean);
            self.piece_ended(now, piece.request);
        }
        Ok(Handled::Answer)
    }

    // Returns which bytes of the read TLP a completion holds, and whether all bytes have now been received.
    fn note(&mut self, index: u16, answer: &Answer<'_>) -> Result<(Range<u32>, bool), Refused> {
        let piece = self.tags.piece(index);
        let awaited = Awaited { first_byte: piece.address, byte_count: piece.len.into() };
        let completion = &answer.completion;
        let range =
            awaited.place(completion).map_err(|misfit| Refused::misfit(awaited, completion, misfit))?;
        let progress = self.tags.progress(index);
        let added = progress.add(range.start as u16, range.end as u16);
        added.map_err(|stray| Refused::again(stray, completion))?;
        Ok((range, progress.received() == piece.len))
    }

    // The tag of a given-up read rests for a shorter time once all its completions have arrived.
    fn handle_late(&mut self, now: Time, index: u16, answer: &Answer<'_>) {
        self.counters.late += 1;
        if self.tags.has_timed_out(index) {
            let why = Violation::new(RuleId::LateCompletion, answer.transaction());
            self.refusals.record(now, None, why, answer.head());
        }
        let is_last = match answer.data {
            None => answer.completion.status != Status::Success,
            Some(_) => self.note(index, answer).is_ok_and(|(_, last)| last),
        };
        if is_last {
            self.release(now, index, TagState::Clean);
        }
    }

    // Lets a tag rest, or frees it at once if no rest is configured.
    fn release(&mut self, now: Time, index: u16, place: TagState) {
        let rest = match place {
            TagState::Lost => self.settings.rest.lost,
            _ => self.settings.rest.duplicate,
        };
        match place {
            TagState::Lost if rest > tlp::Duration::ZERO => self.tags.suspect(index),
            _ => self.tags.trust(index),
        }
        let place = if rest == tlp::Duration::ZERO { TagState::Free } else { place };
        self.tags.put(index, place, now);
    }

    fn end_rests(&mut self, now: Time) {
        let rest = self.settings.rest;
        for (place, age) in [(TagState::Clean, rest.duplicate), (TagState::Lost, rest.lost)] {
            while let Some(index) = self.tags.due(place, age, now) {
                self.tags.put(index, TagState::Free, now);
            }
        }
        while let Some((index, _)) = self.tags.oldest_suspect().filter(|(_, at)| *at + SUSPICION <= now) {
            self.tags.trust(index);
        }
    }

    fn time_out(&mut self, now: Time, index: u16) {
        let mut piece = self.tags.piece(index);
        self.counters.timed_out += 1;
        let (tag, token) = (self.tags.tag(index), self.request(piece.request).token);
        let request = Outgoing::new(Queue::Again, piece, token, self.settings.requester, tag);
        let why = Reason::timeout(self.settings.timeout);
        self.refusals.record(now, None, why, Head::of_header(&request.repr));
        self.tags.time_out(index);
        self.release(now, index, TagState::Lost);
        if piece.attempt < self.settings.retries {
            piece.attempt += 1;
            self.again.push_back(piece);
        } else {
            let attempts = u32::from(piece.attempt) + 1;
            let fault = Fault::TimedOut { address: piece.address, len: piece.len, attempts };
            self.fail(now, piece.request, fault);
        }
    }

    fn piece_ended(&mut self, now: Time, index: u32) {
        let request = self.request(index);
        request.pending -= 1;
        if request.pending == 0 && request.issued == request.len {
            self.end(now, index, Ok(()));
        }
    }

    // Ends a request that cannot be fully answered, and gives up its outstanding TLPs.
    #[cold]
    fn fail(&mut self, now: Time, request: u32, fault: Fault) {
        let mut next = self.tags.oldest(TagState::Busy);
        while let Some(index) = next {
            next = self.tags.after(index);
            if self.tags.piece(index).request == request {
                self.release(now, index, TagState::Lost);
            }
        }
        self.again.retain(|piece| piece.request != request);
        self.reads.retain(|queued| *queued != request);
        self.writes.retain(|queued| *queued != request);
        self.end(now, request, Err(fault));
    }

    fn end(&mut self, now: Time, index: u32, result: Result<(), Fault>) {
        let request = self.request(index);
        let id = RequestId { index, generation: request.generation };
        (request.is_live, request.generation) = (false, request.generation.wrapping_add(1));
        let (token, sent, len) = (request.token, request.sent.unwrap_or(now), request.len);
        self.free.push(index);
        self.done.push_back(Done { id, token, sent, result: result.map(|()| len) });
    }
}

// Returns the fault that a completion reports, and the rule that the fault names.
fn fault(answer: &Answer<'_>, address: u64) -> Option<(Fault, Violation)> {
    let status = answer.completion.status;
    match status {
        Status::UnsupportedRequest => Some((Fault::UnsupportedRequest(address), unsupported())),
        Status::CompleterAbort => Some((Fault::CompleterAbort(address), aborted())),
        Status::ConfigRetry => {
            let why = Violation::new(RuleId::CompletionRetry, status.bits().into());
            Some((Fault::ConfigRetry(address), why))
        }
        Status::Success if answer.poisoned => Some((Fault::Poisoned(address), poisoned())),
        Status::Success => None,
    }
}
