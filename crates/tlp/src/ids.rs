// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IDs of functions and tags of transactions.

use core::fmt;
use core::str::FromStr;

/// Bus, device and function: a Requester ID or Completer ID (`PCIe 5.0 §2.2.6.2`).
///
/// Layout: bus in bits 15:8, device in 7:3, function in 2:0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bdf(u16);

impl Bdf {
    /// The function with this 16-bit ID.
    pub const fn from_bits(bits: u16) -> Bdf {
        Bdf(bits)
    }

    /// Bus, device and function; `None` if device exceeds 31 or function exceeds 7.
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

/// Same as [`Display`](fmt::Display), which is easier to read than the number.
impl fmt::Debug for Bdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Error for text that is not a bus, device and function number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BdfError;

impl fmt::Display for BdfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected bus, device and function in hexadecimal, 00:00.0 to ff:1f.7")
    }
}

impl core::error::Error for BdfError {}

impl FromStr for Bdf {
    type Err = BdfError;

    /// Reads the text that [`Display`](fmt::Display) prints.
    fn from_str(text: &str) -> Result<Bdf, BdfError> {
        let number = |text: &str| u8::from_str_radix(text, 16).ok().filter(|_| !text.starts_with('+'));
        let read = || {
            let (bus, rest) = text.split_once(':')?;
            let (device, function) = rest.split_once('.')?;
            Bdf::new(number(bus)?, number(device)?, number(function)?)
        };
        read().ok_or(BdfError)
    }
}

/// A transaction tag of 5, 8 or 10 bits (`PCIe 5.0 §2.2.6.2`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Tag(u16);

impl Tag {
    /// The number of 10-bit tags.
    pub const COUNT: u16 = 1024;

    /// The tag with this number; `None` for 1024 and above.
    pub const fn new(tag: u16) -> Option<Tag> {
        if tag < Self::COUNT { Some(Tag(tag)) } else { None }
    }

    /// The tag in the low ten bits.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;
    use std::string::ToString;

    #[test]
    fn parses_printed_function() {
        for bits in [0, 0x1900, 0xffff, 0x0107] {
            let id = Bdf::from_bits(bits);
            assert_eq!(id.to_string().parse(), Ok(id));
            assert_eq!(format!("{id:?}"), id.to_string());
        }
        assert_eq!(format!("{:?}", Some(Bdf::from_bits(0x100))), "Some(01:00.0)");
        for text in ["", "19:00", "19.00.0", "100:00.0", "19:20.0", "19:00.8", "+1:00.0", "1:0.0.0"] {
            assert_eq!(text.parse::<Bdf>(), Err(BdfError), "{text}");
        }
    }
}
