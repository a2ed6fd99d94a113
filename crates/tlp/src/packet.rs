// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A TLP as it travels: its header and its data.

use crate::rules::{RuleId, Violation};
use crate::{Body, ParseError, Payload, PayloadPool, Prefixes, Repr, crc};
use core::fmt;

/// Flow-control and ordering class of a TLP (`PCIe 5.0 §2.6.1`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Memory writes (MWr) and messages.
    Posted,
    /// All requests that a completion answers.
    NonPosted,
    /// Completions.
    Completion,
}

impl Class {
    /// Every class, in the order of the InitFC DLLPs.
    pub const ALL: [Class; 3] = [Class::Posted, Class::NonPosted, Class::Completion];

    /// An index for tables by class: 0, 1 or 2.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// The data of a transfer: bytes, or only their number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Data {
    /// Only its length in bytes: for runs that measure time, not content.
    Counted(u32),
    /// The bytes, carried.
    Carried(Payload),
}

impl Data {
    /// No data at all.
    pub const NONE: Data = Data::Counted(0);

    /// Length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Data::Counted(n) => *n as usize,
            Data::Carried(p) => p.len(),
        }
    }

    /// Returns true if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, where they are carried.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Data::Counted(_) => None,
            Data::Carried(p) => Some(p),
        }
    }

    /// The part from `start` of `len` bytes, without a copy.
    ///
    /// # Panics
    /// If it reaches beyond the data.
    pub fn slice(&self, start: usize, len: usize) -> Data {
        match self {
            Data::Counted(n) => {
                assert!(start + len <= *n as usize, "slice beyond the data");
                Data::Counted(len as u32)
            }
            Data::Carried(p) => Data::Carried(p.slice(start..start + len)),
        }
    }
}

/// A TLP between two ports: header, data and prefixes.
///
/// `data` holds the bytes from the first to the last enabled one (of a write), or those that the completion
/// answers; the lanes before and behind them, which the wire pads to whole DWs, are not kept. It is
/// [`Data::NONE`] where the type has no data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tlp {
    /// The header.
    pub repr: Repr,
    /// The data.
    pub data: Data,
    /// TLP prefixes, before the header.
    pub prefixes: Prefixes,
    /// In a read request: true where its completions shall carry bytes, false where they shall only count them. Not on the wire.
    pub carry: bool,
    /// What is wrong with it, if anything.
    pub flaw: Flaw,
    /// The account to which its time is charged. Not on the wire.
    pub account: Account,
    /// Picoseconds for which its port sends nothing after it: of completions of a root complex that leaves gaps. Not
    /// on the wire.
    pub rest_ps: u16,
}

/// What is wrong with a TLP, beside what its header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Flaw {
    /// Nothing.
    #[default]
    None,
    /// Where TD is set, the digest is not that of the TLP, since bits changed where no LCRC guards them. A fault injector says so, and a
    /// receiver that checks ECRC looks at it; without TD it has no meaning.
    WrongEcrc,
    /// It breaks a rule of its form: `data` has all of its bytes, header and digest too, and `repr` only its class, Traffic Class, lengths
    /// and transaction ([`Tlp::of_malformed`]). Its receiver drops it.
    Malformed,
}

/// The account in which the time of a transaction is kept: a monitor gives it to a request, and the completer hands
/// it on to its completions. Without meaning to any port or device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Account(pub u32);

impl Account {
    /// No account.
    pub const NONE: Account = Account(0);
    /// An account that is opened only if it is needed. The port that sends the TLP keeps the times of its transmission for it.
    pub const DEFERRED: Account = Account(u32::MAX);
}

impl Repr {
    /// Its flow-control and ordering class.
    #[inline]
    pub const fn class(&self) -> Class {
        // The same as the table of formats, as a test checks, but faster: each hop asks several times.
        match &self.body {
            Body::Memory(m) if m.op.is_posted() => Class::Posted,
            Body::Message(_) => Class::Posted,
            Body::Memory(_) | Body::Io(_) | Body::Atomic(_) | Body::Config(_) => Class::NonPosted,
            Body::Completion(_) => Class::Completion,
        }
    }
}

impl Tlp {
    /// A TLP without prefixes, whose completions need not carry bytes.
    #[inline]
    pub const fn new(repr: Repr, data: Data) -> Tlp {
        Tlp {
            repr,
            data,
            prefixes: Prefixes::NONE,
            carry: false,
            flaw: Flaw::None,
            account: Account::NONE,
            rest_ps: 0,
        }
    }

    /// This TLP, whose completions are to carry bytes where `carry` is true.
    #[must_use]
    #[inline]
    pub fn with_carry(self, carry: bool) -> Tlp {
        Tlp { carry, ..self }
    }

    /// Its flow-control and ordering class.
    #[inline]
    pub const fn class(&self) -> Class {
        self.repr.class()
    }

    /// Returns true if it has a digest that is not its own.
    #[inline]
    pub const fn has_wrong_ecrc(&self) -> bool {
        self.repr.td && matches!(self.flaw, Flaw::WrongEcrc)
    }

    /// The rule that a TLP with a [wrong](Self::has_wrong_ecrc) ECRC breaks.
    #[cold]
    pub fn ecrc_violation(&self) -> Violation {
        let mut bytes = alloc::vec![0; self.wire_len()];
        self.emit(&mut bytes);
        let digest = bytes.last_chunk().map_or(0, |digest| u32::from_be_bytes(*digest));
        Violation::expecting(RuleId::Ecrc, digest.into(), (!digest).into())
    }

    /// Returns true if its bytes break a rule of their form.
    #[inline]
    pub const fn is_malformed(&self) -> bool {
        matches!(self.flaw, Flaw::Malformed)
    }

    /// Returns true if a completer of this request that answers UR or CA leaves it to the requester to report the error:
    /// the request asks for a completion (`PCIe 5.0 §6.2.3.2.4.1`), and its data, if any, is not poisoned (§2.7.2.2).
    /// Only then is the completer's error advisory.
    pub const fn refusal_is_advisory(&self) -> bool {
        let poisoned = self.repr.ep && self.repr.data_dw() > 0;
        matches!(self.class(), Class::NonPosted) && !poisoned
    }

    /// Data credits it takes: units of 16 B (`PCIe 5.0 §2.6.1`).
    pub const fn data_credits(&self) -> u32 {
        self.repr.data_dw().div_ceil(4)
    }

    /// Bytes that [`emit`](Self::emit) writes: prefixes, header, whole DWs of data, digest.
    pub fn wire_len(&self) -> usize {
        self.prefixes.wire_len() + self.repr.tlp_len()
    }

    /// Writes the TLP to the start of `buf`: prefixes, header, data on its byte lanes with zeros on the others
    /// (counted data is zeros), and the ECRC where TD is set, its complement where it is to be
    /// [wrong](Flaw::WrongEcrc). Returns the number of bytes written, [`wire_len`](Self::wire_len).
    ///
    /// Data longer than the header says is cut off. Data of all the whole DWs, where the header names fewer bytes, is
    /// taken as the DWs themselves.
    ///
    /// # Panics
    /// If `buf` is shorter than that; it cannot fail otherwise.
    pub fn emit(&self, buf: &mut [u8]) -> usize {
        let buf = &mut buf[..self.wire_len()];
        if let (Flaw::Malformed, Some(bytes)) = (self.flaw, self.data.bytes()) {
            buf.copy_from_slice(bytes);
            return buf.len();
        }
        let header_end = self.emit_header(buf);
        let rest = &mut buf[header_end..];
        let (lanes, digest) = rest.split_at_mut(self.repr.data_dw() as usize * 4);
        self.emit_lanes(lanes);
        if !digest.is_empty() {
            let end = buf.len() - 4;
            let right = crc::ecrc(&buf[..end]);
            let ecrc = if self.has_wrong_ecrc() { !right } else { right };
            buf[end..].copy_from_slice(&ecrc.to_be_bytes());
        }
        buf.len()
    }

    /// Writes prefixes and header alone to the start of `buf`, and returns their length.
    pub(crate) fn emit_header(&self, buf: &mut [u8]) -> usize {
        let (prefixes, rest) = buf.split_at_mut(self.prefixes.wire_len());
        for (out, prefix) in prefixes.chunks_exact_mut(4).zip(self.prefixes.as_slice()) {
            out.copy_from_slice(&prefix.0.to_be_bytes());
        }
        prefixes.len() + self.repr.emit(rest)
    }

    /// Returns true if there is as much data as the header says; a TLP made by hand may have less or more. Requests that
    /// name no byte may have any amount.
    #[inline]
    pub fn is_whole(&self) -> bool {
        match &self.repr.body {
            Body::Memory(m) if m.op.is_read() || m.span.is_zero_length() => true,
            Body::Memory(m) => self.data.len() == m.span.byte_count() as usize,
            Body::Config(_) => true,
            _ => self.data.len() == self.repr.data_lanes().len(),
        }
    }

    fn emit_lanes(&self, lanes: &mut [u8]) {
        lanes.fill(0);
        let Some(data) = self.data.bytes() else { return };
        let range = if data.len() == lanes.len() { 0..lanes.len() } else { self.repr.data_lanes() };
        for (lane, byte) in lanes[range].iter_mut().zip(data) {
            *lane = *byte;
        }
    }

    /// Reads a whole TLP, and copies into `pool` those bytes of its data that [`data`](Self::data) keeps. A digest that
    /// does not fit is a [flaw](Flaw::WrongEcrc). Never panics.
    ///
    /// # Errors
    /// As [`Repr::parse`].
    pub fn parse(bytes: &[u8], pool: &PayloadPool) -> Result<Tlp, ParseError> {
        let parsed = Repr::parse(bytes)?;
        let flaw = if parsed.ecrc_fits(bytes) == Some(false) { Flaw::WrongEcrc } else { Flaw::None };
        let tlp = Tlp::from_lanes(parsed.repr, &bytes[parsed.data], pool);
        Ok(Tlp { prefixes: parsed.prefixes, flaw, ..tlp })
    }

    /// The TLP of a header and the bytes that followed it on the wire, for peers that send less or more than whole
    /// DWs: missing bytes are zero, excess ones are left out. Never panics.
    pub fn from_lanes(repr: Repr, lanes: &[u8], pool: &PayloadPool) -> Tlp {
        let kept = repr.data_lanes();
        let data = match lanes.get(kept.clone()) {
            _ if kept.is_empty() => Data::NONE,
            Some(whole) => Data::Carried(pool.copy(whole)),
            None => Data::Carried(pool.fill(kept.len(), |out| {
                let there = lanes.get(kept.start..).unwrap_or_default();
                out[..there.len()].copy_from_slice(there);
            })),
        };
        Tlp::new(repr, data).with_carry(true)
    }
}

/// The line of its header, see [`Repr`], with its prefixes and a wrong ECRC.
impl fmt::Display for Tlp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.repr.fmt(f)?;
        f.write_str(if self.has_wrong_ecrc() { ", wrong ECRC" } else { "" })?;
        self.prefixes.fmt(f)
    }
}
