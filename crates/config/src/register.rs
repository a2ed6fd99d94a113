// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A register whose bits each have an attribute (`PCIe 5.0 §7.4`, Table 7-2), described by a table of fields. The table
//! also gives the [`Effects`] that a write to a field has for its function's owner.
//!
//! Each register is declared once, by one line of `structure!` in the order of the specification's tables. This generates
//! constants for the DW number and the masks, the table, and the lookup of fields by the constant's name.

use crate::Effects;
use std::fmt;

/// How software may change a field, and which resets restore it (`PCIe 5.0 Table 7-2`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Attribute {
    /// Read-only: only hardware sets it.
    Ro,
    /// Hardware Initialized: read-only, describes the hardware.
    HwInit,
    /// Read-only, sticky: every reset except a fundamental one keeps it.
    Ros,
    /// Read-write.
    Rw,
    /// Read-write, sticky.
    Rws,
    /// Write one to clear.
    Rw1c,
    /// Write one to clear, sticky.
    Rw1cs,
    /// Read-write, always reads zero: writing one triggers an action.
    RwReadsZero,
    /// Reserved, preserved by software; reads zero in riser.
    RsvdP,
    /// Reserved, written zero by software; reads zero.
    RsvdZ,
    /// Not in the specification: the function's device answers for the register, see [`Register::of_device`].
    Device,
}

impl Attribute {
    /// True if a write by software can change the field or trigger an action.
    #[must_use]
    pub const fn is_writable(self) -> bool {
        use Attribute::*;
        matches!(self, Rw | Rws | Rw1c | Rw1cs | RwReadsZero)
    }
}

impl fmt::Display for Attribute {
    /// Writes the attribute's name in the specification.
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

/// A field: bits of a register that belong together, as in the specification's tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// The bits, in their positions in the DW.
    pub bits: u32,
    /// Access attribute of the bits.
    pub attribute: Attribute,
    /// The specification's name.
    pub name: &'static str,
    /// Name of the constant with these bits; `_` without one.
    pub constant: &'static str,
    /// Effects that a write has for the owner if it changes the bits.
    pub effects: Effects,
    /// Kept by a Function Level Reset, although not sticky (`PCIe 5.0 §6.6.2`).
    pub kept_by_flr: bool,
    /// Reflects a state outside configuration space, such as presence. No reset changes it.
    pub state: bool,
    /// Effect of the bits; empty if they are only a status, or inert.
    pub does: &'static str,
    /// Reason why a write has no effect, although software may write the bits.
    pub inert: Option<&'static str>,
}

impl Field {
    /// Returns a field with this attribute and without effects.
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

    /// Returns an RO field.
    pub const fn ro(bits: u32, name: &'static str) -> Field {
        Field::new(bits, Attribute::Ro, name)
    }

    /// Returns an RO field for a state outside configuration space, which no reset changes.
    pub const fn state(bits: u32, name: &'static str) -> Field {
        Field { state: true, ..Field::new(bits, Attribute::Ro, name) }
    }

    /// Returns a HwInit field.
    pub const fn hwinit(bits: u32, name: &'static str) -> Field {
        Field::new(bits, Attribute::HwInit, name)
    }

    /// Returns an ROS field.
    pub const fn ros(bits: u32, name: &'static str) -> Field {
        Field::new(bits, Attribute::Ros, name)
    }

    /// Returns an RW field. `does` describes the effect.
    pub const fn rw(bits: u32, name: &'static str, does: &'static str) -> Field {
        Field { does, ..Field::new(bits, Attribute::Rw, name) }
    }

    /// Returns an RWS field. `does` is what it changes.
    pub const fn rws(bits: u32, name: &'static str, does: &'static str) -> Field {
        Field { does, ..Field::new(bits, Attribute::Rws, name) }
    }

    /// Returns an RW1C field: hardware sets it for an event and software clears it.
    pub const fn rw1c(bits: u32, name: &'static str, does: &'static str) -> Field {
        Field { does, ..Field::new(bits, Attribute::Rw1c, name) }
    }

    /// Returns an RW1CS field.
    pub const fn rw1cs(bits: u32, name: &'static str, does: &'static str) -> Field {
        Field { does, ..Field::new(bits, Attribute::Rw1cs, name) }
    }

    /// Returns a field that reads zero. Writing one triggers an action.
    pub const fn trigger(bits: u32, name: &'static str, does: &'static str) -> Field {
        Field { does, ..Field::new(bits, Attribute::RwReadsZero, name) }
    }

    /// Makes the field inert: `does` becomes the reason why it has no effect.
    #[must_use]
    pub const fn inert(self) -> Field {
        Field { does: "", inert: Some(self.does), ..self }
    }

    /// Sets the effects of a write that changes the field (for a trigger: of writing one).
    #[must_use]
    pub const fn tells(self, effects: Effects) -> Field {
        Field { effects, ..self }
    }

    /// Keeps the field over a Function Level Reset.
    #[must_use]
    pub const fn kept_by_flr(self) -> Field {
        Field { kept_by_flr: true, ..self }
    }
}

/// One DW of a structure and its fields. Bits without a field are reserved and read zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word {
    /// DW from the structure's start (in headers: DW number).
    pub dw: u16,
    /// Names of the DW's registers in the specification.
    pub name: &'static str,
    /// The DW's fields.
    pub fields: &'static [Field],
}

impl Word {
    /// Names of those registers in the DW that contain one of `bits`, without notes in brackets. Returns all names if the
    /// fields do not tell which register has which bits.
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

    /// Bits of each of `count` registers: two halves, of which the lower may be two bytes, or single bytes. Empty if a
    /// field spans two registers, or if the fields do not tell.
    fn parts(&self, count: usize) -> &'static [u32] {
        const HALVES: &[u32] = &[0xffff, 0xffff_0000];
        const LAYOUTS: [&[u32]; 4] =
            [HALVES, &[0xff, 0xff00], &[0xff, 0xff00, 0xffff_0000], &[0xff, 0xff00, 0xff_0000, 0xff00_0000]];
        let has_field = |part: &u32| self.fields.iter().any(|field| field.bits & part != 0);
        let spans_none =
            |parts: &[u32]| self.fields.iter().all(|field| parts.iter().any(|part| field.bits & !part == 0));
        let fits = |parts: &[u32]| parts.len() == count && parts.iter().all(has_field) && spans_none(parts);
        let found = LAYOUTS.into_iter().find(|parts| fits(parts));
        // If a DW has a control and a status register, the latter may have no field.
        let halves = (count == 2 && has_field(&HALVES[0]) && spans_none(HALVES)).then_some(HALVES);
        found.or(halves).unwrap_or_default()
    }
}

/// A header or a capability, as a table of its registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Structure {
    /// Capability ID or extended capability ID; zero for headers.
    pub id: u16,
    /// Capability version of an extended capability; zero for others.
    pub version: u8,
    /// The specification's name.
    pub name: &'static str,
    /// Section of the specification.
    pub source: &'static str,
    /// The registers in rising order; a repeated register is listed once.
    pub words: &'static [Word],
}

impl Structure {
    /// Returns the fields of this DW; empty if the table has no such DW.
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

    /// Returns the register of this DW, with `value` after reset.
    pub(crate) const fn register(&self, dw: u16, value: u32) -> Register {
        Register::of(self.fields(dw), value)
    }

    /// Returns the registers of the whole structure, one for each DW up to the last one. After reset they are zero, except
    /// those in `values` (DW, value).
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

/// Removes the bits in `rows` (DW, bits) from a structure's registers: they are not implemented.
pub(crate) fn without<const N: usize>(mut all: Vec<Register>, rows: [(u16, u32); N]) -> Vec<Register> {
    for (dw, bits) in rows {
        all[usize::from(dw)] = all[usize::from(dw)].without(bits);
    }
    all
}

/// First DW of every extended capability (`PCIe 5.0 §7.6.3`).
pub const EXTENDED_HEADER: &[Field] = &[
    Field::ro(0xffff, "PCI Express Extended Capability ID"),
    Field::ro(0xf << 16, "Capability Version"),
    Field::ro(0xfff << 20, "Next Capability Offset"),
];

/// Declares a structure like the specification does: its ID, name and source, then the DWs. Each DW has its byte offset,
/// the constant of its DW number, the module of its fields' constants (without it, they are in the enclosing module), the
/// names of its registers, and its fields:
/// ```text
/// BITS [:LOW] CONSTRUCTOR [.inert] [.kept_by_flr] CONSTANT "Name" [, "what it does, or why nothing"] [=> EFFECT | EFFECT];
/// ```
///
/// CONSTRUCTOR is one of [`Field`]'s. Bits that are not adjacent are given as a mask in brackets. A DW without a constant
/// is `_`. If its fields are declared elsewhere, they are given in brackets.
macro_rules! structure {
    (extended $id:literal, $version:literal, $name:literal, $source:literal; $($words:tt)*) => {
        /// Extended capability ID.
        pub const ID: u16 = $id;
        $crate::register::structure!(@table TABLE $id, $version, $name, $source;
            0x00 _ "Extended Capability Header" ($crate::register::EXTENDED_HEADER) $($words)*);
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

/// Returns the value of the field with these bits in a word.
pub const fn get(word: u32, bits: u32) -> u32 {
    (word & bits) >> bits.trailing_zeros()
}

/// Returns a value shifted into the field with these bits. Bits that do not fit are dropped.
pub const fn put(bits: u32, value: u32) -> u32 {
    value << bits.trailing_zeros() & bits
}

/// Combines the bits of the rows that are true.
pub(crate) fn those<const N: usize>(rows: [(bool, u32); N]) -> u32 {
    rows.into_iter().filter(|row| row.0).fold(0, |all, row| all | row.1)
}

/// How software may change the bits of a register, as masks; built from a table of fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Access {
    /// RW, RWS: software reads and writes.
    pub rw: u32,
    /// RW1C, RW1CS: writing one clears; hardware sets.
    pub rw1c: u32,
    /// Writing one triggers an action; reads zero.
    pub trigger: u32,
    /// The S of ROS, RWS, RW1CS: every reset except a fundamental one keeps these bits.
    pub sticky: u32,
    /// Kept by a Function Level Reset, though not sticky (`PCIe 5.0 §6.6.2`).
    pub kept_by_flr: u32,
    /// Kept by every reset: states outside configuration space.
    pub state: u32,
}

impl Access {
    /// Combines the fields' attributes.
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
    /// Current value, which a read returns.
    pub value: u32,
    /// Value after a reset.
    pub reset: u32,
    /// Access masks of the bits.
    pub access: Access,
    /// The fields, which give the effects of a write.
    pub fields: &'static [Field],
}

/// Returns the bits of the bytes that are enabled by Byte Enables (bits 3:0).
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
    /// Returns a register with these access masks and the reset value `reset`. Writes to this register have no effects.
    pub const fn new(reset: u32, access: Access) -> Register {
        Register { value: reset, reset, access, fields: &[] }
    }

    /// Returns a register with these fields and the reset value `reset`.
    pub const fn of(fields: &'static [Field], reset: u32) -> Register {
        Register { value: reset, reset, access: Access::of(fields), fields }
    }

    /// Returns a register that the device implements. Requests to it go to the device, and in this space it reads zero.
    pub const fn of_device() -> Register {
        const FIELDS: &[Field] = &[Field::new(!0, Attribute::Device, "the device's own")];
        Register::of(FIELDS, 0)
    }

    /// True for a register that the device implements.
    pub const fn is_device(&self) -> bool {
        matches!(self.fields, [Field { attribute: Attribute::Device, .. }, ..])
    }

    /// Removes `bits`: they are not implemented, read zero and are read-only.
    #[must_use]
    pub const fn without(mut self, bits: u32) -> Register {
        self.value &= !bits;
        self.reset &= !bits;
        self.fix(bits)
    }

    /// Makes `bits` read-only with their value after reset.
    #[must_use]
    pub const fn fix(mut self, bits: u32) -> Register {
        let Access { rw, rw1c, trigger, .. } = self.access;
        self.access.rw = rw & !bits;
        self.access.rw1c = rw1c & !bits;
        self.access.trigger = trigger & !bits;
        self
    }

    /// Sets bits in the current value and in the reset value.
    pub const fn preset(&mut self, bits: u32) {
        self.value |= bits;
        self.reset |= bits;
    }

    /// Sets the bits in `mask` to the bits of `value`, like hardware.
    pub const fn set(&mut self, mask: u32, value: u32) {
        self.value = self.value & !mask | value & mask;
    }

    /// Handles a write by software. Returns the bits that changed, and the trigger bits that were written as one.
    pub const fn write(&mut self, byte_enables: u8, value: u32) -> u32 {
        let named = byte_mask(byte_enables);
        let old = self.value;
        let rw = self.access.rw & named;
        self.value = (old & !rw | value & rw) & !(value & self.access.rw1c & named);
        (old ^ self.value) | value & self.access.trigger & named
    }

    /// Returns the effects of a write that changed these bits.
    pub fn effects_of(&self, changed: u32) -> Effects {
        let touched = self.fields.iter().filter(|f| f.bits & changed != 0);
        touched.fold(Effects::empty(), |all, field| all | field.effects)
    }

    /// Restores the reset value, except for the bits in `kept`.
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
    fn names_registers_that_contain_the_bits() {
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
            // The fields do not contain the boundaries of registers.
            (msix::TABLE, 1, 0xff, "Table Offset, Table BIR"),
            (vendor::TABLE, 0, 0xff_0000, "Length, first byte"),
        ];
        for (structure, dw, bits, expected) in rows {
            let word = structure.words.iter().find(|word| word.dw == dw).unwrap();
            assert_eq!(word.name_of(bits), expected, "{} {bits:#x}", word.name);
        }
    }
}
