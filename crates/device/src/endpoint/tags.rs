// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tags of one requester: which are free, which wait for completions, which may not be used yet. Never knows what
//! a transfer is: a tag has an owner by number.
//!
//! A tag that timed out is *quarantined*: its completion may still come, and would answer the next request of that
//! tag. It is free again when its last completion has come, or after a second completion timeout.

use std::collections::VecDeque;
use tlp::{
    AtomicOp, AtomicRequest, Attributes, Bdf, Body, Hint, MemoryOp, MemoryRequest, OperandSize, Repr, Span,
    Tag, Time, TrafficClass,
};

const NONE: u16 = u16::MAX;

/// What a tag is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TagState {
    Idle,
    Waiting,
    Quarantined,
}

/// The request that a tag names, as the Header Log is to have it should it time out (`PCIe 5.0 §7.8.4.7`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) span: Span,
    /// Of an AtomicOp, which, and of what size.
    pub(crate) atomic: Option<(AtomicOp, OperandSize)>,
    pub(crate) tc: TrafficClass,
    pub(crate) attr: Attributes,
    pub(crate) hint: Option<Hint>,
}

impl Asked {
    /// The header of the request of `requester` with this tag.
    pub(crate) fn repr(&self, requester: Bdf, tag: Tag) -> Repr {
        let Asked { span, tc, attr, hint, .. } = *self;
        let body = match self.atomic {
            None => Body::Memory(MemoryRequest { op: MemoryOp::Read, requester, tag, span }),
            Some((op, operand)) => {
                Body::Atomic(AtomicRequest { op, operand, requester, tag, address: span.first_byte() })
            }
        };
        Repr { tc, attr, th: hint, ..Repr::new(body) }
    }
}

/// A tag: the request it names, as far as completions have not answered it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TagSlot {
    pub(crate) state: TagState,
    /// Who gets the bytes; `None` once nobody wants them.
    pub(crate) owner: Option<u16>,
    /// Address of the next byte.
    pub(crate) address: u64,
    /// Bytes that remain, as Byte Count counts them.
    pub(crate) remaining: u32,
    /// Place of the next byte in its transfer.
    pub(crate) offset: u32,
    /// What was asked; `None`: nothing is known of it.
    pub(crate) asked: Option<Asked>,
    deadline: Time,
    previous: u16,
    next: u16,
}

const IDLE: TagSlot = TagSlot {
    state: TagState::Idle,
    owner: None,
    address: 0,
    remaining: 0,
    offset: 0,
    asked: None,
    deadline: Time::MAX,
    previous: NONE,
    next: NONE,
};

/// The tags of one requester. Those in use form a list by deadline, within the slots.
#[derive(Debug)]
pub(crate) struct TagPool {
    slots: Vec<TagSlot>,
    free: VecDeque<u16>,
    first: u16,
    count: u16,
    in_use: u16,
    quarantined: u16,
    head: u16,
    tail: u16,
}

impl TagPool {
    pub(crate) fn new() -> TagPool {
        TagPool {
            slots: Vec::new(),
            free: VecDeque::new(),
            first: 0,
            count: 0,
            in_use: 0,
            quarantined: 0,
            head: NONE,
            tail: NONE,
        }
    }

    /// From now on the tags are `count` from `first` on; those beyond that are in use stay so until they are done.
    pub(crate) fn set_range(&mut self, first: u16, count: u16) {
        if (first, count) == (self.first, self.count) {
            return;
        }
        (self.first, self.count) = (first, count);
        let end = first + count;
        if self.slots.len() < usize::from(end) {
            self.slots.resize(usize::from(end), IDLE);
        }
        self.free.clear();
        self.free.reserve(usize::from(count));
        self.free.extend((first..end).filter(|&t| self.slots[usize::from(t)].state == TagState::Idle));
    }

    pub(crate) fn count(&self) -> u16 {
        self.count
    }

    pub(crate) fn in_use(&self) -> u16 {
        self.in_use
    }

    pub(crate) fn quarantined(&self) -> u16 {
        self.quarantined
    }

    pub(crate) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    pub(crate) fn slot(&mut self, tag: Tag) -> Option<&mut TagSlot> {
        self.slots.get_mut(usize::from(tag.bits()))
    }

    /// Takes a tag: the one that has been free for longest.
    pub(crate) fn take(
        &mut self,
        owner: u16,
        address: u64,
        remaining: u32,
        offset: u32,
        deadline: Time,
    ) -> Option<Tag> {
        let tag = self.free.pop_front()?;
        // Field by field: the place in the list comes with `link`, and of idle ones nothing is asked.
        let slot = &mut self.slots[usize::from(tag)];
        (slot.state, slot.owner) = (TagState::Waiting, Some(owner));
        (slot.address, slot.remaining, slot.offset) = (address, remaining, offset);
        self.in_use += 1;
        self.link(tag, deadline);
        Some(Tag::from_bits(tag))
    }

    /// The tag's last completion has come.
    pub(crate) fn release(&mut self, tag: Tag) {
        let tag = tag.bits();
        let slot = &mut self.slots[usize::from(tag)];
        if slot.state == TagState::Idle {
            return;
        }
        self.quarantined -= u16::from(slot.state == TagState::Quarantined);
        (slot.state, slot.owner, slot.asked) = (TagState::Idle, None, None);
        self.unlink(tag);
        self.in_use -= 1;
        if (self.first..self.first + self.count).contains(&tag) {
            self.free.push_back(tag);
        }
    }

    /// Keeps the tag out of use until `until`, or until it is released.
    pub(crate) fn quarantine(&mut self, tag: Tag, until: Time) {
        let tag = tag.bits();
        self.unlink(tag);
        let slot = &mut self.slots[usize::from(tag)];
        self.quarantined += u16::from(slot.state == TagState::Waiting);
        slot.state = TagState::Quarantined;
        slot.owner = None;
        self.link(tag, until);
    }

    /// When the next tag in use reaches its deadline.
    #[inline]
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let head = self.slots.get(usize::from(self.head))?;
        (head.deadline < Time::MAX).then_some(head.deadline)
    }

    /// A tag whose deadline has come.
    pub(crate) fn expired(&self, now: Time) -> Option<Tag> {
        (self.next_deadline()? <= now).then(|| Tag::from_bits(self.head))
    }

    /// All that wait lose their owner, and get at least until `until` to be answered.
    pub(crate) fn disown_all(&mut self, until: Time) {
        for tag in 0..self.slots.len() as u16 {
            let slot = &mut self.slots[usize::from(tag)];
            if slot.state != TagState::Waiting {
                continue;
            }
            slot.owner = None;
            if slot.deadline < until || slot.deadline == Time::MAX {
                self.unlink(tag);
                self.link(tag, until);
            }
        }
    }

    /// Deadlines grow in the order of the requests but where a timeout was changed, so this hardly ever walks.
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

    /// Lets `previous` point on to `on`, and `next` back to `back`.
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
        Release(u16),
        Quarantine(u16, u64),
        Expire(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0u64..100).prop_map(Step::Take),
            (0u16..8).prop_map(Step::Release),
            (0u16..8, 0u64..100).prop_map(|(t, d)| Step::Quarantine(t, d)),
            (0u64..100).prop_map(Step::Expire),
        ]
    }

    proptest! {
        /// Against a plain map: never a tag twice, never one too many, always the earliest deadline first.
        #[test]
        fn behaves_like_a_map(steps in prop::collection::vec(step(), 1..80)) {
            let mut pool = TagPool::new();
            pool.set_range(0, 8);
            let mut model: BTreeMap<u16, u64> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Take(d) => match pool.take(0, 0, 1, 0, Time::from_ps(d)) {
                        Some(tag) => prop_assert!(model.insert(tag.bits(), d).is_none()),
                        None => prop_assert_eq!(model.len(), 8),
                    },
                    Step::Release(t) => {
                        pool.release(Tag::from_bits(t));
                        model.remove(&t);
                    }
                    Step::Quarantine(t, d) => if model.contains_key(&t) {
                        pool.quarantine(Tag::from_bits(t), Time::from_ps(d));
                        model.insert(t, d);
                    },
                    Step::Expire(d) => while let Some(tag) = pool.expired(Time::from_ps(d)) {
                        pool.release(tag);
                        let deadline = model.remove(&tag.bits());
                        prop_assert!(deadline.is_some_and(|x| x <= d && model.values().all(|&y| x <= y)));
                    },
                }
                prop_assert_eq!(usize::from(pool.in_use()), model.len());
                let first = model.values().min().map(|&d| Time::from_ps(d));
                prop_assert_eq!(pool.next_deadline(), first);
            }
        }
    }

    #[test]
    fn a_narrower_range_waits_for_the_tags_beyond_it() {
        let mut pool = TagPool::new();
        pool.set_range(0, 256);
        for _ in 0..40 {
            assert!(pool.take(0, 0, 1, 0, Time::MAX).is_some());
        }
        pool.set_range(0, 32);
        assert!(!pool.has_free());
        pool.release(Tag::from_bits(39));
        assert!(!pool.has_free(), "tag 39 is no longer a tag");
        pool.release(Tag::from_bits(31));
        assert_eq!(pool.take(0, 0, 1, 0, Time::MAX), Tag::new(31));
    }
}
