// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Vendor-specific capability (`PCIe 5.0 §7.9.4`): read-only bytes of the vendor, or registers of the device.

use crate::register::{Register, structure};

structure! {
    capability 0x09, "Vendor-Specific", "PCIe 5.0 §7.9.4";

    0x00 _ "Length, first byte" {
        23:16 hwinit LENGTH "Length";
        31:24 hwinit FIRST_BYTE "Vendor-specific byte";
    }
    0x04 BYTES "Vendor-specific bytes (any number)" {
        31:0 hwinit BYTES_OF_DW "Vendor-specific bytes";
    }
}

/// Maximum number of vendor bytes: Length is one byte and also counts the three bytes before them.
pub const MAX_BYTES: usize = 252;

/// Contents of a vendor-specific capability after its Length.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Vendor {
    /// These bytes, read-only.
    Bytes(Vec<u8>),
    /// A zero byte, then this many device registers.
    Device(u8),
}

impl Vendor {
    /// Number of bytes after Length.
    pub(crate) fn len(&self) -> usize {
        match self {
            Vendor::Bytes(bytes) => bytes.len(),
            Vendor::Device(registers) => 1 + 4 * usize::from(*registers),
        }
    }

    /// The capability's registers, with at most [`MAX_BYTES`] of its bytes.
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
