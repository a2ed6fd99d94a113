// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Payload bytes, pooled and shared by reference.
//!
//! A [`Payload`] is a range of a buffer in a [`PayloadPool`]. Cloning and slicing copy no bytes. The buffer returns
//! to its pool when its last payload is dropped. A payload is written once, and replay buffers, devices and taps
//! all read it in place. A pool allocates nothing once it has as many buffers as are in use at a time.

use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::fmt;
use core::num::NonZeroU32;
use core::ops::{Deref, Range};

/// Maximum number of free buffers that a pool keeps for reuse. Further buffers are freed.
const MAX_FREE_BUFFERS: usize = 8192;

struct Buffer {
    bytes: Vec<u8>,
    home: Weak<Shelf>,
}

#[derive(Default)]
struct Shelf {
    free: RefCell<Vec<Rc<Buffer>>>,
    made: Cell<u64>,
}

/// A pool of payload buffers. A clone is a handle to the same pool.
#[derive(Clone, Default)]
pub struct PayloadPool {
    shelf: Rc<Shelf>,
}

/// Immutable, shared bytes in a buffer of a pool.
#[derive(Clone)]
pub struct Payload {
    // `None` only while dropping.
    buffer: Option<Rc<Buffer>>,
    // The index of the first byte plus one. It is never zero, which leaves `Data` a niche for its other variant.
    place: NonZeroU32,
    len: u32,
}

impl PayloadPool {
    /// A pool without buffers.
    pub fn new() -> PayloadPool {
        PayloadPool::default()
    }

    /// A payload of `len` bytes, which are zero until `fill` writes them. Payload bytes are written only here and
    /// in `copy`.
    pub fn fill(&self, len: usize, fill: impl FnOnce(&mut [u8])) -> Payload {
        let mut buffer = self.take();
        if let Some(buffer) = Rc::get_mut(&mut buffer) {
            buffer.bytes.clear();
            buffer.bytes.resize(len, 0);
            fill(&mut buffer.bytes);
        }
        Payload { buffer: Some(buffer), place: NonZeroU32::MIN, len: len as u32 }
    }

    /// A payload that holds a copy of `bytes`.
    pub fn copy(&self, bytes: &[u8]) -> Payload {
        let mut buffer = self.take();
        if let Some(buffer) = Rc::get_mut(&mut buffer) {
            buffer.bytes.clear();
            buffer.bytes.extend_from_slice(bytes);
        }
        Payload { buffer: Some(buffer), place: NonZeroU32::MIN, len: bytes.len() as u32 }
    }

    /// Number of buffers that the pool has allocated. Constant as soon as the pool has enough buffers.
    pub fn buffers_made(&self) -> u64 {
        self.shelf.made.get()
    }

    // A free buffer has no other owner, so `get_mut` succeeds.
    fn take(&self) -> Rc<Buffer> {
        if let Some(buffer) = self.shelf.free.borrow_mut().pop() {
            return buffer;
        }
        self.shelf.made.set(self.shelf.made.get() + 1);
        Rc::new(Buffer { bytes: Vec::new(), home: Rc::downgrade(&self.shelf) })
    }
}

impl Payload {
    /// The bytes in `range`, without a copy.
    ///
    /// # Panics
    /// If `range` ends after the end of the payload.
    pub fn slice(&self, range: Range<usize>) -> Payload {
        assert!(range.start <= range.end && range.end <= self.len as usize, "slice beyond the payload");
        Payload {
            buffer: self.buffer.clone(),
            place: self.place.saturating_add(range.start as u32),
            len: (range.end - range.start) as u32,
        }
    }

    /// Joins this payload and `next` without a copy; `None` unless `next` directly follows it in the same buffer.
    pub fn join(&self, next: &Payload) -> Option<Payload> {
        let (a, b) = (self.buffer.as_ref()?, next.buffer.as_ref()?);
        let neighbours = Rc::ptr_eq(a, b) && self.place.saturating_add(self.len) == next.place;
        neighbours.then(|| Payload {
            buffer: self.buffer.clone(),
            place: self.place,
            len: self.len + next.len,
        })
    }
}

impl Deref for Payload {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        let bytes = self.buffer.as_ref().map_or(&[][..], |b| &b.bytes);
        let start = self.place.get() as usize - 1;
        &bytes[start..start + self.len as usize]
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        let Some(buffer) = self.buffer.take() else { return };
        if Rc::strong_count(&buffer) > 1 {
            return;
        }
        if let Some(home) = buffer.home.upgrade() {
            let mut free = home.free.borrow_mut();
            if free.len() < MAX_FREE_BUFFERS {
                free.push(buffer);
            }
        }
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Payload) -> bool {
        **self == **other
    }
}

impl Eq for Payload {}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} B)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pool_reuses_dropped_buffer() {
        let pool = PayloadPool::new();
        for _ in 0..10 {
            let a = pool.copy(b"abcdef");
            let b = a.slice(2..4);
            drop(a);
            assert_eq!(&*b, b"cd");
        }
        assert_eq!(pool.buffers_made(), 1);
    }

    #[test]
    fn adjacent_payloads_join_without_copy() {
        let pool = PayloadPool::new();
        let whole = pool.copy(b"abcdef");
        let joined = whole.slice(0..2).join(&whole.slice(2..6));
        assert_eq!(joined.as_deref(), Some(&b"abcdef"[..]));
        assert!(whole.slice(0..2).join(&pool.copy(b"cdef")).is_none());
    }

    #[test]
    fn payload_outlives_its_pool() {
        let payload = PayloadPool::new().copy(b"x");
        assert_eq!(&*payload, b"x");
    }
}
