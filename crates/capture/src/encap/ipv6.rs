// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IPv6 and its extension headers (RFC 8200), down to UDP. Fragments are recognized, but not reassembled; jumbograms (RFC 2675)
//! are not supported.
//!
//! ```text
//!  0          4                6            7          8        24            40
//!  | 6, class | Payload Length | Next Hdr   | Hop Lim. | source | destination | extension headers, UDP
//! ```

use super::{EncapError, Foreign, Layer, PROTOCOL_UDP, Parsed, UDP_LEN, Vlans, be16, parse_udp, require};
use std::net::{IpAddr, Ipv6Addr};

/// Maximum number of extension headers in one packet. RFC 8200, section 4.1, defines seven and recommends each at most once.
pub(super) const MAX_EXTENSIONS: usize = 8;

const IPV6_LEN: usize = 40;
/// Next Header values of the extension headers that are skipped.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;
const MOBILITY: u8 = 135;

/// Offset of UDP in a packet, or the content in its place.
enum Reached {
    Udp {
        at: usize,
        is_fragment: bool,
    },
    /// A later fragment that may belong to a UDP datagram.
    Fragment {
        offset: u32,
    },
    Foreign(u8),
}

pub(super) fn parse(
    vlans: Vlans,
    frame: &[u8],
    ip: usize,
    wire_len: usize,
) -> Result<Parsed<'_>, EncapError> {
    let packet = &frame[ip..];
    require(packet, Layer::Ipv6, IPV6_LEN)?;
    if packet[0] >> 4 != 6 {
        return Err(EncapError::Ipv6Version(packet[0] >> 4));
    }
    let length = usize::from(be16(packet, 4));
    let max = wire_len - IPV6_LEN;
    let truncated = (length > max).then_some(EncapError::Ipv6PayloadLength { length, max });
    let total = IPV6_LEN + length;
    let captured = &packet[..total.min(packet.len())];
    let (at, is_fragment) = match skip_extensions(captured).map_err(|error| truncated.unwrap_or(error))? {
        Reached::Udp { at, is_fragment } => (at, is_fragment),
        Reached::Fragment { offset } => return Err(fragment(offset, None)),
        Reached::Foreign(protocol) => return Ok(Parsed::Foreign(Foreign::Protocol(protocol))),
    };
    if is_fragment {
        let ports = captured.get(at..at + UDP_LEN).map(|udp| (be16(udp, 0), be16(udp, 2)));
        return Err(fragment(0, ports));
    }
    let addresses = (address(packet, 8), address(packet, 24));
    let frame = &frame[..ip + captured.len()];
    parse_udp(vlans, addresses, frame, ip + at, total.saturating_sub(at), truncated)
}

fn fragment(offset: u32, ports: Option<(u16, u16)>) -> EncapError {
    EncapError::Fragment { layer: Layer::Ipv6, offset, ports }
}

/// Skips the extension headers of a packet with a complete fixed header.
fn skip_extensions(packet: &[u8]) -> Result<Reached, EncapError> {
    let (mut next, mut at, mut is_fragment) = (packet[6], IPV6_LEN, false);
    for _ in 0..=MAX_EXTENSIONS {
        // A header has 8 bytes, plus the second byte times a unit.
        let unit = match next {
            PROTOCOL_UDP => return Ok(Reached::Udp { at, is_fragment }),
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS | MOBILITY => 8,
            AUTHENTICATION => 4,
            FRAGMENT => 0,
            other => return Ok(Reached::Foreign(other)),
        };
        let header = &packet[at.min(packet.len())..];
        require(header, Layer::Ipv6, 8)?;
        if next == FRAGMENT {
            // The upper 13 bits are the offset in units of 8 bytes; bit 0 is set if more fragments follow.
            let offset = u32::from(be16(header, 2) & 0xfff8);
            if offset != 0 {
                return Ok(later_fragment(header[0], offset));
            }
            is_fragment |= header[3] & 1 != 0;
        }
        at += 8 + usize::from(header[1]) * unit;
        next = header[0];
    }
    Err(EncapError::Ipv6Extensions)
}

// Next Header in a later fragment is the type of the first header in the fragmented part. UDP may follow extension
// headers.
fn later_fragment(next: u8, offset: u32) -> Reached {
    match next {
        PROTOCOL_UDP | HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS | AUTHENTICATION | MOBILITY => {
            Reached::Fragment { offset }
        }
        other => Reached::Foreign(other),
    }
}

fn address(packet: &[u8], at: usize) -> IpAddr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&packet[at..at + 16]);
    Ipv6Addr::from(octets).into()
}
