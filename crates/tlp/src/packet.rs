// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A TLP with its header, prefixes and data, as the fabric transports it.

use crate::rules::{RuleId, Violation};
use crate::{Body, ParseError, Payload, PayloadPool, Prefixes, Repr, crc};
use core::fmt;

/// Flow-control and ordering class of a TLP (`PCIe 5.0 §2.6.1`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Memory writes (MWr) and messages.
    Posted,
    /// All requests that need a completion.
    NonPosted,
    /// Completions.
    Completion,
}

impl Class {
    /// Every class, in the order of the InitFC DLLPs.
    pub const ALL: [Class; 3] = [Class::Posted, Class::NonPosted, Class::Completion];

    /// The index of the class in tables: 0, 1 or 2.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// The data of a transfer: bytes, or only their number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Data {
    /// Only the length in bytes, for runs that measure time and ignore content.
    Counted(u32),
    /// The bytes themselves.
    Carried(Payload),
}

impl Data {
    /// No data at all.
    pub const NONE: Data = Data::Counted(0);

    /// Length in bytes.
    #[inline]
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

    /// The bytes; `None` for counted data.
    #[inline]
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Data::Counted(_) => None,
            Data::Carried(p) => Some(p),
        }
    }

    /// The `len` bytes from `start` on, without a copy.
    ///
    /// # Panics
    /// If the part ends after the end of the data.
    #[inline]
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
/// The `data` of a write holds the bytes from the first to the last enabled byte. The `data` of a completion holds the
/// bytes that it returns. On the wire, padding extends them to whole DWs; `data` does not contain this padding. It is
/// [`Data::NONE`] if the type has no data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tlp {
    /// The header.
    pub repr: Repr,
    /// The data.
    pub data: Data,
    /// TLP prefixes, before the header.
    pub prefixes: Prefixes,
    /// For a read request: true if its completions must carry bytes, false if they may only count them. Not on the
    /// wire.
    pub carry: bool,
    /// The error in the TLP, if it has one.
    pub flaw: Flaw,
    /// The account that its time is charged to. Not on the wire.
    pub account: Account,
    /// Time in picoseconds during which the port sends no data after this TLP. A root complex that inserts gaps
    /// sets it in completions. Not on the wire.
    pub rest_ps: u16,
}

/// An error in a TLP that the fields of its header do not show.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Flaw {
    /// No error.
    #[default]
    None,
    /// The digest does not match the TLP, because bits changed in a place that no LCRC protects. A fault injector sets
    /// this, and a receiver that checks ECRC detects it. It has no effect if TD is clear.
    WrongEcrc,
    /// The TLP breaks a rule about its form, and its receiver drops it. `data` has all bytes of the TLP, including
    /// header and digest. In `repr`, only class, Traffic Class, lengths, Requester ID and tag are valid
    /// ([`Tlp::of_malformed`]).
    Malformed,
}

/// The account of a transaction, which collects its times. A monitor assigns it to a request, and the completer copies
/// it to the completions. Ports and devices do not interpret it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Account(pub u32);

impl Account {
    /// No account.
    pub const NONE: Account = Account(0);
    /// An account that is opened only when needed. Until then, the sending port keeps the times of the transmission.
    pub const DEFERRED: Account = Account(u32::MAX);
}

impl Repr {
    /// The flow-control and ordering class.
    #[inline]
    pub const fn class(&self) -> Class {
        // Same result as the table of formats (a test compares them), but faster: each hop needs the class several
        // times.
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

    /// This TLP with `carry`: true if its completions must carry bytes.
    #[must_use]
    #[inline]
    pub fn with_carry(self, carry: bool) -> Tlp {
        Tlp { carry, ..self }
    }

    /// The flow-control and ordering class.
    #[inline]
    pub const fn class(&self) -> Class {
        self.repr.class()
    }

    /// Returns true if the TLP has a digest that does not match it.
    #[inline]
    pub const fn has_wrong_ecrc(&self) -> bool {
        self.repr.td && matches!(self.flaw, Flaw::WrongEcrc)
    }

    /// The violation of a TLP with a [wrong](Self::has_wrong_ecrc) ECRC.
    #[cold]
    pub fn ecrc_violation(&self) -> Violation {
        let mut bytes = alloc::vec![0; self.wire_len()];
        self.emit(&mut bytes);
        let digest = bytes.last_chunk().map_or(0, |digest| u32::from_be_bytes(*digest));
        Violation::expecting(RuleId::Ecrc, digest.into(), (!digest).into())
    }

    /// Returns true if the bytes of the TLP break a rule about its form.
    #[inline]
    pub const fn is_malformed(&self) -> bool {
        matches!(self.flaw, Flaw::Malformed)
    }

    /// Returns true if the requester, and not the completer, reports the error when a completer answers this
    /// request with UR or CA. This is so if the request is non-posted (`PCIe 5.0 §6.2.3.2.4.1`) and has no poisoned
    /// data (§2.7.2.2). Only then is the completer's error advisory.
    pub const fn refusal_is_advisory(&self) -> bool {
        let poisoned = self.repr.ep && self.repr.data_dw() > 0;
        matches!(self.class(), Class::NonPosted) && !poisoned
    }

    /// Number of data credits that the TLP needs, in units of 16 B (`PCIe 5.0 §2.6.1`).
    pub const fn data_credits(&self) -> u32 {
        self.repr.data_dw().div_ceil(4)
    }

    /// Number of bytes that [`emit`](Self::emit) writes: prefixes, header, whole DWs of data, digest.
    pub fn wire_len(&self) -> usize {
        self.prefixes.wire_len() + self.repr.tlp_len()
    }

    /// Writes the TLP to the start of `buf` and returns the number of bytes, [`wire_len`](Self::wire_len). Writes
    /// prefixes, header, data and, if TD is set, the ECRC. Byte lanes without data are zero, and counted data is
    /// written as zeros. A [wrong](Flaw::WrongEcrc) ECRC is written as the complement of the ECRC.
    ///
    /// Data that is longer than the header allows is cut off. If the header enables fewer bytes than whole DWs and
    /// `data` has the length of the whole DWs, `data` is written to all byte lanes.
    ///
    /// # Panics
    /// If `buf` is shorter than [`wire_len`](Self::wire_len).
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

    /// Writes only prefixes and header to the start of `buf`, and returns their length in bytes.
    pub(crate) fn emit_header(&self, buf: &mut [u8]) -> usize {
        let (prefixes, rest) = buf.split_at_mut(self.prefixes.wire_len());
        for (out, prefix) in prefixes.chunks_exact_mut(4).zip(self.prefixes.as_slice()) {
            out.copy_from_slice(&prefix.0.to_be_bytes());
        }
        prefixes.len() + self.repr.emit(rest)
    }

    /// Returns true if the data has the length that the header gives. A TLP built by hand may have less or more.
    /// Data of requests that enable no byte may have any length. A completion may have whole DWs, whatever its Byte
    /// Count.
    #[inline]
    pub fn is_whole(&self) -> bool {
        match &self.repr.body {
            Body::Memory(m) if m.op.is_read() || m.span.is_zero_length() => true,
            Body::Memory(m) => self.data.len() == m.span.byte_count() as usize,
            Body::Config(_) => true,
            Body::Completion(_) => {
                let len = self.data.len();
                len == self.repr.data_lanes().len() || len == self.repr.data_dw() as usize * 4
            }
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

    /// Reads a complete TLP, and copies the bytes for [`data`](Self::data) into `pool`. A digest that does not
    /// match is a [flaw](Flaw::WrongEcrc). Never panics.
    ///
    /// # Errors
    /// As [`Repr::parse`].
    pub fn parse(bytes: &[u8], pool: &PayloadPool) -> Result<Tlp, ParseError> {
        let parsed = Repr::parse(bytes)?;
        let flaw = if parsed.ecrc_fits(bytes) == Some(false) { Flaw::WrongEcrc } else { Flaw::None };
        let tlp = Tlp::from_lanes(parsed.repr, &bytes[parsed.data], pool);
        Ok(Tlp { prefixes: parsed.prefixes, flaw, ..tlp })
    }

    /// A TLP made of a header and the bytes that followed it on the wire. Some peers send less or more than whole DWs:
    /// missing bytes are set to zero, and extra bytes are dropped. Never panics.
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

/// The line of the header (see [`Repr`]), with prefixes and a note if the ECRC is wrong.
impl fmt::Display for Tlp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.repr.fmt(f)?;
        f.write_str(if self.has_wrong_ecrc() { ", wrong ECRC" } else { "" })?;
        self.prefixes.fmt(f)
    }
}
