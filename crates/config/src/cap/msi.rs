// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MSI capability (`PCIe 5.0 §7.7.1`): 1 to 32 vectors, 32- or 64-bit address, with or without per-vector masking.
//!
//! ```text
//! 64-bit   32-bit
//! +0       +0    Message Control                   Next           ID 05h
//!                24 Per-Vector Masking, 23 64-bit, 22:20 Multiple Message Enable, 19:17 Multiple Message Capable, 16 Enable
//! +4       +4    Message Address 31:2
//! +8             Message Upper Address
//! +c       +8    -                                 Message Data
//! +10      +c    Mask Bits, with per-vector masking
//! +14      +10   Pending Bits, with per-vector masking
//! ```

use crate::Effects;
use crate::register::{Field, Register, Structure, Word};

/// Capability ID.
pub const ID: u8 = 0x05;

/// MSI Enable.
pub const ENABLE: u32 = 1 << 16;
/// Multiple Message Capable, a shift: the logarithm of the vectors asked for.
pub const CAPABLE_SHIFT: u32 = 17;
/// Multiple Message Enable, a shift: the logarithm of the vectors granted.
pub const ENABLE_SHIFT: u32 = 20;
/// Multiple Message Enable.
pub const MULTIPLE_ENABLE: u32 = 0b111 << ENABLE_SHIFT;
/// 64-bit Address Capable: Message Data stands behind an Upper Address.
pub const CAPABLE_64_BIT: u32 = 1 << 23;
/// Per-Vector Masking Capable.
pub const PER_VECTOR_MASKING: u32 = 1 << 24;

/// The registers, in the order of the 64-bit form.
pub const TABLE: Structure = Structure {
    name: "MSI",
    source: "PCIe 5.0 §7.7.1",
    words: &[
        Word {
            dw: 0,
            name: "Message Control",
            fields: &[
                Field::rw(ENABLE, "MSI Enable", "interrupts are memory writes").tells(Effects::MSI),
                Field::hwinit(0b111 << CAPABLE_SHIFT, "Multiple Message Capable"),
                Field::rw(MULTIPLE_ENABLE, "Multiple Message Enable", "how many vectors are told apart")
                    .tells(Effects::MSI),
                Field::hwinit(CAPABLE_64_BIT, "64-bit Address Capable"),
                Field::hwinit(PER_VECTOR_MASKING, "Per-Vector Masking Capable"),
                Field::ro(0b11 << 25, "Extended Message Data"),
            ],
        },
        Word {
            dw: 1,
            name: "Message Address",
            fields: &[Field::rw(!0b11, "Message Address", "where the write goes").tells(Effects::MSI)],
        },
        Word {
            dw: 2,
            name: "Message Upper Address (64-bit only)",
            fields: &[Field::rw(!0, "Message Upper Address", "where the write goes").tells(Effects::MSI)],
        },
        Word {
            dw: 3,
            name: "Message Data",
            fields: &[Field::rw(0xffff, "Message Data", "what is written; the low bits are the vector")
                .tells(Effects::MSI)],
        },
        Word {
            dw: 4,
            name: "Mask Bits (per-vector masking only)",
            fields: &[Field::rw(!0, "Mask Bits", "holds interrupts of the vector back").tells(Effects::MSI)],
        },
        Word {
            dw: 5,
            name: "Pending Bits (per-vector masking only)",
            fields: &[Field::ro(!0, "Pending Bits")],
        },
    ],
};

/// MSI as a function wants it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MsiLayout {
    /// Vectors asked for: 1, 2, 4, 8, 16 or 32.
    pub vectors: u8,
}

/// What else an MSI capability may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MsiOptions {
    /// Mask and pending bits for each vector.
    pub masking: bool,
    /// Only 32 bits of address.
    pub address_32: bool,
}

/// MSI as software has set it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MsiConfig {
    /// Where the interrupt write goes.
    pub address: u64,
    /// Its data; the low bits are replaced by the vector.
    pub data: u16,
    /// Vectors granted, a power of two from 1 to 32.
    pub vectors: u8,
}

impl MsiLayout {
    pub(crate) fn registers(self, options: MsiOptions) -> Vec<Register> {
        let MsiOptions { masking, address_32 } = options;
        let wide = if address_32 { 0 } else { CAPABLE_64_BIT };
        let mask = if masking { PER_VECTOR_MASKING } else { 0 };
        let capable = self.vectors.trailing_zeros() << CAPABLE_SHIFT;
        let mut all = TABLE.registers(&[(0, capable | wide | mask)]);
        all[4] = all[4].without(if self.vectors < 32 { !0 << self.vectors } else { 0 });
        if !masking {
            all.truncate(4);
        }
        if address_32 {
            all.remove(2);
        }
        all
    }

    pub(crate) const fn is_legal(self) -> bool {
        self.vectors.is_power_of_two() && self.vectors <= 32
    }
}

/// DW of Message Data in a capability with this Message Control; Mask Bits and Pending Bits follow.
#[must_use]
pub const fn data_dw(control: u32) -> u16 {
    if control & CAPABLE_64_BIT == 0 { 2 } else { 3 }
}

/// How many vectors this Message Control asks for.
pub(crate) const fn capable(control: u32) -> u16 {
    1 << (control >> CAPABLE_SHIFT & 0b111)
}

/// What the registers say, of which `word` gives each by its DW, where they say that MSI is enabled. Software that enables more vectors than are capable, or the
/// reserved encodings, gets as many as are capable.
#[must_use]
pub fn config(word: impl Fn(u16) -> u32) -> Option<MsiConfig> {
    let control = word(0);
    if control & ENABLE == 0 {
        return None;
    }
    let capable = control >> CAPABLE_SHIFT & 0b111;
    let enabled = control >> ENABLE_SHIFT & 0b111;
    let upper = if control & CAPABLE_64_BIT == 0 { 0 } else { u64::from(word(2)) << 32 };
    Some(MsiConfig {
        address: u64::from(word(1)) | upper,
        data: word(data_dw(control)) as u16,
        vectors: 1 << enabled.min(capable),
    })
}
