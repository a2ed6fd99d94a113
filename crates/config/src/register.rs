// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A register whose bits each have an attribute (`PCIe 5.0 §7.4`, Table 7-2), said by a table of fields. Never gives a
//! bit a meaning: a table names what a field asks of its function's owner, as [`Effects`].
//!
//! A register is declared once, by a line of a `structure!` as the specification's tables have it. From that follow
//! the DW number and the masks as constants, the table, and what looks fields up by the constant's name.

use crate::Effects;
use std::fmt;

/// How software may change a field, and which resets set it back (`PCIe 5.0 Table 7-2`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Attribute {
    /// Read-only: hardware alone sets it.
    Ro,
    /// Hardware Initialized: read-only, says what was built.
    HwInit,
    /// Read-only, sticky: kept by all but a fundamental reset.
    Ros,
    /// Read-write.
    Rw,
    /// Read-write, sticky.
    Rws,
    /// Write one to clear.
    Rw1c,
    /// Write one to clear, sticky.
    Rw1cs,
    /// Read-write that always reads zero: writing one asks for something once.
    RwReadsZero,
    /// Reserved, preserved by software; reads zero here.
    RsvdP,
    /// Reserved, written zero by software; reads zero.
    RsvdZ,
    /// None of the specification's: the function's device answers for the register, see [`Register::of_device`].
    Device,
}

impl Attribute {
    /// True where a write by software can change or ask for something.
    #[must_use]
    pub const fn is_writable(self) -> bool {
        use Attribute::*;
        matches!(self, Rw | Rws | Rw1c | Rw1cs | RwReadsZero)
    }
}

impl fmt::Display for Attribute {
    /// As the specification writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Attribute::Ro => "RO",
            Attribute::HwInit => "HwInit",
            Attribute::Ros => "ROS",
            Attribute::Rw => "RW",
            Attribute::Rws => "RWS",
            Attribute::Rw1c => "RW1C",
            Attribute::Rw1cs => "RW1CS",
            Attribute::RwReadsZero => "RW (reads 0)",
            Attribute::RsvdP => "RsvdP",
            Attribute::RsvdZ => "RsvdZ",
            Attribute::Device => "device",
        })
    }
}

/// Bits of a register that belong together, as the specification's table has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// The bits, in place in their DW.
    pub bits: u32,
    /// Who may change them.
    pub attribute: Attribute,
    /// The specification's name.
    pub name: &'static str,
    /// The name of the constant that is its bits; `_` where it has none.
    pub constant: &'static str,
    /// What a write that changes them tells the owner.
    pub effects: Effects,
    /// Kept over a Function Level Reset, though not sticky (`PCIe 5.0 §6.6.2`).
    pub kept_by_flr: bool,
    /// Shows a state outside configuration space, as presence is: no reset touches it.
    pub state: bool,
    /// What they change; empty where they only show something, or are inert.
    pub does: &'static str,
    /// Why nothing changes with them, though software may write them.
    pub inert: Option<&'static str>,
}

impl Field {
    /// A field of this attribute, without effects.
    pub const fn new(bits: u32, attribute: Attribute, name: &'static str) -> Field {
        Field {
            bits,
            attribute,
            name,
            constant: "_",
            effects: Effects::empty(),
            kept_by_flr: false,
            state: false,
            does: "",
            inert: None,
        }
    }

    /// RO.
    pub const fn ro(bits: u32, name: &'static str) -> Field {
        Field::new(bits, Attribute::Ro, name)
    }

    /// RO: a state outside configuration space, which no reset touches.
    pub const fn state(bits: u32, name: &'static str) -> Field {
        Field { state: true, ..Field::new(bits, Attribute::Ro, name) }
    }

    /// HwInit.
    pub const fn hwinit(bits: u32, name: &'static str) -> Field {
        Field::new(bits, Attribute::HwInit, name)
    }

    /// ROS.
    pub const fn ros(bits: u32, name: &'static str) -> Field {
        Field::new(bits, Attribute::Ros, name)
    }

    /// RW, and what it changes.
    pub const fn rw(bits: u32, name: &'static str, does: &'static str) -> Field {
        Field { does, ..Field::new(bits, Attribute::Rw, name) }
    }

    /// RWS, and what it changes.
    pub const fn rws(bits: u32, name: &'static str, does: &'static str) -> Field {
        Field { does, ..Field::new(bits, Attribute::Rws, name) }
    }

    /// RW1C: an event that hardware sets and software clears.
    pub const fn rw1c(bits: u32, name: &'static str, does: &'static str) -> Field {
        Field { does, ..Field::new(bits, Attribute::Rw1c, name) }
    }

    /// RW1CS.
    pub const fn rw1cs(bits: u32, name: &'static str, does: &'static str) -> Field {
        Field { does, ..Field::new(bits, Attribute::Rw1cs, name) }
    }

    /// Reads zero; writing one asks for something, once.
    pub const fn trigger(bits: u32, name: &'static str, does: &'static str) -> Field {
        Field { does, ..Field::new(bits, Attribute::RwReadsZero, name) }
    }

    /// The same without effect, for the reason that was given as what it does.
    #[must_use]
    pub const fn inert(self) -> Field {
        Field { does: "", inert: Some(self.does), ..self }
    }

    /// The same, telling the owner when a write changes it (a trigger: when one is written).
    #[must_use]
    pub const fn tells(self, effects: Effects) -> Field {
        Field { effects, ..self }
    }

    /// The same, kept over a Function Level Reset.
    #[must_use]
    pub const fn kept_by_flr(self) -> Field {
        Field { kept_by_flr: true, ..self }
    }
}

/// A table's line: one DW of a structure and its fields. Bits in no field are reserved and read zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word {
    /// DW from the structure's start (of headers: DW number).
    pub dw: u16,
    /// The specification's names of the registers in it.
    pub name: &'static str,
    /// Its fields.
    pub fields: &'static [Field],
}

impl Word {
    /// The names of those of its registers that have one of `bits`, without what the table notes in brackets. All of them,
    /// where their fields do not tell which bits each has.
    pub fn name_of(&self, bits: u32) -> &'static str {
        let name = self.name.split(" (").next().unwrap_or(self.name);
        let touched = |part: &u32| part & bits != 0;
        let parts = self.parts(name.split(", ").count());
        let (Some(first), Some(last)) = (parts.iter().position(touched), parts.iter().rposition(touched))
        else {
            return name;
        };
        let start: usize = name.split(", ").take(first).map(|part| part.len() + 2).sum();
        let len: usize = name.split(", ").skip(first).take(last - first + 1).map(|part| part.len() + 2).sum();
        &name[start..start + len - 2]
    }

    /// The bits of each of `count` registers: the halves of the line, of which the lower may be of two bytes, or its bytes.
    /// Nothing where a field spans two of them, or where fields do not tell.
    fn parts(&self, count: usize) -> &'static [u32] {
        const HALVES: &[u32] = &[0xffff, 0xffff_0000];
        const LAYOUTS: [&[u32]; 4] =
            [HALVES, &[0xff, 0xff00], &[0xff, 0xff00, 0xffff_0000], &[0xff, 0xff00, 0xff_0000, 0xff00_0000]];
        let has_field = |part: &u32| self.fields.iter().any(|field| field.bits & part != 0);
        let spans_none =
            |parts: &[u32]| self.fields.iter().all(|field| parts.iter().any(|part| field.bits & !part == 0));
        let fits = |parts: &[u32]| parts.len() == count && parts.iter().all(has_field) && spans_none(parts);
        let found = LAYOUTS.into_iter().find(|parts| fits(parts));
        // Of a control register and a status register, the latter may have no field.
        let halves = (count == 2 && has_field(&HALVES[0]) && spans_none(HALVES)).then_some(HALVES);
        found.or(halves).unwrap_or_default()
    }
}

/// A header or a capability, as a table of its registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Structure {
    /// Capability ID, or that of an extended one; zero of headers.
    pub id: u16,
    /// Capability version of an extended one; zero of others.
    pub version: u8,
    /// The specification's name.
    pub name: &'static str,
    /// Where it is specified.
    pub source: &'static str,
    /// Its registers, in rising order; a line of a repeated register stands once.
    pub words: &'static [Word],
}

impl Structure {
    /// The fields of the line with this DW; none where there is no such line.
    pub const fn fields(&self, dw: u16) -> &'static [Field] {
        let mut i = 0;
        while i < self.words.len() {
            if self.words[i].dw == dw {
                return self.words[i].fields;
            }
            i += 1;
        }
        &[]
    }

    /// The register of the line with this DW, showing `value` after reset.
    pub(crate) const fn register(&self, dw: u16, value: u32) -> Register {
        Register::of(self.fields(dw), value)
    }

    /// The registers of the whole structure, one for each DW up to the last line, all showing zero after reset but for
    /// those that `values` names (DW, value).
    pub(crate) fn registers(&self, values: &[(u16, u32)]) -> Vec<Register> {
        let len = self.words.iter().map(|w| usize::from(w.dw) + 1).max().unwrap_or(0);
        let mut all = vec![Register::default(); len];
        for word in self.words {
            all[usize::from(word.dw)] = Register::of(word.fields, 0);
        }
        for &(dw, value) in values {
            all[usize::from(dw)].preset(value);
        }
        all
    }
}

/// The registers of a structure, of which these rows (DW, bits) are not implemented.
pub(crate) fn without<const N: usize>(mut all: Vec<Register>, rows: [(u16, u32); N]) -> Vec<Register> {
    for (dw, bits) in rows {
        all[usize::from(dw)] = all[usize::from(dw)].without(bits);
    }
    all
}

/// Declares a structure as the specification has it: its ID, name and source, then each DW with its byte offset, the
/// constant of its DW number, the module of its fields' constants (else they stand beside it), the names of the registers
/// in it, and its fields:
///
/// ```text
/// BITS [:LOW] CONSTRUCTOR [.inert] [.kept_by_flr] CONSTANT "Name" [, "what it does, or why nothing"] [=> EFFECT | EFFECT];
/// ```
///
/// CONSTRUCTOR is one of [`Field`]'s. Bits that are not next to each other stand as a mask in brackets. A DW that no one names is
/// `_`; one whose fields stand elsewhere has them in brackets.
macro_rules! structure {
    (extended $id:literal, $version:literal, $name:literal, $source:literal; $($words:tt)*) => {
        /// Extended capability ID.
        pub const ID: u16 = $id;
        $crate::register::structure!(@table TABLE $id, $version, $name, $source;
            0x00 _ "Extended Capability Header" ($crate::ext::HEADER) $($words)*);
    };
    (capability $id:literal, $name:literal, $source:literal; $($words:tt)*) => {
        /// Capability ID.
        pub const ID: u8 = $id;
        $crate::register::structure!(@table TABLE $id, 0, $name, $source; $($words)*);
    };
    (header $TABLE:ident, $name:literal, $source:literal; $($words:tt)*) => {
        $crate::register::structure!(@table $TABLE 0, 0, $name, $source; $($words)*);
    };
    (@table $TABLE:ident $id:expr, $version:expr, $name:literal, $source:literal;
        $($at:literal $DW:tt $(in $module:ident)? $registers:literal $fields:tt)*) => {
        $(
            #[doc = concat!("DW of ", $registers, ".")]
            pub const $DW: u16 = $at / 4;
            $crate::register::structure!(@constants $($module)? $registers $fields);
        )*
        #[doc = concat!("The registers of ", $name, ".")]
        pub const $TABLE: $crate::register::Structure = $crate::register::Structure {
            id: $id,
            version: $version,
            name: $name,
            source: $source,
            words: &[$($crate::register::Word {
                dw: $at / 4,
                name: $registers,
                fields: $crate::register::structure!(@fields $fields),
            }),*],
        };
    };
    (@constants $module:ident $registers:literal $fields:tt) => {
        #[doc = concat!("Bits of ", $registers, ", in place in their DW.")]
        pub mod $module {
            $crate::register::structure!(@constants $registers $fields);
        }
    };
    (@constants $registers:literal ($elsewhere:expr)) => {};
    (@constants $registers:literal { $($bits:tt $(: $low:literal)? $kind:ident $(. $also:ident)* $BITS:ident $name:literal
        $(, $does:expr)? $(=> $($effect:ident)|+)?;)* }) => {
        $(
            #[doc = concat!($name, ".")]
            pub const $BITS: u32 = $crate::register::structure!(@bits $bits $($low)?);
        )*
    };
    (@fields ($elsewhere:expr)) => { $elsewhere };
    (@fields { $($bits:tt $(: $low:literal)? $kind:ident $(. $also:ident)* $BITS:ident $name:literal
        $(, $does:expr)? $(=> $($effect:ident)|+)?;)* }) => {
        &[$($crate::register::Field {
            constant: stringify!($BITS),
            ..$crate::register::Field::$kind(
                $crate::register::structure!(@bits $bits $($low)?), $name $(, $does)?
            )$(.$also())*$(.tells($crate::Effects::empty()$(.union($crate::Effects::$effect))+))?
        }),*]
    };
    (@bits ($mask:expr)) => { $mask };
    (@bits $bit:literal) => { 1 << $bit };
    (@bits $high:literal $low:literal) => { u32::MAX >> (31 - $high) & u32::MAX << $low };
}
pub(crate) use structure;

/// The value of the field that has these bits of a word.
pub const fn get(word: u32, bits: u32) -> u32 {
    (word & bits) >> bits.trailing_zeros()
}

/// A value in place, in the field that has these bits; what is too large for it is cut.
pub const fn put(bits: u32, value: u32) -> u32 {
    value << bits.trailing_zeros() & bits
}

/// The bits of the rows that are true.
pub(crate) fn those<const N: usize>(rows: [(bool, u32); N]) -> u32 {
    rows.into_iter().filter(|row| row.0).fold(0, |all, row| all | row.1)
}

/// How software may change the bits of a register, in masks; made from a table of fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Access {
    /// RW, RWS: software reads and writes.
    pub rw: u32,
    /// RW1C, RW1CS: writing one clears; hardware sets.
    pub rw1c: u32,
    /// Writing one asks for something; reads zero.
    pub trigger: u32,
    /// The S of ROS, RWS, RW1CS: kept over all but a fundamental reset.
    pub sticky: u32,
    /// Kept over a Function Level Reset, though not sticky (`PCIe 5.0 §6.6.2`).
    pub kept_by_flr: u32,
    /// Kept over every reset: states outside configuration space.
    pub state: u32,
}

impl Access {
    /// What the fields say together.
    pub const fn of(fields: &[Field]) -> Access {
        use Attribute::*;
        let mut access = Access { rw: 0, rw1c: 0, trigger: 0, sticky: 0, kept_by_flr: 0, state: 0 };
        let mut i = 0;
        while i < fields.len() {
            let field = &fields[i];
            match field.attribute {
                Rw | Rws => access.rw |= field.bits,
                Rw1c | Rw1cs => access.rw1c |= field.bits,
                RwReadsZero => access.trigger |= field.bits,
                Ro | HwInit | Ros | RsvdP | RsvdZ | Device => {}
            }
            if matches!(field.attribute, Ros | Rws | Rw1cs) {
                access.sticky |= field.bits;
            }
            if field.kept_by_flr {
                access.kept_by_flr |= field.bits;
            }
            if field.state {
                access.state |= field.bits;
            }
            i += 1;
        }
        access
    }
}

/// 32 bits of configuration space.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Register {
    /// What a read returns.
    pub value: u32,
    /// What a reset sets.
    pub reset: u32,
    /// Who may change which bit.
    pub access: Access,
    /// The fields, for what a write tells the owner.
    pub fields: &'static [Field],
}

/// The bits of the bytes that Byte Enables (bits 3:0) name.
pub const fn byte_mask(byte_enables: u8) -> u32 {
    let mut mask = 0;
    let mut byte = 0;
    while byte < 4 {
        if byte_enables >> byte & 1 == 1 {
            mask |= 0xff << (byte * 8);
        }
        byte += 1;
    }
    mask
}

impl Register {
    /// A register of masks alone, that resets to `reset` and tells nothing.
    pub const fn new(reset: u32, access: Access) -> Register {
        Register { value: reset, reset, access, fields: &[] }
    }

    /// A register of these fields, that resets to `reset`.
    pub const fn of(fields: &'static [Field], reset: u32) -> Register {
        Register { value: reset, reset, access: Access::of(fields), fields }
    }

    /// A register that the device behind the function answers for: requests to it are the device's, and here it shows
    /// nothing.
    pub const fn of_device() -> Register {
        const FIELDS: &[Field] = &[Field::new(!0, Attribute::Device, "the device's own")];
        Register::of(FIELDS, 0)
    }

    /// True for those.
    pub const fn is_device(&self) -> bool {
        matches!(self.fields, [Field { attribute: Attribute::Device, .. }, ..])
    }

    /// The same, where `bits` are not implemented: they read zero and are read-only.
    #[must_use]
    pub const fn without(mut self, bits: u32) -> Register {
        self.value &= !bits;
        self.reset &= !bits;
        self.fix(bits)
    }

    /// The same, where `bits` are read-only and keep the value that they have after reset.
    #[must_use]
    pub const fn fix(mut self, bits: u32) -> Register {
        let Access { rw, rw1c, trigger, .. } = self.access;
        self.access.rw = rw & !bits;
        self.access.rw1c = rw1c & !bits;
        self.access.trigger = trigger & !bits;
        self
    }

    /// Sets bits, now and for every reset.
    pub const fn preset(&mut self, bits: u32) {
        self.value |= bits;
        self.reset |= bits;
    }

    /// Sets the bits of `mask` to those of `value`, as hardware does.
    pub const fn set(&mut self, mask: u32, value: u32) {
        self.value = self.value & !mask | value & mask;
    }

    /// A write by software; returns the bits that changed, and those of triggers that were written one.
    pub const fn write(&mut self, byte_enables: u8, value: u32) -> u32 {
        let named = byte_mask(byte_enables);
        let old = self.value;
        let rw = self.access.rw & named;
        self.value = (old & !rw | value & rw) & !(value & self.access.rw1c & named);
        (old ^ self.value) | value & self.access.trigger & named
    }

    /// What a write that changed these bits tells the owner.
    pub fn effects_of(&self, changed: u32) -> Effects {
        let touched = self.fields.iter().filter(|f| f.bits & changed != 0);
        touched.fold(Effects::empty(), |all, field| all | field.effects)
    }

    /// Back to the reset value, but for the bits in `kept`.
    pub const fn reset(&mut self, kept: u32) {
        self.value = self.value & kept | self.reset & !kept;
    }
}

#[cfg(test)]
mod tests {
    use crate::cap::{msi, msix, pcie, vendor};
    use crate::header;
    use crate::register::Structure;

    #[test]
    fn a_line_of_several_registers_names_those_that_are_meant() {
        let rows: [(Structure, u16, u32, &str); 14] = [
            (crate::ext::sriov::TABLE, crate::ext::sriov::CONTROL, 0xffff, "SR-IOV Control"),
            (header::TYPE_0_HEADER, header::COMMAND_STATUS, 0xffff, "Command"),
            (header::TYPE_0_HEADER, header::COMMAND_STATUS, 0xffff_0000, "Status"),
            (header::TYPE_0_HEADER, header::COMMAND_STATUS, !0, "Command, Status"),
            (header::TYPE_0_HEADER, header::MISC, 0xff, "Cache Line Size"),
            (header::TYPE_0_HEADER, header::MISC, 0xff_ff00, "Latency Timer, Header Type"),
            (header::TYPE_0_HEADER, header::INTERRUPT, 0xff, "Interrupt Line"),
            (header::TYPE_0_HEADER, header::INTERRUPT, 0xff00, "Interrupt Pin"),
            (header::TYPE_1_HEADER, header::INTERRUPT, 0xffff_0000, "Bridge Control"),
            (header::TYPE_1_HEADER, header::type1::MEMORY, 0xffff, "Memory Base"),
            (pcie::TABLE, 2, 0xffff, "Device Control"),
            (msi::TABLE, 2, !0, "Message Upper Address"),
            // Its fields do not tell where one ends, or what is of which.
            (msix::TABLE, 1, 0xff, "Table Offset, Table BIR"),
            (vendor::TABLE, 0, 0xff_0000, "Length, first byte"),
        ];
        for (structure, dw, bits, expected) in rows {
            let word = structure.words.iter().find(|word| word.dw == dw).unwrap();
            assert_eq!(word.name_of(bits), expected, "{} {bits:#x}", word.name);
        }
    }
}
