// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses addresses, lengths and bytes of arguments; prints bytes.

use crate::failure::Failure;
use nettlp::allow::parse_scaled;
use std::fmt::{Display, Write};
use std::net::IpAddr;
use tlp::{Mps, Mrrs, Rcb};

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

/// Max_Payload_Size.
pub(super) fn mps(text: &str) -> Result<Mps, String> {
    size(text, Mps::new, "128, 256, 512, 1024, 2048, 4096")
}

/// Max_Read_Request_Size.
pub(super) fn mrrs(text: &str) -> Result<Mrrs, String> {
    size(text, Mrrs::new, "128, 256, 512, 1024, 2048, 4096")
}

/// Read Completion Boundary.
pub(super) fn rcb(text: &str) -> Result<Rcb, String> {
    size(text, Rcb::new, "64 or 128")
}

fn size<T, E: Display>(text: &str, new: fn(u32) -> Result<T, E>, legal: &str) -> Result<T, String> {
    let bytes = text.parse().map_err(|_| format!("expected {legal}"))?;
    new(bytes).map_err(|e| e.to_string())
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

/// Returns a dump with 16 bytes per line: address, hexadecimal digits, ASCII characters.
pub(super) fn dump(address: u64, bytes: &[u8]) -> String {
    let mut text = String::new();
    for (line, bytes) in bytes.chunks(16).enumerate() {
        let _ = write!(text, "{:08x} ", address + line as u64 * 16);
        for byte in bytes {
            let _ = write!(text, " {byte:02x}");
        }
        let gap = (16 - bytes.len()) * 3 + 2;
        let shown =
            |byte: &u8| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '.' };
        let _ = writeln!(text, "{:gap$}{}", "", bytes.iter().map(shown).collect::<String>());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_ip_addresses_but_no_names() {
        for (text, expected) in [
            ("127.0.0.1", Some("127.0.0.1")),
            ("::ffff:127.0.0.1", Some("127.0.0.1")),
            ("fd00::1", Some("fd00::1")),
            ("fe80::1", None),
            ("fe80::1%eth0", None),
            ("localhost", None),
        ] {
            let found = address(text).ok().map(|address| address.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn parses_numbers_with_suffix() {
        for (text, expected) in [
            ("0", Some(0)),
            ("4096", Some(4096)),
            ("0x1F", Some(31)),
            ("256M", Some(256 << 20)),
            ("0x10k", Some(0x4000)),
            ("0xffffffffffffffff", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("16777216T", None),
            ("", None),
            ("k", None),
            ("-1", None),
            ("+1", None),
            ("0x+1", None),
            ("1.5", None),
        ] {
            assert_eq!(number(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn parses_mps_mrrs_and_rcb() {
        for (text, is_mps, is_rcb) in [
            ("128", true, true),
            ("64", false, true),
            ("4096", true, false),
            ("256B", false, false),
            ("-1", false, false),
            ("", false, false),
        ] {
            let read = (mps(text).is_ok(), mrrs(text).is_ok(), rcb(text).is_ok());
            assert_eq!(read, (is_mps, is_mps, is_rcb), "{text}");
        }
        assert_eq!(rcb("x").unwrap_err(), "expected 64 or 128");
    }

    #[test]
    fn parses_hexadecimal_bytes() {
        for (text, expected) in [
            ("00ff", Some(&[0, 0xff][..])),
            ("0A 0b\n0c", Some(&[10, 11, 12])),
            ("", None),
            ("0", None),
            ("0g", None),
            ("+1", None),
            ("é", None),
        ] {
            assert_eq!(hex(text).ok().as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn dumps_addresses_bytes_and_characters() {
        let bytes: Vec<u8> = (0x3e..0x50).collect();
        let expected = "\
00001000  3e 3f 40 41 42 43 44 45 46 47 48 49 4a 4b 4c 4d  >?@ABCDEFGHIJKLM
00001010  4e 4f                                            NO
";
        assert_eq!(dump(0x1000, &bytes), expected);
    }
}
