// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transactions as text: a line, or a JSON object. A line is built piece by piece, since a million of them a second are asked
//! for, and allocates nothing once `out` has grown.
//!
//! # The JSON object
//!
//! One line a transaction. A field is there where the transaction has it; numbers are integers.
//!
//! | field | unit, form | where |
//! |---|---|---|
//! | `type` | type of the request; `Cpl`, `CplD`, `CplLk`, `CplDLk` of an unexpected completion | all |
//! | `number` | of the request's record, from 1 | all |
//! | `timestamp_ps` | when the request was first seen: picoseconds since 1970, in riser's captures since the start of the run | where the file has times |
//! | `line` | of the request in the file, from 1 | text |
//! | `link`, `direction` | number from 0 on; `downstream`, `upstream`: of the request, where it was seen first | all; where the capture names it |
//! | `slot` | the slot or switch that this link leads to | where the capture names it |
//! | `requester`, `tag`, `tc` | `bus:device.function` in hexadecimal; 0 to 1023; 0 to 7 | all |
//! | `address` | of the first byte; of an unexpected completion its Lower Address | all but configuration requests, messages |
//! | `completer`, `register` | the function, as `requester`; byte offset in its configuration space | configuration requests |
//! | `message_code`, `message_name` | 0 to 255; its name in the specification, where the code is known | messages |
//! | `request_bytes` | bytes that the request names; of an unexpected completion its Byte Count | all |
//! | `completions` | how many, each counted once | all |
//! | `status` | `SC`, `UR`, `CRS`, `CA`, of the last completion; null without one | all |
//! | `data_bytes` | bytes that completions brought | answered |
//! | `latency_ps` | from the first request to the last completion | answered, where the file has times |
//! | `first_data_ps` | from the first request to the first data | answered with data, likewise |
//! | `throughput_mbps` | `data_bytes` per `latency_ps`, megabits per second | answered with data, likewise |
//! | `packets`, `retries` | TLPs seen on all links, and of them those sent again | all |
//! | `ack_number`, `ack_ps` | record of the Ack or Nak that covers the request; from the request to it | where known |
//! | `completion_ack_number`, `completion_ack_ps` | likewise of the last completion, from it on | where known |
//! | `ack` | `none`: the capture would tell, but none came | likewise |
//! | `means` | what its request means: configuration registers by name and field, interrupts, registers of devices | where the capture tells, and it was asked for |
//! | `probe` | true: Unsupported Request to a read of the Vendor ID of a function that is not there, which is no error | bus probes |
//! | `hops` | list, link by link: `link`, `slot`, `direction`, `number` of the request's record; `since_start_ps`, from the first request to the one there, where the file has times; `latency_ps`, from there to the next link and back, on the last until its answer, null where nothing answers | seen on several links |
//! | `errors` | list of names, see [`Errors::names`](crate::matcher::Errors::names) | where there are any |

use crate::matcher::{Ack, Errors, Leg, Target, Transaction};
use crate::names::Meaning;
use crate::reader::{Direction, Interface};
use crate::render::object::{self, Object, Text};
use crate::render::{append_bdf, append_hex, append_when, status_name};
use crate::time::{Timestamp, append_decimal};
use serde::ser::{Serialize, SerializeMap, Serializer};
use tlp::{Format, Status};

/// Appends one line for a transaction, without a line end; the time with `digits` behind the point. Without a time it begins with the
/// line of the request in a text, or with its number.
pub fn append_line(t: &Transaction, digits: u8, out: &mut String) {
    append_when(t.start_time(), digits, t.line, t.request_number, out);
    out.push(' ');
    out.push_str(Format::get(t.format).name);
    if let Some(direction) = t.direction {
        out.push(' ');
        Interface::append_link(t.requester.link, &t.slot, out);
        out.push(':');
        out.push_str(direction.name());
    }
    out.push_str(" requester ");
    append_bdf(t.requester.id, out);
    out.push_str(", tag 0x");
    append_hex(t.tag.bits().into(), 2, out);
    append_target(t.target, out);
    number(out, ", ", t.bytes.into(), " bytes");
    if t.is_posted() {
        out.push_str(": posted");
    } else {
        append_answer(t, out);
    }
    append_acks(t, out);
    append_hops(t, out);
    if t.retries > 0 {
        number(out, ", ", t.retries.into(), if t.retries == 1 { " retry" } else { " retries" });
    }
    if t.is_probe {
        out.push_str("; bus probe");
    }
    let mut lead = "; error: ";
    for name in t.errors.names() {
        out.push_str(lead);
        out.push_str(name);
        lead = ", ";
    }
}

fn append_target(target: Target, out: &mut String) {
    match target {
        Target::Address(address) => {
            out.push_str(", Addr 0x");
            append_hex(address, 8, out);
        }
        Target::Register { function, offset } => {
            out.push_str(", completer ");
            append_bdf(function, out);
            out.push_str(", register 0x");
            append_hex(offset.into(), 3, out);
        }
        Target::Message { code, name } => {
            out.push_str(", code 0x");
            append_hex(code.into(), 2, out);
            out.push_str(if name.is_some() { " " } else { "" });
            out.push_str(name.unwrap_or_default());
        }
    }
}

fn append_answer(t: &Transaction, out: &mut String) {
    let plural = if t.completions == 1 { " completion" } else { " completions" };
    number(out, ": ", t.completions.into(), plural);
    if let Some(status) = t.status {
        out.push_str(", ");
        out.push_str(if status == Status::Success { "success" } else { status_name(status) });
    }
    if t.errors.contains(Errors::UNEXPECTED_COMPLETION) {
        return;
    }
    if let Some(ps) = t.first_data_ps() {
        out.push_str(", first data ");
        append_ns(ps, out);
    }
    if let Some(ps) = t.response_ps() {
        out.push_str(", response ");
        append_ns(ps, out);
    }
    if let Some(mbps) = t.throughput_mbps() {
        number(out, ", ", mbps / 1000, ".");
        append_decimal(out, mbps % 1000, 3);
        out.push_str(" Gb/s");
    }
}

fn append_acks(t: &Transaction, out: &mut String) {
    match t.ack {
        Ack::Unknown => {}
        Ack::None => out.push_str(", no Ack"),
        Ack::Seen { time, .. } => {
            out.push_str(", Ack ");
            append_ns(time.since_ps(t.start), out);
        }
    }
}

/// The time from each link to the next one and back.
fn append_hops(t: &Transaction, out: &mut String) {
    if t.hops.is_empty() {
        return;
    }
    let mut lead = ", over ";
    for leg in t.legs() {
        out.push_str(lead);
        Interface::append_link(leg.hop.link, &leg.hop.slot, out);
        if let Some(ps) = leg.latency_ps {
            out.push(' ');
            append_ns(ps, out);
        }
        lead = " > ";
    }
}

/// Picoseconds as nanoseconds, with three digits behind the point.
fn append_ns(ps: u128, out: &mut String) {
    let ps = narrow(ps);
    append_decimal(out, ps / 1000, 1);
    out.push('.');
    append_decimal(out, ps % 1000, 3);
    out.push_str(" ns");
}

fn number(out: &mut String, before: &str, value: u64, behind: &str) {
    out.push_str(before);
    append_decimal(out, value, 1);
    out.push_str(behind);
}

/// Appends the JSON object of a transaction, without a line end.
pub fn append_json(t: &Transaction, out: &mut String) {
    object::append(&JsonTransaction { transaction: t, meaning: None }, out);
}

/// The JSON object of a transaction; its fields are in the head of this module.
#[derive(Clone, Copy)]
pub struct JsonTransaction<'a> {
    /// The transaction.
    pub transaction: &'a Transaction,
    /// What its request means, where that is known and asked for.
    pub meaning: Option<&'a Meaning>,
}

impl Serialize for JsonTransaction<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let t = self.transaction;
        let mut o = Object(serializer.serialize_map(None)?);
        o.put("type", Format::get(t.format).name)?;
        o.put("number", t.request_number)?;
        o.some("timestamp_ps", t.start_time())?;
        o.some("line", t.line)?;
        o.put("link", t.requester.link)?;
        o.some("slot", Some(&*t.slot).filter(|slot| !slot.is_empty()))?;
        o.some("direction", t.direction)?;
        o.put("requester", Text(t.requester.id))?;
        o.put("tag", t.tag.bits())?;
        o.put("tc", t.tc)?;
        o.target(t.target)?;
        o.put("request_bytes", t.bytes)?;
        o.put("completions", t.completions)?;
        o.answer(t)?;
        o.put("packets", t.packets())?;
        o.put("retries", t.retries)?;
        o.ack(["ack_number", "ack_ps"], t.ack, t.start)?;
        o.ack(["completion_ack_number", "completion_ack_ps"], t.completion_ack, t.end)?;
        let is_missing = [t.ack, t.completion_ack].contains(&Ack::None);
        o.some("ack", is_missing.then_some("none"))?;
        o.flag("probe", t.is_probe)?;
        let errors: Vec<&str> = t.errors.names().collect();
        o.some("errors", Some(errors).filter(|errors| !errors.is_empty()))?;
        o.some("means", self.meaning.map(Text))?;
        // Most transactions have one link: legs are made only for the others.
        let legs = if t.hops.is_empty() { Vec::new() } else { t.legs() };
        let hops: Vec<JsonLeg<'_>> = legs.iter().map(|leg| JsonLeg::new(leg, t)).collect();
        o.some("hops", Some(hops).filter(|hops| !hops.is_empty()))?;
        o.0.end()
    }
}

/// A link of a transaction that several show.
#[derive(serde::Serialize)]
struct JsonLeg<'a> {
    link: u16,
    #[serde(skip_serializing_if = "str::is_empty")]
    slot: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    direction: Option<Direction>,
    number: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    since_start_ps: Option<u64>,
    latency_ps: Option<u64>,
}

impl JsonLeg<'_> {
    fn new<'a>(Leg { hop, latency_ps }: &'a Leg, t: &Transaction) -> JsonLeg<'a> {
        JsonLeg {
            link: hop.link,
            slot: &hop.slot,
            direction: hop.direction,
            number: hop.request_number,
            since_start_ps: t.has_times.then(|| narrow(hop.start.since_ps(t.start))),
            latency_ps: latency_ps.map(narrow),
        }
    }
}

/// Converts picoseconds to 64 bits, limited to the maximum.
fn narrow(ps: u128) -> u64 {
    u64::try_from(ps).unwrap_or(u64::MAX)
}

impl<M: SerializeMap> Object<M> {
    fn target(&mut self, target: Target) -> Result<(), M::Error> {
        match target {
            Target::Address(address) => self.put("address", address),
            Target::Register { function, offset } => {
                self.put("completer", Text(function))?;
                self.put("register", offset)
            }
            Target::Message { code, name } => {
                self.put("message_code", code)?;
                self.some("message_name", name)
            }
        }
    }

    fn answer(&mut self, t: &Transaction) -> Result<(), M::Error> {
        if t.is_posted() {
            return Ok(());
        }
        self.put("status", t.status.map(status_name))?;
        if t.completions == 0 {
            return Ok(());
        }
        self.put("data_bytes", t.data_bytes)?;
        if t.errors.contains(Errors::UNEXPECTED_COMPLETION) {
            return Ok(());
        }
        self.some("latency_ps", t.response_ps().map(narrow))?;
        self.some("first_data_ps", t.first_data_ps().map(narrow))?;
        self.some("throughput_mbps", t.throughput_mbps())
    }

    fn ack(&mut self, keys: [&'static str; 2], ack: Ack, since: Timestamp) -> Result<(), M::Error> {
        let Ack::Seen { number, time } = ack else { return Ok(()) };
        self.put(keys[0], number)?;
        self.put(keys[1], narrow(time.since_ps(since)))
    }
}
