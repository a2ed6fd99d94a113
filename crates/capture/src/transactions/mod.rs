// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Complete transactions of a capture: each request with its completions, Ack and replays. A transaction is
//! returned when no more of them can follow. Memory is bounded by the matcher's limits and by [`MAX_UNACKED`]
//! unacknowledged TLPs per direction.
//!
//! A transaction on several links is returned once. Its link is the one that showed it first, and it has a
//! [`Hop`](crate::matcher::Hop) for each further link. If a capture has several links, a posted request is returned
//! after 4096 later ones, or at the end of the capture.
//!
//! The Ack of a TLP is known only if the capture has the [place](crate::Mark::place) of each TLP. Otherwise it is
//! [`Ack::Unknown`].

mod render;
mod summary;

pub(crate) use render::append_target;
pub use render::{JsonTransaction, append_json, append_line};
pub use summary::{MAX_VALUES, Quantiles, Spread, Summary, TransactionsReport, TypeSummary};

use crate::decode::{Ecrc, Kind, Record, TlpRecord};
use crate::matcher::{Ack, Errors, MAX_POSTED, Match, Matcher, Packet, Requester, Root, Transaction};
use crate::sequence::{Arrival, LinkDirection, MAX_UNACKED, Sequences, opposite, way};
use crate::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tlp::{Dllp, Tag};

/// A TLP without its Ack.
#[derive(Clone, Copy, Debug)]
struct Unacked {
    place: u64,
    requester: Requester,
    tag: Tag,
    /// Record number of the request.
    request: u64,
    is_completion: bool,
}

/// Effect of a record on the transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// For the last completion of a transaction: time since the first request, in picoseconds.
    pub response_ps: Option<u128>,
    /// For the last completion of a transaction: time from the first request to the first data, in picoseconds.
    pub first_data_ps: Option<u128>,
    /// Errors of the transaction that this record ends, or of an unexpected completion.
    pub errors: Errors,
    /// True if the transaction that this record ends is a bus probe ([`Transaction::is_probe`]).
    pub probe: bool,
    /// True if the TLP was seen before.
    pub replay: bool,
    /// True if the receiver took the TLP, as far as the capture shows: it was not lost, out of order, or seen before.
    pub taken: bool,
    /// Record number of the request, on the link of the completion.
    pub request: Option<u64>,
    /// For a forwarded request: number of the record that showed the request first.
    pub forwards: Option<u64>,
}

/// Assembles the transactions of a capture.
///
/// Pass each record to [`see`](Self::see) in order. After each one, call [`next_ended`](Self::next_ended) until it
/// returns `None`. At the end of the file, [`finish`](Self::finish) ends the remaining transactions.
#[derive(Clone, Debug)]
pub struct Tracker {
    matcher: Matcher,
    sequences: Sequences,
    /// Unacknowledged TLPs of each direction, in the order of their places.
    unacked: BTreeMap<LinkDirection, VecDeque<Unacked>>,
    /// Directions whose Acks the capture shows.
    acked_ways: BTreeSet<LinkDirection>,
    /// Completed transactions that wait for an Ack or a further link, by record number of the request.
    held: BTreeMap<u64, Transaction>,
    /// Posted requests that may appear on a further link, in order.
    posted: VecDeque<u64>,
    /// True if the capture has more than one link.
    has_links: bool,
    ended: VecDeque<Transaction>,
    lost: u64,
    again: u64,
}

impl Default for Tracker {
    fn default() -> Tracker {
        Tracker::new()
    }
}

impl Tracker {
    /// Creates a tracker without records.
    pub fn new() -> Tracker {
        Tracker {
            matcher: Matcher::that_keeps_given_up(),
            sequences: Sequences::new(),
            unacked: BTreeMap::new(),
            acked_ways: BTreeSet::new(),
            held: BTreeMap::new(),
            posted: VecDeque::new(),
            has_links: false,
            ended: VecDeque::new(),
            lost: 0,
            again: 0,
        }
    }

    /// Processes a record, and returns its effect on the transactions. `terms` has a bit for each term of a filter
    /// that matches the record ([`Filter::terms`](crate::filter::Filter::terms)); it is 0 without a filter.
    pub fn see(&mut self, record: &Record<'_>, terms: u64) -> Outcome {
        match &record.kind {
            Kind::Tlp(tlp) => self.tlp(record, tlp, terms),
            Kind::Dllp(dllp) => {
                self.dllp(record, dllp);
                Outcome::default()
            }
            Kind::Bad(_) => {
                self.sequences.pass(record);
                Outcome::default()
            }
            Kind::Other(_) => Outcome::default(),
        }
    }

    /// Returns the next ended transaction, in the order in which they end.
    pub fn next_ended(&mut self) -> Option<Transaction> {
        self.ended.pop_front()
    }

    /// Ends the capture. Transactions without all completions or Acks end too, in the order of their requests.
    pub fn finish(&mut self) {
        let mut hops = Vec::new();
        for mut transaction in self.matcher.drain() {
            transaction.give_up(Errors::empty());
            match transaction.hop_of {
                Some(root) => hops.push((root, transaction)),
                None => _ = self.held.insert(transaction.request_number, transaction),
            }
        }
        hops.iter().for_each(|(root, hop)| self.add_hop(*root, hop));
        self.ended.extend(std::mem::take(&mut self.held).into_values());
        self.unacked.clear();
        self.posted.clear();
    }

    /// The matcher, which counts TLPs and outstanding requests.
    pub const fn matcher(&self) -> &Matcher {
        &self.matcher
    }

    /// Number of TLPs that were damaged or dropped, or discarded as out of order.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Number of TLPs that the receiver had already taken before.
    pub const fn again(&self) -> u64 {
        self.again
    }

    fn tlp(&mut self, record: &Record<'_>, tlp: &TlpRecord<'_>, terms: u64) -> Outcome {
        let way = way(record);
        let arrival = self.sequences.tlp(record);
        let (first_seen, retries) = match arrival {
            Arrival::Taken { first_seen, retries } => (first_seen, retries),
            Arrival::Again | Arrival::OutOfOrder | Arrival::Lost => (record.timestamp, 0),
        };
        self.has_links |= record.interface.is_some_and(|interface| interface.has_others);
        let packet = Packet {
            number: record.number,
            time: record.timestamp,
            has_time: record.has_time,
            line: record.text.map(|text| text.line),
            first_seen,
            retries,
            link: way.0,
            slot: record.interface.map(|interface| &interface.slot),
            direction: way.1,
            repr: &tlp.repr,
            errors: errors_of(tlp),
            terms,
        };
        match arrival {
            Arrival::Taken { .. } => self.taken(&packet, record.mark.place, way),
            Arrival::Again => {
                self.again += 1;
                self.matcher.count_repeat();
                self.replayed(&packet, record.mark.place, way);
                Outcome { replay: true, ..Outcome::default() }
            }
            Arrival::OutOfOrder | Arrival::Lost => {
                self.lost += 1;
                Outcome::default()
            }
        }
    }

    fn taken(&mut self, packet: &Packet<'_>, place: Option<u64>, way: LinkDirection) -> Outcome {
        let (id, tag) = packet.repr.transaction();
        let requester = Requester { link: packet.link, id };
        let matched = self.matcher.packet(packet);
        let forwards = self.matcher.forwards();
        let mut outcome =
            Outcome { taken: true, forwards: forwards.map(|root| root.number), ..Outcome::default() };
        match matched {
            Match::Posted => {
                let mut posted = Transaction::of_request(packet);
                posted.hop_of = forwards;
                self.await_ack(&mut posted, place, way, false);
                self.end_posted(posted);
            }
            Match::Request | Match::TagReuse => self.await_ack_of_waiting(requester, tag, place, way, false),
            Match::Partial => {
                outcome.request = self.matcher.answered();
                self.await_ack_of_waiting(requester, tag, place, way, true);
            }
            Match::Complete(mut transaction) => {
                self.await_ack(&mut transaction, place, way, true);
                outcome.request = Some(transaction.request_number);
                outcome.response_ps = transaction.response_ps();
                outcome.first_data_ps = transaction.first_data_ps();
                (outcome.errors, outcome.probe) = (transaction.errors, transaction.is_probe);
                self.end(transaction);
            }
            Match::Unmatched => {
                outcome.errors = Errors::UNEXPECTED_COMPLETION;
                if let tlp::Body::Completion(completion) = &packet.repr.body {
                    self.ended.push_back(Transaction::of_unexpected(packet, completion));
                }
            }
            Match::Repeat => outcome = Outcome { replay: true, ..Outcome::default() },
            Match::Untracked => {}
        }
        while let Some(given_up) = self.matcher.next_given_up() {
            self.end(given_up);
        }
        outcome
    }

    fn end(&mut self, transaction: Transaction) {
        match transaction.hop_of {
            Some(root) => self.add_hop(root, &transaction),
            None if transaction.unacked == 0 => self.ended.push_back(transaction),
            None => _ = self.held.insert(transaction.request_number, transaction),
        }
    }

    /// Ends a posted request. With several links, holds it until it cannot appear on a further one.
    fn end_posted(&mut self, mut posted: Transaction) {
        if posted.hop_of.is_some() || !self.has_links {
            return self.end(posted);
        }
        posted.unacked += 1;
        self.posted.push_back(posted.request_number);
        self.end(posted);
        if self.posted.len() > MAX_POSTED
            && let Some(oldest) = self.posted.pop_front()
        {
            self.settle_held(oldest, |_| ());
        }
    }

    /// Adds `hop` to its transaction, unless that has ended.
    fn add_hop(&mut self, root: Root, hop: &Transaction) {
        let requester = Requester { link: root.link, id: hop.requester.id };
        let whole = match self.held.get_mut(&root.number) {
            Some(held) => Some(held),
            None => self.matcher.waiting_mut(requester, hop.tag, root.number),
        };
        if let Some(whole) = whole {
            whole.add_hop(hop);
        }
    }

    /// Settles one of the events that a held transaction waits for, and ends the transaction after the last one.
    /// Returns false if no transaction with this number is held.
    fn settle_held(&mut self, number: u64, settle: impl FnOnce(&mut Transaction)) -> bool {
        let Some(held) = self.held.get_mut(&number) else { return false };
        held.unacked = held.unacked.saturating_sub(1);
        settle(held);
        if held.unacked == 0
            && let Some(ended) = self.held.remove(&number)
        {
            self.ended.push_back(ended);
        }
        true
    }

    // If two requests have the same tag, the completion belongs to either, so its Ack is not tracked.
    fn await_ack_of_waiting(
        &mut self,
        requester: Requester,
        tag: Tag,
        place: Option<u64>,
        way: LinkDirection,
        is_completion: bool,
    ) {
        if place.is_none() {
            return;
        }
        let waiting = self.matcher.waiting_under(requester, tag, is_completion);
        if let Some(transaction) = waiting {
            let unacked = note_unacked(transaction, place, is_completion, self.acked_ways.contains(&way));
            self.push_unacked(way, unacked);
        }
    }

    fn await_ack(
        &mut self,
        transaction: &mut Transaction,
        place: Option<u64>,
        way: LinkDirection,
        is_completion: bool,
    ) {
        if place.is_some() {
            let unacked = note_unacked(transaction, place, is_completion, self.acked_ways.contains(&way));
            self.push_unacked(way, unacked);
        }
    }

    fn push_unacked(&mut self, way: LinkDirection, unacked: Option<Unacked>) {
        let Some(unacked) = unacked else { return };
        let queue = self.unacked.entry(way).or_default();
        queue.push_back(unacked);
        if queue.len() > MAX_UNACKED
            && let Some(oldest) = queue.pop_front()
        {
            self.settle(oldest, None);
        }
    }

    fn dllp(&mut self, record: &Record<'_>, dllp: &Dllp) {
        // DLLPs in one direction carry the Acks for the other.
        self.acked_ways.insert(opposite(way(record)));
        for way in self.sequences.link_came_up(record, dllp).into_iter().flatten() {
            // TLPs that were sent before the link came up are never acknowledged.
            for unacked in self.unacked.remove(&way).into_iter().flatten() {
                self.settle(unacked, None);
            }
        }
        let Some((way, place)) = self.sequences.acknowledged(record, dllp) else { return };
        while let Some(unacked) = self.next_acked(way, place) {
            self.settle(unacked, Some((record.number, record.timestamp)));
        }
    }

    fn next_acked(&mut self, way: LinkDirection, place: u64) -> Option<Unacked> {
        let queue = self.unacked.get_mut(&way)?;
        if queue.front()?.place > place { None } else { queue.pop_front() }
    }

    /// Stores the Ack of a TLP in its transaction; `by` is `None` if the Ack will never be known.
    fn settle(&mut self, unacked: Unacked, by: Option<(u64, Timestamp)>) {
        let Unacked { requester, tag, request, is_completion, .. } = unacked;
        let ack = by.map_or(Ack::Unknown, |(number, time)| Ack::Seen { number, time });
        let note = |t: &mut Transaction| {
            *(if is_completion { &mut t.completion_ack } else { &mut t.ack }) = ack;
        };
        if !self.settle_held(request, note)
            && let Some(waiting) = self.matcher.waiting_mut(requester, tag, request)
        {
            waiting.unacked = waiting.unacked.saturating_sub(1);
            note(waiting);
        }
    }

    /// Counts a retransmitted TLP as a retry of its transaction, if that has not ended.
    fn replayed(&mut self, packet: &Packet<'_>, place: Option<u64>, way: LinkDirection) {
        let (Some(place), Some(queue)) = (place, self.unacked.get(&way)) else { return };
        let Ok(at) = queue.binary_search_by_key(&place, |unacked| unacked.place) else { return };
        let Unacked { requester, tag, request, .. } = queue[at];
        let transaction = match self.held.get_mut(&request) {
            Some(held) => Some(held),
            None => self.matcher.waiting_mut(requester, tag, request),
        };
        if let Some(transaction) = transaction {
            transaction.seen_again(packet);
        }
    }
}

/// Marks a TLP of `transaction` as unacknowledged, if the capture shows Acks.
fn note_unacked(
    transaction: &mut Transaction,
    place: Option<u64>,
    is_completion: bool,
    acks_are_seen: bool,
) -> Option<Unacked> {
    let place = place.filter(|_| acks_are_seen)?;
    *(if is_completion { &mut transaction.completion_ack } else { &mut transaction.ack }) = Ack::None;
    transaction.unacked += 1;
    Some(Unacked {
        place,
        requester: transaction.requester,
        tag: transaction.tag,
        request: transaction.request_number,
        is_completion,
    })
}

/// Returns the errors that a TLP shows by itself.
pub fn errors_of(tlp: &TlpRecord<'_>) -> Errors {
    let mut errors = Errors::empty();
    errors.set(Errors::POISONED, tlp.repr.ep);
    errors.set(Errors::BAD_ECRC, tlp.ecrc == Some(Ecrc::Bad));
    errors
}
