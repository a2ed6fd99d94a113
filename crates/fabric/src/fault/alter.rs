// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Content that a fault changes in a frame before its CRC is computed, like a defect in the sender or in a switch on
//! the path. The change does not depend on the sender and receiver of the frame.

use tlp::{Bdf, Body, Data, Dllp, Flaw, FlowControlKind, PayloadPool, Status, Tag, Tlp};

/// A change of content. A frame without the field, such as Completion Status in a request, stays as it is. The digest
/// of a TLP becomes wrong, except when data is poisoned, because the digest does not cover that bit (`PCIe 5.0
/// §2.7.1`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Alteration {
    /// EP is set in a TLP with data (`PCIe 5.0 §2.7.2`).
    Poison,
    /// The digest of a TLP that has one is wrong (`PCIe 5.0 §2.7.1`).
    WrongEcrc,
    /// Completion Status of a completion.
    Status(Status),
    /// Tag of a request or completion; the tag of a message has no meaning.
    Tag(Tag),
    /// Requester ID of a request or completion.
    Requester(Bdf),
    /// Byte Count of a completion, 1 to 4096.
    ByteCount(u16),
    /// Length of the header in DW, 1 to 1024; the data keeps its real length.
    Length(u16),
    /// These bits of a DW of the header change; DW 0 has Fmt in bits 31:29 and Type in 28:24.
    HeaderBits {
        /// Index of the DW, 0 to 3.
        dw: u8,
        /// The bits to flip.
        bits: u32,
    },
    /// AckNak_Seq_Num of an Ack or Nak increases by this much, modulo 4096.
    Sequence(u16),
    /// HdrFC and DataFC of an UpdateFC increase by this much, modulo their fields, in the DLLP's units.
    Credits {
        /// Header credits to add.
        header: i16,
        /// Data credits to add.
        data: i16,
    },
}

/// Bits of the fields of flow-control DLLPs (`PCIe 5.0 §3.5.1`).
const HEADER_FC: u16 = 0xff;
const DATA_FC: u16 = 0xfff;
const SEQUENCE: u16 = 0xfff;
/// Length\[9:0\] in DW 0 of a header.
const LENGTH: u32 = 0x3ff;

impl Alteration {
    /// Returns the altered `dllp`; `None` if it stays unchanged.
    pub(super) fn dllp(self, dllp: Dllp) -> Option<Dllp> {
        match (self, dllp) {
            (Alteration::Sequence(by), Dllp::Ack { sequence }) => {
                Some(Dllp::Ack { sequence: sequence.wrapping_add(by) & SEQUENCE })
            }
            (Alteration::Sequence(by), Dllp::Nak { sequence }) => {
                Some(Dllp::Nak { sequence: sequence.wrapping_add(by) & SEQUENCE })
            }
            (Alteration::Credits { header, data }, Dllp::FlowControl(mut fc))
                if fc.kind == FlowControlKind::UpdateFc =>
            {
                fc.header = (u16::from(fc.header).wrapping_add_signed(header) & HEADER_FC) as u8;
                fc.data = fc.data.wrapping_add_signed(data) & DATA_FC;
                Some(Dllp::FlowControl(fc))
            }
            _ => None,
        }
    }

    /// Returns the altered `tlp`, or the header of bytes that no longer form a TLP; `None` if it stays unchanged.
    pub(super) fn tlp(self, tlp: &Tlp) -> Option<Result<Tlp, [u32; 4]>> {
        match self {
            Alteration::Length(dw) => {
                let old = header(tlp)[0];
                let new = old & !LENGTH | u32::from(dw) & LENGTH;
                (new != old).then(|| flip(tlp, 0, old ^ new))
            }
            Alteration::HeaderBits { dw, bits } => {
                let in_header = usize::from(dw) * 4 < tlp.repr.header_len() && bits != 0;
                in_header.then(|| flip(tlp, usize::from(dw), bits))
            }
            _ => {
                let mut altered = tlp.clone();
                self.set(&mut altered)?;
                keep_lanes(&mut altered, tlp);
                if self != Alteration::Poison && !altered.is_malformed() {
                    altered.flaw = Flaw::WrongEcrc;
                }
                Some(Ok(altered))
            }
        }
    }

    /// Sets a field if `tlp` has it.
    fn set(self, tlp: &mut Tlp) -> Option<()> {
        let has_data = tlp.repr.data_dw() != 0;
        match (self, &mut tlp.repr.body) {
            (Alteration::Poison, _) if has_data => tlp.repr.ep = true,
            (Alteration::WrongEcrc, _) if tlp.repr.td => {}
            (Alteration::Status(status), Body::Completion(c)) => c.status = status,
            (Alteration::ByteCount(bytes), Body::Completion(c)) => c.byte_count = bytes.clamp(1, 4096),
            (Alteration::Tag(tag), body) => *tag_of(body)? = tag,
            (Alteration::Requester(id), body) => *requester_of(body) = id,
            _ => return None,
        }
        Some(())
    }
}

fn tag_of(body: &mut Body) -> Option<&mut Tag> {
    match body {
        Body::Memory(m) => Some(&mut m.tag),
        Body::Io(io) => Some(&mut io.tag),
        Body::Atomic(a) => Some(&mut a.tag),
        Body::Completion(c) => Some(&mut c.tag),
        Body::Config(c) => Some(&mut c.tag),
        Body::Message(_) => None,
    }
}

fn requester_of(body: &mut Body) -> &mut Bdf {
    match body {
        Body::Memory(m) => &mut m.requester,
        Body::Io(io) => &mut io.requester,
        Body::Atomic(a) => &mut a.requester,
        Body::Completion(c) => &mut c.requester,
        Body::Config(c) => &mut c.requester,
        Body::Message(m) => &mut m.requester,
    }
}

fn header(tlp: &Tlp) -> [u32; 4] {
    link::header_log(tlp)
}

/// Flips bits of one DW of the header of `tlp`, and parses the bytes again.
fn flip(tlp: &Tlp, dw: usize, bits: u32) -> Result<Tlp, [u32; 4]> {
    let mut bytes = vec![0; tlp.wire_len()];
    tlp.emit(&mut bytes);
    let start = tlp.prefixes.wire_len() + dw * 4;
    for (byte, bits) in bytes[start..start + 4].iter_mut().zip(bits.to_be_bytes()) {
        *byte ^= bits;
    }
    let Ok(read) = Tlp::parse(&bytes, &PayloadPool::new()) else {
        let mut header = header(tlp);
        header[dw] ^= bits;
        return Err(header);
    };
    let data = match &tlp.data {
        Data::Counted(_) => Data::Counted(read.data.len() as u32),
        Data::Carried(_) => read.data,
    };
    let mut altered = Tlp { data, carry: tlp.carry, account: tlp.account, flaw: Flaw::WrongEcrc, ..read };
    keep_lanes(&mut altered, tlp);
    Ok(altered)
}

/// Gives a completion the whole DWs of `sent`, if its new Byte Count or Lower Address counts other bytes of them.
fn keep_lanes(altered: &mut Tlp, sent: &Tlp) {
    let len = sent.repr.data_dw() as usize * 4;
    let is_same =
        altered.repr.data_lanes() == sent.repr.data_lanes() || altered.repr.data_dw() * 4 != len as u32;
    if is_same || sent.is_malformed() || !matches!(altered.repr.body, Body::Completion(_)) {
        return;
    }
    altered.data = match &sent.data {
        Data::Counted(_) => Data::Counted(len as u32),
        Data::Carried(_) => {
            let mut bytes = vec![0; sent.wire_len()];
            sent.emit(&mut bytes);
            let start = sent.prefixes.wire_len() + sent.repr.header_len();
            Data::Carried(PayloadPool::new().copy(&bytes[start..start + len]))
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use tlp::{Completion, Repr};

    fn completion(lower_address: u8, byte_count: u16, length_dw: u16, data: &[u8]) -> Tlp {
        let body = Body::Completion(Completion {
            locked: false,
            completer: Bdf::default(),
            requester: Bdf::from_bits(0x100),
            tag: Tag::default(),
            status: Status::Success,
            bcm: false,
            byte_count,
            lower_address,
            length_dw: Some(length_dw),
        });
        Tlp::new(Repr::new(body), Data::Carried(PayloadPool::new().copy(data)))
    }

    fn bytes(tlp: &Tlp) -> Vec<u8> {
        let mut bytes = vec![0; tlp.wire_len()];
        tlp.emit(&mut bytes);
        bytes
    }

    /// Byte Count is bits 11:0 of DW 1, and Lower Address bits 6:0 of DW 2.
    #[test]
    fn altered_completion_differs_in_its_field_only() {
        let rows = [
            (completion(0, 8, 2, &[1, 2, 3, 4, 5, 6, 7, 8]), Alteration::ByteCount(3)),
            (completion(1, 5, 2, &[1, 2, 3, 4, 5]), Alteration::ByteCount(2)),
            (completion(1, 5, 2, &[1, 2, 3, 4, 5]), Alteration::ByteCount(300)),
            (completion(1, 2, 1, &[1, 2]), Alteration::HeaderBits { dw: 1, bits: 1 }),
            (completion(1, 2, 1, &[1, 2]), Alteration::HeaderBits { dw: 2, bits: 3 }),
        ];
        for (sent, alteration) in rows {
            let Some(Ok(altered)) = alteration.tlp(&sent) else { panic!("{alteration:?}") };
            assert!(altered.is_whole(), "{alteration:?}: {altered}");
            let (before, after) = (bytes(&sent), bytes(&altered));
            let differ: Vec<usize> = (0..before.len()).filter(|&n| before[n] != after[n]).collect();
            assert!(!differ.is_empty() && differ.iter().all(|n| [6, 7, 11].contains(n)), "{differ:?}");
            let counted = Tlp { data: Data::Counted(sent.data.len() as u32), ..sent };
            let Some(Ok(altered)) = alteration.tlp(&counted) else { panic!("{alteration:?}") };
            assert!(altered.is_whole() && altered.data.bytes().is_none(), "{altered}");
        }
    }
}
