// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The transaction matcher: finds the request that a completion answers, by link, requester and tag. Memory is bounded by
//! [`MAX_OUTSTANDING`] and [`MAX_REQUESTERS`].
//!
//! Captures taken from a mirroring switch may show a tag's next request before the last completion of the one before,
//! as NetTLP's `p4600-write-64blk.pcap` does. So one earlier request a tag goes on waiting beside the newest; it no longer
//! counts as outstanding, since its requester has let go of the tag.

use crate::time::Timestamp;
use serde::Serialize;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use tlp::{Bdf, Body, Class, Completion, FormatId, MemoryOp, Repr, Status, Tag};

/// Most requests that wait for completions at a time; those beyond are counted as untracked.
pub const MAX_OUTSTANDING: usize = 65_536;
/// Most requesters, by link, whose outstanding requests are counted apart.
pub const MAX_REQUESTERS: usize = 65_536;

/// A requester as seen on one link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Requester {
    /// Number of the link ([`Interface::link`](crate::Interface::link)).
    pub link: u16,
    /// Requester ID.
    pub id: Bdf,
}

/// A non-posted request and what has answered it so far.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// Who asked, and where it was seen.
    pub requester: Requester,
    /// Its tag.
    pub tag: Tag,
    /// Type of the request.
    pub format: FormatId,
    /// Address of the first byte; of a configuration request, register times four.
    pub address: u64,
    /// Bytes asked for; 0 for a configuration write.
    pub bytes: u32,
    /// Bytes not yet answered.
    pub remaining: u32,
    /// Completions so far.
    pub completions: u32,
    /// Status of the last completion; `None` before the first.
    pub status: Option<Status>,
    /// Number of the request's record.
    pub request_number: u64,
    /// When the request was seen.
    pub start: Timestamp,
    /// When the last completion so far was seen; before the first, when the request was.
    pub end: Timestamp,
}

impl Transaction {
    /// From the request to the last completion, in picoseconds.
    #[must_use]
    pub const fn latency_ps(&self) -> u128 {
        self.end.since_ps(self.start)
    }
}

/// What a TLP means for the transactions under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Match {
    /// Posted: nothing answers it.
    Posted,
    /// A request, now waiting.
    Request,
    /// The same request again, none of it answered: a replay, or the same TLP seen at a second place.
    Repeat,
    /// A request under a tag whose earlier request still waits for its last completions.
    TagReuse,
    /// A request beyond [`MAX_OUTSTANDING`]: its completions will be unmatched.
    Untracked,
    /// A completion that leaves bytes to come.
    Partial,
    /// The last completion of a transaction.
    Complete(Transaction),
    /// A completion without a request.
    Unmatched,
}

/// How many of each; every TLP counts in one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counts {
    /// Posted requests.
    pub posted: u64,
    /// Non-posted requests, those counted below included.
    pub requests: u64,
    /// Of them, the same request again.
    pub repeats: u64,
    /// Of them, under a tag whose earlier request still waited.
    pub tag_reuses: u64,
    /// Requests given up, since their tag was used twice more.
    pub given_up: u64,
    /// Of them, beyond what is tracked.
    pub untracked: u64,
    /// Transactions that ended.
    pub completed: u64,
    /// Of them, ended by a status other than success.
    pub failed: u64,
    /// Completions without a request.
    pub unmatched: u64,
    /// Matched completions whose Byte Count is not what remained.
    pub byte_count_mismatches: u64,
}

/// Outstanding requests of a requester.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outstanding {
    /// Now.
    pub now: u32,
    /// At most.
    pub max: u32,
}

/// What waits under one tag; not both are empty.
#[derive(Clone, Debug, Default)]
struct Slot {
    newest: Option<Transaction>,
    earlier: Option<Transaction>,
}

/// Matches completions with requests.
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    waiting: BTreeMap<(Requester, Tag), Slot>,
    outstanding: BTreeMap<Requester, Outstanding>,
    counts: Counts,
}

impl Matcher {
    /// A matcher that has seen nothing.
    #[must_use]
    pub fn new() -> Matcher {
        Matcher::default()
    }

    /// Sees a TLP on link `link`: number and time of its record say which it was.
    pub fn see(&mut self, number: u64, time: Timestamp, link: u16, repr: &Repr) -> Match {
        match (&repr.body, repr.format().class) {
            (Body::Completion(completion), _) => self.completion(time, link, completion),
            (_, Class::NonPosted) => self.request(number, time, link, repr),
            _ => {
                self.counts.posted += 1;
                Match::Posted
            }
        }
    }

    /// How many of each kind were seen.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Requests that wait now.
    pub fn waiting(&self) -> impl Iterator<Item = &Transaction> {
        self.waiting.values().flat_map(|slot| slot.earlier.iter().chain(&slot.newest))
    }

    /// Outstanding requests by requester.
    pub fn outstanding(&self) -> impl Iterator<Item = (Requester, Outstanding)> {
        self.outstanding.iter().map(|(requester, outstanding)| (*requester, *outstanding))
    }

    fn request(&mut self, number: u64, time: Timestamp, link: u16, repr: &Repr) -> Match {
        self.counts.requests += 1;
        let request = Transaction::of_request(number, time, link, repr);
        let key = (request.requester, request.tag);
        let tracked = self.waiting.len();
        let slot = self.waiting.get_mut(&key);
        if slot
            .as_ref()
            .and_then(|slot| slot.newest.as_ref())
            .is_some_and(|newest| newest.is_repeated_by(&request))
        {
            self.counts.repeats += 1;
            return Match::Repeat;
        }
        if let Some(Slot { newest: Some(newest), earlier }) = slot {
            self.counts.tag_reuses += 1;
            let before = std::mem::replace(newest, request);
            self.counts.given_up += u64::from(earlier.replace(before).is_some());
            return Match::TagReuse;
        }
        if tracked == MAX_OUTSTANDING || !self.raise_outstanding(request.requester) {
            self.counts.untracked += 1;
            return Match::Untracked;
        }
        self.waiting.entry(key).or_default().newest = Some(request);
        Match::Request
    }

    fn raise_outstanding(&mut self, requester: Requester) -> bool {
        if self.outstanding.len() == MAX_REQUESTERS && !self.outstanding.contains_key(&requester) {
            return false;
        }
        let outstanding = self.outstanding.entry(requester).or_default();
        outstanding.now += 1;
        outstanding.max = outstanding.max.max(outstanding.now);
        true
    }

    fn completion(&mut self, time: Timestamp, link: u16, completion: &Completion) -> Match {
        let requester = Requester { link, id: completion.requester };
        let Entry::Occupied(mut entry) = self.waiting.entry((requester, completion.tag)) else {
            self.counts.unmatched += 1;
            return Match::Unmatched;
        };
        let slot = entry.get_mut();
        let is_newest = slot.newest_answers(completion);
        let place = if is_newest { &mut slot.newest } else { &mut slot.earlier };
        let Some(transaction) = place else { return Match::Unmatched };
        self.counts.byte_count_mismatches += u64::from(!transaction.expects(completion));
        if !transaction.is_ended_by(time, completion) {
            return Match::Partial;
        }
        let ended = place.take();
        if slot.newest.is_none() && slot.earlier.is_none() {
            entry.remove();
        }
        self.counts.completed += 1;
        self.counts.failed += u64::from(completion.status != Status::Success);
        if let Some(outstanding) = self.outstanding.get_mut(&requester) {
            outstanding.now -= u32::from(is_newest);
        }
        ended.map_or(Match::Unmatched, Match::Complete)
    }
}

impl Slot {
    // The earlier one first, unless the completion fits the newest alone.
    fn newest_answers(&self, completion: &Completion) -> bool {
        match (&self.newest, &self.earlier) {
            (Some(newest), Some(earlier)) => !earlier.expects(completion) && newest.expects(completion),
            (newest, _) => newest.is_some(),
        }
    }
}

impl Transaction {
    fn of_request(number: u64, time: Timestamp, link: u16, repr: &Repr) -> Transaction {
        let (id, tag) = repr.transaction();
        let (address, bytes) = match &repr.body {
            Body::Memory(m) if m.op == MemoryOp::WriteDeferrable => (m.span.first_byte(), 0),
            Body::Memory(m) => (m.span.first_byte(), m.span.byte_count()),
            Body::Config(c) => (u64::from(c.register_dw) * 4, if repr.data_dw() == 0 { 4 } else { 0 }),
            Body::Io(io) => (u64::from(io.address), if repr.data_dw() == 0 { 4 } else { 0 }),
            Body::Atomic(a) => (a.address, a.operand.bytes()),
            Body::Message(_) | Body::Completion(_) => (0, 0),
        };
        Transaction {
            requester: Requester { link, id },
            tag,
            format: repr.format().id,
            address,
            bytes,
            remaining: bytes,
            completions: 0,
            status: None,
            request_number: number,
            start: time,
            end: time,
        }
    }

    fn is_repeated_by(&self, request: &Transaction) -> bool {
        self.completions == 0
            && (self.format, self.address, self.bytes) == (request.format, request.address, request.bytes)
    }

    // Only data is counted down: a configuration write, or a failure, ends at once.
    fn expects(&self, completion: &Completion) -> bool {
        self.bytes == 0
            || completion.status != Status::Success
            || u32::from(completion.byte_count) == self.remaining
    }

    // A completion without data, or with another status than success, ends it (`PCIe 5.0 §2.3.1.1`, §2.3.2).
    fn is_ended_by(&mut self, time: Timestamp, completion: &Completion) -> bool {
        self.end = time;
        self.completions += 1;
        self.status = Some(completion.status);
        let Some(length_dw) = completion.length_dw else { return true };
        self.remaining = self.remaining.saturating_sub(answered_bytes(completion, length_dw));
        self.remaining == 0 || completion.status != Status::Success
    }
}

/// Bytes that a completion answers: its data, less those before the first byte and those behind the last.
fn answered_bytes(completion: &Completion, length_dw: u16) -> u32 {
    let lanes = u32::from(length_dw) * 4 - u32::from(completion.lower_address & 3);
    lanes.min(u32::from(completion.byte_count))
}
