// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Resizable BAR extended capability (`PCIe 5.0 §7.8.6`): software chooses a BAR's size among those supported. Never
//! moves a BAR.
//!
//! ```text
//! +0   31:20 Next, 19:16 version 1, ID 0015h
//! +4   Capability of the first BAR: 31:4 sizes 1 MiB to 128 TiB
//! +8   Control: 31:16 sizes 256 TiB to 8 EiB, 13:8 BAR Size, 7:5 Number of Resizable BARs, 2:0 BAR Index
//! +c   .. the same for the further ones
//! ```

use super::HEADER;
use crate::Effects;
use crate::register::{Field, Register, Structure, Word};

/// Extended capability ID.
pub const ID: u16 = 0x0015;
/// Capability version.
pub const VERSION: u8 = 1;
/// DW of the first Resizable BAR Capability; two DWs for each BAR.
pub const CAPABILITY: u16 = 1;
/// DW of the first Resizable BAR Control.
pub const CONTROL: u16 = 2;

/// Bytes of BAR Size 0: 1 MiB.
const MIB: u64 = 1 << 20;
const SIZE_SHIFT: u32 = 8;
const SIZE: u32 = 0x3f << SIZE_SHIFT;

/// The registers.
pub const TABLE: Structure = Structure {
    name: "Resizable BAR",
    source: "PCIe 5.0 §7.8.6",
    words: &[
        HEADER,
        Word {
            dw: CAPABILITY,
            name: "Resizable BAR Capability",
            fields: &[Field::ro(0xffff_fff0, "Sizes 1 MiB to 128 TiB Supported")],
        },
        Word {
            dw: CONTROL,
            name: "Resizable BAR Control",
            fields: &[
                Field::ro(0b111, "BAR Index"),
                Field::ro(0b111 << 5, "Number of Resizable BARs"),
                Field::rw(SIZE, "BAR Size", "sets the BAR's size, and address bits below it to zero")
                    .tells(Effects::BAR.union(Effects::RESIZE_BAR)),
                Field::ro(0xffff << 16, "Sizes 256 TiB to 8 EiB Supported"),
            ],
        },
    ],
};

/// A BAR whose size software may choose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResizableBar {
    /// BAR number.
    pub index: u8,
    /// Sizes supported: bit n is 2^n MiB, n up to 43.
    pub sizes: u64,
}

impl ResizableBar {
    /// All sizes from `first` to `last` bytes, powers of two of 1 MiB or more.
    #[must_use]
    pub const fn range(index: u8, first: u64, last: u64) -> ResizableBar {
        let (low, high) = (encoding(first), encoding(last));
        ResizableBar { index, sizes: (2 << high) - (1 << low) }
    }

    /// Whether a BAR of `bytes` is among the sizes.
    #[must_use]
    pub const fn supports(&self, bytes: u64) -> bool {
        bytes.is_power_of_two() && bytes >= MIB && self.sizes >> encoding(bytes) & 1 == 1
    }
}

/// BAR Size that says so many bytes.
const fn encoding(bytes: u64) -> u32 {
    bytes.ilog2().saturating_sub(MIB.ilog2())
}

/// The bytes that Resizable BAR Control names, where they are supported, and the BAR's number.
pub(crate) fn chosen(capability: u32, control: u32) -> (u8, Option<u64>) {
    let encoded = (control & SIZE) >> SIZE_SHIFT;
    let sizes = u64::from(capability >> 4) | u64::from(control >> 16) << 28;
    let bytes = (encoded < 44 && sizes >> encoded & 1 == 1).then(|| MIB << encoded);
    ((control & 0b111) as u8, bytes)
}

/// The control that names this size: for a write that is not supported, which changes nothing.
pub(crate) fn control_of(control: u32, bytes: u64) -> u32 {
    control & !SIZE | encoding(bytes) << SIZE_SHIFT
}

/// The capability's registers: BARs with the size that each has after reset.
#[must_use]
pub fn registers(bars: &[(ResizableBar, u64)]) -> Vec<Register> {
    let mut all = vec![HEADER.register(0)];
    for (i, (bar, size)) in bars.iter().enumerate() {
        let number = if i == 0 { bars.len() as u32 & 0b111 } else { 0 };
        let control = u32::from(bar.index) | number << 5 | ((bar.sizes >> 28) as u32) << 16;
        all.push(TABLE.words[1].register((bar.sizes as u32) << 4));
        all.push(TABLE.words[2].register(control_of(control, *size)));
    }
    all
}
