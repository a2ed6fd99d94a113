// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests as an `async` device takes them.

use super::{Answer, Shared};
use crate::seam::{BarIndex, CompletionError, Token};
use std::fmt;
use std::rc::Rc;
use tlp::{Attributes, Data, Span, TrafficClass};

/// A request that the device has taken.
#[derive(Debug)]
pub enum Request {
    /// A memory read of a BAR, to be answered.
    Read(ReadRequest),
    /// A memory write of a BAR.
    Write(WriteRequest),
    /// A message.
    Message(MessageRequest),
}

/// The bytes of a BAR that a request names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) bar: BarIndex,
    pub(super) offset: u64,
    pub(super) span: Span,
    pub(super) tc: TrafficClass,
    pub(super) attr: Attributes,
}

macro_rules! place_accessors {
    () => {
        /// The BAR.
        #[must_use]
        pub fn bar(&self) -> BarIndex {
            self.place.bar
        }

        /// Offset in the BAR of the first enabled byte.
        #[must_use]
        pub fn offset(&self) -> u64 {
            self.place.offset
        }

        /// Bytes from the first enabled to the last enabled one, at least 1 (1 also where none is enabled, see
        /// [`is_zero_length`](Self::is_zero_length)) and at most 4096.
        #[expect(clippy::len_without_is_empty, reason = "never zero")]
        #[must_use]
        pub fn len(&self) -> usize {
            self.place.span.byte_count() as usize
        }

        /// True where it begins with exactly this byte of this BAR.
        #[must_use]
        pub fn at(&self, bar: BarIndex, offset: u64) -> bool {
            self.place.bar == bar && self.place.offset == offset
        }

        /// True where no byte is enabled: a flush, which has no other effect (`PCIe 5.0 §2.2.5`).
        #[must_use]
        pub fn is_zero_length(&self) -> bool {
            self.place.span.is_zero_length()
        }

        /// The bytes as addressed on the wire, with their Byte Enables.
        #[must_use]
        pub fn span(&self) -> Span {
            self.place.span
        }

        /// Traffic Class.
        #[must_use]
        pub fn tc(&self) -> TrafficClass {
            self.place.tc
        }

        /// Attributes.
        #[must_use]
        pub fn attr(&self) -> Attributes {
            self.place.attr
        }
    };
}

/// A memory read of a BAR. It is answered by [`complete`](Self::complete) or [`fail`](Self::fail), at any later time
/// and from any task. Dropped without an answer its token is lost, as a broken device loses it: the requester sees a
/// completion timeout.
pub struct ReadRequest {
    shared: Rc<Shared>,
    token: Token,
    place: Place,
}

impl ReadRequest {
    pub(super) fn new(shared: &Rc<Shared>, token: Token, place: Place) -> ReadRequest {
        ReadRequest { shared: Rc::clone(shared), token, place }
    }

    place_accessors!();

    /// The token.
    #[must_use]
    pub fn token(&self) -> Token {
        self.token
    }

    /// Answers it: with a register's value, bytes, a payload, or a `Result` of these. See [`Answer`] for how an answer
    /// is fitted to the length asked for.
    pub fn complete(self, answer: impl Answer) {
        let result = answer.answer(&self, &self.shared.core.pool);
        self.shared.complete(self.token, result);
    }

    /// Answers it with its length only, for runs that ask how long, not what.
    pub fn complete_counted(self) {
        self.complete(Data::NONE);
    }

    /// Refuses it.
    pub fn fail(self, error: CompletionError) {
        self.shared.complete(self.token, Err(error));
    }
}

impl Drop for ReadRequest {
    fn drop(&mut self) {
        self.shared.close_read();
    }
}

impl fmt::Debug for ReadRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadRequest").field("token", &self.token).field("place", &self.place).finish()
    }
}

/// A memory write of a BAR.
#[derive(Clone, Debug)]
pub struct WriteRequest {
    place: Place,
    data: Data,
}

impl WriteRequest {
    pub(super) fn new(place: Place, data: Data) -> WriteRequest {
        WriteRequest { place, data }
    }

    place_accessors!();

    /// Its data: the bytes from the first enabled to the last enabled one. Bytes between that are not enabled are in
    /// there too and mean nothing; [`apply`](Self::apply) leaves them out.
    #[must_use]
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// The first four bytes, little-endian; what was not written, or was only counted, is zero.
    #[must_use]
    pub fn u32(&self) -> u32 {
        self.u64() as u32
    }

    /// The first eight bytes, little-endian; what was not written, or was only counted, is zero.
    #[must_use]
    pub fn u64(&self) -> u64 {
        let mut value = [0; 8];
        let bytes = self.data.bytes().unwrap_or_default().iter().zip(0..self.place.span.byte_count());
        for (to, (byte, index)) in value.iter_mut().zip(bytes) {
            *to = if self.place.span.is_enabled(index) { *byte } else { 0 };
        }
        u64::from_le_bytes(value)
    }

    /// Writes the enabled bytes to `bar`, which holds the BAR's bytes from offset zero on; what lies beyond its end is
    /// left out. True where all enabled bytes were written.
    pub fn apply(&self, bar: &mut [u8]) -> bool {
        let Some(bytes) = self.data.bytes() else { return self.place.span.is_zero_length() };
        let first = usize::try_from(self.place.offset).unwrap_or(usize::MAX);
        if self.place.span.is_contiguous()
            && let Some(to) = bar.get_mut(first..).and_then(|bar| bar.get_mut(..bytes.len()))
        {
            to.copy_from_slice(bytes);
            return true;
        }
        self.apply_each(bar, first, bytes)
    }

    fn apply_each(&self, bar: &mut [u8], first: usize, bytes: &[u8]) -> bool {
        let mut all = true;
        for (index, byte) in bytes.iter().enumerate() {
            if self.place.span.is_enabled(index as u32) {
                match bar.get_mut(first.saturating_add(index)) {
                    Some(to) => *to = *byte,
                    None => all = false,
                }
            }
        }
        all
    }
}

/// A message.
#[derive(Clone, Debug)]
pub struct MessageRequest {
    /// Message Code.
    pub code: u8,
    /// Header bytes 8 to 15.
    pub header: [u8; 8],
    /// Its data.
    pub data: Data,
    /// Traffic Class.
    pub tc: TrafficClass,
    /// Attributes.
    pub attr: Attributes,
}
