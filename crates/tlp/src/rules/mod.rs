// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of the rules that TLPs must follow. Each refusal of a TLP, and each violation in a trace, refers to a
//! row.
//!
//! - [`Repr::parse`] and [`Repr::parse_header`] apply the rules about the first byte, prefixes, header and size. A receiver may
//!   skip many of them (byte enables, 4 KiB, I/O and configuration requests). riser checks all.
//! - [`check_received`] applies the rules that depend on the receiver's settings, and all others to a TLP that was not parsed.
//! - [`tolerated`] lists the violations of rules that bind the sender only. [`broken`] lists all violations in a header.
//! - Rules that relate several TLPs, or that depend on the state of a component, have no check here. The crate that applies
//!   one names its [`RuleId`].
//! - [`Refusals`] records the reasons for which a component refused TLPs, with the first TLP of each kind.
//!
//! An undefined Fmt and Type is malformed (`PCIe 5.0 §2.3`), and so is a TLP that ends early. A capture may hold TLPs that
//! riser does not know, or parts of a TLP. The parser therefore reports both as other errors
//! ([`ParseError::UnknownType`](crate::ParseError::UnknownType), [`ParseError::Truncated`](crate::ParseError::Truncated)).
//! For a complete TLP, [`ParseError::on_a_link`](crate::ParseError::on_a_link) returns the rule that it breaks.

mod checks;
pub mod reasons;
mod refusal;
mod table;

use crate::format::Family;
use crate::message::MessageType;
use crate::wire::Header;
use crate::{Bdf, Body, Mps, Prefixes, Repr, SpanError, TcSet, Tlp};
use core::fmt;
pub use refusal::{Head, Reason, Refusal, Refusals};
pub use table::RuleId;
use table::{COUNT, TABLE};

/// A rule: a row of [`RULES`].
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The ID of the row.
    pub id: RuleId,
    /// Its name in commands, reports and JSON, for example `lower-address`.
    pub name: &'static str,
    /// Section of its [specification](Rule::specification).
    pub section: &'static str,
    /// The side that must follow it.
    pub side: Side,
    /// The field or quantity that it restricts.
    pub field: &'static str,
    /// How values of the field are written.
    pub unit: Unit,
    /// The legal values, as a phrase.
    pub legal: &'static str,
    /// The rule as a sentence.
    pub text: &'static str,
    /// TLPs that break it, as hex text with one TLP per line; a sentence if TLPs cannot show it.
    pub example: &'static str,
    check: Check,
}

/// The side that must follow a rule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Side {
    /// The requester or completer that forms the TLP, or the port that sends it.
    Sender,
    /// The function or port that receives the TLP.
    Receiver,
    /// The switch or root complex that forwards the TLP.
    Switch,
}

impl Side {
    /// `sender`, `receiver` or `switch`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Side::Sender => "sender",
            Side::Receiver => "receiver",
            Side::Switch => "switch",
        }
    }
}

/// How the value of a field is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Hexadecimal: `0x1000`.
    Hex,
    /// A whole DW: `0x00001000`.
    Dw,
    /// Binary with this number of digits: `010b`.
    Binary(u8),
    /// Decimal: `3`.
    Count,
    /// `64 bytes`.
    Bytes,
    /// `16 DW`.
    DwCount,
    /// A function: `01:00.0`.
    Function,
    /// Requester ID in bits 31:16 and tag in bits 9:0: `01:00.0 tag 0x01`.
    Transaction,
}

impl Unit {
    /// Writes a value.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn write(self, f: &mut dyn fmt::Write, value: u64) -> fmt::Result {
        match self {
            Unit::Hex => write!(f, "{value:#x}"),
            Unit::Dw => write!(f, "{value:#010x}"),
            Unit::Binary(digits) => write!(f, "{value:0digits$b}b", digits = usize::from(digits)),
            Unit::Count => write!(f, "{value}"),
            Unit::Bytes => write!(f, "{value} {}", if value == 1 { "byte" } else { "bytes" }),
            Unit::DwCount => write!(f, "{value} DW"),
            Unit::Function => write!(f, "{}", Bdf::from_bits(value as u16)),
            Unit::Transaction => {
                write!(f, "{} tag {:#04x}", Bdf::from_bits((value >> 16) as u16), value & 0x3ff)
            }
        }
    }
}

/// The settings of a receiver that decide what is malformed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Max_Payload_Size.
    pub mps: Mps,
    /// The Traffic Classes that are mapped to an enabled virtual channel.
    pub tc_mapped: TcSet,
    /// True if the receiver accepts local prefixes, as ports of MR-IOV links do.
    pub local_prefixes: bool,
    /// Number of end-to-end prefixes that the receiver accepts: 0 to 4 (Max End-End TLP Prefixes, `PCIe 5.0
    /// §7.5.3.15`).
    pub end_to_end_prefixes: u8,
}

/// A clause of the rule `byte-enables`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Clause {
    /// Last DW BE must be 0000b if Length is 1.
    LastBeOfOneDw,
    /// Last DW BE must not be 0000b if Length is more than 1.
    LastBeZero,
    /// First DW BE must not be 0000b if Length is more than 1.
    FirstBeZero,
    /// Two DWs may have gaps only if they form an aligned QW.
    GapsInTwoDw,
    /// More than two DWs must not have gaps.
    Gaps,
}

impl Clause {
    /// The legal values, as a phrase.
    #[must_use]
    pub const fn legal(self) -> &'static str {
        match self {
            Clause::LastBeOfOneDw => "Last BE 0000b for Length 1",
            Clause::LastBeZero => "Last BE not 0000b for Length over 1",
            Clause::FirstBeZero => "First BE not 0000b for Length over 1",
            Clause::GapsInTwoDw => "no gaps for Length 2 if Address is not a multiple of 8",
            Clause::Gaps => "no gaps for Length over 2",
        }
    }
}

/// A broken rule, with the value that breaks it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Violation {
    /// The rule.
    pub rule: RuleId,
    /// The value found, which the rule does not allow.
    pub found: u64,
    /// The clause of the rule, if the rule has several and the header shows which one is broken.
    pub clause: Option<Clause>,
    /// The expected value, if there is only one and it depends on other TLPs or on settings. For a rule with a
    /// [limit](Rule::is_limit) it is the highest legal value. If `None`, [`Rule::legal`] describes the legal values.
    pub expected: Option<u64>,
}

// Each function returns the illegal value if the rule is broken.
#[derive(Clone, Copy, Debug)]
enum Check {
    // The parser reports another error; `ParseError::on_a_link` names the rule.
    Parser,
    // Relates several TLPs: checked by components and in traces.
    Trace,
    // Depends on the state or the settings of a component: checked there.
    Component,
    FirstByte(fn(u8) -> Option<u64>),
    Size(fn(&Header<'_>, usize) -> Option<u64>),
    Prefixes(fn(&Header<'_>) -> Option<u64>),
    Header(Family, fn(&Header<'_>) -> Option<u64>),
    // Checks TC 0 of the messages whose row in the table of messages refers to this rule.
    MessageTc,
    Received(fn(&Repr, &Prefixes, &Limits) -> Option<u64>),
    Tolerated(fn(&Header<'_>) -> Option<u64>),
}

/// Every rule, in the order of [`RuleId`].
pub static RULES: [Rule; COUNT] = TABLE;

// The first row of a kind of rules, and the row after the last.
type Rows = (usize, usize);

const PREFIX_ROWS: Rows = rows(None);
static ROWS_OF_FAMILY: [Rows; 6] = [
    rows(Some(Family::Memory)),
    rows(Some(Family::Io)),
    rows(Some(Family::Atomic)),
    rows(Some(Family::Config)),
    rows(Some(Family::Message)),
    rows(Some(Family::Completion)),
];

// The rows for the headers of a family, or the rows for prefixes if `of` is `None`.
const fn rows(of: Option<Family>) -> Rows {
    let (mut start, mut end, mut at) = (0, 0, 0);
    while at < COUNT {
        let is_one = match (TABLE[at].check, of) {
            (Check::Header(family, _), Some(of)) => family as u8 == of as u8,
            (Check::MessageTc, Some(of)) => of as u8 == Family::Message as u8,
            (Check::Prefixes(_), None) => true,
            _ => false,
        };
        if is_one {
            start = if end == 0 { at } else { start };
            assert!(end == 0 || end == at, "rules of one kind are adjacent");
            end = at + 1;
        }
        at += 1;
    }
    (start, end)
}

impl Rule {
    /// The row of `id`.
    pub fn get(id: RuleId) -> &'static Rule {
        &RULES[id as usize]
    }

    /// True if the rule binds only the sender: a receiver accepts a TLP that breaks it.
    pub fn is_tolerated(&self) -> bool {
        matches!(self.check, Check::Tolerated(..))
    }

    /// The specification that [`section`](Rule::section) refers to: `PCIe 6.0` for §2.2.9.1, else `PCIe 5.0`. Revision 5.0 does not
    /// divide §2.2.9; 6.0 does.
    #[must_use]
    pub fn specification(&self) -> &'static str {
        if self.section == "§2.2.9.1" { "PCIe 6.0" } else { "PCIe 5.0" }
    }

    /// The row with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Rule> {
        RULES.iter().find(|rule| rule.name == name)
    }

    /// True if the check of the rule needs more than one TLP and the receiver's [`Limits`]: it needs other TLPs, or
    /// the state of a component.
    #[must_use]
    pub fn is_of_several(&self) -> bool {
        matches!(self.check, Check::Trace | Check::Component)
    }

    /// True for a rule that depends on the state or the settings of a component, which a trace does not show.
    #[must_use]
    pub fn is_of_component(&self) -> bool {
        matches!(self.check, Check::Component)
    }

    /// True if the expected value of a violation is the highest legal one, and lower values are legal too.
    #[must_use]
    pub fn is_limit(&self) -> bool {
        matches!(self.id, RuleId::MaxPayloadSize | RuleId::AcknowledgedSequence | RuleId::UnusedCredits)
    }

    /// True for a rule that depends on the receiver's [`Limits`].
    pub fn is_of_receiver(&self) -> bool {
        matches!(self.check, Check::Received(..))
    }

    fn broken_by(&self, found: Option<u64>) -> Result<(), Violation> {
        found.map_or(Ok(()), |found| Err(Violation::new(self.id, found)))
    }

    fn check_header(&self, header: &Header<'_>) -> Result<(), Violation> {
        let result = match self.check {
            Check::Header(_, check) | Check::Prefixes(check) => self.broken_by(check(header)),
            Check::MessageTc => self.broken_by(checks::message_tc(header, self.id)),
            _ => Ok(()),
        };
        result.map_err(|violation| match self.id {
            RuleId::ByteEnables => {
                Violation { clause: Some(checks::clause_of_byte_enables(header)), ..violation }
            }
            _ => violation,
        })
    }
}

/// Checks the rules that need only the first byte.
pub(crate) fn check_first_byte(byte: u8) -> Result<(), Violation> {
    RULES.iter().take(1).try_for_each(|rule| match rule.check {
        Check::FirstByte(check) => rule.broken_by(check(byte)),
        _ => Ok(()),
    })
}

/// Checks the fields of a header and the prefixes before it.
///
/// # Errors
/// The first rule that it breaks.
pub fn check_header(header: &Header<'_>) -> Result<(), Violation> {
    let check = |(start, end): Rows| RULES[start..end].iter().try_for_each(|rule| rule.check_header(header));
    if !header.prefix_bytes().is_empty() {
        check(PREFIX_ROWS)?;
    }
    check(ROWS_OF_FAMILY[header.format().family as usize])
}

/// Checks that a TLP of `len` bytes is no longer than its header says.
///
/// # Errors
/// The first rule that it breaks.
pub fn check_size(header: &Header<'_>, len: usize) -> Result<(), Violation> {
    if len == header.tlp_len() {
        return Ok(());
    }
    RULES.iter().try_for_each(|rule| match rule.check {
        Check::Size(check) => rule.broken_by(check(header, len)),
        _ => Ok(()),
    })
}

/// Checks a received TLP: all rules of its header and prefixes, the rules that depend on the receiver's settings, and the
/// length of its data. Cheap for plain reads, writes and completions.
///
/// # Errors
/// The first rule that the TLP breaks. The receiver drops the TLP, returns its credits and reports a Malformed TLP
/// (`PCIe 5.0 §6.2.3`).
#[inline(always)]
pub fn check_received(tlp: &Tlp, limits: &Limits) -> Result<(), Violation> {
    let repr = &tlp.repr;
    let is_plain = match &repr.body {
        // A span holds only legal values.
        Body::Memory(m) => m.op.is_posted() || m.op.is_read(),
        Body::Completion(_) => true,
        _ => false,
    };
    let fits = repr.data_dw() * 4 <= limits.mps.bytes() && limits.tc_mapped.contains(repr.tc);
    if is_plain && fits && tlp.prefixes.is_empty() && tlp.is_whole() && !tlp.is_malformed() {
        return Ok(());
    }
    check_closely(tlp, limits)
}

#[cold]
fn check_closely(tlp: &Tlp, limits: &Limits) -> Result<(), Violation> {
    if let (true, Some(bytes)) = (tlp.is_malformed(), tlp.data.bytes()) {
        return Repr::parse(bytes).map_or_else(|error| Err(error.on_a_link()), |_| Ok(()));
    }
    if !tlp.is_whole() {
        return Err(reasons::wrong_length(tlp));
    }
    let mut bytes = [0; Prefixes::MAX * 4 + 16];
    let len = tlp.emit_header(&mut bytes);
    Repr::parse_header(&bytes[..len]).map_err(|error| error.on_a_link())?;
    RULES.iter().try_for_each(|rule| match rule.check {
        Check::Received(check) => rule
            .broken_by(check(&tlp.repr, &tlp.prefixes, limits))
            .map_err(|violation| Violation { expected: limits.expected(rule.id), ..violation }),
        _ => Ok(()),
    })
}

impl Limits {
    /// The limit of a rule, in the unit of its field.
    fn expected(&self, rule: RuleId) -> Option<u64> {
        (rule == RuleId::MaxPayloadSize).then(|| self.mps.bytes().into())
    }
}

/// The violations of rules that bind only the sender. Receivers accept such a TLP.
pub fn tolerated<'a>(header: &'a Header<'_>) -> impl Iterator<Item = Violation> + 'a {
    RULES.iter().filter_map(move |rule| match rule.check {
        Check::Tolerated(check) => rule.broken_by(check(header)).err(),
        _ => None,
    })
}

/// All violations in the prefixes and the header of a TLP, in the order of the table.
pub fn broken<'a>(header: &'a Header<'_>) -> impl Iterator<Item = Violation> + 'a {
    let (start, end) = ROWS_OF_FAMILY[header.format().family as usize];
    let rules = RULES[PREFIX_ROWS.0..PREFIX_ROWS.1].iter().chain(&RULES[start..end]);
    rules.filter_map(|rule| rule.check_header(header).err()).chain(tolerated(header))
}

// The row of a message in the table of messages; `None` for other TLPs and for undefined codes.
fn message_type(header: &Header<'_>) -> Option<&'static MessageType> {
    MessageType::of(checks::code(header)?, &header.message_header(), header.format().has_data)
}

impl Violation {
    /// A violation whose legal values are those of the rule.
    #[must_use]
    pub const fn new(rule: RuleId, found: u64) -> Violation {
        Violation { rule, found, clause: None, expected: None }
    }

    /// A violation of a rule with a single legal value, or a [limit](Rule::is_limit): `expected`.
    #[must_use]
    pub const fn expecting(rule: RuleId, found: u64, expected: u64) -> Violation {
        Violation { rule, found, clause: None, expected: Some(expected) }
    }

    /// The row of the rule.
    #[must_use]
    pub fn rule(&self) -> &'static Rule {
        Rule::get(self.rule)
    }

    /// The legal values, as a phrase: those of the broken clause if it is known.
    #[must_use]
    pub fn legal(&self) -> &'static str {
        self.clause.map_or(self.rule().legal, Clause::legal)
    }

    /// Writes the legal value or values.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn write_expected(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        match self.expected {
            Some(value) => {
                f.write_str(if self.rule().is_limit() { "at most " } else { "" })?;
                self.rule().unit.write(f, value)
            }
            None => f.write_str(self.legal()),
        }
    }
}

impl From<SpanError> for Violation {
    fn from(error: SpanError) -> Violation {
        match error {
            SpanError::ByteEnables(first, last) => {
                Violation::new(RuleId::ByteEnables, u64::from(last) << 4 | u64::from(first))
            }
            SpanError::Crosses4K(address) | SpanError::Overflow(address) | SpanError::Unaligned(address) => {
                Violation::new(RuleId::Crosses4K, address)
            }
            SpanError::Length(length) => Violation::new(RuleId::Length, u64::from(length)),
        }
    }
}

/// `Lower Address 0x0, expected 0x40 (PCIe 6.0 §2.2.9.1, rule lower-address)`.
impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = self.rule();
        write!(f, "{} ", rule.field)?;
        rule.unit.write(f, self.found)?;
        f.write_str(", expected ")?;
        self.write_expected(f)?;
        write!(f, " ({} {}, rule {})", rule.specification(), rule.section, rule.name)
    }
}

impl core::error::Error for Violation {}
