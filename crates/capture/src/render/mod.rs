// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records as text: a line in the style of the NetTLP paper's Figure 15, or a JSON object.

mod hex;
mod json;
pub(crate) mod object;

pub use crate::count::counted;
pub use crate::table::numbers;
pub use hex::append_hex_dump;
pub use json::{JsonRecord, json};

use crate::credits::Consumption;
use crate::decode::{Bad, Ecrc, Kind, Other, Record, TlpRecord};
use crate::encap::Foreign;
use crate::explain::append_broken_header;
use crate::names::Meaning;
use crate::reader::{Direction, Fault, Interface, LINKTYPE_PCI_EXP, TextLine};
use crate::time::{Timestamp, append_decimal};
use std::fmt::{self, Write};
use std::net::IpAddr;
use tlp::{Bdf, Class, Dllp, FlowControlKind, Prefix, PrefixKind, Status};

/// Appends one line for `record` to `out`, without a line end: the fields in the paper's Figure 15, and all fields
/// that are not zero.
pub fn line(record: &Record<'_>, out: &mut String) {
    // Writing to a string cannot fail.
    let _ = write_line(record, out);
}

fn write_line(record: &Record<'_>, out: &mut String) -> fmt::Result {
    append_prefix(record, out);
    match &record.kind {
        Kind::Tlp(tlp) => {
            out.push_str(protocol(record));
            out.push_str(": ");
            write_tlp(tlp, out)?;
        }
        Kind::Dllp(dllp) => write!(out, "DLLP: {dllp}")?,
        Kind::Other(other) => write!(out, "{other}")?,
        Kind::Bad(Bad::File(fault @ Fault::Line { .. })) => write!(out, "error in {fault}")?,
        Kind::Bad(bad) => write!(out, "error in {}: {bad}", bad.layer())?,
    }
    if record.mark.damaged {
        out.push_str(" [damaged on the way]");
    }
    if record.mark.dropped {
        out.push_str(" [dropped on the way]");
    }
    if record.truncated {
        out.push_str(" [truncated on the wire]");
    }
    Ok(())
}

/// Appends one line for `record`: its [`line`], its meaning, the fields of a broken header, the note of its text, and with `with_data` a dump of its data.
pub fn full_line(record: &Record<'_>, meaning: Option<&Meaning>, with_data: bool, out: &mut String) {
    line(record, out);
    if let Some(meaning) = meaning {
        append_meaning(meaning, out);
    }
    let start = out.len();
    append_broken_header(record, out);
    if out.len() > start {
        out.insert_str(start, "; ");
    }
    append_note(record, out);
    if let Some(tlp) = record.tlp().filter(|_| with_data) {
        append_hex_dump(tlp.data, tlp.payload_bytes, out);
    }
}

/// Appends one line for `record`: its [`line`], and the credits that it consumed.
pub fn credits_line(record: &Record<'_>, took: Option<&Consumption>, out: &mut String) {
    line(record, out);
    // Writing to a string cannot fail.
    let _ = match took {
        None => write!(out, "; credits unknown"),
        Some(took) => write!(
            out,
            "; credits {} vc {}: header {} -> {}, data {} -> {}",
            class_name(took.ledger.class),
            took.ledger.vc,
            took.header_before,
            took.header_after,
            took.data_before,
            took.data_after
        ),
    };
}

/// Encapsulation of the TLPs: NetTLP or none.
fn protocol(record: &Record<'_>) -> &'static str {
    match record.interface {
        Some(Interface { link_type: LINKTYPE_PCI_EXP, .. }) => "TLP",
        _ => "NetTLP",
    }
}

fn append_prefix(record: &Record<'_>, out: &mut String) {
    let Some(interface) = record.interface else { return };
    let line = record.text.map(|text| text.line);
    append_when(record.time(), interface.resolution.digits(), line, record.number, out);
    out.push(' ');
    append_interface(interface, record.direction, out);
    let Some(p) = &record.path else { return };
    out.push_str(if p.source.is_ipv6() { "IP6 " } else { "IP " });
    append_end(p.source, p.source_port, out);
    out.push_str(" > ");
    append_end(p.destination, p.destination_port, out);
    out.push_str(": ");
}

/// Appends a time. Without a time, appends the line of a text, or the number of the record.
pub(crate) fn append_when(
    time: Option<Timestamp>,
    digits: u8,
    line: Option<u64>,
    number: u64,
    out: &mut String,
) {
    match (time, line) {
        (Some(time), _) => time.append_to(out, digits),
        (None, Some(line)) => {
            out.push_str("line ");
            append_decimal(out, line, 1);
        }
        (None, None) => {
            out.push('#');
            append_decimal(out, number, 1);
        }
    }
}

/// Appends slot and direction of the link. Otherwise appends the name of the interface, or the direction of the
/// packet.
fn append_interface(interface: &Interface, direction: Option<Direction>, out: &mut String) {
    if let (Some(direction), false) = (interface.direction, interface.slot.is_empty()) {
        out.push_str(&interface.slot);
        out.push(':');
        out.push_str(direction.name());
    } else if interface.name.is_empty() {
        let Some(direction) = direction else { return };
        out.push_str(direction.name());
    } else {
        out.push_str(&interface.name);
    }
    out.push(' ');
}

fn append_end(address: IpAddr, port: u16, out: &mut String) {
    match address {
        IpAddr::V4(address) => {
            for octet in address.octets() {
                append_decimal(out, u64::from(octet), 1);
                out.push('.');
            }
        }
        // The port follows a dot, as in tcpdump.
        IpAddr::V6(address) => {
            let _ = write!(out, "{address}.");
        }
    }
    append_decimal(out, u64::from(port), 1);
}

/// Writes a TLP without the interface and the time.
pub(crate) fn write_tlp(tlp: &TlpRecord<'_>, out: &mut String) -> fmt::Result {
    write!(out, "{}", tlp.repr)?;
    if tlp.header_bytes() != tlp.repr.header_len() {
        out.push_str(", 4-DW header below 4 GiB");
    }
    write!(out, "{}", tlp.prefixes)?;
    if tlp.ecrc == Some(Ecrc::Bad) {
        out.push_str(", bad ECRC");
    }
    Ok(())
}

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Other::Foreign(Foreign::EtherType(0x0806)) => f.write_str("ARP"),
            Other::Foreign(Foreign::EtherType(other)) => write!(f, "EtherType {other:#06x}"),
            Other::Foreign(Foreign::Protocol(protocol)) => write!(f, "IP protocol {protocol}"),
            Other::Port { .. } => f.write_str("UDP of others"),
            Other::Nettlp(what) => write!(f, "NetTLP {what}"),
            Other::FlitHeader => f.write_str("TLP header of flit mode"),
            Other::LoggedError => f.write_str("error without a TLP header"),
        }
    }
}

/// Appends the meaning of a TLP to its line.
pub fn append_meaning(meaning: &Meaning, out: &mut String) {
    // Writing to a string cannot fail.
    let _ = write!(out, "; {meaning}");
}

/// Appends the text about the TLP of a line, such as the errors that a kernel logged with it.
pub fn append_note(record: &Record<'_>, out: &mut String) {
    if let Some(TextLine { note, .. }) = record.text.filter(|text| !text.note.is_empty()) {
        out.push_str("; logged with ");
        out.push_str(note);
    }
}

/// Appends `value` in hexadecimal with at least `width` digits.
pub(crate) fn append_hex(value: u64, width: u32, out: &mut String) {
    let digits = (u64::BITS - value.leading_zeros()).div_ceil(4).max(width);
    for place in (0..digits).rev() {
        let digit = (value >> (4 * place) & 0xf) as u32;
        out.push(char::from_digit(digit, 16).unwrap_or('0'));
    }
}

/// Appends a function as `bus:device.function`.
pub(crate) fn append_bdf(id: Bdf, out: &mut String) {
    append_hex(id.bus().into(), 2, out);
    out.push(':');
    append_hex(id.device().into(), 2, out);
    out.push('.');
    append_hex(id.function().into(), 1, out);
}

impl Kind<'_> {
    /// The type of the TLP; otherwise `dllp`, `other` or `error`.
    pub fn type_name(&self) -> &'static str {
        match self {
            Kind::Tlp(tlp) => tlp.repr.name(),
            Kind::Dllp(_) => "dllp",
            Kind::Other(_) => "other",
            Kind::Bad(_) => "error",
        }
    }
}

/// The name of the type of a prefix.
pub const fn prefix_name(prefix: Prefix) -> &'static str {
    match prefix.kind() {
        PrefixKind::MrIov => "MR-IOV",
        PrefixKind::VendorLocal(0) => "VendPrefixL0",
        PrefixKind::VendorLocal(_) => "VendPrefixL1",
        PrefixKind::ExtendedTph => "Extended TPH",
        PrefixKind::Pasid => "PASID",
        PrefixKind::VendorEndToEnd(0) => "VendPrefixE0",
        PrefixKind::VendorEndToEnd(_) => "VendPrefixE1",
        PrefixKind::Reserved => "reserved",
    }
}

/// The specification's short name of a status: SC, UR, CRS or CA.
pub const fn status_name(status: Status) -> &'static str {
    match status {
        Status::Success => "SC",
        Status::UnsupportedRequest => "UR",
        Status::ConfigRetry => "CRS",
        Status::CompleterAbort => "CA",
    }
}

/// The short name of a flow-control class: `P`, `NP` or `Cpl`.
pub const fn class_name(class: Class) -> &'static str {
    match class {
        Class::Posted => "P",
        Class::NonPosted => "NP",
        Class::Completion => "Cpl",
    }
}

/// The name of a DLLP's type.
pub const fn dllp_name(dllp: &Dllp) -> &'static str {
    match dllp {
        Dllp::Ack { .. } => "Ack",
        Dllp::Nak { .. } => "Nak",
        Dllp::FlowControl(fc) => match fc.kind {
            FlowControlKind::InitFc1 => "InitFC1",
            FlowControlKind::InitFc2 => "InitFC2",
            FlowControlKind::UpdateFc => "UpdateFC",
        },
        Dllp::Feature(_) => "Data_Link_Feature",
        Dllp::Pm(pm) => pm.name(),
        Dllp::Vendor { .. } => "Vendor-specific",
        Dllp::Nop => "NOP",
    }
}
