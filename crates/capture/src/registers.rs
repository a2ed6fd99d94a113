// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Named registers of devices: those of known devices, and those that a device defines itself, for example in
//! Python. Captures contain the latter. Their number is bounded.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

/// Maximum number of named registers of one device in a capture.
pub const MAX_OWN: usize = 4096;
/// Maximum number of characters of a name in a capture.
const MAX_NAME: usize = 64;
/// First line of a comment with the names of registers.
const HEADING: &str = "registers: BAR, offset, bytes, name";
/// Number of registers per comment. With the longest names, this is less than the maximum of 65,535 B per comment.
const PER_COMMENT: usize = 200;

/// A register of a known device.
pub type DeviceRegister = NamedRegister<&'static str>;

/// A register of a device, with its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
pub struct NamedRegister<N> {
    /// The BAR, 0 to 5; `None` for the only BAR of the device.
    pub bar: Option<u8>,
    /// Offset of the first byte in the BAR.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Name in the device's documentation.
    pub name: N,
}

impl<N> NamedRegister<N> {
    pub(crate) fn called<M>(&self, name: M) -> NamedRegister<M> {
        NamedRegister { bar: self.bar, offset: self.offset, bytes: self.bytes, name }
    }
}

impl<N: AsRef<str>> NamedRegister<N> {
    pub(crate) fn borrowed(&self) -> NamedRegister<&str> {
        self.called(self.name.as_ref())
    }
}

/// The registers of devices, by their Vendor and Device IDs. Clones are cheap.
#[derive(Clone, Debug, Default)]
pub struct DeviceRegisters(Arc<BTreeMap<(u16, u16), &'static [DeviceRegister]>>);

impl DeviceRegisters {
    /// Returns the registers of one device in ascending order; none if the device is unknown.
    pub fn of(&self, vendor: u16, device: u16) -> &'static [DeviceRegister] {
        self.0.get(&(vendor, device)).copied().unwrap_or_default()
    }
}

/// Collects pairs of IDs and registers: Vendor and Device ID, and the registers of that device in ascending order.
impl FromIterator<((u16, u16), &'static [DeviceRegister])> for DeviceRegisters {
    fn from_iter<I: IntoIterator<Item = ((u16, u16), &'static [DeviceRegister])>>(all: I) -> DeviceRegisters {
        DeviceRegisters(Arc::new(all.into_iter().collect()))
    }
}

/// The registers of one device, by BAR and offset. Clones are cheap.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OwnRegisters(Arc<[NamedRegister<Box<str>>]>);

impl OwnRegisters {
    /// Keeps the first [`MAX_OWN`] registers by BAR and offset. Truncates names to 64 characters, and replaces
    /// control characters with U+FFFD.
    pub fn new<'a>(all: impl IntoIterator<Item = NamedRegister<&'a str>>) -> OwnRegisters {
        let printable = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
        let own = |register: NamedRegister<&str>| {
            let name: String = register.name.chars().take(MAX_NAME).map(printable).collect();
            register.called(name.into_boxed_str())
        };
        let mut all: Vec<_> = all.into_iter().map(own).collect();
        all.sort_by_key(|register| (register.bar, register.offset));
        all.truncate(MAX_OWN);
        OwnRegisters(all.into())
    }

    /// Returns true if the device has no named registers.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn all(&self) -> &[NamedRegister<Box<str>>] {
        &self.0
    }

    /// Returns the comments with these registers for an interface of a capture.
    pub(crate) fn comments(&self) -> impl Iterator<Item = String> + '_ {
        self.0.chunks(PER_COMMENT).map(|registers| {
            let mut text = HEADING.to_owned();
            for NamedRegister { bar, offset, bytes, name } in registers {
                let bar = bar.unwrap_or(0);
                let _ = write!(text, "\n{bar} {offset:#x} {bytes} {name}");
            }
            text
        })
    }

    /// Adds the registers in one comment of an interface. Skips malformed lines, and comments without the heading.
    pub(crate) fn read(&mut self, comment: &str) {
        let Some(lines) = comment.strip_prefix(HEADING) else { return };
        let room = MAX_OWN - self.0.len();
        let known = self.0.iter().map(NamedRegister::borrowed);
        *self = OwnRegisters::new(known.chain(lines.lines().filter_map(line).take(room)));
    }
}

fn line(text: &str) -> Option<NamedRegister<&str>> {
    let mut words = text.splitn(4, ' ');
    let bar = words.next()?.parse().ok().filter(|bar| *bar < 6)?;
    let offset = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    let bytes = words.next()?.parse().ok().filter(|bytes| *bytes > 0)?;
    offset.checked_add(bytes)?;
    Some(NamedRegister { bar: Some(bar), offset, bytes, name: words.next()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(bar: u8, offset: u64, name: &str) -> NamedRegister<&str> {
        NamedRegister { bar: Some(bar), offset, bytes: 4, name }
    }

    #[test]
    fn reads_back_registers_from_comments() {
        let names: Vec<String> = (0..900).map(|n| format!("{n}{}", "x".repeat(70))).collect();
        let many = names.iter().zip((0..).step_by(4)).map(|(name, offset)| named(1, offset, name));
        let written = OwnRegisters::new(many.chain([named(0, 8, "go\n\"now\"")]));
        assert_eq!(&*written.all()[0].name, "go\u{fffd}\"now\"");
        let comments: Vec<String> = written.comments().collect();
        assert!(comments.len() == 5 && comments.iter().all(|text| text.len() < 65_535));
        let mut read = OwnRegisters::default();
        comments.iter().for_each(|text| read.read(text));
        assert_eq!(read, written);
    }

    #[test]
    fn ignores_malformed_lines() {
        let mut read = OwnRegisters::default();
        read.read("a note of somebody's\n0 0x0 4 no");
        for line in
            ["6 0x0 4 bar", "0 0 4 decimal", "0 0x0 0 empty", "0 0xffffffffffffffff 4 beyond", "0 0x0", ""]
        {
            read.read(&format!("{HEADING}\n{line}"));
        }
        assert!(read.is_empty(), "{read:?}");
        read.read(&format!("{HEADING}\n0 0x8 4 with a blank"));
        assert_eq!(read, OwnRegisters::new([named(0, 8, "with a blank")]));
    }

    #[test]
    fn keeps_at_most_4096_registers() {
        let many = || (0..u64::try_from(MAX_OWN).unwrap() + 5).map(|n| named(0, 4 * n, "r"));
        let mut read = OwnRegisters::new(many());
        assert_eq!(read.all().len(), MAX_OWN);
        let comments: Vec<String> = read.comments().collect();
        comments.iter().for_each(|text| read.read(text));
        assert_eq!(read.all().len(), MAX_OWN);
    }
}
