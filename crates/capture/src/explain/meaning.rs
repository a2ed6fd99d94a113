// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The meaning of one TLP by itself: latencies, interrupts, errors. Meanings that depend on other TLPs of a capture
//! are in [`names`](crate::names).

use crate::decode::TlpRecord;
use tlp::format::Family;
use tlp::message::{self, MessageType};
use tlp::wire::field;
use tlp::{Bdf, Body, Header, Status};

/// Addresses of interrupts on x86: `0xfee` in bits 31:20 (Intel SDM, volume 3, "Message Address Register Format").
const X86_INTERRUPTS: u64 = 0xfee;

/// The latencies of an LTR message (`PCIe 5.0 §6.18`).
fn latencies(tlp: &TlpRecord<'_>) -> Option<String> {
    let Body::Message(message) = &tlp.repr.body else { return None };
    let text = |latency: Option<u64>| latency.map_or("no requirement".to_owned(), |ns| format!("{ns} ns"));
    let [no_snoop, snoop] = message.latencies_ns()?.map(text);
    Some(format!(
        "{} tolerates a snoop latency of {snoop}, a no-snoop latency of {no_snoop}",
        message.requester
    ))
}

/// Appends the meaning of a TLP, in one or more sentences.
pub(super) fn append(header: &Header<'_>, tlp: Option<&TlpRecord<'_>>, means: &mut Vec<String>) {
    match header.format().family {
        Family::Memory => means.extend(memory(header, tlp.map_or(&[], |tlp| tlp.data))),
        Family::Message => means.extend(of_message(header).or_else(|| latencies(tlp?))),
        Family::Completion => means.extend(completion(header)),
        Family::Io | Family::Atomic | Family::Config => {}
    }
    if header.ep() && header.data_dw() > 0 {
        means.push("poisoned data: the receiver must not use it".to_owned());
    }
}

fn memory(header: &Header<'_>, data: &[u8]) -> Option<String> {
    let address = header.address();
    if header.data_dw() == 1 && address >> 20 == X86_INTERRUPTS {
        let target = address >> 12 & 0xff;
        let vector = data.first().map(|vector| format!(", vector {vector:#04x}")).unwrap_or_default();
        return Some(format!("on x86: an interrupt (MSI or MSI-X) to APIC {target:#04x}{vector}"));
    }
    let is_flush = header.data_dw() == 0 && header.span().is_ok_and(|span| span.is_zero_length());
    is_flush.then(|| "a zero-length read: flushes the writes before it".to_owned())
}

fn completion(header: &Header<'_>) -> Option<String> {
    let completer = Bdf::from_bits(header.get(field::COMPLETER) as u16);
    let what = match Status::from_bits(header.get(field::STATUS) as u8) {
        Status::Success => return None,
        Status::UnsupportedRequest => "did not support the request",
        Status::ConfigRetry => "is not ready for configuration requests yet",
        Status::CompleterAbort => "aborted the request",
    };
    Some(format!("{completer} {what}"))
}

fn of_message(header: &Header<'_>) -> Option<String> {
    let last = header.bytes().last_chunk::<8>()?;
    let code = header.get(field::BYTE_ENABLES) as u8;
    let requester = Bdf::from_bits(header.get(field::REQUESTER) as u16);
    let name = MessageType::of(code, last, header.format().has_data)?.name;
    match code {
        message::ERR_COR => Some(format!("{requester} detected a correctable error")),
        message::ERR_NONFATAL => Some(format!("{requester} detected a non-fatal error")),
        message::ERR_FATAL => Some(format!("{requester} detected a fatal error")),
        message::PM_PME => Some(format!("{requester} asks for a wake-up")),
        message::PME_TURN_OFF => Some("main power goes off: devices stop sending PM_PME".to_owned()),
        message::PME_TO_ACK => Some("ready for main power to go off".to_owned()),
        _ => {
            let (what, pin) = name.split_once("_INT")?;
            let level = if what == "Assert" { "raises" } else { "lowers" };
            Some(format!("{requester} {level} its link's virtual wire INT{pin}"))
        }
    }
}
