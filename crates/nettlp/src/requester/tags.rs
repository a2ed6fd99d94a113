// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tags of a requester: free, busy with a read TLP, or resting. Never sends TLPs, and never checks completions.
//!
//! Every tag is in one of four lists. A list keeps its tags in the order in which they entered, and all its tags stay
//! equally long. So the head of a list is always the next tag that is due, and every step takes constant time.

use super::progress::Progress;
use std::ops::RangeInclusive;
use tlp::{Duration, Tag, Time};

/// Part of a read: what one MRd requests.
#[derive(Clone, Copy, Default)]
pub(super) struct Piece {
    /// Index of its request in the table of requests.
    pub(super) request: u32,
    /// Offset of its bytes in the request.
    pub(super) offset: u64,
    /// Address of its first byte.
    pub(super) address: u64,
    /// Its length, 1 to 4096 bytes.
    pub(super) len: u16,
    /// Number of earlier attempts.
    pub(super) attempt: u8,
}

impl Piece {
    /// Returns the rest of the piece after its first `len` bytes.
    pub(super) fn behind(&self, len: u16) -> Option<Piece> {
        let rest = self.len.checked_sub(len).filter(|rest| *rest > 0)?;
        let (offset, address) = (self.offset + u64::from(len), self.address + u64::from(len));
        Some(Piece { offset, address, len: rest, ..*self })
    }

    /// Returns the end address of the first `len` bytes, modulo 128, which are the bits that Lower Address shows.
    /// In every completion, the sum of Byte Count and Lower Address, modulo 128, equals this value (`PCIe 5.0
    /// §2.2.9`). So completions of pieces with different ends cannot be confused.
    fn end(&self, len: u16) -> u32 {
        (self.address.wrapping_add(u64::from(len)) & 0x7f) as u32
    }

    /// Returns the longest front part of the piece that does not end at one of the `stale` ends, but at a DW
    /// boundary if possible. Returns `None` if there is no such part.
    fn ending_elsewhere(&self, stale: u128) -> Option<Piece> {
        let fits = |len: &u16| stale >> self.end(*len) & 1 == 0;
        let whole_dw = |len: &u16| *len == self.len || self.end(*len).is_multiple_of(4);
        let mut lens = (1..=self.len).rev();
        let len = lens.clone().filter(whole_dw).find(fits).or_else(|| lens.find(fits))?;
        Some(Piece { len, ..*self })
    }
}

/// State of a tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TagState {
    /// Unused.
    Free,
    /// Waits for completions.
    Busy,
    /// Resting after all completions arrived: only duplicates can follow.
    Clean,
    /// Resting after its read was given up: completions can still arrive.
    Lost,
}

const LISTS: usize = 4;
const NONE: u16 = u16::MAX;

#[derive(Clone, Copy)]
struct TagSlot {
    state: TagState,
    previous: u16,
    next: u16,
    since: Time,
    piece: Piece,
    progress: Progress,
    /// Ends ([`Piece::end`], one bit each) of given-up pieces whose completions can still arrive.
    stale: u128,
    /// The read of the current piece timed out. If not, its completion is late only because another part of the request failed.
    timed_out: bool,
}

#[derive(Clone, Copy)]
struct List {
    head: u16,
    tail: u16,
    len: usize,
}

pub(super) struct Tags {
    first: u16,
    slots: Vec<TagSlot>,
    lists: [List; LISTS],
    /// Number of tags with stale ends.
    suspects: usize,
}

impl Tags {
    /// Creates all `tags` as free. The first tag is used first.
    pub(super) fn new(tags: RangeInclusive<u16>) -> Tags {
        let first = *tags.start();
        let slot = TagSlot {
            state: TagState::Free,
            previous: NONE,
            next: NONE,
            since: Time::ZERO,
            piece: Piece::default(),
            progress: Progress::default(),
            stale: 0,
            timed_out: false,
        };
        let slots = vec![slot; tags.count()];
        let mut tags =
            Tags { first, slots, lists: [List { head: NONE, tail: NONE, len: 0 }; LISTS], suspects: 0 };
        (0..tags.slots.len()).for_each(|index| tags.append(TagState::Free, index as u16));
        tags
    }

    /// Returns the index of `tag`; `None` if it does not belong to the requester.
    pub(super) fn index(&self, tag: u16) -> Option<u16> {
        let index = tag.checked_sub(self.first)?;
        (usize::from(index) < self.slots.len()).then_some(index)
    }

    pub(super) fn tag(&self, index: u16) -> Tag {
        Tag::from_bits(self.first + index)
    }

    pub(super) fn state(&self, index: u16) -> TagState {
        self.slot(index).state
    }

    pub(super) fn piece(&self, index: u16) -> Piece {
        self.slot(index).piece
    }

    pub(super) fn progress(&mut self, index: u16) -> &mut Progress {
        &mut self.slots[usize::from(index)].progress
    }

    /// Returns the number of tags in a list.
    pub(super) fn count(&self, state: TagState) -> usize {
        self.lists[state as usize].len
    }

    /// Returns the tag that has been in a list the longest.
    pub(super) fn oldest(&self, state: TagState) -> Option<u16> {
        let head = self.lists[state as usize].head;
        (head != NONE).then_some(head)
    }

    /// Returns the tag that has been in a list for at least `age`.
    pub(super) fn due(&self, state: TagState, age: Duration, now: Time) -> Option<u16> {
        self.oldest(state).filter(|index| self.slot(*index).since + age <= now)
    }

    /// Returns when [`due`](Self::due) next returns a tag.
    pub(super) fn next_due(&self, state: TagState, age: Duration) -> Option<Time> {
        self.oldest(state).map(|index| self.slot(index).since + age)
    }

    /// Returns the tag after `index` in its list.
    pub(super) fn after(&self, index: u16) -> Option<u16> {
        let next = self.slot(index).next;
        (next != NONE).then_some(next)
    }

    /// Returns a free tag for `piece` or for its front part, such that completions of reads given up under that tag cannot
    /// match it.
    pub(super) fn free_for(&self, piece: &Piece) -> Option<(u16, Piece)> {
        let mut next = self.oldest(TagState::Free);
        while let Some(index) = next {
            let stale = self.slot(index).stale;
            if stale == 0 {
                return Some((index, *piece));
            }
            if let Some(piece) = piece.ending_elsewhere(stale) {
                return Some((index, piece));
            }
            next = self.after(index);
        }
        None
    }

    /// Returns true if completions of a given-up piece with this tag can still arrive.
    pub(super) fn is_suspect(&self, index: u16) -> bool {
        self.slot(index).stale != 0
    }

    /// Records that completions of the tag's current piece can arrive at any later time.
    pub(super) fn suspect(&mut self, index: u16) {
        let slot = &mut self.slots[usize::from(index)];
        self.suspects += usize::from(slot.stale == 0);
        slot.stale |= 1 << slot.piece.end(slot.piece.len);
    }

    /// Records that the read of the tag's current piece timed out.
    pub(super) fn time_out(&mut self, index: u16) {
        self.slots[usize::from(index)].timed_out = true;
    }

    /// Returns true if the read of the tag's current piece timed out.
    pub(super) fn has_timed_out(&self, index: u16) -> bool {
        self.slot(index).timed_out
    }

    /// Records that no old completion of the tag can arrive any more. The caller knows this because completions of
    /// one tag stay in order.
    pub(super) fn trust(&mut self, index: u16) {
        let slot = &mut self.slots[usize::from(index)];
        self.suspects -= usize::from(slot.stale != 0);
        slot.stale = 0;
    }

    /// Returns the free tag that has been suspect the longest.
    pub(super) fn oldest_suspect(&self) -> Option<(u16, Time)> {
        let mut next = self.oldest(TagState::Free).filter(|_| self.suspects > 0);
        while let Some(index) = next.filter(|index| !self.is_suspect(*index)) {
            next = self.after(index);
        }
        next.map(|index| (index, self.slot(index).since))
    }

    /// Assigns a free tag to `piece`.
    pub(super) fn begin(&mut self, index: u16, piece: Piece, now: Time) {
        self.put(index, TagState::Busy, now);
        let slot = &mut self.slots[usize::from(index)];
        (slot.piece, slot.progress, slot.timed_out) = (piece, Progress::default(), false);
    }

    /// Moves a tag to the end of a list.
    pub(super) fn put(&mut self, index: u16, state: TagState, now: Time) {
        self.unlink(index);
        self.append(state, index);
        self.slots[usize::from(index)].since = now;
    }

    fn slot(&self, index: u16) -> &TagSlot {
        &self.slots[usize::from(index)]
    }

    fn unlink(&mut self, index: u16) {
        let TagSlot { state, previous, next, .. } = *self.slot(index);
        match previous {
            NONE => self.lists[state as usize].head = next,
            before => self.slots[usize::from(before)].next = next,
        }
        match next {
            NONE => self.lists[state as usize].tail = previous,
            behind => self.slots[usize::from(behind)].previous = previous,
        }
        self.lists[state as usize].len -= 1;
    }

    fn append(&mut self, state: TagState, index: u16) {
        let list = &mut self.lists[state as usize];
        let previous = std::mem::replace(&mut list.tail, index);
        list.len += 1;
        match previous {
            NONE => list.head = index,
            before => self.slots[usize::from(before)].next = index,
        }
        let slot = &mut self.slots[usize::from(index)];
        (slot.state, slot.previous, slot.next) = (state, previous, NONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspect_tag_takes_only_pieces_with_another_end() {
        let piece = |address, len| Piece { address, len, ..Piece::default() };
        // Rows: given-up pieces; the piece to be read; length of the part for which the tag can be used.
        type Bytes = (u64, u16);
        let rows: [(&[Bytes], Bytes, Option<u16>); 8] = [
            (&[(0x000, 256)], (0x100, 256), Some(252)),
            (&[(0x000, 256)], (0x180, 64), Some(64)),
            (&[(0x000, 256)], (0x17c, 4), Some(3)),
            (&[(0x000, 256)], (0x17f, 1), None),
            (&[(0x000, 256)], (0x17e, 1), Some(1)),
            (&[(0x000, 256), (0x100, 252)], (0x200, 512), Some(504)),
            (&[(0x003, 2)], (0x1003, 130), Some(129)),
            (&[(0x003, 2)], (0x1003, 2), Some(1)),
        ];
        for (stale, (address, len), wanted) in rows {
            let mut tags = Tags::new(0..=0);
            for &(address, len) in stale {
                tags.begin(0, piece(address, len), Time::ZERO);
                tags.suspect(0);
                tags.put(0, TagState::Free, Time::ZERO);
            }
            let free = |tags: &Tags| tags.free_for(&piece(address, len)).map(|(_, piece)| piece.len);
            assert_eq!(free(&tags), wanted, "{len} at {address:#x} after {stale:x?}");
            assert_eq!(tags.oldest_suspect(), Some((0, Time::ZERO)));
            tags.trust(0);
            assert_eq!((free(&tags), tags.oldest_suspect()), (Some(len), None));
        }
    }

    #[test]
    fn all_tags_are_used_one_after_the_other() {
        let mut tags = Tags::new(8..=11);
        let at = Time::from_ps;
        for now in 0..4 {
            let index = tags.oldest(TagState::Free).unwrap();
            assert_eq!(tags.tag(index).bits(), 8 + now as u16);
            tags.begin(index, Piece::default(), at(now));
        }
        assert_eq!(tags.oldest(TagState::Free), None);
        // One tag from the middle of the list, one from the end, one from the front.
        for (now, index) in [(10, 1), (11, 3), (12, 0)] {
            tags.put(index, TagState::Clean, at(now));
        }
        assert_eq!(tags.oldest(TagState::Busy), Some(2));
        assert_eq!((tags.oldest(TagState::Clean), tags.after(1), tags.after(3)), (Some(1), Some(3), Some(0)));
        assert_eq!(tags.due(TagState::Clean, Duration::from_ps(5), at(14)), None);
        assert_eq!(tags.due(TagState::Clean, Duration::from_ps(5), at(15)), Some(1));
        assert_eq!(tags.next_due(TagState::Clean, Duration::from_ps(5)), Some(at(15)));
        assert_eq!(
            [TagState::Free, TagState::Busy, TagState::Clean, TagState::Lost].map(|p| tags.count(p)),
            [0, 1, 3, 0]
        );
        assert_eq!(
            (tags.index(7), tags.index(8), tags.index(11), tags.index(12)),
            (None, Some(0), Some(3), None)
        );
    }
}
