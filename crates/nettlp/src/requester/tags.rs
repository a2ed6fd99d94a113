// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tags of a requester: free, busy with a read TLP, or at rest. Never sends, never judges a completion.
//!
//! Every tag stands in one of four lists, each in the order in which tags came to it. Since all tags of a list stay
//! equally long, its head is always the next that is due, and all steps take the same time however many tags there are.

use super::progress::Progress;
use std::ops::RangeInclusive;
use tlp::{Duration, Tag, Time};

/// A part of a read: what one MRd asks for.
#[derive(Clone, Copy, Default)]
pub(super) struct Piece {
    /// Place of its request in the table of requests.
    pub(super) request: u32,
    /// Where its bytes begin in the request.
    pub(super) offset: u64,
    /// Address of its first byte.
    pub(super) address: u64,
    /// Its bytes, 1 to 4096.
    pub(super) len: u16,
    /// How often it was sent before.
    pub(super) attempt: u8,
}

impl Piece {
    /// What is left of it behind its first `len` bytes.
    pub(super) fn behind(&self, len: u16) -> Option<Piece> {
        let rest = self.len.checked_sub(len).filter(|rest| *rest > 0)?;
        let (offset, address) = (self.offset + u64::from(len), self.address + u64::from(len));
        Some(Piece { offset, address, len: rest, ..*self })
    }

    /// Where it ends, modulo 128: as much of it as Lower Address tells. Byte Count and Lower Address of every completion add
    /// up to it (`PCIe 5.0 §2.2.9`), so completions of pieces with different ends cannot be mistaken for each other.
    fn end(&self, len: u16) -> u32 {
        (self.address.wrapping_add(u64::from(len)) & 0x7f) as u32
    }

    /// It, or its front as far as it ends at none of `stale`, at a DW if it can; `None` where all of its bytes do.
    fn ending_elsewhere(&self, stale: u128) -> Option<Piece> {
        let fits = |len: &u16| stale >> self.end(*len) & 1 == 0;
        let whole_dw = |len: &u16| *len == self.len || self.end(*len).is_multiple_of(4);
        let mut lens = (1..=self.len).rev();
        let len = lens.clone().filter(whole_dw).find(fits).or_else(|| lens.find(fits))?;
        Some(Piece { len, ..*self })
    }
}

/// What a tag is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// Nothing.
    Free,
    /// Its completions are awaited.
    Busy,
    /// At rest, all completions having come: only copies may.
    Clean,
    /// At rest, given up: completions may still come.
    Lost,
}

const LISTS: usize = 4;
const NONE: u16 = u16::MAX;

#[derive(Clone, Copy)]
struct Slot {
    place: Place,
    previous: u16,
    next: u16,
    since: Time,
    piece: Piece,
    progress: Progress,
    /// Ends ([`Piece::end`], a bit each) of pieces that were given up and whose completions may still come.
    stale: u128,
}

#[derive(Clone, Copy)]
struct List {
    head: u16,
    tail: u16,
    len: usize,
}

pub(super) struct Tags {
    first: u16,
    slots: Vec<Slot>,
    lists: [List; LISTS],
    /// Tags with stale ends.
    suspects: usize,
}

impl Tags {
    /// All `tags` free, the first next.
    pub(super) fn new(tags: RangeInclusive<u16>) -> Tags {
        let first = *tags.start();
        let slot = Slot {
            place: Place::Free,
            previous: NONE,
            next: NONE,
            since: Time::ZERO,
            piece: Piece::default(),
            progress: Progress::default(),
            stale: 0,
        };
        let slots = vec![slot; tags.count()];
        let mut tags =
            Tags { first, slots, lists: [List { head: NONE, tail: NONE, len: 0 }; LISTS], suspects: 0 };
        (0..tags.slots.len()).for_each(|index| tags.append(Place::Free, index as u16));
        tags
    }

    /// The place of `tag`; `None` where it is no tag of ours.
    pub(super) fn index(&self, tag: u16) -> Option<u16> {
        let index = tag.checked_sub(self.first)?;
        (usize::from(index) < self.slots.len()).then_some(index)
    }

    pub(super) fn tag(&self, index: u16) -> Tag {
        Tag::from_bits(self.first + index)
    }

    pub(super) fn place(&self, index: u16) -> Place {
        self.slot(index).place
    }

    pub(super) fn piece(&self, index: u16) -> Piece {
        self.slot(index).piece
    }

    pub(super) fn progress(&mut self, index: u16) -> &mut Progress {
        &mut self.slots[usize::from(index)].progress
    }

    /// Tags in a list.
    pub(super) fn count(&self, place: Place) -> usize {
        self.lists[place as usize].len
    }

    /// The tag that has been longest in a list.
    pub(super) fn oldest(&self, place: Place) -> Option<u16> {
        let head = self.lists[place as usize].head;
        (head != NONE).then_some(head)
    }

    /// The tag that has been in a list for at least `age`.
    pub(super) fn due(&self, place: Place, age: Duration, now: Time) -> Option<u16> {
        self.oldest(place).filter(|index| self.slot(*index).since + age <= now)
    }

    /// When [`due`](Self::due) next gives a tag.
    pub(super) fn next_due(&self, place: Place, age: Duration) -> Option<Time> {
        self.oldest(place).map(|index| self.slot(index).since + age)
    }

    /// The tag behind `index` in its list.
    pub(super) fn after(&self, index: u16) -> Option<u16> {
        let next = self.slot(index).next;
        (next != NONE).then_some(next)
    }

    /// A free tag for `piece`, or for the front of it: completions of what was given up under that tag cannot answer it.
    pub(super) fn free_for(&self, piece: &Piece) -> Option<(u16, Piece)> {
        let mut next = self.oldest(Place::Free);
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

    /// Whether completions of a piece that was given up may still come under this tag.
    pub(super) fn is_suspect(&self, index: u16) -> bool {
        self.slot(index).stale != 0
    }

    /// Completions of the piece that this tag has may come at any time from now on.
    pub(super) fn suspect(&mut self, index: u16) {
        let slot = &mut self.slots[usize::from(index)];
        self.suspects += usize::from(slot.stale == 0);
        slot.stale |= 1 << slot.piece.end(slot.piece.len);
    }

    /// None will come: those of one tag keep their order.
    pub(super) fn trust(&mut self, index: u16) {
        let slot = &mut self.slots[usize::from(index)];
        self.suspects -= usize::from(slot.stale != 0);
        slot.stale = 0;
    }

    /// The free tag that has been suspect for longest.
    pub(super) fn oldest_suspect(&self) -> Option<(u16, Time)> {
        let mut next = self.oldest(Place::Free).filter(|_| self.suspects > 0);
        while let Some(index) = next.filter(|index| !self.is_suspect(*index)) {
            next = self.after(index);
        }
        next.map(|index| (index, self.slot(index).since))
    }

    /// Takes a free tag into use for `piece`.
    pub(super) fn begin(&mut self, index: u16, piece: Piece, now: Time) {
        self.put(index, Place::Busy, now);
        let slot = &mut self.slots[usize::from(index)];
        (slot.piece, slot.progress) = (piece, Progress::default());
    }

    /// Moves a tag to the end of a list.
    pub(super) fn put(&mut self, index: u16, place: Place, now: Time) {
        self.unlink(index);
        self.append(place, index);
        self.slots[usize::from(index)].since = now;
    }

    fn slot(&self, index: u16) -> &Slot {
        &self.slots[usize::from(index)]
    }

    fn unlink(&mut self, index: u16) {
        let Slot { place, previous, next, .. } = *self.slot(index);
        match previous {
            NONE => self.lists[place as usize].head = next,
            before => self.slots[usize::from(before)].next = next,
        }
        match next {
            NONE => self.lists[place as usize].tail = previous,
            behind => self.slots[usize::from(behind)].previous = previous,
        }
        self.lists[place as usize].len -= 1;
    }

    fn append(&mut self, place: Place, index: u16) {
        let list = &mut self.lists[place as usize];
        let previous = std::mem::replace(&mut list.tail, index);
        list.len += 1;
        match previous {
            NONE => list.head = index,
            before => self.slots[usize::from(before)].next = index,
        }
        let slot = &mut self.slots[usize::from(index)];
        (slot.place, slot.previous, slot.next) = (place, previous, NONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspect_tag_takes_what_ends_elsewhere() {
        let piece = |address, len| Piece { address, len, ..Piece::default() };
        // What was given up; what is to be read; as much of it as may be.
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
                tags.put(0, Place::Free, Time::ZERO);
            }
            let free = |tags: &Tags| tags.free_for(&piece(address, len)).map(|(_, piece)| piece.len);
            assert_eq!(free(&tags), wanted, "{len} at {address:#x} behind {stale:x?}");
            assert_eq!(tags.oldest_suspect(), Some((0, Time::ZERO)));
            tags.trust(0);
            assert_eq!((free(&tags), tags.oldest_suspect()), (Some(len), None));
        }
    }

    #[test]
    fn tags_take_turns_and_leave_lists_in_order() {
        let mut tags = Tags::new(8..=11);
        let at = Time::from_ps;
        for now in 0..4 {
            let index = tags.oldest(Place::Free).unwrap();
            assert_eq!(tags.tag(index).bits(), 8 + now as u16);
            tags.begin(index, Piece::default(), at(now));
        }
        assert_eq!(tags.oldest(Place::Free), None);
        // One from the middle, one from the end, one from the front.
        for (now, index) in [(10, 1), (11, 3), (12, 0)] {
            tags.put(index, Place::Clean, at(now));
        }
        assert_eq!(tags.oldest(Place::Busy), Some(2));
        assert_eq!((tags.oldest(Place::Clean), tags.after(1), tags.after(3)), (Some(1), Some(3), Some(0)));
        assert_eq!(tags.due(Place::Clean, Duration::from_ps(5), at(14)), None);
        assert_eq!(tags.due(Place::Clean, Duration::from_ps(5), at(15)), Some(1));
        assert_eq!(tags.next_due(Place::Clean, Duration::from_ps(5)), Some(at(15)));
        assert_eq!(
            [Place::Free, Place::Busy, Place::Clean, Place::Lost].map(|p| tags.count(p)),
            [0, 1, 3, 0]
        );
        assert_eq!(
            (tags.index(7), tags.index(8), tags.index(11), tags.index(12)),
            (None, Some(0), Some(3), None)
        );
    }
}
