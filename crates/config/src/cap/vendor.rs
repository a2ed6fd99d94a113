// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Vendor-specific capability (`PCIe 5.0 §7.9.4`): bytes of the vendor's own, read-only, or registers of the device's.

use crate::register::{Register, structure};

structure! {
    capability 0x09, "Vendor-Specific", "PCIe 5.0 §7.9.4";

    0x00 _ "Length, first byte" {
        23:16 hwinit LENGTH "Length";
        31:24 hwinit FIRST_BYTE "Vendor-specific byte";
    }
    0x04 BYTES "Vendor-specific bytes (as many as there are)" {
        31:0 hwinit BYTES_OF_DW "Vendor-specific bytes";
    }
}

/// Bytes that a capability of the vendor's can hold: Length is a byte and counts three before them.
pub const MAX_BYTES: usize = 252;

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
        let mut all: Vec<Register> = all.chunks(4).map(|chunk| TABLE.register(BYTES, word(chunk))).collect();
        if let Vendor::Device(registers) = self {
            all.resize(all.len() + usize::from(*registers), Register::of_device());
        }
        all
    }
}
