// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLPs of the rigs: requests with tag 7, without payload bytes.

use tlp::{
    AtomicOp, AtomicRequest, Bdf, Body, Data, MemoryOp, MemoryRequest, Message, MessageRouting, OperandSize,
    Repr, Span, Status, Tag, Tlp,
};

const TAG: Tag = Tag::from_bits(7);

pub(crate) fn bdf(bus: u8, device: u8, function: u8) -> Bdf {
    Bdf::new(bus, device, function).unwrap()
}

fn memory(op: MemoryOp, requester: Bdf, address: u64, len: u32) -> Tlp {
    let span = Span::covering(address, len).unwrap();
    let data = if op.is_read() { Data::NONE } else { Data::Counted(len) };
    Tlp::new(Repr::new(Body::Memory(MemoryRequest { op, requester, tag: TAG, span })), data)
}

pub(crate) fn mwr(requester: Bdf, address: u64, len: u32) -> Tlp {
    memory(MemoryOp::Write, requester, address, len)
}

pub(crate) fn mrd(requester: Bdf, address: u64, len: u32) -> Tlp {
    memory(MemoryOp::Read, requester, address, len)
}

pub(crate) fn fetch_add(requester: Bdf, address: u64) -> Tlp {
    let (op, operand) = (AtomicOp::FetchAdd, OperandSize::Bits32);
    Tlp::new(
        Repr::new(Body::Atomic(AtomicRequest { op, operand, requester, tag: TAG, address })),
        Data::Counted(4),
    )
}

pub(crate) fn message(routing: MessageRouting, requester: Bdf, code: u8) -> Tlp {
    Tlp::new(Repr::new(Body::Message(Message::new(routing, requester, code))), Data::NONE)
}

pub(crate) fn poisoned(mut tlp: Tlp) -> Tlp {
    tlp.repr.ep = true;
    tlp
}

pub(crate) fn status_name(status: Status) -> &'static str {
    match status {
        Status::Success => "SC",
        Status::UnsupportedRequest => "UR",
        Status::ConfigRetry => "CRS",
        Status::CompleterAbort => "CA",
    }
}
