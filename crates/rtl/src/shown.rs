// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLPs for the waves: the last each way as signals of the stand-in (`verilog/shown.v`), beside the design's own. Knows no block.

use tlp::Tlp;

/// Words of one way: a count, and the header's four double-words, the last one first.
const WORDS: usize = 5;

/// Which way a TLP goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// To the block.
    In,
    /// To the link.
    Out,
}

impl Way {
    pub(crate) const ALL: [Way; 2] = [Way::In, Way::Out];
}

/// What is shown.
#[derive(Default)]
pub(crate) struct Shown {
    pub(crate) words: [u32; 2 * WORDS],
    bytes: Vec<u8>,
}

impl Shown {
    /// Shows this TLP from the next edge on.
    pub(crate) fn see(&mut self, way: Way, tlp: &Tlp) {
        self.bytes.clear();
        self.bytes.resize(tlp.wire_len(), 0);
        tlp.emit(&mut self.bytes);
        let [count, header @ ..] = &mut self.words[WORDS * way as usize..][..WORDS] else { return };
        *count = count.wrapping_add(1);
        // Prefixes have Fmt 100 (`PCIe 5.0 §2.2.1`).
        let dws = self.bytes.as_chunks::<4>().0.iter().skip_while(|dw| dw[0] >> 5 == 0b100);
        header.fill(0);
        for (to, dw) in header.iter_mut().rev().zip(dws) {
            *to = u32::from_be_bytes(*dw);
        }
        // The fourth is the data's where the header has three.
        if header[3] >> 29 & 1 == 0 {
            header[0] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tlp::{Bdf, Body, Data, MemoryOp, MemoryRequest, Repr, Span, Tag};

    #[test]
    fn a_header_is_shown_as_it_is_on_the_wire() {
        let span = Span::covering(0x1000, 64).unwrap();
        let (requester, tag) = (Bdf::from_bits(0x0100), Tag::from_bits(7));
        let read = MemoryRequest { op: MemoryOp::Read, requester, tag, span };
        let mut shown = Shown::default();
        shown.see(Way::Out, &Tlp::new(Repr::new(Body::Memory(read)), Data::NONE));
        assert_eq!(shown.words[..5], [0; 5]);
        assert_eq!(shown.words[5..], [1, 0, 0x1000, 0x0100_07ff, 0x0000_0010]);
    }
}
