// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bytes of a configuration space as registers, and lines of text. Registers beyond the end read as ones, like
//! registers of an absent function.

use std::fmt::Write;

/// Bytes of a space without extended capabilities.
const SHORT: usize = 256;

/// The bytes of a configuration space: 256 or 4096.
#[derive(Clone, Copy)]
pub struct Space<'a>(pub &'a [u8]);

impl Space<'_> {
    /// The byte at an offset.
    pub fn byte(&self, at: u16) -> u8 {
        self.0.get(usize::from(at)).copied().unwrap_or(0xff)
    }

    /// The two bytes at an offset.
    pub fn half(&self, at: u16) -> u16 {
        u16::from_le_bytes([self.byte(at), self.byte(at.saturating_add(1))])
    }

    /// The four bytes at an offset.
    pub fn dw(&self, at: u16) -> u32 {
        u32::from(self.half(at.saturating_add(2))) << 16 | u32::from(self.half(at))
    }

    /// True if there may be extended capabilities.
    pub fn is_extended(&self) -> bool {
        self.0.len() > SHORT
    }

    /// True for a bridge: a type 1 header.
    pub fn is_bridge(&self) -> bool {
        self.byte(0x0e) & 0x7f == 1
    }
}

/// Lines of text.
#[derive(Default)]
pub(super) struct Lines(String);

impl Lines {
    /// Starts a new line, unless it is the first.
    pub(super) fn begin(&mut self) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
    }

    /// Adds text to the current line.
    pub(super) fn add(&mut self, text: &str) {
        self.0.push_str(text);
    }

    /// Adds a line that starts with this many tabs.
    pub(super) fn line(&mut self, tabs: usize, text: impl AsRef<str>) {
        self.begin();
        self.add(&"\t".repeat(tabs));
        self.add(text.as_ref());
    }

    /// Returns all lines.
    pub(super) fn text(self) -> String {
        self.0 + "\n"
    }
}

/// Formats a size with the largest unit that divides it, as `lspci` does.
pub(super) fn size(bytes: u64) -> String {
    let units = ["", "K", "M", "G", "T"];
    let mut left = bytes;
    let mut unit = 0;
    while left != 0 && left.is_multiple_of(1024) && unit + 1 < units.len() {
        left /= 1024;
        unit += 1;
    }
    format!("{left}{}", units[unit])
}

/// Formats bytes in hexadecimal, separated by blanks.
pub(super) fn hex(bytes: impl IntoIterator<Item = u8>) -> String {
    let mut text = String::new();
    for byte in bytes {
        let blank = if text.is_empty() { "" } else { " " };
        let _ = write!(text, "{blank}{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn formats_sizes_as_lspci_does() {
        for (bytes, text) in [(0, "0"), (512, "512"), (4096, "4K"), (4097 << 20, "4097M"), (1 << 40, "1T")] {
            assert_eq!(size(bytes), text);
        }
    }
}
