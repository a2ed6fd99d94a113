// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The checks of the table of rules: each examines one thing, and returns what it found where the rule is broken.
//! None decides in which order they are made, or what follows.

use super::{Limits, RuleId, message_type};
use crate::format::FormatId;
use crate::wire::{FamilyHeader, Header, field, may_have_ln};
use crate::{AddressType, Prefix, PrefixKind, Prefixes, Repr, SpanError};

// The longest DMWr: 128 bytes (ECN "Deferrable Memory Write", DMWr Lengths Supported).
const MAX_DEFERRABLE_DW: u32 = 32;

pub(super) fn reserved_fmt(first_byte: u8) -> Option<u64> {
    let fmt = first_byte >> 5;
    (fmt > 0b100).then_some(u64::from(fmt))
}

// One DW too many without TD breaks the rule of the digest; any other excess breaks this one.
pub(super) fn excess(header: &Header<'_>, len: usize) -> Option<u64> {
    let one_dw_without_td = !header.td() && len == header.tlp_len() + 4;
    (len > header.tlp_len() && !one_dw_without_td).then_some(len as u64)
}

pub(super) fn digest_without_td(header: &Header<'_>, len: usize) -> Option<u64> {
    (!header.td() && len == header.tlp_len() + 4).then_some(len as u64)
}

fn span_error(header: &Header<'_>) -> Option<SpanError> {
    match header.family() {
        FamilyHeader::Memory(m) => m.span().err(),
        _ => None,
    }
}

pub(super) fn byte_enables(header: &Header<'_>) -> Option<u64> {
    match span_error(header)? {
        SpanError::ByteEnables(first, last) => Some(u64::from(last) << 4 | u64::from(first)),
        _ => None,
    }
}

pub(super) fn crosses_4k(header: &Header<'_>) -> Option<u64> {
    match span_error(header)? {
        SpanError::Crosses4K(address) => Some(address),
        _ => None,
    }
}

const fn not_0(value: u64) -> Option<u64> {
    if value == 0 { None } else { Some(value) }
}

pub(super) fn tc_not_0(header: &Header<'_>) -> Option<u64> {
    not_0(u64::from(header.get(field::TC)))
}

pub(super) fn attr_not_0(header: &Header<'_>) -> Option<u64> {
    not_0(u64::from(header.get(field::ATTR_1_0)))
}

pub(super) fn at_not_0(header: &Header<'_>) -> Option<u64> {
    not_0(u64::from(header.get(field::AT)))
}

pub(super) fn length_not_1(header: &Header<'_>) -> Option<u64> {
    let length = header.length_dw();
    (length != 1).then_some(u64::from(length))
}

pub(super) fn last_be_not_0(header: &Header<'_>) -> Option<u64> {
    match header.family() {
        FamilyHeader::Config(c) => not_0(u64::from(c.last_be())),
        FamilyHeader::Io(io) => not_0(u64::from(io.last_be())),
        _ => None,
    }
}

pub(super) fn atomic_length(header: &Header<'_>) -> Option<u64> {
    match header.family() {
        FamilyHeader::Atomic(a) if a.op().operand_of_length(header.length_dw()).is_none() => {
            Some(header.length_dw().into())
        }
        _ => None,
    }
}

pub(super) fn atomic_address(header: &Header<'_>) -> Option<u64> {
    match header.family() {
        FamilyHeader::Atomic(a) => {
            let operand = a.op().operand_of_length(header.length_dw())?;
            Some(a.address()).filter(|address| !address.is_multiple_of(operand.bytes().into()))
        }
        _ => None,
    }
}

fn code(header: &Header<'_>) -> Option<u8> {
    match header.family() {
        FamilyHeader::Message(m) => Some(m.code()),
        _ => None,
    }
}

/// TC of a message whose row in the table of messages names `rule`.
pub(super) fn message_tc(header: &Header<'_>, rule: RuleId) -> Option<u64> {
    tc_not_0(header).filter(|_| message_type(header).is_some_and(|row| row.tc0 == Some(rule)))
}

const SET_SLOT_POWER_LIMIT: u8 = 0x50;

pub(super) fn slot_power_length(header: &Header<'_>) -> Option<u64> {
    let meant = code(header) == Some(SET_SLOT_POWER_LIMIT) && header.data_dw() != 1;
    meant.then_some(u64::from(header.data_dw()))
}

pub(super) fn beyond_mps(repr: &Repr, _: &Prefixes, limits: &Limits) -> Option<u64> {
    let bytes = repr.data_dw() * 4;
    (bytes > limits.mps.bytes()).then_some(u64::from(bytes))
}

pub(super) fn tc_not_mapped(repr: &Repr, _: &Prefixes, limits: &Limits) -> Option<u64> {
    (!limits.tc_mapped.contains(repr.tc)).then_some(u64::from(repr.tc.bits()))
}

pub(super) fn local_not_taken(_: &Repr, prefixes: &Prefixes, limits: &Limits) -> Option<u64> {
    (prefixes.local() > 0 && !limits.local_prefixes).then_some(prefixes.local() as u64)
}

pub(super) fn end_to_end_not_taken(_: &Repr, prefixes: &Prefixes, limits: &Limits) -> Option<u64> {
    let count = prefixes.end_to_end();
    (count > usize::from(limits.end_to_end_prefixes)).then_some(count as u64)
}

pub(super) fn prefix_order(header: &Header<'_>) -> Option<u64> {
    let behind = header.prefixes().skip_while(|prefix| !prefix.is_end_to_end());
    Some(u64::from(behind.into_iter().find(|prefix| !prefix.is_end_to_end())?.0))
}

fn is_reserved(prefix: &Prefix) -> bool {
    prefix.kind() == PrefixKind::Reserved
}

pub(super) fn local_prefix(header: &Header<'_>) -> Option<u64> {
    let found = header.prefixes().find(|prefix| !prefix.is_end_to_end() && is_reserved(prefix))?;
    Some(u64::from(found.0))
}

pub(super) fn end_to_end_count(header: &Header<'_>) -> Option<u64> {
    let count = header.prefixes().filter(|prefix| prefix.is_end_to_end()).count();
    (count > Prefixes::MAX_END_TO_END).then_some(count as u64)
}

pub(super) fn deferrable_length(header: &Header<'_>) -> Option<u64> {
    let is_one = matches!(header.format().id, FormatId::DMWr32 | FormatId::DMWr64);
    let length = header.length_dw();
    (is_one && length > MAX_DEFERRABLE_DW).then_some(u64::from(length))
}

// ---- rules for senders only ----

// The address of a memory request or AtomicOp; `None` in others.
fn address(header: &Header<'_>) -> Option<u64> {
    match header.family() {
        FamilyHeader::Memory(m) => Some(m.address()),
        FamilyHeader::Atomic(a) => Some(a.address()),
        _ => None,
    }
}

pub(super) fn long_for_low_address(header: &Header<'_>) -> Option<u64> {
    address(header).filter(|&at| header.bytes().len() == 16 && at <= u64::from(u32::MAX))
}

pub(super) fn reserved_at(header: &Header<'_>) -> Option<u64> {
    (address(header).is_some() && header.at() == AddressType::Reserved).then_some(0b11)
}

pub(super) fn translation_of_no_read(header: &Header<'_>) -> Option<u64> {
    let is_read = matches!(header.format().id, FormatId::MRd32 | FormatId::MRd64);
    let asks = address(header).is_some() && header.at() == AddressType::TranslationRequest;
    (asks && !is_read).then_some(0b01)
}

pub(super) fn locked_tc(header: &Header<'_>) -> Option<u64> {
    let is_locked = matches!(header.format().id, FormatId::MRdLk32 | FormatId::MRdLk64);
    tc_not_0(header).filter(|_| is_locked)
}

pub(super) fn reserved_th(header: &Header<'_>) -> Option<u64> {
    (header.th() && address(header).is_none()).then_some(1)
}

pub(super) fn reserved_ln(header: &Header<'_>) -> Option<u64> {
    (header.ln() && !may_have_ln(header.format().id)).then_some(1)
}

pub(super) fn extended_tph(header: &Header<'_>) -> Option<u64> {
    let found = header.prefixes().find(|prefix| prefix.kind() == PrefixKind::ExtendedTph)?;
    Some(u64::from(found.0)).filter(|_| address(header).is_none() || !header.th())
}

// Codes of Invalidate_Request, Page_Request and PRG_Response.
const WITH_PASID: [u8; 3] = [0x01, 0x04, 0x05];

pub(super) fn pasid(header: &Header<'_>) -> Option<u64> {
    let found = header.prefixes().find_map(|prefix| prefix.pasid_value())?;
    let may = address(header).is_some() || code(header).is_some_and(|code| WITH_PASID.contains(&code));
    Some(u64::from(found)).filter(|_| !may)
}

pub(super) fn pasid_once(header: &Header<'_>) -> Option<u64> {
    let count = header.prefixes().filter(|prefix| prefix.kind() == PrefixKind::Pasid).count();
    (count > 1).then_some(count as u64)
}

pub(super) fn reserved_end_to_end(header: &Header<'_>) -> Option<u64> {
    let found = header.prefixes().find(|prefix| prefix.is_end_to_end() && is_reserved(prefix))?;
    Some(u64::from(found.0))
}

pub(super) fn reserved_status(header: &Header<'_>) -> Option<u64> {
    match header.family() {
        FamilyHeader::Completion(c) => {
            Some(c.status_bits()).filter(|s| !matches!(s, 0b000 | 0b001 | 0b010 | 0b100)).map(u64::from)
        }
        _ => None,
    }
}

pub(super) fn reserved_routing(header: &Header<'_>) -> Option<u64> {
    match header.family() {
        FamilyHeader::Message(m) => Some(m.routing().bits()).filter(|&r| r > 0b101).map(u64::from),
        _ => None,
    }
}

pub(super) fn completion_data(header: &Header<'_>) -> Option<u64> {
    match header.family() {
        FamilyHeader::Completion(c) if header.data_dw() > 0 => not_0(u64::from(c.status_bits())),
        _ => None,
    }
}

// With BCM, which only PCI-X completers set, Byte Count is that of the first completion alone.
pub(super) fn completion_byte_count(header: &Header<'_>) -> Option<u64> {
    match header.family() {
        FamilyHeader::Completion(c) if header.data_dw() > 0 && !c.bcm() => {
            let (lead, bytes) = (u32::from(c.lower_address() & 3), header.data_dw() * 4);
            let most = (lead + u32::from(c.byte_count())).next_multiple_of(4);
            (bytes > most).then_some(u64::from(bytes))
        }
        _ => None,
    }
}

pub(super) fn locked_completion(header: &Header<'_>) -> Option<u64> {
    match header.family() {
        FamilyHeader::Completion(c) if header.format().id == FormatId::CplLk => {
            (c.status_bits() == 0).then_some(0)
        }
        _ => None,
    }
}

pub(super) fn message_code(header: &Header<'_>) -> Option<u64> {
    code(header).filter(|_| message_type(header).is_none()).map(u64::from)
}

pub(super) fn message_routing(header: &Header<'_>) -> Option<u64> {
    let (row, FamilyHeader::Message(m)) = (message_type(header)?, header.family()) else { return None };
    let routing = m.routing();
    let is_wrong = routing.bits() <= 0b101 && !row.may_be_routed(routing);
    is_wrong.then_some(u64::from(routing.bits()))
}

pub(super) fn message_data(header: &Header<'_>) -> Option<u64> {
    let dw = header.data_dw();
    (!message_type(header)?.may_have_data(dw)).then_some(u64::from(dw))
}
