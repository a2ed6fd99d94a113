// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Socket filter with which the kernel drops datagrams that do not come from the networks of peers.

use ipnet::IpNet;
use socket2::{SockFilter, SockRef};
use std::io;
use std::net::{IpAddr, UdpSocket};

/// Maximum number of networks per filter. A program may have 4096 instructions; an IPv6 network needs at most 13.
pub(super) const MAX_NETWORKS: usize = 300;

// Opcodes of classic BPF (linux/bpf_common.h), and the offset of the network header (SKF_NET_OFF, linux/filter.h): the
// filter of a UDP socket sees the datagram from its UDP header.
const LOAD_WORD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
const NETWORK_HEADER: u32 = -0x10_0000_i32 as u32;
const SOURCE_IPV4: u32 = NETWORK_HEADER + 12;
const SOURCE_IPV6: u32 = NETWORK_HEADER + 8;

/// Lets the kernel drop datagrams that do not come from one of `networks`, before they take room in the socket's buffer.
/// All datagrams pass if `networks` is empty, or has more than [`MAX_NETWORKS`] of the socket's family.
pub(super) fn attach(socket: &UdpSocket, ipv6: bool, networks: &[IpNet]) -> io::Result<()> {
    let family = networks.iter().filter(|network| network.addr().is_ipv6() == ipv6);
    if networks.is_empty() || family.clone().count() > MAX_NETWORKS {
        return Ok(());
    }
    let mut program: Vec<SockFilter> = family.flat_map(program).collect();
    program.push(SockFilter::new(RETURN, 0, 0, 0));
    SockRef::from(socket).attach_filter(&program)
}

/// Returns the instructions that accept a datagram whose source is in `network`, and otherwise fall through.
fn program(network: &IpNet) -> Vec<SockFilter> {
    let (first, words) = match network.addr() {
        IpAddr::V4(address) => (SOURCE_IPV4, vec![address.to_bits()]),
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            (SOURCE_IPV6, [96, 64, 32, 0].map(|shift| (bits >> shift) as u32).to_vec())
        }
    };
    let masks = words.iter().enumerate().map(|(index, _)| mask(network.prefix_len(), index));
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

/// Returns the bits of word `index` of an address that a prefix covers.
fn mask(prefix_bits: u8, index: usize) -> u32 {
    let covered = u32::from(prefix_bits).saturating_sub(32 * index as u32).min(32);
    if covered == 0 { 0 } else { u32::MAX << (32 - covered) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_covers_the_most_significant_words_first() {
        let rows = [(0, [0, 0, 0, 0]), (33, [u32::MAX, 1 << 31, 0, 0]), (128, [u32::MAX; 4])];
        for (prefix, masks) in rows {
            assert_eq!([0, 1, 2, 3].map(|index| mask(prefix, index)), masks);
        }
        let longest = "::1/128".parse().unwrap();
        assert!(program(&longest).len() == 13 && MAX_NETWORKS * 13 < 4096);
    }
}
