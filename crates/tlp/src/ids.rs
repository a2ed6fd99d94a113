// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who speaks: functions and transactions.

use core::fmt;

/// Bus, device and function: a Requester ID or Completer ID (`PCIe 5.0 §2.2.6.2`).
///
/// Layout: bus in bits 15:8, device in 7:3, function in 2:0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Bdf(u16);

impl Bdf {
    /// The function with this 16-bit ID.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Bdf {
        Bdf(bits)
    }

    /// Bus, device and function; `None` where device exceeds 31 or function exceeds 7.
    #[must_use]
    pub const fn new(bus: u8, device: u8, function: u8) -> Option<Bdf> {
        if device > 31 || function > 7 {
            return None;
        }
        Some(Bdf((bus as u16) << 8 | (device as u16) << 3 | function as u16))
    }

    /// The 16-bit ID.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Bus number.
    #[must_use]
    pub const fn bus(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// Device number, 0 to 31.
    #[must_use]
    pub const fn device(self) -> u8 {
        (self.0 >> 3) as u8 & 0x1f
    }

    /// Function number, 0 to 7.
    #[must_use]
    pub const fn function(self) -> u8 {
        self.0 as u8 & 0x7
    }
}

impl fmt::Display for Bdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}:{:02x}.{}", self.bus(), self.device(), self.function())
    }
}

/// A transaction tag of 5, 8 or 10 bits (`PCIe 5.0 §2.2.6.2`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Tag(u16);

impl Tag {
    /// The number of 10-bit tags.
    pub const COUNT: u16 = 1024;

    /// The tag with this number; `None` from 1024 on.
    #[must_use]
    pub const fn new(tag: u16) -> Option<Tag> {
        if tag < Self::COUNT { Some(Tag(tag)) } else { None }
    }

    /// The tag in the low ten bits.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Tag {
        Tag(bits & 0x3ff)
    }

    /// The tag's number, 0 to 1023.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#04x}", self.0)
    }
}
