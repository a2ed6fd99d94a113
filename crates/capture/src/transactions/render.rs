// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transactions as text: a line, or a JSON object. Lines are built piece by piece for speed, up to a million per
//! second. Printing a line allocates nothing once `out` has grown.
//!
//! # The JSON object
//!
//! One line per transaction. A field is missing if the transaction does not have it. Numbers are integers.
//!
//! | field | unit, form | present |
//! |---|---|---|
//! | `type` | type of the request; `Cpl`, `CplD`, `CplLk`, `CplDLk` of an unexpected completion | all |
//! | `number` | of the request's record, from 1 | all |
//! | `timestamp_ps` | when the request was first seen: picoseconds since 1970, in riser's captures since the start of the run | if the file has times |
//! | `line` | line of the request in the file, from 1 | text |
//! | `link`, `direction` | link that showed the request first, from 0; `downstream` or `upstream` | all; if the capture has it |
//! | `slot` | the slot or switch at the end of the link | if the capture has it |
//! | `requester`, `tag`, `tc` | `bus:device.function` in hexadecimal; 0 to 1023; 0 to 7 | all |
//! | `address` | address of the first byte; Lower Address of an unexpected completion | all except configuration requests and messages |
//! | `completer`, `register` | the function, like `requester`; byte offset in its configuration space | configuration requests |
//! | `message_code`, `message_name` | 0 to 255; its name in the specification, if the code is defined | messages |
//! | `request_bytes` | bytes that the request accesses; Byte Count of an unexpected completion | all |
//! | `completions` | number of completions, without replays | all |
//! | `status` | `SC`, `UR`, `CRS` or `CA` of the last completion; null without completions | all except posted requests |
//! | `data_bytes` | bytes of data in the completions | answered |
//! | `latency_ps` | time from the first request to the last completion | answered, if the file has times |
//! | `first_data_ps` | time from the first request to the first data | answered with data, if the file has times |
//! | `throughput_mbps` | `data_bytes` per `latency_ps`, in megabits per second | answered with data, if the file has times |
//! | `packets`, `retries` | TLPs on all links; how many of them are retransmissions | all |
//! | `ack_number`, `ack_ps` | record of the Ack or Nak for the request; time from the request to it | if known |
//! | `completion_ack_number`, `completion_ack_ps` | record of the Ack or Nak for the last completion; time from that completion to it | if known |
//! | `ack` | `none`: the capture shows Acks, but not this one | if an Ack is missing |
//! | `means` | meaning of the request: configuration registers and fields, interrupts, registers of devices | if requested and known |
//! | `probe` | true: a read of the Vendor ID of a function that does not exist got Unsupported Request, which is not an error | bus probes |
//! | `hops` | list with one entry per link: `link`, `slot`, `direction`, `number` of the request's record; `since_start_ps`: time from the first request to the request on this link, if the file has times; `latency_ps`: time from there to the next link and back, or to the completion on the last link, null if there is none | on several links |
//! | `errors` | list of names, see [`Errors::names`](crate::matcher::Errors::names) | with errors |

use crate::matcher::{Ack, Errors, Leg, Target, Transaction};
use crate::names::Meaning;
use crate::reader::{Direction, Interface};
use crate::render::object::{self, Object, Text};
use crate::render::{append_bdf, append_hex, append_when, status_name};
use crate::time::{Timestamp, append_decimal};
use serde::ser::{Serialize, SerializeMap, Serializer};
use tlp::{Format, Status};

/// Appends one line for a transaction, without a line end. The time has `digits` decimals. Without a time, the line
/// begins with the line number of the request in a text, or with its record number.
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

pub(crate) fn append_target(target: Target, out: &mut String) {
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

/// Appends the latency from each link to the next one and back.
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

/// Appends picoseconds as nanoseconds with three decimals.
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

/// The JSON object of a transaction. The documentation of this module lists its fields.
#[derive(Clone, Copy)]
pub struct JsonTransaction<'a> {
    /// The transaction.
    pub transaction: &'a Transaction,
    /// The meaning of its request, if requested and known.
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
        // Legs are computed only for the few transactions on several links.
        let legs = if t.hops.is_empty() { Vec::new() } else { t.legs() };
        let hops: Vec<JsonLeg<'_>> = legs.iter().map(|leg| JsonLeg::new(leg, t)).collect();
        o.some("hops", Some(hops).filter(|hops| !hops.is_empty()))?;
        o.0.end()
    }
}

/// One link of a transaction on several links.
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
