// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The transaction matcher: finds the request of a completion by link, requester and tag. Memory is bounded by
//! [`MAX_REQUESTERS`] and [`MAX_OUTSTANDING`]. Above these limits, the oldest request is given up. The matcher
//! allocates nothing once its maps have grown: tags are reused, so a tag keeps its entry after its request has
//! ended.
//!
//! In a capture from a mirroring switch, the next request of a tag may come before the last completion of its
//! previous request, as in NetTLP's `p4600-write-64blk.pcap`. So each tag keeps one earlier request in addition to
//! the newest. The earlier one does not count as outstanding, because its requester has released the tag.

mod hop;
mod posted;
mod transaction;

pub(crate) use hop::Root;
pub use hop::{Hop, Leg};
pub(crate) use posted::MAX_POSTED;
pub use transaction::{Ack, Errors, Requester, Target, Transaction};
pub(crate) use transaction::{answered_bytes, named_bytes};

use crate::reader::Direction;
use crate::sequence::LinkDirection;
use crate::time::Timestamp;
use posted::Posted;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;
use tlp::{Bdf, Body, Class, Completion, Repr, Status, Tag};

/// Maximum number of outstanding requests. If there are more, the oldest is given up and counted as expired.
pub const MAX_OUTSTANDING: usize = 65_536;
/// Maximum number of entries for tags, including those without a request.
const MAX_PLACES: usize = 2 * MAX_OUTSTANDING;
/// Number of busy tags from which the order of requests is tracked, until the number falls to half.
const MANY: usize = MAX_OUTSTANDING / 2;
/// Offset of the Vendor ID. Software reads it to probe a bus for functions (`PCIe 5.0 §7.5.1.1.1`).
const VENDOR_ID: u16 = 0;
/// Maximum number of requesters on all links whose outstanding requests are counted.
pub const MAX_REQUESTERS: usize = 65_536;

/// Effect of a TLP on the outstanding transactions.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "it is matched at once and never stored; a box would cost an allocation per transaction"
)]
pub enum Match {
    /// A posted request, which has no completion.
    Posted,
    /// A request, now outstanding.
    Request,
    /// The same TLP again: a replay, or a copy that was captured at a second place.
    Repeat,
    /// A request whose tag has an earlier request without all completions.
    TagReuse,
    /// A request of a requester above [`MAX_REQUESTERS`]. Its completions will not be matched.
    Untracked,
    /// A completion that is not the last one.
    Partial,
    /// The last completion of a transaction.
    Complete(Transaction),
    /// A completion without a request.
    Unmatched,
}

/// Number of TLPs of each kind. A transaction on several links counts on the first one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counts {
    /// Posted requests.
    pub posted: u64,
    /// Non-posted requests, including those that are counted in fields below.
    pub requests: u64,
    /// Requests seen again on a further link, after forwarding.
    pub forwarded: u64,
    /// TLPs seen again: replays and copies.
    pub repeats: u64,
    /// Requests with a tag whose earlier request was still outstanding.
    pub tag_reuses: u64,
    /// Requests given up because two later requests used their tag.
    pub given_up: u64,
    /// Requests given up because more than [`MAX_OUTSTANDING`] were outstanding and they were the oldest.
    pub expired: u64,
    /// Requests of requesters above [`MAX_REQUESTERS`].
    pub untracked: u64,
    /// Transactions that ended.
    pub completed: u64,
    /// Completed transactions with a status other than success, without bus probes.
    pub failed: u64,
    /// Completed transactions that are bus probes: Unsupported Request to a read of the Vendor ID of an absent function.
    pub probes: u64,
    /// Completions without a request.
    pub unmatched: u64,
    /// Matched completions whose Byte Count differs from the remaining bytes.
    pub byte_count_mismatches: u64,
}

/// Number of outstanding requests of a requester.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outstanding {
    /// Current number.
    pub now: u32,
    /// Maximum number so far.
    pub max: u32,
}

/// A TLP with the information that the matcher needs.
#[derive(Clone, Copy)]
pub(crate) struct Packet<'a> {
    /// Number of its record.
    pub(crate) number: u64,
    /// Time when it was seen.
    pub(crate) time: Timestamp,
    /// True if the file has a time for it.
    pub(crate) has_time: bool,
    /// Its line in a text.
    pub(crate) line: Option<u64>,
    /// Time when it was first seen. It is earlier than `time` if the first TLP did not arrive.
    pub(crate) first_seen: Timestamp,
    /// How often it was seen before without arriving.
    pub(crate) retries: u32,
    /// Number of the link.
    pub(crate) link: u16,
    /// The slot or switch at the end of the link, if the capture has interfaces.
    pub(crate) slot: Option<&'a Arc<str>>,
    /// Direction of the TLP.
    pub(crate) direction: Option<Direction>,
    /// The header.
    pub(crate) repr: &'a Repr,
    /// Errors of the TLP itself.
    pub(crate) errors: Errors,
    /// Bits of the filter terms that match it.
    pub(crate) terms: u64,
}

/// A tag of a requester on a link: Requester ID in bits 47:32, tag in bits 31:16, link in bits 15:0. It is compared
/// as one integer, so the places of one tag on all links are adjacent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct TagKey(u64);

impl TagKey {
    fn new(requester: Requester, tag: Tag) -> TagKey {
        let Requester { link, id } = requester;
        TagKey(u64::from(id.bits()) << 32 | u64::from(tag.bits()) << 16 | u64::from(link))
    }

    const fn requester(self) -> Requester {
        Requester { link: self.0 as u16, id: Bdf::from_bits((self.0 >> 32) as u16) }
    }

    /// The same tag on all links.
    const fn of_all_links(self) -> RangeInclusive<TagKey> {
        TagKey(self.0 & !0xffff)..=TagKey(self.0 | 0xffff)
    }
}

/// Outstanding requests of one tag.
#[derive(Clone, Debug, Default)]
struct TagRequests {
    newest: Option<Transaction>,
    earlier: Option<Transaction>,
}

/// Matches completions with requests.
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    waiting: BTreeMap<TagKey, TagRequests>,
    /// Number of tags with outstanding requests.
    busy_tags: usize,
    /// Requests in order, to find the oldest one; empty unless [`MANY`] tags are busy. Ended requests are removed
    /// from time to time.
    order: VecDeque<(u64, TagKey)>,
    outstanding: BTreeMap<Requester, Outstanding>,
    /// Functions that have completed a configuration read successfully.
    present: BTreeSet<Bdf>,
    counts: Counts,
    given_up: VecDeque<Transaction>,
    keeps_given_up: bool,
    /// Record number of the request that the latest completion answered.
    answered: Option<u64>,
    /// If the latest TLP is a forwarded request, the first record of its transaction.
    forwards: Option<Root>,
    posted: Posted,
    /// The link of the first TLP. `has_links` tells whether a TLP was on another link.
    first_link: Option<u16>,
    has_links: bool,
}

impl Matcher {
    /// Creates a matcher without records.
    pub fn new() -> Matcher {
        Matcher::default()
    }

    /// A matcher that keeps the requests it gives up, for [`next_given_up`](Self::next_given_up).
    pub(crate) fn that_keeps_given_up() -> Matcher {
        Matcher { keeps_given_up: true, ..Matcher::default() }
    }

    /// Processes a TLP on a link in a direction. `number` and `time` are the number and time of the record.
    pub fn see(
        &mut self,
        number: u64,
        time: Timestamp,
        (link, direction): LinkDirection,
        repr: &Repr,
    ) -> Match {
        let (errors, terms) = (Errors::empty(), 0);
        self.packet(&Packet {
            number,
            time,
            has_time: true,
            line: None,
            first_seen: time,
            retries: 0,
            link,
            slot: None,
            direction,
            repr,
            errors,
            terms,
        })
    }

    pub(crate) fn packet(&mut self, packet: &Packet<'_>) -> Match {
        self.has_links |= *self.first_link.get_or_insert(packet.link) != packet.link;
        self.forwards = None;
        match (&packet.repr.body, packet.repr.format().class) {
            (Body::Completion(completion), _) => self.completion(packet, completion),
            (_, Class::NonPosted) => self.request(packet),
            _ => {
                self.forwards = self.posted.see(packet, self.has_links);
                self.count_request(|counts| &mut counts.posted);
                Match::Posted
            }
        }
    }

    /// Counts a TLP whose place in the sequence shows that it was seen before.
    pub(crate) fn count_repeat(&mut self) {
        self.counts.repeats += 1;
    }

    /// Returns the number of TLPs of each kind.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Record number of the request that the latest matched completion answered.
    pub(crate) const fn answered(&self) -> Option<u64> {
        self.answered
    }

    /// Returns the first record of the transaction if the latest TLP is a forwarded request.
    pub(crate) const fn forwards(&self) -> Option<Root> {
        self.forwards
    }

    /// Returns the outstanding transactions, each on the link that showed it first.
    pub fn waiting(&self) -> impl Iterator<Item = &Transaction> {
        self.waiting.values().flat_map(TagRequests::all).filter(|waiting| waiting.hop_of.is_none())
    }

    /// Numbers of outstanding requests by requester.
    pub fn outstanding(&self) -> impl Iterator<Item = (Requester, Outstanding)> {
        self.outstanding.iter().map(|(requester, outstanding)| (*requester, *outstanding))
    }

    /// Number of outstanding requests of one requester.
    pub fn outstanding_of(&self, requester: Requester) -> Outstanding {
        self.outstanding.get(&requester).copied().unwrap_or_default()
    }

    /// The outstanding request with this record number.
    pub(crate) fn waiting_mut(
        &mut self,
        requester: Requester,
        tag: Tag,
        number: u64,
    ) -> Option<&mut Transaction> {
        let slot = self.waiting.get_mut(&TagKey::new(requester, tag))?;
        [&mut slot.newest, &mut slot.earlier].into_iter().flatten().find(|t| t.request_number == number)
    }

    /// The outstanding request of a tag. If the tag has two requests, returns the newest, or `None` with `only`.
    pub(crate) fn waiting_under(
        &mut self,
        requester: Requester,
        tag: Tag,
        only: bool,
    ) -> Option<&mut Transaction> {
        match self.waiting.get_mut(&TagKey::new(requester, tag))? {
            TagRequests { newest: Some(_), earlier: Some(_) } if only => None,
            TagRequests { newest: Some(newest), .. } => Some(newest),
            TagRequests { earlier, .. } => earlier.as_mut(),
        }
    }

    /// Removes and returns a request that was given up.
    pub(crate) fn next_given_up(&mut self) -> Option<Transaction> {
        self.given_up.pop_front()
    }

    /// Ends and returns all outstanding transactions, in the order of their requests.
    pub(crate) fn drain(&mut self) -> Vec<Transaction> {
        let slots = std::mem::take(&mut self.waiting).into_values();
        let mut left: Vec<Transaction> =
            slots.flat_map(|slot| [slot.earlier, slot.newest]).flatten().collect();
        left.sort_by_key(|t| t.request_number);
        self.busy_tags = 0;
        self.order.clear();
        left
    }

    /// Counts the latest request in the field that `kind` selects, or as forwarded if another link showed it before.
    fn count_request(&mut self, kind: impl Fn(&mut Counts) -> &mut u64) {
        let counts = &mut self.counts;
        *(if self.forwards.is_some() { &mut counts.forwarded } else { kind(counts) }) += 1;
    }

    /// Returns the transaction that `request` belongs to, if another link showed it before.
    fn root_of(&self, request: &Transaction, place: TagKey) -> Option<Root> {
        if !self.has_links {
            return None;
        }
        let same_tag = self.waiting.range(place.of_all_links()).flat_map(|(_, slot)| slot.all());
        let root =
            same_tag.filter(|waiting| waiting.is_forwarded_as(request)).max_by_key(|t| t.request_number)?;
        Some(Root { link: root.requester.link, number: root.request_number })
    }

    fn request(&mut self, packet: &Packet<'_>) -> Match {
        let mut request = Transaction::of_request(packet);
        let (requester, tag, number) = (request.requester, request.tag, request.request_number);
        let place = TagKey::new(requester, tag);
        request.hop_of = self.root_of(&request, place);
        self.forwards = request.hop_of;
        self.count_request(|counts| &mut counts.requests);
        match self.waiting.get_mut(&place) {
            Some(TagRequests { newest: Some(newest), .. }) if newest.is_repeated_by(&request) => {
                newest.seen_again(packet);
                self.counts.repeats += 1;
                return Match::Repeat;
            }
            Some(TagRequests { newest: Some(newest), earlier }) => {
                request.errors |= Errors::DUPLICATE_TAG;
                let before = std::mem::replace(newest, request);
                self.counts.tag_reuses += 1;
                if let Some(oldest) = earlier.replace(before) {
                    self.counts.given_up += 1;
                    self.give_up(oldest, Errors::empty());
                }
                self.remember(number, place);
                return Match::TagReuse;
            }
            _ => {}
        }
        if !self.raise_outstanding(requester) {
            self.counts.untracked += 1;
            return Match::Untracked;
        }
        if self.busy_tags == MAX_OUTSTANDING {
            self.expire_oldest();
        }
        if self.waiting.len() == MAX_PLACES {
            self.waiting.retain(|_, slot| slot.is_busy());
        }
        let slot = self.waiting.entry(place).or_default();
        self.busy_tags += usize::from(!slot.is_busy());
        slot.newest = Some(request);
        self.remember(number, place);
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

    /// Adds the newest request to the order. Removes ended requests if they are the majority.
    fn remember(&mut self, number: u64, place: TagKey) {
        if self.order.is_empty() {
            if self.busy_tags >= MANY {
                self.order.extend(
                    self.waiting
                        .iter()
                        .flat_map(|(place, slot)| slot.all().map(|waiting| (waiting.request_number, *place))),
                );
                self.order.make_contiguous().sort_unstable();
            }
            return;
        }
        if self.busy_tags < MANY / 2 {
            self.order.clear();
            return;
        }
        if self.order.len() >= 4 * self.busy_tags {
            let waiting = &self.waiting;
            self.order.retain(|(number, place)| waiting.get(place).is_some_and(|slot| slot.holds(*number)));
        }
        self.order.push_back((number, place));
    }

    /// Gives up the oldest request, and the other request of its tag.
    fn expire_oldest(&mut self) {
        while let Some((number, place)) = self.order.pop_front() {
            let Some(slot) = self.waiting.get_mut(&place).filter(|slot| slot.holds(number)) else { continue };
            let slot = std::mem::take(slot);
            self.busy_tags -= 1;
            self.lower_outstanding(place.requester(), slot.newest.is_some());
            for transaction in [slot.earlier, slot.newest].into_iter().flatten() {
                self.counts.expired += 1;
                self.give_up(transaction, Errors::EXPIRED);
            }
            return;
        }
    }

    fn lower_outstanding(&mut self, requester: Requester, by_one: bool) {
        if let Some(outstanding) = self.outstanding.get_mut(&requester) {
            outstanding.now = outstanding.now.saturating_sub(u32::from(by_one));
        }
    }

    fn give_up(&mut self, mut transaction: Transaction, why: Errors) {
        if self.keeps_given_up {
            transaction.give_up(why);
            self.given_up.push_back(transaction);
        }
    }

    fn completion(&mut self, packet: &Packet<'_>, completion: &Completion) -> Match {
        let requester = Requester { link: packet.link, id: completion.requester };
        let place = TagKey::new(requester, completion.tag);
        let Some(slot) = self.waiting.get_mut(&place).filter(|slot| slot.is_busy()) else {
            self.counts.unmatched += 1;
            return Match::Unmatched;
        };
        let is_newest = slot.newest_answers(completion);
        let answered = if is_newest { &mut slot.newest } else { &mut slot.earlier };
        let Some(transaction) = answered else { return Match::Unmatched };
        self.answered = Some(transaction.request_number);
        if !transaction.expects(completion) {
            if transaction.is_answered_again_by(completion) {
                transaction.seen_again(packet);
                self.counts.repeats += 1;
                return Match::Repeat;
            }
            self.counts.byte_count_mismatches += 1;
            transaction.errors |= Errors::BYTE_COUNT;
        }
        if !transaction.is_ended_by(packet, completion) {
            return Match::Partial;
        }
        match (transaction.config_read(), completion.status) {
            (Some((function, _)), Status::Success) => _ = self.present.insert(function),
            (Some((function, VENDOR_ID)), Status::UnsupportedRequest)
                if !self.present.contains(&function) =>
            {
                transaction.set_probe();
            }
            _ => {}
        }
        if transaction.hop_of.is_none() {
            let (is_probe, failed) = (transaction.is_probe, completion.status != Status::Success);
            self.counts.completed += 1;
            self.counts.probes += u64::from(is_probe);
            self.counts.failed += u64::from(failed && !is_probe);
        }
        let ended = answered.take();
        self.busy_tags -= usize::from(!slot.is_busy());
        self.lower_outstanding(requester, is_newest);
        ended.map_or(Match::Unmatched, Match::Complete)
    }
}

impl TagRequests {
    // Prefers the earlier request, unless the completion fits only the newest.
    fn newest_answers(&self, completion: &Completion) -> bool {
        match (&self.newest, &self.earlier) {
            (Some(newest), Some(earlier)) => !earlier.expects(completion) && newest.expects(completion),
            (newest, _) => newest.is_some(),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Transaction> {
        self.earlier.iter().chain(&self.newest)
    }

    const fn is_busy(&self) -> bool {
        self.newest.is_some() || self.earlier.is_some()
    }

    fn holds(&self, number: u64) -> bool {
        self.all().any(|waiting| waiting.request_number == number)
    }
}
