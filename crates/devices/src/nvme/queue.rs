// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A submission queue and a completion queue in host memory (NVMe 1.4 §4.1). Independent of commands.

use super::spec::{CQE_BYTES, SQE_BYTES, Status};
use crate::queue::Queue;
use device::{Channel, DmaError, Io};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tlp::{Duration, Time};

/// Maximum number of waiting completions: enough for all commands that may be in flight.
const MAX_WAITING: usize = 512;

/// A completion queue.
pub(super) struct CompletionQueue {
    pub(super) id: u16,
    base: u64,
    entries: u32,
    /// `None` if it does not interrupt.
    vector: Option<u16>,
    /// Entry for the next completion.
    tail: Cell<u32>,
    phase: Cell<bool>,
    /// First entry that the host has not processed.
    head: Cell<u32>,
    /// Signals a new head to the task that waits for space.
    moved: Queue<()>,
    waiting: Channel<Ended>,
    /// Number of submission queues that use this queue.
    pub(super) users: Cell<u32>,
}

/// A completed command: its entry, and the time of completion.
struct Ended {
    entry: [u8; CQE_BYTES as usize],
    since: Time,
}

/// Interrupt coalescing (NVMe 1.4 §5.21.1.8): number of completions after the first, and time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Coalescing {
    pub(super) threshold: u32,
    pub(super) time: Duration,
}

impl CompletionQueue {
    pub(super) fn new(id: u16, base: u64, entries: u32, vector: Option<u16>) -> Rc<CompletionQueue> {
        Rc::new(CompletionQueue {
            id,
            base,
            entries,
            vector,
            tail: Cell::new(0),
            phase: Cell::new(true),
            head: Cell::new(0),
            moved: Queue::new(1),
            waiting: Channel::new(MAX_WAITING),
            users: Cell::new(0),
        })
    }

    /// The host has processed the entries before `head`. Returns false if `head` is invalid.
    pub(super) fn take(&self, head: u32) -> bool {
        let open = (self.tail.get() + self.entries - self.head.get()) % self.entries;
        let taken = (head + self.entries - self.head.get()) % self.entries;
        if head >= self.entries || taken > open {
            return false;
        }
        self.head.set(head);
        let _ = self.moved.push(());
        true
    }

    /// Queues the completion of a command that ended at `since`; `result` is DW 0.
    pub(super) async fn complete(
        &self,
        queue: &SubmissionQueue,
        cid: u16,
        (result, status): (u32, Status),
        since: Time,
    ) {
        let mut entry = [0; CQE_BYTES as usize];
        entry[..4].copy_from_slice(&result.to_le_bytes());
        entry[8..10].copy_from_slice(&(queue.head.get() as u16).to_le_bytes());
        entry[10..12].copy_from_slice(&queue.id.to_le_bytes());
        entry[12..14].copy_from_slice(&cid.to_le_bytes());
        entry[14..].copy_from_slice(&(status.field() << 1).to_le_bytes());
        self.waiting.send(Ended { entry, since }).await;
    }

    /// Writes completions to the queue, and interrupts, for as long as the queue exists. `told` gets the waiting time
    /// of each completion.
    pub(super) async fn run(
        &self,
        io: &Io,
        coalescing: impl Fn(u16) -> Option<Coalescing>,
        told: impl Fn(Duration),
    ) -> DmaError {
        loop {
            let first = self.waiting.receive().await;
            if let Err(error) = self.run_once(io, first, &coalescing, &told).await {
                return error;
            }
        }
    }

    async fn run_once(
        &self,
        io: &Io,
        first: Ended,
        coalescing: &impl Fn(u16) -> Option<Coalescing>,
        told: &impl Fn(Duration),
    ) -> Result<(), DmaError> {
        self.write(io, first, told).await?;
        let mut written = 1;
        let held = self.vector.and_then(coalescing);
        let until = held.map(|held| io.now() + held.time);
        loop {
            // Completions that have arrived since then share the interrupt.
            if !self.waiting.is_empty() && self.has_room() {
                let next = self.waiting.receive().await;
                self.write(io, next, told).await?;
                written += 1;
                continue;
            }
            let (Some(held), Some(until)) = (held, until) else { break };
            if written > held.threshold || io.now() >= until {
                break;
            }
            let more = device::io::select(self.waiting.receive(), io.sleep_until(until)).await;
            match more {
                device::io::Either::Left(next) => self.write(io, next, told).await?,
                device::io::Either::Right(()) => break,
            }
            written += 1;
        }
        match self.vector {
            Some(vector) => io.interrupt(vector).await,
            None => Ok(()),
        }
    }

    fn has_room(&self) -> bool {
        (self.tail.get() + 1) % self.entries != self.head.get()
    }

    async fn write(
        &self,
        io: &Io,
        Ended { mut entry, since }: Ended,
        told: &impl Fn(Duration),
    ) -> Result<(), DmaError> {
        while !self.has_room() {
            self.moved.pop().await;
        }
        entry[14] |= u8::from(self.phase.get());
        let tail = self.tail.get();
        let next = (tail + 1) % self.entries;
        self.tail.set(next);
        self.phase.set(self.phase.get() ^ (next == 0));
        io.dma_write(self.base + u64::from(tail * CQE_BYTES), entry).await?;
        told(io.now().since(since));
        Ok(())
    }
}

/// A submission queue.
pub(super) struct SubmissionQueue {
    pub(super) id: u16,
    base: u64,
    entries: u32,
    pub(super) completions: Rc<CompletionQueue>,
    head: Cell<u32>,
    tail: Cell<u32>,
    bell: Queue<()>,
    /// Time of the last doorbell of each entry.
    rung: RefCell<Vec<Time>>,
    /// Number of its commands in flight.
    under_way: Cell<u32>,
    /// Stops fetching commands, and aborts commands in flight.
    pub(super) is_deleted: Cell<bool>,
    /// Signals that the last command has ended.
    pub(super) idle: Queue<()>,
}

/// Maximum number of commands per read.
const FETCHED: u32 = 16;

impl SubmissionQueue {
    pub(super) fn new(
        id: u16,
        base: u64,
        entries: u32,
        completions: Rc<CompletionQueue>,
    ) -> Rc<SubmissionQueue> {
        completions.users.set(completions.users.get() + 1);
        Rc::new(SubmissionQueue {
            id,
            base,
            entries,
            completions,
            head: Cell::new(0),
            tail: Cell::new(0),
            bell: Queue::new(1),
            rung: RefCell::new(vec![Time::ZERO; entries as usize]),
            under_way: Cell::new(0),
            is_deleted: Cell::new(false),
            idle: Queue::new(1),
        })
    }

    /// The host has added entries before `tail`. Returns false if `tail` is invalid.
    pub(super) fn ring(&self, tail: u32, now: Time) -> bool {
        if tail >= self.entries {
            return false;
        }
        let (mut rung, mut entry) = (self.rung.borrow_mut(), self.tail.get());
        while entry != tail {
            rung[entry as usize] = now;
            entry = (entry + 1) % self.entries;
        }
        self.tail.set(tail);
        let _ = self.bell.push(());
        true
    }

    /// The next commands, up to the ring's end, and the entry of the first.
    ///
    /// # Errors
    /// The read failed.
    pub(super) async fn fetch(&self, io: &Io) -> Result<(tlp::Payload, u32), DmaError> {
        while self.head.get() == self.tail.get() {
            self.bell.pop().await;
        }
        let (head, tail) = (self.head.get(), self.tail.get());
        let behind = if tail > head { tail - head } else { self.entries - head };
        let count = behind.min(FETCHED);
        let bytes = io.dma_read(self.base + u64::from(head * SQE_BYTES), count * SQE_BYTES).await?;
        self.head.set((head + count) % self.entries);
        self.under_way.set(self.under_way.get() + count);
        Ok((bytes, head))
    }

    /// Time at which the host announced the command of this entry.
    pub(super) fn rung(&self, entry: u32) -> Time {
        self.rung.borrow().get(entry as usize).copied().unwrap_or_default()
    }

    /// A command has ended.
    pub(super) fn ended(&self) {
        self.under_way.set(self.under_way.get() - 1);
        if self.under_way.get() == 0 {
            let _ = self.idle.push(());
        }
    }

    /// Waits until all fetched commands have ended.
    pub(super) async fn until_idle(&self) {
        while self.under_way.get() > 0 {
            self.idle.pop().await;
        }
    }
}
