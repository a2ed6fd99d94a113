// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Vendor-specific capability (`PCIe 5.0 §7.9.4`): bytes of the vendor's own, read-only, or registers of the device's.
//!
//! ```text
//! +0   byte 0         Length             Next           ID 09h
//! +4   bytes 1 to 4, and so on
//! ```

use crate::register::{Field, Register, Structure, Word};

/// Capability ID.
pub const ID: u8 = 0x09;
/// Bytes that a capability of the vendor's can hold: Length is a byte and counts three before them.
pub const MAX_BYTES: usize = 252;

const BYTES: &[Field] = &[Field::hwinit(!0, "Vendor-specific bytes")];

/// The registers.
pub const TABLE: Structure = Structure {
    name: "Vendor-Specific",
    source: "PCIe 5.0 §7.9.4",
    words: &[
        Word {
            dw: 0,
            name: "Length, first byte",
            fields: &[Field::hwinit(0xff << 16, "Length"), Field::hwinit(0xff << 24, "Vendor-specific byte")],
        },
        Word { dw: 1, name: "Vendor-specific bytes (as many as there are)", fields: BYTES },
    ],
};

/// What a capability of the vendor's holds behind its Length.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Vendor {
    /// These bytes, read-only.
    Bytes(Vec<u8>),
    /// A byte that is zero, and so many registers of the device's own.
    Device(u8),
}

impl Vendor {
    /// Bytes behind its Length.
    pub(crate) fn len(&self) -> usize {
        match self {
            Vendor::Bytes(bytes) => bytes.len(),
            Vendor::Device(registers) => 1 + 4 * usize::from(*registers),
        }
    }

    /// Its registers; of its bytes, up to [`MAX_BYTES`].
    pub(crate) fn registers(&self) -> Vec<Register> {
        let bytes = match self {
            Vendor::Bytes(bytes) => &bytes[..bytes.len().min(MAX_BYTES)],
            Vendor::Device(_) => &[0],
        };
        let mut all = vec![0, 0, self.len().min(MAX_BYTES) as u8 + 3];
        all.extend_from_slice(bytes);
        all.resize(all.len().next_multiple_of(4), 0);
        let word = |chunk: &[u8]| chunk.iter().rev().fold(0, |word, &b| word << 8 | u32::from(b));
        let mut all: Vec<Register> = all.chunks(4).map(|chunk| Register::of(BYTES, word(chunk))).collect();
        if let Vendor::Device(registers) = self {
            all.resize(all.len() + usize::from(*registers), Register::of_device());
        }
        all
    }
}
