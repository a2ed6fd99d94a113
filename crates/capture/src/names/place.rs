// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Looks up registers of configuration space in the tables of `riser-config`. Holds no values.

use config::header::{self, type0};
use config::register::{Structure, Word};
use config::{cap, ext};
use std::fmt;

/// A register of configuration space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConfigRegister {
    /// A Base Address Register.
    Bar {
        /// The number of the BAR, 0 to 5.
        index: u8,
        /// True for the upper half of a 64-bit BAR, which belongs to the BAR before it.
        is_upper: bool,
    },
    /// A Base Address Register for the virtual functions of a physical function.
    VfBar {
        /// The number of the BAR, 0 to 5.
        index: u8,
        /// True for the upper half of a 64-bit BAR, which belongs to the BAR before it.
        is_upper: bool,
    },
    /// Expansion ROM Base Address.
    Rom,
    /// Another register: a line of a table.
    Line {
        /// The capability's name; empty for the header.
        capability: &'static str,
        /// The line of the table.
        word: &'static Word,
    },
}

impl ConfigRegister {
    /// True for a register that software sizes by writing ones.
    #[must_use]
    pub const fn is_sized(self) -> bool {
        !matches!(self, ConfigRegister::Line { .. })
    }

    pub(super) fn is_of(self, structure: &Structure) -> bool {
        matches!(self, ConfigRegister::Line { capability, .. } if capability == structure.name)
    }

    /// Appends the names of the registers in this DW that overlap `bits`.
    pub(super) fn append(self, bits: u32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (vf, index, is_upper) = match self {
            ConfigRegister::Bar { index, is_upper } => ("", index, is_upper),
            ConfigRegister::VfBar { index, is_upper } => ("VF ", index, is_upper),
            ConfigRegister::Rom => return f.write_str("Expansion ROM Base Address"),
            ConfigRegister::Line { capability, word } => {
                let name = word.name_of(bits);
                let says_it = name.starts_with(capability);
                return if says_it { f.write_str(name) } else { write!(f, "{capability} {name}") };
            }
        };
        write!(f, "{vf}BAR {index}")?;
        if is_upper { write!(f, " (upper half of {vf}BAR {})", index.saturating_sub(1)) } else { Ok(()) }
    }
}

/// A register of the header. `kind` is the type of the header, if it is known.
pub(super) fn in_header(kind: Option<Header>, dw: u16) -> Option<ConfigRegister> {
    match kind {
        Some(kind) => in_one_header(kind, dw),
        None => {
            let place = in_one_header(Header::Type0, dw)?;
            let name = |place: ConfigRegister| match place {
                ConfigRegister::Line { word, .. } => word.name,
                _ => "",
            };
            // Without the type, only a register that all headers have has a name.
            let agrees = |kind| in_one_header(kind, dw).is_some_and(|other| name(other) == name(place));
            (!place.is_sized() && agrees(Header::Type1) && agrees(Header::Virtual)).then_some(place)
        }
    }
}

/// Types of configuration headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Header {
    Type0,
    Type1,
    Virtual,
}

fn in_one_header(kind: Header, dw: u16) -> Option<ConfigRegister> {
    let (structure, bars, rom) = match kind {
        Header::Type0 => (header::TYPE_0_HEADER, u16::from(type0::BARS), type0::EXPANSION_ROM),
        Header::Type1 => {
            (header::TYPE_1_HEADER, u16::from(header::type1::BARS), header::type1::EXPANSION_ROM)
        }
        Header::Virtual => (header::VIRTUAL_FUNCTION_HEADER, 0, u16::MAX),
    };
    if (type0::BAR0..type0::BAR0 + bars).contains(&dw) {
        return Some(ConfigRegister::Bar { index: (dw - type0::BAR0) as u8, is_upper: false });
    }
    if dw == rom {
        return Some(ConfigRegister::Rom);
    }
    Some(ConfigRegister::Line { capability: "", word: line(structure.words, dw)? })
}

/// A register of a capability, `dw` DWs after its start. `control` is the value of its first DW.
pub(super) fn in_capability(id: u8, control: u32, dw: u16) -> Option<ConfigRegister> {
    let structure = config::cap::capability(id)?;
    let dw = match id {
        cap::msi::ID => msi_line(control, dw)?,
        _ => dw,
    };
    Some(ConfigRegister::Line { capability: structure.name, word: line(structure.words, dw)? })
}

/// The line for `dw` in the table of the MSI capability, which describes the 64-bit form with masking.
fn msi_line(control: u32, dw: u16) -> Option<u16> {
    let is_long = control & cap::msi::CAPABLE_64_BIT != 0;
    let line = if !is_long && dw >= 2 { dw + 1 } else { dw };
    let has_masks = control & cap::msi::PER_VECTOR_MASKING != 0;
    (has_masks || line <= 3).then_some(line)
}

/// A register of an extended capability, `dw` DWs after its start.
pub(super) fn in_extended(id: u16, dw: u16) -> Option<ConfigRegister> {
    let structure = config::ext::extended_capability(id)?;
    let first = ext::sriov::VF_BAR0;
    if id == ext::sriov::ID && (first..first + u16::from(type0::BARS)).contains(&dw) {
        return Some(ConfigRegister::VfBar { index: (dw - first) as u8, is_upper: false });
    }
    Some(ConfigRegister::Line { capability: structure.name, word: line(structure.words, dw)? })
}

fn line(words: &'static [Word], dw: u16) -> Option<&'static Word> {
    words.iter().find(|word| word.dw == dw)
}
