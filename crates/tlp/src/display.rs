// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints a TLP in one line, in the style of Figure 15 of the NetTLP paper (NSDI'20, §6.2). The line also has the
//! name of a message, the latencies of an LTR message, and each common field that is not zero (TC, attributes, AT,
//! hints, LN, TD, EP). Functions print as `bus:device.function`; the figure has device and function in one number,
//! `1b:00`.

use crate::message::name_of;
use crate::{
    AddressType, AtomicRequest, Attributes, Bdf, Body, Completion, ConfigRequest, IoRequest, MemoryRequest,
    Message, MessageRouting, Repr, Status, Tag,
};
use core::fmt;

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, ", self.name())?;
        match &self.body {
            Body::Memory(m) => memory(m, f),
            Body::Io(io) => io_request(io, f),
            Body::Atomic(a) => atomic(a, f),
            Body::Completion(c) => completion(c, f),
            Body::Config(c) => config(c, f),
            Body::Message(m) => message(m, f),
        }?;
        self.fmt_common(f)
    }
}

impl Repr {
    fn fmt_common(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tc.bits() != 0 {
            write!(f, ", TC {}", self.tc.bits())?;
        }
        let names = [
            (Attributes::NO_SNOOP, "NS"),
            (Attributes::RELAXED_ORDERING, "RO"),
            (Attributes::ID_BASED_ORDERING, "IDO"),
        ];
        for (_, name) in names.iter().filter(|(bit, _)| self.attr.contains(*bit)) {
            write!(f, ", {name}")?;
        }
        if self.at != AddressType::Untranslated {
            write!(f, ", AT {}", self.at.bits())?;
        }
        if let Some(hint) = self.th {
            write!(f, ", PH {}, ST {:#04x}", hint.ph.bits(), hint.st)?;
        }
        f.write_str(if self.ln { ", LN" } else { "" })?;
        if self.td {
            f.write_str(", TD")?;
        }
        if self.ep { f.write_str(", EP (poisoned)") } else { Ok(()) }
    }
}

fn requester(requester: Bdf, tag: Tag, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "requester {requester}, tag {tag}, ")
}

fn memory(m: &MemoryRequest, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "len {}, ", m.span.length_dw())?;
    requester(m.requester, m.tag, f)?;
    let (last, first, address) = (m.span.last_be(), m.span.first_be(), m.span.address());
    write!(f, "last {last:#x}, first {first:#x}, Addr {address:#010x}")
}

fn io_request(io: &IoRequest, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("len 1, ")?;
    requester(io.requester, io.tag, f)?;
    write!(f, "last 0x0, first {:#x}, Addr {:#010x}", io.first_be, io.address)
}

fn atomic(a: &AtomicRequest, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "len {}, ", a.length_dw())?;
    requester(a.requester, a.tag, f)?;
    write!(f, "operand {} B, Addr {:#010x}", a.operand.bytes(), a.address)
}

fn completion(c: &Completion, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "len {}, completer {}, ", c.length_dw.unwrap_or(0), c.completer)?;
    write!(f, "{}, bc {}, ", c.status, c.byte_count)?;
    requester(c.requester, c.tag, f)?;
    write!(f, "lowaddr {:#04x}", c.lower_address)
}

fn config(c: &ConfigRequest, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("len 1, ")?;
    requester(c.requester, c.tag, f)?;
    let register = c.register_dw * 4;
    write!(f, "last 0x0, first {:#x}, completer {}, register {register:#05x}", c.first_be, c.completer)
}

fn message(m: &Message, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "len {}, ", m.length_dw.unwrap_or(0))?;
    requester(m.requester, m.tag, f)?;
    let header = u64::from_be_bytes(m.header);
    write!(f, "code {:#04x}", m.code)?;
    if let Some(name) = name_of(m) {
        write!(f, " {name}")?;
    }
    write!(f, ", routing {}, header {header:#018x}", m.routing)?;
    let Some([no_snoop, snoop]) = m.latencies_ns() else { return Ok(()) };
    for (name, latency) in [("snoop", snoop), ("no-snoop", no_snoop)] {
        match latency {
            Some(ns) => write!(f, ", {name} latency {ns} ns")?,
            None => write!(f, ", no {name} requirement")?,
        }
    }
    Ok(())
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::Success => "success",
            Status::UnsupportedRequest => "unsupported request",
            Status::ConfigRetry => "configuration retry",
            Status::CompleterAbort => "completer abort",
        })
    }
}

impl fmt::Display for MessageRouting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MessageRouting::ToRootComplex => "to root complex",
            MessageRouting::ByAddress => "by address",
            MessageRouting::ById => "by ID",
            MessageRouting::Broadcast => "broadcast",
            MessageRouting::Local => "local",
            MessageRouting::Gathered => "gathered",
            MessageRouting::Reserved(bits) => return write!(f, "reserved {bits:#x}"),
        })
    }
}
