// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One pool of tags for all functions of an endpoint. The tag alone then identifies the function of a completion, as in
//! hard blocks with virtual functions. Each function stores its own requests. The pool lends tags to functions. A used
//! or quarantined tag stays lent, and returns to the pool when it is free. Does not handle requests.

use crate::marks::Marks;
use tlp::{Tag, TaggedRequests};

/// See the [module](self).
pub(crate) struct TagPool {
    free: Marks,
    /// Maximum number of tags lent at a time: the largest number that any function may have.
    limit: u16,
    /// Start of the search for the next tag. It is after the last lent tag, so that each tag stays unused as long as
    /// possible.
    next: u16,
}

impl Default for TagPool {
    /// Makes a pool with all tags free and a limit of zero.
    fn default() -> TagPool {
        let mut free = Marks::new(usize::from(Tag::COUNT));
        (0..usize::from(Tag::COUNT)).for_each(|tag| free.flip(tag));
        TagPool { free, limit: 0, next: 0 }
    }
}

impl TagPool {
    /// Sets the maximum number of tags lent at a time. If more tags are lent, they return when they are free.
    pub(crate) fn set_limit(&mut self, limit: u16) {
        self.limit = limit;
    }

    /// Returns the maximum number of tags lent at a time.
    pub(crate) fn limit(&self) -> u16 {
        self.limit
    }

    /// Returns the number of lent tags, which are in use or quarantined.
    pub(crate) fn in_use(&self) -> u16 {
        Tag::COUNT - self.free.count
    }

    /// Returns whether a function may get a tag. It also needs a free tag that software has enabled for it.
    pub(crate) fn has_free(&self) -> bool {
        self.in_use() < self.limit
    }

    /// Returns the tag that a function with these tags (the first, and their number) would get.
    pub(crate) fn offer(&self, (first, count): (u16, u16)) -> Option<Tag> {
        let end = first + count;
        let start = if (first..end).contains(&self.next) { self.next } else { first };
        let found = |from: u16, end: u16| self.free.next(from.into()).filter(|tag| *tag < usize::from(end));
        let tag = found(start, end).or_else(|| found(first, start))?;
        self.has_free().then(|| Tag::from_bits(tag as u16))
    }

    /// Lends one more tag to `tags`, the tags of a function with this range. Lends `wanted`, or any tag. `None` if the
    /// function may not have it. [`finish_lending`](Self::finish_lending) follows.
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

    /// Takes back `lent` if the function has not used it, and the tags that the function has released.
    pub(crate) fn finish_lending<T>(&mut self, tags: &mut TaggedRequests<T>, lent: Option<Tag>) {
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
