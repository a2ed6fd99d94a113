// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The terms of a filter: what each field means, its legal values, and whether it holds. Never parses an expression.

use super::values::{class, direction, duration_ps, ecrc, integer, origin, range, status, type_of};
use crate::decode::{Kind as What, Record, TlpRecord};
use crate::matcher::{Errors, Target, Transaction, named_bytes};
use crate::reader::Direction;
use crate::render::dllp_name;
use crate::transactions::{Outcome, errors_of};
use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;
use tlp::{Bdf, Body, Class, Dllp, Status};

/// Fields and flags: name, legal values (empty for a flag), what it is.
pub const FIELDS: [(&str, &str, &str); 33] = [
    ("type", "a type of TLP, dllp, other or error", "what the record is"),
    ("tag", "0 to 1023, or a range such as 0..32", "tag of a TLP"),
    ("requester", "bus:device.function such as 01:00.0", "Requester ID of a TLP"),
    (
        "completer",
        "bus:device.function such as 01:00.0",
        "Completer ID of a completion or configuration request",
    ),
    (
        "addr",
        "an address, or a range without its end such as 0x1000..0x2000",
        "memory, I/O and atomic requests that touch it; with < and others, their first byte",
    ),
    ("status", "success, SC, UR, CRS or CA", "status of a completion"),
    (
        "time",
        "a duration such as 1us: ps, ns, us, ms or s",
        "response time: from the first request to the last completion, of which it is a field",
    ),
    (
        "latency",
        "a duration such as 600ns: ps, ns, us, ms or s",
        "from the first request to the first data, likewise",
    ),
    (
        "timestamp",
        "a duration such as 10us: ps, ns, us, ms or s",
        "since the start of the run, in captures of others since 1970",
    ),
    ("dir", "up or down", "upstream, or downstream, where the capture says"),
    ("len", "DW, 0 to 1024, or a range", "Length of a TLP with one"),
    ("bytes", "bytes, or a range", "bytes that a request names; data of a completion"),
    ("tc", "0 to 7, or a range", "Traffic Class of a TLP"),
    ("vc", "0 to 7, or a range", "virtual channel of a flow-control DLLP"),
    ("pasid", "0 to 1048575, or a range", "PASID of a TLP with that prefix"),
    ("code", "0 to 255, or a range", "Message Code of a message"),
    ("class", "P, NP or Cpl", "flow-control class of a TLP, or of a flow-control DLLP"),
    ("origin", "device or host", "who issued the request that a TLP is, or answers, by its UDP port"),
    ("interface", "a name such as link0:upstream", "interface that saw it"),
    ("link", "a number, or a range", "link that it was seen on, from 0 on"),
    ("number", "a number, or a range", "place among the frames of the file, from 1 on"),
    ("dllp", "Ack, Nak, InitFC1, InitFC2, UpdateFC, NOP or another name; none for any", "a DLLP"),
    ("tlp", "", "a TLP"),
    ("request", "", "a TLP that is no completion"),
    ("completion", "", "a completion"),
    (
        "error",
        "",
        "cannot be read; failed, poisoned, bad ECRC, damaged, dropped, unexpected or duplicate tag",
    ),
    ("poisoned", "", "EP is set"),
    ("ecrc", "good or bad; none for any", "a TLP whose ECRC was checked"),
    ("prefix", "", "a TLP with prefixes"),
    ("damaged", "", "bits were flipped on the way"),
    ("dropped", "", "vanished on the way"),
    ("lost", "", "damaged or dropped"),
    ("replay", "", "a TLP seen before"),
];

/// How a field compares with a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// `=`, `==`.
    Eq,
    /// `!=`.
    Ne,
    /// `<`.
    Lt,
    /// `<=`.
    Le,
    /// `>`.
    Gt,
    /// `>=`.
    Ge,
}

impl Op {
    const fn sign(self) -> &'static str {
        match self {
            Op::Eq => "=",
            Op::Ne => "!=",
            Op::Lt => "<",
            Op::Le => "<=",
            Op::Gt => ">",
            Op::Ge => ">=",
        }
    }

    const fn is_equality(self) -> bool {
        matches!(self, Op::Eq | Op::Ne)
    }

    fn holds(self, order: Ordering) -> bool {
        match self {
            Op::Eq => order.is_eq(),
            Op::Ne => order.is_ne(),
            Op::Lt => order.is_lt(),
            Op::Le => order.is_le(),
            Op::Gt => order.is_gt(),
            Op::Ge => order.is_ge(),
        }
    }
}

/// A field that is a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Number {
    /// `tag`.
    Tag,
    /// `len`, DW.
    Len,
    /// `bytes`.
    Bytes,
    /// `tc`.
    Tc,
    /// `vc`.
    Vc,
    /// `pasid`.
    Pasid,
    /// `code`.
    Code,
    /// `link`.
    Link,
    /// `number`.
    Number,
    /// `time`, ps.
    Time,
    /// `latency`, ps.
    Latency,
    /// `timestamp`, ps.
    Timestamp,
}

/// A term that is a word alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flag {
    /// `tlp`.
    Tlp,
    /// `dllp`.
    Dllp,
    /// `request`.
    Request,
    /// `completion`.
    Completion,
    /// `error`.
    Error,
    /// `poisoned`.
    Poisoned,
    /// `ecrc`.
    Ecrc,
    /// `prefix`.
    Prefix,
    /// `damaged`.
    Damaged,
    /// `dropped`.
    Dropped,
    /// `lost`.
    Lost,
    /// `replay`.
    Replay,
}

/// A field that is compared with a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A number, and its name.
    Number(Number, &'static str),
    /// `type`.
    Type,
    /// `requester`.
    Requester,
    /// `completer`.
    Completer,
    /// `addr`.
    Address,
    /// `status`.
    Status,
    /// `dir`.
    Direction,
    /// `interface`.
    Interface,
    /// `dllp`.
    Dllp,
    /// `class`.
    Class,
    /// `origin`.
    Origin,
    /// `ecrc`.
    Ecrc,
}

/// What a record's value is compared with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Test {
    /// A flag.
    Flag(Flag),
    /// A number compares so.
    Number(Number, Op, u128),
    /// A number lies in a range.
    Range(Number, Range<u128>),
    /// The bytes that a request names touch a range.
    Touches(Range<u128>),
    /// The first byte that a request names compares so.
    Address(Op, u64),
    /// The type is one of these formats, a bit each.
    Formats(u64),
    /// It is no TLP, but of this kind.
    Other(&'static str),
    /// Requester ID.
    Requester(Bdf),
    /// Completer ID.
    Completer(Bdf),
    /// Completion Status.
    Status(Status),
    /// Direction.
    Direction(Direction),
    /// Interface name.
    Interface(String),
    /// DLLP name, in lower case.
    Dllp(String),
    /// Flow-control class.
    Class(Class),
    /// Origin.
    Origin(crate::encap::Origin),
    /// ECRC.
    Ecrc(crate::decode::Ecrc),
}

/// A term of a filter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Term {
    test: Test,
    /// Turned round by `!=`, for records that have the field.
    negated: bool,
    /// As it reads.
    text: String,
}

/// Every name, for messages.
#[must_use]
pub fn names() -> String {
    FIELDS.map(|(name, _, _)| name).join(", ")
}

fn legal(name: &str) -> &'static str {
    FIELDS.iter().find(|(field, _, _)| *field == name).map_or("", |(_, legal, _)| legal)
}

impl Kind {
    /// The field of this name.
    ///
    /// # Errors
    /// A sentence with the legal names.
    pub fn of(name: &str) -> Result<Kind, String> {
        let number = |number, name| Ok(Kind::Number(number, name));
        match name {
            "type" => Ok(Kind::Type),
            "tag" => number(Number::Tag, "tag"),
            "requester" => Ok(Kind::Requester),
            "completer" => Ok(Kind::Completer),
            "addr" => Ok(Kind::Address),
            "status" => Ok(Kind::Status),
            "time" => number(Number::Time, "time"),
            "latency" => number(Number::Latency, "latency"),
            "timestamp" => number(Number::Timestamp, "timestamp"),
            "dir" => Ok(Kind::Direction),
            "len" => number(Number::Len, "len"),
            "bytes" => number(Number::Bytes, "bytes"),
            "tc" => number(Number::Tc, "tc"),
            "vc" => number(Number::Vc, "vc"),
            "pasid" => number(Number::Pasid, "pasid"),
            "code" => number(Number::Code, "code"),
            "link" => number(Number::Link, "link"),
            "number" => number(Number::Number, "number"),
            "class" => Ok(Kind::Class),
            "origin" => Ok(Kind::Origin),
            "interface" => Ok(Kind::Interface),
            "dllp" => Ok(Kind::Dllp),
            "ecrc" => Ok(Kind::Ecrc),
            _ if Term::flag(name).is_ok() => Err(format!("{name} stands alone: it has no value")),
            _ => Err(format!("unknown field {name:?}: legal are {}", names())),
        }
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Number(_, name) => name,
            Kind::Type => "type",
            Kind::Requester => "requester",
            Kind::Completer => "completer",
            Kind::Address => "addr",
            Kind::Status => "status",
            Kind::Direction => "dir",
            Kind::Interface => "interface",
            Kind::Dllp => "dllp",
            Kind::Class => "class",
            Kind::Origin => "origin",
            Kind::Ecrc => "ecrc",
        }
    }

    /// Its legal values.
    #[must_use]
    pub fn legal(self) -> &'static str {
        legal(self.name())
    }

    /// Whether it may be compared so.
    ///
    /// # Errors
    /// A sentence with the legal operators.
    pub fn check(self, name: &str, op: Op) -> Result<(), String> {
        match self {
            _ if op.is_equality() => Ok(()),
            Kind::Number(..) | Kind::Address => Ok(()),
            _ => Err(format!("{name} is not a number: legal are = and !=")),
        }
    }

    fn test(self, op: Op, value: &str) -> Option<Test> {
        match self {
            Kind::Number(number, _) => number.test(op, value),
            Kind::Address if !op.is_equality() => {
                Some(Test::Address(op, u64::try_from(integer(value)?).ok()?))
            }
            Kind::Address => Some(Test::Touches(match range(value) {
                Some(range) => range,
                None => integer(value).map(|at| at..at + 1)?,
            }))
            .filter(|test| matches!(test, Test::Touches(r) if r.end <= 1 << 64)),
            Kind::Type => type_of(value),
            Kind::Requester => value.parse().ok().map(Test::Requester),
            Kind::Completer => value.parse().ok().map(Test::Completer),
            Kind::Status => status(value).map(Test::Status),
            Kind::Direction => direction(value).map(Test::Direction),
            Kind::Interface => Some(Test::Interface(value.to_owned())),
            Kind::Dllp => Some(Test::Dllp(value.to_ascii_lowercase())).filter(|_| {
                !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
            }),
            Kind::Class => class(value).map(Test::Class),
            Kind::Origin => origin(value).map(Test::Origin),
            Kind::Ecrc => ecrc(value).map(Test::Ecrc),
        }
    }
}

impl Number {
    const fn is_duration(self) -> bool {
        matches!(self, Number::Time | Number::Latency | Number::Timestamp)
    }

    /// Its largest value.
    const fn max(self) -> u128 {
        match self {
            Number::Tag => 1023,
            Number::Len => 1024,
            Number::Bytes => 4096,
            Number::Tc | Number::Vc => 7,
            Number::Pasid => 0xf_ffff,
            Number::Code => 255,
            Number::Link => u16::MAX as u128,
            Number::Number => u64::MAX as u128,
            Number::Time | Number::Latency | Number::Timestamp => u128::MAX >> 1,
        }
    }

    fn test(self, op: Op, text: &str) -> Option<Test> {
        let value = |text| if self.is_duration() { duration_ps(text) } else { integer(text) };
        let legal = |value: &u128| *value <= self.max();
        if op.is_equality()
            && let Some((first, end)) = text.split_once("..")
        {
            let (first, end) = (value(first).filter(legal)?, value(end)?);
            return (first < end && end <= self.max() + 1).then_some(Test::Range(self, first..end));
        }
        // `!=` is turned round by the term.
        let op = if op == Op::Ne { Op::Eq } else { op };
        value(text).filter(legal).map(|value| Test::Number(self, op, value))
    }

    fn of(self, record: &Record<'_>, outcome: &Outcome) -> Option<u128> {
        match self {
            Number::Number => Some(record.number.into()).filter(|number| *number > 0),
            Number::Timestamp => (record.number > 0).then(|| record.timestamp.as_ps()),
            Number::Link => record.interface.map(|interface| interface.link.into()),
            Number::Vc => match &record.kind {
                What::Dllp(Dllp::FlowControl(fc)) => Some(fc.vc.id().into()),
                _ => None,
            },
            Number::Time => outcome.response_ps,
            Number::Latency => outcome.first_data_ps,
            _ => self.of_tlp(record.tlp()?),
        }
    }

    fn of_tlp(self, tlp: &TlpRecord<'_>) -> Option<u128> {
        let repr = &tlp.repr;
        match (self, &repr.body) {
            (Number::Tag, _) => Some(repr.transaction().1.bits().into()),
            (Number::Tc, _) => Some(repr.tc.bits().into()),
            (Number::Pasid, _) => tlp.prefixes.pasid().map(u128::from),
            (Number::Code, Body::Message(m)) => Some(m.code.into()),
            (Number::Len, Body::Memory(m)) => Some(m.span.length_dw().into()),
            (Number::Len, Body::Completion(c)) => c.length_dw.map(u128::from),
            (Number::Len, Body::Message(m)) => m.length_dw.map(u128::from),
            (Number::Len, Body::Atomic(a)) => Some(a.length_dw().into()),
            (Number::Len, Body::Config(_) | Body::Io(_)) => Some(1),
            (Number::Bytes, Body::Completion(_)) => Some(tlp.payload_bytes as u128),
            (Number::Bytes, _) => Some(named_bytes(repr).into()),
            _ => None,
        }
    }
}

impl Term {
    /// The flag of this name.
    ///
    /// # Errors
    /// A sentence with the legal names, or values.
    pub fn flag(name: &str) -> Result<Term, String> {
        let flag = match name {
            "tlp" => Flag::Tlp,
            "dllp" => Flag::Dllp,
            "request" => Flag::Request,
            "completion" => Flag::Completion,
            "error" => Flag::Error,
            "poisoned" => Flag::Poisoned,
            "ecrc" => Flag::Ecrc,
            "prefix" => Flag::Prefix,
            "damaged" => Flag::Damaged,
            "dropped" => Flag::Dropped,
            "lost" => Flag::Lost,
            "replay" => Flag::Replay,
            _ if FIELDS.iter().any(|(field, _, _)| *field == name) => {
                return Err(format!("{name} needs a value: legal is {}", legal(name)));
            }
            _ => return Err(format!("unknown term {name:?}: legal are {}", names())),
        };
        Ok(Term { test: Test::Flag(flag), negated: false, text: name.to_owned() })
    }

    /// A field compared with a value.
    ///
    /// # Errors
    /// A sentence with the legal values.
    pub fn compare(kind: Kind, op: Op, value: &str) -> Result<Term, String> {
        let name = kind.name();
        let test = kind
            .test(op, value)
            .ok_or_else(|| format!("{value:?} is no value of {name}: legal is {}", kind.legal()))?;
        Ok(Term { test, negated: op == Op::Ne, text: format!("{name}{}\"{value}\"", op.sign()) })
    }

    /// Whether it holds for a record.
    #[inline]
    pub(super) fn holds(&self, record: &Record<'_>, outcome: &Outcome) -> bool {
        self.test.holds(record, outcome).is_some_and(|holds| holds != self.negated)
    }

    /// Whether it holds for a transaction as a whole.
    pub(super) fn holds_for(&self, transaction: &Transaction) -> bool {
        let outcome = Outcome {
            response_ps: transaction.response_ps(),
            first_data_ps: transaction.first_data_ps(),
            errors: transaction.errors,
            replay: transaction.retries > 0,
            ..Outcome::default()
        };
        let holds = match &self.test {
            Test::Number(Number::Time, op, ps) => outcome.response_ps.map(|time| op.holds(time.cmp(ps))),
            Test::Number(Number::Latency, op, ps) => outcome.first_data_ps.map(|time| op.holds(time.cmp(ps))),
            Test::Range(Number::Time, range) => outcome.response_ps.map(|time| range.contains(&time)),
            Test::Range(Number::Latency, range) => outcome.first_data_ps.map(|time| range.contains(&time)),
            Test::Flag(Flag::Error) => Some(!outcome.errors.is_empty()),
            Test::Flag(Flag::Replay) => Some(outcome.replay),
            _ => None,
        };
        holds.is_some_and(|holds| holds != self.negated)
    }

    pub(super) fn asks_for_outcome(&self) -> bool {
        matches!(
            self.test,
            Test::Number(Number::Time | Number::Latency, ..)
                | Test::Range(Number::Time | Number::Latency, _)
                | Test::Flag(Flag::Error | Flag::Replay)
        )
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Test {
    /// `None` where the record does not have the field.
    #[inline]
    fn holds(&self, record: &Record<'_>, outcome: &Outcome) -> Option<bool> {
        match self {
            Test::Flag(flag) => Some(flag.holds(record, outcome)),
            Test::Number(number, op, value) => Some(op.holds(number.of(record, outcome)?.cmp(value))),
            Test::Range(number, range) => Some(range.contains(&number.of(record, outcome)?)),
            Test::Other(name) => Some(record.kind.type_name() == *name),
            Test::Direction(direction) => Some(record.interface?.direction? == *direction),
            Test::Interface(name) => Some(record.interface?.name == *name),
            Test::Dllp(name) => match &record.kind {
                What::Dllp(dllp) => Some(dllp_name(dllp).eq_ignore_ascii_case(name)),
                _ => None,
            },
            Test::Class(class) => match &record.kind {
                What::Dllp(Dllp::FlowControl(fc)) => Some(fc.class == *class),
                _ => Some(record.tlp()?.repr.format().class == *class),
            },
            // A record that is no TLP has a type too, and it is another.
            Test::Formats(formats) => match &record.kind {
                What::Tlp(tlp) => Some(formats >> tlp.repr.format().id as u32 & 1 == 1),
                _ => Some(false),
            },
            _ => self.holds_for_tlp(record.tlp()?),
        }
    }

    fn holds_for_tlp(&self, tlp: &TlpRecord<'_>) -> Option<bool> {
        let body = &tlp.repr.body;
        match self {
            Test::Requester(id) => Some(tlp.repr.transaction().0 == *id),
            Test::Completer(id) => match body {
                Body::Completion(c) => Some(c.completer == *id),
                Body::Config(c) => Some(c.completer == *id),
                _ => None,
            },
            Test::Status(status) => match body {
                Body::Completion(c) => Some(c.status == *status),
                _ => None,
            },
            Test::Touches(range) => {
                touched(tlp).map(|bytes| bytes.start < range.end && range.start < bytes.end)
            }
            Test::Address(op, at) => touched(tlp).map(|bytes| op.holds(bytes.start.cmp(&u128::from(*at)))),
            Test::Origin(origin) => Some(tlp.origin == *origin),
            Test::Ecrc(ecrc) => Some(tlp.ecrc? == *ecrc),
            _ => None,
        }
    }
}

/// The bytes that a memory, I/O or atomic request names.
fn touched(tlp: &TlpRecord<'_>) -> Option<Range<u128>> {
    match (&tlp.repr.body, Target::of(&tlp.repr)) {
        (Body::Completion(_), _) => None,
        (_, Target::Address(address)) => {
            Some(address.into()..u128::from(address) + u128::from(named_bytes(&tlp.repr)))
        }
        _ => None,
    }
}

impl Flag {
    fn holds(self, record: &Record<'_>, outcome: &Outcome) -> bool {
        let tlp = record.tlp();
        let is_completion = |t: &TlpRecord<'_>| matches!(t.repr.body, Body::Completion(_));
        match self {
            Flag::Tlp => tlp.is_some(),
            Flag::Dllp => matches!(record.kind, What::Dllp(_)),
            Flag::Request => tlp.is_some_and(|t| !is_completion(t)),
            Flag::Completion => tlp.is_some_and(is_completion),
            Flag::Poisoned => tlp.is_some_and(|t| t.repr.ep),
            Flag::Ecrc => tlp.is_some_and(|t| t.ecrc.is_some()),
            Flag::Prefix => tlp.is_some_and(|t| !t.prefixes.is_empty()),
            Flag::Damaged => record.mark.damaged,
            Flag::Dropped => record.mark.dropped,
            Flag::Lost => record.mark.is_lost(),
            Flag::Replay => outcome.replay,
            Flag::Error => is_error(record, outcome),
        }
    }
}

fn is_error(record: &Record<'_>, outcome: &Outcome) -> bool {
    let failed =
        |t: &TlpRecord<'_>| matches!(&t.repr.body, Body::Completion(c) if c.status != Status::Success);
    matches!(record.kind, What::Bad(_))
        || record.mark.is_lost()
        || outcome
            .errors
            .intersects(Errors::UNEXPECTED_COMPLETION | Errors::BYTE_COUNT | Errors::DUPLICATE_TAG)
        || record.tlp().is_some_and(|t| failed(t) || !errors_of(t).is_empty())
}
