// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the order of posted requests across a switch (`PCIe 5.0 §2.4.1`). Requests that enter on one link and
//! leave on another keep their order. Only Relaxed Ordering or ID-Based Ordering allows a write to pass another.
//! The module compares memory writes of one Traffic Class. Memory is bounded by [`MAX_WRITES`].
//!
//! A write on a second link is matched with a write on a first link that has the same header and data. Of several
//! such writes, the oldest one that keeps the order is used; without such a write, the oldest one.

use std::collections::{BTreeMap, VecDeque};
use tlp::{Attributes, Bdf, Repr};

/// Maximum number of writes that may still appear on a further link.
const MAX_WRITES: usize = 4096;
/// Maximum number of writes of equal content that are compared.
const MAX_EQUAL: usize = 64;
/// Maximum number of links that a write crosses.
const MAX_LINKS: usize = 8;
/// Maximum number of paths whose order is kept.
const MAX_PATHS: usize = 65_536;
/// Number of bytes of data that are compared.
const DATA_BYTES: usize = 32;
/// Number of lists of writes. The content of a write determines its list.
const LISTS: usize = MAX_WRITES;

/// Header and data of a write, as a hash.
pub(super) type Content = u64;

/// A write, and the links that have shown it.
#[derive(Clone, Copy, Debug)]
struct Write {
    content: Content,
    /// Number of the previous write in its list.
    older: Option<u64>,
    /// The directions of links that have shown it. Only the first `count` entries are used.
    ways: [u32; MAX_LINKS],
    count: usize,
    /// Its place among the writes of the last of these directions.
    place: u64,
}

impl Write {
    fn ways(&self) -> &[u32] {
        &self.ways[..self.count]
    }

    /// The direction that showed it last.
    fn last_way(&self) -> u32 {
        self.ways[self.count - 1]
    }

    fn push(&mut self, way: u32, place: u64) {
        (self.ways[self.count], self.place) = (way, place);
        self.count += 1;
    }
}

/// Ingress direction, egress direction, Traffic Class and requester; `None` stands for all requesters.
type Path = (u32, u32, u8, Option<Bdf>);

/// The latest [`MAX_WRITES`] writes, by content. Each has a number, from 0.
#[derive(Clone, Debug, Default)]
struct Writes {
    all: VecDeque<Write>,
    /// Number of the oldest write that is kept. A list ends before the first write that was dropped.
    first: u64,
    /// Number of the latest write of each list; empty before the first.
    latest: Vec<Option<u64>>,
}

impl Writes {
    fn get(&self, number: u64) -> Option<&Write> {
        self.all.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Write> {
        self.all.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// The writes of this content with their numbers, latest first.
    fn of(&self, content: Content) -> impl Iterator<Item = (u64, &Write)> {
        let latest = self.latest.get(list_of(content)).copied().flatten();
        let numbered = |number: Option<u64>| number.and_then(|number| Some((number, self.get(number)?)));
        let list = std::iter::successors(numbered(latest), move |(_, write)| numbered(write.older));
        list.filter(move |(_, write)| write.content == content)
    }

    fn push(&mut self, content: Content, way: u32, place: u64) {
        if self.all.len() == MAX_WRITES {
            self.all.pop_front();
            self.first += 1;
        }
        self.latest.resize(LISTS, None);
        let number = self.first + self.all.len() as u64;
        let older = self.latest[list_of(content)].replace(number);
        let mut write = Write { content, older, ways: [0; MAX_LINKS], count: 0, place };
        write.push(way, place);
        self.all.push_back(write);
    }
}

fn list_of(content: Content) -> usize {
    content as usize % LISTS
}

#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    writes: Writes,
    /// Number of writes by direction of a link.
    counts: BTreeMap<u32, u64>,
    /// For each path: of the writes that have left, the one with the highest place on the ingress link. Writes with
    /// Relaxed Ordering are not kept, and writes with ID-Based Ordering only for their requester.
    left: BTreeMap<Path, Left>,
}

/// A write that left after a later one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Passed {
    /// Place of the write among the writes of the ingress link, from 0.
    pub(super) place: u64,
    /// Record number of the later write on the egress link.
    pub(super) by: u64,
}

/// A write that has left.
#[derive(Clone, Copy, Debug, Default)]
struct Left {
    /// Its place on the ingress link, plus 1.
    end: u64,
    /// Number of its record on the egress link.
    number: u64,
}

impl Order {
    /// Processes a write on `way`. Returns a later write if it passed this write, and passing was not allowed.
    pub(super) fn see(&mut self, way: u32, number: u64, repr: &Repr, content: Content) -> Option<Passed> {
        let place = *self.counts.entry(way).and_modify(|count| *count += 1).or_insert(0);
        let tc = repr.tc.bits();
        let Some(key) = self.forwarded(content, way, tc, repr.transaction().0) else {
            self.writes.push(content, way, place);
            return None;
        };
        let write = self.writes.get_mut(key)?;
        let (from, entered) = (write.last_way(), write.place);
        write.push(way, place);
        self.leave((from, way, tc), repr, Left { end: entered + 1, number })
    }

    /// Returns the write of another link that now appears on `way`: the oldest that keeps the order, or else the
    /// oldest. `None` if there is no such write, or if too many are equal.
    fn forwarded(&self, content: Content, way: u32, tc: u8, requester: Bdf) -> Option<u64> {
        let is_due = |write: &Write| write.count < MAX_LINKS && !write.ways().contains(&way);
        let keeps_order =
            |write: &Write| self.last_left((write.last_way(), way, tc), requester).end <= write.place;
        let (mut oldest, mut in_order) = (None, None);
        let equal = self.writes.of(content).take(MAX_EQUAL);
        for (n, (key, write)) in equal.enumerate().filter(|(_, (_, write))| is_due(write)) {
            if n == MAX_EQUAL - 1 {
                return None;
            }
            oldest = Some(key);
            in_order = if keeps_order(write) { oldest } else { in_order };
        }
        in_order.or(oldest)
    }

    fn last_left(&self, (from, to, tc): (u32, u32, u8), requester: Bdf) -> Left {
        let of = |requester| self.left.get(&(from, to, tc, requester)).copied().unwrap_or_default();
        let (of_all, of_one) = (of(None), of(Some(requester)));
        if of_one.end > of_all.end { of_one } else { of_all }
    }

    /// Records that a write leaves. Returns the later write that passed this write, if there is one.
    fn leave(&mut self, path: (u32, u32, u8), repr: &Repr, write: Left) -> Option<Passed> {
        let (requester, _) = repr.transaction();
        let last = self.last_left(path, requester);
        if last.end > write.end {
            return Some(Passed { place: write.end - 1, by: last.number });
        }
        let (from, to, tc) = path;
        // With ID-Based Ordering, a write may pass writes of other requesters.
        let bound_to = match repr.attr {
            attr if attr.contains(Attributes::RELAXED_ORDERING) => return None,
            attr if attr.contains(Attributes::ID_BASED_ORDERING) => Some(requester),
            _ => None,
        };
        let path = (from, to, tc, bound_to);
        if self.left.len() < MAX_PATHS || self.left.contains_key(&path) {
            self.left.insert(path, write);
        }
        None
    }

    /// Removes all writes, after an unreadable part of the file.
    pub(super) fn clear(&mut self) {
        *self = Order::default();
    }
}

/// A hash of header and data, without EP and TD, which may change on the way.
pub(super) fn content(header: &[u8], data: &[u8]) -> Content {
    let mut masked = [0; 16];
    masked[..header.len().min(16)].copy_from_slice(&header[..header.len().min(16)]);
    masked[2] &= 0x3f;
    let data = &data[..data.len().min(DATA_BYTES)];
    masked.chunks(8).chain(data.chunks(8)).fold(0, |hash, bytes| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        // The finalizer of MurmurHash3, for each word.
        let hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash ^ hash >> 33
    })
}
