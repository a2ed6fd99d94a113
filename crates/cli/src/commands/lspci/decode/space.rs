// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bytes of a configuration space as registers, and how their fields are written. Never fails: what is beyond the end
//! reads as ones, as what nobody answers does.

use std::fmt::Write;

/// Bytes of a space without extended capabilities.
const SHORT: usize = 256;

/// A configuration space: 256 or 4096 bytes.
#[derive(Clone, Copy)]
pub(crate) struct Space<'a>(pub(crate) &'a [u8]);

impl Space<'_> {
    /// The byte at an offset.
    pub(crate) fn byte(&self, at: u16) -> u8 {
        self.0.get(usize::from(at)).copied().unwrap_or(0xff)
    }

    /// The two bytes at an offset.
    pub(crate) fn half(&self, at: u16) -> u16 {
        u16::from_le_bytes([self.byte(at), self.byte(at.saturating_add(1))])
    }

    /// The four bytes at an offset.
    pub(crate) fn dw(&self, at: u16) -> u32 {
        u32::from(self.half(at.saturating_add(2))) << 16 | u32::from(self.half(at))
    }

    /// True where there may be extended capabilities.
    pub(crate) fn is_extended(&self) -> bool {
        self.0.len() > SHORT
    }

    /// True for a bridge: a type 1 header.
    pub(crate) fn is_bridge(&self) -> bool {
        self.byte(0x0e) & 0x7f == 1
    }
}

/// Lines of text, each with so many tabs before it.
#[derive(Default)]
pub(crate) struct Lines(String);

impl Lines {
    /// Adds a line.
    pub(crate) fn line(&mut self, tabs: usize, text: impl AsRef<str>) {
        for _ in 0..tabs {
            self.0.push('\t');
        }
        self.0.push_str(text.as_ref());
        self.0.push('\n');
    }

    /// Adds the line of a capability.
    pub(crate) fn capability(&mut self, head: super::Head, text: impl AsRef<str>) {
        let text = text.as_ref();
        match head.version {
            None => self.line(1, format!("Capabilities: [{:02x}] {text}", head.at)),
            Some(version) => self.line(1, format!("Capabilities: [{:x} v{version}] {text}", head.at)),
        }
    }

    /// Everything.
    pub(crate) fn text(self) -> String {
        self.0
    }
}

/// A sign for a bit: `+` where it is set.
pub(crate) fn sign(value: u32, bit: u32) -> char {
    if value >> bit & 1 == 1 { '+' } else { '-' }
}

/// Names of bits, each with its sign.
pub(crate) fn signs(value: u32, bits: &[(&str, u32)]) -> String {
    let all: Vec<String> = bits.iter().map(|(name, bit)| format!("{name}{}", sign(value, *bit))).collect();
    all.join(" ")
}

/// A field of a register.
pub(crate) const fn field(value: u32, high: u32, low: u32) -> u32 {
    value >> low & (u32::MAX >> (31 - (high - low)))
}

/// One of several names, or what stands for an encoding without one.
pub(crate) fn name<'a>(names: &[&'a str], index: u32, otherwise: &'a str) -> &'a str {
    names.get(index as usize).copied().unwrap_or(otherwise)
}

/// Bytes in the largest unit that leaves no rest, as `lspci` writes sizes.
pub(crate) fn size(bytes: u64) -> String {
    let units = ["", "K", "M", "G", "T"];
    let mut left = bytes;
    let mut unit = 0;
    while left != 0 && left.is_multiple_of(1024) && unit + 1 < units.len() {
        left /= 1024;
        unit += 1;
    }
    format!("{left}{}", units[unit])
}

/// Bytes in hexadecimal, with blanks between.
pub(crate) fn hex(bytes: impl IntoIterator<Item = u8>) -> String {
    let mut text = String::new();
    for byte in bytes {
        let blank = if text.is_empty() { "" } else { " " };
        let _ = write!(text, "{blank}{byte:02x}");
    }
    text
}
