// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decodes a frame to a [`Record`]: a TLP, a DLLP, something else, or an error. Never copies, allocates or
//! panics.

use crate::encap::{
    self, Datagram, EncapError, Foreign, Layer, MESSAGING, NETTLP_LEN, NettlpHeader, Origin, PORT_CONFIG_OLD,
    PORT_MESSAGING, PORT_SESSION, Parsed, PortUse, Vlans,
};
use crate::peer_session;
use crate::reader::{
    Direction, Fault, Frame, Interface, LINKTYPE_ETHERNET, LINKTYPE_PCI_EXP, LINKTYPE_USER0, Mark, Reader,
    Step, TextLine,
};
use crate::superpacket::{Part, Parts};
use crate::time::Timestamp;
use std::io::{self, Read};
use std::net::IpAddr;
use tlp::{Body, Class, Dllp, DllpError, MemoryOp, ParseError, Prefixes, Repr};

/// One item of a capture.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// Frame number in the file, from 1; 0 for a fault of the file itself.
    pub number: u64,
    /// Time of the frame; zero if it has none, and for a fault of the file itself.
    pub timestamp: Timestamp,
    /// True if the file has a time for the frame.
    pub has_time: bool,
    /// The interface; `None` for a fault of the file itself.
    pub interface: Option<&'a Interface>,
    /// Number of bytes captured.
    pub captured_len: usize,
    /// Number of bytes on the wire.
    pub original_len: usize,
    /// Facts about the frame that its bytes do not show.
    pub mark: Mark,
    /// True if the frame ends before the length in its IP header. A TLP then has a complete header and incomplete
    /// data.
    pub truncated: bool,
    /// Addresses and ports, if it is a UDP datagram.
    pub path: Option<Path>,
    /// Direction, if the interface or the packet has one.
    pub direction: Option<Direction>,
    /// The line in a text file; `None` for pcap and pcapng.
    pub text: Option<TextLine<'a>>,
    /// Captured bytes of the TLP, starting with its first prefix; empty for a record that is not a TLP.
    pub tlp_bytes: &'a [u8],
    /// Content of the record.
    pub kind: Kind<'a>,
}

/// Addresses and ports of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// 802.1Q tags.
    pub vlans: Vlans,
    /// Source address.
    pub source: IpAddr,
    /// Source UDP port.
    pub source_port: u16,
    /// Destination address.
    pub destination: IpAddr,
    /// Destination UDP port.
    pub destination_port: u16,
    /// NetTLP header, if there is one.
    pub nettlp: Option<NettlpHeader>,
}

impl Path {
    fn of(d: &Datagram<'_>, nettlp: Option<NettlpHeader>) -> Path {
        Path {
            vlans: d.vlans,
            source: d.source,
            source_port: d.source_port,
            destination: d.destination,
            destination_port: d.destination_port,
            nettlp,
        }
    }
}

/// Content of a record.
#[derive(Clone, Debug)]
pub enum Kind<'a> {
    /// A TLP.
    Tlp(TlpRecord<'a>),
    /// A DLLP.
    Dllp(Dllp),
    /// A valid frame that is neither a TLP nor a DLLP.
    Other(Other),
    /// A frame or a part of the file that cannot be read.
    Bad(Bad),
}

/// A TLP of a capture.
#[derive(Clone, Debug)]
pub struct TlpRecord<'a> {
    /// The header.
    pub repr: Repr,
    /// The prefixes before the header.
    pub prefixes: Prefixes,
    /// Result of the ECRC check; `None` if there is no ECRC, or if not enough of the TLP was captured.
    pub ecrc: Option<Ecrc>,
    /// Captured data, including byte lanes that are not enabled.
    pub data: &'a [u8],
    /// Length of the data in bytes according to the header; 0 if the type has none.
    pub payload_bytes: usize,
    /// Length of the TLP in bytes according to its header: prefixes, header, data and digest.
    pub wire_len: usize,
    /// The side that issued this request, or the request of this completion, by the UDP port. It is always the
    /// device in the port scheme of the paper.
    pub origin: Origin,
}

impl TlpRecord<'_> {
    /// Returns the length of the header on the wire without prefixes: 12 or 16. Against `PCIe 5.0 §2.2.4.1`, some
    /// senders use 16 for an address below 4 GiB.
    #[must_use]
    pub fn header_bytes(&self) -> usize {
        let prefixes = 4 * self.prefixes.as_slice().len();
        self.wire_len - prefixes - self.payload_bytes - 4 * usize::from(self.repr.td)
    }
}

/// Result of the check of a TLP's digest (`PCIe 5.0 §2.7.1`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ecrc {
    /// The digest is the ECRC of the TLP.
    Good,
    /// The digest is not the ECRC of the TLP.
    Bad,
}

impl Ecrc {
    /// `good` or `bad`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Ecrc::Good => "good",
            Ecrc::Bad => "bad",
        }
    }
}

/// A valid frame that is neither a TLP nor a DLLP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Other {
    /// Another EtherType, or another protocol over IP.
    Foreign(Foreign),
    /// UDP with ports that NetTLP does not use.
    Port {
        /// Source port.
        source: u16,
        /// Destination port.
        destination: u16,
    },
    /// A NetTLP datagram without a TLP: messaging, configuration, adapter registers, or a control record of a
    /// session.
    Nettlp(&'static str),
    /// A flit-mode header, which is not decoded; the record has its bytes.
    FlitHeader,
    /// An error of a log without a TLP header; its note names the error.
    LoggedError,
}

/// Reason why a record cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Bad {
    /// A fault of the file.
    #[error("{0}")]
    File(Fault),
    /// A link type that is not decoded.
    #[error("link type {0}: expected {LINKTYPE_ETHERNET} (Ethernet) or {LINKTYPE_PCI_EXP} (PCI Express){hint}", hint = user_hint(*.0))]
    LinkType(u16),
    /// A fault of Ethernet, IP, UDP or the NetTLP header.
    #[error("{0}")]
    Encap(EncapError),
    /// The TLP's header cannot be read.
    #[error("{0}")]
    Tlp(ParseError),
    /// The datagram is shorter or longer than the header of its TLP requires.
    #[error("TLP of {have} bytes, expected {needed} by its header")]
    TlpLength {
        /// Length of the TLP according to its header.
        needed: usize,
        /// Length of the TLP in the datagram.
        have: usize,
    },
    /// The DLLP cannot be read.
    #[error("{0}")]
    Dllp(DllpError),
}

/// Returns a hint about the option that reads a user link type.
fn user_hint(link_type: u16) -> String {
    let user = link_type.checked_sub(LINKTYPE_USER0).filter(|user| *user < 16);
    user.map(|user| format!("; --dlt USER{user}=tlp reads it as TLPs")).unwrap_or_default()
}

impl Bad {
    /// The layer with the fault.
    pub const fn layer(&self) -> Layer {
        match self {
            Bad::File(_) => Layer::File,
            Bad::LinkType(_) => Layer::Link,
            Bad::Encap(error) => error.layer(),
            Bad::Tlp(_) | Bad::TlpLength { .. } => Layer::Tlp,
            Bad::Dllp(_) => Layer::Dllp,
        }
    }

    /// Short name of the kind of fault, for statistics.
    pub const fn kind(&self) -> &'static str {
        match self {
            Bad::File(fault) => fault.kind(),
            Bad::LinkType(_) => "link type",
            Bad::Encap(error) => error.kind(),
            Bad::Tlp(ParseError::Truncated { .. }) => "header cut short",
            Bad::Tlp(ParseError::UnknownType { .. }) => "unknown type",
            Bad::Tlp(ParseError::Malformed(_)) => "malformed",
            Bad::TlpLength { .. } => "length",
            Bad::Dllp(DllpError::Length(_)) => "length",
            Bad::Dllp(DllpError::Crc { .. }) => "CRC",
            Bad::Dllp(DllpError::UnknownType(_)) => "unknown type",
        }
    }
}

impl<R: Read> Reader<R> {
    /// Returns the next record, decoded; `None` at the end of the file. If a frame holds several datagrams
    /// ([`superpacket`](crate::superpacket)), each is a record with the frame's number and time.
    ///
    /// # Errors
    /// If the underlying reader fails.
    pub fn next_record(&mut self) -> io::Result<Option<Record<'_>>> {
        if let Some(part) = self.next_part() {
            return Ok(Some(decode_part(&self.frame().0, part)));
        }
        match self.advance()? {
            Step::Frame => {}
            Step::Fault(fault) => return Ok(Some(Record::of_fault(fault))),
            Step::End => return Ok(None),
        }
        let (frame, kept) = self.frame();
        let record = decode(&frame);
        if may_be_several(&record.kind)
            && let Some(parts) = Parts::of(frame.bytes, frame.original_len)
        {
            let first = parts.first();
            *kept = Some((parts, 1));
            return Ok(Some(decode_part(&frame, first)));
        }
        Ok(Some(record))
    }
}

impl Origin {
    /// Returns the side that issued the request, for a TLP of this class in this direction.
    #[must_use]
    pub const fn of(way: Direction, class: Class) -> Origin {
        match (way, class) {
            (Direction::Upstream, Class::Posted | Class::NonPosted)
            | (Direction::Downstream, Class::Completion) => Origin::Device,
            (Direction::Upstream, Class::Completion)
            | (Direction::Downstream, Class::Posted | Class::NonPosted) => Origin::Host,
        }
    }
}

impl<'a> Record<'a> {
    /// Returns the record of a TLP that is not from a file, with these bytes, interface and time.
    pub fn of_tlp(
        interface: &'a Interface,
        timestamp: Timestamp,
        bytes: &'a [u8],
        origin: Origin,
    ) -> Record<'a> {
        Record {
            number: 1,
            timestamp,
            has_time: true,
            interface: Some(interface),
            captured_len: bytes.len(),
            original_len: bytes.len(),
            mark: Mark::default(),
            truncated: false,
            path: None,
            direction: interface.direction,
            text: None,
            tlp_bytes: bytes,
            kind: decode_tlp(bytes, bytes.len(), origin),
        }
    }
}

impl Record<'_> {
    /// Returns the record of a fault of the file itself.
    pub const fn of_fault(fault: Fault) -> Record<'static> {
        Record {
            number: 0,
            timestamp: Timestamp::ZERO,
            has_time: false,
            interface: None,
            captured_len: 0,
            original_len: 0,
            mark: Mark { damaged: false, dropped: false, place: None },
            truncated: false,
            path: None,
            direction: None,
            text: None,
            tlp_bytes: &[],
            kind: Kind::Bad(Bad::File(fault)),
        }
    }

    /// Returns the length of the TLP on the wire in bytes; 0 if the record is not a TLP. The captured part is in
    /// [`tlp_bytes`](Self::tlp_bytes).
    pub fn tlp_wire_len(&self) -> usize {
        let captured = self.tlp_bytes.len();
        match &self.kind {
            _ if self.path.is_none() && captured > 0 => self.original_len,
            // An adapter may omit the digest.
            Kind::Tlp(tlp) if tlp.data.len() < tlp.payload_bytes => tlp.wire_len,
            Kind::Bad(Bad::TlpLength { have, .. }) => *have,
            _ => captured,
        }
    }

    /// Returns the time; `None` if the file has no time for it.
    pub fn time(&self) -> Option<Timestamp> {
        self.has_time.then_some(self.timestamp)
    }

    /// Returns the TLP, if it is one.
    pub const fn tlp(&self) -> Option<&TlpRecord<'_>> {
        match &self.kind {
            Kind::Tlp(tlp) => Some(tlp),
            _ => None,
        }
    }
}

/// Decodes a frame.
pub fn decode<'a>(frame: &Frame<'a>) -> Record<'a> {
    let lengths = [frame.bytes.len(), frame.original_len];
    if frame.interface.link_type == LINKTYPE_PCI_EXP {
        return decode_raw(frame, lengths);
    }
    if frame.interface.link_type != LINKTYPE_ETHERNET {
        return record_of(frame, lengths, None, Kind::Bad(Bad::LinkType(frame.interface.link_type)));
    }
    match encap::parse(frame.bytes, frame.original_len) {
        Ok(Parsed::Datagram(datagram)) => decode_datagram(frame, lengths, &datagram),
        Ok(Parsed::Foreign(foreign)) => record_of(frame, lengths, None, Kind::Other(Other::Foreign(foreign))),
        Err(error) => record_of(frame, lengths, None, Kind::Bad(Bad::Encap(error))),
    }
}

/// Decodes a frame that is a TLP, without any encapsulation.
fn decode_raw<'a>(frame: &Frame<'a>, lengths: [usize; 2]) -> Record<'a> {
    let kind = match frame.text {
        Some(TextLine { is_flit: true, .. }) => Kind::Other(Other::FlitHeader),
        Some(_) if frame.bytes.is_empty() => Kind::Other(Other::LoggedError),
        _ => match decode_tlp(frame.bytes, frame.original_len, Origin::Device) {
            Kind::Tlp(tlp) => {
                let origin = frame.direction.map_or(Origin::Device, |way| Origin::of(way, tlp.repr.class()));
                Kind::Tlp(TlpRecord { origin, ..tlp })
            }
            other => other,
        },
    };
    Record { tlp_bytes: frame.bytes, text: frame.text, ..record_of(frame, lengths, None, kind) }
}

/// Decodes one of several datagrams of a frame.
#[cold]
fn decode_part<'a>(frame: &Frame<'a>, part: Part) -> Record<'a> {
    let Ok(Parsed::Datagram(whole)) = encap::parse(frame.bytes, frame.original_len) else {
        return decode(frame);
    };
    let datagram = part.of(&whole);
    let lengths = [datagram.payload.len(), datagram.payload_len].map(|len| whole.payload_at + len);
    decode_datagram(frame, lengths, &datagram)
}

/// Returns the record of a frame or of a part of it. `lengths` are the lengths captured and on the wire.
fn record_of<'a>(frame: &Frame<'a>, lengths: [usize; 2], path: Option<Path>, kind: Kind<'a>) -> Record<'a> {
    Record {
        number: frame.number,
        timestamp: frame.timestamp,
        has_time: frame.has_time,
        interface: Some(frame.interface),
        captured_len: lengths[0],
        original_len: lengths[1],
        mark: frame.mark,
        truncated: false,
        path,
        direction: frame.direction,
        text: None,
        tlp_bytes: &[],
        kind,
    }
}

/// Returns true if the kernel may have merged several datagrams into this one.
fn may_be_several(kind: &Kind<'_>) -> bool {
    matches!(kind, Kind::Bad(Bad::TlpLength { .. }) | Kind::Other(Other::Nettlp(peer_session::SEALED)))
}

fn decode_datagram<'a>(frame: &Frame<'a>, lengths: [usize; 2], d: &Datagram<'a>) -> Record<'a> {
    let (nettlp, kind) = decode_payload(d);
    match &d.truncated {
        // The length of a TLP is known from its header.
        Some(error) if !matches!(kind, Kind::Tlp(_)) => {
            record_of(frame, lengths, None, Kind::Bad(Bad::Encap(*error)))
        }
        truncated => {
            let truncated = truncated.is_some();
            let is_tlp = matches!(kind, Kind::Tlp(_) | Kind::Bad(Bad::Tlp(_) | Bad::TlpLength { .. }));
            let tlp_bytes = d.payload.get(NETTLP_LEN..).filter(|_| is_tlp).unwrap_or_default();
            Record { truncated, tlp_bytes, ..record_of(frame, lengths, Some(Path::of(d, nettlp)), kind) }
        }
    }
}

fn decode_payload<'a>(d: &Datagram<'a>) -> (Option<NettlpHeader>, Kind<'a>) {
    let port_use = PortUse::between(d.source_port, d.destination_port);
    let other = match port_use {
        PortUse::Nettlp(MESSAGING) => Some(Other::Nettlp(message_name(d))),
        PortUse::Nettlp(what) => Some(Other::Nettlp(what)),
        PortUse::Tlp(_) if is_configuration(d) => Some(Other::Nettlp("configuration")),
        PortUse::Foreign => Some(Other::Port { source: d.source_port, destination: d.destination_port }),
        PortUse::Tlp(_) | PortUse::Dllp | PortUse::Session => None,
    };
    if let Some(other) = other {
        return (None, Kind::Other(other));
    }
    let (header, rest) = match NettlpHeader::parse(d.payload) {
        Ok(parsed) => parsed,
        Err(error) => return (None, Kind::Bad(Bad::Encap(error))),
    };
    let kind = match port_use {
        PortUse::Tlp(origin) => decode_tlp(rest, d.payload_len - NETTLP_LEN, origin),
        PortUse::Session => decode_session(header, rest, d),
        _ => Dllp::parse(rest).map_or_else(|error| Kind::Bad(Bad::Dllp(error)), Kind::Dllp),
    };
    (Some(header), kind)
}

/// Returns the name of a NetTLP message. Requests have four bytes and go to the messaging port. Answers come from
/// this port, and their length distinguishes them.
fn message_name(d: &Datagram<'_>) -> &'static str {
    let is_question = d.destination_port == PORT_MESSAGING;
    let request = d.payload.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    match (is_question, d.payload_len, request) {
        (true, 4, 1) => "messaging, where is BAR4?",
        (true, 4, 2) => "messaging, which device is it?",
        (true, 4, 3) => "messaging, what is in the MSI-X table?",
        (false, 8, _) => "messaging, where BAR4 is",
        (false, 2, _) => "messaging, which device it is",
        (false, 192, _) => "messaging, the MSI-X table",
        _ => MESSAGING,
    }
}

// Adapters up to v0.21 receive configuration on the port of host-issued tag 1: six bytes without a NetTLP header. The
// adapter's answer is padded with zeros to 18 bytes. No TLP is that short, and no TLP has a header of zeros.
fn is_configuration(d: &Datagram<'_>) -> bool {
    d.destination_port == PORT_CONFIG_OLD
        && (d.payload_len == 6
            || (d.payload_len == 18 && d.payload[6.min(d.payload.len())..].iter().all(|b| *b == 0)))
}

// Sealed and malformed datagrams look the same. They are called "sealed", because sessions do not lose or alter data.
fn decode_session<'a>(header: NettlpHeader, rest: &'a [u8], d: &Datagram<'a>) -> Kind<'a> {
    if let Some(name) = peer_session::control_name(header, rest) {
        return Kind::Other(Other::Nettlp(name));
    }
    let is_completion = rest.first().is_some_and(|first| first & 0x1e == 0x0a);
    let from_device = d.destination_port == PORT_SESSION;
    // A request is issued by its sender, but a completion answers a request of the other side.
    let origin = if from_device != is_completion { Origin::Device } else { Origin::Host };
    match decode_tlp(rest, d.payload_len - NETTLP_LEN, origin) {
        Kind::Tlp(tlp) => Kind::Tlp(tlp),
        _ => Kind::Other(Other::Nettlp(peer_session::SEALED)),
    }
}

fn decode_tlp(bytes: &[u8], wire_len: usize, origin: Origin) -> Kind<'_> {
    let parsed = match Repr::parse_header(bytes) {
        Ok(parsed) => parsed,
        Err(error) => return Kind::Bad(Bad::Tlp(error)),
    };
    // LibTLP pads writes of one and two bytes to three bytes, not to four. Adapters remove a digest, but leave TD
    // set.
    let is_write = matches!(&parsed.repr.body, Body::Memory(m) if m.op == MemoryOp::Write);
    let shortest = parsed.data.end - usize::from(is_write && parsed.data.len() == 4);
    if wire_len < shortest || wire_len > parsed.tlp_len() {
        return Kind::Bad(Bad::TlpLength { needed: parsed.tlp_len(), have: wire_len });
    }
    let end = parsed.data.end.min(bytes.len());
    Kind::Tlp(TlpRecord {
        ecrc: parsed.ecrc_fits(bytes).map(|fits| if fits { Ecrc::Good } else { Ecrc::Bad }),
        data: &bytes[parsed.data.start.min(end)..end],
        payload_bytes: parsed.data.len(),
        wire_len: parsed.tlp_len(),
        repr: parsed.repr,
        prefixes: parsed.prefixes,
        origin,
    })
}
