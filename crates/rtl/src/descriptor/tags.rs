// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests of all functions that wait for completions, by tag: the block's split completion table (PG213: "Tag Management
//! for Non-Posted Transactions").

use super::functions::FunctionIndex;
use tlp::Time;

/// A request that waits for completions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) slot: FunctionIndex,
    /// The Requester ID of the request, as given by the design.
    pub(super) requester: u16,
    /// Address of the next byte that the request waits for.
    pub(super) next: u64,
    pub(super) since: Time,
}

/// See the [module](self).
pub(super) struct Tags {
    entries: Vec<Option<Entry>>,
    /// Time until which the tag of a lost request stays unused, because completions may still arrive.
    resting: Vec<Time>,
    last: usize,
}

impl Tags {
    pub(super) fn new(count: u16) -> Tags {
        let count = usize::from(count);
        Tags { entries: vec![None; count], resting: vec![Time::ZERO; count], last: count - 1 }
    }

    pub(super) fn count(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&mut self, tag: u16) -> Option<&mut Entry> {
        self.entries.get_mut(usize::from(tag))?.as_mut()
    }

    /// Records a request. Returns false if its tag is in use.
    pub(super) fn claim(&mut self, tag: u8, entry: Entry) -> bool {
        let place = self.entries.get_mut(usize::from(tag)).filter(|place| place.is_none());
        place.map(|place| *place = Some(entry)).is_some()
    }

    pub(super) fn release(&mut self, tag: u16) -> Option<Entry> {
        self.entries.get_mut(usize::from(tag)).and_then(Option::take)
    }

    /// Releases a tag, which then rests for as long as its request has waited.
    pub(super) fn rest(&mut self, tag: u16, now: Time) -> Option<Entry> {
        let entry = self.release(tag)?;
        self.resting[usize::from(tag)] = now + now.since(entry.since);
        Some(entry)
    }

    /// Returns the tag of the next request, among the first `allowed` tags: free tags in rotation.
    pub(super) fn free(&self, now: Time, allowed: usize) -> Option<u8> {
        let count = self.count().min(allowed);
        let in_turn = (1..=count).map(|n| (self.last + n) % count);
        let mut free = in_turn.filter(|tag| self.entries[*tag].is_none() && self.resting[*tag] <= now);
        free.next().map(|tag| tag as u8)
    }

    pub(super) fn used(&mut self, tag: u8) {
        self.last = tag.into();
    }

    /// Returns the number of free tags among the first `allowed`.
    pub(super) fn left(&self, now: Time, allowed: usize) -> usize {
        let all = self.entries.iter().zip(&self.resting).take(allowed);
        all.filter(|(entry, until)| entry.is_none() && **until <= now).count()
    }

    /// Returns the tags that a function uses, or that all functions use if `slot` is `None`.
    pub(super) fn of(&self, slot: Option<FunctionIndex>) -> impl Iterator<Item = u16> {
        let is = move |entry: &Option<Entry>| {
            entry.as_ref().is_some_and(|e| slot.is_none_or(|slot| e.slot == slot))
        };
        (0..).zip(&self.entries).filter(move |(_, entry)| is(entry)).map(|(tag, _)| tag)
    }
}
