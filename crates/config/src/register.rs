// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A register whose bits each have an access type (`PCIe 5.0 §7.4`, Table 7-2). Never gives a bit a meaning.

/// How software may change a set of bits, and what a reset does to them (`PCIe 5.0 Table 7-2`). Bits in neither
/// `rw` nor `rw1c` are read-only or HwInit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Access {
    /// RW: software reads and writes.
    pub rw: u32,
    /// RW1C: writing one clears; hardware sets.
    pub rw1c: u32,
    /// The S of ROS, RWS, RW1CS: kept over all but a fundamental reset.
    pub sticky: u32,
    /// Kept over a Function Level Reset, though not sticky (`PCIe 5.0 §6.6.2`).
    pub kept_by_flr: u32,
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
}

/// The bits of the bytes that Byte Enables (bits 3:0) name.
#[must_use]
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
    /// A register that resets to `reset`.
    #[must_use]
    pub const fn new(reset: u32, access: Access) -> Register {
        Register { value: reset, reset, access }
    }

    /// A write by software; returns the bits that changed.
    pub fn write(&mut self, byte_enables: u8, value: u32) -> u32 {
        let named = byte_mask(byte_enables);
        let old = self.value;
        let rw = self.access.rw & named;
        self.value = (old & !rw | value & rw) & !(value & self.access.rw1c & named);
        old ^ self.value
    }

    /// Back to the reset value, but for the bits in `kept`.
    pub fn reset(&mut self, kept: u32) {
        self.value = self.value & kept | self.reset & !kept;
    }
}
