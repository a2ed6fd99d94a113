// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Resizable BAR extended capability (`PCIe 5.0 §7.8.6`): software chooses a BAR's size among the supported ones.

use crate::register::{Register, get, put, structure};

structure! {
    extended 0x0015, 1, "Resizable BAR", "PCIe 5.0 §7.8.6";

    0x04 CAPABILITY "Resizable BAR Capability" {
        31:4 ro SMALL_SIZES "Sizes 1 MiB to 128 TiB Supported";
    }
    0x08 CONTROL "Resizable BAR Control" {
        2:0   ro BAR "BAR Index";
        7:5   ro BARS "Number of Resizable BARs";
        13:8  rw SIZE "BAR Size",
            "sets the BAR's size, and address bits below it to zero" => BAR | RESIZE_BAR;
        31:16 ro LARGE_SIZES "Sizes 256 TiB to 8 EiB Supported";
    }
}

/// Bytes of BAR Size 0: 1 MiB.
const MIB: u64 = 1 << 20;

/// A BAR whose size software may choose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResizableBar {
    /// BAR number.
    pub index: u8,
    /// Supported sizes: bit n is 2^n MiB, n up to 43.
    pub sizes: u64,
}

impl ResizableBar {
    /// Returns a BAR with all sizes from `first` to `last` bytes, powers of two of 1 MiB or more.
    pub const fn range(index: u8, first: u64, last: u64) -> ResizableBar {
        let (low, high) = (encoding(first), encoding(last));
        ResizableBar { index, sizes: (2 << high) - (1 << low) }
    }

    /// True if a BAR of `bytes` is supported.
    pub const fn supports(&self, bytes: u64) -> bool {
        bytes.is_power_of_two() && bytes >= MIB && self.sizes >> encoding(bytes) & 1 == 1
    }
}

/// Encodes a size in bytes for the BAR Size field.
const fn encoding(bytes: u64) -> u32 {
    bytes.ilog2().saturating_sub(MIB.ilog2())
}

/// The BAR's number, and the size in bytes that Resizable BAR Control selects, if it is supported.
pub(crate) fn chosen(capability: u32, control: u32) -> (u8, Option<u64>) {
    let encoded = get(control, SIZE);
    let sizes = u64::from(get(capability, SMALL_SIZES)) | u64::from(get(control, LARGE_SIZES)) << 28;
    let bytes = (encoded < 44 && sizes >> encoded & 1 == 1).then(|| MIB << encoded);
    (get(control, BAR) as u8, bytes)
}

/// Returns the control value for this size. A write of an unsupported size is undone.
pub(crate) fn control_of(control: u32, bytes: u64) -> u32 {
    control & !SIZE | put(SIZE, encoding(bytes))
}

/// The capability's registers, for BARs with their sizes after reset.
pub fn registers(bars: &[(ResizableBar, u64)]) -> Vec<Register> {
    let mut all = vec![TABLE.register(0, 0)];
    for (i, (bar, size)) in bars.iter().enumerate() {
        let number = put(BARS, if i == 0 { bars.len() as u32 } else { 0 });
        let control = u32::from(bar.index) | number | put(LARGE_SIZES, (bar.sizes >> 28) as u32);
        all.push(TABLE.register(CAPABILITY, put(SMALL_SIZES, bar.sizes as u32)));
        all.push(TABLE.register(CONTROL, control_of(control, *size)));
    }
    all
}
