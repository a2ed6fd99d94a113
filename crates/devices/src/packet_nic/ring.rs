// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A descriptor ring from the device's view: posted, read and finished descriptors. It never accesses frames.

use super::{DESCRIPTOR_BYTES, Nic, RING_ENTRIES};
use crate::queue::{Queue, wake};
use device::{DmaError, Io};
use exec::JoinHandle;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use tlp::Payload;

/// Address and size of a frame or of a buffer in host memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Descriptor {
    pub(super) address: u64,
    pub(super) bytes: u32,
}

/// An outstanding read of descriptors.
type Read = JoinHandle<Result<Payload, DmaError>>;

/// The device's side of a ring.
pub(super) struct Ring {
    base: Cell<u64>,
    /// Posted descriptors, modulo 2^32.
    tail: Cell<u32>,
    /// Finished descriptors, modulo 2^32.
    head: Cell<u32>,
    /// Maximum number of descriptors per read.
    batch: u32,
    reads: Queue<Read>,
    /// Waker of the task that waits for the tail to move.
    waiting: RefCell<Option<Waker>>,
}

impl Ring {
    /// Creates a ring with at most `batch` descriptors per read and at most `reads` outstanding reads.
    pub(super) fn new(batch: u32, reads: usize) -> Ring {
        Ring {
            base: Cell::new(0),
            tail: Cell::new(0),
            head: Cell::new(0),
            batch,
            reads: Queue::new(reads),
            waiting: RefCell::default(),
        }
    }

    pub(super) fn set_base(&self, base: u64) {
        self.base.set(base);
    }

    pub(super) fn set_tail(&self, tail: u32) {
        self.tail.set(tail);
        wake(&self.waiting);
    }

    pub(super) fn head(&self) -> u32 {
        self.head.get()
    }

    /// Counts a finished descriptor.
    pub(super) fn advance(&self) {
        self.head.set(self.head.get().wrapping_add(1));
    }

    /// Returns the bus address of descriptor `number`.
    pub(super) fn address(&self, number: u32) -> u64 {
        self.base.get().wrapping_add(DESCRIPTOR_BYTES * u64::from(number % RING_ENTRIES))
    }

    /// Waits for posted descriptors from number `first` on, and returns how many can be read at once.
    async fn posted(&self, first: u32) -> u32 {
        poll_fn(|cx| match self.tail.get().wrapping_sub(first) {
            0 => {
                *self.waiting.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            }
            posted => Poll::Ready(posted.min(self.batch).min(RING_ENTRIES - first % RING_ENTRIES)),
        })
        .await
    }

    /// Returns the descriptors of the next read, in ring order.
    pub(super) async fn fetched(&self) -> Result<Vec<Descriptor>, DmaError> {
        let read = self.reads.take().await;
        let bytes = read.await;
        self.reads.free();
        // A read that could not start, because too many tasks ran, did not happen.
        let bytes = bytes.map_err(|_| DmaError::TooLong)??;
        Ok(bytes.chunks_exact(DESCRIPTOR_BYTES as usize).filter_map(descriptor).collect())
    }
}

fn descriptor(bytes: &[u8]) -> Option<Descriptor> {
    let address = u64::from_le_bytes(*bytes.first_chunk()?);
    Some(Descriptor { address, bytes: u32::from_le_bytes(*bytes.get(8..)?.first_chunk()?) })
}

/// Reads the descriptors of a ring of `nic` as they are posted.
pub(super) async fn fetch(io: Io, nic: Rc<Nic>, ring: fn(&Nic) -> &Ring) {
    let ring = ring(&nic);
    let mut first = 0u32;
    loop {
        ring.reads.room().await;
        let count = ring.posted(first).await;
        let read = io.dma_read(ring.address(first), count * DESCRIPTOR_BYTES as u32);
        ring.reads.put(io.spawn(read));
        first = first.wrapping_add(count);
    }
}

/// Returns descriptors for write-back, marked done.
pub(super) fn image(io: &Io, batch: &[Descriptor]) -> Payload {
    io.payloads().fill(batch.len() * DESCRIPTOR_BYTES as usize, |bytes| {
        for (to, from) in bytes.chunks_exact_mut(DESCRIPTOR_BYTES as usize).zip(batch) {
            to[..8].copy_from_slice(&from.address.to_le_bytes());
            to[8..12].copy_from_slice(&from.bytes.to_le_bytes());
            to[12..].copy_from_slice(&1u32.to_le_bytes());
        }
    })
}

/// Finished descriptors that are not written back yet, and the interrupt schedule.
pub(super) struct Done {
    /// Descriptors per write-back; 0 for none.
    write_back: u32,
    /// Frames per interrupt; 0 for none.
    interrupt: u32,
    /// Number of all finished descriptors.
    count: u32,
    batch: Vec<Descriptor>,
}

impl Done {
    pub(super) fn new(write_back: u32, interrupt: u32) -> Done {
        Done { write_back, interrupt, count: 0, batch: Vec::with_capacity(write_back as usize) }
    }

    /// Adds a finished descriptor. If a batch is full, returns the number of its first descriptor, and the batch.
    pub(super) fn add(&mut self, descriptor: Descriptor) -> Option<(u32, &[Descriptor])> {
        self.count = self.count.wrapping_add(1);
        if self.write_back == 0 {
            return None;
        }
        self.batch.push(descriptor);
        (self.batch.len() as u32 == self.write_back)
            .then_some((self.count.wrapping_sub(self.write_back), &self.batch[..]))
    }

    /// Removes the batch after its write-back.
    pub(super) fn written(&mut self) {
        self.batch.clear();
    }

    /// Returns whether the last finished descriptor makes an interrupt due.
    pub(super) fn interrupts(&self) -> bool {
        self.interrupt != 0 && self.count.is_multiple_of(self.interrupt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_back_full_batches() {
        let one = Descriptor { address: 4096, bytes: 64 };
        let mut done = Done::new(2, 4);
        let mut seen = Vec::new();
        for _ in 0..8 {
            let place = done.add(one).map(|(place, batch)| (place, batch.len()));
            if place.is_some() {
                done.written();
            }
            seen.push((place, done.interrupts()));
        }
        let even = |n: u32, i| (Some((n, 2)), i);
        let odd = (None, false);
        assert_eq!(seen, [odd, even(0, false), odd, even(2, true), odd, even(4, false), odd, even(6, true)]);
    }

    #[test]
    fn zero_batch_is_never_full() {
        let mut done = Done::new(0, 0);
        assert!(done.add(Descriptor { address: 0, bytes: 1 }).is_none() && !done.interrupts());
    }
}
