// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What makes a TLP malformed: one table, each row with its paragraph, its words and its check.
//!
//! [`Repr::parse`] and [`Repr::parse_header`] apply the rules of the first byte, the header and the size;
//! [`check_received`] those that depend on how a receiver is set up. Rules that bind only who sends, and that a
//! receiver lets pass, are in the same table: [`tolerated`] lists those that a header breaks.

use crate::format::Family;
use crate::wire::{FamilyHeader, Header, field};
use crate::{AddressType, Mps, Repr, SpanError};
use core::fmt;

/// Names a row of [`RULES`]; its number is the row's place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum RuleId {
    /// Fmt is no reserved value.
    ReservedFmt,
    /// Length is what follows.
    Length,
    /// TD says whether a digest follows.
    Digest,
    /// Byte Enables of a memory request.
    ByteEnables,
    /// Memory requests stay within 4 KiB.
    Crosses4K,
    /// TC of a configuration request.
    ConfigTc,
    /// Attributes of a configuration request.
    ConfigAttr,
    /// Address Type of a configuration request.
    ConfigAt,
    /// Length of a configuration request.
    ConfigLength,
    /// Last DW Byte Enables of a configuration request.
    ConfigLastBe,
    /// Length of an AtomicOp.
    AtomicLength,
    /// Address of an AtomicOp.
    AtomicAddress,
    /// TC of an interrupt message.
    InterruptTc,
    /// TC of a power management message.
    PowerTc,
    /// TC of an error message.
    ErrorTc,
    /// TC of an Unlock message.
    UnlockTc,
    /// TC of Set_Slot_Power_Limit.
    SlotPowerTc,
    /// Length of Set_Slot_Power_Limit.
    SlotPowerLength,
    /// Data within Max_Payload_Size.
    MaxPayloadSize,
    /// TC mapped to a virtual channel.
    TcMapped,
    /// Four DW of header from 4 GiB on only.
    AddressFormat,
    /// Address Type is no reserved value.
    ReservedAt,
    /// Completion Status is no reserved value.
    ReservedStatus,
    /// Routing is no reserved value.
    ReservedRouting,
}

/// A row of [`RULES`].
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Which row.
    pub id: RuleId,
    /// Paragraph of `PCIe 5.0`.
    pub section: &'static str,
    /// What must hold; names the legal values.
    pub text: &'static str,
    check: Check,
}

/// How a receiver is set up, as far as it decides what is malformed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Max_Payload_Size.
    pub mps: Mps,
    /// Which Traffic Classes are mapped to an enabled virtual channel: bit n is TC n.
    pub tc_mapped: u8,
}

/// A broken rule, with the value that breaks it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed {
    /// The rule.
    pub rule: RuleId,
    /// What was found in place of what the rule allows.
    pub found: u64,
}

// Each says what it found where the rule is broken.
#[derive(Clone, Copy, Debug)]
enum Check {
    FirstByte(fn(u8) -> Option<u64>),
    Header(Option<Family>, fn(&Header<'_>) -> Option<u64>),
    Size(fn(&Header<'_>, usize) -> Option<u64>),
    Received(fn(&Repr, &Limits) -> Option<u64>),
    Tolerated(Family, fn(&Header<'_>) -> Option<u64>),
}

const fn row(id: RuleId, section: &'static str, text: &'static str, check: Check) -> Rule {
    Rule { id, section, text, check }
}

const MEMORY: Option<Family> = Some(Family::Memory);
const ATOMIC: Option<Family> = Some(Family::Atomic);
const CONFIG: Option<Family> = Some(Family::Config);
const MESSAGE: Option<Family> = Some(Family::Message);

/// Every rule, in the order of [`RuleId`].
pub static RULES: [Rule; 24] = {
    use Check::{FirstByte, Header, Received, Size, Tolerated};
    use RuleId::*;
    [
        row(ReservedFmt, "§2.2.1", "Fmt is 000b to 100b", FirstByte(reserved_fmt)),
        row(Length, "§2.2.2", "the TLP's bytes are header, Length DWs of data, and digest", Size(excess)),
        row(Digest, "§2.2.3", "TD is set where a digest follows", Size(digest_without_td)),
        row(
            ByteEnables,
            "§2.2.5",
            "Byte Enables: last is 0000b with one DW and else neither is; holes only in one DW or in one aligned QW",
            Header(MEMORY, byte_enables),
        ),
        row(
            Crosses4K,
            "§2.2.7",
            "a memory request does not cross a 4 KiB boundary",
            Header(MEMORY, crosses_4k),
        ),
        row(ConfigTc, "§2.2.7", "a configuration request has TC 0", Header(CONFIG, tc_not_0)),
        row(ConfigAttr, "§2.2.7", "a configuration request has Attr[1:0] 00b", Header(CONFIG, attr_not_0)),
        row(ConfigAt, "§2.2.7", "a configuration request has AT 00b", Header(CONFIG, at_not_0)),
        row(ConfigLength, "§2.2.7", "a configuration request has Length 1", Header(CONFIG, length_not_1)),
        row(
            ConfigLastBe,
            "§2.2.7",
            "a configuration request has Last DW Byte Enables 0000b",
            Header(CONFIG, last_be_not_0),
        ),
        row(
            AtomicLength,
            "§2.2.7",
            "an AtomicOp has Length 1 or 2 (FetchAdd, Swap), or 2, 4 or 8 (CAS)",
            Header(ATOMIC, atomic_length),
        ),
        row(
            AtomicAddress,
            "§2.2.7",
            "the address of an AtomicOp is a multiple of its operand's size",
            Header(ATOMIC, atomic_address),
        ),
        row(
            InterruptTc,
            "§2.2.8.1",
            "Assert_INTx and Deassert_INTx have TC 0",
            Header(MESSAGE, interrupt_tc),
        ),
        row(PowerTc, "§2.2.8.2", "power management messages have TC 0", Header(MESSAGE, power_tc)),
        row(ErrorTc, "§2.2.8.3", "error messages have TC 0", Header(MESSAGE, error_tc)),
        row(UnlockTc, "§2.2.8.4", "Unlock has TC 0", Header(MESSAGE, unlock_tc)),
        row(SlotPowerTc, "§2.2.8.5", "Set_Slot_Power_Limit has TC 0", Header(MESSAGE, slot_power_tc)),
        row(
            SlotPowerLength,
            "§2.2.8.5",
            "Set_Slot_Power_Limit has Length 1",
            Header(MESSAGE, slot_power_length),
        ),
        row(MaxPayloadSize, "§2.2.2", "the data is not longer than Max_Payload_Size", Received(beyond_mps)),
        row(TcMapped, "§2.5.3", "the TC is mapped to an enabled virtual channel", Received(tc_not_mapped)),
        row(
            AddressFormat,
            "§2.2.4.1",
            "a memory request below 4 GiB has three DW of header",
            Tolerated(Family::Memory, long_for_low_address),
        ),
        row(ReservedAt, "§10.2.1", "AT is 00b, 01b or 10b", Tolerated(Family::Memory, reserved_at)),
        row(
            ReservedStatus,
            "§2.2.9.1",
            "Completion Status is 000b, 001b, 010b or 100b; others count as 001b, Unsupported Request",
            Tolerated(Family::Completion, reserved_status),
        ),
        row(
            ReservedRouting,
            "§2.2.8",
            "routing is 000b to 101b; others end at the receiver",
            Tolerated(Family::Message, reserved_routing),
        ),
    ]
};

impl Rule {
    /// The row of `id`.
    #[must_use]
    pub fn get(id: RuleId) -> &'static Rule {
        &RULES[id as usize]
    }

    /// True for a rule that binds only who sends: a receiver lets the TLP pass.
    #[must_use]
    pub fn is_tolerated(&self) -> bool {
        matches!(self.check, Check::Tolerated(..))
    }

    fn broken_by(&self, found: Option<u64>) -> Result<(), Malformed> {
        found.map_or(Ok(()), |found| Err(Malformed { rule: self.id, found }))
    }
}

/// Checks what the first byte alone decides.
pub(crate) fn check_first_byte(byte: u8) -> Result<(), Malformed> {
    RULES.iter().try_for_each(|rule| match rule.check {
        Check::FirstByte(check) => rule.broken_by(check(byte)),
        _ => Ok(()),
    })
}

/// Checks the fields of a header.
///
/// # Errors
/// The first rule that it breaks.
pub fn check_header(header: &Header<'_>) -> Result<(), Malformed> {
    let family = header.format().family;
    RULES.iter().try_for_each(|rule| match rule.check {
        Check::Header(of, check) if of.is_none_or(|of| of == family) => rule.broken_by(check(header)),
        _ => Ok(()),
    })
}

/// Checks that a TLP of `len` bytes goes on no further than its header says.
///
/// # Errors
/// The first rule that it breaks.
pub fn check_size(header: &Header<'_>, len: usize) -> Result<(), Malformed> {
    RULES.iter().try_for_each(|rule| match rule.check {
        Check::Size(check) => rule.broken_by(check(header, len)),
        _ => Ok(()),
    })
}

/// Checks what depends on the receiver's setting.
///
/// # Errors
/// The first rule that the TLP breaks.
pub fn check_received(repr: &Repr, limits: &Limits) -> Result<(), Malformed> {
    RULES.iter().try_for_each(|rule| match rule.check {
        Check::Received(check) => rule.broken_by(check(repr, limits)),
        _ => Ok(()),
    })
}

/// The rules for senders that a header breaks and that receivers let pass.
pub fn tolerated<'a>(header: &'a Header<'_>) -> impl Iterator<Item = Malformed> + 'a {
    RULES.iter().filter_map(move |rule| match rule.check {
        Check::Tolerated(of, check) if of == header.format().family => rule.broken_by(check(header)).err(),
        _ => None,
    })
}

fn reserved_fmt(first_byte: u8) -> Option<u64> {
    let fmt = first_byte >> 5;
    (fmt > 0b100).then_some(u64::from(fmt))
}

// One DW too many without TD is the digest's rule; every other excess is this one's.
fn excess(header: &Header<'_>, len: usize) -> Option<u64> {
    let one_dw_without_td = !header.td() && len == header.tlp_len() + 4;
    (len > header.tlp_len() && !one_dw_without_td).then_some(len as u64)
}

fn digest_without_td(header: &Header<'_>, len: usize) -> Option<u64> {
    (!header.td() && len == header.tlp_len() + 4).then_some(len as u64)
}

fn span_error(header: &Header<'_>) -> Option<SpanError> {
    match header.family() {
        FamilyHeader::Memory(m) => m.span().err(),
        _ => None,
    }
}

fn byte_enables(header: &Header<'_>) -> Option<u64> {
    match span_error(header)? {
        SpanError::ByteEnables(first, last) => Some(u64::from(last) << 4 | u64::from(first)),
        _ => None,
    }
}

fn crosses_4k(header: &Header<'_>) -> Option<u64> {
    match span_error(header)? {
        SpanError::Crosses4K(address) => Some(address),
        _ => None,
    }
}

const fn not_0(value: u64) -> Option<u64> {
    if value == 0 { None } else { Some(value) }
}

fn tc_not_0(header: &Header<'_>) -> Option<u64> {
    not_0(u64::from(header.get(field::TC)))
}

fn attr_not_0(header: &Header<'_>) -> Option<u64> {
    not_0(u64::from(header.get(field::ATTR_1_0)))
}

fn at_not_0(header: &Header<'_>) -> Option<u64> {
    not_0(u64::from(header.get(field::AT)))
}

fn length_not_1(header: &Header<'_>) -> Option<u64> {
    let length = header.length_dw();
    (length != 1).then_some(u64::from(length))
}

fn last_be_not_0(header: &Header<'_>) -> Option<u64> {
    match header.family() {
        FamilyHeader::Config(c) => not_0(u64::from(c.last_be())),
        _ => None,
    }
}

fn atomic_length(header: &Header<'_>) -> Option<u64> {
    match header.family() {
        FamilyHeader::Atomic(a) if a.op().operand_of_length(header.length_dw()).is_none() => {
            Some(header.length_dw().into())
        }
        _ => None,
    }
}

fn atomic_address(header: &Header<'_>) -> Option<u64> {
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

fn tc_of(header: &Header<'_>, is_meant: fn(u8) -> bool) -> Option<u64> {
    tc_not_0(header).filter(|_| code(header).is_some_and(is_meant))
}

// Message Codes: `PCIe 5.0 Appendix F`, Table F-1.
fn interrupt_tc(header: &Header<'_>) -> Option<u64> {
    tc_of(header, |code| matches!(code, 0x20..=0x27))
}

fn power_tc(header: &Header<'_>) -> Option<u64> {
    tc_of(header, |code| matches!(code, 0x14 | 0x18 | 0x19 | 0x1b))
}

fn error_tc(header: &Header<'_>) -> Option<u64> {
    tc_of(header, |code| matches!(code, 0x30 | 0x31 | 0x33))
}

fn unlock_tc(header: &Header<'_>) -> Option<u64> {
    tc_of(header, |code| code == 0x00)
}

const SET_SLOT_POWER_LIMIT: u8 = 0x50;

fn slot_power_tc(header: &Header<'_>) -> Option<u64> {
    tc_of(header, |code| code == SET_SLOT_POWER_LIMIT)
}

fn slot_power_length(header: &Header<'_>) -> Option<u64> {
    let meant = code(header) == Some(SET_SLOT_POWER_LIMIT) && header.data_dw() != 1;
    meant.then_some(u64::from(header.data_dw()))
}

fn beyond_mps(repr: &Repr, limits: &Limits) -> Option<u64> {
    let bytes = repr.data_dw() * 4;
    (bytes > limits.mps.bytes()).then_some(u64::from(bytes))
}

fn tc_not_mapped(repr: &Repr, limits: &Limits) -> Option<u64> {
    let tc = repr.tc.bits();
    (limits.tc_mapped >> tc & 1 == 0).then_some(u64::from(tc))
}

fn long_for_low_address(header: &Header<'_>) -> Option<u64> {
    match header.family() {
        FamilyHeader::Memory(m) if header.bytes().len() == 16 => {
            Some(m.address()).filter(|&address| address <= u64::from(u32::MAX))
        }
        _ => None,
    }
}

fn reserved_at(header: &Header<'_>) -> Option<u64> {
    (header.at() == AddressType::Reserved).then_some(0b11)
}

fn reserved_status(header: &Header<'_>) -> Option<u64> {
    match header.family() {
        FamilyHeader::Completion(c) => {
            Some(c.status_bits()).filter(|s| !matches!(s, 0b000 | 0b001 | 0b010 | 0b100)).map(u64::from)
        }
        _ => None,
    }
}

fn reserved_routing(header: &Header<'_>) -> Option<u64> {
    match header.family() {
        FamilyHeader::Message(m) => Some(m.routing().bits()).filter(|&r| r > 0b101).map(u64::from),
        _ => None,
    }
}

impl Malformed {
    /// The row of the rule.
    #[must_use]
    pub fn rule(&self) -> &'static Rule {
        Rule::get(self.rule)
    }
}

impl From<SpanError> for Malformed {
    fn from(error: SpanError) -> Malformed {
        match error {
            SpanError::ByteEnables(first, last) => {
                Malformed { rule: RuleId::ByteEnables, found: u64::from(last) << 4 | u64::from(first) }
            }
            SpanError::Crosses4K(address) | SpanError::Overflow(address) | SpanError::Unaligned(address) => {
                Malformed { rule: RuleId::Crosses4K, found: address }
            }
            SpanError::Length(length) => Malformed { rule: RuleId::Length, found: u64::from(length) },
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rule { section, text, .. } = self.rule();
        write!(f, "malformed TLP: found {:#x} where {text} (PCIe 5.0 {section})", self.found)
    }
}

impl core::error::Error for Malformed {}
