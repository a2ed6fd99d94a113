// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completions (`PCIe 5.0 §2.2.9`, §2.3.1.1): the fields that a request determines in its completions, the headers of
//! completions, and the bytes that an arrived completion returns. Completers and requesters both use this module.
//! [`split`] or a policy decides how much data each completion has.

use crate::rules::{RuleId, Violation};
use crate::{
    Attributes, Bdf, Body, Class, Completion, MemoryOp, MemoryRequest, Mps, Rcb, Repr, Status, Tag,
    TrafficClass, split,
};
use core::ops::Range;

/// The fields that a request determines in its completions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompletedRequest {
    /// Requester ID.
    pub requester: Bdf,
    /// Tag.
    pub tag: Tag,
    /// Traffic Class.
    pub tc: TrafficClass,
    /// Attributes of the completions.
    pub attr: Attributes,
    /// True for an MRdLk. Its completions are CplDLk or CplLk.
    pub locked: bool,
    /// The requested bytes.
    pub bytes: Awaited,
}

impl CompletedRequest {
    /// The fields for the completions of `request`; `None` if the request is posted. For a memory read, Byte Count and
    /// Lower Address follow from its bytes. They are the operand's size and 0 for an AtomicOp, and 4 and 0 for all
    /// other requests (`PCIe 5.0 §2.2.9`). ID-based Ordering is left out, because a completer need not set it
    /// (§2.2.6.4).
    pub fn of(request: &Repr) -> Option<CompletedRequest> {
        (request.class() == Class::NonPosted).then(|| CompletedRequest::of_non_posted(request))
    }

    /// Like [`of`](Self::of), for a request that the caller knows to be non-posted.
    pub fn of_non_posted(request: &Repr) -> CompletedRequest {
        let byte_count = match &request.body {
            Body::Memory(m) if m.op.is_read() => return CompletedRequest::of_read(request, m),
            Body::Atomic(a) => a.operand.bytes(),
            _ => 4,
        };
        let (requester, tag) = request.transaction();
        let (tc, attr) = (request.tc, request.attr & Attributes::COMPLETED);
        CompletedRequest {
            requester,
            tag,
            tc,
            attr,
            locked: false,
            bytes: Awaited { first_byte: 0, byte_count },
        }
    }

    /// Like [`of`](Self::of), for a memory read with the body `read`.
    #[inline]
    pub fn of_read(request: &Repr, read: &MemoryRequest) -> CompletedRequest {
        CompletedRequest {
            requester: read.requester,
            tag: read.tag,
            tc: request.tc,
            attr: request.attr & Attributes::COMPLETED,
            locked: read.op == MemoryOp::ReadLocked,
            bytes: Awaited { first_byte: read.span.first_byte(), byte_count: read.span.byte_count() },
        }
    }

    /// The header of a completion without data. Its Byte Count and Lower Address are those of the whole request.
    #[inline]
    pub fn without_data(&self, completer: Bdf, status: Status) -> Repr {
        self.header(completer, status, self.bytes, None)
    }

    /// The header of a completion with `piece` bytes (1 to 4096), which follow the first `sent` bytes of the request.
    #[inline]
    pub fn with_data(&self, completer: Bdf, sent: u32, piece: u32) -> Repr {
        let rest = self.bytes.behind(sent);
        let length_dw = (rest.lead() + piece).div_ceil(4) as u16;
        self.header(completer, Status::Success, rest, Some(length_dw))
    }

    #[inline]
    fn header(&self, completer: Bdf, status: Status, rest: Awaited, length_dw: Option<u16>) -> Repr {
        let body = Completion {
            locked: self.locked,
            completer,
            requester: self.requester,
            tag: self.tag,
            status,
            bcm: false,
            byte_count: rest.byte_count as u16,
            lower_address: rest.lower_address(),
            length_dw,
        };
        Repr { tc: self.tc, attr: self.attr, ..Repr::new(Body::Completion(body)) }
    }
}

/// Returns true if `completion` has the Traffic Class `tc`, and the same No Snoop and Relaxed Ordering as `attr`, the
/// attributes of its request (`PCIe 5.0 §2.2.9`). ID-based Ordering is not compared, because a completer need not
/// copy it (§2.3.2).
#[must_use]
#[inline]
pub fn repeats(completion: &Repr, tc: TrafficClass, attr: Attributes) -> bool {
    completion.tc == tc && (completion.attr ^ attr) & Attributes::COMPLETED == Attributes::empty()
}

/// The rule that a completion breaks if its Traffic Class or attributes differ from the request, see [`repeats`].
#[must_use]
pub fn not_repeated(completion: &Repr, tc: TrafficClass, attr: Attributes) -> Option<Violation> {
    if completion.tc != tc {
        let (found, expected) = (completion.tc.bits().into(), tc.bits().into());
        return Some(Violation::expecting(RuleId::CompletionTc, found, expected));
    }
    let bits = |attr: Attributes| u64::from((attr & Attributes::COMPLETED).bits());
    let (found, expected) = (bits(completion.attr), bits(attr));
    (found != expected).then_some(Violation::expecting(RuleId::CompletionAttr, found, expected))
}

/// Requester ID in bits 31:16 and tag in bits 9:0, as in the values of rules about the request of a completion.
#[must_use]
pub fn transaction_value(completion: &Completion) -> u64 {
    u64::from(completion.requester.bits()) << 16 | u64::from(completion.tag.bits())
}

/// The bytes that a request asks for, or those of them that are still missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Awaited {
    /// Address of the first byte; zero for all requests except memory reads. Lower Address is its low seven bits.
    pub first_byte: u64,
    /// Number of bytes, counted as in Byte Count.
    pub byte_count: u32,
}

/// Reason why a completion does not answer a request (`PCIe 5.0 §2.3.2`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Misfit {
    /// It has no data.
    WithoutData,
    /// Byte Count is too high, or bytes before this completion are missing.
    ByteCount,
    /// Lower Address does not fit the byte that Byte Count determines.
    LowerAddress,
    /// It has more DWs than the request still awaits.
    Length,
}

impl Awaited {
    /// The bytes after the first `count`.
    #[must_use]
    #[inline]
    pub const fn behind(self, count: u32) -> Awaited {
        let first_byte = self.first_byte.wrapping_add(count as u64);
        Awaited { first_byte, byte_count: self.byte_count - count }
    }

    /// Lower Address of a completion that starts with the first byte.
    #[must_use]
    #[inline]
    pub const fn lower_address(self) -> u8 {
        (self.first_byte & 0x7f) as u8
    }

    /// Byte lanes of the first DW that precede the first byte: 0 to 3.
    #[must_use]
    #[inline]
    pub const fn lead(self) -> u32 {
        (self.first_byte & 3) as u32
    }

    /// Number of bytes in the next completion, see [`split::completion_piece`].
    #[must_use]
    #[inline]
    pub fn next_piece(self, mps: Mps, rcb: Rcb) -> u32 {
        split::completion_piece(self.first_byte, self.byte_count, mps, rcb)
    }

    /// The range of these bytes that a successful completion returns. Earlier completions may be missing.
    ///
    /// # Errors
    /// If the completion does not answer a request for these bytes.
    #[inline]
    pub fn place(self, completion: &Completion) -> Result<Range<u32>, Misfit> {
        let dw = u32::from(completion.length_dw.ok_or(Misfit::WithoutData)?);
        let remaining = u32::from(completion.byte_count);
        let start = self.byte_count.checked_sub(remaining).ok_or(Misfit::ByteCount)?;
        let rest = self.behind(start);
        if completion.lower_address != rest.lower_address() {
            return Err(Misfit::LowerAddress);
        }
        if dw == 0 || dw > (rest.lead() + remaining).div_ceil(4) {
            return Err(Misfit::Length);
        }
        Ok(start..start + (dw * 4 - rest.lead()).min(remaining))
    }

    /// The number of bytes that a successful completion returns. It must start with the first byte, because the
    /// completions of a request arrive in address order (`PCIe 5.0 §2.3.1.1`).
    ///
    /// # Errors
    /// If the completion does not answer the request from the first byte on.
    #[inline]
    pub fn place_next(self, completion: &Completion) -> Result<u32, Misfit> {
        if u32::from(completion.byte_count) != self.byte_count {
            return Err(Misfit::ByteCount);
        }
        self.place(completion).map(|bytes| bytes.end)
    }

    /// The rule that `completion` breaks, after [`place`](Self::place) or [`place_next`](Self::place_next) returned
    /// `misfit`.
    #[cold]
    #[must_use]
    pub fn violation(self, completion: &Completion, misfit: Misfit) -> Violation {
        let remaining = u32::from(completion.byte_count);
        match misfit {
            Misfit::WithoutData => Violation::expecting(RuleId::CompletionType, 0b000, 0b010),
            Misfit::ByteCount => {
                Violation::expecting(RuleId::ByteCount, remaining.into(), self.byte_count.into())
            }
            Misfit::LowerAddress => {
                let rest = self.behind(self.byte_count.saturating_sub(remaining));
                let (found, expected) = (completion.lower_address.into(), rest.lower_address().into());
                Violation::expecting(RuleId::LowerAddress, found, expected)
            }
            Misfit::Length => {
                Violation::new(RuleId::CompletionLength, completion.length_dw.unwrap_or(0).into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Span;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn asked(first_byte: u64, byte_count: u32) -> CompletedRequest {
        let span = Span::covering(first_byte, byte_count).unwrap();
        let (requester, tag) = (Bdf::from_bits(0x100), Tag::from_bits(7));
        let read = MemoryRequest { op: MemoryOp::Read, requester, tag, span };
        CompletedRequest::of(&Repr::new(Body::Memory(read))).unwrap()
    }

    fn completion(repr: &Repr) -> Completion {
        match repr.body {
            Body::Completion(c) => c,
            _ => unreachable!("a completion"),
        }
    }

    /// Computes the result of `place` byte by byte. Byte Count determines the first byte of the completion. The
    /// result has all bytes of the request on the byte lanes from there on. `None` if the last DW contains none of
    /// them, or if Lower Address does not fit the first byte.
    fn by_lanes(asked: Awaited, c: &Completion) -> Option<Vec<u32>> {
        let wanted: Vec<u64> = (0..asked.byte_count).map(|n| asked.first_byte + u64::from(n)).collect();
        let first = *wanted.iter().rev().nth(usize::from(c.byte_count).checked_sub(1)?)?;
        let lanes = (first & !3)..(first & !3) + u64::from(c.length_dw?) * 4;
        let last_dw = lanes.end - 4..lanes.end;
        if first & 0x7f != u64::from(c.lower_address) || !wanted.iter().any(|a| last_dw.contains(a)) {
            return None;
        }
        let here = |a: &u64| *a >= first && lanes.contains(a);
        Some(wanted.iter().filter(|a| here(a)).map(|a| (a - asked.first_byte) as u32).collect())
    }

    proptest! {
        /// The pieces of a read fit together: they return each byte once and in order, and only the last one ends
        /// the read.
        #[test]
        fn places_pieces_of_read(page in 0u64..4, at in 0u64..4096, len in 1u32..4097, mps in 0u8..6, rcb in 0u8..2) {
            let first_byte = page << 30 | at;
            let len = len.min(4096 - at as u32);
            let (mps, rcb) = (Mps::from_encoding(mps).unwrap(), Rcb::new(64 << rcb).unwrap());
            let asked = asked(first_byte, len);
            let (mut sent, mut rest) = (0, asked.bytes);
            while rest.byte_count > 0 {
                let piece = rest.next_piece(mps, rcb);
                let c = completion(&asked.with_data(Bdf::default(), sent, piece));
                prop_assert_eq!(asked.bytes.place(&c), Ok(sent..sent + piece));
                prop_assert_eq!(rest.place_next(&c), Ok(piece));
                prop_assert!(u32::from(c.length_dw.unwrap()) * 4 <= mps.bytes());
                prop_assert_eq!(c.is_last(), piece == rest.byte_count);
                (sent, rest) = (sent + piece, rest.behind(piece));
            }
        }

        /// Any completion is either rejected, or placed on the bytes that its byte lanes determine.
        #[test]
        fn place_matches_byte_lanes(
            at in 0u64..300,
            len in 1u32..200,
            byte_count in 1u16..220,
            lower_address in prop::option::of(0u8..128),
            dw in 1u16..60,
        ) {
            let bytes = Awaited { first_byte: at, byte_count: len };
            let fitting = (at + u64::from(len)).wrapping_sub(byte_count.into()) as u8 & 0x7f;
            let lower_address = lower_address.unwrap_or(fitting);
            let c = Completion {
                byte_count,
                lower_address,
                length_dw: Some(dw),
                ..completion(&asked(0, 4).without_data(Bdf::default(), Status::Success))
            };
            let placed = bytes.place(&c).ok().map(|range| range.collect::<Vec<u32>>());
            prop_assert_eq!(placed, by_lanes(bytes, &c));
        }
    }

    #[test]
    fn posted_requests_need_no_completion() {
        let span = Span::covering(0x1000, 4).unwrap();
        let write = |op| {
            let m = MemoryRequest { op, requester: Bdf::default(), tag: Tag::default(), span };
            CompletedRequest::of(&Repr::new(Body::Memory(m)))
                .map(|a| (a.bytes.first_byte, a.bytes.byte_count))
        };
        assert_eq!(write(MemoryOp::Write), None);
        // Byte Count and Lower Address of requests whose completion has no data are 4 and 0 (`PCIe 5.0 §2.2.9`).
        assert_eq!(write(MemoryOp::WriteDeferrable), Some((0, 4)));
        assert_eq!(write(MemoryOp::ReadLocked), Some((0x1000, 4)));
    }
}
