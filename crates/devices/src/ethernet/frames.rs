// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames between stations: ARP (RFC 826) and ICMP echo (RFC 792) over IPv4 and Ethernet. `smoltcp` implements the
//! formats. Never panics on foreign bytes.

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr,
    Icmpv4Packet, Icmpv4Repr, IpProtocol, Ipv4Packet, Ipv4Repr,
};
use std::net::Ipv4Addr;
use thiserror::Error;

/// A MAC address, first byte first.
pub type MacAddress = [u8; 6];

/// Time to live of sent packets.
const HOP_LIMIT: u8 = 64;

/// One end of a conversation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Station {
    /// Ethernet address.
    pub mac: MacAddress,
    /// IPv4 address.
    pub ip: Ipv4Addr,
}

/// Request or reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A request.
    Request,
    /// A reply.
    Reply,
}

/// An ARP packet. In a request, `to.mac` is unknown; the frame goes to broadcast.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arp {
    /// Request or reply.
    pub kind: Kind,
    /// Sender.
    pub from: Station,
    /// Target.
    pub to: Station,
}

/// An ICMP echo packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Echo {
    /// Request or reply.
    pub kind: Kind,
    /// Sender.
    pub from: Station,
    /// Receiver.
    pub to: Station,
    /// Identifier.
    pub ident: u16,
    /// Sequence Number.
    pub sequence: u16,
    /// Data.
    pub data: Vec<u8>,
}

/// A frame of a known kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Frame {
    /// ARP.
    Arp(Arp),
    /// ICMP echo.
    Echo(Echo),
}

/// Why a frame cannot be parsed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum FrameError {
    /// A header is truncated or invalid, or a checksum is wrong.
    #[error("its {0} is malformed or its checksum is wrong")]
    Malformed(&'static str),
    /// Neither ARP nor ICMP echo.
    #[error("it is neither ARP nor ICMP echo")]
    Unknown,
}

/// The broadcast address.
pub const BROADCAST: MacAddress = [0xff; 6];

impl Frame {
    /// Parses a frame without FCS. Ignores padding after the packet.
    ///
    /// # Errors
    /// If the frame is of an unknown kind, or a checksum is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Frame, FrameError> {
        let frame =
            EthernetFrame::new_checked(bytes).map_err(|_| FrameError::Malformed("Ethernet header"))?;
        match frame.ethertype() {
            EthernetProtocol::Arp => Arp::parse(frame.payload()).map(Frame::Arp),
            EthernetProtocol::Ipv4 => Echo::parse(&frame).map(Frame::Echo),
            _ => Err(FrameError::Unknown),
        }
    }
}

/// Returns a frame with room for `len` bytes of payload.
fn ethernet(from: &Station, to: &Station, ethertype: EthernetProtocol, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; EthernetFrame::<&[u8]>::buffer_len(len)];
    let (src_addr, dst_addr) = (EthernetAddress(from.mac), EthernetAddress(to.mac));
    EthernetRepr { src_addr, dst_addr, ethertype }.emit(&mut EthernetFrame::new_unchecked(&mut bytes[..]));
    bytes
}

impl Arp {
    fn parse(bytes: &[u8]) -> Result<Arp, FrameError> {
        let packet = ArpPacket::new_checked(bytes).map_err(|_| FrameError::Malformed("ARP packet"))?;
        let ArpRepr::EthernetIpv4 {
            operation,
            source_hardware_addr,
            source_protocol_addr,
            target_hardware_addr,
            target_protocol_addr,
        } = ArpRepr::parse(&packet).map_err(|_| FrameError::Malformed("ARP packet"))?
        else {
            return Err(FrameError::Unknown);
        };
        let kind = match operation {
            ArpOperation::Request => Kind::Request,
            ArpOperation::Reply => Kind::Reply,
            ArpOperation::Unknown(_) => return Err(FrameError::Unknown),
        };
        let from = Station { mac: source_hardware_addr.0, ip: source_protocol_addr };
        let to = Station { mac: target_hardware_addr.0, ip: target_protocol_addr };
        Ok(Arp { kind, from, to })
    }

    /// Returns the frame.
    pub fn emit(&self) -> Vec<u8> {
        let repr = ArpRepr::EthernetIpv4 {
            operation: if self.kind == Kind::Request { ArpOperation::Request } else { ArpOperation::Reply },
            source_hardware_addr: EthernetAddress(self.from.mac),
            source_protocol_addr: self.from.ip,
            target_hardware_addr: EthernetAddress(self.to.mac),
            target_protocol_addr: self.to.ip,
        };
        let mut bytes = ethernet(&self.from, &self.to, EthernetProtocol::Arp, repr.buffer_len());
        let mut frame = EthernetFrame::new_unchecked(&mut bytes[..]);
        repr.emit(&mut ArpPacket::new_unchecked(frame.payload_mut()));
        bytes
    }
}

impl Echo {
    fn parse(frame: &EthernetFrame<&[u8]>) -> Result<Echo, FrameError> {
        let checksums = ChecksumCapabilities::default();
        let packet =
            Ipv4Packet::new_checked(frame.payload()).map_err(|_| FrameError::Malformed("IPv4 header"))?;
        let ip = Ipv4Repr::parse(&packet, &checksums).map_err(|_| FrameError::Malformed("IPv4 header"))?;
        if ip.next_header != IpProtocol::Icmp {
            return Err(FrameError::Unknown);
        }
        let icmp =
            Icmpv4Packet::new_checked(packet.payload()).map_err(|_| FrameError::Malformed("ICMP packet"))?;
        let repr = Icmpv4Repr::parse(&icmp, &checksums).map_err(|_| FrameError::Malformed("ICMP packet"))?;
        let (kind, ident, sequence, data) = match repr {
            Icmpv4Repr::EchoRequest { ident, seq_no, data } => (Kind::Request, ident, seq_no, data),
            Icmpv4Repr::EchoReply { ident, seq_no, data } => (Kind::Reply, ident, seq_no, data),
            _ => return Err(FrameError::Unknown),
        };
        let from = Station { mac: frame.src_addr().0, ip: ip.src_addr };
        let to = Station { mac: frame.dst_addr().0, ip: ip.dst_addr };
        Ok(Echo { kind, from, to, ident, sequence, data: data.to_vec() })
    }

    /// Returns the frame.
    pub fn emit(&self) -> Vec<u8> {
        let Echo { kind, from, to, ident, sequence: seq_no, ref data } = *self;
        let icmp = match kind {
            Kind::Request => Icmpv4Repr::EchoRequest { ident, seq_no, data },
            Kind::Reply => Icmpv4Repr::EchoReply { ident, seq_no, data },
        };
        let ip = Ipv4Repr {
            src_addr: from.ip,
            dst_addr: to.ip,
            next_header: IpProtocol::Icmp,
            payload_len: icmp.buffer_len(),
            hop_limit: HOP_LIMIT,
        };
        let checksums = ChecksumCapabilities::default();
        let mut bytes = ethernet(&from, &to, EthernetProtocol::Ipv4, ip.buffer_len() + icmp.buffer_len());
        let mut frame = EthernetFrame::new_unchecked(&mut bytes[..]);
        let mut packet = Ipv4Packet::new_unchecked(frame.payload_mut());
        ip.emit(&mut packet, &checksums);
        icmp.emit(&mut Icmpv4Packet::new_unchecked(packet.payload_mut()), &checksums);
        bytes
    }
}
