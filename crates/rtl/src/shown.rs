// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shows TLPs and credits in the waves, next to the design's own signals. Signals of the stand-in (`verilog/shown.v`)
//! have the last TLP in each direction, and the remaining credits of both ends of the link.

use crate::common::emit;
use endpoint::LinkCredits;
use tlp::Tlp;

/// Words of one direction: a count, and the header's four double-words, the last one first.
const TLP_WORDS: usize = 5;
/// Words of the credits of one direction: per class data in the upper half and headers in the lower, then one bit for each of these six
/// that is infinite.
const CREDIT_WORDS: usize = 4;
const CREDITS: usize = 2 * TLP_WORDS;
/// Total number of words.
pub(crate) const WORDS: usize = CREDITS + 2 * CREDIT_WORDS;

/// Direction of a TLP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TlpDirection {
    /// Toward the block.
    In,
    /// Toward the link.
    Out,
}

impl TlpDirection {
    pub(crate) const ALL: [TlpDirection; 2] = [TlpDirection::In, TlpDirection::Out];
}

/// The values that are shown.
#[derive(Default)]
pub(crate) struct Shown {
    pub(crate) words: [u32; WORDS],
    credits: Option<LinkCredits>,
    bytes: Vec<u8>,
}

impl Shown {
    /// Shows this TLP from the next edge on.
    pub(crate) fn see(&mut self, way: TlpDirection, tlp: &Tlp) {
        emit(tlp, &mut self.bytes);
        let [count, header @ ..] = &mut self.words[TLP_WORDS * way as usize..][..TLP_WORDS] else { return };
        *count = count.wrapping_add(1);
        // Prefixes have Fmt 100 (`PCIe 5.0 §2.2.1`).
        let dws = self.bytes.as_chunks::<4>().0.iter().skip_while(|dw| dw[0] >> 5 == 0b100);
        header.fill(0);
        for (to, dw) in header.iter_mut().rev().zip(dws) {
            *to = u32::from_be_bytes(*dw);
        }
        // With a header of three double-words, the fourth belongs to the data.
        if header[3] >> 29 & 1 == 0 {
            header[0] = 0;
        }
    }

    /// Shows these credits from the next edge on. Returns false if these credits are shown already.
    pub(crate) fn see_credits(&mut self, credits: &LinkCredits) -> bool {
        if self.credits.replace(*credits) == Some(*credits) {
            return false;
        }
        let LinkCredits { here, there } = credits;
        for (way, classes) in [(TlpDirection::In, there), (TlpDirection::Out, here)] {
            let words = &mut self.words[CREDITS + CREDIT_WORDS * way as usize..][..CREDIT_WORDS];
            words.fill(0);
            for (n, unused) in classes.iter().enumerate() {
                let [header, data] = [unused.header, unused.data];
                words[n] = u32::from(header.unwrap_or(0)) | u32::from(data.unwrap_or(0)) << 16;
                words[3] |= (u32::from(header.is_none()) | u32::from(data.is_none()) << 1) << (2 * n);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use endpoint::UnusedCredits;
    use tlp::{Bdf, Body, Data, MemoryOp, MemoryRequest, Repr, Span, Tag};

    #[test]
    fn header_has_wire_format() {
        let span = Span::covering(0x1000, 64).unwrap();
        let (requester, tag) = (Bdf::from_bits(0x0100), Tag::from_bits(7));
        let read = MemoryRequest { op: MemoryOp::Read, requester, tag, span };
        let mut shown = Shown::default();
        shown.see(TlpDirection::Out, &Tlp::new(Repr::new(Body::Memory(read)), Data::NONE));
        assert_eq!(shown.words[..5], [0; 5]);
        assert_eq!(shown.words[5..10], [1, 0, 0x1000, 0x0100_07ff, 0x0000_0010]);
    }

    #[test]
    fn credits_have_classes_and_infinite_flags() {
        let of = |header, data| UnusedCredits { header, data };
        let here = [of(Some(12), Some(0x234)), of(Some(1), None), of(None, None)];
        let (mut shown, there) = (Shown::default(), [of(None, None); 3]);
        let credits = LinkCredits { here, there };
        assert!(shown.see_credits(&credits) && !shown.see_credits(&credits));
        assert_eq!(shown.words[10..14], [0, 0, 0, 0b11_1111]);
        assert_eq!(shown.words[14..], [0x0234_000c, 1, 0, 0b11_1000]);
    }
}
