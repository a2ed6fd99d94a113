// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Networks of peers, and the kernel's filter made of them.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

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

fn same(a: u128, b: u128, free_bits: u8) -> bool {
    (a ^ b).checked_shr(u32::from(free_bits)).unwrap_or(0) == 0
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}
