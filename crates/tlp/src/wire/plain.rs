// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A fast parser for nearly all traffic: legal headers of MRd, MWr, Cpl and CplD without prefixes, TH, LN and TD. It
//! reports no errors: all other headers are left to the general parser, which gives the same results for plain ones.

use super::body::{completion, length_dw, tag};
use super::{Parsed, field};
use crate::{
    AddressType, Attributes, Bdf, Body, MemoryOp, MemoryRequest, Prefixes, Repr, Span, TrafficClass,
};

/// The bits that must be clear in a header that this parser reads.
const RARE: u32 = field::TH.place(1) | field::LN.place(1) | field::TD.place(1);

/// Reads a plain header and ignores the bytes after it. `None` if the header is not plain, or breaks a rule.
#[inline]
pub(super) fn parse_header(bytes: &[u8]) -> Option<Parsed> {
    let (&[first, ..], rest) = bytes.split_first_chunk::<12>()?;
    let dws: [u32; 3] = core::array::from_fn(|n| super::dw(bytes, n));
    if dws[0] & RARE != 0 {
        return None;
    }
    let (header_len, has_data, at, body) = match first {
        0x00 => (12, false, at(&dws), memory(&dws, MemoryOp::Read, u64::from(dws[2]))?),
        0x40 => (12, true, at(&dws), memory(&dws, MemoryOp::Write, u64::from(dws[2]))?),
        0x20 => (16, false, at(&dws), memory(&dws, MemoryOp::Read, long_address(&dws, rest)?)?),
        0x60 => (16, true, at(&dws), memory(&dws, MemoryOp::Write, long_address(&dws, rest)?)?),
        0x0a => (12, false, AddressType::Untranslated, Body::Completion(completion(dws, false))),
        0x4a => (12, true, AddressType::Untranslated, Body::Completion(completion(dws, true))),
        _ => return None,
    };
    let end = header_len + if has_data { length_dw(dws[0]) as usize * 4 } else { 0 };
    let attr = field::ATTR_2.of(dws[0]) << 2 | field::ATTR_1_0.of(dws[0]);
    let repr = Repr {
        tc: TrafficClass::from_bits(field::TC.of(dws[0]) as u8),
        attr: Attributes::from_bits_truncate(attr as u8),
        at,
        th: None,
        ln: false,
        td: false,
        ep: field::EP.of(dws[0]) != 0,
        body,
    };
    Some(Parsed { repr, prefixes: Prefixes::NONE, header_len, data: header_len..end, digest: None })
}

fn at(dws: &[u32; 3]) -> AddressType {
    AddressType::from_bits(field::AT.of(dws[0]) as u8)
}

fn long_address(dws: &[u32; 3], rest: &[u8]) -> Option<u64> {
    let low = u32::from_be_bytes(*rest.first_chunk()?);
    Some(u64::from(dws[2]) << 32 | u64::from(low))
}

fn memory(dws: &[u32; 3], op: MemoryOp, address: u64) -> Option<Body> {
    let (first_be, last_be) = (field::FIRST_BE.of(dws[1]) as u8, field::LAST_BE.of(dws[1]) as u8);
    let span = Span::from_fields(address & !3, length_dw(dws[0]), first_be, last_be).ok()?;
    let requester = Bdf::from_bits(field::REQUESTER.of(dws[1]) as u16);
    Some(Body::Memory(MemoryRequest { op, requester, tag: tag(dws[0], field::TAG.of(dws[1])), span }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    fn both(bytes: &[u8]) {
        if let Some(parsed) = parse_header(bytes) {
            assert_eq!(Repr::parse_header_closely(bytes), Ok(parsed));
        }
    }

    #[test]
    fn fast_parser_reads_plain_tlps() {
        for (first, len, header) in
            [(0x00, 1, 12), (0x40, 2, 12), (0x20, 8, 16), (0x60, 8, 16), (0x0a, 1, 12), (0x4a, 3, 12)]
        {
            let mut bytes = vec![first, 0, 0, len, 0x1a, 0, 7, if len == 1 { 0x0f } else { 0xff }];
            bytes.resize(header + if first & 0x40 == 0 { 0 } else { usize::from(len) * 4 }, 0);
            assert!(parse_header(&bytes).is_some(), "{bytes:02x?}");
            both(&bytes);
            // Flips each single bit of the header.
            for bit in 0..header * 8 {
                let mut changed = bytes.clone();
                changed[bit / 8] ^= 0x80 >> (bit % 8);
                both(&changed);
            }
            (0..bytes.len()).for_each(|len| both(&bytes[..len]));
        }
    }

    proptest! {
        #[test]
        fn plain_parser_agrees_with_general_parser(
            first in prop::sample::select(vec![0x00u8, 0x20, 0x40, 0x60, 0x0a, 0x4a]),
            rest in proptest::collection::vec(any::<u8>(), 15),
            length in 0u8..6, extra in 0usize..3,
        ) {
            let mut bytes = vec![first];
            bytes.extend(rest);
            // A short length makes complete TLPs frequent.
            bytes[1] &= 0xfc;
            bytes[2] &= 0x7c;
            bytes[3] = length;
            let data = if first & 0x40 == 0 { 0 } else { usize::from(length) * 4 };
            bytes.resize((if first & 0x20 == 0 { 12 } else { 16 }) + data, 0x55);
            both(&bytes);
            bytes.resize(bytes.len() + extra, 0);
            both(&bytes);
        }
    }
}
