// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses addresses, lengths and bytes of arguments.

use crate::Failure;
use nettlp::allow::parse_scaled;
use std::net::IpAddr;

/// Parses a number, decimal or with 0x, with an optional suffix K, M, G or T (powers of 1024).
pub(super) fn number(text: &str) -> Result<u64, String> {
    let legal = "expected a 64-bit number, decimal or with 0x; the suffixes K, M, G and T are powers of 1024";
    parse_scaled(text).ok_or_else(|| legal.to_owned())
}

/// Parses the address of a host. An IPv4-mapped IPv6 address becomes an IPv4 address.
pub(super) fn address(text: &str) -> Result<IpAddr, String> {
    let parsed: Result<IpAddr, _> = text.parse();
    let legal = "expected an IPv4 or IPv6 address without a zone; host names are not resolved";
    match parsed.map(|address| address.to_canonical()) {
        Ok(IpAddr::V6(address)) if address.is_unicast_link_local() => {
            Err("link-local, which needs a zone: ".to_owned() + legal)
        }
        parsed => parsed.map_err(|_| legal.to_owned()),
    }
}

/// Refuses ranges beyond the last address.
pub(super) fn within_addresses(address: u64, bytes: u64) -> Result<(), Failure> {
    match address.checked_add(bytes.saturating_sub(1)) {
        Some(_) => Ok(()),
        None => Err(Failure::usage(format!("{bytes} bytes at {address:#x} exceed the address space"))),
    }
}

/// Parses pairs of hexadecimal digits; ignores white space.
pub(super) fn hex(text: &str) -> Result<Vec<u8>, String> {
    let legal = || format!("`{text}`: expected pairs of hexadecimal digits, such as 00ff or '00 ff'");
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let pair = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).ok().filter(|p| p.len() == 2 && !p.starts_with('+'))?;
        u8::from_str_radix(pair, 16).ok()
    };
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(pair).collect();
    bytes.filter(|bytes| !bytes.is_empty()).ok_or_else(legal)
}
