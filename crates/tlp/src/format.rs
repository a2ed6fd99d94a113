// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of TLP formats: one row for each combination of Fmt and Type that riser knows.
//!
//! Parsing, emission, classes and names all use this table. Tests compare the counterparts in other languages (C
//! header, dissector, RTL) with it.

use crate::{Access, AtomicOp, Body, Class, ConfigKind, MemoryOp, Repr};

/// The header layout of a format, see [`wire::field`](crate::wire::field).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// Memory requests.
    Memory,
    /// I/O requests.
    Io,
    /// AtomicOp requests.
    Atomic,
    /// Configuration requests.
    Config,
    /// Messages.
    Message,
    /// Completions.
    Completion,
}

impl Family {
    /// The name of the layout in captures, pages and the dissector.
    pub const fn name(self) -> &'static str {
        match self {
            Family::Memory => "memory",
            Family::Io => "io",
            Family::Atomic => "atomic",
            Family::Config => "config",
            Family::Message => "message",
            Family::Completion => "completion",
        }
    }
}

/// A row of [`FORMATS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Format {
    /// The ID of the row.
    pub id: FormatId,
    /// Fmt\[2:0\].
    pub fmt: u8,
    /// Type\[4:0\]; only the bits in [`type_mask`](Self::type_mask) matter.
    pub type_bits: u8,
    /// The bits of Type that identify the format. The other bits are a field, the routing of a message.
    pub type_mask: u8,
    /// The specification's name.
    pub name: &'static str,
    /// Length of the header in DW: 3 or 4.
    pub header_dw: u8,
    /// True if data follows the header.
    pub has_data: bool,
    /// Flow-control and ordering class.
    pub class: Class,
    /// Header layout.
    pub family: Family,
    /// The section of the specification that defines it.
    pub source: &'static str,
}

const TABLE_2_3: &str = "PCIe 5.0 Table 2-3";

// Fmt (`PCIe 5.0 Table 2-2`): bit 0 is four DW, bit 1 is data, bit 2 is a TLP prefix.
const fn row(
    id: FormatId,
    fmt: u8,
    ty: (u8, u8),
    name: &'static str,
    class: Class,
    family: Family,
) -> Format {
    Format {
        id,
        fmt,
        type_bits: ty.0,
        type_mask: ty.1,
        name,
        header_dw: if fmt & 1 == 1 { 4 } else { 3 },
        has_data: fmt & 2 == 2,
        class,
        family,
        source: TABLE_2_3,
    }
}

const WHOLE: u8 = 0b1_1111;

/// Generates the IDs and, in the same order, the rows from one list.
macro_rules! formats {
    ($( $(#[$doc:meta])* $id:ident: $($column:expr),*; )*) => {
        /// The ID of a row of [`FORMATS`]; its number is the row's index.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum FormatId { $( $(#[$doc])* $id, )* }

        /// Every format that riser knows (`PCIe 5.0 Table 2-3`), in the order of [`FormatId`].
        pub static FORMATS: [Format; 26] = [$( row(FormatId::$id, $($column),*), )*];
    };
}

use Class::{Completion, NonPosted, Posted};

formats! {
    /// Memory read, 32-bit address.
    MRd32: 0b000, (0b0_0000, WHOLE), "MRd", NonPosted, Family::Memory;
    /// Memory read, 64-bit address.
    MRd64: 0b001, (0b0_0000, WHOLE), "MRd", NonPosted, Family::Memory;
    /// Memory write, 32-bit address.
    MWr32: 0b010, (0b0_0000, WHOLE), "MWr", Posted, Family::Memory;
    /// Memory write, 64-bit address.
    MWr64: 0b011, (0b0_0000, WHOLE), "MWr", Posted, Family::Memory;
    /// Locked memory read, 32-bit address.
    MRdLk32: 0b000, (0b0_0001, WHOLE), "MRdLk", NonPosted, Family::Memory;
    /// Locked memory read, 64-bit address.
    MRdLk64: 0b001, (0b0_0001, WHOLE), "MRdLk", NonPosted, Family::Memory;
    /// Deferrable memory write, 32-bit address.
    DMWr32: 0b010, (0b1_1011, WHOLE), "DMWr", NonPosted, Family::Memory;
    /// Deferrable memory write, 64-bit address.
    DMWr64: 0b011, (0b1_1011, WHOLE), "DMWr", NonPosted, Family::Memory;
    /// I/O read.
    IORd: 0b000, (0b0_0010, WHOLE), "IORd", NonPosted, Family::Io;
    /// I/O write.
    IOWr: 0b010, (0b0_0010, WHOLE), "IOWr", NonPosted, Family::Io;
    /// FetchAdd, 32-bit address.
    FetchAdd32: 0b010, (0b0_1100, WHOLE), "FetchAdd", NonPosted, Family::Atomic;
    /// FetchAdd, 64-bit address.
    FetchAdd64: 0b011, (0b0_1100, WHOLE), "FetchAdd", NonPosted, Family::Atomic;
    /// Swap, 32-bit address.
    Swap32: 0b010, (0b0_1101, WHOLE), "Swap", NonPosted, Family::Atomic;
    /// Swap, 64-bit address.
    Swap64: 0b011, (0b0_1101, WHOLE), "Swap", NonPosted, Family::Atomic;
    /// Compare and swap, 32-bit address.
    Cas32: 0b010, (0b0_1110, WHOLE), "CAS", NonPosted, Family::Atomic;
    /// Compare and swap, 64-bit address.
    Cas64: 0b011, (0b0_1110, WHOLE), "CAS", NonPosted, Family::Atomic;
    /// Configuration read, type 0.
    CfgRd0: 0b000, (0b0_0100, WHOLE), "CfgRd0", NonPosted, Family::Config;
    /// Configuration write, type 0.
    CfgWr0: 0b010, (0b0_0100, WHOLE), "CfgWr0", NonPosted, Family::Config;
    /// Configuration read, type 1.
    CfgRd1: 0b000, (0b0_0101, WHOLE), "CfgRd1", NonPosted, Family::Config;
    /// Configuration write, type 1.
    CfgWr1: 0b010, (0b0_0101, WHOLE), "CfgWr1", NonPosted, Family::Config;
    /// Message without data.
    Msg: 0b001, (0b1_0000, 0b1_1000), "Msg", Posted, Family::Message;
    /// Message with data.
    MsgD: 0b011, (0b1_0000, 0b1_1000), "MsgD", Posted, Family::Message;
    /// Completion without data.
    Cpl: 0b000, (0b0_1010, WHOLE), "Cpl", Completion, Family::Completion;
    /// Completion with data.
    CplD: 0b010, (0b0_1010, WHOLE), "CplD", Completion, Family::Completion;
    /// Completion of a locked read without data.
    CplLk: 0b000, (0b0_1011, WHOLE), "CplLk", Completion, Family::Completion;
    /// Completion of a locked read with data.
    CplDLk: 0b010, (0b0_1011, WHOLE), "CplDLk", Completion, Family::Completion;
}

const NONE: u8 = u8::MAX;

// The row of each first byte (Fmt and Type), so that a look-up is one load.
static ROW_OF_FIRST_BYTE: [u8; 256] = {
    let mut rows = [NONE; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut row = 0;
        while row < FORMATS.len() {
            if FORMATS[row].matches(byte as u8) {
                rows[byte] = row as u8;
            }
            row += 1;
        }
        byte += 1;
    }
    rows
};

impl Format {
    /// The format of a TLP that starts with this byte (Fmt and Type); `None` if [`FORMATS`] has no row for it.
    pub fn of_first_byte(byte: u8) -> Option<&'static Format> {
        FORMATS.get(ROW_OF_FIRST_BYTE[byte as usize] as usize)
    }

    /// The row of `id`.
    pub const fn get(id: FormatId) -> &'static Format {
        &FORMATS[id as usize]
    }

    /// Returns true if this row describes TLPs with this first byte.
    pub const fn matches(&self, first_byte: u8) -> bool {
        first_byte >> 5 == self.fmt && first_byte & WHOLE & self.type_mask == self.type_bits
    }

    /// Length of the header in bytes: 12 or 16.
    pub const fn header_len(&self) -> usize {
        self.header_dw as usize * 4
    }
}

impl Repr {
    /// The row of [`FORMATS`] for this header.
    pub const fn format(&self) -> &'static Format {
        Format::get(self.format_id())
    }

    /// The specification's name of the type: `MRd`, `CplD`, ...
    pub const fn name(&self) -> &'static str {
        self.format().name
    }

    const fn format_id(&self) -> FormatId {
        use FormatId::*;
        match &self.body {
            Body::Memory(m) => {
                let (short, long) = match m.op {
                    MemoryOp::Read => (MRd32, MRd64),
                    MemoryOp::ReadLocked => (MRdLk32, MRdLk64),
                    MemoryOp::Write => (MWr32, MWr64),
                    MemoryOp::WriteDeferrable => (DMWr32, DMWr64),
                };
                by_address(m.span.address(), short, long)
            }
            Body::Io(io) => match io.op {
                Access::Read => IORd,
                Access::Write => IOWr,
            },
            Body::Atomic(a) => {
                let (short, long) = match a.op {
                    AtomicOp::FetchAdd => (FetchAdd32, FetchAdd64),
                    AtomicOp::Swap => (Swap32, Swap64),
                    AtomicOp::CompareSwap => (Cas32, Cas64),
                };
                by_address(a.address, short, long)
            }
            Body::Config(c) => match (c.op, c.kind) {
                (Access::Read, ConfigKind::Type0) => CfgRd0,
                (Access::Write, ConfigKind::Type0) => CfgWr0,
                (Access::Read, ConfigKind::Type1) => CfgRd1,
                (Access::Write, ConfigKind::Type1) => CfgWr1,
            },
            Body::Message(m) if m.length_dw.is_some() => MsgD,
            Body::Message(_) => Msg,
            Body::Completion(c) => match (c.locked, c.length_dw.is_some()) {
                (false, false) => Cpl,
                (false, true) => CplD,
                (true, false) => CplLk,
                (true, true) => CplDLk,
            },
        }
    }
}

// Addresses from 4 GiB on need a header of four DW (`PCIe 5.0 §2.2.4.1`).
const fn by_address(address: u64, short: FormatId, long: FormatId) -> FormatId {
    if address <= u32::MAX as u64 { short } else { long }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_of_row_is_its_index() {
        for (place, row) in FORMATS.iter().enumerate() {
            assert_eq!(row.id as usize, place);
        }
    }

    #[test]
    fn each_first_byte_has_at_most_one_row() {
        for byte in 0..=255u8 {
            let rows = FORMATS.iter().filter(|row| row.matches(byte)).count();
            assert!(rows <= 1, "{byte:#04x} has {rows} rows");
            assert_eq!(Format::of_first_byte(byte).is_some(), rows == 1);
        }
    }

    /// First bytes as in `PCIe 5.0 Table 2-3`. The NetTLP captures also contain 00, 40 and 4a.
    #[test]
    fn first_byte_selects_format() {
        let rows = [
            (0x00, "MRd", 12, false, Class::NonPosted),
            (0x20, "MRd", 16, false, Class::NonPosted),
            (0x40, "MWr", 12, true, Class::Posted),
            (0x60, "MWr", 16, true, Class::Posted),
            (0x04, "CfgRd0", 12, false, Class::NonPosted),
            (0x44, "CfgWr0", 12, true, Class::NonPosted),
            (0x05, "CfgRd1", 12, false, Class::NonPosted),
            (0x45, "CfgWr1", 12, true, Class::NonPosted),
            (0x30, "Msg", 16, false, Class::Posted),
            (0x34, "Msg", 16, false, Class::Posted),
            (0x37, "Msg", 16, false, Class::Posted),
            (0x74, "MsgD", 16, true, Class::Posted),
            (0x0a, "Cpl", 12, false, Class::Completion),
            (0x4a, "CplD", 12, true, Class::Completion),
            (0x01, "MRdLk", 12, false, Class::NonPosted),
            (0x21, "MRdLk", 16, false, Class::NonPosted),
            (0x02, "IORd", 12, false, Class::NonPosted),
            (0x42, "IOWr", 12, true, Class::NonPosted),
            (0x5b, "DMWr", 12, true, Class::NonPosted),
            (0x7b, "DMWr", 16, true, Class::NonPosted),
            (0x4c, "FetchAdd", 12, true, Class::NonPosted),
            (0x6d, "Swap", 16, true, Class::NonPosted),
            (0x4e, "CAS", 12, true, Class::NonPosted),
            (0x0b, "CplLk", 12, false, Class::Completion),
            (0x4b, "CplDLk", 12, true, Class::Completion),
        ];
        for (byte, name, header_len, has_data, class) in rows {
            let f = Format::of_first_byte(byte).unwrap();
            assert_eq!((f.name, f.header_len(), f.has_data, f.class), (name, header_len, has_data, class));
        }
        // TCfgRd, FetchAdd without data, a local prefix, an end-to-end prefix, reserved Fmt 111b.
        for byte in [0x1b, 0x0c, 0x80, 0x91, 0xe0] {
            assert_eq!(Format::of_first_byte(byte), None, "{byte:#04x}");
        }
    }
}
