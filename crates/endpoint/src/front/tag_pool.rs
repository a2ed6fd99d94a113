// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One pool of tags for all functions of an endpoint. The tag alone then tells whose a completion is, as hard blocks with
//! virtual functions have it. Each function keeps its requests itself, under tags that are lent to it: what it has in use or at rest
//! stays lent, and comes back when it is free. Never knows what a request is.

use crate::marks::Marks;
use tlp::{Tag, TaggedRequests};

/// See the [module](self).
pub(crate) struct TagPool {
    free: Marks,
    /// The most that are out at a time: as many as the function has that may have most of them.
    limit: u16,
    /// Where the search for the next one begins: behind the one that was given out last, so that each rests for longest.
    next: u16,
}

impl Default for TagPool {
    /// All tags are free; none may be out.
    fn default() -> TagPool {
        let mut free = Marks::new(usize::from(Tag::COUNT));
        (0..usize::from(Tag::COUNT)).for_each(|tag| free.flip(tag));
        TagPool { free, limit: 0, next: 0 }
    }
}

impl TagPool {
    /// Sets the most that may be out at a time; if more are, they come back when they are free.
    pub(crate) fn set_limit(&mut self, limit: u16) {
        self.limit = limit;
    }

    /// The most that may be out at a time.
    pub(crate) fn limit(&self) -> u16 {
        self.limit
    }

    /// The number of tags that are out: in use, or at rest.
    pub(crate) fn in_use(&self) -> u16 {
        Tag::COUNT - self.free.count
    }

    /// True where a function may get a tag, if there is one that software lets it use.
    pub(crate) fn has_free(&self) -> bool {
        self.in_use() < self.limit
    }

    /// The tag that a function with these tags (the first, and their number) would get.
    pub(crate) fn offer(&self, (first, count): (u16, u16)) -> Option<Tag> {
        let end = first + count;
        let start = if (first..end).contains(&self.next) { self.next } else { first };
        let found = |from: u16, end: u16| self.free.next(from.into()).filter(|tag| *tag < usize::from(end));
        let tag = found(start, end).or_else(|| found(first, start))?;
        self.has_free().then(|| Tag::from_bits(tag as u16))
    }

    /// Lends `tags`, which are those of a function with this range, one more: `wanted`, or any. `None` where it may not have it.
    /// [`settle`](Self::settle) follows.
    pub(crate) fn lend<T>(
        &mut self,
        tags: &mut TaggedRequests<T>,
        (first, count): (u16, u16),
        wanted: Option<Tag>,
    ) -> Option<Tag> {
        let tag = match wanted {
            None => self.offer((first, count))?,
            Some(tag) => {
                let is_free = (first..first + count).contains(&tag.bits()) && self.is_free(tag);
                Some(tag).filter(|_| is_free && self.has_free())?
            }
        };
        self.free.flip(tag.bits().into());
        tags.lend(tag);
        Some(tag)
    }

    /// Takes back what a function has left of `lent`, and what it has released.
    pub(crate) fn settle<T>(&mut self, tags: &mut TaggedRequests<T>, lent: Option<Tag>) {
        self.reclaim(tags);
        if let Some(tag) = lent.filter(|tag| !self.is_free(*tag)) {
            self.next = tag.bits() + 1;
        }
    }

    /// Takes back the tags that a function has released.
    pub(crate) fn reclaim<T>(&mut self, tags: &mut TaggedRequests<T>) {
        while let Some(tag) = tags.take_back() {
            if !self.is_free(tag) {
                self.free.flip(tag.bits().into());
            }
        }
    }

    fn is_free(&self, tag: Tag) -> bool {
        self.free.contains(tag.bits().into())
    }
}
