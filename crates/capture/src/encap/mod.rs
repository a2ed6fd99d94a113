// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ethernet, IPv4 or IPv6, UDP and the NetTLP header around a TLP or DLLP.
//!
//! ```text
//!  0               14 (18, 22 with 802.1Q)    34             42                 48
//!  | Ethernet II   | IPv4, 20 B + options    | UDP, 8 B     | NetTLP, 6 B      | TLP or DLLP
//!                                                           | u16 seq, u32 ts  |
//! ```
//!
//! IPv6 has 40 bytes and extension headers in place of IPv4. All fields are big endian. The NetTLP header (NSDI'20,
//! section 4.1) has a sequence number and a timestamp, which are both zero from software. The clock of the adapter
//! has ticks of 6.4 ns.
//!
//! [`parse`] copies nothing and never panics. [`emit_header`] writes into the caller's buffer and allocates
//! nothing. Checksums are written, but never checked: with checksum offload, a capture at the sender has wrong
//! checksums.

mod ipv6;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use tlp::Tag;

/// Number of bytes that [`emit_header`] writes: Ethernet 14, IPv4 20, UDP 8, NetTLP 6.
pub const HEADER_LEN: usize = ETHERNET_LEN + IPV4_LEN + UDP_LEN + NETTLP_LEN;
/// Length of the NetTLP header in bytes.
pub const NETTLP_LEN: usize = 6;
/// Picoseconds per tick of the NetTLP timestamp. The clock has 156.25 MHz, as in 10 Gb Ethernet.
pub const TICK_PS: u64 = 6_400;

/// First UDP port of transactions that a device issued: `0x3000 + tag`, tags 0 to 1023.
pub const PORT_DEVICE: u16 = 0x3000;
/// First UDP port of transactions that a host issued: `0x4000 + (tag & 0xf)`.
pub const PORT_HOST: u16 = 0x4000;
/// Name of an unknown message on NetTLP's messaging port.
pub(crate) const MESSAGING: &str = "messaging";
/// UDP port of NetTLP's messages between LibTLP and the driver.
pub const PORT_MESSAGING: u16 = 0x2fff;
/// UDP port of DLLPs, an extension of riser.
pub const PORT_DLLP: u16 = 0x2ffe;
/// UDP port of sessions between two riser processes, with many tags on one port; an extension of riser.
pub const PORT_SESSION: u16 = 0x2ffd;
/// UDP port of configuration requests to an adapter up to v0.21. Transactions with host-issued tag 1 use it too.
pub const PORT_CONFIG_OLD: u16 = 0x4001;
/// UDP port of configuration requests to an adapter from v0.22 on.
pub const PORT_CONFIG: u16 = 0x5001;
/// UDP port of the adapter's own registers.
pub const PORT_ADAPTER: u16 = 0x5002;

const ETHERNET_LEN: usize = 14;
const VLAN_LEN: usize = 4;
const IPV4_LEN: usize = 20;
const UDP_LEN: usize = 8;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_SERVICE_VLAN: u16 = 0x88a8;
const PROTOCOL_UDP: u8 = 17;

/// The side that issued the request: this TLP, or the request that this completion answers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// A device: DMA, interrupts, messages.
    Device,
    /// The host: MMIO, configuration.
    Host,
}

impl Origin {
    /// `device` or `host`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Origin::Device => "device",
            Origin::Host => "host",
        }
    }
}

/// The rule that assigns a UDP port to a tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortScheme {
    /// Rule of the paper and its captures: `0x3000 + (tag & 0xf)` for requests of both sides.
    Paper,
    /// Current rule: [`PORT_DEVICE`] `+ tag` and [`PORT_HOST`] `+ (tag & 0xf)`.
    Tagged,
}

impl PortScheme {
    /// Returns the UDP port, both source and destination, for a transaction of `origin` with `tag`.
    #[must_use]
    pub const fn port(self, origin: Origin, tag: Tag) -> u16 {
        match (self, origin) {
            (PortScheme::Paper, _) => PORT_DEVICE + (tag.bits() & 0xf),
            (PortScheme::Tagged, Origin::Device) => PORT_DEVICE + tag.bits(),
            (PortScheme::Tagged, Origin::Host) => PORT_HOST + (tag.bits() & 0xf),
        }
    }
}

/// Use of a UDP port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortUse {
    /// A TLP. The side is certain only for ports from [`PORT_HOST`] on, because the paper's scheme has one base for
    /// both.
    Tlp(Origin),
    /// A DLLP.
    Dllp,
    /// A session between two riser processes: TLPs and control records, see [`peer_session`](crate::peer_session).
    Session,
    /// A request or answer of NetTLP messaging, adapter configuration or adapter registers, which is not a TLP.
    Nettlp(&'static str),
    /// A datagram of another protocol.
    Foreign,
}

impl PortUse {
    /// Returns the use of a datagram between these ports. In sessions, messaging and configuration, the client may
    /// use any port, so datagrams from the adapter are recognized by their source port.
    pub const fn between(source: u16, destination: u16) -> PortUse {
        match (PortUse::of(destination), PortUse::of(source)) {
            (PortUse::Foreign, from @ (PortUse::Session | PortUse::Nettlp(_))) => from,
            (to, _) => to,
        }
    }

    /// Returns the use of a datagram to this destination port.
    pub const fn of(port: u16) -> PortUse {
        match port {
            0x3000..=0x33ff => PortUse::Tlp(Origin::Device),
            0x4000..=0x400f => PortUse::Tlp(Origin::Host),
            PORT_DLLP => PortUse::Dllp,
            PORT_SESSION => PortUse::Session,
            PORT_MESSAGING => PortUse::Nettlp(MESSAGING),
            PORT_CONFIG => PortUse::Nettlp("configuration"),
            PORT_ADAPTER => PortUse::Nettlp("adapter registers"),
            _ => PortUse::Foreign,
        }
    }
}

/// A protocol layer of a capture, outermost first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// The capture file.
    File,
    /// The link type of the interface.
    Link,
    /// Ethernet.
    Ethernet,
    /// 802.1Q tags.
    Vlan,
    /// IPv4.
    Ipv4,
    /// IPv6 and its extension headers.
    Ipv6,
    /// UDP.
    Udp,
    /// The NetTLP header.
    Nettlp,
    /// The TLP.
    Tlp,
    /// The DLLP.
    Dllp,
}

impl Layer {
    /// Returns the name in JSON: `file`, `link`, `ethernet`, `vlan`, `ipv4`, `ipv6`, `udp`, `nettlp`, `tlp`, `dllp`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Layer::File => "file",
            Layer::Link => "link",
            Layer::Ethernet => "ethernet",
            Layer::Vlan => "vlan",
            Layer::Ipv4 => "ipv4",
            Layer::Ipv6 => "ipv6",
            Layer::Udp => "udp",
            Layer::Nettlp => "nettlp",
            Layer::Tlp => "tlp",
            Layer::Dllp => "dllp",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layer::File => "capture file",
            Layer::Link => "link type",
            Layer::Ethernet => "Ethernet",
            Layer::Vlan => "802.1Q tag",
            Layer::Ipv4 => "IPv4",
            Layer::Ipv6 => "IPv6",
            Layer::Udp => "UDP",
            Layer::Nettlp => "NetTLP header",
            Layer::Tlp => "TLP",
            Layer::Dllp => "DLLP",
        })
    }
}

/// Reason why a frame is not a complete UDP datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EncapError {
    /// The captured bytes end within a header.
    #[error("{layer}: header needs {need} bytes, the capture holds {have}")]
    Short {
        /// Layer of the header.
        layer: Layer,
        /// Required bytes.
        need: usize,
        /// Captured bytes.
        have: usize,
    },
    /// More 802.1Q tags than [`Vlans::MAX`].
    #[error("802.1Q tag: more than {} stacked tags", Vlans::MAX)]
    VlanDepth,
    /// Version is not 4.
    #[error("IPv4: version {0}, expected 4")]
    IpVersion(u8),
    /// IHL is below 5.
    #[error("IPv4: header length of {0} DW, expected 5 to 15")]
    IpHeaderLength(u8),
    /// Total Length is shorter than the headers, or longer than the frame.
    #[error("IPv4: total length {total}, expected {min} to {max} bytes")]
    IpTotalLength {
        /// Total Length, bytes.
        total: usize,
        /// Length of the headers, bytes.
        min: usize,
        /// Bytes from the IPv4 header to the end of the frame.
        max: usize,
    },
    /// Version is not 6.
    #[error("IPv6: version {0}, expected 6")]
    Ipv6Version(u8),
    /// Payload Length is longer than the frame.
    #[error("IPv6: payload length {length}, expected 0 to {max} bytes")]
    Ipv6PayloadLength {
        /// Payload Length, bytes.
        length: usize,
        /// Bytes after the IPv6 header up to the end of the frame.
        max: usize,
    },
    /// More extension headers than riser parses.
    #[error("IPv6: more than {} extension headers", ipv6::MAX_EXTENSIONS)]
    Ipv6Extensions,
    /// A fragment of a UDP datagram.
    #[error("{layer}: fragment at byte {offset}; fragments are not reassembled")]
    Fragment {
        /// IPv4 or IPv6.
        layer: Layer,
        /// Fragment offset, bytes.
        offset: u32,
        /// Source and destination UDP ports; only the first fragment has them.
        ports: Option<(u16, u16)>,
    },
    /// UDP Length is longer than the IP packet, or shorter than the UDP header.
    #[error("UDP: length {length}, expected 8 to {max} bytes")]
    UdpLength {
        /// UDP Length, bytes.
        length: usize,
        /// Bytes of the IP packet after its headers.
        max: usize,
    },
}

impl EncapError {
    /// The layer with the fault.
    pub const fn layer(&self) -> Layer {
        match self {
            EncapError::Short { layer, .. } | EncapError::Fragment { layer, .. } => *layer,
            EncapError::VlanDepth => Layer::Vlan,
            EncapError::UdpLength { .. } => Layer::Udp,
            EncapError::IpVersion(_) | EncapError::IpHeaderLength(_) | EncapError::IpTotalLength { .. } => {
                Layer::Ipv4
            }
            EncapError::Ipv6Version(_)
            | EncapError::Ipv6PayloadLength { .. }
            | EncapError::Ipv6Extensions => Layer::Ipv6,
        }
    }

    /// A short name of the kind of fault, for statistics.
    pub const fn kind(&self) -> &'static str {
        match self {
            EncapError::Short { .. } => "header cut short",
            EncapError::VlanDepth => "too many tags",
            EncapError::IpVersion(_) | EncapError::Ipv6Version(_) => "version",
            EncapError::IpHeaderLength(_) => "header length",
            EncapError::IpTotalLength { .. } => "total length",
            EncapError::Ipv6PayloadLength { .. } => "payload length",
            EncapError::Ipv6Extensions => "too many extension headers",
            EncapError::Fragment { .. } => "fragment",
            EncapError::UdpLength { .. } => "length",
        }
    }
}

/// The 802.1Q tags of a frame, outermost first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Vlans {
    ids: [u16; Vlans::MAX],
    len: u8,
}

impl Vlans {
    /// Maximum number of stacked tags.
    pub const MAX: usize = 4;

    /// The VLAN identifiers, 0 to 4095.
    pub fn ids(&self) -> &[u16] {
        &self.ids[..usize::from(self.len)]
    }

    fn push(&mut self, id: u16) -> Result<(), EncapError> {
        let slot = self.ids.get_mut(usize::from(self.len)).ok_or(EncapError::VlanDepth)?;
        *slot = id;
        self.len += 1;
        Ok(())
    }
}

/// The captured part of a UDP datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram<'a> {
    /// 802.1Q tags.
    pub vlans: Vlans,
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Byte offset of the payload in the frame.
    pub payload_at: usize,
    /// The captured bytes of the payload.
    pub payload: &'a [u8],
    /// Length of the payload on the wire, at least the captured length.
    pub payload_len: usize,
    /// The error if the frame on the wire was shorter than its IP length. `payload_len` is then the length from UDP.
    pub truncated: Option<EncapError>,
}

/// A valid frame that is not a UDP datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Foreign {
    /// Another EtherType, such as ARP (0x0806).
    EtherType(u16),
    /// Another protocol over IPv4 or IPv6, such as ICMP (1), TCP (6) or ICMPv6 (58).
    Protocol(u8),
}

/// The content of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parsed<'a> {
    /// A UDP datagram over IPv4 or IPv6.
    Datagram(Datagram<'a>),
    /// A frame of another protocol.
    Foreign(Foreign),
}

/// Parses an Ethernet frame up to the UDP payload. `frame` has the captured bytes. `original_len` is the length on
/// the wire in bytes.
///
/// # Errors
/// If a header is truncated or inconsistent. The error contains the layer.
/// If a header is truncated or inconsistent; the error names the layer.
pub fn parse(frame: &[u8], original_len: usize) -> Result<Parsed<'_>, EncapError> {
    let (vlans, ethertype, at) = parse_ethernet(frame)?;
    let wire_len = original_len.max(frame.len()) - at;
    match ethertype {
        ETHERTYPE_IPV4 => parse_ipv4(vlans, frame, at, wire_len),
        ETHERTYPE_IPV6 => ipv6::parse(vlans, frame, at, wire_len),
        other => Ok(Parsed::Foreign(Foreign::EtherType(other))),
    }
}

fn parse_ethernet(frame: &[u8]) -> Result<(Vlans, u16, usize), EncapError> {
    let mut vlans = Vlans::default();
    let mut at = ETHERNET_LEN;
    require(frame, Layer::Ethernet, at)?;
    let mut ethertype = be16(frame, at - 2);
    while matches!(ethertype, ETHERTYPE_VLAN | ETHERTYPE_SERVICE_VLAN) {
        require(&frame[at..], Layer::Vlan, VLAN_LEN)?;
        vlans.push(be16(frame, at) & 0xfff)?;
        ethertype = be16(frame, at + 2);
        at += VLAN_LEN;
    }
    Ok((vlans, ethertype, at))
}

fn parse_ipv4(vlans: Vlans, frame: &[u8], ip: usize, wire_len: usize) -> Result<Parsed<'_>, EncapError> {
    let packet = &frame[ip..];
    require(packet, Layer::Ipv4, IPV4_LEN)?;
    if packet[0] >> 4 != 4 {
        return Err(EncapError::IpVersion(packet[0] >> 4));
    }
    let header_len = usize::from(packet[0] & 0xf) * 4;
    if header_len < IPV4_LEN {
        return Err(EncapError::IpHeaderLength(packet[0] & 0xf));
    }
    require(packet, Layer::Ipv4, header_len)?;
    let total = usize::from(be16(packet, 2));
    let wrong = EncapError::IpTotalLength { total, min: header_len, max: wire_len };
    if total < header_len {
        return Err(wrong);
    }
    let truncated = (total > wire_len).then_some(wrong);
    // MF is bit 13; the offset is in units of 8 bytes. Fragments of other protocols are foreign too.
    let flags = be16(packet, 6);
    if packet[9] != PROTOCOL_UDP {
        return Ok(Parsed::Foreign(Foreign::Protocol(packet[9])));
    }
    if flags & 0x3fff != 0 {
        let offset = u32::from(flags & 0x1fff) * 8;
        let udp = packet.get(header_len..header_len + UDP_LEN).filter(|_| offset == 0);
        let ports = udp.map(|udp| (be16(udp, 0), be16(udp, 2)));
        return Err(EncapError::Fragment { layer: Layer::Ipv4, offset, ports });
    }
    let addresses = (address(packet, 12), address(packet, 16));
    let end = ip + total.min(packet.len());
    parse_udp(vlans, addresses, &frame[..end], ip + header_len, total - header_len, truncated)
}

/// Parses UDP at `at`. `frame` ends with the IP packet, and the wire had `wire_len` bytes from `at` on. If UDP is
/// invalid and the packet was too short on the wire, returns the error of the packet.
fn parse_udp(
    vlans: Vlans,
    (source, destination): (IpAddr, IpAddr),
    frame: &[u8],
    at: usize,
    wire_len: usize,
    truncated: Option<EncapError>,
) -> Result<Parsed<'_>, EncapError> {
    let segment = &frame[at.min(frame.len())..];
    require(segment, Layer::Udp, UDP_LEN).map_err(|error| truncated.unwrap_or(error))?;
    let length = usize::from(be16(segment, 4));
    if length < UDP_LEN || length > wire_len {
        return Err(truncated.unwrap_or(EncapError::UdpLength { length, max: wire_len }));
    }
    Ok(Parsed::Datagram(Datagram {
        vlans,
        source,
        destination,
        source_port: be16(segment, 0),
        destination_port: be16(segment, 2),
        payload_at: at + UDP_LEN,
        payload: &segment[UDP_LEN..length.min(segment.len())],
        payload_len: length - UDP_LEN,
        truncated,
    }))
}

fn require(bytes: &[u8], layer: Layer, need: usize) -> Result<(), EncapError> {
    if bytes.len() < need { Err(EncapError::Short { layer, need, have: bytes.len() }) } else { Ok(()) }
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn address(bytes: &[u8], at: usize) -> IpAddr {
    Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]).into()
}

/// The NetTLP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NettlpHeader {
    /// Sequence number; zero from software.
    pub sequence: u16,
    /// Timestamp, ticks of 6.4 ns; zero from software.
    pub timestamp: u32,
}

impl NettlpHeader {
    /// Parses the header at the start of a UDP payload. Returns the header and the remaining bytes.
    ///
    /// # Errors
    /// If the payload has fewer than six bytes.
    pub fn parse(payload: &[u8]) -> Result<(NettlpHeader, &[u8]), EncapError> {
        let Some((head, rest)) = payload.split_first_chunk::<NETTLP_LEN>() else {
            return Err(EncapError::Short { layer: Layer::Nettlp, need: NETTLP_LEN, have: payload.len() });
        };
        let sequence = u16::from_be_bytes([head[0], head[1]]);
        let timestamp = u32::from_be_bytes([head[2], head[3], head[4], head[5]]);
        Ok((NettlpHeader { sequence, timestamp }, rest))
    }
}

/// Addresses of one end of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Host {
    /// Ethernet address.
    pub mac: [u8; 6],
    /// IPv4 address.
    pub ip: Ipv4Addr,
}

/// Sender and receiver of datagrams.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Addresses {
    /// Sender.
    pub source: Host,
    /// Receiver.
    pub destination: Host,
}

/// Writes the headers for `payload_len` bytes of TLP or DLLP into `out`. Both UDP ports are `port`. The IPv4
/// checksum is valid; the UDP checksum is zero, which stands for "not computed" (RFC 768).
///
/// # Panics
/// If `payload_len` is more than 65,501 bytes, the limit of an IPv4 packet. A TLP has at most 4,116 bytes.
pub fn emit_header(
    out: &mut [u8; HEADER_LEN],
    addresses: &Addresses,
    port: u16,
    nettlp: NettlpHeader,
    payload_len: usize,
) {
    let udp_len = UDP_LEN + NETTLP_LEN + payload_len;
    let total = u16::try_from(IPV4_LEN + udp_len).expect("an IPv4 packet holds at most 65,535 bytes");
    out[0..6].copy_from_slice(&addresses.destination.mac);
    out[6..12].copy_from_slice(&addresses.source.mac);
    out[12..14].copy_from_slice(&ETHERTYPE_IPV4.to_be_bytes());
    let ip = &mut out[ETHERNET_LEN..ETHERNET_LEN + IPV4_LEN];
    ip[0..4].copy_from_slice(&[0x45, 0, (total >> 8) as u8, total as u8]);
    // Identification 0, Don't Fragment, TTL 64.
    ip[4..12].copy_from_slice(&[0, 0, 0x40, 0, 64, PROTOCOL_UDP, 0, 0]);
    ip[12..16].copy_from_slice(&addresses.source.ip.octets());
    ip[16..20].copy_from_slice(&addresses.destination.ip.octets());
    let checksum = internet_checksum(ip);
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    let udp = &mut out[ETHERNET_LEN + IPV4_LEN..];
    udp[0..2].copy_from_slice(&port.to_be_bytes());
    udp[2..4].copy_from_slice(&port.to_be_bytes());
    udp[4..6].copy_from_slice(&(udp_len as u16).to_be_bytes());
    udp[6..8].copy_from_slice(&[0, 0]);
    udp[8..10].copy_from_slice(&nettlp.sequence.to_be_bytes());
    udp[10..14].copy_from_slice(&nettlp.timestamp.to_be_bytes());
}

/// Returns the Internet checksum (RFC 1071) of bytes. An odd length is padded with a zero byte. The result for a
/// header with a valid checksum is 0.
pub fn internet_checksum(bytes: &[u8]) -> u16 {
    !fold(sum_words(bytes))
}

/// Returns the checksum of UDP over IPv6 for a segment whose checksum field is 0 (RFC 8200, section 8.1).
/// `addresses` are the 32 bytes of source and destination. The result is never 0, because 0 stands for "not
/// computed", which IPv6 forbids.
pub(crate) fn udp_checksum_ipv6(addresses: &[u8], segment: &[u8]) -> u16 {
    let pseudo = sum_words(addresses) + segment.len() as u64 + u64::from(PROTOCOL_UDP);
    match !fold(pseudo + sum_words(segment)) {
        0 => 0xffff,
        checksum => checksum,
    }
}

fn sum_words(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(2);
    let odd = words.remainder().first().map_or(0, |&last| u64::from(last) << 8);
    odd + words.map(|w| u64::from(u16::from_be_bytes([w[0], w[1]]))).sum::<u64>()
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
