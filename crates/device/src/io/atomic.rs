// SPDX-License-Identifier: Apache-2.0 OR MIT
//! AtomicOps (`PCIe 5.0 §6.15`) that an `async` device sends and receives.

use super::request::Owed;
use crate::seam::{BarIndex, CompletionError, DmaError};
use tlp::{AtomicOp, Attributes, Data, Payload, PayloadPool, TrafficClass};

/// Integer operands of AtomicOps: 32 and 64 bits, and 128 for CAS. Little-endian in memory.
pub trait AtomicValue: Copy + Unpin + 'static {
    /// Size in bytes.
    const BYTES: usize;

    /// Writes the value to `to`, which has [`BYTES`](Self::BYTES) bytes.
    fn store(self, to: &mut [u8]);

    /// Reads the value from the start of `from`; missing bytes are zero.
    fn load(from: &[u8]) -> Self;
}

/// Integer operands of FetchAdd and Swap: 32 and 64 bits.
pub trait FetchValue: AtomicValue {}

macro_rules! values {
    ($($int:ty),*) => {$(
        impl AtomicValue for $int {
            const BYTES: usize = size_of::<$int>();

            fn store(self, to: &mut [u8]) {
                to.copy_from_slice(&self.to_le_bytes());
            }

            fn load(from: &[u8]) -> $int {
                from.first_chunk().map_or(0, |bytes| <$int>::from_le_bytes(*bytes))
            }
        }
    )*};
}

values!(u32, u64, u128);

impl FetchValue for u32 {}
impl FetchValue for u64 {}

/// Returns the operands as a payload, one after the other.
pub fn payload<V: AtomicValue>(pool: &PayloadPool, operands: &[V]) -> Payload {
    pool.fill(operands.len() * V::BYTES, |bytes| {
        for (to, operand) in bytes.chunks_exact_mut(V::BYTES).zip(operands) {
            operand.store(to);
        }
    })
}

/// Returns the value in an AtomicOp's result.
pub(super) fn value<V: AtomicValue>(result: Result<Data, DmaError>) -> Result<V, DmaError> {
    match result? {
        Data::Carried(bytes) if bytes.len() == V::BYTES => Ok(V::load(&bytes)),
        // The host returned no contents, or the wrong number of bytes.
        _ => Err(DmaError::Malformed),
    }
}

/// An AtomicOp on a BAR. The answer is the value before the operation. It may be given at any later time and from any
/// task. The device itself must make the operation atomic. If this value is dropped without an answer, its requester
/// gets a completion timeout.
#[derive(Debug)]
pub struct AtomicRequest {
    pub(super) owed: Owed,
    pub(super) bar: BarIndex,
    pub(super) offset: u64,
    pub(super) op: AtomicOp,
    pub(super) operands: Data,
    pub(super) tc: TrafficClass,
    pub(super) attr: Attributes,
}

impl AtomicRequest {
    /// The BAR.
    pub fn bar(&self) -> BarIndex {
        self.bar
    }

    /// Offset in the BAR.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The operation.
    pub fn op(&self) -> AtomicOp {
        self.op
    }

    /// Bytes of the operand: 4, 8 or 16.
    #[expect(clippy::len_without_is_empty, reason = "never zero")]
    pub fn len(&self) -> usize {
        self.operands.len() / self.op.operands() as usize
    }

    /// The operands.
    pub fn operands(&self) -> &Data {
        &self.operands
    }

    /// Traffic Class.
    pub fn tc(&self) -> TrafficClass {
        self.tc
    }

    /// Attributes.
    pub fn attr(&self) -> Attributes {
        self.attr
    }

    /// Executes the operation on `bar`, the BAR's bytes from offset zero, and answers it. The answer is UR if the
    /// operand extends beyond these bytes. Memory is not changed if the operands are only counted.
    pub fn apply(self, bar: &mut [u8]) {
        let (first, len) = (usize::try_from(self.offset).unwrap_or(usize::MAX), self.len());
        let Some(place) = bar.get_mut(first..).and_then(|bar| bar.get_mut(..len)) else {
            return self.fail(CompletionError::UnsupportedRequest);
        };
        let old = Data::Carried(self.owed.pool().copy(place));
        if let Some(operands) = self.operands.bytes() {
            let mut new = [0; 16];
            let new = &mut new[..len];
            self.op.apply(place, operands, new);
            place.copy_from_slice(new);
        }
        self.owed.pay(Ok(old));
    }

    /// Answers the request with the value before the operation, of [`len`](Self::len) bytes.
    pub fn complete(self, old: &[u8]) {
        let old = Data::Carried(self.owed.pool().copy(old));
        self.owed.pay(Ok(old));
    }

    /// Rejects it.
    pub fn fail(self, error: CompletionError) {
        self.owed.pay(Err(error));
    }
}
