// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transactions as text: a line, or a JSON object. Never allocates once `out` has grown; a line is built piece by piece,
//! since a million of them a second are asked for.
//!
//! # The JSON object
//!
//! One line a transaction. A field is there where the transaction has it; numbers are integers.
//!
//! | field | unit, form | where |
//! |---|---|---|
//! | `type` | type of the request; `Cpl`, `CplD`, `CplLk`, `CplDLk` of an unexpected completion | all |
//! | `number` | of the request's record, from 1 | all |
//! | `timestamp_ps` | when the request was first seen: picoseconds since 1970, in riser's captures since the start of the run | all |
//! | `link`, `direction` | number from 0 on; `downstream`, `upstream`: of the request | all; where the capture names it |
//! | `requester`, `tag`, `tc` | `bus:device.function` in hexadecimal; 0 to 1023; 0 to 7 | all |
//! | `address` | of the first byte; of an unexpected completion its Lower Address | all but configuration requests, messages |
//! | `completer`, `register` | the function, as `requester`; byte offset in its configuration space | configuration requests |
//! | `message_code`, `message_name` | 0 to 255; its name in the specification, where the code is known | messages |
//! | `request_bytes` | bytes that the request names; of an unexpected completion its Byte Count | all |
//! | `completions` | how many, each counted once | all |
//! | `status` | `SC`, `UR`, `CRS`, `CA`, of the last completion; null without one | all |
//! | `data_bytes` | bytes that completions brought | answered |
//! | `latency_ps` | from the first request to the last completion | answered |
//! | `first_data_ps` | from the first request to the first data | answered with data |
//! | `throughput_mbps` | `data_bytes` per `latency_ps`, megabits per second | answered with data |
//! | `packets`, `retries` | TLPs seen, and of them those sent again | all |
//! | `ack_number`, `ack_ps` | record of the Ack or Nak that covers the request; from the request to it | where known |
//! | `completion_ack_number`, `completion_ack_ps` | likewise of the last completion, from it on | where known |
//! | `ack` | `none`: the capture would tell, but none came | likewise |
//! | `means` | what its request means: configuration registers by name and field, interrupts, registers of devices | where the capture tells, and it was asked for |
//! | `errors` | list of names, see [`Errors::names`](crate::matcher::Errors::names) | where there are any |

use crate::matcher::{Ack, Errors, Target, Transaction};
use crate::render::{append_bdf, append_hex, status_name};
use crate::time::{Timestamp, append_decimal};
use tlp::{Class, Format, Status};

/// Appends one line for a transaction, without a line end; the time with `digits` behind the point.
pub fn append_line(t: &Transaction, digits: u8, out: &mut String) {
    t.start.append_to(out, digits);
    out.push(' ');
    out.push_str(Format::get(t.format).name);
    if let Some(direction) = t.direction {
        out.push_str(" link");
        append_decimal(out, t.requester.link.into(), 1);
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
    if t.retries > 0 {
        number(out, ", ", t.retries.into(), if t.retries == 1 { " retry" } else { " retries" });
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

/// Picoseconds as nanoseconds, with three digits behind the point.
fn append_ns(ps: u128, out: &mut String) {
    let ps = u64::try_from(ps).unwrap_or(u64::MAX);
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
    out.push('{');
    append_fields(t, out);
    out.push('}');
}

/// Appends the fields of the JSON object, without its braces.
pub fn append_fields(t: &Transaction, out: &mut String) {
    let format = Format::get(t.format);
    out.push_str("\"type\":\"");
    out.push_str(format.name);
    number(out, "\",\"number\":", t.request_number, ",\"timestamp_ps\":");
    append_wide(t.start, out);
    number(out, ",\"link\":", t.requester.link.into(), "");
    if let Some(direction) = t.direction {
        out.push_str(",\"direction\":\"");
        out.push_str(direction.name());
        out.push('"');
    }
    out.push_str(",\"requester\":\"");
    append_bdf(t.requester.id, out);
    number(out, "\",\"tag\":", t.tag.bits().into(), "");
    number(out, ",\"tc\":", t.tc.into(), "");
    append_json_target(t.target, out);
    number(out, ",\"request_bytes\":", t.bytes.into(), "");
    number(out, ",\"completions\":", t.completions.into(), "");
    if format.class != Class::Posted {
        append_json_answer(t, out);
    }
    number(out, ",\"packets\":", t.packets().into(), "");
    number(out, ",\"retries\":", t.retries.into(), "");
    append_json_ack("", t.ack, t.start, out);
    append_json_ack("completion_", t.completion_ack, t.end, out);
    if [t.ack, t.completion_ack].contains(&Ack::None) {
        out.push_str(",\"ack\":\"none\"");
    }
    if !t.errors.is_empty() {
        let mut lead = ",\"errors\":[\"";
        for name in t.errors.names() {
            out.push_str(lead);
            out.push_str(name);
            lead = "\",\"";
        }
        out.push_str("\"]");
    }
}

fn append_json_target(target: Target, out: &mut String) {
    match target {
        Target::Address(address) => number(out, ",\"address\":", address, ""),
        Target::Register { function, offset } => {
            out.push_str(",\"completer\":\"");
            append_bdf(function, out);
            number(out, "\",\"register\":", offset.into(), "");
        }
        Target::Message { code, name } => {
            number(out, ",\"message_code\":", code.into(), "");
            if let Some(name) = name {
                out.push_str(",\"message_name\":\"");
                out.push_str(name);
                out.push('"');
            }
        }
    }
}

fn append_json_answer(t: &Transaction, out: &mut String) {
    out.push_str(",\"status\":");
    match t.status {
        None => out.push_str("null"),
        Some(status) => {
            out.push('"');
            out.push_str(status_name(status));
            out.push('"');
        }
    }
    let Some(response) = t.response_ps() else { return };
    number(out, ",\"data_bytes\":", t.data_bytes.into(), "");
    if t.errors.contains(Errors::UNEXPECTED_COMPLETION) {
        return;
    }
    let ps = |ps| u64::try_from(ps).unwrap_or(u64::MAX);
    number(out, ",\"latency_ps\":", ps(response), "");
    if let Some(first) = t.first_data_ps() {
        number(out, ",\"first_data_ps\":", ps(first), "");
    }
    if let Some(mbps) = t.throughput_mbps() {
        number(out, ",\"throughput_mbps\":", mbps, "");
    }
}

fn append_json_ack(of: &str, ack: Ack, since: Timestamp, out: &mut String) {
    let Ack::Seen { number: record, time } = ack else { return };
    for (name, value) in [("ack_number\":", record), ("ack_ps\":", time.since_ps(since) as u64)] {
        out.push_str(",\"");
        out.push_str(of);
        number(out, name, value, "");
    }
}

fn append_wide(time: Timestamp, out: &mut String) {
    match u64::try_from(time.as_ps()) {
        Ok(ps) => append_decimal(out, ps, 1),
        Err(_) => out.push_str(&time.as_ps().to_string()),
    }
}
