// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLPs of the bridge itself: completions of requests that end here, and messages. Its caller decides which.

use tlp::message::{SET_SLOT_POWER_LIMIT, plain};
use tlp::{
    Bdf, Body, CompletedRequest, Data, MemoryOp, MemoryRequest, MessageRouting, PayloadPool, Repr, Span,
    Status, Tag, Tlp,
};

/// The completion of `request` without data; `None` if no completion answers it.
pub(crate) fn completion(request: &Tlp, completer: Bdf, status: Status) -> Option<Tlp> {
    let repr = CompletedRequest::of(&request.repr)?.without_data(completer, status);
    Some(Tlp { account: request.account, ..Tlp::new(repr, Data::NONE) })
}

/// The completion with one DW that answers a configuration read.
pub(crate) fn completion_with_dw(
    request: &Tlp,
    completer: Bdf,
    value: u32,
    pool: &PayloadPool,
) -> Option<Tlp> {
    let mut tlp = completion(request, completer, Status::Success)?;
    if let Body::Completion(c) = &mut tlp.repr.body {
        c.length_dw = Some(1);
    }
    tlp.data = Data::Carried(pool.copy(&value.to_le_bytes()));
    Some(tlp)
}

/// Set_Slot_Power_Limit: value in bits 7:0 and scale in bits 9:8 of its DW (`PCIe 5.0 §2.2.8.5`).
pub(crate) fn slot_power_limit(requester: Bdf, value: u8, scale: u8, pool: &PayloadPool) -> Tlp {
    let mut tlp = plain(requester, MessageRouting::Local, SET_SLOT_POWER_LIMIT);
    if let Body::Message(m) = &mut tlp.repr.body {
        m.length_dw = Some(1);
    }
    tlp.data = Data::Carried(pool.copy(&[value, scale, 0, 0]));
    tlp
}

/// The write of a DW to `address` that is an MSI (`PCIe 5.0 §6.1.4`); `None` if no MSI may have this address.
pub(crate) fn msi(requester: Bdf, address: u64, data: u16, pool: &PayloadPool) -> Option<Tlp> {
    let span = Span::covering(address, 4).ok()?;
    let body = MemoryRequest { op: MemoryOp::Write, requester, tag: Tag::default(), span };
    let data = Data::Carried(pool.copy(&u32::from(data).to_le_bytes()));
    Some(Tlp::new(Repr::new(Body::Memory(body)), data))
}
