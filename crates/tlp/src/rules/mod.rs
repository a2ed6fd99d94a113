// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What makes a TLP malformed: one table, each row with its section, its text and its check.
//!
//! [`Repr::parse`] and [`Repr::parse_header`] apply the rules of the first byte, the prefixes, the header and the
//! size; [`check_received`] those that depend on how a receiver is set up, and all others to a TLP that never was
//! bytes. Many of these checks are optional to a receiver (byte enables, 4 KiB, I/O and configuration requests, ...);
//! riser makes them all. Rules that bind only who sends, or that leave the answer to whom the TLP is addressed, are
//! in the same table: [`tolerated`] lists those that a header breaks.
//!
//! A Fmt and Type that nobody defines is malformed too (`PCIe 5.0 §2.3`), and so is a TLP that ends early; because a
//! capture may hold what riser does not know, or half of a TLP, the parser tells them apart
//! ([`ParseError::UnknownType`](crate::ParseError::UnknownType), [`ParseError::Truncated`](crate::ParseError::Truncated)), and
//! [`ParseError::on_a_link`](crate::ParseError::on_a_link) says which rule they break where no bytes are missing.

mod checks;
mod table;

use crate::format::Family;
use crate::message::MessageType;
use crate::wire::Header;
use crate::{Body, Mps, Prefixes, Repr, SpanError, TcSet, Tlp};
use core::fmt;
pub use table::RuleId;
use table::{COUNT, TABLE};

/// A row of [`RULES`].
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The ID of the row.
    pub id: RuleId,
    /// Section of `PCIe 5.0`.
    pub section: &'static str,
    /// What must hold; names the legal values.
    pub text: &'static str,
    check: Check,
}

/// The settings of a receiver that decide what is malformed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Max_Payload_Size.
    pub mps: Mps,
    /// The Traffic Classes that are mapped to an enabled virtual channel.
    pub tc_mapped: TcSet,
    /// True where it accepts local prefixes, as a port of an MR-IOV link does.
    pub local_prefixes: bool,
    /// End-to-end prefixes that it accepts: 0 to 4 (Max End-End TLP Prefixes, `PCIe 5.0 §7.5.3.15`).
    pub end_to_end_prefixes: u8,
}

/// A broken rule, with the value that breaks it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed {
    /// The rule.
    pub rule: RuleId,
    /// The value found, which the rule does not allow.
    pub found: u64,
}

// Each returns what it found where the rule is broken.
#[derive(Clone, Copy, Debug)]
enum Check {
    // Found by the parser as another error; `ParseError::on_a_link` names the rule.
    Parser,
    FirstByte(fn(u8) -> Option<u64>),
    Size(fn(&Header<'_>, usize) -> Option<u64>),
    Prefixes(fn(&Header<'_>) -> Option<u64>),
    Header(Family, fn(&Header<'_>) -> Option<u64>),
    // TC 0 of the messages whose row in the table of messages names this rule.
    MessageTc,
    Received(fn(&Repr, &Prefixes, &Limits) -> Option<u64>),
    Tolerated(fn(&Header<'_>) -> Option<u64>),
}

/// Every rule, in the order of [`RuleId`].
pub static RULES: [Rule; COUNT] = TABLE;

// The range of the rules of a kind: begin and end.
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

// The rules of a family's header, or of prefixes for `None`.
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
            assert!(end == 0 || end == at, "rules of one kind stand together");
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

    /// True for a rule that binds only who sends: a receiver lets the TLP pass.
    pub fn is_tolerated(&self) -> bool {
        matches!(self.check, Check::Tolerated(..))
    }

    /// True for a rule that depends on the receiver's [`Limits`].
    pub fn is_of_receiver(&self) -> bool {
        matches!(self.check, Check::Received(..))
    }

    fn broken_by(&self, found: Option<u64>) -> Result<(), Malformed> {
        found.map_or(Ok(()), |found| Err(Malformed { rule: self.id, found }))
    }

    fn check_header(&self, header: &Header<'_>) -> Result<(), Malformed> {
        match self.check {
            Check::Header(_, check) | Check::Prefixes(check) => self.broken_by(check(header)),
            Check::MessageTc => self.broken_by(checks::message_tc(header, self.id)),
            _ => Ok(()),
        }
    }
}

/// Checks what the first byte alone decides.
pub(crate) fn check_first_byte(byte: u8) -> Result<(), Malformed> {
    RULES.iter().take(1).try_for_each(|rule| match rule.check {
        Check::FirstByte(check) => rule.broken_by(check(byte)),
        _ => Ok(()),
    })
}

/// Checks the fields of a header and the prefixes before it.
///
/// # Errors
/// The first rule that it breaks.
pub fn check_header(header: &Header<'_>) -> Result<(), Malformed> {
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
pub fn check_size(header: &Header<'_>, len: usize) -> Result<(), Malformed> {
    if len == header.tlp_len() {
        return Ok(());
    }
    RULES.iter().try_for_each(|rule| match rule.check {
        Check::Size(check) => rule.broken_by(check(header, len)),
        _ => Ok(()),
    })
}

/// Checks a TLP that arrived, as its receiver must: all rules of its header and prefixes, those that depend on the
/// receiver's setting, and that its data is as long as its header says. Cheap for plain reads, writes and completions.
///
/// # Errors
/// The first rule that the TLP breaks; the receiver drops the TLP, gives its credits back and reports a Malformed TLP
/// (`PCIe 5.0 §6.2.3`).
#[inline]
pub fn check_received(tlp: &Tlp, limits: &Limits) -> Result<(), Malformed> {
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
fn check_closely(tlp: &Tlp, limits: &Limits) -> Result<(), Malformed> {
    if let (true, Some(bytes)) = (tlp.is_malformed(), tlp.data.bytes()) {
        return Repr::parse(bytes).map_or_else(|error| Err(error.on_a_link()), |_| Ok(()));
    }
    if !tlp.is_whole() {
        return Err(Malformed { rule: RuleId::Length, found: tlp.data.len() as u64 });
    }
    let mut bytes = [0; Prefixes::MAX * 4 + 16];
    let len = tlp.emit_header(&mut bytes);
    Repr::parse_header(&bytes[..len]).map_err(|error| error.on_a_link())?;
    RULES.iter().try_for_each(|rule| match rule.check {
        Check::Received(check) => rule.broken_by(check(&tlp.repr, &tlp.prefixes, limits)),
        _ => Ok(()),
    })
}

/// The rules for senders that a header breaks and that receivers let pass.
pub fn tolerated<'a>(header: &'a Header<'_>) -> impl Iterator<Item = Malformed> + 'a {
    RULES.iter().filter_map(move |rule| match rule.check {
        Check::Tolerated(check) => rule.broken_by(check(header)).err(),
        _ => None,
    })
}

// The row of a message in the table of messages; `None` for other TLPs and for codes that nobody defines.
fn message_type(header: &Header<'_>) -> Option<&'static MessageType> {
    MessageType::of(checks::code(header)?, &header.message_header(), header.format().has_data)
}

impl Malformed {
    /// The row of the rule.
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
