// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the DWs after the first one of a header as a [`Body`], depending on its family, and writes all DWs of a
//! header.

use super::{Field, Header, dw, field};
use crate::format::{Family, FormatId};
use crate::rules::{RuleId, Violation};
use crate::{
    Access, AtomicOp, AtomicRequest, Bdf, Body, Completion, ConfigKind, ConfigRequest, Hint, IoRequest,
    MemoryOp, MemoryRequest, Message, MessageRouting, ProcessingHint, Repr, Span, SpanError, Status, Tag,
};

/// Reads the fields of a header that obeys the rules.
pub(super) fn read(header: &Header<'_>) -> Result<Body, Violation> {
    let format = header.format();
    let (requester, tag) = (Bdf::from_bits(header.get(field::REQUESTER) as u16), header.tag(field::TAG));
    let op = if format.has_data { Access::Write } else { Access::Read };
    let (address, first_be) = (header.address(), header.get(field::FIRST_BE) as u8);
    let length_dw = format.has_data.then_some(header.length_dw() as u16);
    Ok(match format.family {
        Family::Memory => {
            let op = memory_op(format.id);
            let tag = if header.th() && op.is_posted() { Tag::default() } else { tag };
            Body::Memory(MemoryRequest { op, requester, tag, span: span(header)? })
        }
        Family::Atomic => {
            let (op, length_dw) = (atomic_op(format.id), header.length_dw());
            let wrong = Violation::new(RuleId::AtomicLength, length_dw.into());
            let operand = op.operand_of_length(length_dw).ok_or(wrong)?;
            Body::Atomic(AtomicRequest { op, operand, requester, tag, address })
        }
        Family::Io => Body::Io(IoRequest { op, requester, tag, address: address as u32, first_be }),
        Family::Config => Body::Config(ConfigRequest {
            op,
            kind: if header.get(field::TYPE_0) == 0 { ConfigKind::Type0 } else { ConfigKind::Type1 },
            requester,
            tag,
            completer: Bdf::from_bits(header.get(field::CONFIG_COMPLETER) as u16),
            register_dw: header.get(field::REGISTER_DW) as u16,
            first_be,
        }),
        Family::Message => Body::Message(Message {
            routing: MessageRouting::from_bits(header.get(field::ROUTING) as u8),
            requester,
            tag,
            code: header.get(field::BYTE_ENABLES) as u8,
            header: header.message_header(),
            length_dw,
        }),
        Family::Completion => {
            Body::Completion(completion(core::array::from_fn(|n| dw(header.bytes(), n)), format.has_data))
        }
    })
}

/// Reads the fields of a completion.
pub(super) fn completion(dws: [u32; 3], has_data: bool) -> Completion {
    let get = |field: Field| field.of(dws[field.dw]);
    Completion {
        locked: get(field::TYPE_0) != 0,
        completer: Bdf::from_bits(get(field::COMPLETER) as u16),
        requester: Bdf::from_bits(get(field::ANSWERED_REQUESTER) as u16),
        tag: tag(dws[0], get(field::ANSWERED_TAG)),
        status: Status::from_bits(get(field::STATUS) as u8),
        bcm: get(field::BCM) != 0,
        byte_count: if get(field::BYTE_COUNT) == 0 { 4096 } else { get(field::BYTE_COUNT) as u16 },
        lower_address: get(field::LOWER_ADDRESS) as u8,
        length_dw: has_data.then_some(length_dw(dws[0]) as u16),
    }
}

/// The tag. Bits 9:8 are in the first DW of every header. `low` are bits 7:0, whose position differs in completions.
pub(super) fn tag(dw0: u32, low: u32) -> Tag {
    Tag::from_bits((field::T9.of(dw0) << 9 | field::T8.of(dw0) << 8 | low) as u16)
}

/// Length in DW, 1 to 1024.
pub(super) fn length_dw(dw0: u32) -> u32 {
    match field::LENGTH.of(dw0) {
        0 => 1024,
        dw => dw,
    }
}

const fn memory_op(id: FormatId) -> MemoryOp {
    match id {
        FormatId::MWr32 | FormatId::MWr64 => MemoryOp::Write,
        FormatId::DMWr32 | FormatId::DMWr64 => MemoryOp::WriteDeferrable,
        FormatId::MRdLk32 | FormatId::MRdLk64 => MemoryOp::ReadLocked,
        _ => MemoryOp::Read,
    }
}

/// The operation of an AtomicOp format.
pub(crate) const fn atomic_op(id: FormatId) -> AtomicOp {
    match id {
        FormatId::FetchAdd32 | FormatId::FetchAdd64 => AtomicOp::FetchAdd,
        FormatId::Swap32 | FormatId::Swap64 => AtomicOp::Swap,
        _ => AtomicOp::CompareSwap,
    }
}

/// The bytes that a memory request accesses. In a non-posted request with TH, all bytes count as enabled (`PCIe 5.0
/// §2.2.7.1`): 1111b in each DW, and 0000b for the last DW if Length is 1.
pub(super) fn span(header: &Header<'_>) -> Result<Span, SpanError> {
    let (first_be, last_be) = byte_enables(header);
    Span::from_fields(header.address(), header.length_dw(), first_be, last_be)
}

/// First and Last DW BE of a memory request. In a non-posted request with TH, all bytes count as enabled.
pub(super) fn byte_enables(header: &Header<'_>) -> (u8, u8) {
    match header.th() && !memory_op(header.format().id).is_posted() {
        true => (0xf, if header.length_dw() == 1 { 0 } else { 0xf }),
        false => (header.get(field::FIRST_BE) as u8, header.get(field::LAST_BE) as u8),
    }
}

/// The processing hint of a memory request or AtomicOp; `None` if TH is clear, and for other TLPs.
pub(super) fn hint(header: &Header<'_>) -> Option<Hint> {
    let format = header.format();
    let may_have = matches!(format.family, Family::Memory | Family::Atomic);
    (may_have && header.th()).then(|| {
        let st = if memory_op(format.id).is_posted() { field::TAG } else { field::BYTE_ENABLES };
        let ph = header.get(Field::new(format.header_dw as usize - 1, 1, 0));
        Hint { ph: ProcessingHint::from_bits(ph as u8), st: header.get(st) as u8 }
    })
}

/// The header as DWs. The last DW is used only if the format has four.
pub(super) fn emit(repr: &Repr) -> [u32; 4] {
    let hint = repr.th;
    match &repr.body {
        Body::Memory(m) => {
            let mut tag = m.tag;
            let mut byte_enables = m.span.last_be() << 4 | m.span.first_be();
            match hint {
                Some(hint) if m.op.is_posted() => tag = Tag::from_bits(u16::from(hint.st)),
                Some(hint) => byte_enables = hint.st,
                None => {}
            }
            let dw0 = first_dw(repr, 0, tag, m.span.length_dw());
            with_address(hint, dw0, request(m.requester, tag, byte_enables), m.span.address())
        }
        Body::Atomic(a) => {
            let steering = hint.map_or(0, |hint| hint.st);
            let dw0 = first_dw(repr, 0, a.tag, a.length_dw());
            with_address(hint, dw0, request(a.requester, a.tag, steering), a.address)
        }
        Body::Io(io) => {
            let dw1 = request(io.requester, io.tag, io.first_be & 0xf);
            [first_dw(repr, 0, io.tag, 1), dw1, io.address & !3, 0]
        }
        Body::Config(c) => {
            let dw1 = request(c.requester, c.tag, c.first_be & 0xf);
            let completer = field::CONFIG_COMPLETER.place(c.completer.bits().into());
            let dw2 = completer | field::REGISTER_DW.place(c.register_dw.into());
            [first_dw(repr, 0, c.tag, 1), dw1, dw2, 0]
        }
        Body::Message(m) => {
            let dw0 = first_dw(repr, m.routing.bits(), m.tag, repr.data_dw());
            [dw0, request(m.requester, m.tag, m.code), dw(&m.header, 0), dw(&m.header, 1)]
        }
        Body::Completion(c) => {
            let dw1 = field::COMPLETER.place(c.completer.bits().into())
                | field::STATUS.place(c.status.bits().into())
                | field::BCM.place(c.bcm.into())
                | field::BYTE_COUNT.place(c.byte_count.into());
            let dw2 = field::ANSWERED_REQUESTER.place(c.requester.bits().into())
                | field::ANSWERED_TAG.place(c.tag.bits().into())
                | field::LOWER_ADDRESS.place(c.lower_address.into());
            [first_dw(repr, 0, c.tag, repr.data_dw()), dw1, dw2, 0]
        }
    }
}

/// The first DW of a header with these fields. A `length_dw` of 1024 becomes Length 0.
fn first_dw(repr: &Repr, type_low: u8, tag: Tag, length_dw: u32) -> u32 {
    let format = repr.format();
    let (tag, attr) = (u32::from(tag.bits()), u32::from(repr.attr.bits()));
    field::FMT.place(u32::from(format.fmt))
        | field::TYPE.place(u32::from(format.type_bits | type_low))
        | field::T9.place(tag >> 9)
        | field::TC.place(u32::from(repr.tc.bits()))
        | field::T8.place(tag >> 8)
        | field::ATTR_2.place(attr >> 2)
        | field::LN.place(u32::from(repr.ln))
        | field::TH.place(u32::from(repr.th.is_some()))
        | field::TD.place(u32::from(repr.td))
        | field::EP.place(u32::from(repr.ep))
        | field::ATTR_1_0.place(attr)
        | field::AT.place(u32::from(repr.at.bits()))
        | field::LENGTH.place(length_dw)
}

/// DW 1 of a request. `low` is its lowest byte: Byte Enables, ST or Message Code.
fn request(requester: Bdf, tag: Tag, low: u8) -> u32 {
    field::REQUESTER.place(requester.bits().into())
        | field::TAG.place(tag.bits().into())
        | field::BYTE_ENABLES.place(low.into())
}

/// The DWs of a request with an address, three or four as its format has. PH is in the low bits of the address.
fn with_address(hint: Option<Hint>, dw0: u32, dw1: u32, address: u64) -> [u32; 4] {
    let low = address as u32 & !3 | hint.map_or(0, |hint| u32::from(hint.ph.bits()));
    match super::header_dw(dw0) {
        3 => [dw0, dw1, low, 0],
        _ => [dw0, dw1, (address >> 32) as u32, low],
    }
}
