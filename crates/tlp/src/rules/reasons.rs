// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds the violations that several components report when they refuse a TLP. The components do the checks.

use super::{RuleId, Violation};
use crate::completion::transaction_value;
use crate::{Body, MessageRouting, PrefixKind, Prefixes, Repr, Status, Tlp};

/// The address is not in any BAR, bridge window or memory.
#[cold]
#[must_use]
pub fn unclaimed(address: u64) -> Violation {
    Violation::new(RuleId::UnclaimedAddress, address)
}

/// No function has the TLP's address or ID, or no function accepts messages with its code.
#[cold]
#[must_use]
pub fn unrouted(repr: &Repr) -> Violation {
    match &repr.body {
        Body::Memory(m) => unclaimed(m.span.first_byte()),
        Body::Atomic(a) => unclaimed(a.address),
        Body::Io(io) => unclaimed(io.address.into()),
        Body::Config(c) => Violation::new(RuleId::UnclaimedId, c.completer.bits().into()),
        Body::Completion(_) => of_transaction(RuleId::UnexpectedCompletion, repr),
        Body::Message(m) => match m.routing {
            MessageRouting::ByAddress => unclaimed(u64::from_be_bytes(m.header) & !3),
            MessageRouting::ById => {
                Violation::new(RuleId::UnclaimedId, u16::from_be_bytes([m.header[0], m.header[1]]).into())
            }
            _ => Violation::new(RuleId::MessageSupported, m.code.into()),
        },
    }
}

/// A violation of `rule` whose value is the Requester ID and tag of a completion.
#[cold]
#[must_use]
pub fn of_transaction(rule: RuleId, completion: &Repr) -> Violation {
    let value = if let Body::Completion(c) = &completion.body { transaction_value(c) } else { 0 };
    Violation::new(rule, value)
}

/// The function does not support the type of a request.
#[cold]
#[must_use]
pub fn request_type(repr: &Repr) -> Violation {
    let mut header = [0; 16];
    repr.emit(&mut header);
    Violation::new(RuleId::RequestType, header[0].into())
}

/// The data of a TLP does not have the length that its header gives.
#[cold]
#[must_use]
pub fn wrong_length(tlp: &Tlp) -> Violation {
    let expected = tlp.wire_len();
    let without_data = expected - tlp.repr.data_dw() as usize * 4;
    Violation::expecting(RuleId::Length, (without_data + tlp.data.len()) as u64, expected as u64)
}

/// The data of a TLP is longer than `mps`, the Max_Payload_Size of its receiver in bytes.
#[cold]
#[must_use]
pub fn beyond_mps(tlp: &Tlp, mps: u32) -> Violation {
    Violation::expecting(RuleId::MaxPayloadSize, u64::from(tlp.repr.data_dw()) * 4, mps.into())
}

/// A frame was lost in a buffer of its receiver.
#[cold]
#[must_use]
pub fn lost_in_buffer() -> Violation {
    Violation::expecting(RuleId::BufferError, 1, 0)
}

/// The function does not support the prefixes of a TLP: one is reserved, or there are too many.
#[cold]
#[must_use]
pub fn unsupported_prefixes(prefixes: &Prefixes) -> Violation {
    let reserved = prefixes
        .as_slice()
        .iter()
        .find(|prefix| prefix.is_end_to_end() && prefix.kind() == PrefixKind::Reserved);
    match reserved {
        Some(prefix) => Violation::new(RuleId::ReservedEndToEnd, prefix.0.into()),
        None => Violation::new(RuleId::EndToEndSupported, prefixes.end_to_end() as u64),
    }
}

/// EP is set in a TLP.
#[cold]
#[must_use]
pub fn poisoned() -> Violation {
    Violation::new(RuleId::Poisoned, 1)
}

/// A request was completed with UR.
#[cold]
#[must_use]
pub fn unsupported() -> Violation {
    Violation::new(RuleId::UnsupportedRequest, Status::UnsupportedRequest.bits().into())
}

/// A request was completed with CA.
#[cold]
#[must_use]
pub fn aborted() -> Violation {
    Violation::new(RuleId::CompleterAbort, Status::CompleterAbort.bits().into())
}
