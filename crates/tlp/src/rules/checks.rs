// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The functions that check the rules. Each checks one rule, and returns the illegal value if the rule is broken. The
//! caller decides in which order the rules are checked, and what happens if one is broken.

use super::{Clause, Limits, RuleId, message_type};
use crate::format::{Family, FormatId};
use crate::message::{
    INVALIDATE_REQUEST, PAGE_REQUEST, PRG_RESPONSE, SET_SLOT_POWER_LIMIT, VENDOR_DEFINED_TYPE_1,
};
use crate::span::byte_enables_legal;
use crate::wire::{Field, Header, atomic_op, field, may_have_ln};
use crate::{AddressType, MessageRouting, OperandSize, Prefix, PrefixKind, Prefixes, Repr, SpanError};

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

pub(super) fn byte_enables(header: &Header<'_>) -> Option<u64> {
    let (first, last) = header.byte_enables();
    let is_legal = byte_enables_legal(header.address(), header.length_dw(), first, last);
    (!is_legal).then_some(u64::from(last) << 4 | u64::from(first))
}

/// The clause of the rule `byte-enables` that illegal byte enables break.
pub(super) fn clause_of_byte_enables(header: &Header<'_>) -> Clause {
    let (first, last) = header.byte_enables();
    match header.length_dw() {
        1 => Clause::LastBeOfOneDw,
        _ if last == 0 => Clause::LastBeZero,
        _ if first == 0 => Clause::FirstBeZero,
        2 => Clause::GapsInTwoDw,
        _ => Clause::Gaps,
    }
}

pub(super) fn crosses_4k(header: &Header<'_>) -> Option<u64> {
    match header.span() {
        Err(SpanError::Crosses4K(address)) => Some(address),
        _ => None,
    }
}

fn not_0(header: &Header<'_>, field: Field) -> Option<u64> {
    Some(u64::from(header.get(field))).filter(|value| *value != 0)
}

pub(super) fn tc_not_0(header: &Header<'_>) -> Option<u64> {
    not_0(header, field::TC)
}

pub(super) fn attr_not_0(header: &Header<'_>) -> Option<u64> {
    not_0(header, field::ATTR_1_0)
}

pub(super) fn at_not_0(header: &Header<'_>) -> Option<u64> {
    not_0(header, field::AT)
}

pub(super) fn last_be_not_0(header: &Header<'_>) -> Option<u64> {
    not_0(header, field::LAST_BE)
}

pub(super) fn length_not_1(header: &Header<'_>) -> Option<u64> {
    let length = header.length_dw();
    (length != 1).then_some(u64::from(length))
}

fn operand(header: &Header<'_>) -> Option<OperandSize> {
    atomic_op(header.format().id).operand_of_length(header.length_dw())
}

pub(super) fn atomic_length(header: &Header<'_>) -> Option<u64> {
    operand(header).is_none().then_some(header.length_dw().into())
}

pub(super) fn atomic_address(header: &Header<'_>) -> Option<u64> {
    let operand = operand(header)?;
    Some(header.address()).filter(|address| !address.is_multiple_of(operand.bytes().into()))
}

/// Message Code; `None` in other TLPs.
pub(super) fn code(header: &Header<'_>) -> Option<u8> {
    header.is(Family::Message).then(|| header.get(field::BYTE_ENABLES) as u8)
}

/// The TC of a message with a TC other than 0, if its row in the table of messages names `rule`.
pub(super) fn message_tc(header: &Header<'_>, rule: RuleId) -> Option<u64> {
    tc_not_0(header).filter(|_| message_type(header).is_some_and(|row| row.tc0 == Some(rule)))
}

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

// The address of a memory request or AtomicOp; `None` for other TLPs.
fn address(header: &Header<'_>) -> Option<u64> {
    let has_address = header.is(Family::Memory) || header.is(Family::Atomic);
    has_address.then(|| header.address())
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

pub(super) fn reserved_ido(header: &Header<'_>) -> Option<u64> {
    let is_reserved = header.is(Family::Io) || header.is(Family::Config);
    not_0(header, field::ATTR_2).filter(|_| is_reserved)
}

pub(super) fn extended_tph(header: &Header<'_>) -> Option<u64> {
    let found = header.prefixes().find(|prefix| prefix.kind() == PrefixKind::ExtendedTph)?;
    Some(u64::from(found.0)).filter(|_| address(header).is_none() || !header.th())
}

const WITH_PASID: [u8; 3] = [INVALIDATE_REQUEST, PAGE_REQUEST, PRG_RESPONSE];

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

// Completion Status, reserved values included; `None` in other TLPs.
fn status(header: &Header<'_>) -> Option<u64> {
    header.is(Family::Completion).then(|| u64::from(header.get(field::STATUS)))
}

pub(super) fn reserved_status(header: &Header<'_>) -> Option<u64> {
    status(header).filter(|status| !matches!(status, 0b000 | 0b001 | 0b010 | 0b100))
}

// Routing of a message, reserved values included; `None` in other TLPs.
fn routing(header: &Header<'_>) -> Option<u8> {
    header.is(Family::Message).then(|| header.get(field::ROUTING) as u8)
}

pub(super) fn reserved_routing(header: &Header<'_>) -> Option<u64> {
    routing(header).filter(|&routing| routing > 0b101).map(u64::from)
}

pub(super) fn completion_data(header: &Header<'_>) -> Option<u64> {
    status(header).filter(|&status| status != 0 && header.data_dw() > 0)
}

// With BCM, which only PCI-X completers set, Byte Count is that of the first completion alone.
pub(super) fn completion_byte_count(header: &Header<'_>) -> Option<u64> {
    let c = header.completion().filter(|c| c.length_dw.is_some() && !c.bcm)?;
    let (lead, bytes) = (u32::from(c.lower_address & 3), header.data_dw() * 4);
    let most = (lead + u32::from(c.byte_count)).next_multiple_of(4);
    (bytes > most).then_some(u64::from(bytes))
}

pub(super) fn locked_completion(header: &Header<'_>) -> Option<u64> {
    status(header).filter(|&status| status == 0 && header.format().id == FormatId::CplLk)
}

pub(super) fn message_code(header: &Header<'_>) -> Option<u64> {
    code(header).filter(|_| message_type(header).is_none()).map(u64::from)
}

pub(super) fn message_routing(header: &Header<'_>) -> Option<u64> {
    let (row, routing) = (message_type(header)?, routing(header)?);
    let is_wrong = routing <= 0b101 && !row.may_be_routed(MessageRouting::from_bits(routing));
    is_wrong.then_some(u64::from(routing))
}

pub(super) fn message_data(header: &Header<'_>) -> Option<u64> {
    let dw = header.data_dw();
    (!message_type(header)?.may_have_data(dw)).then_some(u64::from(dw))
}

// Ignored Messages, messages of ATS and PRI, and vendor-defined messages have no rule about attributes: the base
// specification does not define or reserve them. It also has no rule about their TC, except for PCI-SIG's
// Vendor_Defined messages.
pub(super) fn message_attr(header: &Header<'_>) -> Option<u64> {
    let row = message_type(header)?;
    attr_not_0(header).filter(|_| row.tc0.is_some() && row.code != VENDOR_DEFINED_TYPE_1)
}
