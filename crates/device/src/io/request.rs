// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests, in the form in which an `async` device takes them.

use super::{Answer, AtomicRequest, ConfigRead, ConfigWrite, Shared};
use crate::seam::{BarIndex, CompletionError, Token};
use std::fmt;
use std::rc::Rc;
use tlp::{Attributes, Bdf, Data, MessageRouting, PayloadPool, Span, TrafficClass};

/// A request that the device has taken. More kinds may be added; a device drops unknown requests.
#[derive(Debug)]
#[non_exhaustive]
pub enum Request {
    /// A read of a BAR, which must be answered.
    Read(ReadRequest),
    /// A write of a BAR. A non-posted write (IOWr, DMWr) is answered when this value is dropped.
    Write(WriteRequest),
    /// An AtomicOp on a BAR, which must be answered.
    Atomic(AtomicRequest),
    /// A read of one of the function's own configuration registers, which must be answered.
    ConfigRead(ConfigRead),
    /// A write of one of the function's own configuration registers.
    ConfigWrite(ConfigWrite),
    /// A message.
    Message(MessageRequest),
}

/// The bytes of a BAR that a request accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BarRange {
    pub(super) bar: BarIndex,
    pub(super) offset: u64,
    pub(super) span: Span,
    pub(super) tc: TrafficClass,
    pub(super) attr: Attributes,
}

macro_rules! place_accessors {
    () => {
        /// The BAR.
        pub fn bar(&self) -> BarIndex {
            self.place.bar
        }

        /// Offset of the first enabled byte in the BAR.
        pub fn offset(&self) -> u64 {
            self.place.offset
        }

        /// Number of bytes from the first to the last enabled byte, 1 to 4096. The number is also 1 if no byte is
        /// enabled, see [`is_zero_length`](Self::is_zero_length).
        #[expect(clippy::len_without_is_empty, reason = "never zero")]
        pub fn len(&self) -> usize {
            self.place.span.byte_count() as usize
        }

        /// True if the request starts exactly at this byte of this BAR.
        pub fn at(&self, bar: impl Into<BarIndex>, offset: u64) -> bool {
            self.place.bar == bar.into() && self.place.offset == offset
        }

        /// True if no byte is enabled: the request only flushes (`PCIe 5.0 §2.2.5`).
        pub fn is_zero_length(&self) -> bool {
            self.place.span.is_zero_length()
        }

        /// The bytes as addressed on the wire, with their Byte Enables.
        pub fn span(&self) -> Span {
            self.place.span
        }

        /// Traffic Class.
        pub fn tc(&self) -> TrafficClass {
            self.place.tc
        }

        /// Attributes.
        pub fn attr(&self) -> Attributes {
            self.place.attr
        }
    };
}

/// An answer that the program must still give.
pub(super) struct Owed {
    shared: Rc<Shared>,
    token: Token,
}

impl Owed {
    pub(super) fn new(shared: &Rc<Shared>, token: Token) -> Owed {
        Owed { shared: Rc::clone(shared), token }
    }

    pub(super) fn token(&self) -> Token {
        self.token
    }

    pub(super) fn pool(&self) -> &PayloadPool {
        &self.shared.core.pool
    }

    /// Gives the answer.
    pub(super) fn pay(self, result: Result<Data, CompletionError>) {
        self.shared.complete(self.token, result);
    }
}

/// Releases the place of the request, whether or not the request was answered.
impl Drop for Owed {
    fn drop(&mut self) {
        self.shared.close_read();
    }
}

impl fmt::Debug for Owed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.token.fmt(f)
    }
}

/// An answer without data that the program must give, if any. When this value is dropped, the answer is Successful
/// Completion, unless [`fail`](Self::fail) was called.
#[derive(Debug)]
pub(super) struct Success(pub(super) Option<Owed>);

impl Success {
    pub(super) fn fail(&mut self, error: CompletionError) {
        if let Some(owed) = self.0.take() {
            owed.pay(Err(error));
        }
    }
}

impl Drop for Success {
    fn drop(&mut self) {
        if let Some(owed) = self.0.take() {
            owed.pay(Ok(Data::NONE));
        }
    }
}

/// A read of a BAR. The request is answered by [`complete`](Self::complete) or [`fail`](Self::fail), at any later time
/// and from any task. If this value is dropped without an answer, its token is lost, like in a broken device: the
/// requester gets a completion timeout.
#[derive(Debug)]
pub struct ReadRequest {
    pub(super) owed: Owed,
    pub(super) place: BarRange,
    pub(super) locked: bool,
}

impl ReadRequest {
    /// True for an MRdLk: the path stays locked until an Unlock message arrives (`PCIe 5.0 §6.5`).
    pub fn is_locked(&self) -> bool {
        self.locked
    }

    place_accessors!();

    /// The token of the request.
    pub fn token(&self) -> Token {
        self.owed.token()
    }

    /// Answers the request with a register's value, bytes, a payload, or a `Result` of these. [`Answer`] describes how
    /// an answer is adapted to the requested length.
    pub fn complete(self, answer: impl Answer) {
        let result = answer.answer(&self, self.owed.pool());
        self.owed.pay(result);
    }

    /// Answers the request without contents, for simulations of timing.
    pub fn complete_counted(self) {
        self.complete(Data::NONE);
    }

    /// Rejects it.
    pub fn fail(self, error: CompletionError) {
        self.owed.pay(Err(error));
    }
}

/// A write of a BAR: posted (MWr), or answered by a completion without data (IOWr, DMWr). When dropped, the latter
/// completes successfully, unless [`fail`](Self::fail) was called. So a device need not distinguish these cases.
#[derive(Debug)]
pub struct WriteRequest {
    pub(super) place: BarRange,
    pub(super) data: Data,
    pub(super) owed: Success,
}

impl WriteRequest {
    /// True for a non-posted write.
    pub fn is_answered(&self) -> bool {
        self.owed.0.is_some()
    }

    /// Rejects the request, or defers it with [`CompletionError::Retry`]. A posted write is only dropped.
    pub fn fail(mut self, error: CompletionError) {
        self.owed.fail(error);
    }

    place_accessors!();

    /// Data of the write, from the first to the last enabled byte. The data include bytes in between that are not
    /// enabled. Those have no meaning; [`apply`](Self::apply) skips them.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// The first four bytes, little-endian; bytes that are missing or only counted are zero.
    pub fn u32(&self) -> u32 {
        self.u64() as u32
    }

    /// The first eight bytes, little-endian; bytes that are missing or only counted are zero.
    pub fn u64(&self) -> u64 {
        let mut value = [0; 8];
        let bytes = self.data.bytes().unwrap_or_default().iter().zip(0..self.place.span.byte_count());
        for (to, (byte, index)) in value.iter_mut().zip(bytes) {
            *to = if self.place.span.is_enabled(index) { *byte } else { 0 };
        }
        u64::from_le_bytes(value)
    }

    /// Writes the enabled bytes to `bar`, the BAR's bytes from offset zero. Bytes beyond its end are skipped. Returns
    /// true if all enabled bytes were written.
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

    /// Like [`apply`](Self::apply), but writes only the bits that are set in `writable`, which is as long as `bar`.
    pub fn apply_bits(&self, bar: &mut [u8], writable: &[u8]) -> bool {
        let Some(bytes) = self.data.bytes() else { return self.place.span.is_zero_length() };
        let first = usize::try_from(self.place.offset).unwrap_or(usize::MAX);
        let mut all = true;
        for (index, byte) in bytes.iter().enumerate() {
            if self.place.span.is_enabled(index as u32) {
                let at = first.saturating_add(index);
                match bar.get_mut(at).zip(writable.get(at)) {
                    Some((to, bits)) => *to = byte & bits | *to & !bits,
                    None => all = false,
                }
            }
        }
        all
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
    /// Requester ID of the sender.
    pub requester: Bdf,
    /// Routing of the message.
    pub routing: MessageRouting,
    /// Message Code.
    pub code: u8,
    /// Header bytes 8 to 15.
    pub header: [u8; 8],
    /// Data of the message.
    pub data: Data,
    /// Traffic Class.
    pub tc: TrafficClass,
    /// Attributes.
    pub attr: Attributes,
}
