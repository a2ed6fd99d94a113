// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The meaning of a TLP, and its text. Printing allocates nothing.

use super::windows::At;
use super::{ConfigRegister, DeviceRegister, NamedRegister, OwnRegisters};
use config::register::{Attribute, Field, Word, byte_mask};
use std::fmt;
use tlp::Bdf;

/// Maximum number of bytes of a write that are kept to show the values of registers.
const MAX_VALUE_BYTES: usize = 16;
/// Maximum number of registers of one access that are printed by name. Further registers are only counted.
const MAX_NAMED: usize = 4;

/// The meaning of a TLP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// A configuration request or its completion.
    Config {
        /// The function.
        function: Bdf,
        /// The register.
        place: ConfigRegister,
        /// Byte Enables, bits 3:0.
        enables: u8,
        /// The operation on the register.
        action: Action,
    },
    /// An interrupt.
    Interrupt(Interrupt),
    /// An access to an entry of a function's MSI-X table.
    MsixTable {
        /// Number of the entry.
        vector: u16,
        /// The registers of the entry that are accessed.
        registers: Registers,
    },
    /// An access to a function's memory.
    Registers(Registers),
}

/// An operation on a configuration register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// A read request.
    Read,
    /// A completion of a read, with the value.
    Answer(u32),
    /// A completion of a read of a BAR after sizing, with the size of the BAR in bytes.
    Size(u64),
    /// A write, with the value.
    Write(u32),
    /// A write of ones to a BAR, which starts sizing.
    Sizing,
}

/// An interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interrupt {
    /// How it is sent.
    pub kind: InterruptKind,
    /// The function that sends it.
    pub function: Bdf,
    /// The vector; `None` if several vectors have the same address and data.
    pub vector: Option<u16>,
}

/// How an interrupt is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InterruptKind {
    /// With the address and data of the MSI capability.
    Msi,
    /// With the address and data of an entry of the MSI-X table.
    Msix,
}

/// The named registers of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Known {
    Shipped(&'static [DeviceRegister]),
    Own(OwnRegisters),
}

/// An access to the memory of a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registers {
    /// The function.
    pub function: Bdf,
    /// The BAR, 0 to 5.
    pub bar: u8,
    /// Offset of the first byte in the BAR, or in the entry of an MSI-X table.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u32,
    /// The known registers of the device.
    known: Known,
    /// The first bytes of a write, if they were captured.
    data: [u8; MAX_VALUE_BYTES],
    captured: u8,
}

impl Registers {
    pub(super) fn new(at: At, bytes: u32, known: Known, data: Option<&[u8]>) -> Registers {
        let mut first = [0; MAX_VALUE_BYTES];
        let data = data.unwrap_or_default();
        let captured = data.len().min(MAX_VALUE_BYTES);
        first[..captured].copy_from_slice(&data[..captured]);
        let (function, bar, offset) = (at.function, at.bar, at.offset);
        Registers { function, bar, offset, bytes, known, data: first, captured: captured as u8 }
    }

    /// The registers that the access overlaps, in the order of their table.
    pub fn touched(&self) -> impl Iterator<Item = NamedRegister<&str>> {
        let (first, end, bar) = (self.offset, self.offset.saturating_add(u64::from(self.bytes)), self.bar);
        let (shipped, own) = match &self.known {
            Known::Shipped(shipped) => (*shipped, &[][..]),
            Known::Own(own) => (&[][..], own.all()),
        };
        let all = shipped.iter().map(NamedRegister::borrowed).chain(own.iter().map(NamedRegister::borrowed));
        all.filter(move |register| {
            register.bar.is_none_or(|of| of == bar)
                && register.offset < end
                && first < register.offset + register.bytes
        })
    }

    /// The value that a write stores in a register; `None` unless it writes the whole register and all bytes were
    /// captured.
    pub fn value_of(&self, register: NamedRegister<&str>) -> Option<u64> {
        let start = usize::try_from(register.offset.checked_sub(self.offset)?).ok()?;
        let bytes = usize::try_from(register.bytes).ok().filter(|bytes| *bytes <= 8)?;
        let written = self.data[..usize::from(self.captured)].get(start..start.checked_add(bytes)?)?;
        Some(written.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn append(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = self.touched().count();
        if named == 0 {
            return write!(f, "+ {:#x}", self.offset);
        }
        for (n, register) in self.touched().take(MAX_NAMED).enumerate() {
            write!(f, "{}{}", if n == 0 { "" } else { ", " }, register.name)?;
            if let Some(inside) = self.offset.checked_sub(register.offset).filter(|inside| *inside > 0) {
                write!(f, " + {inside:#x}")?;
            }
            if let Some(value) = self.value_of(register) {
                write!(f, " = {value:#x}")?;
            }
        }
        if named > MAX_NAMED { write!(f, " and {} more", named - MAX_NAMED) } else { Ok(()) }
    }
}

impl fmt::Display for Registers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} BAR {} ", self.function, self.bar)?;
        self.append(f)
    }
}

impl fmt::Display for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}, ", self.kind, self.function)?;
        match self.vector {
            Some(vector) => write!(f, "vector {vector}"),
            None => f.write_str("one of several vectors"),
        }
    }
}

impl fmt::Display for InterruptKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InterruptKind::Msi => "MSI",
            InterruptKind::Msix => "MSI-X",
        })
    }
}

impl fmt::Display for Meaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Meaning::Config { place, enables, action, .. } => append_config(*place, *enables, *action, f),
            Meaning::Interrupt(interrupt) => interrupt.fmt(f),
            Meaning::MsixTable { vector, registers } => {
                write!(f, "{} MSI-X table, vector {vector}: ", registers.function)?;
                registers.append(f)
            }
            Meaning::Registers(registers) => registers.fmt(f),
        }
    }
}

fn append_config(
    place: ConfigRegister,
    enables: u8,
    action: Action,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let bits = byte_mask(enables);
    place.append(bits, f)?;
    match action {
        Action::Read => Ok(()),
        Action::Answer(value) => write!(f, " = {value:#010x}"),
        Action::Size(bytes) => write!(f, ": {}", Bytes(bytes)),
        Action::Sizing => f.write_str(": sizing"),
        Action::Write(value) => match place {
            ConfigRegister::Line { word, .. } => append_fields(word, bits, value, f),
            ConfigRegister::Bar { .. } | ConfigRegister::VfBar { .. } | ConfigRegister::Rom => {
                write!(f, " = {value:#010x}")
            }
        },
    }
}

/// Appends the fields of a register that a write sets: fields of one bit if they are set, and larger fields with
/// their value.
fn append_fields(word: &Word, bits: u32, value: u32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let written = |field: &&Field| field.attribute.is_writable() && field.bits & bits != 0;
    let is_shown = |field: &&Field| field.bits.count_ones() > 1 || field.bits & value != 0;
    let mut lead = ": ";
    // If the register is one field, such as an address, only its value is printed.
    if let Some(whole) = word.fields.iter().filter(written).find(|field| field.name == word.name_of(bits)) {
        return write!(f, " = {:#x}", value & whole.bits);
    }
    for field in word.fields.iter().filter(written).filter(is_shown) {
        f.write_str(lead)?;
        append_field(field, value, f)?;
        lead = ", ";
    }
    match lead {
        ": " => write!(f, " = {:#x}", (value & bits) >> bits.trailing_zeros().min(31)),
        _ => Ok(()),
    }
}

fn append_field(field: &Field, value: u32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let clears = matches!(field.attribute, Attribute::Rw1c | Attribute::Rw1cs);
    f.write_str(if clears { "clears " } else { "" })?;
    f.write_str(field.name)?;
    let shown = config::register::get(value, field.bits);
    match (field.bits.count_ones(), shown) {
        (1, _) => Ok(()),
        (_, 0..=9) => write!(f, " {shown}"),
        _ => write!(f, " {shown:#x}"),
    }
}

/// A size in bytes, printed in the largest unit that divides it.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
        let steps = (self.0.trailing_zeros() / 10).min(4);
        write!(f, "{} {}", self.0 >> (10 * steps), UNITS[steps as usize])
    }
}
