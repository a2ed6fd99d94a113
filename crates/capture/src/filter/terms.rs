// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The terms of a filter: meaning and legal values of each field, and how they match records.
//!
//! [`FIELDS`] defines all terms as data. The trace page reads it as JSON, so its fields, flags, legal values and
//! messages are the same.

use super::FilterErrorKind;
use super::values::{self, integer};
use crate::decode::{Kind as What, Record, TlpRecord};
use crate::matcher::{Errors, Target, Transaction, named_bytes};
use crate::reader::Interface;
use crate::render::object::Object;
use crate::render::{class_name, dllp_name, status_name};
use crate::time::{Timestamp as Instant, duration_ps};
use crate::transactions::{Outcome, errors_of};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use tlp::{Bdf, Body, Dllp, Repr, Status};

/// A field or flag.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The name in expressions.
    pub name: &'static str,
    /// Its legal values; empty for a flag.
    pub legal: &'static str,
    /// Description of the field, or of the records that the flag matches.
    pub what: &'static str,
    /// Type of its value; `None` for a flag.
    value: Option<Value>,
    /// Meaning of the name alone; `None` if the field needs a value.
    flag: Option<Flag>,
}

/// The type of a value, which determines how its text is parsed.
#[derive(Clone, Copy, Debug)]
enum Value {
    /// A number, with its maximum.
    Number(Number, u128),
    /// An address, or a range of addresses.
    Address,
    /// Number of a link, or name of the slot or switch at its end.
    Link,
    /// A word, which supports only `=` and `!=`.
    Word(Word),
    /// ID of a function.
    Id(Id),
}

const fn number(name: &'static str, legal: &'static str, what: &'static str, of: Number, max: u128) -> Field {
    Field { name, legal, what, value: Some(Value::Number(of, max)), flag: None }
}

const fn word(name: &'static str, legal: &'static str, what: &'static str, of: Word) -> Field {
    Field { name, legal, what, value: Some(Value::Word(of)), flag: None }
}

const fn id(name: &'static str, what: &'static str, of: Id) -> Field {
    let legal = "bus:device.function such as 01:00.0";
    Field { name, legal, what, value: Some(Value::Id(of)), flag: None }
}

const fn flag(name: &'static str, what: &'static str, flag: Flag) -> Field {
    Field { name, legal: "", what, value: None, flag: Some(flag) }
}

impl Field {
    /// Returns the field, which then may also be used without a value.
    const fn or(self, flag: Flag) -> Field {
        Field { flag: Some(flag), ..self }
    }
}

/// The maximum time in picoseconds.
const MAX_PS: u128 = u128::MAX >> 1;

/// All fields and flags.
pub const FIELDS: [Field; 36] = [
    word(
        "type",
        "a type of TLP such as MRd, MWr or CplD, or dllp, other or error",
        "type of the record",
        Word::Type,
    ),
    number("tag", "0 to 1023, or a range such as 0..32", "tag of a TLP", Number::Tag, 1023),
    id("requester", "Requester ID of a TLP", Id::Requester),
    id("completer", "Completer ID of a completion or configuration request", Id::Completer),
    Field {
        name: "addr",
        legal: "an address, or a range without its end such as 0x1000..0x2000",
        what: "memory, I/O and atomic requests that access it; with <, <=, > and >=, address of their first byte",
        value: Some(Value::Address),
        flag: None,
    },
    word("status", "success, SC, UR, CRS or CA", "status of a completion", Word::Status),
    number(
        "time",
        "a duration such as 1us: ps, ns, us, ms or s",
        "time from the first request of a transaction to its last completion; only the last completion has this field",
        Number::Time,
        MAX_PS,
    ),
    number(
        "latency",
        "a duration such as 600ns: ps, ns, us, ms or s",
        "time from the first request of a transaction to its first data; only the last completion has this field",
        Number::Latency,
        MAX_PS,
    ),
    number(
        "timestamp",
        "a duration such as 10us: ps, ns, us, ms or s",
        "time since the start of the run; in captures of other programs, since 1970",
        Number::Timestamp,
        MAX_PS,
    ),
    word("dir", "up or down", "direction, if the capture has it", Word::Direction),
    number("len", "DW, 0 to 1024, or a range", "Length of a TLP that has one", Number::Len, 1024),
    number(
        "bytes",
        "bytes, or a range",
        "number of bytes that a request accesses, or that a completion returns",
        Number::Bytes,
        4096,
    ),
    number("tc", "0 to 7, or a range", "Traffic Class of a TLP", Number::Tc, 7),
    number("vc", "0 to 7, or a range", "virtual channel of a flow-control DLLP", Number::Vc, 7),
    number(
        "pasid",
        "0 to 1048575, or a range",
        "PASID of a TLP with a PASID prefix",
        Number::Pasid,
        0xf_ffff,
    ),
    number("code", "0 to 255, or a range", "Message Code of a message", Number::Code, 255),
    word("class", "P, NP or Cpl", "flow-control class of a TLP, or of a flow-control DLLP", Word::Class),
    word(
        "origin",
        "device or host",
        "side that issued the request, or the request of this completion, as the UDP port shows",
        Word::Origin,
    ),
    word("interface", "a name such as link0:upstream", "interface of the record", Word::Interface),
    Field {
        name: "link",
        legal: "a number, a range, or the name of a slot or switch",
        what: "link of the record: its number from 0, or the slot or switch at its end",
        value: Some(Value::Link),
        flag: None,
    },
    word(
        "slot",
        "the name of a slot or switch",
        "slot or switch at the end of the record's link",
        Word::Slot,
    ),
    word("end", "root or device", "end of the link at which the record was captured", Word::End),
    number(
        "number",
        "a number, or a range",
        "number of the frame in the file, from 1",
        Number::Frame,
        u64::MAX as u128,
    ),
    word(
        "dllp",
        "Ack, Nak, InitFC1, InitFC2, UpdateFC, NOP or another name; without a value, any DLLP",
        "a DLLP",
        Word::Dllp,
    )
    .or(Flag::Dllp),
    flag("tlp", "a TLP", Flag::Tlp),
    flag("request", "a TLP that is not a completion", Flag::Request),
    flag("completion", "a completion", Flag::Completion),
    flag(
        "error",
        "unreadable, failed, poisoned, bad ECRC, damaged, dropped, unexpected, wrong Byte Count or duplicate tag; not a bus probe",
        Flag::Error,
    ),
    flag(
        "probe",
        "Unsupported Request for a read of the Vendor ID of a function that does not exist, as in enumeration",
        Flag::Probe,
    ),
    flag("poisoned", "EP is set", Flag::Poisoned),
    word("ecrc", "good or bad; without a value, both", "a TLP whose ECRC was checked", Word::Ecrc)
        .or(Flag::Ecrc),
    flag("prefix", "a TLP with prefixes", Flag::Prefix),
    flag("damaged", "bits were flipped on the link", Flag::Damaged),
    flag("dropped", "lost on the link", Flag::Dropped),
    flag("lost", "damaged or dropped", Flag::Lost),
    flag("replay", "a TLP that was seen before", Flag::Replay),
];

/// A field as JSON for the trace page.
///
/// - `name`, `legal`, `what`: as in [`Field`].
/// - `kind`: type of its value: `number`, `duration` (picoseconds between two records), `instant` (picoseconds
///   since the start of the capture's clock), `address`, `id`, `link` or `word`; `null` for a flag.
/// - `max`: the largest number, if it fits into 32 bits.
/// - `words`: pairs of a legal word in any case and its value in records; `null` if any text is legal.
/// - `is_flag`: true if the name may be used without a value.
impl Serialize for Field {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (kind, max, words) = match self.value {
            None => (None, None, None),
            Some(Value::Number(number, max)) => (Some(number.kind()), u32::try_from(max).ok(), None),
            Some(Value::Address) => (Some("address"), None, None),
            Some(Value::Link) => (Some("link"), None, None),
            Some(Value::Id(_)) => (Some("id"), None, None),
            Some(Value::Word(word)) => (Some("word"), None, word.legal()),
        };
        let mut o = Object(serializer.serialize_map(None)?);
        o.put("name", self.name)?;
        o.put("legal", self.legal)?;
        o.put("what", self.what)?;
        o.put("kind", kind)?;
        o.put("max", max)?;
        o.put("words", words)?;
        o.put("is_flag", self.flag.is_some())?;
        o.0.end()
    }
}

/// The operator of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Op {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
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

    /// Returns the numbers that match a comparison with `value`. For `!=`, returns those of `=`, because the term
    /// negates the result.
    const fn numbers(self, value: u128) -> Range<u128> {
        match self {
            Op::Eq | Op::Ne => value..value + 1,
            Op::Lt => 0..value,
            Op::Le => 0..value + 1,
            Op::Gt => value + 1..u128::MAX,
            Op::Ge => value..u128::MAX,
        }
    }
}

/// A field that is a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Number {
    Tag,
    /// Length in DW.
    Len,
    Bytes,
    /// Address of the first byte.
    FirstByte,
    Tc,
    Vc,
    Pasid,
    Code,
    Link,
    /// Frame number in the file, from 1.
    Frame,
    /// Picoseconds, like the next two.
    Time,
    Latency,
    Timestamp,
}

/// A term without a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flag {
    Tlp,
    Dllp,
    Request,
    Completion,
    Error,
    Probe,
    Poisoned,
    Ecrc,
    Prefix,
    Damaged,
    Dropped,
    Lost,
    Replay,
}

/// A field with words as values, as in the lines of records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Word {
    Slot,
    End,
    Type,
    Status,
    Direction,
    Class,
    Origin,
    Interface,
    Dllp,
    Ecrc,
}

/// A field with a function as value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Id {
    Requester,
    Completer,
}

/// The condition of a term.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Test {
    Flag(Flag),
    /// A number is in a range.
    Number(Number, Range<u128>),
    /// The bytes of a request overlap a range.
    Touches(Range<u128>),
    /// A word has this value.
    Word(Word, String),
    /// An ID has this value.
    Id(Id, Bdf),
}

/// A term of a filter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Term {
    test: Test,
    /// True for `!=`. Only matches records that have the field.
    negated: bool,
    /// Text of the term.
    text: String,
}

/// Maximum number of names of a capture that a message contains.
const MAX_NAMES: usize = 20;

/// All names, for messages.
pub(super) fn names() -> String {
    FIELDS.map(|field| field.name).join(", ")
}

/// Suggests a field if its name is an abbreviation of `name` (as `dir` is of `direction`), `name` is one of its
/// name, or the two differ in at most a third of the letters. Also suggests `bytes` for `size`.
fn suggestion(name: &str) -> String {
    if name == "size" {
        return "; did you mean bytes?".to_owned();
    }
    let is_near =
        |field: &&Field| name.len() >= 2 && (name.starts_with(field.name) || field.name.starts_with(name));
    let abbreviated = FIELDS.iter().filter(is_near).max_by_key(|field| field.name.len());
    let misspelled = || {
        let distances = FIELDS.iter().map(|field| (strsim::osa_distance(name, field.name), field));
        let nearest = distances.min_by_key(|(distance, _)| *distance);
        nearest.filter(|(distance, _)| *distance <= name.len() / 3).map(|(_, field)| field)
    };
    let nearest = abbreviated.or_else(misspelled);
    nearest.map_or_else(String::new, |field| format!("; did you mean {}?", field.name))
}

/// The names that are legal in place of `name`.
fn legal(name: &str) -> String {
    names() + &suggestion(name)
}

impl Field {
    fn named(name: &str) -> Option<Field> {
        FIELDS.into_iter().find(|field| field.name == name)
    }

    /// Returns the field of this name, for a comparison with a value.
    ///
    /// # Errors
    /// The name is unknown or a flag.
    pub(super) fn compared(name: &str) -> Result<Field, FilterErrorKind> {
        match Field::named(name) {
            Some(field) if field.value.is_some() => Ok(field),
            Some(_) => Err(FilterErrorKind::Flag(name.to_owned())),
            None => Err(FilterErrorKind::UnknownField { name: name.to_owned(), legal: legal(name) }),
        }
    }

    /// The legal values.
    pub(super) const fn legal(&self) -> &'static str {
        self.legal
    }

    /// Checks that an operator is legal for the field.
    ///
    /// # Errors
    /// The field has no order, and the operator is not = or !=.
    pub(super) fn check(&self, op: Op) -> Result<(), FilterErrorKind> {
        match self.value {
            Some(Value::Word(_) | Value::Id(_)) if !op.is_equality() => {
                Err(FilterErrorKind::NotNumber(self.name))
            }
            _ => Ok(()),
        }
    }

    fn test(&self, op: Op, text: &str) -> Option<Test> {
        match self.value? {
            Value::Number(number, max) => number.test(max, op, text),
            Value::Address if op.is_equality() => {
                let single = || integer(text).map(|at| at..at + 1);
                values::range(text).or_else(single).filter(|range| range.end <= 1 << 64).map(Test::Touches)
            }
            Value::Address => Number::FirstByte.test(u64::MAX.into(), op, text),
            Value::Link => Number::Link.test(0xffff, op, text).or_else(|| {
                let is_name = op.is_equality() && !text.is_empty();
                is_name.then(|| Test::Word(Word::Slot, text.to_owned()))
            }),
            Value::Word(word) => word.named(text).map(|name| Test::Word(word, name.to_owned())),
            Value::Id(id) => text.parse().ok().map(|function| Test::Id(id, function)),
        }
    }
}

impl Number {
    /// The field's `kind` in JSON.
    const fn kind(self) -> &'static str {
        match self {
            Number::Time | Number::Latency => "duration",
            Number::Timestamp => "instant",
            _ => "number",
        }
    }

    fn test(self, max: u128, op: Op, text: &str) -> Option<Test> {
        let is_number = self.kind() == "number";
        let value = |text| if is_number { integer(text) } else { duration_ps(text) };
        let legal = |value: &u128| *value <= max;
        if op.is_equality()
            && let Some((first, end)) = text.split_once("..")
        {
            let (first, end) = (value(first).filter(legal)?, value(end)?);
            return (first < end && end <= max + 1).then_some(Test::Number(self, first..end));
        }
        value(text).filter(legal).map(|value| Test::Number(self, op.numbers(value)))
    }

    fn of(self, record: &Record<'_>, outcome: &Outcome) -> Option<u128> {
        match self {
            Number::Frame => Some(record.number.into()).filter(|number| *number > 0),
            Number::Timestamp => record.time().map(Instant::as_ps),
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
            (Number::FirstByte, _) => touched(tlp).map(|bytes| bytes.start),
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

impl Word {
    /// Returns the word of a record.
    fn of<'a>(self, record: &'a Record<'_>) -> Option<&'a str> {
        let tlp = record.tlp();
        Some(match (self, &record.kind) {
            // All records have a type, not only TLPs.
            (Word::Type, kind) => kind.type_name(),
            (Word::Direction, _) => record.direction?.name(),
            (Word::Interface, _) => &record.interface?.name,
            (Word::Slot, _) => Some(&*record.interface?.slot).filter(|slot| !slot.is_empty())?,
            (Word::End, _) => record.interface?.end?.name(),
            (Word::Dllp, What::Dllp(dllp)) => dllp_name(dllp),
            (Word::Class, What::Dllp(Dllp::FlowControl(fc))) => class_name(fc.class),
            (Word::Class, _) => class_name(tlp?.repr.format().class),
            (Word::Origin, _) => tlp?.origin.name(),
            (Word::Ecrc, _) => tlp?.ecrc?.name(),
            (Word::Status, What::Tlp(TlpRecord { repr: Repr { body: Body::Completion(c), .. }, .. })) => {
                status_name(c.status)
            }
            (Word::Status | Word::Dllp, _) => return None,
        })
    }

    /// Returns the value in records for a word of an expression; `None` if the word is not legal.
    fn named(self, text: &str) -> Option<&str> {
        let Some(words) = self.legal() else {
            return Some(text).filter(|text| self != Word::Dllp || values::is_dllp(text));
        };
        words.into_iter().find(|(word, _)| word.eq_ignore_ascii_case(text)).map(|(_, name)| name)
    }

    /// Legal words with their values in records; `None` if any text is legal.
    fn legal(self) -> Option<Vec<(&'static str, &'static str)>> {
        let words: &[(&str, &str)] = match self {
            Word::Type => return Some(values::types().map(|name| (name, name)).collect()),
            Word::Dllp | Word::Interface | Word::Slot => return None,
            Word::End => &[("root", "root"), ("device", "device")],
            Word::Status => &[("success", "SC"), ("SC", "SC"), ("UR", "UR"), ("CRS", "CRS"), ("CA", "CA")],
            Word::Direction => &[
                ("up", "upstream"),
                ("upstream", "upstream"),
                ("down", "downstream"),
                ("downstream", "downstream"),
            ],
            Word::Class => &[
                ("P", "P"),
                ("posted", "P"),
                ("NP", "NP"),
                ("nonposted", "NP"),
                ("Cpl", "Cpl"),
                ("completion", "Cpl"),
            ],
            Word::Origin => &[("device", "device"), ("host", "host")],
            Word::Ecrc => &[("good", "good"), ("bad", "bad")],
        };
        Some(words.to_vec())
    }
}

impl Id {
    fn of(self, repr: &Repr) -> Option<Bdf> {
        match (self, &repr.body) {
            (Id::Requester, _) => Some(repr.transaction().0),
            (Id::Completer, Body::Completion(c)) => Some(c.completer),
            (Id::Completer, Body::Config(c)) => Some(c.completer),
            (Id::Completer, _) => None,
        }
    }
}

impl Term {
    /// Returns the flag of this name.
    ///
    /// # Errors
    /// The name is unknown or needs a value.
    pub(super) fn flag(name: &str) -> Result<Term, FilterErrorKind> {
        let field = Field::named(name)
            .ok_or_else(|| FilterErrorKind::UnknownTerm { name: name.to_owned(), legal: legal(name) })?;
        let Field { name, legal, .. } = field;
        let flag = field.flag.ok_or(FilterErrorKind::NeedsValue { name, legal })?;
        Ok(Term { test: Test::Flag(flag), negated: false, text: name.to_owned() })
    }

    /// Returns the comparison of a field with a value.
    ///
    /// # Errors
    /// The value is not legal.
    pub(super) fn compare(field: &Field, op: Op, value: &str) -> Result<Term, FilterErrorKind> {
        let Field { name, legal, .. } = *field;
        let illegal = || FilterErrorKind::Value { value: value.to_owned(), name, legal };
        let test = field.test(op, value).ok_or_else(illegal)?;
        Ok(Term { test, negated: op == Op::Ne, text: format!("{name}{}\"{value}\"", op.sign()) })
    }

    /// Returns true if the term matches a record.
    pub(super) fn holds(&self, record: &Record<'_>, outcome: &Outcome) -> bool {
        self.test.holds(record, outcome).is_some_and(|holds| holds != self.negated)
    }

    /// Returns a message with the names in `known`, if the term compares with a slot, link or interface that is not
    /// in it.
    pub(super) fn unknown_name(&self, known: &[Interface]) -> Option<String> {
        let is_known = |interface: &Interface| match &self.test {
            Test::Word(Word::Slot, slot) => *interface.slot == **slot,
            Test::Word(Word::Interface, name) => interface.name == *name,
            Test::Number(Number::Link, links) => links.contains(&interface.link.into()),
            _ => true,
        };
        if known.is_empty() || known.iter().any(is_known) {
            return None;
        }
        let name = |interface: &Interface| match &self.test {
            Test::Word(Word::Interface, _) => interface.name.clone(),
            Test::Word(Word::Slot, _) => interface.slot.to_string(),
            _ => interface.link.to_string(),
        };
        let names: BTreeSet<String> = known.iter().map(name).filter(|name| !name.is_empty()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).take(MAX_NAMES).collect();
        let names = if names.is_empty() { "no names".to_owned() } else { names.join(", ") };
        Some(format!("{}: not in the capture, which has {names}", self.text))
    }

    /// Returns true if the term matches a transaction as a whole.
    pub(super) fn holds_for(&self, transaction: &Transaction) -> bool {
        let within = |ps: Option<u128>, range: &Range<u128>| ps.map(|ps| range.contains(&ps));
        let holds = match &self.test {
            Test::Number(Number::Time, range) => within(transaction.response_ps(), range),
            Test::Number(Number::Latency, range) => within(transaction.first_data_ps(), range),
            Test::Flag(Flag::Error) => Some(!transaction.errors.is_empty()),
            Test::Flag(Flag::Probe) => Some(transaction.is_probe),
            Test::Flag(Flag::Replay) => Some(transaction.retries > 0),
            _ => None,
        };
        holds.is_some_and(|holds| holds != self.negated)
    }

    pub(super) fn asks_for_outcome(&self) -> bool {
        matches!(
            self.test,
            Test::Number(Number::Time | Number::Latency, _)
                | Test::Flag(Flag::Error | Flag::Probe | Flag::Replay)
        )
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Test {
    /// Returns the result for a record; `None` if the record does not have the field.
    fn holds(&self, record: &Record<'_>, outcome: &Outcome) -> Option<bool> {
        match self {
            Test::Flag(flag) => Some(flag.holds(record, outcome)),
            Test::Number(number, range) => Some(range.contains(&number.of(record, outcome)?)),
            Test::Touches(range) => {
                touched(record.tlp()?).map(|bytes| bytes.start < range.end && range.start < bytes.end)
            }
            Test::Word(Word::Dllp, name) => Some(Word::Dllp.of(record)?.eq_ignore_ascii_case(name)),
            Test::Word(word, name) => Some(word.of(record)? == name),
            Test::Id(id, function) => Some(id.of(&record.tlp()?.repr)? == *function),
        }
    }
}

/// Returns the address range of a memory, I/O or atomic request.
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
            Flag::Probe => outcome.probe,
            Flag::Error => is_error(record, outcome),
        }
    }
}

/// Returns true if a record is an error. `outcome` is its effect on the transactions. The status of a completion
/// counts only if the receiver took the completion and it does not end a bus probe.
pub(crate) fn is_error(record: &Record<'_>, outcome: &Outcome) -> bool {
    let fails = outcome.taken && !outcome.probe;
    let failed = |t: &TlpRecord<'_>| {
        fails && matches!(&t.repr.body, Body::Completion(c) if c.status != Status::Success)
    };
    matches!(record.kind, What::Bad(_))
        || record.mark.is_lost()
        || outcome
            .errors
            .intersects(Errors::UNEXPECTED_COMPLETION | Errors::BYTE_COUNT | Errors::DUPLICATE_TAG)
        || record.tlp().is_some_and(|t| failed(t) || !errors_of(t).is_empty())
}
