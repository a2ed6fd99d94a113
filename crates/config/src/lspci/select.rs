// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Selection of functions: `[BUS:][DEVICE][.FUNCTION]` in hexadecimal, the format of `lspci -s`.

use std::fmt;
use std::str::FromStr;
use tlp::Bdf;

/// Selects functions by their IDs. A part that is left out matches any value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Selection {
    bus: Option<u8>,
    device: Option<u8>,
    function: Option<u8>,
}

/// Error: a text is not a selection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SelectionError(String);

impl fmt::Display for SelectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.0;
        write!(f, "{text:?}, expected [BUS:][DEVICE][.FUNCTION] in hexadecimal, 00 to ff, 00 to 1f, 0 to 7")
    }
}

impl std::error::Error for SelectionError {}

impl Selection {
    /// True if the function is selected.
    pub fn takes(&self, bdf: Bdf) -> bool {
        let is = |wanted: Option<u8>, is: u8| wanted.is_none_or(|wanted| wanted == is);
        is(self.bus, bdf.bus()) && is(self.device, bdf.device()) && is(self.function, bdf.function())
    }
}

impl FromStr for Selection {
    type Err = SelectionError;

    fn from_str(text: &str) -> Result<Selection, SelectionError> {
        let read = || {
            let (bus, rest) = text.split_once(':').map_or(("", text), |(bus, rest)| (bus, rest));
            let (device, function) = rest.split_once('.').unwrap_or((rest, ""));
            let (bus, device, function) = (number(bus, 0xff)?, number(device, 0x1f)?, number(function, 7)?);
            let some = bus.is_some() || device.is_some() || function.is_some();
            some.then_some(Selection { bus, device, function })
        };
        read().ok_or_else(|| SelectionError(text.to_owned()))
    }
}

/// Parses a hexadecimal number up to `most`. An empty text or `*` matches any number. `None` for
/// all else.
fn number(text: &str, most: u8) -> Option<Option<u8>> {
    if text.is_empty() || text == "*" {
        return Some(None);
    }
    let number = u8::from_str_radix(text, 16).ok().filter(|n| *n <= most && !text.starts_with('+'));
    number.map(Some)
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let two = |n: Option<u8>| n.map_or_else(|| "*".to_owned(), |n| format!("{n:02x}"));
        let function = self.function.map_or_else(|| "*".to_owned(), |n| n.to_string());
        write!(f, "{}:{}.{function}", two(self.bus), two(self.device))
    }
}
