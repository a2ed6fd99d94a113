// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The outstanding requests, by direction of a link, requester and tag. Memory is bounded by [`MAX_OUTSTANDING`]
//! requests and [`MAX_REQUESTERS`] requesters. Reusing a tag allocates nothing.

use crate::decode::Record;
use crate::matcher::{MAX_OUTSTANDING, MAX_REQUESTERS};
use crate::time::Timestamp;
use std::collections::BTreeMap;
use tlp::{Awaited, Bdf, CompletedRequest, Completion, Repr, Status, Tag};

/// Maximum number of tags that are kept, including tags without a request.
const MAX_PLACES: usize = 2 * MAX_OUTSTANDING;

/// A request without its last completion.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    /// Number of its record.
    pub(super) number: u64,
    pub(super) time: Timestamp,
    pub(super) repr: Repr,
    /// Decimal places of its time; 0 if the trace has no time.
    pub(super) digits: u8,
    /// Line number in a text file.
    pub(super) line: Option<u64>,
    /// The bytes that its completions have not returned yet.
    pub(super) rest: Awaited,
    pub(super) completions: u32,
}

impl Waiting {
    pub(super) fn new(record: &Record<'_>, repr: &Repr) -> Waiting {
        Waiting {
            number: record.number,
            time: record.timestamp,
            repr: *repr,
            digits: super::digits(record),
            line: record.text.map(|text| text.line),
            rest: CompletedRequest::of_non_posted(repr).bytes,
            completions: 0,
        }
    }

    /// Returns true if `completion` fits as the next one of this request, by its Byte Count.
    fn expects(&self, completion: &Completion) -> bool {
        completion.status != Status::Success || u32::from(completion.byte_count) == self.rest.byte_count
    }
}

/// A tag of a requester on one direction of a link: direction from bit 32, Requester ID from bit 16, tag from bit 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Key(u64);

impl Key {
    /// `way` is the number of the direction.
    pub(super) fn new(way: u32, requester: Bdf, tag: Tag) -> Key {
        Key(u64::from(way) << 32 | u64::from(requester.bits()) << 16 | u64::from(tag.bits()))
    }

    pub(super) const fn way(self) -> u32 {
        (self.0 >> 32) as u32
    }

    const fn tag(self) -> u16 {
        self.0 as u16
    }

    /// The requester on this direction.
    const fn requester(self) -> u64 {
        self.0 >> 16
    }
}

/// The outstanding requests of one tag. An earlier request stays outstanding if its tag is used again.
#[derive(Clone, Debug, Default)]
struct TagRequests {
    newest: Option<Waiting>,
    earlier: Option<Box<Waiting>>,
    /// True if a request was not tracked, or if its completions are not checked. Then a completion without a
    /// request breaks no rule.
    is_untracked: bool,
}

/// A requester on one direction of a link.
#[derive(Clone, Copy, Debug)]
struct Requester {
    /// True if its first TLP was a completion, so that its first requests are not in the trace.
    began_before: bool,
    /// True if the trace has requests from it.
    has_requests: bool,
}

/// The state of the tag of a new request.
pub(super) enum Found {
    Free,
    /// There is no room for the request.
    NoRoom,
    InUse {
        /// Record number of the outstanding request.
        number: u64,
        since: Timestamp,
        /// An older request with this tag, which is no longer tracked.
        dropped: Option<Waiting>,
    },
}

#[derive(Clone, Debug, Default)]
pub(super) struct Outstanding {
    places: BTreeMap<Key, TagRequests>,
    requesters: BTreeMap<u64, Requester>,
    count: usize,
}

impl Outstanding {
    /// Tracks a request.
    pub(super) fn add(&mut self, key: Key, request: Waiting) -> Found {
        if !self.knows_requester(key, true) || self.count == MAX_OUTSTANDING {
            self.skip(key);
            return Found::NoRoom;
        }
        if self.places.len() == MAX_PLACES {
            self.places.retain(|_, place| place.newest.is_some() || place.earlier.is_some());
        }
        let place = self.places.entry(key).or_default();
        self.count += 1;
        let Some(before) = place.newest.replace(request) else {
            place.is_untracked &= place.earlier.is_some();
            return Found::Free;
        };
        let (number, since) = (before.number, before.time);
        let dropped = place.earlier.replace(Box::new(before)).map(|dropped| *dropped);
        self.count -= usize::from(dropped.is_some());
        place.is_untracked |= dropped.is_some();
        Found::InUse { number, since, dropped }
    }

    /// Records that a request is not tracked, so that its completions are not checked.
    pub(super) fn skip(&mut self, key: Key) {
        if self.places.len() < MAX_PLACES {
            self.places.entry(key).or_default().is_untracked = true;
        }
    }

    /// Removes the request that was outstanding before its tag was used again.
    pub(super) fn take_earlier(&mut self, key: Key) -> Option<Waiting> {
        let earlier = self.places.get_mut(&key)?.earlier.take()?;
        self.count -= 1;
        Some(*earlier)
    }

    /// Removes and returns the requests from `limit` or before.
    pub(super) fn expire(&mut self, limit: Timestamp) -> Vec<(Key, Waiting)> {
        let mut expired = Vec::new();
        for (key, place) in &mut self.places {
            if place.newest.as_ref().is_some_and(|newest| newest.time <= limit) {
                expired.extend(place.newest.take().map(|waiting| (*key, waiting)));
            }
            if place.earlier.as_ref().is_some_and(|earlier| earlier.time <= limit) {
                expired.extend(place.earlier.take().map(|waiting| (*key, *waiting)));
            }
        }
        self.count -= expired.len();
        expired.sort_by_key(|(_, waiting)| waiting.number);
        expired
    }

    /// Calls `judge` with the request that `completion` answers. `judge` returns true for the last completion.
    /// Returns the record number of the request; `None` if no request is outstanding.
    pub(super) fn complete(
        &mut self,
        key: Key,
        completion: &Completion,
        judge: impl FnOnce(&mut Waiting) -> bool,
    ) -> Option<u64> {
        let place = self.places.get_mut(&key)?;
        let is_earlier = match (&place.newest, &place.earlier) {
            (Some(newest), Some(earlier)) => earlier.expects(completion) || !newest.expects(completion),
            (_, earlier) => earlier.is_some(),
        };
        let waiting = if is_earlier { place.earlier.as_deref_mut() } else { place.newest.as_mut() }?;
        let number = waiting.number;
        waiting.completions += 1;
        if judge(waiting) {
            self.count -= 1;
            if is_earlier { place.earlier = None } else { place.newest = None }
        }
        Some(number)
    }

    /// Returns true if a completion without a request is a violation, because the trace would show the request.
    /// `is_beginning` is true as long as requests from before the trace may be outstanding.
    pub(super) fn shows_requests(&mut self, key: Key, is_beginning: bool) -> bool {
        if !self.knows_requester(key, false) {
            return false;
        }
        if let Some(place) = self.places.get(&key) {
            return !place.is_untracked;
        }
        if !is_beginning {
            return self.has_requests(key.way());
        }
        let shows = |r: &Requester| r.has_requests && !r.began_before;
        self.requesters.get(&key.requester()).is_some_and(shows)
    }

    /// Returns true if a completion with this key and record number has the wrong requester: this requester has
    /// sent no request, and a request of another one with the same tag came before the completion and is still
    /// outstanding.
    pub(super) fn is_misdirected(&self, key: Key, number: u64) -> bool {
        if self.requesters.get(&key.requester()).is_none_or(|requester| requester.has_requests) {
            return false;
        }
        let waits = |waiting: &Waiting| waiting.number < number && waiting.completions == 0;
        let of_way = Key::new(key.way(), Bdf::from_bits(0), Tag::default())
            ..Key::new(key.way() + 1, Bdf::from_bits(0), Tag::default());
        self.places.range(of_way).any(|(other, place)| {
            let mut requests = place.newest.iter().chain(place.earlier.as_deref());
            other.tag() == key.tag() && requests.any(waits)
        })
    }

    /// Returns true if the trace has a request in this direction.
    fn has_requests(&self, way: u32) -> bool {
        let [first, end] = [way, way + 1].map(|way| u64::from(way) << 16);
        self.requesters.range(first..end).any(|(_, requester)| requester.has_requests)
    }

    /// Drops the state of the selected directions after an unreadable part of the file, or after their link went
    /// down. Returns the number of outstanding requests that were dropped.
    pub(super) fn forget(&mut self, is_meant: impl Fn(u32) -> bool) -> u64 {
        let before = self.count;
        for (_, place) in self.places.iter_mut().filter(|(key, _)| is_meant(key.way())) {
            self.count -= usize::from(place.newest.is_some()) + usize::from(place.earlier.is_some());
            *place = TagRequests { is_untracked: true, ..TagRequests::default() };
        }
        for (_, requester) in self.requesters.iter_mut().filter(|(id, _)| is_meant((**id >> 16) as u32)) {
            (requester.began_before, requester.has_requests) = (true, false);
        }
        (before - self.count) as u64
    }

    /// Records a requester. Returns false if there is no room for it.
    fn knows_requester(&mut self, key: Key, is_request: bool) -> bool {
        let id = key.requester();
        if self.requesters.len() == MAX_REQUESTERS && !self.requesters.contains_key(&id) {
            return false;
        }
        let new = Requester { began_before: !is_request, has_requests: false };
        self.requesters.entry(id).or_insert(new).has_requests |= is_request;
        true
    }
}
