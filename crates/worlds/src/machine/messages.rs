// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of a virtual machine without a descriptor. Each DMA takes a message to the client and an answer. A read sends the message; the root
//! complex repeats the read until the answer has arrived. Messages are sent in the order of the DMA. An interrupt waits until earlier writes
//! have arrived.
//!
//! A client perhaps does not answer while it waits for an access. If a device needs memory to complete an access, it
//! therefore gets no answer until the access has timed out.

use guest::vfio_user::{Dma, DmaError, Errno, Irq, Session};
use session::external::host::Backing;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Maximum number of reads whose answers were not fetched. Further reads wait.
const MAX_READS: usize = 256;
/// Maximum bytes of waiting writes. Further writes are lost and counted.
const MAX_BYTES: usize = 64 << 20;
/// Bytes of waiting writes above which the fabric waits too.
const FULL_BYTES: usize = 1 << 20;

/// Number of turns after which an answer that was not fetched is dropped.
const TURNS: u32 = 1000;

/// Address and length.
type AddressRange = (u64, usize);

enum Message {
    Read(AddressRange),
    Write(u64, Vec<u8>),
}

/// A read of a device.
enum Read {
    Asked,
    /// The bytes (`None` if the client could not read them), and the number of turns since the answer. If the answer is
    /// not fetched, the requester has left.
    Came(Option<Vec<u8>>, u32),
}

/// All messages of a client. Clones are handles on the same messages.
#[derive(Clone, Default)]
pub(super) struct Messages(Rc<RefCell<MessagesState>>);

#[derive(Default)]
struct MessagesState {
    waiting: VecDeque<Message>,
    /// Messages without an answer: the address and length of a read, or the number of bytes of a write.
    sent: BTreeMap<Dma, Result<AddressRange, usize>>,
    reads: BTreeMap<AddressRange, Read>,
    /// Bytes of writes that have not arrived. `written` and `ended` count the writes that have started and ended.
    bytes: usize,
    written: u64,
    ended: u64,
    lost: u64,
    /// Waiting interrupts, each with the number of writes that must have ended.
    held: VecDeque<(u64, Irq, u32)>,
}

impl Messages {
    /// Returns the memory from `address` on.
    pub(super) fn map(&self, address: u64) -> MessageMap {
        MessageMap { messages: self.clone(), address, awaits: Cell::new(false) }
    }

    /// Returns whether the fabric has to wait until writes have arrived.
    pub(super) fn is_full(&self) -> bool {
        self.0.borrow().bytes > FULL_BYTES
    }

    /// Returns whether a device waits for an answer.
    pub(super) fn awaits(&self) -> bool {
        self.0.borrow().reads.values().any(|read| matches!(read, Read::Asked))
    }

    /// Returns the number of writes lost since the last call.
    pub(super) fn lost(&self) -> u64 {
        std::mem::take(&mut self.0.borrow_mut().lost)
    }

    /// Sends messages, as many as the session accepts.
    pub(super) fn send(&self, session: &mut Session) {
        let mut state = self.0.borrow_mut();
        state.reads.retain(|_, read| match read {
            Read::Asked => true,
            Read::Came(_, turns) => {
                *turns += 1;
                *turns < TURNS
            }
        });
        while let Some(message) = state.waiting.pop_front() {
            let (sent, kind) = match &message {
                Message::Read((address, len)) => {
                    (session.dma_read(*address, *len as u64), Ok((*address, *len)))
                }
                Message::Write(address, bytes) => (session.dma_write(*address, bytes), Err(bytes.len())),
            };
            match sent {
                Ok(dma) => _ = state.sent.insert(dma, kind),
                Err(DmaError::TooMany) => return state.waiting.push_front(message),
                Err(_) => state.end(kind, None),
            }
        }
    }

    /// Takes the answer to a message. Returns false if the message is not such an answer.
    pub(super) fn answer(&self, dma: Dma, result: &Result<Vec<u8>, Errno>) -> bool {
        let mut state = self.0.borrow_mut();
        let Some(kind) = state.sent.remove(&dma) else { return false };
        state.end(kind, result.as_ref().ok());
        true
    }

    /// Holds an interrupt until earlier writes have arrived. Returns false if there are no such writes.
    pub(super) fn hold(&self, irq: Irq, n: u32) -> bool {
        let mut state = self.0.borrow_mut();
        let behind = state.written;
        if behind > state.ended {
            state.held.push_back((behind, irq, n));
        }
        behind > state.ended
    }

    /// Returns the next interrupt that no longer waits.
    pub(super) fn released(&self) -> Option<(Irq, u32)> {
        let mut state = self.0.borrow_mut();
        let (_, irq, n) = state.held.front().copied().filter(|(behind, ..)| *behind <= state.ended)?;
        state.held.pop_front();
        Some((irq, n))
    }

    /// Drops everything, because the client has left.
    pub(super) fn clear(&self) {
        *self.0.borrow_mut() = MessagesState::default();
    }
}

impl MessagesState {
    fn end(&mut self, kind: Result<AddressRange, usize>, bytes: Option<&Vec<u8>>) {
        match kind {
            Ok(place) => _ = self.reads.insert(place, Read::Came(bytes.cloned(), 0)),
            Err(written) => {
                self.bytes -= written;
                self.ended += 1;
                self.lost += u64::from(bytes.is_none());
            }
        }
    }
}

/// A range of memory that is reached by messages.
pub(super) struct MessageMap {
    messages: Messages,
    address: u64,
    /// The last read waits for its answer.
    awaits: Cell<bool>,
}

impl Backing for MessageMap {
    fn read(&self, offset: u64, to: &mut [u8]) -> bool {
        let mut state = self.messages.0.borrow_mut();
        let place = (self.address + offset, to.len());
        self.awaits.set(true);
        match state.reads.remove(&place) {
            Some(Read::Came(bytes, _)) => {
                self.awaits.set(false);
                let bytes = bytes.filter(|bytes| bytes.len() == to.len());
                bytes.map(|bytes| to.copy_from_slice(&bytes)).is_some()
            }
            Some(Read::Asked) => {
                state.reads.insert(place, Read::Asked);
                false
            }
            None if state.reads.len() >= MAX_READS => false,
            None => {
                state.reads.insert(place, Read::Asked);
                state.waiting.push_back(Message::Read(place));
                false
            }
        }
    }

    fn write(&self, offset: u64, from: &[u8]) -> bool {
        let mut state = self.messages.0.borrow_mut();
        if state.bytes + from.len() > MAX_BYTES {
            state.lost += 1;
            return false;
        }
        state.bytes += from.len();
        state.written += 1;
        state.waiting.push_back(Message::Write(self.address + offset, from.to_vec()));
        true
    }

    fn awaits(&self) -> bool {
        self.awaits.get()
    }
}
