// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Networks of peers, and the kernel's filter made of them.

use socket2::{SockFilter, SockRef};
use std::net::{IpAddr, UdpSocket};
use std::str::FromStr;
use std::{fmt, io};

/// Networks of one filter; a program may have 4096 instructions, of which an IPv6 network takes at most 13.
pub(super) const MAX_NETWORKS: usize = 300;

// Opcodes of classic BPF (linux/bpf_common.h), and where the network header begins (SKF_NET_OFF, linux/filter.h): a UDP
// socket's filter sees the datagram from its UDP header on.
const LOAD_WORD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
const NETWORK_HEADER: u32 = -0x10_0000_i32 as u32;
const SOURCE_IPV4: u32 = NETWORK_HEADER + 12;
const SOURCE_IPV6: u32 = NETWORK_HEADER + 8;

/// Addresses with a common prefix, or a single one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Network {
    address: IpAddr,
    prefix_bits: u8,
}

/// Why a text is no [`Network`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ParseNetworkError {
    /// Not an address.
    #[error("`{0}` is no IPv4 or IPv6 address")]
    Address(String),
    /// Not a length of a prefix.
    #[error("prefix length `{given}`: legal are 0 to {most}")]
    Prefix {
        /// What was there.
        given: String,
        /// Bits of an address of this family.
        most: u8,
    },
}

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        Network { address, prefix_bits: bits(address) }
    }
}

impl FromStr for Network {
    type Err = ParseNetworkError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(a, p)| (a, Some(p)));
        let parsed: IpAddr = address.parse().map_err(|_| ParseNetworkError::Address(address.to_owned()))?;
        let most = bits(parsed);
        let Some(prefix) = prefix else { return Ok(parsed.into()) };
        let prefix_bits = prefix.parse().ok().filter(|&p: &u8| p <= most);
        let prefix_bits = prefix_bits.ok_or(ParseNetworkError::Prefix { given: prefix.to_owned(), most })?;
        Ok(Network { address: parsed, prefix_bits })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.prefix_bits == bits(self.address) {
            return write!(f, "{}", self.address);
        }
        write!(f, "{}/{}", self.address, self.prefix_bits)
    }
}

impl Network {
    /// Whether an address is one of these. An IPv4 address is never within an IPv6 network.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                same(u128::from(a.to_bits()), u128::from(b.to_bits()), 32 - self.prefix_bits)
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128 - self.prefix_bits),
            _ => false,
        }
    }
}

/// Has the kernel drop what does not come from one of `networks`, before it takes room in the socket's buffer. With none,
/// or more than [`MAX_NETWORKS`] of the socket's family, everything passes.
pub(super) fn attach(socket: &UdpSocket, ipv6: bool, networks: &[Network]) -> io::Result<()> {
    let family = networks.iter().filter(|network| network.address.is_ipv6() == ipv6);
    if networks.is_empty() || family.clone().count() > MAX_NETWORKS {
        return Ok(());
    }
    let mut program: Vec<SockFilter> = family.flat_map(Network::program).collect();
    program.push(SockFilter::new(RETURN, 0, 0, 0));
    SockRef::from(socket).attach_filter(&program)
}

impl Network {
    /// Accepts the datagram if its source is one of these, else goes on behind.
    fn program(&self) -> Vec<SockFilter> {
        let (first, words) = match self.address {
            IpAddr::V4(address) => (SOURCE_IPV4, vec![address.to_bits()]),
            IpAddr::V6(address) => {
                let bits = address.to_bits();
                (SOURCE_IPV6, [96, 64, 32, 0].map(|shift| (bits >> shift) as u32).to_vec())
            }
        };
        let masks = words.iter().enumerate().map(|(index, _)| mask(self.prefix_bits, index));
        let tests: Vec<(u32, u32, u32)> = (words.iter().zip(masks).enumerate())
            .filter(|(_, (_, mask))| *mask != 0)
            .map(|(index, (word, mask))| (first + 4 * index as u32, mask, word & mask))
            .collect();
        let len = 3 * tests.len() + 1;
        let mut program = Vec::with_capacity(len);
        for (offset, mask, word) in tests {
            program.push(SockFilter::new(LOAD_WORD, 0, 0, offset));
            program.push(SockFilter::new(AND, 0, 0, mask));
            let otherwise = (len - program.len() - 1) as u8;
            program.push(SockFilter::new(JUMP_IF_EQUAL, 0, otherwise, word));
        }
        program.push(SockFilter::new(RETURN, 0, 0, u32::MAX));
        program
    }
}

/// The bits of word `index` of an address that a prefix covers.
fn mask(prefix_bits: u8, index: usize) -> u32 {
    let covered = u32::from(prefix_bits).saturating_sub(32 * index as u32).min(32);
    if covered == 0 { 0 } else { u32::MAX << (32 - covered) }
}

fn same(a: u128, b: u128, free_bits: u8) -> bool {
    (a ^ b).checked_shr(u32::from(free_bits)).unwrap_or(0) == 0
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_addresses_with_a_prefix() {
        let rows = [
            ("10.1.2.3", "10.1.2.3", "10.1.2.4"),
            ("10.1.2.3/8", "10.200.0.0", "11.1.2.3"),
            ("0.0.0.0/0", "255.1.2.3", "::1"),
            ("fd00::1", "fd00::1", "fd00::2"),
            ("fd00::/65", "fd00::7fff:0:0:1", "fd00::8000:0:0:1"),
            ("::/0", "fd00::1", "1.2.3.4"),
        ];
        for (text, inside, outside) in rows {
            let network: Network = text.parse().unwrap();
            assert!(network.contains(inside.parse().unwrap()), "{inside} in {text}");
            assert!(!network.contains(outside.parse().unwrap()), "{outside} in {text}");
            assert_eq!(network.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_network_says_what_would_be() {
        let rows = [
            ("10.1.2", "`10.1.2` is no IPv4 or IPv6 address"),
            ("10.1.2.3/33", "prefix length `33`: legal are 0 to 32"),
            ("::1/x", "prefix length `x`: legal are 0 to 128"),
        ];
        for (text, error) in rows {
            assert_eq!(text.parse::<Network>().unwrap_err().to_string(), error);
        }
    }

    #[test]
    fn a_prefix_covers_words_from_the_left() {
        let rows = [(0, [0, 0, 0, 0]), (33, [u32::MAX, 1 << 31, 0, 0]), (128, [u32::MAX; 4])];
        for (prefix, masks) in rows {
            assert_eq!([0, 1, 2, 3].map(|index| mask(prefix, index)), masks);
        }
        let longest = Network { address: "::1".parse().unwrap(), prefix_bits: 128 };
        assert!(longest.program().len() == 13 && MAX_NETWORKS * 13 < 4096);
    }
}
