// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The outstanding requests of one requester by tag (`PCIe 5.0 §2.2.6.2`), with their completion timers (§2.8).
//! Each tag is free, waiting for completions, or blocked for a while. This module does not interpret requests, and
//! reads no clock.
//!
//! A tag whose request was given up is *resting*. Completions of that request may still arrive, and must not be
//! mistaken for those of a new request. The owner decides how long the tag rests, and may release it earlier.

use crate::{Tag, Time};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

const NONE: u16 = u16::MAX;

/// The state of a tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TagState {
    /// No request has the tag.
    Free,
    /// A request has the tag, and waits for completions.
    Waiting,
    /// The request was given up, and its completions may still arrive.
    Resting,
}

#[derive(Clone, Debug)]
struct TagSlot<T> {
    state: TagState,
    deadline: Time,
    previous: u16,
    next: u16,
    request: T,
}

/// Requests by tag. The slots of tags in use form a list sorted by deadline, so taking a tag allocates nothing.
#[derive(Clone, Debug)]
pub struct TaggedRequests<T> {
    slots: Vec<TagSlot<T>>,
    /// The free tags; the tag that has been free for longest comes first.
    free: VecDeque<u16>,
    first: u16,
    count: u16,
    in_use: u16,
    resting: u16,
    head: u16,
    tail: u16,
}

impl<T> Default for TaggedRequests<T> {
    /// A table without tags.
    fn default() -> TaggedRequests<T> {
        let (slots, free) = (Vec::new(), VecDeque::new());
        TaggedRequests { slots, free, first: 0, count: 0, in_use: 0, resting: 0, head: NONE, tail: NONE }
    }
}

impl<T: Default> TaggedRequests<T> {
    /// Sets the range of tags: `count` tags from `first` on. Other tags that are in use stay in use until they are
    /// released.
    ///
    /// # Panics
    /// If the range ends above tag 1023.
    pub fn set_range(&mut self, first: u16, count: u16) {
        if (first, count) == (self.first, self.count) {
            return;
        }
        let end = usize::from(first) + usize::from(count);
        self.make_room(end);
        (self.first, self.count) = (first, count);
        self.free.clear();
        self.free.reserve(usize::from(count));
        let slots = &self.slots;
        self.free.extend((first..end as u16).filter(|&t| slots[usize::from(t)].state == TagState::Free));
    }

    /// Removes the table's own tags. From now on it uses only tags that are [lent](Self::lend) to it, all below
    /// `end`. Other tags that are in use stay in use until they are released.
    ///
    /// # Panics
    /// If `end` is above 1024.
    pub fn borrow_below(&mut self, end: u16) {
        self.make_room(end.into());
        if self.count != Tag::COUNT {
            self.free.clear();
        }
        (self.first, self.count) = (0, Tag::COUNT);
    }

    fn make_room(&mut self, end: usize) {
        assert!(end <= usize::from(Tag::COUNT), "tags up to {}: expected 0 to 1023", end - 1);
        while self.slots.len() < end {
            let (state, request) = (TagState::Free, T::default());
            self.slots.push(TagSlot { state, deadline: Time::MAX, previous: NONE, next: NONE, request });
        }
    }
}

impl<T> TaggedRequests<T> {
    /// The number of tags in the range; 1024 if the table [borrows](Self::borrow_below) its tags.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// The number of tags that are not free.
    pub fn in_use(&self) -> u16 {
        self.in_use
    }

    /// The number of resting tags.
    pub fn resting(&self) -> u16 {
        self.resting
    }

    /// Returns true if [`take`](Self::take) can return a tag.
    #[inline]
    pub fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// The state of a tag and its current or last request; `None` if the table never had this tag.
    #[inline]
    pub fn get(&mut self, tag: Tag) -> Option<(TagState, &mut T)> {
        let slot = self.slots.get_mut(usize::from(tag.bits()))?;
        Some((slot.state, &mut slot.request))
    }

    /// The state and request of each tag in use, by deadline.
    pub fn requests(&self) -> impl Iterator<Item = (TagState, &T)> {
        let slot = |tag: Tag| &self.slots[usize::from(tag.bits())];
        self.in_order().map(move |tag| (slot(tag).state, &slot(tag).request))
    }

    /// Takes the tag that has been free for longest, and returns it with a place for its request. The place still
    /// holds the tag's previous request. `None` if no tag is free.
    #[inline]
    pub fn take(&mut self, deadline: Time) -> Option<(Tag, &mut T)> {
        let tag = self.free.pop_front()?;
        self.begin(tag, deadline);
        Some((Tag::from_bits(tag), &mut self.slots[usize::from(tag)].request))
    }

    /// Takes `tag`. Returns `None` if the table does not have this tag, or the tag is not free.
    pub fn claim(&mut self, tag: Tag, deadline: Time) -> Option<&mut T> {
        let at = self.free.iter().position(|&t| t == tag.bits())?;
        self.free.remove(at);
        self.begin(tag.bits(), deadline);
        Some(&mut self.slots[usize::from(tag.bits())].request)
    }

    /// Lends a tag to the table. The tag is free until it is taken or claimed, or [taken back](Self::take_back).
    ///
    /// # Panics
    /// In debug builds, if the tag is in use. In any build, if it is not below the `end` of `borrow_below`.
    pub fn lend(&mut self, tag: Tag) {
        debug_assert!(self.slots[usize::from(tag.bits())].state == TagState::Free);
        self.free.push_back(tag.bits());
    }

    /// Takes back a lent tag that is free, because it was never taken or has been released; `None` if there is none.
    #[inline]
    pub fn take_back(&mut self) -> Option<Tag> {
        self.free.pop_front().map(Tag::from_bits)
    }

    fn begin(&mut self, tag: u16, deadline: Time) {
        self.slots[usize::from(tag)].state = TagState::Waiting;
        self.in_use += 1;
        self.link(tag, deadline);
    }

    /// Frees a tag whose last completion has arrived, or whose completions can no longer arrive.
    pub fn release(&mut self, tag: Tag) {
        let tag = tag.bits();
        let slot = &mut self.slots[usize::from(tag)];
        if slot.state == TagState::Free {
            return;
        }
        self.resting -= u16::from(slot.state == TagState::Resting);
        slot.state = TagState::Free;
        self.unlink(tag);
        self.in_use -= 1;
        if (self.first..self.first + self.count).contains(&tag) {
            self.free.push_back(tag);
        }
    }

    /// Frees all tags. The caller knows that no completion can arrive any more.
    pub fn release_all(&mut self) {
        while self.head != NONE {
            self.release(Tag::from_bits(self.head));
        }
    }

    /// Lets a tag in use rest until `until`, or until it is released.
    pub fn rest(&mut self, tag: Tag, until: Time) {
        let slot = &mut self.slots[usize::from(tag.bits())];
        self.resting += u16::from(slot.state == TagState::Waiting);
        slot.state = TagState::Resting;
        self.postpone(tag, until);
    }

    /// Changes the deadline of a tag in use.
    pub fn postpone(&mut self, tag: Tag, deadline: Time) {
        self.unlink(tag.bits());
        self.link(tag.bits(), deadline);
    }

    /// Calls `forget` with each waiting request, in the order of tags, to cancel it. The tags stay in use at least
    /// until `until`, so that late completions are recognized.
    pub fn void(&mut self, until: Time, mut forget: impl FnMut(&mut T)) {
        for tag in (0..self.slots.len() as u16).map(Tag::from_bits) {
            let deadline = self.deadline(tag);
            let Some((TagState::Waiting, request)) = self.get(tag) else { continue };
            forget(request);
            if deadline < until || deadline == Time::MAX {
                self.postpone(tag, until);
            }
        }
    }

    /// The tags in use, sorted by deadline.
    pub fn in_order(&self) -> impl Iterator<Item = Tag> {
        let there = |&tag: &u16| tag != NONE;
        let on = move |&tag: &u16| Some(self.slots[usize::from(tag)].next).filter(there);
        core::iter::successors(Some(self.head).filter(there), on).map(Tag::from_bits)
    }

    /// The deadline of a tag.
    pub fn deadline(&self, tag: Tag) -> Time {
        self.slots.get(usize::from(tag.bits())).map_or(Time::MAX, |slot| slot.deadline)
    }

    /// The earliest deadline of a tag in use; `None` if there is none.
    #[inline]
    pub fn next_deadline(&self) -> Option<Time> {
        let head = self.slots.get(usize::from(self.head))?;
        (head.deadline < Time::MAX).then_some(head.deadline)
    }

    /// The tag with the earliest deadline, if that deadline has passed. The owner must then [`rest`](Self::rest),
    /// [`release`](Self::release) or [`postpone`](Self::postpone) it.
    pub fn due(&self, now: Time) -> Option<Tag> {
        (self.next_deadline()? <= now).then(|| Tag::from_bits(self.head))
    }

    /// Inserts a tag by its deadline. The walk is short, because deadlines ascend unless a timeout was changed.
    fn link(&mut self, tag: u16, deadline: Time) {
        let mut after = self.tail;
        while after != NONE && self.slots[usize::from(after)].deadline > deadline {
            after = self.slots[usize::from(after)].previous;
        }
        let next = if after == NONE { self.head } else { self.slots[usize::from(after)].next };
        let slot = &mut self.slots[usize::from(tag)];
        (slot.deadline, slot.previous, slot.next) = (deadline, after, next);
        self.point(after, next, tag, tag);
    }

    fn unlink(&mut self, tag: u16) {
        let TagSlot { previous, next, .. } = self.slots[usize::from(tag)];
        self.point(previous, next, next, previous);
    }

    /// Sets the successor of `previous` to `on`, and the predecessor of `next` to `back`.
    fn point(&mut self, previous: u16, next: u16, on: u16, back: u16) {
        match self.slots.get_mut(usize::from(previous)) {
            Some(slot) => slot.next = on,
            None => self.head = on,
        }
        match self.slots.get_mut(usize::from(next)) {
            Some(slot) => slot.previous = back,
            None => self.tail = back,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Debug)]
    enum Step {
        Take(u64),
        Claim(u16, u64),
        Release(u16),
        Rest(u16, u64),
        Postpone(u16, u64),
        Expire(u64),
        Range(u16, u16),
    }

    fn step() -> impl Strategy<Value = Step> {
        let (tag, time) = (|| 0u16..8, || 0u64..100);
        prop_oneof![
            time().prop_map(Step::Take),
            (tag(), time()).prop_map(|(t, d)| Step::Claim(t, d)),
            tag().prop_map(Step::Release),
            (tag(), time()).prop_map(|(t, d)| Step::Rest(t, d)),
            (tag(), time()).prop_map(|(t, d)| Step::Postpone(t, d)),
            time().prop_map(Step::Expire),
            (0u16..4, 1u16..5).prop_map(|(first, count)| Step::Range(first, count)),
        ]
    }

    fn at(ps: u64) -> Time {
        Time::from_ps(ps)
    }

    proptest! {
        /// Compares the table with a plain map of deadlines and states after each random step.
        #[test]
        fn behaves_like_a_map(steps in prop::collection::vec(step(), 1..80)) {
            let mut tags: TaggedRequests<u64> = TaggedRequests::default();
            tags.set_range(0, 8);
            let (mut legal, mut model) = (0..8, BTreeMap::<u16, (u64, bool)>::new());
            for step in steps {
                let free = |model: &BTreeMap<u16, _>, t: &u16| legal.contains(t) && !model.contains_key(t);
                match step {
                    Step::Take(d) => match tags.take(at(d)) {
                        Some((tag, request)) => {
                            *request = d;
                            prop_assert!(free(&model, &tag.bits()));
                            model.insert(tag.bits(), (d, false));
                        }
                        None => prop_assert!(!legal.clone().any(|t| free(&model, &t))),
                    },
                    Step::Claim(t, d) => {
                        prop_assert_eq!(tags.claim(Tag::from_bits(t), at(d)).is_some(), free(&model, &t));
                        if free(&model, &t) {
                            model.insert(t, (d, false));
                        }
                    }
                    Step::Release(t) => {
                        tags.release(Tag::from_bits(t));
                        model.remove(&t);
                    }
                    Step::Rest(t, d) => if model.contains_key(&t) {
                        tags.rest(Tag::from_bits(t), at(d));
                        model.insert(t, (d, true));
                    },
                    Step::Postpone(t, d) => if let Some(slot) = model.get_mut(&t) {
                        tags.postpone(Tag::from_bits(t), at(d));
                        slot.0 = d;
                    },
                    Step::Expire(d) => while let Some(tag) = tags.due(at(d)) {
                        tags.release(tag);
                        let deadline = model.remove(&tag.bits());
                        prop_assert!(deadline.is_some_and(|(x, _)| x <= d && model.values().all(|y| x <= y.0)));
                    },
                    Step::Range(first, count) => {
                        tags.set_range(first, count);
                        legal = first..first + count;
                    }
                }
                prop_assert_eq!(usize::from(tags.in_use()), model.len());
                prop_assert_eq!(usize::from(tags.resting()), model.values().filter(|(_, rests)| *rests).count());
                prop_assert_eq!(tags.next_deadline(), model.values().map(|(d, _)| at(*d)).min());
                let deadlines: std::vec::Vec<Time> = tags.in_order().map(|tag| tags.deadline(tag)).collect();
                prop_assert!(deadlines.is_sorted() && deadlines.len() == model.len());
            }
        }
    }

    #[test]
    fn tags_outside_narrowed_range_are_not_reused() {
        let mut tags: TaggedRequests<()> = TaggedRequests::default();
        tags.set_range(0, 256);
        for _ in 0..40 {
            assert!(tags.take(Time::MAX).is_some());
        }
        tags.set_range(0, 32);
        assert!(!tags.has_free());
        tags.release(Tag::from_bits(39));
        assert!(!tags.has_free(), "tag 39 is no longer a tag");
        tags.release(Tag::from_bits(31));
        assert_eq!(tags.take(Time::MAX).map(|(tag, ())| tag), Tag::new(31));
    }

    #[test]
    fn borrower_keeps_lent_tags_until_free() {
        let mut tags: TaggedRequests<()> = TaggedRequests::default();
        tags.borrow_below(8);
        assert!(tags.take(Time::MAX).is_none() && tags.take_back().is_none());
        [5, 2, 7].into_iter().for_each(|tag| tags.lend(Tag::from_bits(tag)));
        assert_eq!(tags.take(at(9)).map(|(tag, ())| tag), Tag::new(5));
        assert!(
            tags.claim(Tag::from_bits(7), at(9)).is_some() && tags.claim(Tag::from_bits(1), at(9)).is_none()
        );
        assert_eq!((tags.take_back(), tags.take_back()), (Tag::new(2), None));
        tags.rest(Tag::from_bits(5), at(20));
        tags.borrow_below(4);
        tags.release(Tag::from_bits(7));
        assert_eq!((tags.take_back(), tags.take_back(), tags.in_use()), (Tag::new(7), None, 1));
        assert_eq!(tags.due(at(20)), Tag::new(5));
        tags.release(Tag::from_bits(5));
        assert_eq!(
            (tags.take_back(), tags.in_use()),
            (Tag::new(5), 0),
            "a tag beyond those of now comes back too"
        );
    }
}
