// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Malformed TLPs, which a sender without checks puts on a link. Framing, credits and order depend only on Fmt, Type,
//! Length, Traffic Class and TD (`PCIe 5.0 §2.2.1`, §2.6.1). This module does not determine which rule the bytes break.

use crate::{
    Bdf, Body, Class, Completion, Data, Flaw, MemoryOp, MemoryRequest, Message, MessageRouting, PayloadPool,
    Repr, Span, Status, Tag, Tlp, TrafficClass,
};

/// Addresses in substitute headers of three and four DWs. No transfer that starts there crosses 4 KiB.
const PLACES: [u64; 2] = [0, 1 << 32];

impl Tlp {
    /// A malformed TLP with these bytes, which are whole DWs without prefixes. `None` if the bytes begin with a
    /// prefix, or do not have the length that Fmt, Length and TD give.
    pub fn of_malformed(bytes: &[u8], pool: &PayloadPool) -> Option<Tlp> {
        let repr = stand_in(bytes)?;
        let is_whole = repr.tlp_len() == bytes.len();
        is_whole.then(|| Tlp { flaw: Flaw::Malformed, ..Tlp::new(repr, Data::Carried(pool.copy(bytes))) })
    }

    /// Sets the ID and tag of a malformed TLP, also in its bytes. The ID is the Requester ID, or the Completer ID of a
    /// completion, whose tag stays.
    pub fn sign_malformed(&mut self, id: Bdf, tag: Tag, pool: &PayloadPool) {
        let Some(bytes) = self.data.bytes() else { return };
        let is_completion = self.class() == Class::Completion;
        let signed = pool.fill(bytes.len(), |to| {
            to.copy_from_slice(bytes);
            to[4..6].copy_from_slice(&id.bits().to_be_bytes());
            if !is_completion {
                to[6] = tag.bits() as u8;
            }
        });
        match &mut self.repr.body {
            Body::Completion(completion) => completion.completer = id,
            _ => self.repr.set_transaction(id, tag),
        }
        self.data = Data::Carried(signed);
    }
}

/// A legal header with the class, lengths, Traffic Class, Requester ID and tag of these bytes.
fn stand_in(bytes: &[u8]) -> Option<Repr> {
    let first = bytes.first_chunk::<12>()?;
    let (fmt, kind) = (first[0] >> 5, first[0] & 0x1f);
    if fmt & 0b100 != 0 {
        return None;
    }
    let (has_data, is_long) = (fmt & 0b10 != 0, fmt & 1 != 0);
    let length = (u32::from(first[2]) & 3) << 8 | u32::from(first[3]);
    let length = if length == 0 { 1024 } else { length };
    let id = |at: usize| Bdf::from_bits(u16::from_be_bytes([first[at], first[at + 1]]));
    let length_dw = has_data.then_some(length as u16);
    let body = match kind {
        0b0_1010 | 0b0_1011 if !is_long => Body::Completion(Completion {
            locked: kind & 1 != 0,
            completer: id(4),
            requester: id(8),
            tag: Tag::from_bits(first[10].into()),
            status: Status::from_bits(first[6] >> 5),
            bcm: false,
            byte_count: 4,
            lower_address: 0,
            length_dw,
        }),
        0b1_0000..=0b1_0111 if is_long => Body::Message(Message {
            routing: MessageRouting::from_bits(kind & 7),
            requester: id(4),
            tag: Tag::from_bits(first[6].into()),
            code: first[7],
            header: [0; 8],
            length_dw,
        }),
        _ => {
            let is_known = kind != 0 && crate::Format::of_first_byte(first[0]).is_some();
            let op = match has_data {
                false => MemoryOp::Read,
                true if is_known => MemoryOp::WriteDeferrable,
                true => MemoryOp::Write,
            };
            let (address, dw) =
                if has_data { (PLACES[usize::from(is_long)], length) } else { place(bytes, is_long)? };
            let span = Span::from_fields(address, dw, 0xf, if dw > 1 { 0xf } else { 0 }).ok()?;
            let (requester, tag) = (id(4), Tag::from_bits(first[6].into()));
            Body::Memory(MemoryRequest { op, requester, tag, span })
        }
    };
    Some(Repr { tc: TrafficClass::from_bits(first[1] >> 4), td: first[2] >> 7 == 1, ..Repr::new(body) })
}

/// Address and length in DW of a legal read with a header of the same length: one DW at the address in the bytes.
fn place(bytes: &[u8], is_long: bool) -> Option<(u64, u32)> {
    let dw = |at: usize| {
        bytes.get(at..at + 4).map(|dw| u64::from_be_bytes([0, 0, 0, 0, dw[0], dw[1], dw[2], dw[3]]))
    };
    let address = if is_long { dw(8)? << 32 | dw(12)? } else { dw(8)? } & !3;
    Some((if is_long { address.max(PLACES[1]) } else { address }, 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    fn bytes(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    /// The TLP has the class, credits and length of its bytes, and emits them unchanged.
    #[test]
    fn malformed_tlp_emits_its_bytes() {
        let rows: [(&[u32], Class, u32); 7] = [
            // MWr of 2 DW across 4 KiB; MRd64 of 8 DW across 4 KiB; MWr of 2 DW with Last DW BE zero.
            (&[0x4000_0002, 0x0100_07ff, 0x0000_0ffc, 1, 2], Class::Posted, 1),
            (&[0x2000_0008, 0x0100_07ff, 1, 0x0000_0ff8], Class::NonPosted, 0),
            (&[0x4000_0002, 0x0100_070f, 0x0000_0f00, 1, 2], Class::Posted, 1),
            // IOWr of 2 DW; CplD with a digest; Msg with a reserved routing; an undefined type.
            (&[0x4200_0002, 0x0100_07ff, 0x0000_0100, 1, 2], Class::NonPosted, 1),
            (&[0x4a00_8001, 0x0100_0004, 0x0000_0700, 1, 9], Class::Completion, 1),
            (&[0x3700_0000, 0x0100_0014, 0, 0], Class::Posted, 0),
            (&[0x5f00_0001, 0x0100_0014, 0, 7], Class::Posted, 1),
        ];
        let pool = PayloadPool::new();
        for (words, class, credits) in rows {
            let bytes = bytes(words);
            let tlp = Tlp::of_malformed(&bytes, &pool).unwrap_or_else(|| panic!("{words:x?}"));
            assert_eq!((tlp.class(), tlp.data_credits(), tlp.wire_len()), (class, credits, bytes.len()));
            let mut out = vec![0; tlp.wire_len()];
            assert_eq!(tlp.emit(&mut out), bytes.len());
            assert_eq!(out, bytes, "{words:x?}");
        }
        for words in
            [&[0x4000_0002, 0, 0, 1][..], &[0x4000_0001, 0], &[0x8000_0000, 0, 0, 0], &[0x2000_0001, 0, 0]]
        {
            assert_eq!(Tlp::of_malformed(&bytes(words), &pool), None, "{words:x?}");
        }
    }

    #[test]
    fn sign_malformed_sets_id_and_tag_in_bytes() {
        let pool = PayloadPool::new();
        let mut tlp = Tlp::of_malformed(&bytes(&[0x2000_0008, 0xffff_07ff, 1, 0xff8]), &pool).unwrap();
        let (id, tag) = (Bdf::from_bits(0x1234), Tag::from_bits(9));
        tlp.sign_malformed(id, tag, &pool);
        assert_eq!(tlp.repr.transaction(), (id, tag));
        assert_eq!(tlp.data.bytes().unwrap()[..8], [0x20, 0, 0, 8, 0x12, 0x34, 9, 0xff]);
    }
}
